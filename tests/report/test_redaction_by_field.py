"""Redaction and masking by field: no text of a recording in any report of any evidence, nor a credential.

Each evidence struct is made with a canary in every field that holds a recording's text, and goes through every report.
"""

import io
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from helpers.each import each
from lore.judge.findings import finding
from lore.model.cause import Place, RuledOut
from lore.model.evidence import Evidence, Told
from lore.model.fact import text_kind
from lore.model.results import CheckResult, DiffResult, DiffSide, Finding, SecondaryCause, Summary, VerdictResult
from lore.model.results.simulate import PredictedResult, SimulatedTurn
from lore.report.console import Console
from lore.report.diff import DiffWriter
from lore.report.forms.base import REPORTS, render
from lore.report.redacted import redacted, redacted_finding
from lore.report.sentences import cause_result
from lore.report.simulation import write_turns

CANARY = "canary in a coalmine"
CREDENTIAL = "sk-ant-api03-canary0123456789abcdef"
OWN = {"event": "LORE125", "sign": "resume", "code": "LORE101", "reason": "tools_changed"}
STRUCTS: tuple[type, ...] = get_args(Evidence)


def value_of(name: str, hint: Any, text: str) -> Any:
    """Make a value of a field: a text of a recording if it may have one, else the smallest of its type."""
    origin, kind = get_origin(hint), text_kind(hint)
    if origin in (Union, UnionType):
        return value_of(name, next(arm for arm in get_args(hint) if arm is not type(None)), text)
    if origin is tuple:
        return (value_of(name, get_args(hint)[0], text),)
    if origin is Literal:
        return get_args(hint)[-1]
    if kind is not None:
        return OWN.get(name, "own") if kind == "own" else f"messages[0].{text}" if kind == "path" else text
    return True if hint is bool else 7


def made(struct: type, text: str) -> Any:
    hints = get_type_hints(struct, include_extras=True)
    return struct(**{name: value_of(name, hints[name], text) for name in struct.__struct_fields__})


def ways(struct: type, text: str) -> list[Finding]:
    """Return findings that hold the evidence: as their own, next to another, and as a reason that was ruled out."""
    evidence, place = made(struct, text), Place("a.jsonl")
    also = (SecondaryCause("LORE123", "resumed", "time", "weak", evidence),)
    ruled = (made(RuledOut, text), RuledOut("model", None, detail=text))
    fields: dict[str, Any] = {
        "line": 1, "chain": text, "turn": 2, "section": text, "json_path": f"messages[0].{text}", "lost_tokens": 5,
    }  # fmt: skip
    return [
        finding("LORE110", place, evidence, strength="certain", **fields),
        finding("LORE159", place, evidence, strength="strong", also=also, **fields),
        finding("LORE301", place, Told(text), strength="weak", ruled_out=ruled, also=also, **fields),
    ]


def written(findings: list[Finding]) -> dict[str, str]:
    """Return each report's text about the findings, and the lines of `lore diff-prefix` and `lore simulate`."""
    told: dict[str, str] = {}
    result = CheckResult(summary=Summary(), top=[], findings=findings, problems=[])
    for name, report in REPORTS.items():
        out = io.StringIO()
        report.write(result, Console(out, colour=False, terminal=False), verbose=True)
        told[name] = out.getvalue()
    causes = [cause_result(one) for one in findings]
    diff = DiffResult(
        left=DiffSide("a"), right=DiffSide("b"), causes=causes, file=None, prompt=None, relation=None, divergence=None,
        reuse_ratio=None, caches=[], billed=None, verdict=None, problems=[],
    )  # fmt: skip
    out = io.StringIO()
    DiffWriter(Console(out, colour=False, terminal=False)).write(diff)
    told["diff"], told["diff json"] = out.getvalue(), render(diff)
    turns = [
        SimulatedTurn(
            path="a.jsonl", turn=1, chain="main", line=1, at=None, model=None, cache="none",
            predicted=PredictedResult(read_tokens=None, write_tokens=None, uncached_tokens=None, confidence="rule"),
            billed=None, verdict=None, causes=[one], cost=None, lost_tokens=None, waste_tokens=None,
            unexplained_tokens=None, foreseen=None,
        )
        for one in causes
    ]  # fmt: skip
    out = io.StringIO()
    write_turns(turns, Console(out, colour=False, terminal=False), every=True)
    told["simulate"], told["simulate json"] = out.getvalue(), "\n".join(map(render, turns))
    return told


@each(STRUCTS)
def test_redacted_finding_has_no_content_in_reports(struct: type) -> None:
    for name, said in written(list(map(redacted_finding, ways(struct, CANARY)))).items():
        assert CANARY not in said, name


@each(STRUCTS)
def test_credential_is_masked_in_every_report(struct: type) -> None:
    found = ways(struct, CREDENTIAL)
    for name, said in written(found).items():
        assert CREDENTIAL not in said, name
    for one in found:  # as library and plugin hand them on
        assert CREDENTIAL not in one.message
        assert CREDENTIAL not in repr((one.evidence, one.also, one.ruled_out))


@each(STRUCTS)
def test_credential_in_model_field_is_redacted(struct: type) -> None:
    """A key pasted into `model` looks like a model's name, which redaction leaves."""
    for name, said in written(list(map(redacted_finding, ways(struct, CREDENTIAL)))).items():
        assert CREDENTIAL not in said, name


@pytest.mark.parametrize("verdict", [
    VerdictResult("tools_changed", 5, CANARY), VerdictResult(CANARY, None, None),
])  # fmt: skip
def test_unknown_verdict_reason_and_source_are_redacted(verdict: VerdictResult) -> None:
    """Whoever wrote the recording named the source: it is a text of theirs, as is a reason that lore does not know."""
    diff = DiffResult(
        left=DiffSide("a"), right=DiffSide("b"), causes=[], file=None, prompt=None, relation=None, divergence=None,
        reuse_ratio=None, caches=[], billed=None, verdict=verdict, problems=[],
    )  # fmt: skip
    out = io.StringIO()
    DiffWriter(Console(out, colour=False, terminal=False)).write(redacted(diff))
    assert CANARY not in out.getvalue() + render(redacted(diff))
    assert CANARY in render(diff)
