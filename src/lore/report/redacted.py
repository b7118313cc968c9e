"""Results, findings and errors without content, for `--redact`.

What a recording says is content, and so are the names in it (of tools, keys, agents, ids): a text is replaced by its
length and the beginning of its SHA-256, so that equal texts remain recognisable. Codes, places of files, names of
public models, dialects and numbers stay, and of a path inside a body the members that request shapes have themselves.
Any other text is content.

`FIELDS` names for each text field of each result the function that redacts it. A field is listed by its name, or as
`Struct.field` if structs differ in it. Tests check that every text of every result is listed and that a hidden text is
hidden; `lore guide reports` has the table for users. The results of a plug-in list their own fields in a class
variable `SHOWN` (field -> row). Words of a `Literal` stay. Causes and columns are redacted when they are made
(`redacted_finding`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_type_hints

from msgspec import Raw, Struct
from msgspec.json import encode as encode_item
from msgspec.structs import replace

from lore.errors import LoreError, Where
from lore.judge.findings import lasting_chain
from lore.judge.messages import in_words
from lore.model.canonical import encode, text_of
from lore.model.codes import Code, Problem
from lore.model.deferred import pattern, sha256
from lore.model.inserts import insert_texts
from lore.model.items import Item, RawBlock, is_absent
from lore.model.ledger import Loss
from lore.model.results import CauseResult, ColumnsResult, DiffResult, Finding
from lore.model.results.measured import PROCESS
from lore.model.results.overview import Overview, SpendingCause
from lore.model.results.simulate import GroupResult, ReliabilityResult
from lore.model.results.store import FoldResult, InjectedResult
from lore.model.running import LastBreak
from lore.model.times import parse_timestamp
from lore.report.sentences import cause_in_words, cause_result

T = TypeVar("T")

# Members of request bodies in the known dialects. The members of a tool's schema are a writer's own: only these stay.
_BODY_WORDS = """
    messages input contents content parts text type role system system_instruction systemInstruction instructions
    tools tool_calls toolSpec toolUse toolResult functionDeclarations functionCall functionResponse function_call
    function_response function name id call_id arguments output description parameters input_schema inputSchema json
    properties required items enum source data media_type image_url url thinking signature reasoning summary
    tool_use_id tool_call_id cache_control cachePoint status is_error check exempt findings toolConfig
    prompt_cache_key prompt_cache_retention store truncation
"""
_MEMBERS = frozenset(_BODY_WORDS.split())
_PIECES = pattern(r"(\[\d*\]|\.)")
# The words in names of public models and of their servers. A name with another word (the organisation of a fine-tuned
# model, a private deployment) is content.
_MODEL_WORDS = """
    claude opus sonnet haiku fable mythos instant gpt oss codex chatgpt gemini gemma deepseek grok kimi
    moonshot qwen glm mistral mixtral mistralai codestral devstral magistral ministral llama maverick scout
    nova premier command minimax mini nano micro small medium large pro plus max flash lite turbo fast air
    high low luna sol terra astra argon preview latest exp experimental beta next free thinking reasoner
    reasoning instruct chat coder code coding for unknown auto anthropic openai google meta amazon ai org zai
    xai moonshotai bedrock vertex openrouter azure fireworks together groq us eu apac jp au global models
"""
_PUBLIC = frozenset(_MODEL_WORDS.split())
_MODEL_NUMBER = pattern(
    r"(?:(?:qwen|llama|gemma|glm)?[a-z]?\d{1,3}[a-z]?|[a-z]|\d{1,3}x\d{1,3}b|20\d\d(?:\d{4})?|0[1-9]\d\d|1[0-2]\d\d)?"
)
_LONGEST_MODEL = 100  # characters of a name that may be a public model's
_MODEL_PARTS = pattern(r"[-./:@_\[\]]")
_SECTIONS = frozenset(("tools", "system", "messages"))


def digest(text: str) -> str:
    """Return the length of a text and 8 digits of its SHA-256; "" for an empty one."""
    if not text:
        return ""
    size, spelled = len(text), text.encode("utf-8", "surrogatepass")
    return f"[{size} character{'s' * (size != 1)}, sha256 {sha256(spelled)[:8]}]"


def redacted_path(path: str) -> str:
    """Return a path inside a body, with hashes for the members that no request shape has."""
    pieces = [piece for piece in _PIECES.split(path) if piece]
    return "".join([piece if piece in _MEMBERS or _PIECES.fullmatch(piece) else short_hash(piece) for piece in pieces])


def short_hash(text: str) -> str:
    """Return 8 digits of the SHA-256 of an id or a name; "" for an empty one."""
    return "#" + sha256(text.encode("utf-8", "surrogatepass"))[:8] if text else ""


def redacted_chain(chain: str) -> str:
    """Return a chain's name if lore made it, else its hash."""
    return chain if lasting_chain(chain) is None else short_hash(chain)


