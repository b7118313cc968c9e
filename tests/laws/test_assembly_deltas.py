"""Laws of knowledge and places in assembled prompts.

Knowledge changes only the end, a sent delta stays until a reset, deltas at one place keep their order, a reset pins
knowledge again, and each fact is sent exactly once. A result directly follows its call, no delta is last, and added
text never reads as a user's turn: after a result it is in the message of the result, or directly before a real message.
"""

from functools import cache
from itertools import takewhile

from hypothesis import given

from helpers.strategies import shapes
from helpers.strategies.sessions import DENSE, Agent, in_every_shape, scripts, setups
from lore.model.inserts import signature
from lore.model.items import ToolCall
from lore.model.limits import SESSION_DELTAS
from lore.prompt.base import AFTER_RESULTS
from lore.prompt.dialects import TEXT
from lore.prompt.knowledge import CUT_CHARACTERS
from lore.prompt.layout import is_shared


def _played(script, setup):
    """Return the turns of a script; those of the dense one, which every law tries, are played once."""
    return _densely(setup) if script is DENSE else Agent(*setup).play(script).turns


@cache
def _densely(setup):
    return Agent(*setup).play(DENSE).turns


def _pairs(turns):
    """Yield each turn with the previous one of its chain."""
    last = {}
    for turn in turns:
        if turn.chain in last:
            yield last[turn.chain], turn
        last[turn.chain] = turn


@in_every_shape
@given(scripts(), setups)
def test_turn_without_tail_is_prefix_of_next(script, setup):
    for before, turn in _pairs(_played(script, setup)):
        if not turn.entitled:
            assert turn.head == before.head
            assert turn.stable[: len(before.stable)] == before.stable
            if setup[1].tail == "persist":
                assert not before.prompt.tail


@in_every_shape
@given(scripts(), setups)
def test_reset_keeps_tools_prompt_and_layers(script, setup):
    steps = [step for step in script if step[0] != "change"]
    for before, turn in _pairs(Agent(*setup).play(steps).turns):
        shared = [segment for segment in before.prompt.head if is_shared(segment)]
        assert shared
        assert [segment for segment in turn.prompt.head if is_shared(segment)] == shared


@in_every_shape
@given(scripts(), setups)
def test_deltas_keep_their_order(script, setup):
    for turn in _played(script, setup):
        numbers = [int(delta.origin.split()[2]) for delta in turn.deltas]
        assert numbers == sorted(numbers)
        assert len(set(numbers)) == len(numbers) <= SESSION_DELTAS


@in_every_shape
@given(scripts(), setups)
def test_every_fact_is_sent_exactly_once(script, setup):
    agent = Agent(*setup)
    for step in script:
        agent.play([step])
        for chain in {turn.chain for turn in agent.turns}:
            _assert_sent(agent, chain, setup)
    for chain in {turn.chain for turn in agent.turns}:  # the agent itself has nothing left to send either
        agent.user("w", chain)
        agent.turn(None, chain)
        _send_rest(agent, chain)


def _send_rest(agent, chain):
    """Send long entries that were shown cut, at least one in each turn; short ones are never sent again."""
    long = [fact for fact in agent.turns[-1].state.knowledge.values() if len(fact.content) > CUT_CHARACTERS]
    for _ in range(len(long) + 1):
        agent.user("w", chain)
        if not {"PromptDelta", "CacheReset"} & set(agent.turn(None, chain).new):
            return
    raise AssertionError("the same knowledge is sent again and again")


def _assert_sent(agent, chain, setup):
    """Continue a copy: its first turn shows all waiting facts, and those that it cut follow."""
    copy = Agent(*setup)
    copy.log = agent.log
    copy.restart()
    copy.count = 10_000
    copy.user("u", chain)
    first_turn = copy.turn(None, chain)
    _send_rest(copy, chain)
    text = "\n".join(map(shapes.text_of, first_turn.prompt))
    for fact in first_turn.state.knowledge.values():
        again = [pinned for pinned in first_turn.state.chain(chain).pinned or () if pinned.id == fact.id]
        same = again and signature(again[0].title, again[0].content) == signature(fact.title, fact.content)
        assert fact.content[:40] in text or same


