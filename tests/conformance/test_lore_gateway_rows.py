"""The Lore gateway's own content and rows (facts 1.2, 1.3): a provider's message is kept to the byte and replayed.

First what a log of lore's own may hold; then the rows of `session_prompt_deltas` beside a capture.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from cli.running import Ran, lore, put
from helpers.strategies.sessions import Agent
from lore.model.events import PromptDelta
from lore.model.inserts import insert_texts
from lore.prompt.base import Rules
from model.making import dumps, header, log, record, said, user

pytestmark = pytest.mark.usefixtures("desk")

USER = b'{"role":"user","content":[{"type":"text","text":"[knowledge] caf\\u00e9 \\/ 1.0"}]}'
CLOSER = b'{"role":"assistant","content":[{"type":"text","text":"*refreshed*"}]}'
PAIR = b"[" + USER + b"," + CLOSER + b"]"


def session(content: bytes, *, dialect="anthropic", turns=2, **selector: Any) -> bytes:
    """A log with a delta before its second prompt."""
    place = {"target": "messages", "insertAt": 2, **selector}
    lines = [
        log(
            header(dialect=dialect, model="claude-opus-5", system="S", params={"max_tokens": 9}),
            record("append", item=user("u1", "one")), record("turn_started", turn=1),
            record("append", item=said("a1", "1")), record("append", item=user("u2", "two")),
        ),
        b'{"kind":"prompt_delta","seq":0,"selector":' + dumps(place) + b',"content":' + content + b"}\n",
    ]  # fmt: skip
    later = range(2, turns + 2)
    lines += [log(record("turn_started", turn=n), record("append", item=said(f"a{n}", "ok")),
                  record("append", item=user(f"u{n + 1}", "more"))) for n in later]  # fmt: skip
    return b"".join(lines)


def messages(ran: Ran) -> bytes:
    """The messages of a body, as they are written."""
    return ran.out.encode().partition(b'"messages":')[2]


# 1.2 content: one message object (legacy) or an array of messages; role and content, a text or blocks


@pytest.mark.parametrize(
    "content",
    [
        USER, PAIR, b'{"role":"user","content":"plain"}', b'[{"content":"plain","role":"user"}]',
        b'{"role": "user", "content": [ {"type": "text", "text": "spaced"} ]}',
        b'{"role":"user","content":[{"text":"t","type":"text"},{"type":"image","source":{"type":"url","url":"u"}}]}',
        b'{"role":"user","name":"lore","content":"named"}',
        b'{"role":"user","content":[{"type":"text","text":"m","cache_control":{"type":"ephemeral"}}]}',
    ],
)  # fmt: skip
def test_the_exact_provider_message_is_replayed_byte_for_byte(content):
    put("s.jsonl", session(content))
    inner = content[1:-1] if content[:1] == b"[" else content
    for turn in (2, 3):
        ran = lore("assemble", f"s.jsonl#{turn}")
        assert ran.code == 0
        assert inner in messages(ran)
        assert "LORE214" not in ran.err


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses"])
def test_a_text_is_every_apis_own_message(dialect):
    put("s.jsonl", session(b'{"role":"user","content":"plain"}', dialect=dialect))
    assert '{"role":"user","content":"plain"}' in lore("assemble", "s.jsonl").out


def test_blocks_of_another_api_say_the_same_in_that_of_the_prompt():
    put("s.jsonl", session(b'{"role":"user","content":[{"type":"text","text":"known"}]}', dialect="openai-responses"))
    assert '{"type":"input_text","text":"known"}' in lore("assemble", "s.jsonl").out
    put("s.jsonl", session(b'{"role":"user","content":[{"text":"known"}]}', dialect="gemini"))
    assert '{"text":"known"}' in lore("assemble", "s.jsonl").out


@pytest.mark.parametrize("dialect", ["gemini", "bedrock", "template"])
def test_apis_whose_roles_alternate_say_it_in_their_own_way(dialect):
    put("s.jsonl", session(PAIR, dialect=dialect))
    ran = lore("assemble", "s.jsonl")
    assert (ran.code, "*refreshed*" in ran.out) == (0, True)


def test_what_was_replayed_once_is_a_prefix_of_the_next_prompt():
    put("s.jsonl", session(b'{"content":"odd order","role":"user"}', turns=5))
    ran = lore("check", "s.jsonl", "--json")
    assert ran.lines[0]["summary"]["waste"] == 0
    put("all.jsonl", lore("assemble", "s.jsonl", "--all").out.encode())
    again = lore("check", "all.jsonl", "--json").lines[0]
    assert (again["summary"]["turns"], again["summary"]["waste"], again["problems"]) == (6, 0, [])


def test_nothing_is_joined_to_a_message_that_was_recorded():
    """The tail of a turn would be lost in a message that is written as one piece."""
    agent = Agent("anthropic", Rules(tail="user"))
    agent.user("one")
    agent.turn()
    agent.answer()
    agent.user("two")
    content = Raw(b'{ "role":"user","content":"spaced" }')
    agent.session.apply(PromptDelta(seq=0, selector=Raw(b'{"target":"messages","insert_at":2}'), content=content))
    turn = agent.turn({"current_time": "noon"})
    assert b'{ "role":"user","content":"spaced" }' in turn.body
    assert b"noon" in turn.body


@pytest.mark.parametrize(
    "content",
    [
        b'{"role":"system","content":"x"}', b'{"role":"user","content":7}', b'{"role":"user","content":[7]}',
        b'{"role":"user"}', b'[{"role":"user","content":"x"},{"role":"user"}]', b'{"role":"user","content":[]}', b"[]",
        b'{"role":"user","content":""}',
    ],
)  # fmt: skip
def test_unparseable_content_is_skipped_with_a_problem_and_never_fatal(content):
    put("s.jsonl", session(content))
    ran = lore("fold", "s.jsonl", "--json")
    assert ran.code == 0
    assert [one["code"] for one in ran.lines[0]["problems"]] == ["LORE214"]
    assert lore("assemble", "s.jsonl").code == 0


def test_the_text_of_a_message_is_what_a_report_can_show():
    blocks = b'{"role":"user","content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]}'
    found = insert_texts(Raw(blocks))
    assert found is not None
    assert (json.loads(found[0].text), found[0].message) == ("a\n\nb", blocks)


# the rows of the table beside a capture: `lore convert CAPTURE --deltas ROWS`


def text(role: str, words: str) -> dict[str, Any]:
    """A message of text."""
    return {"role": role, "content": [{"type": "text", "text": words}]}


def calls(*names: str) -> dict[str, Any]:
    """The model's calls."""
    return {"role": "assistant", "content": [{"type": "tool_use", "id": n, "name": "read", "input": {}} for n in names]}