def redacted_model(name: str) -> str:
    """Return a model's name if all its words are those of public models, else its digest."""
    is_public = all(part in _PUBLIC or _MODEL_NUMBER.fullmatch(part) for part in _MODEL_PARTS.split(name.lower()))
    return name if is_public and name.isascii() and len(name) <= _LONGEST_MODEL else digest(name)


def redacted_error(error: LoreError) -> LoreError:
    """Return an error of reading a recording without the text that it may quote; its place stays."""
    if error.own:
        error.message, error.choices = error.own, ()  # choices are titles of sessions
        return error
    place = error.where.file if error.where is not None else None
    message = f"{place + ': ' if place else ''}an input could not be judged: {digest(error.message)}"
    new_error = LoreError(message, hint="leave --redact out to read the message", where=error.where or Where())
    new_error.exit_code = error.exit_code
    return new_error


_CLIENT = re.compile(r"[a-z][a-z-]{0,30}( \d[\d.]{0,20})?")  # its name, and the number of a release
# Words of known formats for what started a compaction, the author of a message, why a response stopped, and
# Anthropic's reasons of a miss; another word is content until it is known.
_KNOWN_WORDS = """
    overflow manual cadence gap auto user context_injection tick end_turn tool_use max_tokens stop_sequence refusal
    pause_turn stop length tool_calls content_filter interrupted tools_changed system_changed messages_changed
    model_changed unavailable previous_message_not_found
"""
_WORDS = frozenset(_KNOWN_WORDS.split())


def _unless(is_known: Callable[[str], object]) -> Callable[[str], str]:
    """Return a function that keeps a text if `is_known` holds for it, and replaces any other by its digest."""
    return lambda text: text if is_known(text) else digest(text)


# The function for a text, by the name of a row of `FIELDS`, or by its kind in evidence (`lore.model.fact`).
CHANGES: dict[str, Callable[[str], str]] = {
    "content": digest,
    "name": digest,  # in evidence
    "id": short_hash,
    "chain": redacted_chain,
    "model": redacted_model,
    "path": redacted_path,  # inside a body
    "section": _unless(_SECTIONS.__contains__),
    "word": _unless(_WORDS.__contains__),
    "client": _unless(_CLIENT.fullmatch),
    "message": _unless(("not counted: --all reads it", "unrecognised format").__contains__),
    "server": _unless(lambda name: name.startswith(PROCESS)),
    "time": _unless(lambda text: parse_timestamp(text) is not None),
    "own": str,  # lore's own words
    "file": str,  # as the user named it
}
FIELDS = {  # separated by spaces
    "content": """
        message left right text_before text_after reason source project gateway server failed signature media_type
        stop_reason Comparison.notes says tokens GroupResult.name ReliabilityResult.name FoundSession.title
        PageSession.title Spending.title SpendingSession.title names CauseResult.path ToolCall.name
    """,
    "id": "session origin session_id id response_id pruned uuid call_id",
    "chain": "chain ChainResult.id PageSession.chains",
    "model": "model models model_before",
    "path": "json_path cached_to DivergenceResult.path LintBreakpoint.path PageTurn.path",
    "section": "section",
    "word": "VerdictResult.reason UserMessage.source AssistantMessage.stop_reason CompactDivider.trigger",
    "client": "client clients",
    "message": "FoundSession.message Ledger.message",
    "server": "MeasuredLog.server",
    "time": "TurnResult.started_at TurnResult.ended_at",
    "own": """
        code codes name kind fix plain actor strength qualifiers fidelity confidence fingerprint format dialect
        lacks sealed what agent title engine unit cache provider platform as_of by by_price currency change trigger
        answer notes tokenizer relation bytes billed verdict dispute ruled_out started_at estimated_tokens
        unpriced_tokens ended_at written_at latest_at UnreadLogs.message PredictedResult.reason ComparedCause.says
        Loss.detail PageSession.leading LedgerRow.surcharge MissedRead.detail
    """,
    "file": """
        path file looked command DryRunResult.session DiffSide.name ComparedSide.name MeasuredLog.name
        SpendingSession.path
    """,
}
ROWS = {field: row for row, fields in FIELDS.items() for field in fields.split()}


def redacted(result: T) -> T:
    """Return a result, or a part of one, without content."""
    kind: type = type(cast("object", result))
    return _STRUCTS.get(kind, _redact_fields)(result)


redacted_result = redacted  # the public name: `lore.report.redacted` is this package


def redacted_finding(finding: Finding) -> Finding:
    """Return a finding without content. Its fingerprint has none and stays."""
    copy = replace(
        finding, chain=finding.chain and redacted_chain(finding.chain),
        section=finding.section and CHANGES["section"](finding.section),
        json_path=finding.json_path and redacted_path(finding.json_path),
    )  # fmt: skip
    return in_words(copy, CHANGES)


