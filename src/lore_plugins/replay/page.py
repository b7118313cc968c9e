"""The first part of a replay's page: a table of layouts, then the tokens that each read, request by request."""

from __future__ import annotations

from lore.model import SimulatedTurn
from lore.report import (
    LISTED,
    Intro,
    PageBlock,
    ReadRow,
    agreement_lines,
    count,
    measured_strips,
    read_bar,
    rows_not_drawn,
    table_of_cells,
    turn_of,
)
from lore_plugins.replay.lines import changes_in_words, conclusion, estimate_in_words, layout_cells, sent_in_words
from lore_plugins.replay.results import Replayed, ReplayedLayout


def replay_intro(result: Replayed) -> Intro:
    """Return the first part of the page of a replay."""
    by = f" ({' '.join(part for part in (result.engine, result.version) if part)})" if result.engine else ""
    heading = f"{result.recording} to {result.server}{by}"
    return Intro("lore replay", heading, _lead(result), _blocks(result))


def _blocks(result: Replayed) -> tuple[PageBlock, ...]:
    alone = len(result.layouts) == 1
    if alone:
        lines = [sent_in_words(layout, alone=True) for layout in result.layouts]
    else:
        lines = [changes_in_words(layout) for layout in result.layouts]
    lines += [f"stopped: {result.stopped}"] if result.stopped else []
    lines += [estimate_in_words(result.estimate)] if result.estimate is not None else []
    sent = [layout for layout in result.layouts if layout.simulated is not None and layout.read_tokens is not None]
    most = max((layout.prompt_tokens or 0 for layout in sent), default=0)
    bars = [read_bar(layout.name, layout.prompt_tokens or 0, layout.read_tokens or 0, most) for layout in sent]
    sides = PageBlock(
        "Requests" if alone else "Layouts",
        tuple(lines),
        () if alone else tuple(bars),
        table_of_cells(layout_cells(result.layouts)),
    )
    each = [_layout_block(layout, alone=alone) for layout in sent]
    return (sides, *each, PageBlock(lines=tuple(result.notes)))


def _lead(result: Replayed) -> str:
    if len(result.layouts) > 1:
        return f"{conclusion(result)}."
    (layout,) = result.layouts
    if layout.read_share is None:
        return f"{sent_in_words(layout, alone=True)}; the server does not report what it read."
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
    lines = (*agreement_lines(found.agreement), *rows_not_drawn(len(rows)))
    return PageBlock(
        title, lines, measured_strips(rows, "read"), table_of_cells(cells), folded_table=True, folded=not alone
    )


def _turn(turn: SimulatedTurn) -> ReadRow:
    billed = turn.billed
    read = None if billed is None else billed.read_tokens
    size = 0 if billed is None else (read or 0) + (billed.write_tokens or 0) + (billed.uncached_tokens or 0)
    return ReadRow(turn_of(turn.turn, turn.chain), size, read, turn.predicted.read_tokens)
