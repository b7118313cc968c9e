"""Reports for CI and code hosts; text of recordings is data, so markup in it is escaped, also links and commands.

Findings of one cause and place are one row of Markdown, and one annotation of GitHub, as on a terminal.

- Markdown: GitHub shows no step summary of more than a megabyte, so at most `ROWS` findings are listed.
- Annotations are workflow commands, worst first. GitHub shows ten of each level in a step and drops the rest silently,
  so no more are written, and a notice counts the others. Characters that would end a command are escaped (`%`, CR, LF;
  `:` and `,` in properties).
- JUnit has one test case for each recording, so that any CI shows them. A recording fails by its findings of severity
  error; what could not be judged is an error of the test; other findings are its output. Files that are not recordings
  are one skipped test. Only characters that XML 1.0 allows are written; any other is shown as an escape.
- SARIF 2.1.0: a result names its line and its file, relative to `%SRCROOT%`: the repository, else the folder that lore
  ran in. Its fingerprint is lore's, so a finding keeps its identity while lines move. A rule has the page that `lore
  explain` prints; only rules with results are listed.

Sources: GitHub's documentation of workflow commands, and its limits of SARIF files; the form of JUnit's XML that
Jenkins and GitLab read; OASIS Static Analysis Results Interchange Format (SARIF) version 2.1.0.
"""

from __future__ import annotations

import io
import os
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import msgspec

from lore import __version__
from lore.files import current_folder
from lore.judge.totals import is_unjudged
from lore.model.codes import CODES, SEVERITY, Problem
from lore.model.fact import count_of
from lore.model.mask import mask
from lore.model.results import Finding
from lore.report.console import Console
from lore.report.forms import terminal
from lore.report.forms.base import TextReport, make_safe
from lore.report.plain import path_below, place_of, visible
from lore.report.sentences import describe_cost_and_fix, format_fix, split_message

ROWS, CELL = 200, 300
_SIGNS = {"error": "❌", "warning": "⚠️", "note": "·"}
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
            cost = terminal.describe_cost(cause)
            yield f"{number}. **{cause.code} {cause.name}**: {cost}. {_escape_markup(cause.fix)}"
        yield ""
    if merged_findings:
        yield from ("| | finding | where | what | tokens |", "|---|---|---|---|---:|")
        yield from (*(_format_row(finding, turns) for finding, turns in merged_findings[:ROWS]), "")
    if len(merged_findings) > ROWS:
        yield from (f"And {count_of(len(merged_findings) - ROWS, 'finding')} more.", "")


MARKDOWN = TextReport(_format_lines)


def _format_row(finding: Finding, turns: str) -> str:
    where = [_escape_markup(text) for text in (place_of(finding.path, finding.line), turns, finding.json_path) if text]
    what = [_escape_markup(finding.message)]
    if finding.severity != "note":
        what.append(_escape_markup(": ".join(format_fix(finding))))
    what_lost = "re-billed" if finding.is_break else "not cached"
    loss = f"{finding.lost_tokens:,} {what_lost}" if finding.lost_tokens else ""
    cells = _SIGNS[finding.severity], f"{finding.code} {finding.name}", "<br>".join(where), "<br>".join(what), loss
    return f"| {' | '.join(cells)} |"


def _escape_markup(text: str) -> str:
    """Return text with its markup escaped, masked before it is cut, so that half a credential is not shown."""
    plain = visible(text)
    plain = plain if len(plain) <= CELL else plain[: CELL - 1] + "…"
    escaped = _MARKUP.sub(r"\\\1", plain).replace("\\<", "&lt;").replace("\\>", "&gt;")
    return escaped.replace("://", ":&#47;/").replace("www.", "www&#46;")


