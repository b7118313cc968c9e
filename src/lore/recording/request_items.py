"""The messages of a request body as items of a session, each with what gives its bytes back.

In: a request's messages in the shape of a dialect, breakpoints cut out. Out: for each message the events that append
it: what a user or a harness said, what the model said and called, the results of its calls. Rules: every item holds its
message's form (`lore.prompt.dialects.content`), and a block as it was spelled where lore's words do not say it so. A
call is one where its results, all of them and in its order, stand directly behind it, or nothing does yet; other calls
and results are blocks of their provider: nothing is moved. Cost: O(bytes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from msgspec import Raw

from lore.model.canonical import encode, printable, string_in, text_of
from lore.model.events import Append, Event, PatchToolCall
from lore.model.items import (
    AssistantMessage,
    Block,
    RawBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    UserMessage,
    is_blank,
)
from lore.model.jsonslice import array, is_json, table, without_member
from lore.prompt.dialects.content import RecordedMessage, filled, taken_apart, text_in
from lore.prompt.dialects.messages import Body, strip_breakpoints
from lore.prompt.layout import INJECTED, JOINED

Members = dict[str, bytes]
_POINT = b'"cachePoint"'
_MARKS = (b'"cache_control"', b'"prompt_cache_breakpoint"', _POINT)


class _Called(NamedTuple):
    """A call: its id (empty: the server gave none), the tool's name, its input as JSON."""

    call_id: str
    name: str
    input: bytes


class _Returned(NamedTuple):
    """A result: the id of its call, its output as a JSON string or blocks of the provider, and whether it failed."""

    call_id: str
    output: bytes
    failed: bool = False


class _CallShape(NamedTuple):
    """How a dialect names things: its words for the model's role, and how a call and a result are read."""

    models: tuple[bytes, ...]
    called: Callable[[Members], _Called | None]
    returned: Callable[[Members], _Returned | None]


def _text_input(raw: bytes) -> bytes:
    """Return arguments that came as a text, as JSON on one line where they are some."""
    spelled = text_of(raw).encode("utf-8", "backslashreplace") if raw[:1] == b'"' else raw
    return spelled if spelled[:1] == b"{" and b"\n" not in spelled and is_json(spelled) else raw or b"{}"


def _anthropic_call(own: Members) -> _Called | None:
    if own.get("type") != b'"tool_use"' or not string_in(own, "id"):
        return None
    return _Called(string_in(own, "id"), string_in(own, "name"), own.get("input", b"{}"))


def _anthropic_result(own: Members) -> _Returned | None:
    if own.get("type") != b'"tool_result"':
        return None
    return _Returned(string_in(own, "tool_use_id"), own.get("content", b'""'), own.get("is_error") == b"true")


def _bedrock_call(own: Members) -> _Called | None:
    use = table(own.get("toolUse", b"")) or {}
    return _Called(string_in(use, "toolUseId"), string_in(use, "name"), use.get("input", b"{}")) if use else None


def _bedrock_result(own: Members) -> _Returned | None:
    result = table(own.get("toolResult", b"")) or {}
    failed = result.get("status") == b'"error"'
    return _Returned(string_in(result, "toolUseId"), result.get("content", b'""'), failed) if result else None


def _gemini_call(own: Members) -> _Called | None:
    use = table(own.get("functionCall", own.get("function_call", b""))) or {}
    return _Called(string_in(use, "id"), string_in(use, "name"), use.get("args", b"{}")) if use else None


def _gemini_result(own: Members) -> _Returned | None:
    result = table(own.get("functionResponse", own.get("function_response", b""))) or {}
    if not result:
        return None
    response = table(result.get("response", b"")) or {}
    said = next((response[key] for key in ("result", "output", "error") if response.get(key, b"")[:1] == b'"'), b"")
    whole = encode(result.get("response", b"").decode("utf-8", "replace"))
    return _Returned(string_in(result, "id"), said or whole, [*response] == ["error"])


def _chat_call(own: Members) -> _Called | None:
    use = table(own.get("function", own.get("custom", b""))) or {}
    if not use or not string_in(own, "id"):
        return None
    return _Called(
        string_in(own, "id"), string_in(use, "name"), _text_input(use.get("arguments", use.get("input", b"")))
    )


