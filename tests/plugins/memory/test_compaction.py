"""A compaction learns first from the entries that it drops; enough new text starts an extraction."""

from compaction.test_executor import firing_of, talk
from helpers.strategies.compacting import Compacted
from lore.compaction.executor import Dependencies, prepare
from lore.compaction.extractive import Extractive
from lore.compaction.settings import Compaction
from lore.model.events import MAIN
from lore_plugins.memory.extraction import is_extraction_due
from plugins.memory.remembering import memory
from plugins.memory.test_agent import Broken


def test_failing_memory_delays_no_compaction():
    heard = []
    broken = memory(Broken(), tell=heard.append)
    state, tracker = talk(4)
    settings = Compaction(keep_recent=2)
    means = Dependencies(Extractive(), memory=broken)
    assert prepare(state, MAIN, firing_of(state, tracker, settings, "manual"), settings, means).summary
    assert "the disk is full" in heard[0]


def test_extraction_is_due_after_tokens_or_calls():
    """More than 0.3 of the window, or 10 tool calls; in openfang the function was never called."""
    timeline = Compacted()
    timeline.user("x" * 1_200)
    assert not is_extraction_due(timeline.entries(), None, 1_000)
    timeline.answer("yyyy")
    assert is_extraction_due(timeline.entries(), None, 1_000)
    assert not is_extraction_due(timeline.entries(), None, 0), "an unknown window has no share"
    timeline = Compacted()
    timeline.calls(9)
    assert not is_extraction_due(timeline.entries(), None, 10**9)
    timeline.calls(1)
    assert is_extraction_due(timeline.entries(), None, 10**9)
