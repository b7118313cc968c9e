"""Markdown, for a step summary of GitHub: sums, the costliest causes, a table of findings.

The table has the worst first, and findings of one cause and place as one row, as on a terminal.
Text from recordings is data: markup in it is escaped. At most `ROWS` findings are listed, since GitHub does not show a
step summary of more than a megabyte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lore.model.results import Finding
from lore.report.forms import terminal
from lore.report.forms.registry import TextReport
from lore.report.plain import counted, place_of, visible
from lore.report.sentences.findings import format_fix

ROWS, CELL = 200, 300
_MARKS = {"error": "❌", "warning": "⚠️", "note": "·"}
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@$])")


def _format_lines(result: terminal.Reported, verbose: bool) -> Iterable[str]:  # noqa: FBT001 - of `TextReport`
    merged_findings = terminal.merge_findings(result.findings, verbose=verbose)
    yield f"## {terminal.command_of(result)}"
    yield ""
    for line in (*terminal.sums_lines(result.summary), *terminal.unseen_lines(result)):
        yield f"- {line}"
    yield ""
    if result.top:
        yield from ("### Costliest causes", "")
        for number, cause in enumerate(result.top, 1):
            yield f"{number}. **{cause.code} {cause.name}**: {terminal.describe_cost(cause)}. {_escape(cause.fix)}"
        yield ""
    if merged_findings:
        yield from ("| | finding | where | what | re-billed tokens |", "|---|---|---|---|---:|")
        yield from (*(_format_row(finding, turns) for finding, turns in merged_findings[:ROWS]), "")
    if len(merged_findings) > ROWS:
        yield from (f"And {counted(len(merged_findings) - ROWS, 'finding')} more.", "")


MARKDOWN = TextReport(_format_lines)


def _format_row(finding: Finding, turns: str) -> str:
    where = [_escape(text) for text in (place_of(finding.path, finding.line), turns, finding.json_path) if text]
    what = [_escape(finding.message)]
    if finding.severity != "note":
        what.append(_escape(": ".join(format_fix(finding))))
    loss = "" if finding.lost_tokens is None else f"{finding.lost_tokens:,}"
    cells = _MARKS[finding.severity], f"{finding.code} {finding.name}", "<br>".join(where), "<br>".join(what), loss
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    """Return text with its markup escaped, masked before it is cut, so that half a credential is not shown."""
    plain = visible(text)
    plain = plain if len(plain) <= CELL else plain[: CELL - 1] + "…"
    escaped = _MARKUP.sub(r"\\\1", plain).replace("\\<", "&lt;").replace("\\>", "&gt;")
    return escaped.replace("://", ":&#47;/").replace("www.", "www&#46;")
