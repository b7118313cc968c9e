"""Results without content: `SHOWN` says for each text field of each result what `--redact` makes of it.

A field is listed by its name, or as `Struct.field` if structs differ in it; any other is content. Tests check
that every text of every result is listed, that a hidden text is hidden, and that the guide (`lore guide reports`) shows
this table. The results of a plug-in list their own fields in a class variable `SHOWN` (field -> row). Words of a
`Literal` stay. Causes and columns are redacted when they are made (`redacted_finding`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast, get_args, get_type_hints

from msgspec import Raw, Struct
from msgspec.json import encode as encode_item
from msgspec.structs import replace

from lore.model.canonical import encode, text_of
from lore.model.codes import Code, Problem
from lore.model.inserts import insert_texts
from lore.model.items import Item, RawBlock, is_absent
from lore.model.ledger import Loss
from lore.model.results import CauseResult, ColumnsResult, DiffResult, DiffSide, Finding
from lore.model.results.measured import PROCESS
from lore.model.results.overview import Overview, SpendingCause
from lore.model.results.simulate import GroupResult, ReliabilityResult, SimulateResult
from lore.model.results.store import FoldResult, InjectedResult
from lore.model.running import LastBreak
from lore.model.times import parse_timestamp
from lore.report.redacted.findings import (
    digest,
    is_own,
    redacted_chain,
    redacted_finding,
    redacted_model,
    redacted_path,
    redacted_problem,
    section_word,
    short_hash,
)
from lore.report.sentences.spending import cause_in_words

T = TypeVar("T")
_CLIENT = re.compile(r"[a-z][a-z-]{0,30}( \d[\d.]{0,20})?")  # its name, and the number of a release
_TRIGGERS = frozenset(("overflow", "manual", "cadence", "gap", "auto"))
_SOURCES = frozenset(("user", "context_injection", "tick"))
_STOPS = frozenset(("end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "pause_turn", "stop", "length",
                    "tool_calls", "content_filter", "interrupted"))  # fmt: skip
_OF_TOOLS = "no price is known for the provider's tools"
# Anthropic's reasons of a miss; another provider's word is content until it is known.
_REASONS = frozenset(
    ("tools_changed", "system_changed", "messages_changed", "model_changed", "unavailable",
     "previous_message_not_found")
)  # fmt: skip


class FieldTreatment(NamedTuple):
    """A row of the table: fields that are treated alike."""

    what: str  # the kind of text
    shown: str  # its replacement in a redacted report
    fields: tuple[str, ...]
    kept: bool = False  # their texts stay


SHOWN = {
    "content": FieldTreatment(
        "text of messages, system prompts, tools and results; titles of sessions; reasons and errors of providers, "
        "sources; projects; hosts of gateways",
        "length and 8 digits of the SHA-256",
        ("message", "left", "right", "reason", "source", "project", "gateway", "server", "section", "failed",
         "signature", "media_type", "stop_reason", "CompactDivider.trigger",
         "Comparison.notes", "says", "tokens", "GroupResult.name", "ReliabilityResult.name", "FoundSession.title",
         "PageSession.title", "Spending.title", "SpendingSession.title"),
    ),
    "name": FieldTreatment(
        "names of tools, servers, hooks, skills, commands and files; members of bodies and schemas that are a "
        "writer's own",
        "the same",
        ("names", "client", "clients", "json_path", "DivergenceResult.path", "CauseResult.path", "cached_to",
         "LintBreakpoint.path", "PageTurn.path", "ToolCall.name"),
    ),
    "id": FieldTreatment(
        "ids of sessions and responses; chains and agents with given names",
        "8 digits of the SHA-256",
        ("chain", "PageSession.chains", "session", "session_id", "id", "response_id", "pruned",
         "uuid", "call_id"),
    ),
    "model": FieldTreatment(
        "a model's name",
        "unchanged if all its words are those of public models (`us.anthropic.claude-opus-5-v1:0`); any other "
        "(`ft:gpt-4o:acme:…`) as length and digits",
        ("model", "models", "model_before"),
    ),
    "own": FieldTreatment(
        "members of request shapes (`messages[3].content`), formats, dialects, codes, counts, times, tokens, prices",
        "unchanged",
        ("code", "codes", "name", "kind", "fix", "plain", "actor", "strength", "qualifiers", "fidelity", "confidence",
         "fingerprint", "format", "dialect", "lacks", "sealed", "what", "agent", "title", "engine", "unit",
         "cache", "provider", "platform", "as_of", "by", "by_price", "currency", "change", "trigger",
         "when", "answer", "notes",
         "tokenizer", "relation", "bytes", "billed", "verdict", "dispute", "ruled_out",
         "started_at", "ended_at", "written_at", "UnreadLogs.message", "PredictedResult.reason",
         "ComparedCause.says", "trial"),
        kept=True,
    ),
    "file": FieldTreatment(
        "the file or folder that you named, with line and byte",
        "unchanged: rename it if its name is confidential",
        ("path", "file", "looked", "command", "DryRunResult.session", "DiffSide.name",
         "ComparedSide.name", "MeasuredLog.name", "SpendingSession.path"),
        kept=True,
    ),
}  # fmt: skip
OF_FIELDS = {field: kind for kind, row in SHOWN.items() for field in row.fields}


def _unless(is_known: Callable[[str], object]) -> Callable[[str], str]:
    """Return a function that keeps a text that is known to be lore's own, and hides any other."""
    return lambda text: text if is_known(text) else digest(text)


