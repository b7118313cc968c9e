"""The sessions of a page, each with a timeline of its chains: tokens read, written and left uncached, and marks.

A column is one turn. In a chain of more than `COLUMNS` turns it is a group of turns and shows the turn that read the
smallest share of its prompt, so that no break is lost; marks of one kind in one column become one mark. So the size of
a drawing does not depend on the length of the session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from lore.model.fact import format_duration
from lore.model.results import CauseResult
from lore.model.results.page import PageSession, PageTurn
from lore.report.plain import counted
from lore.report.sentences.findings import in_dollars
from lore.report.sentences.spending import short_of

SHOWN_BREAKS = 150  # of a session: the costliest
COLUMNS = 240
HEIGHT = 100
KINDS = {  # of marks, with their explanation
    "waste": "waste", "unexplained": "break, no certain cause", "expected": "expected break",
    "compaction": "compaction", "pause": "pause", "model": "model changed",
}  # fmt: skip


class TimelineMark(NamedTuple):
    """Something that happened at a turn."""

    kind: str
    text: str
    weight: int = 0  # the heaviest of a column is shown
    turn: int = 0  # its index in the chain
    place: float = 0.0  # percent of the width


class Timeline(NamedTuple):
    """The drawing of a chain."""

    columns: int
    grouped: int  # turns in a column
    most: int  # tokens of the largest prompt
    areas: list[tuple[str, str]]  # style and SVG path, from back to front
    marks: list[TimelineMark]


def draw_timeline(turns: Sequence[PageTurn]) -> Timeline:
    """Return the drawing of a chain's turns."""
    counts: list[list[int]] = []  # tokens read, written and left uncached; 0 if they are neither billed nor predicted
    for turn in turns:
        source = turn.simulated.billed
        if source is None or (source.read_tokens is None and source.uncached_tokens is None):
            source = turn.simulated.predicted
        prompt = source.read_tokens, source.write_tokens, source.uncached_tokens
        counts.append([max(0, count or 0) for count in prompt])
    shares_read = [prompt[0] / sum(prompt) if sum(prompt) else 1.0 for prompt in counts]
    grouped = max(1, -(-len(counts) // COLUMNS))
    groups = [range(at, min(at + grouped, len(counts))) for at in range(0, len(counts), grouped)]
    columns = [min(group, key=shares_read.__getitem__) for group in groups]
    most = max(map(sum, counts), default=0)
    areas = {  # from back to front; of areas with the same outline only the front one is drawn
        _outline([sum(counts[at][:parts]) for at in columns], most): style
        for parts, style in ((3, "uncached"), (2, "written"), (1, "read"))
    }
    layers = [(style, f"M0 {HEIGHT}{path}V{HEIGHT}Z") for path, style in areas.items()]
    predicted = [turns[at].simulated.predicted.read_tokens for at in columns]
    if any(turn.simulated.billed for turn in turns) and any(tokens is not None for tokens in predicted):
        predicted = [tokens or 0 for tokens in predicted]
        layers.append(("predicted", f"M0 {_height(predicted[0], most)}{_outline(predicted, most)}"))
    return Timeline(len(columns), grouped, most, layers, _merge_marks(turns, grouped))


def kind_of(cause: CauseResult) -> str:
    """Return the style of a cause."""
    return "unexplained" if cause.kind == "unattributable" else cause.kind


def list_marks(turn: PageTurn) -> Iterator[TimelineMark]:
    """Yield what happened at a turn."""
    played, cause = turn.simulated, turn.simulated.cause
    if cause is not None:
        tokens = f": {played.lost_tokens:,} tokens re-billed" if played.lost_tokens else ""
        text = f"{short_of(cause.code, cause.name, cause.kind)}{tokens}{in_dollars(cause.lost_dollars)}"
        yield TimelineMark(kind_of(cause), text, played.lost_tokens or 0)
    if turn.compacted:
        yield TimelineMark("compaction", "compaction")
    if turn.pause is not None:
        yield TimelineMark("pause", f"pause {format_duration(turn.pause)}", round(turn.pause))
    if turn.model_before is not None:
        yield TimelineMark("model", f"model {played.model}, {turn.model_before} before")


def _merge_marks(turns: Sequence[PageTurn], grouped: int) -> list[TimelineMark]:
    """Return one mark for each kind and column, by kind: that of the turn that weighs most."""
    groups: dict[tuple[str, int], list[TimelineMark]] = {}
    for index, turn in enumerate(turns):
        for mark in list_marks(turn):
            text, place = f"turn {turn.simulated.turn}: {mark.text}", round((index + 0.5) / len(turns) * 100, 2)
            placed_mark = mark._replace(text=text, turn=index, place=place)
            groups.setdefault((mark.kind, index // grouped), []).append(placed_mark)
    merged: list[TimelineMark] = []
    for marks in groups.values():
        heaviest = max(marks, key=lambda mark: mark.weight)
        suffix = f" (and {counted(len(marks) - 1, 'other')} beside it)" if len(marks) > 1 else ""
        merged.append(heaviest._replace(text=heaviest.text + suffix))
    return sorted(merged, key=lambda mark: (list(KINDS).index(mark.kind), mark.turn))


def _height(tokens: int, most: int) -> int:
    return HEIGHT - round(HEIGHT * min(tokens, most) / most) if most else HEIGHT


def _outline(values: Sequence[int], most: int) -> str:
    """Return the upper edge of columns, each one unit wide."""
    return "".join(f"V{_height(value, most)}h1" for value in values)


class SessionView(NamedTuple):
    """A session with the drawings of its chains."""

    key: str  # tells its ids apart from those of other sessions in the page
    session: PageSession
    listed: PageSession  # its row in the list of sessions: without copied requests and those outside the period
    chains: list[tuple[str, list[PageTurn], Timeline]]  # name, turns, drawing
    breaks: dict[str, PageTurn]  # by id, the costliest first
    hidden_breaks: int


def view_session(session: PageSession, listed: PageSession | None, key: str = "") -> SessionView:
    """Return a session with its drawings; `listed` is its row in a list of sessions that has sums of its own."""
    breaks = [
        (cause.lost_dollars or 0.0, turn.simulated.lost_tokens or 0, f"b{key}-{number}-{index}", turn)
        for number, turns in enumerate(session.chains.values())
        for index, turn in enumerate(turns)
        if turn.compared is not None and (cause := turn.simulated.cause) is not None
    ]
    breaks.sort(key=itemgetter(0, 1), reverse=True)
    visible_breaks = {name: turn for _, _, name, turn in breaks[:SHOWN_BREAKS]}
    chains = [(name, turns, draw_timeline(turns)) for name, turns in session.chains.items()]
    return SessionView(key, session, listed or session, chains, visible_breaks, len(breaks) - len(visible_breaks))


def shared_beginning(turn: PageTurn) -> int:
    """Return the number of characters with which both texts of a break begin."""
    return len(os.path.commonprefix((turn.text_before, turn.text_after)))
