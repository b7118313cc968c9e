"""The Lore gateway's own content and rows (facts 1.2, 1.3): a provider's message is kept to the byte and replayed.

First what a log of lore's own may hold; then the rows of `session_prompt_deltas` beside a capture.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from cli.running import Ran, lore, put
from lore.model.events import PromptDelta
from lore.model.inserts import insert_texts
from lore.prompt.base import Rules
from model.making import dumps, header, log, record, said, user
from strategies.sessions import Agent

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