def _chat_result(own: Members) -> _Returned | None:
    if own.get("role") != b'"tool"':
        return None
    return _Returned(string_in(own, "tool_call_id"), own.get("content", b'""'))


_CALLS = (b'"function_call"', b'"custom_tool_call"')
_OUTPUTS = (b'"function_call_output"', b'"custom_tool_call_output"')


def _responses_call(own: Members) -> _Called | None:
    if own.get("type") not in _CALLS or not string_in(own, "call_id"):
        return None
    given = own["arguments"] if "arguments" in own else own.get("input", b"")
    return _Called(string_in(own, "call_id"), string_in(own, "name"), _text_input(given))


def _responses_result(own: Members) -> _Returned | None:
    return _Returned(string_in(own, "call_id"), own.get("output", b'""')) if own.get("type") in _OUTPUTS else None


_ASSISTANT = (b'"assistant"',)
_SHAPES = {
    "anthropic": _CallShape(_ASSISTANT, _anthropic_call, _anthropic_result),
    "bedrock": _CallShape(_ASSISTANT, _bedrock_call, _bedrock_result),
    "gemini": _CallShape((b'"model"',), _gemini_call, _gemini_result),
    "openai-chat": _CallShape(_ASSISTANT, _chat_call, _chat_result),
    "openai-responses": _CallShape(_ASSISTANT, _responses_call, _responses_result),
}


@dataclass(slots=True)
class Sent:
    """A message of a request: its bytes without breakpoints, and the items that it became.

    `begins` is its place's distance back to the message that begins its group: results stand with their calls.
    """

    raw: bytes
    events: list[Event] = field(default_factory=list[Event])
    begins: int = 0
    model: bool = False

    @property
    def uuids(self) -> list[str]:
        """The items that it appends."""
        return [event.item.uuid for event in self.events if isinstance(event, Append)]


