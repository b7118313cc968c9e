"""What was measured of a cache beside what was predicted, turn by turn: bars on one scale, and the same as a table.

In: results of `lore simulate --measured` and of `lore replay`. Out: blocks of a page; the sentences are those that a
terminal shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lore.model.results.measured import MeasuredResult
from lore.model.results.replay import Replayed, ReplayedLayout
from lore.model.results.simulate import SimulatedTurn
from lore.report.html.blocks import Cell, PageBlock, PageTable, Strip, count, strip
from lore.report.measured import comparison_lines, measured_cells
from lore.report.plain import counted, turn_of
from lore.report.replayed import changes_in_words, conclusion, estimate_in_words, layout_cells, sent_in_words
from lore.report.simulation import agreement_lines

DRAWN, LISTED = 60, 1_000  # rows that are bars, and that are rows of a table


class _MeasuredRow(NamedTuple):
    """What was read of prompts of so many tokens: as it was measured, and as it was predicted (None: unknown)."""

    name: str
    tokens: int
    measured: int | None
    predicted: int | None


def measured_block(result: MeasuredResult) -> PageBlock:
    """Show what engines' logs measured, each request or span of time beside its prediction."""
    cells = measured_cells(result.rows[:LISTED], result)
    rows = [
        _MeasuredRow(name, row.prompt_tokens or 0, row.cached_tokens, row.predicted_tokens)
        for (name, *_), row in zip(cells[1:], result.rows, strict=False)
    ]
    table = _table(cells) if cells else None
    lines = (*comparison_lines(result), *_more(len(result.rows)))
    return PageBlock("What the engine measured", lines, _strips(rows, "measured"), table, folded_table=bool(rows))


def replay_blocks(result: Replayed) -> tuple[PageBlock, ...]:
    """Show a replay: layouts side by side, then what each of them read, request by request."""
    alone = len(result.layouts) == 1
    if alone:
        lines = [sent_in_words(layout, alone=True) for layout in result.layouts]
    else:
        lines = [changes_in_words(layout) for layout in result.layouts]
    lines += [f"stopped: {result.stopped}"] if result.stopped else []
    lines += [estimate_in_words(result.estimate)] if result.estimate is not None else []
    sent = [layout for layout in result.layouts if layout.simulated is not None and layout.read_tokens is not None]
    most = max((layout.prompt_tokens or 0 for layout in sent), default=0)
    bars = [_bar(layout.name, layout.prompt_tokens or 0, layout.read_tokens or 0, most) for layout in sent]
    sides = PageBlock(
        "What was sent" if alone else "Layouts",
        tuple(lines),
        () if alone else tuple(bars),
        _table(layout_cells(result.layouts)),
    )
    each = [_layout_block(layout, alone=alone) for layout in sent]
    return (sides, *each, PageBlock(lines=tuple(result.notes)))


def replay_lead(result: Replayed) -> str:
    """Say what a replay comes to in a sentence."""
    if len(result.layouts) > 1:
        return f"{conclusion(result)}."
    (layout,) = result.layouts
    if layout.read_share is None:
        return f"{sent_in_words(layout, alone=True)}; the server does not say what it read."
    return f"{layout.read_share:.1%} of {layout.prompt_tokens or 0:,} prompt tokens were read from the cache."


def _layout_block(layout: ReplayedLayout, *, alone: bool) -> PageBlock:
    found = layout.simulated
    assert found is not None
    rows = list(map(_turn, found.turns))
    cells: list[tuple[str, ...]] = [("turn", "prompt tokens", "predicted", "read", "difference")]
    for row in rows[:LISTED]:
        known = row.measured is not None and row.predicted is not None
        difference = f"{(row.measured or 0) - (row.predicted or 0):+,}" if known else ""
        cells.append((row.name, count(row.tokens), count(row.predicted), count(row.measured), difference))
    title = "Read from the cache, request by request" + ("" if alone else f": {layout.name}")
    lines = (*agreement_lines(found.agreement), *_more(len(rows)))
    return PageBlock(title, lines, _strips(rows, "read"), _table(cells), folded_table=True, folded=not alone)


def _turn(turn: SimulatedTurn) -> _MeasuredRow:
    billed = turn.billed
    read = None if billed is None else billed.read_tokens
    size = 0 if billed is None else (read or 0) + (billed.write_tokens or 0) + (billed.uncached_tokens or 0)
    return _MeasuredRow(turn_of(turn.turn, turn.chain), size, read, turn.predicted.read_tokens)


def _strips(rows: Sequence[_MeasuredRow], word: str) -> tuple[Strip, ...]:
    """Draw two bars a row: what was measured, and what was predicted of the same prompt."""
    most = max((row.tokens for row in rows[:DRAWN]), default=0)
    return tuple([
        _bar(f"{row.name}, {kind}", row.tokens, read, most)
        for row in rows[:DRAWN]
        for kind, read in ((word, row.measured), ("predicted", row.predicted))
        if read is not None and row.tokens
    ])  # fmt: skip


def _bar(label: str, tokens: int, read: int, most: int) -> Strip:
    parts = (("read", float(min(read, tokens)), "read"), ("uncached", float(max(0, tokens - read)), "not read"))
    return strip(label, parts, float(most), f"{read:,} of {tokens:,} tokens read")


def _table(cells: Sequence[tuple[str, ...]]) -> PageTable:
    heads, *rows = cells
    figures = [column for column in range(1, len(heads)) if all(_is_figure(row[column]) for row in rows)]
    found: list[tuple[Cell, ...]] = [*rows]
    return PageTable(heads, found, frozenset(figures), sortable=len(rows) > 1)


def _is_figure(text: str) -> bool:
    return not text or text[-1:] in "%–" or text.lstrip("+-")[:1].isdigit()


def _more(rows: int) -> Iterator[str]:
    if rows > DRAWN:
        yield f"the first {counted(DRAWN, 'row')} of {rows:,} are drawn: --json has all"
