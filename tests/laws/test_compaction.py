"""Laws of compaction: history only grows except for its own reset, and knowledge is pinned again after it.

A restarted session sends the same bytes, the log keeps everything, a cut keeps responses whole, an overflow has the
planned result, and nothing is due without settings.
"""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from helpers.strategies.compacting import OUTSIDE, Compacted, plots
from helpers.strategies.sessions import scripts, setups
from lore.compaction.activity import SessionActivity
from lore.compaction.entries import TimelineSizes, is_message, tokens_of
from lore.compaction.executor import compaction_events
from lore.compaction.policy import (
    AFTER_TURN,
    BEFORE_TURN,
    PolicyInput,
    find_due,
    kept_entries,
    opening_entries,
    place_after,
    plan_overflow,
    prunable_entries,
)
from lore.compaction.settings import Compaction
from lore.model import events as e
from lore.model.items import CompactDivider, ToolCall
from lore.model.state import with_streamed_text
from lore.model.times import parse_timestamp
from lore.model.vector import Vector
from lore.prompt.base import Rules
from lore.prompt.layout import is_real
from lore.recording.opening import Options

ADDED = ("context_injection", "context of this turn")
BUSY = [
    ([("know", "add", "abcdef1", "one"), ("exchange", "main", {"current_time": "10:00"}),
      ("loop", "main", [2, 3], [{"current_time": "10:01"}, None], []), ("exchange", "main", None),
      ("know", "update", "abcdef1", "two"), ("exchange", "main", {"memory_recall": "tea"})], ("main", 2, 1, "log")),
    ([("exchange", "main", {"current_time": "11:00"}), ("know", "add", "x", "three"), ("exchange", "main", None),
      ("loop", "main", [1, 4], [{"current_time": "11:01"}], []), ("user", "main", "hi")], ("main", 3, 2, "log")),
    ([("turn", "main", {"current_time": "12:00"}), ("exchange", "main", {"current_time": "12:01"}),
      ("exchange", "main", None)], ("main", 0, 3, "lost")),
    ([("inject", "main"), ("exchange", "main", {"current_time": "13:00"}), ("exchange", "main", None)],
     ("main", 1, None, "")),
]  # fmt: skip


def pairs(agent):
    last = {}
    for turn in agent.turns:
        if turn.chain in last:
            yield last[turn.chain], turn
        last[turn.chain] = turn


@example(BUSY, ("anthropic", Rules(tail="persist")))
@example(BUSY, ("openai-chat", Rules(tail="user")))
@given(plots(), setups)
def test_turn_without_tail_is_prefix_of_next(plot, setup):
    for before, turn in pairs(Compacted(*setup).live(plot)):
        if not turn.entitled:
            assert turn.stable[: len(before.stable)] == before.stable


@example(BUSY, ("anthropic", Rules(tail="persist")))
@given(plots(), setups)
def test_restart_after_compaction_sends_same_bytes(plot, setup):
    whole, broken = Compacted(*setup).live(plot, ways=False), Compacted(*setup).live(plot)
    assert [turn.body for turn in broken.turns] == [turn.body for turn in whole.turns]
    assert [events for events, _, _ in broken.made] == [events for events, _, _ in whole.made]


@example(BUSY, ("anthropic", Rules(tail="system")))
@given(plots(resets=False), setups)
def test_knowledge_is_pinned_again_only_after_compaction(plot, setup):
    for before, turn in pairs(Compacted(*setup).live(plot)):
        chain, had = turn.state.chain(turn.chain), before.state.chain(turn.chain)
        if not turn.entitled:
            assert chain.pinned == had.pinned
        elif not any(isinstance(event, e.CacheReset) for event in turn.events):
            assert chain.pinned == tuple(turn.state.knowledge.values())
            assert not chain.deltas


@example(BUSY, ("anthropic", Rules(tail="persist")))
@given(plots(), setups)
def test_compaction_only_appends_to_log(plot, setup):
    for events, before, after in Compacted(*setup).live(plot, ways=False).made:
        assert after == before + b"".join(e.encode(event) + b"\n" for event in events)


@given(plots(max_size=2), st.integers(0, 4))
def test_same_session_gives_same_compaction(plot, keep):
    agents = [Compacted().live(plot, ways=ways) for ways in (True, False)]
    for agent in agents:
        agent.squeeze(keep, 99)
    first, second = ([[e.encode(event) for event in events] for events, _, _ in agent.made] for agent in agents)
    assert first == second
    names = [event.uuid for events, _, _ in agents[0].made for event in events if isinstance(event, e.CompactApplied)]
    assert len(set(names)) == len(names)


@example(BUSY, ("anthropic", Rules(tail="persist")))
@example(BUSY, ("openai-responses", Rules(tail="system")))
@given(plots(resets=False), setups)
def test_outside_context_directly_precedes_user_message_once(plot, setup):
    for turn in Compacted(*setup).live(plot).turns:
        texts = turn.texts
        for at, (origin, _) in enumerate(texts):
            if origin.startswith("context_injection: outside"):
                assert next(following for following, _ in texts[at:] if not following.startswith(ADDED)) == "user"
        for number in range(4):
            assert sum(OUTSIDE.format(number).encode() in data for _, data in texts) <= 1