class ItemReader:
    """Read messages of one chain in one dialect; `numbers` make names that no other item of the chain has."""

    def __init__(self, dialect: Body, chain: str, numbers: Iterator[int]) -> None:
        self.dialect = dialect
        self._chain = chain
        self._shape = _SHAPES[dialect.name]
        self.numbers = numbers
        self._items = dialect.name == "openai-responses"  # each item is a message of its own
        self._key = next(iter(dialect.lists))

    def stripped(self, raw: bytes) -> bytes:
        """Return a message without its breakpoints."""
        if not any(mark in raw for mark in _MARKS):
            return raw
        made = taken_apart(raw, self.dialect.lists)
        form = made.form
        for key in self.dialect.keys:
            form = without_member(form, key)
        content = {
            key: b"[" + b",".join([strip_breakpoints(block, self.dialect.keys).data for block in blocks
                                   if self.dialect.name != "bedrock" or not _is_point(block)]) + b"]"
            for key, blocks in made.blocks.items()
        }  # fmt: skip
        return filled(form, content | ({self._key: made.text} if made.text is not None else {}))

    def is_models(self, raw: bytes) -> bool:
        """Tell whether a message is the model's."""
        own = table(raw) or {}
        if self._items and own.get("role") is None:
            kind = own.get("type", b"")
            return kind in (*_CALLS, b'"reasoning"') or kind.endswith(b'_call"')
        return own.get("role") in self._shape.models

    def read(self, raws: list[bytes], response_id: str = "", *, ended: bool = True) -> list[Sent]:
        """Read messages in a row. Where they have not `ended`, results of the last calls may still come.

        `response_id` names the response of the model's messages that come first.
        """
        found: list[Sent] = []
        while len(found) < len(raws):
            at = len(found)
            size = 0
            while at + size < len(raws) and self.is_models(raws[at + size]) and (self._items or not size):
                size += 1
            if not size:
                found.append(self._said(raws[at]))
                continue
            name = response_id if not at and response_id else f"r{next(self.numbers)}"
            found += self._answered(raws[at : at + size], raws[at + size :], name, ended=ended)
        return found

    def _answered(self, own: list[bytes], behind: list[bytes], name: str, *, ended: bool) -> list[Sent]:
        """Read the model's messages, and the results directly behind them."""
        made = [taken_apart(raw, () if self._items else self.dialect.lists) for raw in own]
        calls = [found for raw, parts in zip(own, made, strict=True) for found in self._calls_in(raw, parts)]
        results = self._results(calls, behind)
        as_calls = bool(calls) and (results is not None or (not behind and not ended)) and _distinct(calls)
        sent = [self._models(raw, parts, name, as_calls=as_calls) for raw, parts in zip(own, made, strict=True)]
        if not as_calls or results is None:
            return sent
        ids = [event.item.call_id for message in sent for event in message.events
               if isinstance(event, Append) and isinstance(event.item, ToolCall)]  # fmt: skip
        for number, (raw, returned, rest) in enumerate(results, len(sent)):
            message = Sent(raw, begins=number)
            for at, (block, result) in enumerate(returned):
                whole = self._items or self._key != "parts" and (table(raw) or {}).get("role") == b'"tool"'
                kept = raw if whole else self._alone(raw, block) if not at else block
                message.events.append(self._patch(ids.pop(0), result, kept))
            if rest:
                blocks = tuple([self._block(block) for block in rest])
                item = UserMessage(self.name(), blocks=blocks, form=RawBlock(Raw(JOINED), self.dialect.name))
                message.events.append(Append(item=item, chain=self._chain))
            sent.append(message)
        return sent

    def _alone(self, raw: bytes, block: bytes) -> bytes:
        """Return a message with one block as its only content."""
        return filled(taken_apart(raw, (self._key,)).form, {self._key: b"[" + block + b"]"})

    def _results(self, calls: list[_Called], behind: list[bytes]) -> list[_ResultMessage] | None:
        """Return the messages behind calls that hold their results, in order; None where these are not all."""
        found: list[_ResultMessage] = []
        left = [call.call_id for call in calls]
        for raw in behind:
            if not left:
                break
            message = self._returned_in(raw)
            if message is None or len(message.returned) > len(left):
                return None
            for _, result in message.returned:
                if result.call_id != left.pop(0):
                    return None
            found.append(message)
        return None if left or not found or any(message.rest for message in found[:-1]) else found

    def _returned_in(self, raw: bytes) -> _ResultMessage | None:
        """Return the results that lead a message, and its other blocks; None where none leads it."""
        own = table(raw) or {}
        whole = self._shape.returned(own)
        if whole is not None and (self._items or own.get("role") == b'"tool"'):
            return _ResultMessage(raw, [(raw, whole)], [])
        returned: list[tuple[bytes, _Returned]] = []
        rest: list[bytes] = []
        if own.get("role", b'"user"') != b'"user"':
            return None
        for block in array(own.get(self._key, b"")):
            result = self._shape.returned(table(block) or {})
            if result is None:
                rest.append(block)
            elif rest:
                return None
            else:
                returned.append((block, result))
        return _ResultMessage(raw, returned, rest) if returned else None

    def _calls_in(self, raw: bytes, parts: RecordedMessage) -> list[_Called]:
        blocks = [raw] if self._items else parts.blocks.get("tool_calls" if self._key == "content" else "", [])
        blocks = blocks or parts.blocks.get(self._key, [])
        return [call for block in blocks if (call := self._shape.called(table(block) or {})) is not None]

    def _models(self, raw: bytes, parts: RecordedMessage, response: str, *, as_calls: bool) -> Sent:
        """Read a message of the model's: texts and calls in order."""
        if self._items:
            blocks, form = [raw], None
        else:
            calls = parts.blocks.get("tool_calls", [])
            text = [] if parts.text is None else [_string(parts.text, self.dialect.name)]
            blocks = [*text, *parts.blocks.get(self._key, []), *(calls if as_calls else [])]
            json = parts.form
            if calls and not as_calls:
                json = filled(json, {"tool_calls": b"[" + b",".join(calls) + b"]"})
            form = RawBlock(Raw(json), self.dialect.name)
        sent, run = Sent(raw, model=True), list[Block]()

        def said() -> None:
            if run or (form is not None and not sent.events):
                shown = form if not sent.events else None
                item = AssistantMessage(self.name(), blocks=tuple(run), response_id=response, form=shown)
                sent.events.append(Append(item=item, chain=self._chain))
                run.clear()

        for block in blocks:
            if not isinstance(block, bytes):
                run.append(block)
                continue
            call = self._shape.called(table(block) or {}) if as_calls else None
            if call is None:
                run.append(self._block(block))
                continue
            said()
            uuid = self.name()
            item = ToolCall(
                uuid, printable(call.call_id) or uuid, printable(call.name), Raw(call.input), response_id=response,
                raw=RawBlock(Raw(block), self.dialect.name),
            )  # fmt: skip
            sent.events.append(Append(item=item, chain=self._chain))
        said()
        return sent

    def _said(self, raw: bytes) -> Sent:
        """Read a message that is not the model's."""
        own, name = table(raw), self.dialect.name
        if own is None:
            text = Raw(raw if raw[:1] == b'"' else b'""')
            item = UserMessage(self.name(), text=text, form=RawBlock(Raw(raw), name))
        elif self._items and "role" not in own:
            item = UserMessage(self.name(), blocks=(RawBlock(Raw(raw), name),), source=INJECTED)
        else:
            parts = taken_apart(raw, (self._key,))
            source = "user" if own.get("role", b'"user"') == b'"user"' else INJECTED
            form = RawBlock(Raw(parts.form), name)
            if parts.text is not None and not is_blank(parts.text):
                item = UserMessage(self.name(), text=Raw(parts.text), source=source, form=form)
            else:
                text = [] if parts.text is None else [_string(parts.text, name)]
                blocks = (*text, *map(self._block, parts.blocks.get(self._key, [])))
                item = UserMessage(self.name(), blocks=blocks, source=source, form=form)
        return Sent(raw, [Append(item=item, chain=self._chain)])

    def _block(self, raw: bytes) -> Block:
        """Read a block; what lore's words do not say as it was spelled is kept so."""
        own, name = table(raw) or {}, self.dialect.name
        kept = RawBlock(Raw(raw), name)
        text = text_in(own) if own.get("thought", b"false") == b"false" else None
        if self._items and own.get("type") == b'"message"':
            texts = [part["text"] for part in map(table, array(own.get("content", b""))) if part and "text" in part]
            text = b'"' + b"".join([text[1:-1] for text in texts]) + b'"' if texts else None
        if text is not None and not is_blank(text):
            return TextBlock(Raw(text), None if self.dialect.words.text(text) == raw else kept)
        if own.get("type") == b'"thinking"' and own.get("thinking", b"")[:1] == b'"' and self.dialect.words.thinking:
            block = ThinkingBlock(Raw(own["thinking"]), string_in(own, "signature") if "signature" in own else None)
            return block if self.dialect.words.thinking(block) == raw else kept
        return kept

    def _patch(self, call_id: str, result: _Returned, raw: bytes) -> PatchToolCall:
        output = result.output
        if output[:1] == b"[":
            output = msgspec.json.encode([self._block(block) for block in array(output)])
        elif output[:1] != b'"':
            output = encode(output.decode("utf-8", "replace"))
        return PatchToolCall(
            call_id=printable(call_id), status="failed" if result.failed else "completed", output=Raw(output),
            result=RawBlock(Raw(raw), self.dialect.name), chain=self._chain,
        )  # fmt: skip

    def name(self) -> str:
        """Return a name that nothing else of the chain has."""
        return f"m{next(self.numbers)}"


class _ResultMessage(NamedTuple):
    """A message that results lead: each with its block, and the blocks behind them."""

    raw: bytes
    returned: list[tuple[bytes, _Returned]]
    rest: list[bytes]


def _distinct(calls: list[_Called]) -> bool:
    ids = [call.call_id for call in calls if call.call_id]
    return len(ids) == len(set(ids))


def _string(text: bytes, dialect: str) -> Block:
    """Keep a text that is all of a content; providers refuse a blank block, and a blank text is one."""
    return RawBlock(Raw(text), dialect) if is_blank(text) else TextBlock(Raw(text))


def _is_point(block: bytes) -> bool:
    return _POINT in block and [*(table(block) or {})] == ["cachePoint"]