def causes_of(findings: Iterable[Finding], *, redact: bool = False) -> list[CauseResult]:
    """Return findings in the form of results about a turn."""
    return [cause_result(redacted_finding(finding) if redact else finding) for finding in findings]


def redacted_problem(problem: Problem) -> Problem:
    """Return a problem without content. The message about mixed logs only counts lines."""
    return problem if problem.code == Code.ENGINES_MIXED else replace(problem, message=digest(problem.message))


def _redact_fields(result: Any) -> Any:
    changed = {name: _redact(getattr(result, name), change) for name, change in _field_changes(result.__class__)}
    return replace(result, **changed) if isinstance(result, Struct) else result._replace(**changed)


def _redact(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Raw):
        return _redact_raw(value)
    if isinstance(value, Struct) or hasattr(value, "_fields"):
        return redacted(value)
    if isinstance(value, list | tuple):
        parts = [_redact(part, change) for part in cast("Iterable[Any]", value)]
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(value, dict):
        return {_redact(key, change): _redact(part, change) for key, part in cast("dict[Any, Any]", value).items()}
    return value


def _redact_raw(raw: Raw) -> Raw:
    """Return the digest of a JSON string's text, or of another value's JSON."""
    if is_absent(raw):
        return raw
    value = bytes(raw)
    return Raw(encode(digest(text_of(value) if value[:1] == b'"' else value.decode("utf-8", "replace"))))


@cache
def _field_changes(kind: Any) -> tuple[tuple[str, Callable[[str], str]], ...]:
    """Return the fields of a type, each with the function for its texts."""
    hints, plugin_rows = get_type_hints(kind), getattr(kind, "SHOWN", {})
    rows = {
        field: plugin_rows.get(field) or ROWS.get(f"{kind.__name__}.{field}") or ROWS.get(field, "content")
        for field in (kind.__struct_fields__ if issubclass(kind, Struct) else kind._fields)
    }
    return tuple([(field, CHANGES[row] if _is_text(hints[field]) else str) for field, row in rows.items()])


def _is_text(hint: Any) -> bool:
    return hint is str or any(map(_is_text, get_args(hint)))


def redacted_fold(result: FoldResult, items: list[Item]) -> tuple[FoldResult, list[Item]]:
    """Return a folded session and its items without content; an item keeps its kind, status, counts and place."""
    redacted_items = [redacted(item) for item in items]
    injected: list[InjectedResult] = []
    for insert in result.injected:
        texts = insert_texts(insert.content) or ()
        content = [{"role": part.role, "text": digest(text_of(part.text))} for part in texts]
        injected.append(replace(insert, content=Raw(encode(content))))
    folded = redacted(replace(result, timeline=[], injected=[]))
    timeline = [Raw(encode_item(item)) for item in redacted_items]
    return replace(folded, timeline=timeline, injected=injected), redacted_items


_NAMES = {"model": redacted_model, "project": digest, "gateway": digest}  # names of groups, by the key of grouping


def _redact_group(row: GroupResult | ReliabilityResult) -> GroupResult | ReliabilityResult:
    return replace(row, name=_NAMES.get(row.by, str)(row.name))


def _redact_overview(result: Overview) -> Overview:
    name = _NAMES.get(result.by or "", str)
    groups = [replace(_redact_fields(group), name=name(group.name)) for group in result.groups]
    return replace(_redact_fields(result), groups=groups)


def _redact_diff(diff: DiffResult) -> DiffResult:
    """Return a comparison without content, its chain redacted in the names `FILE#CHAIN:TURN` too."""
    copy: DiffResult = _redact_fields(diff)
    left_side, right_side = (
        replace(side, name=side.name.replace(f"#{diff.chain}:", f"#{copy.chain}:")) for side in (copy.left, copy.right)
    )
    return replace(copy, left=left_side, right=right_side)


def _redact_cause(cause: SpendingCause) -> SpendingCause:
    most = None if cause.most is None else redacted(cause.most)
    return cause_in_words(replace(cause, names=list(map(_change_of_names(cause.code), cause.names)), most=most))


def _change_of_names(code: str) -> Callable[[str], str]:
    return redacted_model if code == Code.MODEL_CHANGED else digest


_STRUCTS: dict[type, Callable[[Any], Any]] = {
    Finding: redacted_finding, Problem: redacted_problem, CauseResult: lambda cause: cause,
    ColumnsResult: lambda columns: columns, SpendingCause: _redact_cause, Overview: _redact_overview,
    GroupResult: _redact_group, ReliabilityResult: _redact_group,
    DiffResult: _redact_diff, RawBlock: lambda block: RawBlock(_redact_raw(block.json)),
    Loss: lambda loss: replace(loss, names=tuple(map(_change_of_names(loss.code), loss.names))),
    LastBreak: lambda last: last._replace(says=last.plain),
}  # fmt: skip
