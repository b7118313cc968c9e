"""SARIF 2.1.0, for code scanning.

A result names its line and its file, relative to `%SRCROOT%`: the repository, else the folder that lore ran in. Its
fingerprint is lore's, so a finding keeps its identity while lines move. A rule has the page that `lore explain` prints;
only rules with results are listed. No text of a recording becomes a link.

Sources: OASIS Static Analysis Results Interchange Format (SARIF) version 2.1.0; GitHub's limits of SARIF files.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from importlib import resources
from typing import Any
from urllib.parse import quote

import msgspec

from lore import __version__
from lore.model.codes import CODES, SEVERITY
from lore.model.mask import mask
from lore.model.results import Finding
from lore.report.forms.github import path_in_repository
from lore.report.forms.json_report import make_safe
from lore.report.forms.registry import TextReport
from lore.report.forms.terminal import Reported, select_findings, worst_first
from lore.report.plain import visible
from lore.report.sentences.findings import describe_cost_and_fix

ROOT = "%SRCROOT%"
MOST_RESULTS = 25_000  # the worst findings of a run: code scanning refuses a file with more
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_FACTS = (
    "kind", "chain", "turn", "dialect", "section", "fidelity", "lost_bytes", "lost_tokens", "lost_dollars", "tokens",
)  # fmt: skip


def _encode_log(result: Reported, verbose: bool) -> Iterator[str]:  # noqa: FBT001 - of `TextReport`
    all_findings = select_findings(result.findings, verbose=verbose)
    findings = all_findings if len(all_findings) <= MOST_RESULTS else worst_first(all_findings)[:MOST_RESULTS]
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
