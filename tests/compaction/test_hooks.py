"""Hooks of a harness: gaps before a turn, cadences behind it, one compaction at a time, and nothing lost."""

from __future__ import annotations

import threading

import pytest

from lore.asking import SummaryAnswer, SummaryError
from lore.compaction.executor import Dependencies
from lore.compaction.extractive import Extractive
from lore.compaction.hooks import Continuous
from lore.compaction.settings import Compaction
from lore.errors import LoreError
from lore.model.items import CompactDivider
from lore.session import event
from lore.store.locks import trylock
from lore.store.session import StoredSession
from lore.store.sqlite import Memory
from lore.untrusted import SourceText
from model.making import ANSWER, said, user

pytestmark = pytest.mark.usefixtures("state")

GAP = Compaction(gap_secs=100, keep_recent=2)
CADENCE = Compaction(continuous_interval=2, keep_recent=2)


class Waiting:
    """A summariser that answers when it is let go."""

    name = "waiting"

    def __init__(self):
        self.go = threading.Event()

    def summarize(self, request):
        assert self.go.wait(10)
        return SummaryAnswer("what went")


class Failing:
    name = "failing"

    def summarize(self, request):
        raise SummaryError("nobody is there")


@pytest.fixture
def kept():
    return begun(Memory())


def begun(store):
    return StoredSession.begin(store, event("session_started", session_id="s1", user_id="ada"))


def exchange(kept, number, at, text="hi"):
    kept.apply(event("append", item=user(f"u{number}", text), at=stamp(at)))
    kept.begin_turn(at=stamp(at))
    kept.apply(event("append", item=said(f"a{number}", ANSWER)))
    kept.apply(event("turn_completed", turn=kept.turns, at=stamp(at + 1)))
    kept.save()


def stamp(at):
    return f"2026-01-01T00:{at // 60:02}:{at % 60:02}Z"


NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def dividers(kept):
    return [one.item for one in kept.session.state.main().entries if isinstance(one.item, CompactDivider)]


def stored(kept):
    """What another process finds in the store."""
    return dividers(StoredSession.open(kept.store, "s1"))


def test_a_gap_is_compacted_before_the_turn_and_saved(kept):
    continuous = Continuous(kept, GAP, Dependencies(Extractive()))
    for number in range(1, 5):
        exchange(kept, number, number)
    assert continuous.before_turn(NOW + 50) is None
    done = continuous.before_turn(NOW + 500)
    assert (done.pruned, done.kept) == (6, 2)
    assert [one.trigger for one in stored(kept)] == ["gap"]
    assert continuous.before_turn(NOW + 500) is None  # there is nothing left to prune


def test_a_session_without_times_says_once_that_no_gap_can_be_judged(kept):
    """A harness that gave no times waited for gaps that never came, and heard nothing."""
    told = []
    continuous = Continuous(kept, GAP, Dependencies(Extractive(), tell=told.append))
    for number in range(1, 5):
        assert continuous.before_turn(NOW + 500 * number) is None
        kept.apply(event("append", item=user(f"u{number}")))
        kept.begin_turn()
        kept.apply(event("append", item=said(f"a{number}")), event("turn_completed", turn=number))
        kept.save()
    assert told == ["gap triggers cannot be judged: the session holds no times"]


def test_outside_context_is_there_for_the_first_answer(kept):
    asked = []
    means = Dependencies(Extractive(), lambda window: asked.append(window) or [SourceText("rain", "it rained")], b"key")
    settings = Compaction(
        gap_secs=100, keep_recent=2, context_sources=(source(),)
    )  # the source itself is never run: `ask` stands for it
    continuous = Continuous(kept, settings, means)
    for number in range(1, 5):
        exchange(kept, number, number)
    done = continuous.before_turn(NOW + 500)
    assert done.context_tokens > 0
    assert asked[0].end == NOW + 500
    kept.apply(event("append", item=user("u9")))
    assert b"it rained" in kept.write(kept.begin_turn().prompt)


@pytest.mark.parametrize("news", ["it rained", ""])
def test_who_comes_back_to_a_short_session_is_told_what_happened_too(kept, news):
    settings = Compaction(gap_secs=100, keep_recent=6, context_sources=(source(),))
    continuous = Continuous(
        kept, settings, Dependencies(Failing(), lambda _: [SourceText("rain", news)] if news else [], b"key")
    )
    exchange(kept, 1, 1)
    before = kept.head
    done = continuous.before_turn(NOW + 500)
    assert (done.trigger, done.pruned, bool(done.events)) == ("gap", 0, bool(news))
    assert (kept.head == before) is (news == "")
    kept.apply(event("append", item=user("u9")))
    assert (b"it rained" in kept.write(kept.begin_turn().prompt)) is (news != "")
    assert dividers(kept) == []


def source():
    from lore.compaction.settings import ContextSource

    return ContextSource("weather", ("never-run",))


def test_a_cadence_works_in_the_background_and_is_applied_by_the_next_call(kept):
    waiting = Waiting()
    continuous = Continuous(kept, CADENCE, Dependencies(waiting))
    for number in range(1, 5):
        exchange(kept, number, number)
    assert continuous.after_turn(NOW + 10) is None
    assert continuous.before_turn(NOW + 11) is None  # it is still at work
    exchange(kept, 5, 11)
    waiting.go.set()
    done = continuous.settle(NOW + 12, wait=True)
    assert (done.pruned, done.kept) == (6, 4)  # what came meanwhile stays
    assert [entry.item.uuid for entry in kept.session.state.main().entries][1:] == ["u4", "a4", "u5", "a5"]
    assert len(stored(kept)) == 1


