"""Assembly, law: nothing stands between a call and its result, no delta is last, and what lore adds is never read
as a user's turn: behind a tool's result only in the message that carries it, or directly before a real user message."""

from __future__ import annotations

import json

from hypothesis import given

from strategies.sessions import Agent, scripts, setups

ADDED = ("context_injection: ", "context of this turn")


@given(scripts(), setups)
def test_nothing_stands_between_a_call_and_its_result(script, setup):
    for turn in Agent(*setup).play(script).turns:
        messages = json.loads(turn.body)["messages"]
        for number, message in enumerate(messages):
            check = _anthropic if setup[0] == "anthropic" else _chat
            check(message, messages[number + 1 :])


def _anthropic(message, rest):
    calls = [one["id"] for one in message["content"] if one["type"] == "tool_use"]
    if calls:
        assert rest[0]["role"] == "user"
        answered = [one.get("tool_use_id") for one in rest[0]["content"]]
        assert answered[: len(calls)] == calls


def _chat(message, rest):
    calls = [one["id"] for one in message.get("tool_calls", ())]
    assert [(one["role"], one.get("tool_call_id")) for one in rest[: len(calls)]] == [("tool", one) for one in calls]


@given(scripts(), setups)
def test_no_delta_and_no_persisted_context_is_last(script, setup):
    for turn in Agent(*setup).play(script).turns:
        stable = [one for one in turn.prompt.messages if one.kind != "envelope"]
        assert not stable or not stable[-1].origin.startswith("context_injection: ")


@given(scripts(), setups)
def test_what_lore_adds_behind_a_result_is_in_its_message_or_directly_before_the_users_own(script, setup):
    for turn in Agent(*setup).play(script).turns:
        units = _messages(turn)
        for number, (role, origins) in enumerate(units):
            if not number or not all(one.startswith(ADDED) for one in origins) or role == b'"system"':
                continue
            before = next((one for one in units[number - 1 :: -1] if not _all_added(one)), (b"", [""]))
            after = next((one for one in units[number + 1 :] if not _all_added(one)), (b"", [""]))
            if before[1][0] == "tool":
                assert after[1][0] == "user"


def _all_added(unit):
    return all(one.startswith(ADDED) for one in unit[1])


def _messages(turn):
    """Return of each message its role and the origins of its blocks."""
    units = []
    for one in [*turn.prompt.messages, *turn.prompt.tail]:
        if one.kind == "envelope":
            units.append((one.data.partition(b'"role":')[2].partition(b",")[0], []))
        else:
            units[-1][1].append(one.origin)
    return units


@given(scripts(), setups)
def test_the_tail_is_last_and_nothing_else_is(script, setup):
    for turn in Agent(*setup).play(script).turns:
        origins = [origin for origin, _ in turn.texts]
        tails = [at for at, one in enumerate(origins) if one == "context of this turn"]
        assert tails in ([], [len(origins) - 1])
