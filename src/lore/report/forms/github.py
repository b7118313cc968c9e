"""GitHub annotations: workflow commands, worst first, in the numbers that GitHub shows.

Rules: of each level GitHub shows ten in a step and drops the rest without a word, so lore writes no more and
says how many there are; what a command would take for its own end is escaped (`%`, CR, LF, and `:` and `,`
in properties), and all else that is invisible is shown as what it is.

Source: GitHub's documentation of workflow commands.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from lore.model.mask import mask
from lore.model.results import Finding
from lore.report.console import Console
from lore.report.forms.terminal import Reported, command_of, shown, worst_first
from lore.report.plain import counted, visible
from lore.report.sentences.findings import describe_cost_and_fix

SHOWN = 10
_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


class GitHub:
    """A report for the log of a workflow's step."""

    mixes = True

    def write(self, result: Reported, out: Console, *, verbose: bool) -> None:
        for line in commands(result, verbose=verbose):
            out.file.write(line + "\n")


def commands(result: Reported, *, verbose: bool) -> Iterable[str]:
    """Yield the commands; the last says how many findings have none."""
    found = worst_first(shown(result.findings, verbose=verbose))
    by_level = {name: [finding for finding in found if finding.severity == name] for name in _LEVELS}
    fits = all(len(some) <= SHOWN for some in by_level.values())
    hidden: list[str] = []
    for name, some in by_level.items():
        room = SHOWN - (name == "note" and not fits)  # a notice says how many are left out
        yield from map(_annotation, some[:room])
        if len(some) > room:
            hidden.append(counted(len(some) - room, name))
    if hidden:
        text = f"{' and '.join(hidden)} more: GitHub shows {SHOWN} of each level; the step summary lists them"
        yield f"::notice title={command_of(result)}::{_data(text)}"


def _annotation(finding: Finding) -> str:
    where = {"file": posixpath.normpath(mask(finding.path))} | (
        {} if finding.line is None else {"line": str(finding.line)}
    )
    title = f"{finding.code} {finding.name}"
    texts = {
        name: _data(text).replace(":", "%3A").replace(",", "%2C") for name, text in {**where, "title": title}.items()
    }
    given = ",".join(f"{name}={text}" for name, text in texts.items())
    turn = "" if finding.turn is None else f"turn {finding.turn}: "
    text = f"{turn}{finding.message}. {describe_cost_and_fix(finding)}"
    return f"::{_LEVELS[finding.severity]} {given}::{_data(text)}"


def _data(text: str) -> str:
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
