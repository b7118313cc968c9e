"""The first part of a replay's page: a table of layouts, then the tokens that each read, request by request."""

from __future__ import annotations

from lore.report import (
    Intro,
    PageBlock,
    agreement_lines,
    format_count,
    read_bars,
    table_of,
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
    bars = read_bars([(layout.name, layout.prompt_tokens or 0, layout.read_tokens) for layout in sent])
    table = table_of(layout_cells(result.layouts))
    sides = PageBlock("Requests" if alone else "Layouts", tuple(lines), () if alone else bars, table)
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
    cells: list[tuple[str, ...]] = [("turn", "prompt tokens", "predicted", "read", "difference")]
    drawn: list[tuple[str, int, int | None]] = []
    for turn in found.turns:
        name, billed, predicted = turn_of(turn.turn, turn.chain), turn.billed, turn.predicted.read_tokens
        read = None if billed is None else billed.read_tokens
        size = 0 if billed is None else (read or 0) + (billed.write_tokens or 0) + (billed.uncached_tokens or 0)
        difference = "" if read is None or predicted is None else f"{read - predicted:+,}"
        cells.append((name, format_count(size), format_count(predicted), format_count(read), difference))
        drawn += [(f"{name}, read", size, read), (f"{name}, predicted", size, predicted)]
    title = "Read from the cache, request by request" + ("" if alone else f": {layout.name}")
    lines = tuple(agreement_lines(found.agreement))
    return PageBlock(title, lines, read_bars(drawn), table_of(cells), folded=not alone)
