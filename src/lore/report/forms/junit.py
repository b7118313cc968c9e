"""JUnit XML: one test case a finding, so that any CI shows them.

Rules: errors are failures, warnings are skipped tests with their message, notes (with -v) pass; a run
without findings is one test that passes, since an empty suite is taken for a broken one. Only characters
that XML 1.0 allows are written: a control character, an escape of a terminal or half a surrogate pair is shown
as what it is.

Source: the `testsuites` form that Jenkins and GitLab read.
"""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from lore.model.results import Finding
from lore.report.console import Console
from lore.report.forms.terminal import Reported, command_of, shown, sums_lines
from lore.report.plain import turn_of, visible
from lore.report.sentences.findings import format_fix, format_loss


class Junit:
    """A report for systems that read JUnit's XML."""

    mixes = False

    def write(self, result: Reported, out: Console, *, verbose: bool) -> None:
        out.file.write("\n".join(_lines(result, verbose=verbose)) + "\n")


def _lines(result: Reported, *, verbose: bool) -> Iterable[str]:
    found = shown(result.findings, verbose=verbose)
    failures = sum(finding.severity == "error" for finding in found)
    skipped = sum(finding.severity == "warning" for finding in found)
    counts = _attributes(
        name=command_of(result),
        tests=str(len(found) or 1),
        failures=str(failures),
        errors="0",
        skipped=str(skipped),
        time="0",
    )
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f"<testsuites{counts}>"
    yield f"  <testsuite{counts}>"
    if not found:
        yield f"    <testcase{_attributes(classname='lore', name='no findings', time='0')}/>"
    for finding in found:
        yield from _case(finding)
    yield f"    <system-out>{_text(chr(10).join(sums_lines(result.summary)))}</system-out>"
    yield "  </testsuite>"
    yield "</testsuites>"


def _case(finding: Finding) -> Iterable[str]:
    turn = "" if finding.turn is None else f" {turn_of(finding.turn, finding.chain)}"
    where = {"file": finding.path} | ({} if finding.line is None else {"line": str(finding.line)})
    name = f"{finding.code} {finding.name}{turn}{' ' + finding.json_path if finding.json_path else ''}"
    case = _attributes(classname=finding.path, name=name, time="0", **where)
    if finding.severity == "note":
        yield f"    <testcase{case}/>"
        return
    attributes = _attributes(message=finding.message) + (
        _attributes(type=finding.code) if finding.severity == "error" else ""
    )
    kind = "failure" if finding.severity == "error" else "skipped"
    yield f"    <testcase{case}>"
    yield f"      <{kind}{attributes}>{_text(chr(10).join(_body(finding)))}</{kind}>"
    yield "    </testcase>"


def _body(finding: Finding) -> Iterable[str]:
    yield finding.message
    if finding.lost_tokens:
        yield format_loss(finding)
    yield ": ".join(format_fix(finding))
    yield f"lore explain {finding.code}"


def _text(text: str) -> str:
    return "\n".join(escape(visible(line)) for line in text.split("\n"))


def _attributes(**given: str) -> str:
    return "".join(f" {name}={quoteattr(visible(text))}" for name, text in given.items())