def _chain(name: str) -> str:
    return redacted_chain(name) or name


_KINDS: dict[str, Callable[[str], str]] = {
    "content": digest, "name": digest, "id": lambda text: short_hash(text) if text else "", "model": redacted_model,
    "own": str, "file": str,
}  # fmt: skip
# Fields with texts, or parts of texts, that are lore's own.
_FIELDS: dict[str, Callable[[str], str]] = {
    "chain": _chain, "ChainResult.id": _chain, "PageSession.chains": _chain, "section": section_word,
    "json_path": redacted_path, "cached_to": redacted_path, "DivergenceResult.path": redacted_path,
    "LintBreakpoint.path": redacted_path, "PageTurn.path": redacted_path,
    "client": _unless(_CLIENT.fullmatch), "clients": _unless(_CLIENT.fullmatch),
    "FoundSession.message": _unless(is_own), "Ledger.message": _unless(is_own),
    "MeasuredLog.server": _unless(lambda name: name.startswith(PROCESS)),
    "VerdictResult.reason": _unless(_REASONS.__contains__), "UserMessage.source": _unless(_SOURCES.__contains__),
    "AssistantMessage.stop_reason": _unless(_STOPS.__contains__),
    "CompactDivider.trigger": _unless(_TRIGGERS.__contains__),
    **dict.fromkeys(
        ("TurnResult.started_at", "TurnResult.ended_at"), _unless(lambda text: parse_timestamp(text) is not None)
    ),
}  # fmt: skip


def redacted(result: T) -> T:
    """Return a result, or a part of one, without content."""
    kind: type = type(cast("object", result))
    return _STRUCTS.get(kind, _by_field)(result)


redacted_result = redacted  # the public name: `lore.report.redacted` is this package


def _by_field(result: Any) -> Any:
    changed = {name: _value(getattr(result, name), change) for name, change in _changes(result.__class__)}
    return replace(result, **changed) if isinstance(result, Struct) else result._replace(**changed)


def _value(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Raw):
        return _raw(value)
    if isinstance(value, Struct) or hasattr(value, "_fields"):
        return redacted(value)
    if isinstance(value, list | tuple):
        parts = [_value(part, change) for part in cast("Iterable[Any]", value)]
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(value, dict):
        return {_value(key, change): _value(part, change) for key, part in cast("dict[Any, Any]", value).items()}
    return value


def _raw(raw: Raw) -> Raw:
    """Return the digest of a JSON string's text, or of another value's JSON."""
    if is_absent(raw):
        return raw
    value = bytes(raw)
    return Raw(encode(digest(text_of(value) if value[:1] == b'"' else value.decode("utf-8", "replace"))))


@cache
def _changes(kind: Any) -> tuple[tuple[str, Callable[[str], str]], ...]:
    """Return the fields of a type, each with the function for its texts."""
    hints = get_type_hints(kind)
    fields: Iterable[str] = kind.__struct_fields__ if issubclass(kind, Struct) else kind._fields
    own: dict[str, str] = getattr(kind, "SHOWN", {})
    return tuple([
        (field, _change(kind.__name__, field, own.get(field)) if _is_text(hints[field]) else str) for field in fields
    ])  # fmt: skip