@given(scripts(max_size=8), setups)
def test_restart_before_each_turn_sends_same_bytes(script, setup):
    for way in ("log", "lost"):
        often = [step for following in script for step in (("restart", way), following)]
        whole, broken = Agent(*setup).play(script, restarts=False), Agent(*setup).play(often)
        assert [turn.body for turn in broken.turns] == [turn.body for turn in whole.turns]


TAIL = "context of this turn"
ADDED = ("context_injection: ", TAIL)


@in_every_shape
@given(scripts(), setups)
def test_result_directly_follows_its_call(script, setup):
    for turn in _played(script, setup):
        parts = [part for part in shapes.parts(setup[0], turn.body) if part.kind != "output"]
        while parts:
            calls = list(takewhile(lambda part: part.kind == "call", parts))
            results = parts[len(calls) : 2 * len(calls)]
            assert calls or parts[0].kind != "result"
            assert [(part.kind, part.text) for part in results] == [("result", part.text) for part in calls]
            offsets = range(1, len(calls) + 1) if setup[0] in shapes.ITEMS else [1] * len(calls)
            assert [part.message - calls[-1].message for part in results] == list(offsets)
            parts = parts[2 * len(calls) or 1 :]


@in_every_shape
@given(scripts(), setups)
def test_every_call_is_written_once(script, setup):
    for turn in _played(script, setup):
        items = [entry.item for entry in turn.state.chain(turn.chain).entries]
        call_ids = [item.call_id for item in items if isinstance(item, ToolCall)]
        written_ids = [part.text for part in shapes.parts(setup[0], turn.body) if part.kind == "call"]
        assert written_ids == ([f"#{number}" for number in range(len(call_ids))] if setup[0] in TEXT else call_ids)


@in_every_shape
@given(scripts(), setups)
def test_delta_and_persisted_context_are_never_last(script, setup):
    for turn in _played(script, setup):
        stable = [segment for segment in turn.prompt.messages if segment.kind != "envelope"]
        origin = stable[-1].origin if stable else ""
        assert not origin.startswith("context_injection: ") or origin.endswith(AFTER_RESULTS)


@in_every_shape
@given(scripts(), setups)
def test_text_added_after_result_is_no_user_turn(script, setup):
    """If roles alternate, results, a delta and the user's words after it may be one message."""
    for turn in _played(script, setup):
        placed = _placed(turn)
        for at, (message, origin) in enumerate(placed):
            if not origin.startswith(ADDED):
                continue
            before = next((block for block in reversed(placed[:at]) if not block[1].startswith(ADDED)), (-1, ""))
            after = next((block for block in placed[at:] if not block[1].startswith(ADDED)), (-1, ""))
            if before[1] == "tool":
                assert after[1] == "user" or (origin.endswith((TAIL, AFTER_RESULTS)) and message == before[0])
            else:
                assert not origin.endswith(AFTER_RESULTS)


def _placed(turn):
    """Return message number and origin of each block; a tail in the system role is left out."""
    number, placed = 0, []
    for segment in [*turn.prompt.messages, *turn.prompt.tail]:
        if segment.kind == "envelope":
            number += 1
        elif not (turn.prompt.tail and segment is turn.prompt.tail[-1] and b"system" in turn.prompt.tail[0].data):
            placed.append((number, segment.origin))
    return placed


@in_every_shape
@given(scripts(), setups)
def test_tail_is_last(script, setup):
    for turn in _played(script, setup):
        origins = [name for name, _ in turn.texts]
        tails = [at for at, origin in enumerate(origins) if origin == TAIL]
        assert tails == list(range(len(origins) - len(tails), len(origins)))
        assert len(tails) <= 2  # the author's words, and text that the author quotes