def test_a_bill_from_before_an_overflow_is_not_held_against_what_it_left(kept):
    """The next call took the billed prompt for one that nothing had gone from, and pruned to the last four as well."""
    for number in range(1, 11):
        exchange(kept, number, number, "x" * 4_000)
    usage = {"uncached_tokens": 0, "read_tokens": 11_000, "write_tokens": 0, "output_tokens": 1}
    kept.apply(event("turn_completed", turn=kept.turns, at=stamp(12), usage=usage))
    kept.save()
    continuous = Continuous(kept, Compaction(window=15_000, summary_tokens=10), Dependencies(Extractive()))
    assert continuous.before_turn(NOW + 13).kept == 10
    assert continuous.before_turn(NOW + 14) is None


def test_what_was_pruned_meanwhile_is_not_pruned_twice(kept):
    waiting, told = Waiting(), []
    continuous = Continuous(kept, CADENCE, Dependencies(waiting, tell=told.append))
    for number in range(1, 5):
        exchange(kept, number, number)
    continuous.after_turn(NOW + 10)
    kept.apply(event("compact_applied", uuid="d", trigger="manual", preserved_uuids=["a4"]))
    kept.save()
    waiting.go.set()
    assert continuous.settle(NOW + 12, wait=True) is None
    assert "has changed meanwhile" in told[-1]
    assert [one.uuid for one in dividers(kept)] == ["d"]


def test_a_summary_that_cannot_be_had_loses_nothing_and_is_tried_again(kept):
    told = []
    for number in range(1, 5):
        exchange(kept, number, number)
    before = kept.head
    assert Continuous(kept, GAP, Dependencies(Failing(), tell=told.append)).before_turn(NOW + 500) is None
    assert (kept.head, dividers(kept)) == (before, [])
    assert "nobody is there" in told[-1]
    assert Continuous(kept, GAP, Dependencies(Extractive())).before_turn(NOW + 500) is not None


def test_of_two_processes_on_one_session_one_compacts(kept):
    for number in range(1, 5):
        exchange(kept, number, number)
    other = StoredSession.open(kept.store, "s1")
    told = []
    assert Continuous(kept, GAP, Dependencies(Extractive())).before_turn(NOW + 500) is not None
    assert Continuous(other, GAP, Dependencies(Extractive(), tell=told.append)).before_turn(NOW + 500) is None
    assert "the store holds more" in told[-1]
    assert len(stored(kept)) == 1


def test_while_another_compacts_for_the_same_agent_and_user_it_is_skipped(kept):
    told = []
    continuous = Continuous(kept, GAP, Dependencies(Extractive(), tell=told.append), agent="a")
    for number in range(1, 5):
        exchange(kept, number, number)
    with trylock("memory:", "a", "ada"):
        assert continuous.before_turn(NOW + 500) is None
    assert "another compaction is at work" in told[-1]
    assert dividers(kept) == []


def test_inside_a_source_nothing_is_compacted(kept):
    told = []
    for number in range(1, 5):
        exchange(kept, number, number)
    means = Dependencies(Extractive(), tell=told.append)
    assert Continuous(kept, GAP, means, environ={"LORE_NESTED": "source"}).before_turn(NOW + 500) is None
    assert "inside a source" in told[0]


def test_settings_that_cannot_be_are_refused(kept):
    with pytest.raises(LoreError, match="keep_recent is below 0"):
        Continuous(kept, Compaction(keep_recent=-1), Dependencies(Extractive()))
    with pytest.raises(LoreError, match="needs a key"):
        Continuous(kept, GAP, Dependencies(Extractive(), lambda _: ()))


@pytest.mark.parametrize("now", [1_767_225_600_000.0, float("nan"), float("inf"), -1.0])
def test_a_time_that_is_none_is_refused_before_anything_is_done(kept, now):
    """A harness that counts in milliseconds met a traceback from the depths, after its sources had been asked."""
    continuous = Continuous(kept, GAP, Dependencies(Extractive()))
    for number in range(1, 5):
        exchange(kept, number, number)
    for hook in (continuous.before_turn, continuous.after_turn):
        with pytest.raises(LoreError, match="not a time in seconds since 1970"):
            hook(now)
    assert stored(kept) == []


def test_what_was_made_in_the_background_is_let_go_of_where_another_wrote_meanwhile(kept):
    told, summarizer = [], Waiting()
    continuous = Continuous(kept, CADENCE, Dependencies(summarizer, tell=told.append))
    for number in range(1, 5):
        exchange(kept, number, number)
    assert continuous.after_turn(NOW + 5) is None
    exchange(StoredSession.open(kept.store, "s1"), 5, 6)
    summarizer.go.set()
    assert continuous.settle(NOW + 7, wait=True) is None
    assert stored(kept) == []
    assert [one for one in told if "the store holds more" in one]


def test_what_was_taken_back_meanwhile_is_not_written_into_a_summary(kept):
    """A rewind while the summary is made: what it was made of is not what would go."""
    told, summarizer = [], Waiting()
    continuous = Continuous(kept, CADENCE, Dependencies(summarizer, tell=told.append))
    for number in range(1, 5):
        exchange(kept, number, number)
    continuous.after_turn(NOW + 5)
    kept.apply(event("remove", uuids=["u3", "a3"]))
    for number in (5, 6):
        exchange(kept, number, number)
    summarizer.go.set()
    assert continuous.settle(NOW + 8, wait=True) is None
    assert dividers(kept) == []
    assert [one for one in told if "has changed meanwhile" in one]
