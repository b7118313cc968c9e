"""Laws of places in assembled prompts: a result directly follows its call, no delta is last, and added text never reads
as a user's turn: after a result it is in the message of the result, or directly before a real user message."""

from __future__ import annotations

from itertools import takewhile

from hypothesis import given

from helpers.strategies import shapes
from helpers.strategies.sessions import Agent, in_every_shape, scripts, setups
from lore.model.items import ToolCall
from lore.prompt.base import AFTER_RESULTS
from lore.prompt.dialects import TEXT

TAIL = "context of this turn"
ADDED = ("context_injection: ", TAIL)


@in_every_shape
@given(scripts(), setups)
def test_result_directly_follows_its_call(script, setup):
    for turn in Agent(*setup).play(script).turns:
        said = [one for one in shapes.parts(setup[0], turn.body) if one.kind != "output"]
        while said:
            calls = list(takewhile(lambda one: one.kind == "call", said))
            results = said[len(calls) : 2 * len(calls)]
            assert calls or said[0].kind != "result"
            assert [(one.kind, one.text) for one in results] == [("result", one.text) for one in calls]
            behind = range(1, len(calls) + 1) if setup[0] in shapes.ITEMS else [1] * len(calls)
            assert [one.message - calls[-1].message for one in results] == list(behind)
            said = said[2 * len(calls) or 1 :]


@in_every_shape
@given(scripts(), setups)
def test_every_call_is_written_once(script, setup):
    for turn in Agent(*setup).play(script).turns:
        held = [one.item for one in turn.state.chain(turn.chain).entries]
        known = [one.call_id for one in held if isinstance(one, ToolCall)]
        said = [one.text for one in shapes.parts(setup[0], turn.body) if one.kind == "call"]
        assert said == ([f"#{number}" for number in range(len(known))] if setup[0] in TEXT else known)


@in_every_shape
@given(scripts(), setups)
def test_delta_and_persisted_context_are_never_last(script, setup):
    for turn in Agent(*setup).play(script).turns:
        stable = [one for one in turn.prompt.messages if one.kind != "envelope"]
        origin = stable[-1].origin if stable else ""
        assert not origin.startswith("context_injection: ") or origin.endswith(AFTER_RESULTS)


@in_every_shape
@given(scripts(), setups)
def test_text_added_after_result_is_no_user_turn(script, setup):
    """If roles alternate, results, a delta and the user's words after it may be one message."""
    for turn in Agent(*setup).play(script).turns:
        said = _placed(turn)
        for at, (message, origin) in enumerate(said):
            if not origin.startswith(ADDED):
                continue
            before = next((one for one in reversed(said[:at]) if not one[1].startswith(ADDED)), (-1, ""))
            after = next((one for one in said[at:] if not one[1].startswith(ADDED)), (-1, ""))
            if before[1] == "tool":
                assert after[1] == "user" or (origin.endswith((TAIL, AFTER_RESULTS)) and message == before[0])
            else:
                assert not origin.endswith(AFTER_RESULTS)


def _placed(turn):
    """Return message number and origin of each block; a tail in the system role is left out."""
    number, found = 0, []
    for one in [*turn.prompt.messages, *turn.prompt.tail]:
        if one.kind == "envelope":
            number += 1
        elif not (turn.prompt.tail and one is turn.prompt.tail[-1] and b"system" in turn.prompt.tail[0].data):
            found.append((number, one.origin))
    return found


@in_every_shape
@given(scripts(), setups)
def test_tail_is_last(script, setup):
    for turn in Agent(*setup).play(script).turns:
        origins = [origin for origin, _ in turn.texts]
        tails = [at for at, one in enumerate(origins) if one == TAIL]
        assert tails in ([], [len(origins) - 1])
