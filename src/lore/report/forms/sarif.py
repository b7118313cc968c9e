"""SARIF 2.1.0: what code scanning reads.

Rules: a result points at its file, relative to `%SRCROOT%` where it lies below the folder that lore ran in, and
at its line; its fingerprint is lore's, so that a finding keeps its identity while lines move; each rule carries
the page that `lore explain` prints. Only rules that have results are listed. No text of a recording becomes a link.
At most `MOST_RESULTS` are written, the worst of all, since code scanning refuses a file that holds more.

Sources: OASIS Static Analysis Results Interchange Format (SARIF) version 2.1.0; GitHub's limits of SARIF files.
"""

from __future__ import annotations

import os
import posixpath
from importlib import resources
from typing import Any
from urllib.parse import quote

import msgspec

from lore import __version__
from lore.model.codes import CODES, SEVERITY
from lore.model.mask import mask
from lore.model.results import Finding
from lore.report.console import Console
from lore.report.forms.json_report import safe
from lore.report.forms.terminal import Reported, shown, worst_first
from lore.report.plain import visible
from lore.report.sentences.findings import describe_cost_and_fix

ROOT = "%SRCROOT%"
MOST_RESULTS = 25_000  # findings in a run: code scanning refuses a file that holds more
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


class Sarif:
    """A report for code scanning."""

    mixes = False

    def write(self, result: Reported, out: Console, *, verbose: bool) -> None:
        spelled = msgspec.json.encode(log(result, verbose=verbose))
        out.file.write(safe(msgspec.json.format(spelled, indent=2).decode("utf-8")) + "\n")


def log(result: Reported, *, verbose: bool) -> dict[str, Any]:
    """Return the log as a JSON object."""
    every = shown(result.findings, verbose=verbose)
    found = every if len(every) <= MOST_RESULTS else worst_first(every)[:MOST_RESULTS]
    codes = sorted({finding.code for finding in found})
    rules = {code: number for number, code in enumerate(codes)}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "lore",
                        "semanticVersion": __version__,
                        "rules": list(map(_rule, codes)),
                    }
                },
                "originalUriBaseIds": {ROOT: {"description": {"text": "The folder that lore was run in."}}},
                "columnKind": "unicodeCodePoints",
                "results": [_result(finding, rules[finding.code]) for finding in found],
                "properties": {"summary": msgspec.to_builtins(result.summary), "leftOut": len(every) - len(found)},
            }
        ],
    }


def _rule(code: str) -> dict[str, Any]:
    known = CODES[code]
    level = SEVERITY[known.kind]
    file = resources.files("lore.judge").joinpath("pages", f"{code}.md")
    page = file.read_text("utf-8") if file.is_file() else known.fix  # a plug-in's code has none
    return {
        "id": code,
        "name": "".join(word.capitalize() for word in known.name.split("-")),
        "shortDescription": {"text": known.name},
        "fullDescription": {"text": known.fix},
        "help": {"text": page, "markdown": page},
        "defaultConfiguration": {"level": level},
        "properties": {"tags": ["prompt-cache", known.kind], "precision": "high"},
    }


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    turn = "" if finding.turn is None else f"{finding.chain or 'main'}:{finding.turn}"
    named = " ".join(filter(None, (turn, finding.json_path)))
    logical = {"kind": "member", "fullyQualifiedName": visible(named)}
    place: dict[str, Any] = {"logicalLocations": [logical]} if logical["fullyQualifiedName"] else {}
    if finding.path != "<stdin>":
        physical: dict[str, Any] = {"artifactLocation": _artifact(finding.path)}
        if finding.line is not None and finding.line > 0:
            physical["region"] = {"startLine": finding.line}
        place["physicalLocation"] = physical
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


_FACTS = (
    "kind", "chain", "turn", "dialect", "section", "fidelity", "lost_bytes", "lost_tokens", "lost_dollars", "tokens",
)  # fmt: skip


def _artifact(path: str) -> dict[str, str]:
    """Name a file by a URI: relative to the root where it is below it."""
    plain = mask(path)  # what is invisible in a name is spelled in a URI as any other character is
    if os.sep == "\\" or plain[1:3] == ":\\":
        plain = plain.replace("\\", "/")
    if plain.startswith("/") or plain[1:3] == ":/":
        return {"uri": "file://" + ("" if plain.startswith("/") else "/") + quote(plain, safe="/:", errors="replace")}
    plain = posixpath.normpath(plain)
    uri = {"uri": quote(plain, errors="replace")}
    return uri if plain.startswith("../") or plain == ".." else {**uri, "uriBaseId": ROOT}
