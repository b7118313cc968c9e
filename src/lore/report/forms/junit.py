"""JUnit XML: one test case for each recording, so that any CI shows them.

A recording fails with an error among its findings; what could not be judged is an error of the test; a recording with
only warnings is a skipped test; any other passes. The text of a case is that of the terminal report. Only characters
that XML 1.0 allows are written; any other is shown as an escape.

Source: the `testsuites` form that Jenkins and GitLab read.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from lore.judge.totals import is_unjudged
from lore.model.results import Finding
from lore.report.console import Console
from lore.report.forms.terminal import FindingsWriter, Reported, command_of, shown, sums_lines, worst_first
from lore.report.plain import visible


class Junit:
    """A report for systems that read JUnit's XML."""

    mixes = False

    def __init__(self, recordings: Sequence[str] = ()) -> None:
        self._recordings = recordings  # paths of all that was judged; else only those with findings are known

    def write(self, result: Reported, out: Console, *, verbose: bool) -> None:
        by_path: dict[str, list[Finding]] = {path: [] for path in self._recordings}
        for finding in shown(result.findings, verbose=verbose):
            by_path.setdefault(finding.path, []).append(finding)
        suite, cases, kinds = command_of(result), list[str](), Counter[str]()
        for path, found in by_path.items():
            kind, message = _ending(found)
            kinds[kind] += 1
            cases += _case(suite, path, found, kind, message, _text_of(found, verbose=verbose))
        if not cases:  # an empty suite is taken for a broken one
            cases = _case(suite, "no recordings", [], "", "", "")
        numbers = _attributes(
            name=suite, tests=str(len(by_path) or 1), failures=str(kinds["failure"]), errors=str(kinds["error"]),
            skipped=str(kinds["skipped"]), time="0",
        )  # fmt: skip
        lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites{numbers}>", f"  <testsuite{numbers}>", *cases]
        sums = _text("\n".join(sums_lines(result.summary)))
        lines += [f"    <system-out>{sums}</system-out>", "  </testsuite>", "</testsuites>"]
        out.file.write("\n".join(lines) + "\n")


def _ending(found: Sequence[Finding]) -> tuple[str, str]:
    """Return the element that says how a test case ended, empty if it passed, and its message."""
    severities = {finding.severity for finding in found}
    message = ", ".join(dict.fromkeys(f"{finding.code} {finding.name}" for finding in worst_first(found)))
    if "error" in severities:
        return "failure", message
    unjudged = next((finding.message for finding in found if is_unjudged(finding)), "")
    if unjudged:
        return "error", f"not judged: {unjudged}"
    return ("skipped", message) if "warning" in severities else ("", message)


def _text_of(found: Sequence[Finding], *, verbose: bool) -> str:
    """Return the findings as the terminal report has them."""
    text = io.StringIO()
    FindingsWriter(Console(text, colour=False, terminal=False), verbose=verbose).write(found)
    return _text(text.getvalue())


def _case(suite: str, path: str, found: Sequence[Finding], kind: str, message: str, text: str) -> list[str]:
    """Return the lines of a test case."""
    line = next((str(finding.line) for finding in found if finding.line is not None), "")
    case = _attributes(classname=suite, name=path, file=path, line=line, time="0")
    if not kind and not text:
        return [f"    <testcase{case}/>"]
    element, attributes = kind or "system-out", ""
    if kind:
        about = "" if kind == "skipped" else message.partition(",")[0].partition(":")[0]
        attributes = _attributes(message=message, type=about)
    return [f"    <testcase{case}>", f"      <{element}{attributes}>{text}</{element}>", "    </testcase>"]


def _text(text: str) -> str:
    return "\n".join(escape(visible(line)) for line in text.rstrip("\n").split("\n"))


def _attributes(**given: str) -> str:
    return "".join(f" {name}={quoteattr(visible(text))}" for name, text in given.items() if text)