def test_outside_and_own_context_are_both_persisted():
    """Both have the number of their turn; the later one was dropped."""
    agent = Compacted("anthropic", Rules(tail="persist"))
    agent.play([("exchange", "main", {"current_time": "9:00"})] * 4)
    agent.user("back again")
    agent.squeeze(2, 7)
    agent.turn({"current_time": "10:00"})
    agent.answer()
    agent.play([("exchange", "main", None)])
    texts = [data for _, data in agent.turns[-1].texts]
    outside = next(at for at, data in enumerate(texts) if OUTSIDE.format(7).encode() in data)
    assert b"10:00" in texts[outside + 1]
    assert b"back again" in texts[outside + 2]


def timeline(script):
    return Compacted().play(script).entries()


keeps = st.integers(0, 8)


@given(scripts(), keeps)
def test_cut_keeps_last_messages_and_whole_responses(script, keep):
    entries = timeline(script)
    pruned = prunable_entries(entries, keep)
    if not pruned:
        return
    stay = kept_entries(entries, pruned)
    assert sorted([*stay, *pruned], key=list(entries).index) == list(entries)
    last = [entry for entry in entries if is_message(entry.item)][-keep:] if keep else []
    assert all(entry in stay for entry in last)
    assert not {entry.group for entry in stay} & {entry.group for entry in pruned}
    assert not any(
        isinstance(pruned_entry.item, ToolCall) and pruned_entry.item.status == "running" for pruned_entry in pruned
    )
    assert any(is_message(entry.item) for entry in pruned)


@given(scripts(), keeps)
def test_cut_in_exchange_names_its_beginning(script, keep):
    entries = timeline(script)
    pruned = prunable_entries(entries, keep)
    opening, place = opening_entries(entries, pruned), place_after(entries, pruned)
    if not opening:
        return
    assert pruned[-len(opening) :] == opening
    assert is_real(opening[0].item) or isinstance(pruned[-len(opening) - 1].item, CompactDivider)
    assert not any(is_real(entry.item) for entry in [*opening[1:], entries[place]])


ODD = [("exchange", "main", None), ("compact", "main", 3), *[("exchange", "main", None)] * 3]


@example([("loop", "main", [4], [None], []), *ODD], 20, 0)  # parts rounded one by one gave a token more
@given(scripts(), st.sampled_from([20, 60, 120, 300, 900]), st.integers(0, 40))
def test_overflow_plan_equals_its_result(script, window, overhead):
    agent = Compacted().play(script)
    for number in range(3):
        agent.calls(2, output="result " * 400 * (number % 2))
    entries = agent.entries()
    plan = plan_overflow(entries, window, overhead=overhead)
    if plan is None:
        assert overhead + tokens_of(entries) <= window * 0.9
        return
    agent.take(compaction_events(agent.session.state, "main", plan, ""))
    after = agent.entries()
    assert overhead + tokens_of(after) == plan.tokens
    assert plan.final == (plan.tokens > window * 0.9)
    remaining_ids = {entry.item.uuid for entry in after}
    drained = [entry.item.uuid for entry in plan.pruned if is_message(entry.item)]
    assert drained == [
        entry.item.uuid for entry in entries if is_message(entry.item) and entry.item.uuid not in remaining_ids
    ]
    assert not drained or f"{len(drained)} earlier messages" in plan.marker


@given(scripts(), st.floats(0, 1e10))
def test_no_trigger_is_due_by_default(script, now):
    agent = Compacted().play(script)
    tracked = SessionActivity(agent.events).chain()
    assert find_due(PolicyInput(tracked, agent.entries(), Compaction(), now)) is None


@given(st.lists(scripts(max_size=4), max_size=4))
def test_incremental_estimate_equals_full_estimate(parts):
    agent, sizes = Compacted(), TimelineSizes()
    for script in parts:
        entries = agent.play(script).entries()
        assert sizes.tokens_of(entries) == tokens_of(entries) == tokens_of(list(entries))
    assert sizes.tokens_of(Vector()) == 0


def test_due_compactions_apply_to_real_recording(recording):
    """Before and after every turn, each due compaction is applied, and the session continues."""
    settings = Compaction(continuous_interval=2, gap_secs=600, window=60_000, summary_tokens=100)
    read, tracker, fired, applied = Options().open(str(recording)), SessionActivity(), 0, 0
    if not read.events:
        pytest.skip("requests, and no session")

    def ask(event, when):
        nonlocal fired, applied
        chain = with_streamed_text(read.state.chain(event.chain))
        activity, at = tracker.chain(event.chain), parse_timestamp(event.at)
        firing = find_due(PolicyInput(activity, chain.entries, settings, at), when)
        if firing is None:
            return
        fired += 1
        stay, pruned = kept_entries(chain.entries, firing.pruned), firing.pruned
        assert not {entry.group for entry in stay} & {entry.group for entry in pruned}
        for compaction_event in compaction_events(read.state, event.chain, firing, "so far", at=event.at):
            assert read._folding.apply(compaction_event) == ()
            tracker.add(compaction_event)
            applied += isinstance(compaction_event, e.CompactApplied)
        after = read.state.chain(event.chain).entries
        assert [entry.item.uuid for entry in after.since(1)] == [entry.item.uuid for entry in stay] or not pruned

    for reading in read.reads():
        event = reading.value
        if isinstance(event, e.TurnStarted):
            ask(event, BEFORE_TURN)
        read.apply(reading, event)
        tracker.add(event)
        applied += isinstance(event, e.CompactApplied)
        if isinstance(event, e.TurnCompleted):
            ask(event, AFTER_TURN)
    assert fired == applied - len(read.boundaries)
