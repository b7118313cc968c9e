"""What went wrong in the gateway that had durable deltas first, one test a regression; resets and restarts."""

from __future__ import annotations

import pytest

from helpers.strategies import shapes
from helpers.strategies.sessions import WAYS, Agent
from lore.prompt.base import POLICIES, Rules
from lore.prompt.planning import MOST_DELTAS

SHAPES = [(dialect, Rules(tail=policy)) for dialect in shapes.NAMES for policy in POLICIES]
shaped = pytest.mark.parametrize("shape", SHAPES, ids=[f"{name} {rules.tail}" for name, rules in SHAPES])


def started(shape=("anthropic", None), **more):
    agent = Agent(*shape, **more)
    agent.know("aaaaa1", "one", category="ops", title="A")
    agent.know("bbbbb1", "two", category="ops", title="B")
    said(agent)
    return agent


def said(agent, context=None):
    agent.user()
    turn = agent.turn(context)
    agent.answer()
    return turn


def texts(turn):
    return [shapes.text_of(one) for one in turn.deltas]


def extends(turn, before):
    return turn.stable[: len(before.stable)] == before.stable


# 1.1, in the order in which they happened


@shaped
def test_747_a_change_is_appended_and_nothing_before_it_changes(shape):
    """Each change once rewrote system[2], and the whole conversation behind it was paid for again."""
    agent = started(shape)
    before = agent.turns[-1]
    for number in range(3):
        agent.know("aaaaa1", f"change {number}", "update")
        turn = said(agent)
        assert extends(turn, before)
        assert len(turn.deltas) == number + 1
        before = turn


@shaped
def test_778_a_delta_is_never_rewritten_in_place(shape):
    """One row, replaced at its frozen place with each change, rewrote the middle of the prefix."""
    agent = started(shape)
    agent.know("aaaaa1", "change 1", "update")
    first = texts(said(agent))
    agent.know("aaaaa1", "change 2", "update")
    assert texts(said(agent))[:1] == first


@shaped
def test_786_a_delta_never_comes_between_a_call_and_its_result(shape):
    """A frozen index drifted into a pair, and a filter of orphans then deleted a real call in every turn."""
    agent = started(shape)
    agent.user()
    agent.turn()
    agent.calls(2)
    agent.know("aaaaa1", "change", "update")
    agent.turn()
    agent.calls(1)
    agent.turn()
    agent.answer()
    turn = said(agent)
    kinds = [origin.partition(":")[0] for origin, _ in turn.texts if origin != "context of this turn"]
    assert kinds[-8:] == [
        "assistant", "assistant", "tool", "tool", "assistant", "tool", "assistant", "context_injection", "user",
    ][-8:]  # fmt: skip
    for one in (agent.turns[-2], turn):
        found = shapes.parts(shape[0], one.body)
        made, ended = ([part.text for part in found if part.kind == kind] for kind in ("call", "result"))
        assert made == ended
        assert len(made) == 3


@shaped
def test_954_what_is_not_selected_is_not_removed(shape):
    """A relevance ranking that chose other entries each turn wrote a "removed" each turn: 27 turns, 24 dollars."""
    agent = started(shape)
    for _ in range(5):
        assert said(agent, {"memory_recall": [{"id": "aaaaa1", "title": "A", "content": "one"}]}).deltas == []


@shaped
def test_958_what_was_told_counts_as_known(shape):
    """What a delta had told was compared with the first pin for ever, so every change fired in every turn."""
    agent = started(shape)
    agent.know("aaaaa1", "change", "update")
    for way in (None, *WAYS, None):
        if way:
            agent.restart(way)
        assert len(said(agent).deltas) == 1


@shaped
def test_976_blocks_keep_their_order_and_places(shape):
    """Nudges that were computed anew each turn, and blocks at one index, changed places between turns."""
    agent = started(shape)
    for number in range(4):
        agent.know(f"ccccc{number}", f"entry {number}")
        said(agent)
    orders = [[one.origin for one in turn.deltas] for turn in agent.turns[-4:]]
    assert orders == [[f"context_injection: delta {n}" for n in range(count)] for count in (1, 2, 3, 4)]


@shaped
def test_1013_a_compaction_pins_anew_and_nothing_fires_again(shape):
    """The reset on compression deleted the delta, which then fired again."""
    agent = started(shape)
    agent.know("aaaaa1", "change", "update")
    said(agent)
    agent.compact(1)
    turn = said(agent)
    assert not turn.deltas
    assert "change" in b"".join(turn.head).decode()
    assert "PromptDelta" not in said(agent).new


@shaped
def test_1102_a_pause_or_a_restart_moves_nothing(shape):
    """Resuming after a pause gave every block a new place: the hit rate fell from 100 to 9 per cent."""
    agent = started(shape)
    agent.know("aaaaa1", "change", "update")
    before = said(agent)
    for way in WAYS:
        agent.restart(way)
        turn = said(agent)
        assert extends(turn, before)
        before = turn


