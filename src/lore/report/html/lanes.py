"""The timeline of a chain: what was read, written and left uncached, turn by turn, and what happened where.

In: a chain. Out: a lane: outlines in units of a drawing that is stretched to its place, and marks at shares of its
width. Rules: a column is one turn; in a chain of more than `COLUMNS` a group of turns, of which the one is drawn that
read the smallest share of its prompt, so that no break is lost; marks of one kind in one column are one mark, of the
turn that lost most. Sizes of `COLUMNS` bound the drawing, whatever the session's length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lore.model.fact import format_duration, format_money
from lore.model.results import CauseResult
from lore.model.results.page import PageChain, PageTurn
from lore.report.plain import counted, when
from lore.report.sentences.spending import short_of

COLUMNS = 240
HEIGHT = 100
_WIDE = 28  # pixels that a column is wide at most
_KINDS = ("waste", "unexplained", "expected", "compaction", "pause", "model", "trial")


class LaneCounts(NamedTuple):
    """Tokens of a prompt: read from the cache, written to it, neither; `foreseen` of them were predicted to be read."""

    read: int
    written: int
    uncached: int
    foreseen: int | None

    @property
    def whole(self) -> int:
        """All of the prompt."""
        return self.read + self.written + self.uncached

    @property
    def share(self) -> float:
        """The share that was read."""
        return self.read / self.whole if self.whole else 1.0


class LaneMark(NamedTuple):
    """Something that happened at a turn, at `place` percent of the width; `number` is the turn's place in its chain."""

    kind: str
    place: float
    number: int
    href: str
    text: str


class LaneDrawing(NamedTuple):
    """The drawing of a chain; `key` names its places in the page.

    `outlines` are paths, the one behind first, each with its style; `grouped` turns are one of the `columns`.
    """

    key: str
    name: str
    turns: int
    columns: int
    most: int
    outlines: list[tuple[str, str]]
    marks: list[LaneMark]
    begin: str
    end: str
    billed: bool
    grouped: int
    pixels: int


def counts_of(turn: PageTurn) -> LaneCounts | None:
    """Return what was billed of a turn, else what was predicted; None where neither is known."""
    billed, predicted = turn.played.billed, turn.played.predicted
    if billed is not None and (billed.read_tokens, billed.uncached_tokens) != (None, None):
        found = (billed.read_tokens, billed.write_tokens, billed.uncached_tokens)
    elif predicted.read_tokens is not None:
        found = (predicted.read_tokens, predicted.write_tokens, predicted.uncached_tokens)
    else:
        return None
    read, written, uncached = (max(0, each or 0) for each in found)
    return LaneCounts(read, written, uncached, predicted.read_tokens)


def lane_of(chain: PageChain, key: str, trials: Sequence[tuple[int, str]] = ()) -> LaneDrawing:
    """Draw a chain; `trials` are turns behind which a policy would have compacted, with what to say of each."""
    counts = [counts_of(turn) for turn in chain.turns]
    group = -(-len(counts) // COLUMNS) if len(counts) > COLUMNS else 1
    columns = [_least(counts[at : at + group]) for at in range(0, len(counts), group)]
    most = max((each.whole for each in counts if each is not None), default=0)
    times = [turn.played.at for turn in chain.turns if turn.played.at is not None]
    areas = {  # what has the same outline hides what is behind it
        _outline([each.whole for each in columns], most): "uncached",
        _outline([each.read + each.written for each in columns], most): "written",
        _outline([each.read for each in columns], most): "read",
    }
    outlines = [(style, path) for path, style in areas.items()]
    foreseen = [each.foreseen for each in columns]
    if any(each is not None for each in foreseen) and any(turn.played.billed for turn in chain.turns):
        values = [each or 0 for each in foreseen]
        outlines.append(("foreseen", f"M0 {_height(values[0], most)}{_steps(values, most)}"))
    return LaneDrawing(
        key, chain.name, len(counts), len(columns), most, outlines,
        _merged(_marks(chain, key, trials), len(columns)), when(min(times, default=None)),
        when(max(times, default=None)), any(turn.played.billed for turn in chain.turns), group,
        len(columns) * _WIDE,
    )  # fmt: skip


def style_of(cause: CauseResult) -> str:
    """Return the colour of a cause: its kind."""
    return "unexplained" if cause.kind == "unattributable" else cause.kind


def _least(counts: Sequence[LaneCounts | None]) -> LaneCounts:
    known = [each for each in counts if each is not None]
    return min(known, key=lambda each: each.share, default=LaneCounts(0, 0, 0, None))


def _height(value: int, most: int) -> int:
    return HEIGHT - round(HEIGHT * min(value, most) / most) if most else HEIGHT


def _outline(values: Sequence[int], most: int) -> str:
    """Return the path of a closed area of columns, each one unit wide; neighbours of one height are one piece."""
    return f"M0 {HEIGHT}{_steps(values, most)}V{HEIGHT}Z"


def _steps(values: Sequence[int], most: int) -> str:
    pieces: list[str] = []
    height, since = HEIGHT, 0
    for place, value in enumerate(values):
        now = _height(value, most)
        if now != height:
            pieces.append(f"h{place - since}V{now}" if place > since else f"V{now}")
            height, since = now, place
    return "".join([*pieces, f"h{len(values) - since}"])


def _marks(chain: PageChain, lane: str, trials: Sequence[tuple[int, str]]) -> Iterator[tuple[int, LaneMark]]:
    said = dict(trials)
    turns = len(chain.turns)
    for place, turn in enumerate(chain.turns):
        played = turn.played
        at, row = round((place + 0.5) / turns * 100, 2), f"#r{lane}-{place}"
        name = f"turn {played.turn}"
        cause = played.cause
        if cause is not None:
            lost = f", {played.lost_tokens:,} tokens lost" if played.lost_tokens else ""
            paid = f", {format_money(cause.lost_dollars)}" if cause.lost_dollars else ""
            text = f"{name}: {short_of(cause.code, cause.name)} ({cause.kind}){lost}{paid}"
            yield (
                played.lost_tokens or 0,
                LaneMark(style_of(cause), at, place, f"#b{lane}-{place}" if turn.after else row, text),
            )
        if turn.compacted:
            yield 0, LaneMark("compaction", at, place, row, f"{name}: what was sent before was compacted")
        if turn.pause is not None:
            yield (
                round(turn.pause),
                LaneMark("pause", at, place, row, f"{name}: after a pause of {format_duration(turn.pause)}"),
            )
        if turn.model_before is not None:
            yield 0, LaneMark("model", at, place, row, f"{name}: {turn.model_before} before, {played.model} now")
        if played.turn in said:
            yield 0, LaneMark("trial", at, place, row, f"behind {name}: {said[played.turn]}")


def _merged(found: Iterator[tuple[int, LaneMark]], columns: int) -> list[LaneMark]:
    """Return one mark for each kind and column, that which weighs most; kinds behind one another, turns in order."""
    known: dict[tuple[str, int], list[tuple[int, LaneMark]]] = {}
    for weight, mark in found:
        known.setdefault((mark.kind, int(mark.place * min(columns, COLUMNS) / 100)), []).append((weight, mark))
    merged: list[LaneMark] = []
    for group in known.values():
        weight, mark = max(group, key=lambda each: (each[0], -each[1].number))
        others = f" (and {counted(len(group) - 1, 'other')} beside it)" if len(group) > 1 else ""
        merged.append(mark._replace(text=mark.text + others))
    return sorted(merged, key=lambda mark: (_KINDS.index(mark.kind), mark.number))
