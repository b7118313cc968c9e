"""The list of sessions: a row each, sorted by a click.

In: sessions, or what they came to. Out: a block. Rows stand in the order of what was paid again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from lore.model.results.overview import Spending
from lore.model.results.page import PageSession
from lore.report.html.blocks import Cell, PageBlock, PageLink, PageTable, amount_of, count
from lore.report.html.session import name_of
from lore.report.overview import share_read
from lore.report.plain import when

Weight: TypeAlias = tuple[float, int, float]
_HEADS = (
    "session", "project", "began", "requests", "cost", "paid again", "unexplained", "tokens paid again", "breaks",
    "read", "largest prompt", "",
)  # fmt: skip
_NUMBERS = frozenset(range(2, 11))


class ListedSession(NamedTuple):
    """A session in the list; `href` leads to its page, empty where it has none; `message`: it could not be read on."""

    path: str
    project: str | None = None
    began: float | None = None
    spending: Spending | None = None
    href: str = ""
    message: str = ""

    @property
    def weight(self) -> Weight:
        """What it lost, for the order: dollars, tokens, its cost."""
        sums = self.spending
        if sums is None:
            return 0.0, 0, 0.0
        return (
            (sums.paid_again or 0.0) + (sums.unexplained or 0.0), sums.paid_again_tokens + sums.unexplained_tokens,
            sums.dollars or 0.0,
        )  # fmt: skip


def row_of(session: PageSession) -> ListedSession:
    """Return a session's row."""
    return ListedSession(session.path, session.project, session.began, session.spending, message=session.message or "")


def list_block(rows: Sequence[ListedSession]) -> PageBlock:
    """Show sessions, those that lost most first."""
    ordered = sorted(rows, key=lambda row: row.weight, reverse=True)
    names = [name_of(row.path) for row in ordered]
    shown = [name if names.count(name) == 1 else row.path for name, row in zip(names, ordered, strict=True)]
    table = PageTable(
        _HEADS, [_row(row, name) for row, name in zip(ordered, shown, strict=True)], _NUMBERS, sortable=True
    )
    return PageBlock(f"Sessions ({len(ordered):,})", table=table)


def _row(row: ListedSession, name: str) -> tuple[Cell, ...]:
    sums, project = row.spending, name_of((row.project or "").replace("\\", "/"))
    session: Cell = PageLink(name, row.href) if row.href else name
    if sums is None:
        return session, project, when(row.began), *("–",) * 8, row.message
    return (
        session, project, when(row.began), count(sums.requests), amount_of(sums.dollars), amount_of(sums.paid_again),
        amount_of(sums.unexplained), count(sums.paid_again_tokens + sums.unexplained_tokens), count(sums.breaks),
        share_read(sums), count(sums.largest_prompt_tokens), row.message,
    )  # fmt: skip
