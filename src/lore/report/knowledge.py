"""`lore knowledge list` for a person: one line an entry."""

from __future__ import annotations

from rich.console import Console

from lore.model.results import KnowledgeResult
from lore.report.console import line
from lore.report.timeline import short, write_problem

_STYLES = {"pinned": "green", "delta": "cyan", "waiting": "yellow"}


def write(result: KnowledgeResult, out: Console) -> None:
    """Write the entries and how many there are."""
    width = max((len(one.id) for one in result.knowledge), default=0)
    for one in result.knowledge:
        state = one.state or "-"
        words = ": ".join(filter(None, (one.title, one.content)))
        place = one.category or "General"
        out.print(
            line(
                (f"{state:<7}", _STYLES.get(state, "")), f"  {one.id:<{width}}  ", (place, "bold"), f"  {short(words)}"
            )
        )
    number = len(result.knowledge)
    out.print(line(f"session {result.session}: {number:,} {'entry' if number == 1 else 'entries'} known"))
    for problem in result.problems:
        write_problem(problem, out)
