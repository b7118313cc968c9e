"""Ledgers of recordings that say numbers past 64 bits: they are read, and not kept, since no storage holds them."""

from __future__ import annotations

from pathlib import Path

from lore.recording.inputs import inputs
from lore.recording.opening import Options
from lore.run.spending.ledgers import Ledgers

SEED = Path(__file__).resolve().parent.parent / "fuzz" / "corpus" / "numbers-past-64-bits.bin"


def test_a_turn_past_64_bits_ends_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(SEED.read_bytes())
    for _ in range(2):
        ledgers = Ledgers(Options(), str(tmp_path / "cache"))
        ((_, ledger),) = ledgers.each(list(inputs([str(log)])))
        assert ledger.rows[0].number == 2**64
        assert ledgers.taken == 0
