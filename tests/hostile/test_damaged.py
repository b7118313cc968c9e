"""Damaged and hostile input, through the whole program: an exit code, one line that says why, never a traceback.

0 fine, 1 findings, 2 not to be read or recognised, 3 incomplete. 70 is a bug in lore, whatever the input was.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import NamedTuple

import pytest

from lore.cli.main import main
from strategies import write

HEADER = b'{"kind":"session_started","session_id":"s","model":"claude-x"}\n'
USER = b'{"kind":"append","item":{"type":"user_message","uuid":"u%d","text":"hi"}}\n'
GOOD = HEADER + USER % 1 + b'{"kind":"turn_started","turn":1}\n'
BODY = b'{"model":"claude-x","max_tokens":5,"system":"s","messages":[{"role":"user","content":"hi"}]}'
READING = (("fold",), ("fold", "--json"), ("assemble",), ("check",), ("check", "--json"), ("diff-prefix", "--json"))
JUDGING = (("fold", "--json"), ("assemble",), ("check", "--json"))


class Ended(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def lore(desk, capsys):
    """Run lore in an empty folder; whatever happens it must not look like a crash."""

    def run(*words: str) -> Ended:
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        assert code != 70, err
        return Ended(code, out, err)

    return run


def assert_refused(ended: Ended) -> None:
    """Exit 2, nothing on standard output, one line with the error, perhaps a place and a hint."""
    lines = ended.err.splitlines()
    assert ended.code == 2, ended
    assert ended.out == ""
    assert lines[0].startswith("error: ")
    assert all(line.startswith(("  --> ", "hint: ")) for line in lines[1:])


# what is no recording, or cannot be read

NOT_RECORDINGS = {
    "empty": b"",
    "blank": b" \n\r\n\t\n",
    "only a BOM": b"\xef\xbb\xbf",
    "binary": bytes(range(256)) * 40,
    "NUL": b"\x00" * 5000,
    "text": b"hello\nworld\n",
    "UTF-16": '{"kind":"session_started"}'.encode("utf-16"),
    "an array": b"[1,2,3]\n",
    "a number": b"5\n",
    "an object of nothing": b'{"a":1}\n',
    "a gzip": b"\x1f\x8b\x08\x00" + b"\x00" * 100,
    "a brace": b"{",
    "braces": b"{" * 5000,
    "brackets": b"[" * 100_000,
    "deep object": b'{"a":' * 100_000,
}


@pytest.mark.parametrize("command", ["fold", "assemble", "check"])
@pytest.mark.parametrize("name", list(NOT_RECORDINGS))
def test_what_is_no_recording_is_refused(lore, desk, command, name):
    (desk / "file").write_bytes(NOT_RECORDINGS[name])
    assert_refused(lore(command, "file"))


@pytest.mark.parametrize("name", list(NOT_RECORDINGS))
def test_two_files_that_hold_no_prompt_are_compared_as_bytes(lore, desk, name):
    (desk / "a").write_bytes(NOT_RECORDINGS[name])
    (desk / "b").write_bytes(NOT_RECORDINGS[name] + b"x")
    ended = lore("diff-prefix", "a", "b", "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["file"]["common_prefix_bytes"] == len(NOT_RECORDINGS[name])


@pytest.mark.parametrize("command", ["fold", "assemble", "check", "diff-prefix"])
def test_a_missing_file_is_refused_with_its_name(lore, command):
    ended = lore(command, "not here.jsonl")
    assert_refused(ended)
    assert "not here.jsonl" in ended.err.splitlines()[0]


@pytest.mark.parametrize("command", ["fold", "assemble", "diff-prefix"])
def test_a_folder_is_refused_where_a_file_is_wanted(lore, desk, command):
    (desk / "folder").mkdir()
    assert_refused(lore(command, "folder"))


def test_a_folder_without_recordings_is_refused(lore, desk):
    (desk / "folder").mkdir()
    (desk / "folder" / "notes.txt").write_bytes(b"hello")
    assert_refused(lore("check", "folder"))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything")
@pytest.mark.parametrize("command", ["fold", "assemble", "check", "diff-prefix"])
def test_a_file_without_permission_is_refused(lore, desk, command):
    (desk / "secret.jsonl").write_bytes(GOOD)
    (desk / "secret.jsonl").chmod(0)
    assert_refused(lore(command, "secret.jsonl"))


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize("command", ["fold", "assemble", "check", "diff-prefix"])
def test_a_file_that_cannot_be_opened_is_refused(lore, desk, command):
    (desk / "loop.jsonl").symlink_to("loop.jsonl")
    assert_refused(lore(command, "loop.jsonl"))


@pytest.mark.parametrize("name", ["a\x00b", "x" * 5000, "", "a/b/c", "\udcff", "#1", "a#", "#", "-#1x"])
@pytest.mark.parametrize("command", ["fold", "assemble", "check", "diff-prefix"])
def test_a_name_that_no_file_can_have_is_refused(lore, command, name):
    assert_refused(lore(command, name))


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_an_unreadable_file_in_a_folder_makes_the_run_incomplete(lore, desk):
    (desk / "folder").mkdir()
    (desk / "folder" / "good.jsonl").write_bytes(GOOD)
    (desk / "folder" / "loop.jsonl").symlink_to("loop.jsonl")
    ended = lore("check", "folder", "--json")
    assert ended.code == 3
    assert json.loads(ended.out)["summary"]["sessions"] == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_a_folder_is_not_waited_for(desk):
    (desk / "folder").mkdir()
    (desk / "folder" / "good.jsonl").write_bytes(GOOD)
    os.mkfifo(desk / "folder" / "pipe.jsonl")
    done = subprocess.run(
        [sys.executable, "-m", "lore", "check", "folder"], capture_output=True, timeout=10, check=False
    )
    assert done.returncode in (0, 3)


def test_files_in_a_folder_that_are_no_recordings_are_counted_and_passed_over(lore, desk):
    (desk / "good.jsonl").write_bytes(GOOD)
    for number, data in enumerate(NOT_RECORDINGS.values()):
        (desk / f"odd{number}").write_bytes(data)
    ended = lore("check", ".", "--json")
    assert (ended.code, json.loads(ended.out)["summary"]["skipped"]) == (0, len(NOT_RECORDINGS))


# what is a recording, damaged

DAMAGED = {
    "truncated in a string": GOOD + b'{"kind":"append","item":{"type":"user_message","uuid":"u2","te',
    "truncated in an escape": GOOD + b'{"kind":"cache_reset","reason":"\\u00',
    "truncated in a character": GOOD + b'{"kind":"cache_reset","reason":"\xe2\x80',
    "binary in the middle": GOOD + bytes(range(256)) + b"\n" + USER % 2,
    "NUL in the middle": GOOD + b"\x00\x00\n" + USER % 2,
    "two objects on a line": GOOD + (USER % 2).strip() + USER % 3,
    "objects and rubbish on a line": GOOD + (USER % 2).strip() + b" and more\n",
    "NaN": GOOD + b'{"kind":"turn_started","turn":NaN}\n{"kind":"opaque","record":[Infinity,-Infinity]}\n',
    "not UTF-8": GOOD + b'{"kind":"cache_reset","reason":"\xff\xfe"}\n',
    "bare control characters": GOOD + b'{"kind":"cache_reset","reason":"\x01\x1b[31m"}\n',
    "surrogates in UTF-8": GOOD + b'{"kind":"cache_reset","reason":"\xed\xa0\xbd"}\n',
}
SOUND = {
    "BOM": b"\xef\xbb\xbf" + GOOD,
    "CRLF": GOOD.replace(b"\n", b"\r\n"),
    "no final newline": GOOD.rstrip(),
    "blank lines": GOOD.replace(b"\n", b"\n\n \n"),
    "U+2028 inside": HEADER
    + '{"kind":"append","item":{"type":"user_message","uuid":"u","text":"a\u2028b\u0085"}}'.encode(),
    "lone surrogates": HEADER + b'{"kind":"append","item":{"type":"user_message","uuid":"u","text":"\\ud83d"}}\n',
    "2 MB line": HEADER
    + write({"kind": "append", "item": {"type": "user_message", "uuid": "u", "text": "x" * 2_000_000}}),
    "900 deep": HEADER + b'{"kind":"opaque","record":' + b"[" * 900 + b"]" * 900 + b"}\n",
    "integers past 2^64": HEADER + b'{"kind":"opaque","record":[18446744073709551616,-99999999999999999999999]}\n',
    "an integer of 5000 digits": HEADER + b'{"kind":"opaque","record":' + b"9" * 4000 + b"}\n",
    "duplicate keys": HEADER + b'{"kind":"cache_reset","reason":"a","reason":"b"}\n',
    "floats past their range": HEADER + b'{"kind":"opaque","record":[1e999,-1e999,1e-999]}\n',
    "an unknown kind": GOOD + b'{"kind":"brand_new","x":1}\n',
}


@pytest.mark.parametrize("name", list(DAMAGED))
def test_damage_in_a_log_is_an_error_or_a_torn_end(lore, desk, name):
    (desk / "log.jsonl").write_bytes(DAMAGED[name])
    checked = json.loads(lore("check", "log.jsonl", "--json").out)
    assert checked["summary"]["problems"] >= 1
    assert all(one["line"] and one["byte"] is not None for one in checked["problems"])


@pytest.mark.parametrize("command", READING, ids=" ".join)
@pytest.mark.parametrize("name", list(DAMAGED))
def test_damage_in_a_log_stops_no_command(lore, desk, command, name):
    (desk / "log.jsonl").write_bytes(DAMAGED[name] + b"\n" + b'{"kind":"turn_started","turn":2}\n')
    assert lore(*command, "log.jsonl").code in (0, 1)


@pytest.mark.parametrize("name", list(SOUND))
def test_what_is_only_unusual_is_no_error(lore, desk, name):
    (desk / "log.jsonl").write_bytes(SOUND[name])
    assert lore("check", "log.jsonl", "--json").code == 0


@pytest.mark.parametrize("command", [*JUDGING, ("fold",), ("check",)], ids=" ".join)
@pytest.mark.parametrize("name", list(SOUND))
def test_what_is_only_unusual_stops_no_command(lore, desk, command, name):
    (desk / "log.jsonl").write_bytes(SOUND[name])
    assert lore(*command, "log.jsonl").code == 0


@pytest.mark.parametrize("depth", [100, 300, 500, 900, 2000, 100_000])
@pytest.mark.parametrize("command", JUDGING, ids=" ".join)
def test_nesting_of_any_depth_stops_no_command(lore, desk, command, depth):
    nested = b'{"a":' * depth + b"1" + b"}" * depth
    call = b'{"kind":"append","item":{"type":"tool_call","uuid":"t","call_id":"c","name":"n","input":%s}}\n' % nested
    (desk / "log.jsonl").write_bytes(GOOD + call + b'{"kind":"turn_started","turn":2}\n')
    assert lore(*command, "log.jsonl").code in (0, 1)


@pytest.mark.parametrize("depth", [300, 900, 2000])
def test_bodies_that_differ_in_something_deeply_nested_are_compared(lore, desk, depth):
    for name, spelled in (("a", b"1.0"), ("b", b"1.00"), ("c", b"2")):
        nested = b'{"a":' * depth + spelled + b"}" * depth
        tool = b'"tools":[{"name":"n","input_schema":%s}],' % nested
        (desk / name).write_bytes(BODY.replace(b'"system"', tool + b'"system"'))
    assert lore("diff-prefix", "a", "b", "--json", "--no-tokens").code == 0
    assert lore("diff-prefix", "a", "c", "--json", "--no-tokens").code == 0


@pytest.mark.parametrize("command", READING, ids=" ".join)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_log_truncated_anywhere_stops_no_command(lore, desk, command, share):
    whole = GOOD + USER % 2 + b'{"kind":"turn_started","turn":2}\n' + USER % 3 + b'{"kind":"turn_started","turn":3}\n'
    (desk / "log.jsonl").write_bytes(whole[: round(len(whole) * share)])
    assert lore(*command, "log.jsonl").code in (0, 1, 2)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 0.99])
def test_a_body_that_is_truncated_is_judged_unreadable(lore, desk, share):
    (desk / "body.json").write_bytes(BODY[: round(len(BODY) * share)])
    ended = lore("check", "body.json", "--json")
    assert ended.code in (1, 2)


# wrong types in every field of every kind

ITEMS = {
    "user_message": {"uuid": "x", "text": "t", "source": "user"},
    "assistant_message": {"uuid": "x", "blocks": [{"type": "text", "text": "t"}], "stop_reason": "s",
                          "response_id": "r"},
    "tool_call": {"uuid": "x", "call_id": "c", "name": "n", "input": {}, "status": "completed", "output": "o",
                  "error": "e", "detail": {}, "response_id": "r"},
    "compact_divider": {"uuid": "x", "trigger": "manual", "pre_tokens": 1, "post_tokens": 1, "summary": "s",
                        "pruned": 1},
    "opaque": {"uuid": "x", "record": {}},
}  # fmt: skip
USAGE = {"fresh_tokens": 1, "read_tokens": 1, "write_tokens": 1, "output_tokens": 1, "write_5m_tokens": 1}
KINDS = {
    "session_started": {"v": 1, "session_id": "s", "model": "m", "dialect": "anthropic", "system": "s", "tools": [{}],
                        "attachments": ["a"], "params": {}, "user_id": "u", "project_id": "p",
                        "parent_session_id": "q"},
    "session_changed": {"model": "m", "system": "s", "tools": [{}], "params": {}},
    "layer": {"name": "n", "when": "every_turn", "text": "t"},
    "append": {"item": {"type": "user_message", **ITEMS["user_message"]}},
    "patch_text": {"uuid": "a1", "delta_text": "t"},
    "patch_tool_call": {"call_id": "c1", "status": "completed", "output": "o", "error": "e", "detail": {}},
    "tool_result_cleared": {"call_ids": ["c1"], "placeholder": "p"},
    "remove": {"uuids": ["nobody"]},
    "compact_started": {"trigger": "manual", "pre_tokens": 1},
    "compact_applied": {"uuid": "d", "trigger": "manual", "pre_tokens": 1, "post_tokens": 1, "preserved_uuids": ["a1"],
                        "summary": "s"},
    "turn_started": {"turn": 2, "at": "2026-01-01T00:00:00Z", "context": {}},
    "turn_completed": {"turn": 1, "at": "2026-01-01T00:00:00Z", "usage": USAGE, "verdict": {"reason": "r"}},
    "turn_failed": {"turn": 1, "usage": USAGE, "error": "e"},
    "turn_canceled": {"turn": 1, "usage": USAGE, "error": "e"},
    "knowledge": {"op": "add", "id": "i", "category": "c", "title": "t", "content": "c"},
    "prompt_delta": {"seq": 0, "selector": {"target": "messages", "insert_at": 0}, "content": []},
    "context_persisted": {"turn": 1, "insert_at": 0, "content": "c"},
    "cache_reset": {"reason": "r"},
    "opaque": {"record": {}},
}  # fmt: skip
EVERY = {"id": 1, "at": "2026-01-01T00:00:00Z", "chain": "main", "agent_id": "a"}
CONTEXT = {"memory_recall": [], "every_turn": [], "current_time": "t", "working_context": {}, "slash_command": "s",
           "overlay": "o", "restart_notice": "r", "extra": []}  # fmt: skip
WRONG = (None, True, -1, 2**70, -(2**70), 10**400, 1.5, 1e300, "", "\ud83d", "\x00", [], [[]], [None], ["\ud83d"], {},
         {"a": 1}, [{"type": "text"}], [{"type": "text", "text": 5}], [{"type": "raw", "json": 5}], [{"id": 1}],
         [{"score": 10**400}], [{"type": "image", "media_type": "a", "data": "b"}], {"type": "nothing"},
         {"project_dir": 5}, {"recent_files": [5]}, {"reason": None})  # fmt: skip
START = (
    {"kind": "session_started", "session_id": "s", "model": "claude-x", "params": {"max_tokens": 5}},
    {"kind": "append", "item": {"type": "user_message", "uuid": "u1", "text": "hi"}},
    {"kind": "turn_started", "turn": 1},
    {"kind": "append", "item": {"type": "assistant_message", "uuid": "a1", "text": "yes"}},
    {"kind": "append", "item": {"type": "tool_call", "uuid": "t1", "call_id": "c1", "name": "n", "input": {}}},
)
END = ({"kind": "turn_started", "turn": 90, "context": {"extra": ["x"]}}, {"kind": "turn_completed", "turn": 90})

FIELDS = [
    *((kind, (field,)) for kind, fields in KINDS.items() for field in (*fields, *EVERY, "kind")),
    *(("append", ("item", item, field)) for item, fields in ITEMS.items() for field in (*fields, "type")),
    *((kind, ("usage", field)) for kind in ("turn_completed", "turn_failed") for field in USAGE),
    *(("turn_completed", ("verdict", field)) for field in ("reason", "missed_tokens", "source")),
    *(("turn_started", ("context", field)) for field in (*CONTEXT, "unknown")),
    *(("prompt_delta", ("selector", field)) for field in ("target", "insert_at")),
]


def _spoiled(kind: str, place: tuple[str, ...], wrong) -> dict:
    record = {"kind": kind, **EVERY, **KINDS[kind]}
    if kind == "knowledge":
        record["id"] = "i"
    match place:
        case (field,):
            record[field] = wrong
        case ("item", item, field):
            record["item"] = {"type": item, **ITEMS[item], field: wrong}
        case (outer, field):
            record[outer] = {**(record.get(outer) or {}), field: wrong}
    return record


@pytest.mark.parametrize("command", JUDGING, ids=" ".join)
@pytest.mark.parametrize("kind", list(KINDS))
def test_wrong_types_in_every_field_of_a_kind_stop_no_command(lore, desk, kind, command):
    odd = [_spoiled(kind, place, wrong) for one, place in FIELDS if one == kind for wrong in WRONG]
    (desk / "log.jsonl").write_bytes(b"\n".join(write(one) for one in (*START, *odd, *END)) + b"\n")
    assert lore(*command, "log.jsonl").code in (0, 1)


@pytest.mark.parametrize("field", ["session_id", "model", "dialect", "system", "tools", "params", "attachments", "v"])
def test_a_wrong_type_in_the_header_stops_no_command(lore, desk, field):
    for number, wrong in enumerate(WRONG):
        header = {**START[0], field: wrong}
        (desk / f"{number}.jsonl").write_bytes(b"\n".join(write(one) for one in (header, *START[1:], *END)))
        if number % 3 == 0:
            assert lore("assemble", f"{number}.jsonl").code == 0
    assert lore("check", ".", "--json").code in (0, 1)


CLAUDE = {"type": "user", "uuid": "x", "parentUuid": None, "isSidechain": False, "agentId": "a", "sessionId": "s",
          "timestamp": "2026-01-01T00:00:00Z", "subtype": "compact_boundary", "isMeta": False,
          "isCompactSummary": False,
          "message": {}, "compactMetadata": {}, "microcompactMetadata": {}}  # fmt: skip
INNER = {
    "message": {"id": "m", "model": "claude-x", "content": [], "stop_reason": "s", "usage": {}, "diagnostics": {}},
    "compactMetadata": {"trigger": "auto", "preTokens": 1, "postTokens": 1, "preservedMessages": {}},
    "microcompactMetadata": {"compactedToolIds": ["c"]},
}
FIRST = {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": "hi"}}
SAID = {
    "type": "assistant",
    "uuid": "a",
    "sessionId": "s",
    "message": {"id": "m0", "model": "claude-x", "content": "yes"},
}


@pytest.mark.parametrize(
    "field", [*CLAUDE, *(f"{outer}.{field}" for outer, fields in INNER.items() for field in fields)]
)
def test_a_wrong_type_in_a_claude_code_log_stops_no_command(lore, desk, field):
    lines = [FIRST, SAID]
    outer, _, inner = field.partition(".")
    for kind in ("user", "assistant", "system", "attachment"):
        for number, wrong in enumerate(WRONG):
            message = {"id": f"m-{kind}-{number}", "model": "claude-x", "content": "x"}
            record = {**CLAUDE, "type": kind, "uuid": f"x-{kind}-{number}", "message": message}
            record[outer] = {**INNER[outer], inner: wrong} if inner else wrong
            lines.append(record)
    last = [{**FIRST, "uuid": "z1"}, {**SAID, "uuid": "z2", "message": {**SAID["message"], "id": "m-last"}}]
    (desk / "log.jsonl").write_bytes(b"\n".join(map(write, [*lines, *last])))
    for command in JUDGING:
        assert lore(*command, "log.jsonl").code in (0, 1), command


PARTS = {
    "user": {"type": "tool_result", "tool_use_id": "c", "content": "x", "is_error": False},
    "assistant": {"type": "tool_use", "id": "c", "name": "n", "input": {}},
    "thinking": {"type": "thinking", "thinking": "t", "signature": "s"},
    "image": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
    "text": {"type": "text", "text": "t"},
}


@pytest.mark.parametrize("part", list(PARTS))
def test_a_wrong_type_in_a_claude_code_block_stops_no_command(lore, desk, part):
    lines = [FIRST, SAID]
    for field in PARTS[part]:
        for number, wrong in enumerate(WRONG):
            kind = "assistant" if part in ("assistant", "thinking", "text") else "user"
            message = {"id": f"m-{field}-{number}", "model": "claude-x", "content": [{**PARTS[part], field: wrong}]}
            lines.append({"type": kind, "uuid": f"x-{field}-{number}", "sessionId": "s", "message": message})
    (desk / "log.jsonl").write_bytes(b"\n".join(map(write, lines)))
    for command in JUDGING:
        assert lore(*command, "log.jsonl").code in (0, 1), command


REQUEST = {"model": "claude-x", "max_tokens": 9, "system": "s", "tools": [{"name": "n", "input_schema": {}}],
           "messages": [{"role": "user", "content": "hi"}], "cache_control": None, "temperature": 1}  # fmt: skip
MESSAGE = {"role": "user", "content": "hi", "name": "n", "tool_calls": [], "tool_call_id": "t", "cache_control": {}}
RECORD = {"request": REQUEST, "response": {"usage": {}}, "usage": {"input_tokens": 1}, "timestamp": 1, "ts": 1}
COUNTERS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens", "prompt_tokens",
            "completion_tokens", "prompt_tokens_details", "cache_creation", "input_tokens_details")  # fmt: skip


BODY_PLACES = [
    *REQUEST,
    "messages.0",
    *(f"messages.{field}" for field in MESSAGE),
    *(f"record.{field}" for field in RECORD),
    *(f"usage.{field}" for field in COUNTERS),
]


@pytest.mark.parametrize("place", BODY_PLACES)
def test_a_wrong_type_in_a_body_stops_no_command(lore, desk, place):
    outer, _, field = place.partition(".")
    lines = [RECORD]
    for wrong in WRONG:
        if outer == "record":
            lines.append({**RECORD, field: wrong})
        elif outer == "usage":
            lines.append({**RECORD, "usage": {**RECORD["usage"], field: wrong}})
        elif field:
            message = wrong if field == "0" else {**MESSAGE, field: wrong}
            lines.append({**RECORD, "request": {**REQUEST, "messages": [MESSAGE, message]}})
        else:
            lines.append({**RECORD, "request": {**REQUEST, outer: wrong}})
    (desk / "log.jsonl").write_bytes(b"\n".join(map(write, [*lines, RECORD, RECORD])))
    assert lore("check", "log.jsonl", "--json").code in (0, 1, 3)
    assert lore("diff-prefix", "log.jsonl", "--json", "--no-tokens").code == 0


# names

NAMES = ("a#1", "a#b:2", "with space.jsonl", "#", "#5", "caf\u00e9.jsonl", "a\nb.jsonl", "-x.jsonl",
         "[red]x.jsonl",          "%s{0}.jsonl", "\u202e.jsonl", "'\"`$(id)`.jsonl")  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="such names cannot exist there")
@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_any_name_can_be_judged(lore, desk, name):
    (desk / name).write_bytes(GOOD)
    for command in (("fold",), ("fold", "--json"), ("assemble",), ("check", "--json"), ("check",)):
        assert lore(*command, "--", name).code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="such names cannot exist there")
@pytest.mark.parametrize("name", NAMES)
def test_a_turn_of_a_file_of_any_name_can_be_named(lore, desk, name):
    (desk / name).write_bytes(GOOD)
    assert lore("assemble", "--", f"{name}#1").code == 0
    assert_refused(lore("assemble", "--", f"{name}#2"))


@pytest.mark.skipif(sys.platform != "linux", reason="names that are no text exist on Linux")
def test_a_file_whose_name_is_no_text_can_be_judged(lore, desk):
    name = os.fsdecode(b"bad\xff.jsonl")
    (desk / name).write_bytes(GOOD)
    ended = lore("check", ".", "--json")
    assert ended.code == 0
    assert_refused(lore("assemble", f"{name}#9"))


# arguments

USAGE_ERRORS = (
    ("nothing",),
    ("fold",),
    ("fold", "a", "b"),
    ("fold", "--at", "x", "a"),
    ("fold", "--pruned", "--unpruned", "good.jsonl"),
    ("fold", "good.jsonl", "--at", "99"),
    ("fold", "body.json"),
    ("assemble", "body.json"),
    ("assemble", "good.jsonl", "--dialect", "latin"),
    ("assemble", "good.jsonl", "--tail", "up"),
    ("assemble", "good.jsonl#1", "--turn", "2"),
    ("assemble", "good.jsonl", "--turn", "99999999999999999999999"),
    ("assemble", "good.jsonl", "--turn", "-1"),
    ("check", "good.jsonl", "--format", "punched cards"),
    ("check", "good.jsonl", "--config", "missing.toml"),
    ("check", "good.jsonl", "--config", "broken.toml"),
    ("check", "good.jsonl", "--config", "unknown.toml"),
    ("diff-prefix", "good.jsonl", "--fail-under", "2"),
    ("diff-prefix", "good.jsonl"),
    ("diff-prefix", "good.jsonl#1"),
    ("diff-prefix", "-", "-"),
    ("explain", "LORE999"),
    ("schema", "nothing"),
)


@pytest.mark.parametrize("words", USAGE_ERRORS, ids=" ".join)
def test_a_wrong_argument_is_refused(lore, desk, words):
    (desk / "good.jsonl").write_bytes(GOOD)
    (desk / "body.json").write_bytes(BODY)
    (desk / "broken.toml").write_bytes(b"[check\n\xff")
    (desk / "unknown.toml").write_bytes(b"[check]\nmin_reuze = 0.5\n")
    assert_refused(lore(*words))


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e400"])
@pytest.mark.parametrize("option", ["--min-reuse", "--fail-under"])
def test_a_share_that_is_none_is_refused(lore, desk, option, value):
    (desk / "good.jsonl").write_bytes(GOOD + USER % 2 + b'{"kind":"turn_started","turn":2}\n')
    assert_refused(lore("check" if option == "--min-reuse" else "diff-prefix", "good.jsonl", option, value))
