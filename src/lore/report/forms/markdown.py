"""Markdown, for a step summary of GitHub: sums, the costliest causes, a table of findings, worst first.

Text from recordings is data: markup in it is escaped. At most `ROWS` findings are listed, since GitHub does not show a
step summary of more than a megabyte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lore.model.results import CostlyCause, Finding
from lore.model.results.measured import MeasuredResult
from lore.model.results.simulate import SimulatedTurn, SimulateResult
from lore.report.console import Console
from lore.report.forms import terminal
from lore.report.measured import measured_view
from lore.report.plain import counted, place_of, turn_of, visible
from lore.report.sentences.findings import format_fix
from lore.report.simulation import agreement_lines

ROWS, CELL = 200, 300
_MARKS = {"error": "❌", "warning": "⚠️", "note": "·"}
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@$])")


class Markdown:
    """A report for a pull request, or a step summary."""

    mixes = False

    def write(self, result: terminal.Reported, out: Console, *, verbose: bool) -> None:
        for line in lines(result, verbose=verbose):
            out.file.write(line + "\n")


def lines(result: terminal.Reported, *, verbose: bool) -> Iterable[str]:
    """Yield the lines of a report."""
    found = terminal.worst_first(terminal.shown(result.findings, verbose=verbose))
    yield f"## {terminal.command_of(result)}"
    yield ""
    for line in (*terminal.sums_lines(result.summary), *terminal.unseen_lines(result)):
        yield f"- {line}"
    yield ""
    yield from _top(terminal.top_shown(result.top, verbose=verbose))
    head = "| | finding | where | what | lost tokens |", "|---|---|---|---|---:|"
    yield from _table(head, list(map(_row, found[:ROWS])), len(found), "finding")


def _top(causes: list[CostlyCause]) -> Iterable[str]:
    if causes:
        yield from ("### Costliest causes", "")
        for number, cause in enumerate(causes, 1):
            yield f"{number}. **{cause.code} {cause.name}**: {terminal.describe_cost(cause)}. {_text(cause.fix)}"
        yield ""


def simulated_lines(result: SimulateResult) -> Iterable[str]:
    """Yield a simulation: how far predictions were from the usage, and the turns that lost tokens, most first."""
    yield "## lore simulate"
    yield ""
    yield f"- cache: {_text(result.cache or 'as served')}, rules as of {result.rules.as_of or 'unknown'}"
    for line in agreement_lines(result.agreement):
        yield f"- {_text(line)}"
    yield f"- re-billed as waste: {result.totals.waste_tokens:,} tokens"
    if isinstance(result.measured, MeasuredResult):
        yield from (f"- {_text(line)}" for line in measured_view().summary(result.measured))
    yield ""
    lost = sorted((turn for turn in result.turns if turn.cause), key=lambda turn: -(turn.lost_tokens or 0))
    head = "| turn | predicted | billed | lost tokens | why |", "|---|---:|---:|---:|---|"
    yield from _table(head, list(map(_simulated, lost[:ROWS])), len(lost), "turn")


def _table(head: tuple[str, str], rows: list[str], count: int, word: str) -> Iterable[str]:
    if rows:
        yield from (*head, *rows, "")
    if count > ROWS:
        yield from (f"And {counted(count - ROWS, word)} more.", "")


def _simulated(turn: SimulatedTurn) -> str:
    name = f"{turn.path}: {turn.turn}" + ("" if turn.chain == "main" else f" of {turn.chain}")
    read = None if turn.billed is None else turn.billed.read_tokens
    counts = [None if count is None else f"{count:,}" for count in (turn.predicted.read_tokens, read, turn.lost_tokens)]
    cause = turn.cause
    why = "" if cause is None else f"{cause.code} {cause.name} ({cause.strength}): {_text(cause.message)}"
    return f"| {_text(name)} | {counts[0] or 'unknown'} | {counts[1] or 'unknown'} | {counts[2] or ''} | {why} |"


def _row(finding: Finding) -> str:
    turn = "" if finding.turn is None else turn_of(finding.turn, finding.chain)
    where = [_text(text) for text in (place_of(finding.path, finding.line), turn, finding.json_path) if text]
    what = [_text(finding.message), *([] if finding.severity == "note" else [_text(": ".join(format_fix(finding)))])]
    lost = "" if finding.lost_tokens is None else f"{finding.lost_tokens:,}"
    cells = _MARKS[finding.severity], f"{finding.code} {finding.name}", "<br>".join(where), "<br>".join(what), lost
    return f"| {' | '.join(cells)} |"


def _text(text: str) -> str:
    """Return text with its markup escaped, masked before it is cut, so that half a credential is not shown."""
    plain = visible(text)
    plain = plain if len(plain) <= CELL else plain[: CELL - 1] + "…"
    return (
        _MARKUP.sub(r"\\\1", plain)
        .replace("\\<", "&lt;")
        .replace("\\>", "&gt;")
        .replace("://", ":&#47;/")
        .replace("www.", "www&#46;")
    )
