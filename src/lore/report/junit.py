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

from rich.console import Console

from lore.model.results import Checked, Finding
from lore.report.console import shown
from lore.report.plain import visible
from lore.report.terminal import sums_lines


class Junit:
    """A report for systems that read JUnit's XML."""

    mixes = False

    def write(self, result: Checked, out: Console, *, verbose: bool) -> None:
        out.file.write("\n".join(_lines(result, verbose=verbose)) + "\n")


def _lines(result: Checked, *, verbose: bool) -> Iterable[str]:
    found = shown(result.findings, verbose=verbose)
    failures = sum(one.severity == "error" for one in found)
    skipped = sum(one.severity == "warning" for one in found)
    counts = _attributes(
        name="lore check",
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
    for one in found:
        yield from _case(one)
    yield f"    <system-out>{_text(chr(10).join(sums_lines(result.summary)))}</system-out>"
    yield "  </testsuite>"
    yield "</testsuites>"


def _case(one: Finding) -> Iterable[str]:
    turn = "" if one.turn is None else f" turn {one.turn}" + ("" if one.chain in (None, "main") else f" of {one.chain}")
    where = {"file": one.path} | ({} if one.line is None else {"line": str(one.line)})
    name = f"{one.code} {one.name}{turn}{' ' + one.json_path if one.json_path else ''}"
    case = _attributes(classname=one.path, name=name, time="0", **where)
    if one.severity == "note":
        yield f"    <testcase{case}/>"
        return
    said = _attributes(message=one.message) + (_attributes(type=one.code) if one.severity == "error" else "")
    kind = "failure" if one.severity == "error" else "skipped"
    yield f"    <testcase{case}>"
    yield f"      <{kind}{said}>{_text(chr(10).join(_body(one)))}</{kind}>"
    yield "    </testcase>"


def _body(one: Finding) -> Iterable[str]:
    yield one.message
    if one.lost_tokens:
        yield f"lost {one.lost_tokens:,} tokens ({one.tokens})"
    yield f"fix: {one.fix}"
    yield f"lore explain {one.code}"


def _text(text: str) -> str:
    return "\n".join(escape(visible(line)) for line in text.split("\n"))


def _attributes(**given: str) -> str:
    return "".join(f" {name}={quoteattr(visible(text))}" for name, text in given.items())
