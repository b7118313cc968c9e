"""JUnit XML: one test case for each recording, so that any CI shows them.

A recording fails by its findings of severity error; what could not be judged is an error of the test; any other passes.
Other findings are output of the test. Files that are not recordings are one skipped test. The text of a case is that of
the terminal report. Only characters that XML 1.0 allows are written; any other is shown as an escape.

Source: the `testsuites` form that Jenkins and GitLab read.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from lore.judge.totals import is_unjudged
from lore.model.codes import Problem
from lore.model.results import Finding
from lore.report.console import Console
from lore.report.forms.terminal import (
    Reported,
    command_of,
    describe_loss,
    select_findings,
    sums_lines,
    worst_first,
    write_blocks,
)
from lore.report.plain import counted, path_below, visible
from lore.report.sentences.findings import split_message


class Junit:
    """A report for systems that read JUnit's XML."""

    can_share_stdout = False

    def __init__(self, recordings: Sequence[str] = (), unjudged: Sequence[Problem] = ()) -> None:
        self._recordings = recordings  # paths of all that was judged; else only those with findings are known
        self._unjudged = {problem.file: problem.message for problem in reversed(unjudged)}  # the first of each file

    def write(self, result: Reported, out: Console, *, verbose: bool) -> None:
        by_path: dict[str, list[Finding]] = {path: [] for path in self._recordings}
        for finding in select_findings(result.findings, verbose=verbose):
            by_path.setdefault(finding.path, []).append(finding)
        by_path = by_path or {"no recordings": []}  # an empty suite is taken for a broken one
        root = Element("testsuites")
        suite, kinds, name = SubElement(root, "testsuite"), Counter[str](), command_of(result)
        for path, findings in by_path.items():
            unjudged = next((finding.message for finding in findings if is_unjudged(finding)), "")
            unjudged = unjudged or self._unjudged.get(path, "")
            kinds[_add_case(suite, name, path, findings, unjudged, verbose=verbose)] += 1
        if skipped := result.summary.skipped:
            case = SubElement(suite, "testcase", classname=name, name="files that are not recordings", time="0")
            SubElement(case, "skipped", message=f"{counted(skipped, 'file')} passed over: not recordings")
            kinds["skipped"] += 1
        for element in (root, suite):
            element.attrib |= {
                "name": name, "tests": str(len(suite)), "failures": str(kinds["failure"]),
                "errors": str(kinds["error"]), "skipped": str(kinds["skipped"]), "time": "0",
            }  # fmt: skip
        SubElement(suite, "system-out").text = "\n".join(map(visible, sums_lines(result.summary)))
        indent(root)
        out.file.write(f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n')


def _add_case(
    suite: Element, name: str, path: str, findings: Sequence[Finding], unjudged: str, *, verbose: bool
) -> str:  # fmt: skip
    """Add the test case of a recording; return `failure`, `error` (it was not judged) or "" if it passed."""
    shown_path = visible(path_below(path).removeprefix("./"))  # `lore check` and `lore check .` name a test alike
    case = SubElement(suite, "testcase", classname=name, name=shown_path, file=shown_path, time="0")
    kind, message, failing = "", "", [finding for finding in findings if finding.severity == "error"]
    if failing:
        kind, message = "failure", "; ".join(_describe_causes(failing))
    elif unjudged:
        kind, message, failing = "error", f"not judged: {unjudged}", findings
    line = next((finding.line for finding in (*failing, *findings) if finding.line is not None), None)
    if line is not None:
        case.set("line", str(line))
    if kind:
        attributes = {"message": visible(message), "type": visible(message.partition(";")[0].partition(":")[0])}
        SubElement(case, kind, attributes).text = _write(failing, verbose=verbose)
    if others := [finding for finding in findings if finding not in failing]:
        SubElement(case, "system-out").text = _write(others, verbose=verbose)
    return kind


def _describe_causes(failing: Sequence[Finding]) -> Iterator[str]:
    """Yield the code and the name of each cause with what it cost; if it is not a cache break, with its message."""
    groups: dict[str, list[Finding]] = {}
    for finding in worst_first(failing):
        groups.setdefault(f"{finding.code} {finding.name}", []).append(finding)
    for name, group in groups.items():
        details = describe_loss(group) or ("" if group[0].is_break else split_message(group[0].message)[0])
        yield f"{name}: {details}" if details else name


def _write(findings: Sequence[Finding], *, verbose: bool) -> str:
    text = io.StringIO()
    write_blocks(findings, Console(text, colour=False, terminal=False), verbose=verbose)
    return "\n".join(map(visible, text.getvalue().splitlines()))