SHOWN = 10
_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def _commands(result: terminal.Reported, verbose: bool) -> Iterable[str]:  # noqa: FBT001 - of `TextReport`
    """Yield the commands; the last counts the findings without one."""
    merged_findings = terminal.merge_findings(result.findings, verbose=verbose)
    by_level = {name: [pair for pair in merged_findings if pair[0].severity == name] for name in _LEVELS}
    is_cut = any(len(findings) > SHOWN for findings in by_level.values())
    hidden: list[str] = []
    for name, findings in by_level.items():
        room = SHOWN - (name == "note" and is_cut)  # the count is a notice, too
        for finding, turns in findings[:room]:
            fields = {"file": posixpath.normpath(mask(path_in_repository(finding.path)))}
            if finding.line is not None:
                fields["line"] = str(finding.line)
            fields["title"] = f"{finding.code} {finding.name}"
            escaped = {key: _escape_data(text).replace(":", "%3A").replace(",", "%2C") for key, text in fields.items()}
            properties = ",".join(f"{key}={text}" for key, text in escaped.items())
            what = split_message(finding.message)[0]  # the step summary has the grounds
            message = (
                f"{turns and f'{turns}: '}{what}{'' if what.endswith('…') else '.'} {describe_cost_and_fix(finding)}"
            )
            yield f"::{_LEVELS[name]} {properties}::{_escape_data(message)}"
        if len(findings) > room:
            hidden.append(count_of(len(findings) - room, name))
    if hidden:
        text = f"{', '.join(hidden)} more: GitHub shows {SHOWN} of each level; the step summary lists them"
        yield f"::notice title={terminal.command_of(result)}::{_escape_data(text)}"


GITHUB = TextReport(_commands, can_share_stdout=True)


def path_in_repository(path: str) -> str:
    """Return the path of a file relative to the repository that holds the current folder, else the path unchanged.

    That is the one that a workflow of GitHub checked out, or the nearest folder above with `.git`; without one, the
    path is from the current folder.
    """
    folder = current_folder()
    if not folder or not os.path.lexists(full_path := os.path.join(folder, path)):
        return path
    parents = (folder, *map(str, Path(folder).parents))
    root = os.environ.get("GITHUB_WORKSPACE") or next(
        (parent for parent in parents if os.path.lexists(os.path.join(parent, ".git"))), folder
    )
    relative_path = path_below(os.path.abspath(full_path), root)
    return path if os.path.isabs(relative_path) else relative_path.replace(os.sep, "/")


def _escape_data(text: str) -> str:
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


class Junit:
    """A report for systems that read JUnit's XML."""

    can_share_stdout = False

    def __init__(self, recordings: Sequence[str] = (), unjudged: Sequence[Problem] = ()) -> None:
        self._recordings = recordings  # paths of all that was judged; else only those with findings are known
        self._unjudged = {problem.file: problem.message for problem in reversed(unjudged)}  # the first of each file

    def write(self, result: terminal.Reported, out: Console, *, verbose: bool) -> None:
        by_path: dict[str, list[Finding]] = {path: [] for path in self._recordings}
        for finding in terminal.select_findings(result.findings, verbose=verbose):
            by_path.setdefault(finding.path, []).append(finding)
        by_path = by_path or {"no recordings": []}  # an empty suite is taken for a broken one
        root = Element("testsuites")
        suite, kinds, name = SubElement(root, "testsuite"), Counter[str](), terminal.command_of(result)
        for path, findings in by_path.items():
            unjudged = next((finding.message for finding in findings if is_unjudged(finding)), "")
            unjudged = unjudged or self._unjudged.get(path, "")
            kinds[_add_case(suite, name, path, findings, unjudged, verbose=verbose)] += 1
        if skipped := result.summary.skipped:
            case = SubElement(suite, "testcase", classname=name, name="files that are not recordings", time="0")
            SubElement(case, "skipped", message=f"{count_of(skipped, 'file')} passed over: not recordings")
            kinds["skipped"] += 1
        for element in (root, suite):
            element.attrib |= {
                "name": name, "tests": str(len(suite)), "failures": str(kinds["failure"]),
                "errors": str(kinds["error"]), "skipped": str(kinds["skipped"]), "time": "0",
            }  # fmt: skip
        SubElement(suite, "system-out").text = "\n".join(map(visible, terminal.sums_lines(result.summary)))
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
        SubElement(case, kind, attributes).text = _write_plain(failing, verbose=verbose)
    if others := [finding for finding in findings if finding not in failing]:
        SubElement(case, "system-out").text = _write_plain(others, verbose=verbose)
    return kind


def _describe_causes(failing: Sequence[Finding]) -> Iterator[str]:
    """Yield the code and the name of each cause with what it cost; if it is not a cache break, with its message."""
    groups: dict[str, list[Finding]] = {}
    for finding in terminal.worst_first(failing):
        groups.setdefault(f"{finding.code} {finding.name}", []).append(finding)
    for name, group in groups.items():
        details = terminal.describe_loss(group) or ("" if group[0].is_break else split_message(group[0].message)[0])
        yield f"{name}: {details}" if details else name


