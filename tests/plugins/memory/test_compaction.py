"""What a compaction drops is learnt from first; enough new text is worth an extraction."""

from __future__ import annotations

from compaction.test_executor import firing_of, talk
from conformance.test_openfang import Compacted
from helpers.storing import opened
from lore.compaction.activity import Tracker
from lore.compaction.executor import Dependencies, prepare
from lore.compaction.extractive import Extractive
from lore.compaction.settings import Compaction
from lore.model.events import MAIN
from lore_plugins.memory.buckets import read
from lore_plugins.memory.extraction import needs_extraction, to_learn
from model.making import ANSWER, Fold, append, said, started, user
from plugins.memory.remembering import ANN, memory
from plugins.memory.test_agent import Broken


def test_a_memory_that_fails_holds_up_no_compaction(tmp_path):
    heard = []
    broken = memory(Broken(), tmp_path, tell=heard.append)
    state, tracker = talk(4)
    settings = Compaction(keep_recent=2)
    means = Dependencies(Extractive(), memory=broken)
    assert prepare(state, MAIN, firing_of(state, tracker, settings, "manual"), settings, means).summary
    assert "the disk is full" in heard[0]


def test_what_was_said_and_is_pruned_is_known_afterwards(tmp_path):
    store = opened("memory", tmp_path)
    made, tracker = Fold(started(session_id="s1")), Tracker()
    for item in (user("u1", "I prefer tabs over spaces."), said("a1", ANSWER), user("u2", "and now?"), said("a2")):
        made.take(append(item))
        tracker.feed(append(item))
    settings = Compaction(keep_recent=2)
    means = Dependencies(Extractive(), memory=memory(store, tmp_path))
    prepare(made.state, MAIN, firing_of(made.state, tracker, settings, "manual"), settings, means)
    assert read(store, ANN).structure.preferences == ("I prefer tabs over spaces.",)
    store.close()


def test_injected_entries_are_not_learnt_from():
    state, _ = talk(4)
    given = to_learn(state.chain(MAIN).entries, None, 4)
    assert [entry.item.uuid for entry in given.entries] == ["u1", "a1", "a2"]


def test_enough_tokens_or_calls_are_worth_an_extraction():
    """openfang's needs_extraction was dead code: more than 0.3 of the window, or 10 tool calls."""
    made = Compacted()
    made.user("x" * 1_200)
    assert not needs_extraction(made.entries(), 1_000)
    made.answer("yyyy")
    assert needs_extraction(made.entries(), 1_000)
    made = Compacted()
    made.calls(9)
    assert not needs_extraction(made.entries(), 10**9)
    made.calls(1)
    assert needs_extraction(made.entries(), 10**9)


def test_unknown_window_has_no_share_to_exceed():
    made = Compacted()
    made.user("x" * 4_000)
    assert not needs_extraction(made.entries(), 0)