@shaped
def test_1315_a_delta_is_never_alone_with_the_model(shape):
    """A lone user message of the gateway's made models answer "Acknowledged": here the real question is last."""
    agent = started(shape)
    agent.know("aaaaa1", "change", "update")
    turn = said(agent)
    last = [origin for origin, _ in turn.texts if origin != "context of this turn"]
    assert last[-2:] == ["context_injection: delta 0", "user"]
    assert agent.turn().texts[-1][0] in ("assistant", "context of this turn")


def test_1320_another_spelling_fires_nothing():
    """Every respelling once counted as a change."""
    agent = started()
    agent.know("aaaaa1", "One.", "update")
    assert "PromptDelta" not in said(agent).new


def test_1490_a_delta_says_nothing_of_caches():
    """Agents took a delta that spoke of replay and caches for a prompt injection."""
    agent = started()
    agent.know("aaaaa1", "change", "update")
    assert "cache" not in texts(said(agent))[0].lower()


@shaped
def test_1502_content_cannot_pass_for_a_delta(shape):
    """A token of the session, announced in system[1], tells a delta from an injection; it differs by session."""
    tokens = set()
    for name in ("s-1", "s-2"):
        agent = started(shape, session_id=name)
        agent.know("aaaaa1", "change", "update")
        line = texts(said(agent))[0].splitlines()[0]
        assert line.encode() in b"".join(agent.turns[-1].head)
        tokens.add(line)
    assert len(tokens) == 2


# 1.6 resets


@shaped
def test_the_ninth_delta_is_a_reset_that_the_log_holds(shape):
    agent = started(shape)
    for number in range(MOST_DELTAS):
        agent.know("aaaaa1", f"change {number}", "update")
        assert "CacheReset" not in said(agent).new
    agent.know("aaaaa1", "the ninth", "update")
    turn = said(agent)
    assert "CacheReset" in turn.new
    assert not turn.deltas
    assert "the ninth" in b"".join(turn.head).decode()
    assert said(agent).head == turn.head
    agent.know("aaaaa1", "the tenth", "update")
    assert [one.origin for one in said(agent).deltas] == [f"context_injection: delta {MOST_DELTAS}"]


@shaped
@pytest.mark.parametrize("what", ["compact", "reset", "cap"])
def test_a_reset_leaves_tools_and_the_first_two_blocks_alone(shape, what):
    agent = started(shape)
    agent.know("ccccc1", "three")
    before = said(agent)
    if what == "cap":
        agent.play([("cram", "main", MOST_DELTAS)])
    else:
        getattr(agent, what)()
    turn = said(agent)
    assert turn.head[:-1] == before.head[:-1]
    assert turn.head[-1] != before.head[-1]


def test_a_reset_without_news_changes_nothing():
    agent = started()
    before = said(agent)
    agent.reset()
    assert extends(said(agent), before)


def test_each_chain_has_its_own_pin_and_its_own_deltas():
    agent = started()
    agent.know("aaaaa1", "change", "update")
    agent.user(chain="agent-1")
    side = agent.turn(chain="agent-1")
    assert not side.deltas
    assert "change" in b"".join(side.head).decode()
    assert len(said(agent).deltas) == 1
    agent.reset("agent-1")
    assert len(said(agent).deltas) == 1


# 1.2 and 1.9: what a restart replays


@shaped
@pytest.mark.parametrize("way", WAYS)
def test_head_is_byte_equal_through_create_update_remove_and_restart(shape, way):
    agent = started(shape)
    head = agent.turns[0].head
    for step in (
        lambda: agent.know("ccccc1", "three"),
        lambda: agent.know("aaaaa1", "change", "update"),
        lambda: agent.forget("bbbbb1"),
        lambda: agent.restart(way),
        lambda: agent.layer("late", "be brief"),
        lambda: agent.restart(way),
    ):
        step()
        assert said(agent, {"current_time": "10:00"}).head == head


@shaped
@pytest.mark.parametrize("way", WAYS)
def test_a_restart_between_a_change_and_its_turn_tells_it_once(shape, way):
    agent, plain = started(shape), started(shape)
    for one in (agent, plain):
        one.know("aaaaa1", "change", "update")
    agent.restart(way)
    assert said(agent).body == said(plain).body
    agent.restart(way)
    assert said(agent).body == said(plain).body


@shaped
def test_a_log_that_lost_what_was_derived_gets_it_back_with_the_next_turn(shape):
    agent = started(shape)
    agent.know("aaaaa1", "change", "update")
    said(agent, {"current_time": "10:00"})
    agent.restart("lost")
    lost = agent.log
    turn = said(agent)
    assert "PromptDelta" in turn.new
    agent.restart("log")
    assert len(agent.log) > len(lost)
    assert extends(said(agent), turn)


@shaped
def test_a_log_that_was_torn_between_a_delta_and_its_turn_goes_on(shape):
    """Of what a turn gives to persist, only the first line reached the disk."""
    agent = started(shape)
    agent.know("aaaaa1", "change", "update")
    whole = agent.log
    agent.user()
    agent.turn()
    lines = agent.log.splitlines(keepends=True)
    torn = len(whole.splitlines()) + 2  # the user's message and the delta
    agent.log = b"".join(lines[:torn])
    agent.restart("log")
    turn = agent.turn()
    assert len(turn.deltas) == 1
    assert turn.prompt.messages == agent.turns[-2].prompt.messages
