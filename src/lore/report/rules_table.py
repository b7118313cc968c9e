"""`lore simulate --rules` for a person: one line a row, then where each comes from."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from lore.model.results_simulate import RuleResult, RulesResult, RuleValue
from lore.report.console import line
from lore.report.terminal import counted

_HEADER = ("provider", "model", "rule", "value", "unit", "from", "", "source")
_VALUE = _HEADER.index("value")
_EVIDENCE = "evidence: P the vendor's own page, M measured, S second-hand, ? inferred"


def write(result: RulesResult, out: Console) -> None:
    """Write the rows, each source once by its number, and the day on which they were checked."""
    sources = {text: number for number, text in enumerate(dict.fromkeys(one.source for one in result.rules), 1)}
    rows = [_HEADER, *(_row(one, sources[one.source]) for one in result.rules)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    for number, row in enumerate(rows):
        own = number > 0 and result.rules[number - 1].own
        out.print(line((_aligned(row, widths), "cyan" if own else "" if number else "bold")))
    for text, number in sources.items():
        out.print(line(f"[{number}] {text}"))
    out.print(line(_EVIDENCE))
    own = sum(one.own for one in result.rules)
    checked = "" if result.as_of is None else f", as of {result.as_of}"
    out.print(
        line((counted(len(result.rules), "row") + (f", {own:,} of them your own" if own else "") + checked, "bold"))
    )


def _row(one: RuleResult, source: int) -> tuple[str, ...]:
    place = f"{one.provider} on {one.platform}" if one.platform else one.provider
    above = "" if one.above_tokens is None else f" above {one.above_tokens:,} tokens"
    note = (f"  {one.note}" if one.note else "") + ("" if one.used else "  (to be read: no prediction uses it)")
    return (place, one.model, one.rule + above, _value(one.value), one.unit.replace("_", " "), one.valid_from,
            one.evidence, f"[{source}]{note}")  # fmt: skip


def _value(value: RuleValue) -> str:
    match value:
        case None:
            return "unknown"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        f"{cell:>{width}}" if column == _VALUE else f"{cell:<{width}}"
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()
