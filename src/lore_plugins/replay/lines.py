"""Write the result of `lore replay` to a terminal: requests, reads next to predictions, layouts, notes.

Turns are written as by `lore simulate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lore.model import LLAMA_CPP, format_money
from lore.report import Console, TableColumn, billed_reads, count_of, draw, in_shell, line, write_simulated, write_table
from lore_plugins.replay.results import Replayed, ReplayedLayout, ReplayEstimate

_COLUMNS = (
    *map(TableColumn, ("layout", "dialect", "tail")),
    *(TableColumn(head, right=True) for head in ("requests", "prompt tokens", "read", "share read", "computed")),
    TableColumn("predicted", right=True), TableColumn("capture"),
)  # fmt: skip

SLOTS = 4  # llama.cpp's default, which lore assumes if the server reports no number
WARM = 0.05  # of the first prompt: the common text of a chat template is less
# Options with which engines report the tokens read. Sources: the servers of vLLM 0.32 and SGLang 0.5.
_SWITCHES = {
    "vllm": "start vLLM with --enable-prompt-tokens-details",
    "sglang": "start SGLang with --enable-cache-report",
}


def write(result: Replayed, out: Console, *, verbose: bool = False) -> None:
    """Write a result: of one layout every turn, of several a table, and with `verbose` every turn of each."""
    by = f" ({' '.join(part for part in (result.engine, result.version) if part)})" if result.engine else ""
    out.print(line((f"{result.recording} to {result.server}{by}", "bold")))
    alone = len(result.layouts) == 1
    for layout in result.layouts:
        if not alone and not verbose:
            break
        out.print(line(sent_in_words(layout, alone=alone)))
        if layout.simulated is not None and layout.requests:
            write_simulated(layout.simulated, out, every=True, verbose=verbose)
    if not alone:
        write_table(_COLUMNS, list(map(_cells, result.layouts)), out)
        reads = [
            (layout.name, billed_reads(layout.simulated.turns), "green") for layout in result.layouts
            if layout.simulated is not None and layout.read_share is not None
        ]  # fmt: skip
        draw(reads, out)
        for layout in result.layouts:
            out.print(line(f"  {changes_in_words(layout)}"))
        out.print(line((conclusion(result), "bold")))
    for note in result.notes:
        out.print(line((f"note: {note}", "dim")))
    if result.estimate is not None and not any(layout.requests for layout in result.layouts):
        out.print(line(estimate_in_words(result.estimate)))
    for text in then_lines(result):
        out.print(line(text))


def sent_in_words(layout: ReplayedLayout, *, alone: bool) -> str:
    """Return a sentence on the sent requests of a layout and their capture."""
    name = "" if alone else f"{layout.name}: "
    if layout.same_as is not None:
        return f"{name}{_same(layout)}"
    if not layout.capture:
        return f"{name}{count_of(layout.planned, 'request')} as {layout.dialect}: nothing was sent"
    again = f", {layout.resumed:,} of them by an earlier run" if layout.resumed else ""
    what_was_sent = f"{layout.requests:,} of {count_of(layout.planned, 'request')} sent as {layout.dialect}"
    return f"{name}{what_was_sent}{again}, written to {layout.capture}"


def _same(layout: ReplayedLayout) -> str:
    return f"the same bytes as {layout.same_as}: not sent again"


def _cells(layout: ReplayedLayout) -> tuple[str, ...]:
    if layout.same_as is not None:
        return (layout.name, layout.dialect, layout.tail or "", "", "", "", "", "", "", f"as {layout.same_as}")
    simulation = layout.simulated
    predicted = None if simulation is None else simulation.totals.predicted.read_tokens
    share = "" if layout.read_share is None else _percent(layout.read_share)
    counts = (layout.prompt_tokens, layout.read_tokens, layout.computed_tokens, predicted)
    tokens, read, computed, predicted_read = ("unknown" if count is None else f"{count:,}" for count in counts)
    what_was_sent = f"{layout.requests:,} of {layout.planned:,}"
    name = layout.name, layout.dialect, layout.tail or ""
    return *name, what_was_sent, tokens, read, share, computed, predicted_read, layout.capture


def changes_in_words(layout: ReplayedLayout) -> str:
    """Return a sentence on how a layout differs from the recording."""
    if layout.same_as is not None:
        return f"{layout.name}: {_same(layout)}"
    if not layout.assembled:
        return f"{layout.name}: messages and system prompts as recorded"
    moved = "no line of its system prompt changes from request to request" if layout.tail else ""
    if layout.moved_turns:
        moved = (
            f"changing lines of its system prompt are moved to the tail "
            f"({layout.moved_bytes:,} bytes in {count_of(layout.moved_turns, 'request')})"
        )
    return f"{layout.name}: assembled by lore{f'; {moved}' if moved else ''}"


def conclusion(result: Replayed) -> str:
    """Return a sentence on which layout reads most."""
    known = [layout for layout in result.layouts if layout.read_share is not None]
    ranking = sorted(known, key=lambda layout: -(layout.read_share or 0))
    different = [layout for layout in result.layouts if layout.same_as is None]
    if len(different) == 1 and len(result.layouts) > 1:
        return f"all layouts send the same bytes as {different[0].name}: there is nothing to compare"
    if len(ranking) < 2:
        return "not compared: fewer than two layouts have known reads"
    if len({layout.planned for layout in ranking}) > 1 or any(layout.requests < layout.planned for layout in ranking):
        return "not compared: not all requests of every layout were sent"
    first, *others = [f"{layout.name} {_percent(layout.read_share or 0)}" for layout in ranking]
    if result.reads_most is None:
        return f"no layout reads more: {first}, {', '.join(others)} of its prompt tokens"
    share = _percent(ranking[0].read_share or 0)
    return f"{result.reads_most} reads most: {share} of its prompt tokens; {', '.join(others)}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def then_lines(result: Replayed) -> Iterator[str]:
    """Yield the next command: to continue a stopped run, else to inspect the capture."""
    captures = [in_shell(layout.capture) for layout in result.layouts if layout.capture]
    capture = captures[0] if captures else ""
    if result.stopped is not None or result.interrupted:
        yield "to continue: the same command with --resume" + (
            f" --output {capture}" if len(result.layouts) == 1 and capture else " and --output"
        )
    elif capture:
        cache = f" --cache {result.cache}" if result.cache else ""
        yield f"to print this again: lore simulate{cache} --all {capture}"


def stopped_hint(stopped: str) -> str:
    """Return the hint for a server that refused the first request."""
    if " answers 401" in stopped or " answers 403" in stopped:
        return "name the environment variable that holds the key: --api-key-env NAME"
    if " answers 4" in stopped:
        return "are --dialect, --model and --max-tokens right for this server?"
    return "is a server running there?"


def estimate_in_words(estimate: ReplayEstimate) -> str:
    """Return a sentence on the number of requests, tokens and dollars."""
    text = f"{count_of(estimate.requests, 'request')}, about {estimate.prompt_tokens:,} prompt tokens"
    if estimate.dollars is None:
        return f"{text}; the price is unknown"
    uncached = format_money(estimate.dollars_uncached)
    return f"{text}: about {format_money(estimate.dollars)}, {uncached} if nothing is cached"


def notes_of(layouts: Sequence[ReplayedLayout], engine: str, slots: int | None) -> list[str]:
    """Return notes on requests that were not sent, and on figures that need care."""
    return list(dict.fromkeys(note for layout in layouts for note in _notes(layout, engine, slots)))


def _notes(layout: ReplayedLayout, engine: str, slots: int | None) -> Iterator[str]:
    for reason, count in layout.skipped.items():
        turns, more = layout.unsent.get(reason, []), count - len(layout.unsent.get(reason, []))
        names = ", ".join([*turns, *([f"and {more:,} more"] if more else [])])
        yield f"not sent: {count_of(count, 'request')} {reason}{f' ({names})' if turns else ''}"
    for name, count in layout.left_out.items():
        yield f"{name!r} is left out of {count_of(count, 'request')}: over --max-tokens, or of another API"
    simulation = layout.simulated
    if simulation is None or not simulation.turns:
        return
    silent = sum(turn.billed is None or turn.billed.read_tokens is None for turn in simulation.turns)
    if silent:
        switch = _SWITCHES.get(engine)
        answers = f"{count_of(silent, 'answer')} of {layout.requests:,}"
        yield f"{answers} did not report tokens read from a cache{f': {switch}' if switch else ''}"
    first = simulation.turns[0].billed
    if first is not None and first.read_tokens and first.read_tokens > WARM * (first.uncached_tokens or 0):
        yield (
            f"the cache was warm: the first request read {first.read_tokens:,} tokens that this replay had not sent; "
            "for figures of a cold cache restart the server, or wait until its cache expires"
        )
    if engine == LLAMA_CPP and slots is not None and slots != SLOTS:
        again = f"lore simulate CAPTURE --cache {LLAMA_CPP}:slots={slots}"
        yield f"the server has {count_of(slots, 'slot')}, which the prediction uses; to print it again: {again}"
