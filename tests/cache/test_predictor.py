"""Which model predicts a turn, and what a change makes of its bill."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lore.cache.predictor import living, sections
from lore.model.events import Billed
from lore.model.prompt import Prompt
from lore.model.turn import Turn

BILL = Billed(3, 0, 22_500, 10, 22_500, 0)


@pytest.mark.parametrize(
    ("pause", "why", "read"), [(3400.0, "goes-on", 22_000), (60.0, "goes-on", 0), (None, "goes-on", 0),
                               (4000.0, "goes-on", 0), (3400.0, "compaction", 0)],
)  # fmt: skip
def test_what_a_pause_lost_counts_as_read_where_it_would_have_lived(pause, why, read):
    """Learned from as it was billed, such a drop became the level of a head, and a compaction fell to it later."""
    situation = SimpleNamespace(pause=pause, stood=22_000, level=SimpleNamespace(why=why))
    found = living(Turn("main", 1, Prompt("anthropic", "reconstructed"), usage=BILL), 3600.0, situation).usage
    assert (found.read_tokens, found.write_tokens) == (read, 22_500 - read)
    assert (found.write_1h_tokens, found.write_5m_tokens) == (found.write_tokens, 0)


@pytest.mark.parametrize(
    "order", ["", "tools", "tools,system", "tools,tools,messages", "a,b,c", "tools,system,messages,x"]
)
def test_an_order_that_is_none_is_not_followed(order):
    assert sections(order) == ()
