"""LORE305: writes that are paid for and never read."""

import pytest
from msgspec.structs import replace

from helpers.each import each
from judge.foretelling import SYSTEM, answered_turn, bill, body, chain_codes, chain_findings
from lore.model.evidence import WritesUnread
from lore.run.rules import Dated

TEXTS = ("one", "1", "two", "2", "three", "3", "four")


def talk(*bills, gap=60.0, **fields):
    return [answered_turn(gap * n, body(*TEXTS[: 2 * n + 1], **fields), usage) for n, usage in enumerate(bills)]


NEVER = talk(*(bill(0, 3000 + 20 * n) for n in range(4)))


def test_chain_reading_none_of_its_writes_is_found():
    (finding,) = chain_findings(NEVER)
    assert (finding.code, finding.turn, finding.tokens) == ("LORE305", 1, "recorded")
    assert finding.evidence == WritesUnread(3000 + 3020 + 3040, 3)
    assert "3 turns wrote 9,060 tokens to the cache" in finding.message


@pytest.mark.parametrize(("step", "lost"), [(3000, 0), (600, 1800)])
def test_unread_writes_of_a_cache_break_count_there(step, lost):
    """Each of the falls was LORE301 with its loss, and the same tokens were lost again here."""
    turns = talk(*(bill(0, step) for _ in range(4)))
    (finding,) = chain_findings(turns)
    judge = Dated().judge()
    breaks = [verdict.lost_tokens for turn in turns if (verdict := judge.turn(turn)).leading is not None]
    assert (finding.lost_tokens, sum(breaks)) == (lost, 3 * step - lost)


def test_reads_of_a_foreign_head_do_not_count():
    assert chain_codes(talk(*(bill(2000, 1500 + 20 * n) for n in range(4)))) == ["LORE305"]


@each([
    NEVER[:1],  # the last turn is always unread
    NEVER[:2],  # one fall is LORE301's
    talk(bill(0, 3000), bill(0, 3020), bill(0, 3040), bill(3000, 60)),  # one was read after all
    talk(bill(0, 3000), bill(0, 3020), bill(0, 3040), None),  # so it may have been
    talk(*(bill(0, 3000 + 20 * n) for n in range(4)), gap=400),  # none lived so long
    talk(*(bill(0, 3000 + 20 * n) for n in range(4)), gap=3),  # not readable yet
    talk(*(bill(0, 300) for _ in range(4))),  # too little to speak of
    talk(*(bill(0, 0, 3000) for _ in range(4)), head=None, breakpoint=None),  # nothing was written
    [replace(turn, sent=None, answered=None) for turn in NEVER],
])  # fmt: skip
def test_readable_or_unreadable_writes_are_no_finding(turns):
    assert "LORE305" not in chain_codes(turns)


def test_cause_shown_by_bytes_replaces_the_finding():
    turns = [
        answered_turn(60 * n, body(*TEXTS[: 2 * n + 1], system=f"{SYSTEM} {n}:00"), bill(0, 3000)) for n in range(4)
    ]
    assert chain_codes(turns) == []


def test_entry_read_by_another_chain_is_not_unread():
    aside = answered_turn(500, body("beside"), bill(2500, 60), "side")
    assert "LORE305" not in chain_codes([*NEVER, aside])
    assert "LORE305" in chain_codes(
        [*NEVER, answered_turn(500, body("beside", model="claude-opus-4-8"), bill(2500, 60), "side")]
    )
