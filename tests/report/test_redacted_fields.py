"""The table of what `--redact` does with each field: whole, and kept."""

import re
from collections.abc import Iterator
from importlib import resources
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from helpers.each import each
from lore.judge.findings import finding
from lore.model.cause import Place
from lore.model.codes import Problem
from lore.model.evidence import Told
from lore.model.items import AssistantMessage, CompactDivider, OpaqueItem, ToolCall, UserMessage
from lore.model.ledger import Ledger
from lore.model.results import CauseResult, CheckResult, DiffResult, Finding
from lore.model.results.compact import DryRunResult
from lore.model.results.found import FoundSessions
from lore.model.results.lint import LintRequest
from lore.model.results.overview import Comparison, Overview
from lore.model.results.page import PageSession
from lore.model.results.simulate import SimulateResult
from lore.model.results.store import FoldResult
from lore.model.running import RunningTotals
from lore.report.redacted import ROWS, digest, redacted, redacted_fold, redacted_model
from lore.report.sentences import cause_result

CANARY = "zEiSiG 12:30"
REDACTED = (
    CheckResult, DiffResult, SimulateResult, Overview, Ledger, Comparison, DryRunResult, RunningTotals, FoundSessions,
    LintRequest, FoldResult, PageSession, UserMessage, AssistantMessage, ToolCall, CompactDivider, OpaqueItem,
)  # fmt: skip
# `test_redaction_by_field` tries every struct of evidence; the type of a field says whether it is content.
EVIDENCE = ("lore.model.evidence", "lore.model.differences", "lore.model.cause")
PLAIN = {"code": "LORE101", "by": "project", "kind": "main", "Ledger.path": "r.jsonl"}


def _structs(hint: Any, seen: set[type]) -> Iterator[type]:
    """Yield the types of a result that have fields, however deep."""
    for arg in get_args(hint):
        yield from _structs(arg, seen)
    module = getattr(hint, "__module__", "")
    if _fields(hint) and hint not in seen and module.startswith("lore.") and not module.startswith(EVIDENCE):
        seen.add(hint)
        yield hint
        for inner in get_type_hints(hint).values():
            yield from _structs(inner, seen)


def _fields(struct: Any) -> tuple[str, ...]:
    return getattr(struct, "__struct_fields__", ()) or getattr(struct, "_fields", ())


def _is_text(hint: Any) -> bool:
    return hint is str or any(map(_is_text, get_args(hint)))


def _texts() -> Iterator[tuple[str, str]]:
    seen: set[type] = set()
    for root in REDACTED:
        for struct in _structs(root, seen):
            hints = get_type_hints(struct)
            yield from ((struct.__name__, name) for name in _fields(struct) if _is_text(hints[name]))


def test_every_text_field_is_listed():
    """A new field of a result counts as content until the table says otherwise."""
    assert [f"{struct}.{field}" for struct, field in _texts() if _unlisted(struct, field)] == []


def _unlisted(struct: str, field: str) -> bool:
    return f"{struct}.{field}" not in ROWS and field not in ROWS


def test_every_listed_field_exists():
    known = {name for struct, field in _texts() for name in (field, f"{struct}.{field}")}
    assert set(ROWS) - known == set()


def made(hint: Any, name: str = "") -> Any:
    """Make a value of a type: with a canary in each text that the table hides."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return made(next(arm for arm in args if arm not in (type(None), msgspec.UnsetType)), name)
    if origin is Literal:
        return args[0]
    if origin in (list, tuple, frozenset, set):
        return origin([made(args[0], name)])
    if origin is dict:
        return {made(args[0], name): made(args[1], name)}
    if hint is str:
        field = name.partition(".")[2]
        plain = PLAIN.get(name) or PLAIN.get(field) or "own"
        return plain if (ROWS.get(name) or ROWS[field]) in ("own", "file") else CANARY
    if hint is Finding:
        return finding("LORE101", Place("r.jsonl"), Told(CANARY), chain=CANARY, section=CANARY, json_path=CANARY)
    if hint is Problem:
        return Problem("LORE901", CANARY, file="r.jsonl")
    if hint is CauseResult:
        return cause_result(finding("LORE101", Place("r.jsonl"), Told("own")))
    if isinstance(hint, type) and _fields(hint) and hint.__module__.startswith("lore."):
        hints = get_type_hints(hint)
        return hint(**{
            field: made(hints[field], f"{hint.__name__}.{field}") for field in _fields(hint) if field != "schema"
        })  # fmt: skip
    return {bool: True, int: 7, float: 7.0, msgspec.Raw: msgspec.Raw(b"1")}.get(hint)


@each(REDACTED)
def test_listed_content_is_hidden(struct):
    result = made(struct)
    assert CANARY in repr(result)
    hidden = redacted_fold(result, [])[0] if struct is FoldResult else redacted(result)
    assert CANARY not in repr(hidden)


_NAMES = re.compile(r'"((?:claude|gpt|o\d|gemini|deepseek|grok|kimi|qwen)-[\w.-]+)"')
RULED = sorted({
    name for file in (resources.files("lore.cache") / "data").iterdir() if file.name.endswith(".toml")
    for name in _NAMES.findall(file.read_text(encoding="utf-8"))
} - {"claude-code"})  # fmt: skip


def test_models_of_packaged_rules_are_shown():
    assert len(RULED) > 40
    assert {name: redacted_model(name) for name in RULED} == dict(zip(RULED, RULED, strict=True))


@each([
    "us.anthropic.claude-sonnet-4-6-v1:0", "claude-sonnet-4-6@20260217", "anthropic/claude-opus-5",
    "claude-opus-5[1m]", "gpt-4o-2024-08-06", "qwen3-coder-30b-a3b", "meta-llama/llama-3.3-70b-instruct", "sonnet",
])  # fmt: skip
def test_public_model_name_is_shown(name):
    assert redacted_model(name) == name


@each(["ft:gpt-4o:acme:merger:9aBcDeF", "claude-acme-internal", "zEiSiG-4", "m-secret", "acme/claude-opus-5",
     "gpt-5\u202e", "/home/ann/models/llama.gguf", "sk-ant-api03-canary0123456789abcdef", "gpt-" * 40])  # fmt: skip
def test_model_name_with_unknown_word_is_hidden(name):
    """`diff-prefix --redact` showed a fine-tuned model's organisation: whatever looked like a name was left."""
    assert redacted_model(name) == digest(name)
