"""Sessions of a page: their rows in the list, and their details."""

from __future__ import annotations

import os
from typing import NamedTuple

from lore.model.results.page import PageSession, PageTurn
from lore.report.html.timeline import Timeline, draw_timeline

SHOWN_BREAKS = 150  # of a session: the costliest


class SessionView(NamedTuple):
    """A session with the drawings of its chains."""

    key: str  # tells its ids apart from those of other sessions in the page
    session: PageSession
    chains: list[tuple[str, list[PageTurn], Timeline]]  # name, turns, drawing
    breaks: dict[str, PageTurn]  # by id, the costliest first
    hidden_breaks: int


def view_session(session: PageSession, key: str = "") -> SessionView:
    """Return a session with its drawings."""
    breaks = [
        (f"b{key}-{number}-{index}", turn)
        for number, turns in enumerate(session.chains.values())
        for index, turn in enumerate(turns)
        if turn.before is not None and turn.played.cause is not None
    ]

    def cost_of_break(place: tuple[str, PageTurn]) -> tuple[float, int]:
        played = place[1].played
        return 0.0 if played.cause is None else played.cause.lost_dollars or 0.0, played.lost_tokens or 0

    breaks.sort(key=cost_of_break, reverse=True)
    chains = [(name, turns, draw_timeline(turns)) for name, turns in session.chains.items()]
    shown = dict(breaks[:SHOWN_BREAKS])
    return SessionView(key, session, chains, shown, len(breaks) - len(shown))


def name_of(path: str) -> str:
    """Return the last part of a path."""
    return os.path.basename(path.replace("\\", "/").rstrip("/")) or path


def shared_beginning(turn: PageTurn) -> int:
    """Return how many characters the texts before and after a break have in common at their beginning."""
    return len(os.path.commonprefix((turn.left, turn.right)))
