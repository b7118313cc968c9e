"""Pruned messages are learnt from first, in all stages of an overflow."""

import pytest

from lore.asking import SummaryAnswer, SummaryError
from lore.compaction.activity import SessionActivity
from lore.compaction.entries import TimelineSizes, tokens_of
from lore.compaction.executor import Compactor, Dependencies, token_scale
from lore.compaction.extractive import Extractive
from lore.compaction.settings import Compaction
from lore.model.events import MAIN
from model.making import Fold, append, event, said, started, user


class Noting:
    """A summariser, and a memory, that note who was asked first."""

    name = "noting"

    def __init__(self, *, fails=False):
        self.order, self.learnt, self.notes, self.fails = [], [], [], fails

    def before_drop(self, entries, stop):
        self.learnt += [entries[at].item.uuid for at in range(stop)]
        self.order.append("learn")

    def summarize(self, request):
        self.order.append("summarize")
        if self.fails:
            raise SummaryError("nobody is there")
        return SummaryAnswer("what went")


def talk(count, *, size=400):
    fold, tracker = Fold(started(session_id="s1")), SessionActivity()
    for number in range(1, count + 1):
        source = {"source": "context_injection"} if number == 2 else {}
        for item in (user(f"u{number}", "x" * size, **source), said(f"a{number}", "y" * size)):
            fold.take(append(item))
            tracker.add(append(item))
    return fold.state, tracker


def prepared(state, tracker, noting, settings, trigger="manual"):
    compactor = Compactor(settings, Dependencies(noting, tell=noting.notes.append, memory=noting), tracker)
    return compactor.prepare(state, MAIN, compactor.due(state.chain(MAIN), (trigger,), None), None)


def test_pruned_messages_are_learnt_before_the_summary():
    noting = Noting()
    prepared(*talk(4), noting, Compaction(keep_recent=4))
    assert (noting.order, noting.learnt) == (["learn", "summarize"], ["u1", "a1", "u2", "a2"])


@pytest.mark.parametrize(("share", "stay"), [(80, 10), (95, 4)])
def test_overflow_learns_from_all_dropped_messages(share, stay):
    state, tracker = talk(12)
    window = 100 * tokens_of(state.chain(MAIN).entries) // share
    noting = Noting(fails=share > 90)
    compaction = prepared(state, tracker, noting, Compaction(window=window, summary_tokens=10), "overflow")
    uuids = [entry.item.uuid for entry in state.chain(MAIN).entries]
    assert noting.learnt == uuids[: len(uuids) - stay]
    assert [
        entry.item.uuid for entry in compaction.firing.pruned
    ] == noting.learnt  # a summary that failed changes nothing of that


def test_overflow_without_model_uses_rule_based_summary():
    state, tracker = talk(12)
    window = 100 * tokens_of(state.chain(MAIN).entries) // 95
    compaction = prepared(state, tracker, Noting(fails=True), Compaction(window=window, summary_tokens=200), "overflow")
    assert compaction.summary.startswith("[System: 20 earlier messages were removed")
    assert "xxxx" in compaction.summary


def test_calm_overflow_needs_a_summary():
    state, tracker = talk(12)
    window = 100 * tokens_of(state.chain(MAIN).entries) // 80
    with pytest.raises(SummaryError, match="nobody is there"):
        prepared(state, tracker, Noting(fails=True), Compaction(window=window, summary_tokens=10), "overflow")


def test_final_overflow_is_reported():
    state, tracker = talk(12)
    noting = Noting()
    for window in (400, 500):
        prepared(state, tracker, noting, Compaction(window=window, summary_tokens=10), "overflow")
    assert noting.notes == ["the messages that stay fill more than 90 % of the window: nothing more can be removed"]


def billed_as(*bills):
    """Fold and track a session with these bills."""
    fold, tracker = Fold(started(session_id="s1")), SessionActivity()
    for number, billed in enumerate(bills, 1):
        usage = {"uncached_tokens": billed, "read_tokens": 0, "output_tokens": 1}
        for record in (
            append(user(f"u{number}", "x" * 400)), event("turn_started", turn=number),
            append(said(f"a{number}")), event("turn_completed", turn=number, usage=usage),
        ):  # fmt: skip
            fold.take(record)
            tracker.add(record)
    return fold.state.chain(MAIN), tracker


def overflow(chain, tracker, settings):
    return Compactor(settings, Dependencies(Extractive()), tracker).due(chain, ("overflow",), None)


def test_kept_entries_are_measured_in_billed_tokens():
    chain, tracker = billed_as(1_100, 1_300, 1_500)
    scale, estimate = token_scale(tracker, chain, TimelineSizes()), tokens_of(chain.entries)
    assert scale.head <= 1_100
    assert scale.rate > 1
    assert scale.prompt(estimate) == pytest.approx(1_500, abs=20)


@pytest.mark.parametrize("bills", [(600, 700, 0), (600, 700, -5), (600, 700, 10**15)])
def test_impossible_usage_is_not_used_for_measuring(bills):
    chain, tracker = billed_as(*bills)
    assert token_scale(tracker, chain, TimelineSizes()).rate == 1
    settings = Compaction(window=360, keep_recent=2, summary_tokens=50)
    assert overflow(chain, tracker, settings).trigger == "overflow"


@pytest.mark.parametrize(("bills", "rate"), [((600, 19_000_000), 4.0), ((600, 601, 40), 0.25)])
def test_billed_rate_has_bounds(bills, rate):
    chain, tracker = billed_as(*bills)
    assert token_scale(tracker, chain, TimelineSizes()).rate == rate


@pytest.mark.parametrize(("window", "fires"), [(2_300, True), (3_000, False)])
def test_window_is_compared_with_billed_tokens(window, fires):
    chain, tracker = billed_as(1_100, 1_500, 1_900)
    settings = Compaction(window=window, summary_tokens=10)
    assert (overflow(chain, tracker, settings) is not None) is fires