def _write_plain(findings: Sequence[Finding], *, verbose: bool) -> str:
    text = io.StringIO()
    terminal.write_blocks(findings, Console(text, colour=False, terminal=False), verbose=verbose)
    return "\n".join(map(visible, text.getvalue().splitlines()))


ROOT = "%SRCROOT%"
MOST_RESULTS = 25_000  # the worst findings of a run: code scanning refuses a file with more
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_FACTS = (
    "kind", "chain", "turn", "dialect", "section", "fidelity", "lost_bytes", "lost_tokens", "lost_dollars", "tokens",
)  # fmt: skip


def _encode_log(result: terminal.Reported, verbose: bool) -> Iterator[str]:  # noqa: FBT001 - of `TextReport`
    all_findings = terminal.select_findings(result.findings, verbose=verbose)
    findings = all_findings if len(all_findings) <= MOST_RESULTS else terminal.worst_first(all_findings)[:MOST_RESULTS]
    codes = sorted({finding.code for finding in findings})
    numbers = {code: number for number, code in enumerate(codes)}
    driver = {"name": "lore", "semanticVersion": __version__, "rules": list(map(_describe_rule, codes))}
    run = {
        "tool": {"driver": driver},
        "originalUriBaseIds": {ROOT: {"description": {"text": "The repository, or the folder that lore ran in."}}},
        "columnKind": "unicodeCodePoints",
        "results": [_describe_result(finding, numbers[finding.code]) for finding in findings],
        "properties": {"summary": msgspec.to_builtins(result.summary), "leftOut": len(all_findings) - len(findings)},
    }
    encoded = msgspec.json.encode({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})
    yield make_safe(msgspec.json.format(encoded, indent=2).decode("utf-8"))


SARIF = TextReport(_encode_log)


def _describe_rule(code: str) -> dict[str, Any]:
    facts = CODES[code]
    file = resources.files("lore.judge").joinpath("pages", f"{code}.md")
    page = file.read_text("utf-8") if file.is_file() else facts.fix  # a plug-in's code has none
    tags = ["recording", "damage"] if code.startswith("LORE2") else ["prompt-cache", facts.kind]
    title = facts.short or facts.name.replace("-", " ")
    title = title[:1].upper() + title[1:]
    return {
        "id": code,
        "name": "".join(word.capitalize() for word in facts.name.split("-")),
        "shortDescription": {"text": title},
        "fullDescription": {"text": f"{title}. {facts.fix}"},
        "help": {"text": page, "markdown": page},
        "defaultConfiguration": {"level": SEVERITY[facts.kind]},
        "properties": {"tags": tags, "precision": "high"},
    }


def _describe_result(finding: Finding, rule: int) -> dict[str, Any]:
    turn = "" if finding.turn is None else f"{finding.chain or 'main'}:{finding.turn}"
    member = visible(" ".join(filter(None, (turn, finding.json_path))))
    place: dict[str, Any] = {"logicalLocations": [{"kind": "member", "fullyQualifiedName": member}]} if member else {}
    if finding.path != "<stdin>":
        has_line = finding.line is not None and finding.line > 0
        region = {"region": {"startLine": finding.line}} if has_line else {}
        place["physicalLocation"] = {"artifactLocation": _locate_file(finding.path), **region}
    text = visible(f"{finding.message}. {describe_cost_and_fix(finding)}")
    facts = {name: getattr(finding, name) for name in _FACTS if getattr(finding, name) is not None}
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": text.replace("](", "] (")},  # `[words](address)` would be a link
        "locations": [place] if place else [],
        "partialFingerprints": {"lore/v1": finding.fingerprint},
        "properties": {name: visible(fact) if isinstance(fact, str) else fact for name, fact in facts.items()},
    }


def _locate_file(path: str) -> dict[str, str]:
    """Return the URI of a file, relative to the root if it is below it."""
    plain = mask(path_in_repository(path))
    if os.sep == "\\" or plain[1:3] == ":\\":
        plain = plain.replace("\\", "/")
    if plain.startswith("/") or plain[1:3] == ":/":
        return {"uri": f"file://{'' if plain.startswith('/') else '/'}{quote(plain, safe='/:', errors='replace')}"}
    plain = posixpath.normpath(plain)
    root = {} if plain.startswith("../") or plain == ".." else {"uriBaseId": ROOT}
    return {"uri": quote(plain, errors="replace"), **root}
