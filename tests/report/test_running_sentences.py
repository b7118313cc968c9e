"""Sentences on the screen of a running session."""

from __future__ import annotations

import pytest

from lore.model.ledger import LedgerRow
from lore.model.running import LastBreak, RunningTotals
from lore.report.sentences.running import (
    advice,
    break_line,
    expiry_line,
    figures_line,
    session_line,
    turn_cells,
)

NOW = 1_000_000.0
BREAK = LastBreak("LORE114", "waste", 9, NOW - 60, 4500, 0.09, 'hook "Edit" adds text', "a hook adds text", "drop it")
RUNNING = RunningTotals(
    "claude-code", model="claude-opus-5", turn=9, used_at=NOW - 48, prompt_tokens=182_000, read_tokens=181_990,
    stood=181_000, lifetime=300.0, billed=True, requests=9, breaks=1, paid_again_tokens=4500, paid_again_dollars=0.09,
    unexplained_tokens=12, rebilled_dollars=0.09, last_break=BREAK,
)  # fmt: skip


def test_read_share_below_one_never_shows_100():
    assert figures_line(RUNNING) == (
        "prompt 182,000 tokens   read 99.9 %   re-billed 4,512 tokens ($0.09), of it 12 no cause found"
    )
    assert figures_line(RunningTotals("")) == "no usage yet"


@pytest.mark.parametrize(
    ("change", "expiry", "do"),
    [
        ({}, "cache   expires in 4:12 (of 5 minutes, as billed)", "do      drop it"),
        ({"used_at": NOW - 200}, "cache   expires in 1:40 (of 5 minutes, as billed)",
         "do      continue within 1:40, or the next request writes 181,000 tokens again"),
        ({"used_at": NOW - 400}, "cache   expired 1 min ago (of 5 minutes, as billed)",
         "do      the next request writes 181,000 tokens again: start a new session if you do not need the old one"),
        ({"lifetime": 3600.0, "billed": False}, "cache   expires in 59:12 (of an hour, by a dated rule)",
         "do      drop it"),
        ({"lifetime": None},
         "cache   lifetime unknown: neither usage nor a dated rule shows how long this provider keeps it",
         "do      drop it"),
        ({"turn": 10}, "cache   expires in 4:12 (of 5 minutes, as billed)",
         "do      nothing: the last request read the whole cached prompt"),
        ({"requests": 0}, "", ""),
    ],
)  # fmt: skip
def test_expiry_and_advice_follow_the_clock(change, expiry, do):
    running = RUNNING._replace(**change)
    assert (expiry_line(running, NOW), advice(running, NOW)) == (expiry, do)


def test_redacted_break_line_names_no_hook():
    said = break_line(RUNNING, NOW, redact=False)
    assert said == 'break   turn 9, 1 min ago: hook "Edit" adds text; 4,500 tokens ($0.09)  [lore explain LORE114]'
    assert "Edit" not in break_line(RUNNING, NOW, redact=True)
    assert break_line(RUNNING._replace(last_break=None), NOW, redact=False) == "break   none so far"


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
