"""Request bodies (Anthropic Messages, OpenAI Chat or Responses, Gemini, Bedrock Converse): as they are, or in records.

Accepted: one JSON body (any white space), JSON Lines of bodies, JSON Lines of records
`{"request": body, "response" | "usage": …, "timestamp" | "ts": …}` where `request` is the body or its
text. A body that stands for itself, or is kept as text, is `wire`; one stored parsed is `parsed`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar

import msgspec
from msgspec import Struct

from lore.formats.base import Clock, Read, Yields
from lore.formats.lines import BOM, Line, Lines, fault, split_joined, too_long
from lore.formats.usage import billed_of
from lore.model.canonical import decode, text_of
from lore.model.exchange import Exchange, Fidelity
from lore.model.jsonslice import array, table
from lore.model.problems import Problem


class _State(Struct, frozen=True):
    number: int
    byte: int
    pending: bytes
    held: bytes | None
    skipping: bool = False


class Bodies:
    """Reader of request bodies.

    Until a line is met that is a record by itself, the file may be one JSON value over several lines, and
    what was read is held; a line that is a record ends that, so a damaged first line hides nothing, and so
    does a value that grows longer than a line may be.
    """

    name: ClassVar[str] = "bodies"
    yields: ClassVar[Yields] = "exchanges"
    clock: ClassVar[Clock] = "end"

    def __init__(self) -> None:
        self._lines = Lines()
        self._probe = Lines()
        self._held: list[bytes] | None = []
        self._size = 0  # of what is held

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        lines = Lines().feed(head.rstrip(b"\n") + b"\n")
        if not lines:
            return False
        if any(_exchange(line.data) is not None for line in lines):
            return True
        return bool(fault(lines[0].data)) and _looks_like_body(head)

    @classmethod
    def restore(cls, state: bytes) -> Bodies:
        saved = msgspec.msgpack.decode(state, type=_State)
        made = cls()
        made._lines = Lines(number=saved.number, byte=saved.byte, pending=saved.pending, skipping=saved.skipping)
        made._held = None if saved.held is None else [saved.held]
        made._size = len(saved.held or b"")
        made._probe.feed(saved.held or b"")
        return made

    @property
    def state(self) -> bytes:
        lines = self._lines
        held = None if self._held is None else b"".join(self._held)
        return msgspec.msgpack.encode(_State(lines.number, lines.byte, lines.pending, held, lines.skipping))

    def feed(self, data: bytes) -> list[Read]:
        if self._held is None:
            return _read_all(self._lines.feed(data))
        self._held.append(data)
        self._size += len(data)
        if any(_stands_alone(line) for line in self._probe.feed(data)) or self._size > Lines.limit:
            return self._by_lines()
        return []

    def finish(self) -> list[Read]:
        if self._held is None:
            return _read_all(self._lines.finish(), torn=True)
        whole = b"".join(self._held)
        last = self._probe.finish()
        if last and last[0].number > 1 and _stands_alone(last[0]):
            return [*self._by_lines(), *_read_all(self._lines.finish(), torn=True)]
        self._held = None
        start = len(whole) - len(whole.removeprefix(BOM))
        return _read(Line(1, start, whole[start:]), torn=False) if whole[start:].strip(b" \t\r\n") else []

    def _by_lines(self) -> list[Read]:
        held, self._held, self._probe = self._held or [], None, Lines()
        return _read_all(self._lines.feed(b"".join(held)))


def _stands_alone(line: Line) -> bool:
    """Tell whether a line shows that the file is read line by line."""
    if line.data[:1] != b"{":
        return False
    if line.number == 1:
        return not fault(line.data) or split_joined(line.data) is not None
    return _exchange(line.data) is not None


def _looks_like_body(head: bytes) -> bool:
    text = head.removeprefix(BOM).lstrip(b" \t\r\n")
    named = b'"messages"' in text or (b'"model"' in text and (b'"system"' in text or b'"tools"' in text))
    gemini = b'"contents"' in text and b'"parts"' in text
    responses = b'"model"' in text and b'"input"' in text and any(b'"' + one.encode() + b'"' in text for one in _ASKED)
    return text[:1] == b"{" and (named or gemini or responses)


def _read_all(lines: list[Line], *, torn: bool = False) -> list[Read]:
    return [read for line in lines for read in _read(line, torn=torn)]


def _read(line: Line, *, torn: bool) -> list[Read]:
    if not line.data:
        return [_problem("LORE217", f"line passed over: {too_long()}", line)]
    exchange = _exchange(line.data)
    if exchange is not None:
        return [Read(exchange, line.number, line.byte)]
    reason = fault(line.data)
    if not reason:
        return [_problem("LORE210", "a record without a request body that lore knows", line)]
    joined = split_joined(line.data)
    if joined is None:
        return [_problem("LORE202" if torn else "LORE201", f"unreadable line: {reason}", line)]
    found = [_problem("LORE209", f"{len(joined)} records on one line; all were read", line)]
    for piece in joined:
        found.extend(_read(Line(line.number, line.byte, piece), torn=False))
    return found


def _problem(code: str, message: str, line: Line) -> Read:
    return Read(Problem(code, message, line=line.number, byte=line.byte), line.number, line.byte)


def _exchange(data: bytes) -> Exchange | None:
    """Read one JSON object; None where it is neither a body nor a record of one."""
    data = data.strip(b" \t\r\n")
    record = table(data)
    if record is None:
        return None
    if _is_body(record):
        return Exchange(data, "wire")
    body, fidelity = _body(record.get("request", b""))
    if body is None:
        return None
    response = table(record.get("response", b"null")) or {}
    found = (one[key] for one in (record, response) for key in _USAGE if one.get(key, b"null") != b"null")
    usage = next(found, b"null")
    at = _seconds(record.get("timestamp", record.get("ts", b"null")))
    return Exchange(body, fidelity, at, billed_of(usage))


def _body(raw: bytes) -> tuple[bytes | None, Fidelity]:
    fidelity: Fidelity = "parsed"
    if raw[:1] == b'"':
        fidelity = "wire"
        raw = text_of(raw).encode("utf-8", "backslashreplace").strip()
    body = table(raw) or {}
    return (raw if _is_body(body) else None), fidelity


_USAGE = ("usage", "usageMetadata", "usage_metadata")
_CONVERSE = ("modelId", "inferenceConfig", "toolConfig")
_SIGNS = ("model", "system", "tools", "max_tokens", "max_completion_tokens", "temperature", "stream", *_CONVERSE)
# What only a request to the Responses API asks for; and what an export, a log of a call or a test case says besides.
_ASKED = ("instructions", "previous_response_id", "max_output_tokens", "store", "prompt_cache_key", "truncation")
_KEPT = (
    "output",
    "outputs",
    "response",
    "candidates",
    "event",
    "ideal",
    "target",
    "expected",
    "id",
    "sessionId",
    "title",
)
_ITEMS = (b'"message"', b'"reasoning"', b'"function_call"', b'"function_call_output"', b'"item_reference"')


def _is_body(members: dict[str, bytes]) -> bool:
    """Tell a request body from exports of other tools that have the same lists: it says what it asks for,

    and its messages have roles (Gemini's parts, an item of the Responses API a kind).
    """
    if "messages" in members:
        return any(sign in members for sign in _SIGNS) and _begins_with(members["messages"], ("role",))
    if any(key in members for key in _KEPT):
        return False
    if "contents" in members:
        first = next(iter(array(members["contents"])), b"")
        return (table(first) or {}).get("parts", b"")[:1] == b"["
    return "model" in members and "input" in members and _is_responses(members)


def _is_responses(members: dict[str, bytes]) -> bool:
    """Tell a request to the Responses API from those that also have `input`: for embeddings, speech, moderation."""
    asks = any(key in members for key in _ASKED)
    if asks:
        return members["input"][:1] == b'"' or _begins_with(members["input"], ("role", "type"))
    first = table(next(iter(array(members["input"])), b"")) or {}
    return _is_text(first, "role") or first.get("type") in _ITEMS


def _begins_with(raw: bytes, keys: tuple[str, ...]) -> bool:
    """Tell whether an array begins with an object that has one of these texts, or with nothing that could."""
    if raw[:1] != b"[":
        return False
    first = next(iter(array(raw)), b"")
    return first[:1] != b"{" or any(_is_text(table(first) or {}, key) for key in keys)


def _is_text(members: dict[str, bytes], key: str) -> bool:
    return members.get(key, b"")[:1] == b'"'


def _seconds(raw: bytes) -> float | None:
    """Read a time: seconds or milliseconds since the epoch, or RFC 3339 text."""
    try:
        value = decode(raw)
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value)
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e14:
            return value / 1000 if value > 1e11 else float(value)
    except (ValueError, OverflowError):
        return None
    return None
