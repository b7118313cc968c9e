"""Sentences on the screen of a running session."""

import pytest

from lore.commands.watch import advice, session_line, turn_cells
from lore.model.ledger import LedgerRow
from lore.model.running import LastBreak, RunningTotals

NOW = 1_000_000.0
BREAK = LastBreak("LORE114", "waste", 9, NOW - 60, 4500, 0.09, 'hook "Edit" adds text', "a hook adds text", "drop it")
RUNNING = RunningTotals(
    "claude-code", model="claude-opus-5", turn=9, used_at=NOW - 48, prompt_tokens=182_000, read_tokens=181_990,
    stood=181_000, lifetime=300.0, billed=True, requests=9, breaks=1, paid_again_tokens=4500, paid_again_dollars=0.09,
    unexplained_tokens=12, rebilled_dollars=0.09, last_break=BREAK,
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "do"),
    [
        ({}, "do      drop it"),
        ({"used_at": NOW - 200}, "do      continue within 1:40, or the next request writes 181,000 tokens again"),
        ({"used_at": NOW - 400},
         "do      the next request writes 181,000 tokens again: start a new session if you do not need the old one"),
        ({"turn": 10}, "do      nothing: the last request read the whole cached prompt"),
        ({"requests": 0}, ""),
    ],
)  # fmt: skip
def test_advice_follows_the_clock(change, do):
    assert advice(RUNNING._replace(**change), NOW) == do


def test_control_characters_are_printable_on_screen():
    row = LedgerRow(
        chain="\x1b[2Jevil", number=3, line=1, at=1e300, model=None, client="", gateway="", response_id="",
        prompt_tokens=900, uncached_tokens=1, read_tokens=899, write_tokens=0, output_tokens=1, billed=True, spent=None,
        loss=None, appended=None, compacted=False,
    )  # fmt: skip
    cells = turn_cells(row, BREAK._replace(says="x\x07"), redact=False)
    assert all(cell.isprintable() for cell in cells)
    assert cells[2:5] == ("900", "899", "99 %")
    hidden = turn_cells(row, BREAK, redact=True)
    assert hidden[0] == "3"
    assert hidden[-1] == "a hook adds text"
    assert session_line(RUNNING._replace(model="\x1b[31m"), "p\n", "").isprintable()