def results(*names: str) -> dict[str, Any]:
    """Their results."""
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": n, "content": n} for n in names]}


TALK = [text("user" if n % 2 == 0 else "assistant", f"m{n}") for n in range(9)]


def row(seq: int, place: int, words: str = "", *, session: str = "s", **selector: Any) -> dict[str, Any]:
    """A row as `sqlite3 -json` prints it: the JSON columns are texts."""
    content = [text("user", words or f"delta {seq}"), text("assistant", "*refreshed*")]
    chosen = {"target": "messages", "insertAt": place, **selector}
    return {
        "session_id": session, "seq": seq, "project_id": "p", "selector": json.dumps(chosen),
        "content": dumps(content).decode(),
    }  # fmt: skip


def request(*said: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A request that the gateway received."""
    return {"model": "claude-sonnet-4-6", "max_tokens": 4096, "system": [{"type": "text", "text": "S"}],
            "messages": list(said), **more}  # fmt: skip


def replayed(bodies: list[Any], rows: list[Any], *more: str) -> list[list[str]]:
    """The texts of the messages of each request, after the rows were replayed."""
    put("capture.jsonl", *bodies)
    put("rows.json", dumps(rows))
    ran = lore("convert", "capture.jsonl", "--deltas", "rows.json", *more)
    assert ran.code == 0, ran.err
    found = []
    for one in ran.lines:
        one = json.loads(one["request"]) if isinstance(one.get("request"), str) else one.get("request", one)
        found.append([next(iter(block.get(key) for key in ("text", "id", "tool_use_id") if key in block))
                      for said in one["messages"] for block in said["content"]])  # fmt: skip
    return found


def places(rows: list[Any], *said: dict[str, Any]) -> list[str]:
    """Where the rows stand in one request, the closing words left out."""
    return [one for one in replayed([request(*said)], rows)[0] if one != "*refreshed*"]


@pytest.mark.parametrize(
    ("said", "desired", "before"),
    [
        ([text("user", "q"), calls("c"), results("c")], 2, "c"),  # a completed pair: 2 is 1 at most
        ([text("user", "q"), calls("c")], 1, "c"),  # a pending tail
        ([text("user", "q"), calls("c", "d"), results("c", "d"), text("user", "x")], 2, "c"),  # parallel calls
        ([calls("b"), results("b"), calls("c"), results("c"), text("user", "x")], 3, "c"),  # turns of calls in a row
        ([text("user", "q"), text("assistant", "a"), text("user", "x")], 2, "x"),  # text alone: unchanged
    ],
)  # fmt: skip
def test_a_row_never_stands_behind_a_call(said, desired, before):
    found = places([row(0, desired)], *said)
    assert found[found.index("delta 0") + 1] == before


def test_a_stale_index_inside_a_pair_keeps_both_tool_blocks():
    said = [text("user", "q"), calls("c"), results("c"), text("user", "x")]
    assert places([row(0, 2)], *said) == ["q", "delta 0", "c", "c", "x"]


def test_a_chat_result_is_not_parted_from_its_calls():
    chat = [
        {"role": "user", "content": [{"type": "text", "text": "q"}]},
        {"role": "assistant", "content": [], "tool_calls": [{"id": n, "type": "function"} for n in "cd"]},
        *[{"role": "tool", "tool_call_id": n, "content": [{"type": "text", "text": n}]} for n in "cd"],
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
    ]
    put("rows.json", dumps([row(0, 3)]))
    put("capture.jsonl", {"model": "gpt-5", "messages": chat})
    (found,) = lore("convert", "capture.jsonl", "--deltas", "rows.json").lines
    assert [one["role"] for one in found["messages"]] == [
        "user",
        "user",
        "assistant",
        "assistant",
        "tool",
        "tool",
        "user",
    ]


@pytest.mark.parametrize("count", [2, 3])
def test_blocks_at_one_index_keep_their_order(count):
    rows = [row(n, 3) for n in range(count)]
    assert places(rows[::-1], *TALK) == [*["m0", "m1", "m2"], *[f"delta {n}" for n in range(count)],
                                         *[f"m{n}" for n in range(3, 9)]]  # fmt: skip


def test_distinct_positions_are_those_of_the_original_messages():
    found = places([row(0, 2, "AA"), row(1, 5, "BB"), row(2, 8, "CC")], *TALK)
    assert found == ["m0", "m1", "AA", "m2", "m3", "m4", "BB", "m5", "m6", "m7", "CC", "m8"]


def test_mixed_positions_and_one_that_has_to_move():
    said = [text("user", "q"), calls("c"), results("c"), text("assistant", "a"), text("user", "x")]
    assert places([row(0, 2, "AA"), row(1, 1, "BB"), row(2, 4, "CC")], *said) == [
        "q",
        "AA",
        "BB",
        "c",
        "c",
        "a",
        "CC",
        "x",
    ]


def test_a_row_is_never_last():
    assert places([row(0, 0)], text("user", "q")) == ["delta 0", "q"]
    grown = replayed([request(*TALK), request(*TALK[:3])], [row(0, 8)])
    assert [one for one in grown[1] if one != "*refreshed*"] == ["m0", "m1", "delta 0", "m2"]


def test_a_row_is_there_from_the_first_request_that_reaches_behind_its_place():
    grown = replayed([request(*TALK[:n]) for n in (1, 3, 5)], [row(0, 2)])
    assert ["delta 0" in one for one in grown] == [False, True, True]


def test_a_nudge_is_persisted_once_with_all_that_the_selector_says():
    mut = {"changed": [{"id": "e", "h": "1f", "later": 1}], "removed": []}
    said = [text("user", "q"), calls("c"), results("c"), text("user", "x")]
    rows = [row(0, 2, mut=mut, debounceAt=7)]
    put("capture.jsonl", request(*said))
    put("rows.json", dumps(rows))
    saved: list[tuple[bytes, bytes]] = []
    for source in ("rows.json", "first.jsonl", "second.jsonl"):
        target = {"rows.json": "first.jsonl", "first.jsonl": "second.jsonl", "second.jsonl": "third.jsonl"}[source]
        ran = lore("convert", "capture.jsonl", "--deltas", source, "--save-deltas", target, "-o", "o.jsonl", "--force")
        assert ran.code == 0, ran.err
        saved.append((Path(target).read_bytes(), Path("o.jsonl").read_bytes()))
    (found,) = [json.loads(line) for line in saved[0][0].splitlines()]
    assert json.loads(found["selector"]) == {"target": "messages", "insertAt": 1, "mut": mut, "debounceAt": 7}
    assert {**found, "selector": ""} == {**rows[0], "selector": ""}
    assert saved[0] == saved[1] == saved[2]  # the second replay is the third


def test_nothing_but_the_rows_is_new_in_the_bytes():
    body = b'{ "model" : "claude-sonnet-4-6","messages":'
    body += b'[ {"role":"user","content":"\\u00e9 a"} , {"role":"user","content":"b"}],"max_tokens":4096.0}'
    put("capture.json", body)
    said = '{"content":"odd \\u00e9 order","role":"user"}'
    put("rows.json", dumps([{**row(0, 1), "content": said}]))
    out = lore("convert", "capture.json", "--deltas", "rows.json").out.encode()
    assert out == body.replace(b', {"role"', b", " + said.encode() + b',{"role"') + b"\n"


@pytest.mark.parametrize(
    "broken",
    [
        {"selector": "{"}, {"selector": '{"target":"system","insertAt":1}'},
        {"selector": '{"target":"messages","insertAt":-1}'}, {"selector": '{"target":"messages","insertAt":"1"}'},
        {"content": "nonsense"}, {"content": "[]"}, {"content": None}, {"content": '{"role":"user"}'},
        {"content": '[{"role":"user","text":"x"}]'}, {"seq": "one"}, {"session_id": None},
    ],
)  # fmt: skip
def test_a_corrupt_row_is_skipped_with_a_warning_and_never_fatal(broken):
    put("capture.jsonl", request(*TALK))
    put("rows.json", dumps([{**row(0, 1), **broken}, row(1, 2)]))
    ran = lore("convert", "capture.jsonl", "--deltas", "rows.json")
    assert (ran.code, "delta 1" in ran.out, "delta 0" in ran.out) == (0, True, False)
    assert "LORE214" in ran.err
    assert "skipped" in ran.err


def test_a_legacy_row_holds_one_message():
    legacy = {**row(0, 2), "content": dumps(text("user", "old")).decode()}
    assert "old" in places([legacy], *TALK)


def database(name: str, rows: list[dict[str, Any]]) -> None:
    """The table, as the gateway's migrations leave it."""
    connection = sqlite3.connect(name)
    with connection:
        connection.execute(
            "CREATE TABLE session_prompt_deltas (session_id TEXT, seq INTEGER, project_id TEXT, selector TEXT,"
            " content TEXT, created_at INTEGER, PRIMARY KEY (session_id, seq))"
        )
        for one in rows:
            values = [*one.values(), None]
            connection.execute("INSERT INTO session_prompt_deltas VALUES (?, ?, ?, ?, ?, ?)", values)
    connection.close()


def test_rows_come_as_a_list_as_lines_or_as_the_table_itself():
    rows = [row(0, 2, "caf\u00e9"), row(1, 4)]
    put("capture.jsonl", request(*TALK))
    put("list.json", b"[" + b",\n".join(dumps(one) for one in rows) + b"]\n")
    put("lines.jsonl", *rows)
    put(
        "plain.jsonl",
        *[{**one, "selector": json.loads(one["selector"]), "content": json.loads(one["content"])} for one in rows],
    )
    database("gateway.db", rows)
    before = Path("gateway.db").read_bytes()
    outs = {lore("convert", "capture.jsonl", "--deltas", name).out for name in
            ("list.json", "lines.jsonl", "plain.jsonl", "gateway.db", "gateway.db#s")}  # fmt: skip
    assert len(outs) == 1
    assert "caf\u00e9" in outs.pop()
    assert Path("gateway.db").read_bytes() == before


def test_a_file_without_rows_is_an_error_that_says_what_to_give():
    put("capture.jsonl", request(*TALK))
    put("none.json", b"[]")
    put("empty.db", b"SQLite format 3\0" + b"\0" * 100)
    for name in ("none.json", "empty.db", "absent.json", "rows.json#other"):
        ran = lore("convert", "capture.jsonl", "--deltas", name)
        assert (ran.code, ran.out) == (2, ""), name
        assert "error:" in ran.err


def test_rows_of_several_sessions_go_each_to_its_own():
    put("rows.jsonl", row(0, 2, "of a", session="s-one"), row(0, 2, "of b", session="s-two"))
    put("capture.jsonl", *[
        {"request": request(*[text("user" if n % 2 == 0 else "assistant", f"{s}{n}") for n in range(3)]),
         "headers": {"x-session-id": s}, "timestamp": 1_780_000_000 + at}
        for at, s in enumerate(("s-one", "s-two", "s-new"))
    ])  # fmt: skip
    ran = lore("convert", "capture.jsonl", "--deltas", "rows.jsonl")
    assert ["of a" in line for line in ran.out.splitlines()] == [True, False, False]
    assert ["of b" in line for line in ran.out.splitlines()] == [False, True, False]


def test_calls_beside_the_conversation_get_no_rows():
    title = {"model": "claude-haiku-4-5", "max_tokens": 64, "messages": [text("user", n) for n in ("t1", "t2", "t3")]}
    tools = [{"name": "read", "input_schema": {"type": "object"}}]
    found = replayed([request(*TALK[:5], tools=tools), title, request(*TALK[:7], tools=tools)], [row(0, 2)])
    assert ["delta 0" in one for one in found] == [True, False, True]


def test_a_row_that_no_request_reaches_is_named():
    put("capture.jsonl", request(*TALK[:3]))
    put("rows.json", dumps([row(4, 30), row(5, 1)]))
    ran = lore("convert", "capture.jsonl", "--deltas", "rows.json")
    assert ran.code == 0
    assert "row 4 of session 's' is in no request" in ran.err


def test_what_was_replayed_is_judged_as_one_growing_prompt_with_its_bills():
    """The oracle of the gateway (1.9): from turn 2 on, prompts part at their end or not at all."""
    talk = [request(*TALK[:n]) for n in (1, 3, 5, 7, 9)]
    usage = {"input_tokens": 3, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 7, "output_tokens": 2}
    put("capture.jsonl", *[{"request": body, "usage": usage, "timestamp": 1_780_000_000 + 60 * n}
                           for n, body in enumerate(talk)])  # fmt: skip
    put("rows.json", dumps([row(0, 2), row(1, 6)]))
    assert lore("convert", "capture.jsonl", "--deltas", "rows.json", "-o", "out.jsonl").code == 0
    pairs = lore("diff-prefix", "out.jsonl", "--json").lines
    assert [one["relation"] for one in pairs] == ["extension"] * 4
    assert pairs[-1]["billed"]["read_tokens"] == 5
    assert lore("check", "out.jsonl", "--json").lines[0]["summary"]["waste"] == 0


def test_requests_are_written_as_bodies_without_rows_too():
    put("capture.jsonl", request(*TALK))
    assert lore("convert", "capture.jsonl", "--to", "bodies").lines == [request(*TALK)]
    put("s.jsonl", session(USER))
    for wrong in (
        ("s.jsonl", "--to", "bodies"), ("s.jsonl", "--deltas", "s.jsonl"), ("s.jsonl", "--save-deltas", "x"),
        ("capture.jsonl", "--to", "lore", "--deltas", "x"), ("capture.jsonl#1", "--to", "bodies"),
    ):  # fmt: skip
        ran = lore("convert", *wrong)
        assert (ran.code, "hint:" in ran.err) == (2, True), wrong


def test_the_rows_that_are_read_are_never_overwritten():
    put("capture.jsonl", request(*TALK))
    put("rows.json", dumps([row(0, 2)]))
    before = Path("rows.json").read_bytes()
    for names in (("-o", "rows.json"), ("--save-deltas", "rows.json")):
        ran = lore("convert", "capture.jsonl", "--deltas", "rows.json#s", *names, "--force")
        assert (ran.code, "is what is being read" in ran.err) == (2, True)
    assert Path("rows.json").read_bytes() == before