def _change(struct: str, field: str, row: str | None) -> Callable[[str], str]:
    if row is not None:
        return _KINDS[row]
    for name in (f"{struct}.{field}", field):
        if name in _FIELDS or name in OF_FIELDS:
            return _FIELDS.get(name) or _KINDS[OF_FIELDS[name]]
    return digest


def _is_text(hint: Any) -> bool:
    return hint is str or any(map(_is_text, get_args(hint)))


def redacted_fold(result: FoldResult, items: list[Item]) -> tuple[FoldResult, list[Item]]:
    """Return a folded session and its items without content; an item keeps its kind, status, counts and place."""
    shown = [redacted(item) for item in items]
    made = redacted(replace(result, timeline=[], injected=[]))
    timeline = [Raw(encode_item(item)) for item in shown]
    return replace(made, timeline=timeline, injected=list(map(_injected, result.injected))), shown


def _injected(injected: InjectedResult) -> InjectedResult:
    texts = insert_texts(injected.content) or ()
    content = [{"role": spoken.role, "text": digest(text_of(spoken.text))} for spoken in texts]
    return replace(injected, content=Raw(encode(content)))


# Structs with a field that says what another one holds


_NAMES = {"model": redacted_model, "project": digest, "gateway": digest}  # names of groups, by the key of grouping


def _grouped(row: GroupResult | ReliabilityResult) -> GroupResult | ReliabilityResult:
    return replace(row, name=_NAMES.get(row.by, str)(row.name))


def _overview(result: Overview) -> Overview:
    name = _NAMES.get(result.by or "", str)
    return replace(
        _by_field(result), groups=[replace(_by_field(group), name=name(group.name)) for group in result.groups]
    )


def _simulated(result: SimulateResult) -> SimulateResult:
    models = {turn.model for turn in result.turns if turn.model is not None}
    return replace(_by_field(result), notes=list(_notes(result.notes, models)))


def _notes(notes: Iterable[str], models: set[str]) -> Iterator[str]:
    """Yield notes without names of tools and of models that are not public."""
    odd = [(model, redacted_model(model)) for model in models if redacted_model(model) != model]
    for note in notes:
        if note.startswith(_OF_TOOLS):
            yield f"{_OF_TOOLS}: {digest(note)}"
            continue
        shown = note
        for model, hidden in odd:
            shown = shown.replace(model, hidden)
        yield shown


def _diff(diff: DiffResult) -> DiffResult:
    """Return a comparison without content, its chain redacted in the names `FILE#CHAIN:TURN` too."""
    made: DiffResult = _by_field(diff)
    if not diff.chain:
        return made
    left, right = (_named(side, diff.chain, _chain(diff.chain)) for side in (made.left, made.right))
    return replace(made, left=left, right=right)


def _named(side: DiffSide, chain: str, shown: str) -> DiffSide:
    return replace(side, name=side.name.replace(f"#{chain}:", f"#{shown}:"))


def _loss(loss: Loss) -> Loss:
    return replace(loss, names=tuple(map(_names_of(loss.code), loss.names)))


def redacted_cause(cause: SpendingCause) -> SpendingCause:
    """Return the cost of a cause in words, without the names in it except public models."""
    return cause_in_words(replace(cause, names=list(map(_names_of(cause.code), cause.names))))


def _names_of(code: str) -> Callable[[str], str]:
    return redacted_model if code == Code.MODEL_CHANGED else digest


_STRUCTS: dict[type, Callable[[Any], Any]] = {
    Finding: redacted_finding, Problem: redacted_problem, CauseResult: lambda cause: cause,
    ColumnsResult: lambda columns: columns, SpendingCause: redacted_cause, Loss: _loss, Overview: _overview,
    GroupResult: _grouped, ReliabilityResult: _grouped, SimulateResult: _simulated, DiffResult: _diff,
    RawBlock: lambda block: RawBlock(_raw(block.json)),
    LastBreak: lambda last: last._replace(says=last.plain),
}  # fmt: skip
