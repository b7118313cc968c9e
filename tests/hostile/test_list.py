"""Damaged and odd recordings, for every command that takes one."""

import json
import os
import sys
from typing import NamedTuple

import pytest

from helpers.matrix import crossed
from hostile.formats import FORMATS, NO_SESSIONS, recording
from hostile.making import BODY, assert_refused

COMMANDS = ("check", "fold", "assemble", "diff-prefix")
FINE: dict[str, tuple[int, ...]] = dict.fromkeys(COMMANDS, (0,))
MISSED = ("LORE204", "LORE206")  # what refers to the line that could not be read
DAMAGED = {**FINE, "check": (1,), "fold": (3,), "diff-prefix": (3,)}


class Odd(NamedTuple):
    """An odd recording: what makes it so, and the code of the problem that is counted, if any."""

    value: bytes = b"1"
    line: bytes | None = None
    begin: bytes = b""
    end: bytes = b"\n"
    code: str | None = None
    is_read: bool = False  # whole, although it has a problem


ODD = {
    "binary": Odd(line=bytes(set(range(256)) - {10}), code="LORE201"),
    "NUL bytes": Odd(line=b"\x00" * 5000, code="LORE201"),
    "NUL in a string": Odd(value=b'"a\x00b"', code="LORE201"),
    "a BOM": Odd(begin=b"\xef\xbb\xbf"),
    "CRLF": Odd(end=b"\r\n"),
    "U+2028 and U+0085": Odd(value='"a\u2028b\u2029c\u0085d"'.encode()),
    "a 2 MB line": Odd(value=b'"%s"' % (b"x" * 2_000_000)),
    "900-deep nesting": Odd(value=b"[" * 900 + b"]" * 900),
    "lone surrogates": Odd(value=b'"\\ud83d and \\ude00"'),
    "integers past 2^64": Odd(value=b"[18446744073709551616,-9223372036854775809,%s]" % (b"9" * 4000)),
    "NaN": Odd(value=b"NaN", code="LORE201"),
    "infinity": Odd(value=b"-Infinity", code="LORE201"),
    "duplicate keys": Odd(value=b'{"a":1,"a":{"b":2,"b":3}}'),
    "bytes that are not UTF-8": Odd(value=b'"\xff\xfe"', code="LORE201"),
    "bare control characters": Odd(value=b'"\x01\x1b[31m"', code="LORE209", is_read=True),
    "surrogates in UTF-8": Odd(value=b'"\xed\xa0\xbd"', code="LORE201"),
    "floats past their range": Odd(value=b"[1e999,-1e999,1e-999]"),
    "blank lines": Odd(end=b"\n\n \n"),
    "a broken escape": Odd(value=b'"\\x"', code="LORE201"),
}


@crossed("odd, command", ODD, COMMANDS)
@pytest.mark.parametrize("format", FORMATS)
def test_odd_recording_is_judged_with_counted_losses(lore, desk, odd, format, command):
    made = ODD[odd]
    data = made.begin + recording(format, value=made.value, line=made.line).replace(b"\n", made.end)
    (desk / "odd").write_bytes(data)
    ended = lore(command, "odd", *(() if command == "assemble" else ("--json",)))
    if format in NO_SESSIONS and command in ("fold", "assemble"):  # no session: refused, whatever is in it
        assert_refused(ended)
        return
    assert ended.code in (DAMAGED if made.code and not made.is_read else FINE)[command], ended
    if command == "assemble":
        json.loads(ended.out.encode("utf-8", "surrogatepass"))
        return
    answers = [json.loads(line) for line in ended.out.splitlines()]
    problems = [one for answer in answers for one in answer["problems"]]
    assert {one["code"] for one in problems} <= ({made.code, *MISSED} if made.code else set())
    assert all(one["file"] == "odd" and one["line"] >= 1 and one["byte"] >= 0 for one in problems)
    if made.code:
        where = next(one for one in problems if one["code"] == made.code)
        assert data[: where["byte"]].count(b"\n") == where["line"] - 1
        assert where["byte"] == 0 or data[where["byte"] - 1 : where["byte"]] == b"\n"


@pytest.mark.parametrize("depth", [300, 900, 2000])
def test_bodies_differing_in_deep_nesting_are_compared(lore, desk, depth):
    for name, spelled in (("a", b"1.0"), ("b", b"1.00"), ("c", b"2")):
        nested = b'{"a":' * depth + spelled + b"}" * depth
        tool = b'"tools":[{"name":"n","input_schema":%s}],' % nested
        (desk / name).write_bytes(BODY.replace(b'"system"', tool + b'"system"'))
    assert lore("diff-prefix", "a", "b", "--json", "--no-tokens").code == 0
    assert lore("diff-prefix", "a", "c", "--json", "--no-tokens").code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_link_to_a_parent_folder_is_not_followed(lore, desk):
    (desk / "folder").mkdir()
    (desk / "folder" / "log").write_bytes(recording("lore"))
    (desk / "folder" / "up").symlink_to(desk / "folder")
    assert json.loads(lore("check", "folder", "--json").out)["summary"]["files"] == 1


@pytest.mark.parametrize("turn", ["0", "5", "999999999999", "agent:1", "main:0"])
@pytest.mark.parametrize("format", FORMATS)
def test_turn_out_of_range_is_refused(lore, desk, format, turn):
    (desk / "log").write_bytes(recording(format) if format != "bodies" else recording(format).split(b"\n")[0])
    assert_refused(lore("diff-prefix", f"log#{turn}", "log"))
    assert_refused(lore("diff-prefix", "log", f"log#{turn}"))
    assert_refused(lore("assemble", f"log#{turn}"))
    if turn.isdigit():
        assert_refused(lore("fold", "log", "--at", turn))


CHAT = (
    b'{"model":"gpt-x","messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}],'
    b'"max_completion_tokens":5}'
)


@pytest.mark.parametrize("chat_first", [True, False])
def test_turns_in_different_dialects_are_unrelated(lore, desk, chat_first):
    (desk / "turn1").write_bytes(CHAT if chat_first else recording("bodies").split(b"\n")[0])
    (desk / "turn2").write_bytes(recording("bodies").split(b"\n")[0] if chat_first else CHAT)
    ended = lore("diff-prefix", "turn1", "turn2", "--json")
    answer = json.loads(ended.out)
    assert (ended.code, answer["relation"]) == (0, "unrelated")
    assert {answer["left"]["dialect"], answer["right"]["dialect"]} == {"anthropic", "openai-chat"}


@pytest.mark.skipif(sys.platform != "linux", reason="names that are no text exist on Linux")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", [b"a#b", b"a b", b"a\nb", b"bad\xff", b"#1", b"a\tb", b"\xed\xa0\x80"])
def test_file_with_any_name_is_judged(lore, desk, name, command):
    path = os.fsdecode(name)
    (desk / path).write_bytes(recording("lore"))
    ended = lore(command, path)
    assert ended.code == 0, ended
    assert "\n" not in ended.err.strip()


NAMES = ("a#1", "a#b:2", "with space.jsonl", "#", "#5", "caf\u00e9.jsonl", "a\nb.jsonl", "-x.jsonl", "[red]x.jsonl",
         "%s{0}.jsonl", "\u202e.jsonl", "'\"`$(id)`.jsonl")  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="such names cannot exist there")
@pytest.mark.parametrize("name", NAMES)
def test_turn_of_file_with_any_name_is_found(lore, desk, name):
    (desk / name).write_bytes(recording("lore"))
    assert lore("assemble", "--", f"{name}#1").code == 0
    assert_refused(lore("assemble", "--", f"{name}#9"))
