"""Arguments of requests: the same as the written body, at a cost that grows with new messages."""

import json

import pytest
from hypothesis import given

import lore
from helpers.strategies.sessions import Agent, scripts, setups
from helpers.work import calls
from lore.prompt.dialects import DIALECTS
from lore.sdk.arguments import RequestArguments, arguments_of


@given(scripts(), setups)
def test_arguments_are_those_of_the_written_body(script, setup):
    made = {}
    for turn in Agent(*setup).play(script).turns:
        dialect = DIALECTS.get(turn.prompt.dialect)
        if dialect is not None:
            arguments = made.setdefault(turn.chain, RequestArguments(dialect)).make(turn.prompt)
            assert list(arguments.items()) == list(arguments_of(turn.body, dialect.name).items())


POLICY = lore.CompactionPolicy(window=10**9)
USAGE = {"input_tokens": 900, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 0, "output_tokens": 9}


@pytest.mark.parametrize(
    ("dialect", "policy"), [("anthropic", None), ("openai-responses", None), ("anthropic", POLICY)]
)
def test_request_costs_the_same_in_long_sessions(dialect, policy):
    session, costs = lore.Session("claude-opus-5", dialect=dialect, system="Be brief.", compaction=policy), {}
    for turn in range(1, 2001):
        session.user(f"Question {turn}: which file is it?")
        if turn in (100, 2000):
            costs[turn] = calls(lambda: session.request(current_time="09:00"))
        elif policy:
            session.request(current_time="09:00")
        else:
            session.begin_turn({"current_time": "09:00"})
        if turn in (99, 1999):
            session.request()
        answer = f"It is file {turn}."
        session.assistant(
            {"type": "message", "role": "assistant", "content": answer, "usage": USAGE} if policy else answer
        )
    assert costs[2000] <= 1.5 * costs[100]


def test_changed_last_message_is_not_sent_again():
    session = lore.Session("claude-opus-5")
    session.user("Which file is it?")
    session.request()["messages"][-1]["content"].append({"type": "text", "text": "mine"})
    session.assistant("It is ini.py.")
    session.user("And which line?")
    assert "mine" not in json.dumps(session.request())
