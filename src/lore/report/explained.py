"""`lore assemble --explain` in the terminal: a table of segments, then the capabilities of the dialect."""

from __future__ import annotations

from collections.abc import Iterator

from lore.model.results.assemble import AssembleExplanation, SegmentResult
from lore.report.console import Console, line
from lore.report.plain import counted, turn_of
from lore.report.table import aligned

_HEADER = ("", "section", "path", "bytes", "", "breakpoint", "origin")
_RIGHT = (0, 3)  # columns of numbers


def write(result: AssembleExplanation, out: Console) -> None:
    """Write the table."""
    chain = "" if result.chain == "main" else f" of {result.chain}"
    turn = f"no turn yet{chain}" if result.turn is None else turn_of(result.turn, result.chain)
    model = result.model or "no model"
    out.print(line((f"{result.session}  {turn}", "bold"), f"  {result.dialect}, {model}, tail {result.tail}"))
    styles = ["bold", *("" if segment.stable else "yellow" for segment in result.segments)]
    for text, style in zip(aligned([_HEADER, *map(_row, result.segments)], _RIGHT), styles, strict=True):
        out.print(line((text, style)))
    sizes = f"{counted(result.stable_bytes, 'byte')} stable, {counted(result.tail_bytes, 'byte')} volatile"
    out.print(line(f"{counted(len(result.segments), 'segment')}: {sizes}"))
    for omitted in result.omitted:
        left = f"left out: {omitted.count:,} {omitted.what}: {result.dialect} has no place for them"
        out.print(line((left, "yellow")))
    out.print(line((f"what {result.dialect} can express", "bold")))
    width = max((len(capability.feature) for capability in result.capabilities), default=0)
    for capability in result.capabilities:
        answer = ("yes", "green") if capability.expressed else ("no ", "yellow")
        out.print(line(f"  {capability.feature:<{width}}  ", answer, f"  {capability.answer}"))
    for sentence in _system_messages(result):
        out.print(line(sentence))
    where, turns = "also in a tool loop", counted(result.max_loop_turns, "turn")
    if result.max_loop_turns:
        where = f"in a tool loop after the last result, once {turns} had none (max_loop_turns)"
    out.print(line(f"changed knowledge: before the user's next message; {where}"))


def _system_messages(result: AssembleExplanation) -> Iterator[str]:
    """Yield whether a prompt may end with a system message, the reason, and how chat templates treat it."""
    placed = result.system_messages
    model = result.model or "a model without a name"
    seen = f" ({placed.source}, {placed.since})" if placed.source else ""
    yield _PLACED[placed.accepted, placed.by].format(model=model, dialect=result.dialect) + seen
    if result.chat_templates:
        yield "chat templates, given a second system message:"
    width = max((len(", ".join(row.models)) for row in result.chat_templates), default=0)
    for row in result.chat_templates:
        yield f"  {', '.join(row.models):<{width}}  {_DONE[row.does]} (seen {row.since}: {row.source})"


_PLACED = {
    (True, "setting"): "a system message at the end: {model} takes one (system_in_conversation)",
    (True, "row"): "a system message at the end: {model} takes one",
    (False, "template"): "no system message at the end: the chat template of {model} does not write one there",
    (False, "dialect"): "no system message at the end: {dialect} has no place for one",
    (False, "unknown"): (
        "no system message at the end: not known if {model} takes one; if it does, name it in "
        "assemble.system_in_conversation"
    ),
}
_DONE = {
    "refuses": "refuse the request", "merges": "join it to the first: the prefix changes",
    "ignores": "leave it out in silence", "renders": "write it in its place",
}  # fmt: skip


def _row(segment: SegmentResult) -> tuple[str, ...]:
    breakpoint = "" if segment.breakpoint is None else bytes(segment.breakpoint).decode("utf-8", "replace")
    kind = "stable" if segment.stable else "volatile"
    origin = segment.origin or ""
    return str(segment.number), segment.section, segment.path, f"{segment.bytes:,}", kind, breakpoint, origin
