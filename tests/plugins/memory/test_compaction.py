"""A compaction learns first from the entries that it drops."""

from compaction.test_executor import talk
from lore.compaction.executor import Compactor, Dependencies
from lore.compaction.extractive import Extractive
from lore.compaction.settings import Compaction
from lore.model.events import MAIN
from plugins.memory.remembering import memory
from plugins.memory.test_agent import Broken


def test_failing_memory_delays_no_compaction():
    heard = []
    broken = memory(Broken(), tell=heard.append)
    state, tracker = talk(4)
    means = Dependencies(Extractive(), memory=broken)
    compactor = Compactor(Compaction(keep_recent=2), means, tracker)
    firing = compactor.due(state.chain(MAIN), ("manual",), None)
    assert compactor.prepare(state, MAIN, firing, None).summary
    assert "the disk is full" in heard[0]
