"""How large pages are: bytes are counted, so that a page of a year's logs still opens."""

from pathlib import Path

import pytest

from cli.running import lore
from pages.sessions import growing, session

FIXED = 9_000  # bytes of a page without turns: its scripts, its headings
TURN, BREAK = 80, 2_600  # bytes of a turn in its table, of a break with both sides and its prompt
DRAWING = 9_000  # of a chain, however long
AGENTS = ("claude-code", "codex", "pi", "copilot")
BAR = 20 / 700  # of the bytes of logs


def size(turns, falls=()):
    session("a.jsonl", growing(turns, falls=falls))
    assert lore("check", "a.jsonl", "--report", "html=out").code in (0, 1)
    return sum(path.stat().st_size for path in Path("out/sessions").iterdir())


def test_page_grows_little_with_turns_and_breaks():
    small, long = size(20), size(520)
    assert small < FIXED + 20 * TURN
    assert long < FIXED + DRAWING + 520 * TURN
    assert size(520, falls=range(100, 120)) - long < 20 * BREAK


def test_hidden_breaks_cost_only_their_row(monkeypatch):
    monkeypatch.setattr("lore.report.html.page.SHOWN_BREAKS", 10)
    assert size(200, falls=range(20, 120)) < FIXED + DRAWING + 200 * TURN * 2 + 10 * BREAK + 100 * 250


@pytest.mark.corpus
def test_pages_of_real_logs_are_small(corpus):
    """Of agents that write one file a session: the smallest log, whose page is relatively large, and a long one."""
    logs = [sorted(corpus.glob(f"{agent}/*.jsonl"), key=lambda path: path.stat().st_size) for agent in AGENTS]
    taken = [path for ordered in logs for path in {ordered[0], ordered[len(ordered) * 3 // 4]}]
    assert lore("check", *map(str, taken), "--report", "html=out").code in (0, 1, 3)
    made = sum(path.stat().st_size for path in Path("out").rglob("*.*"))
    assert made < BAR * sum(path.stat().st_size for path in taken)
