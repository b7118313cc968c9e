"""Read a response of any SDK: blocks and calls, usage, stop reason.

A response object, a mapping, or a stream's chunks, in the shape of a known dialect, become a `Reply`. Blocks that
lore's text, thinking and calls express in full become these; a block with more (a signature, citations, a caller, an
unknown type) is kept as the provider gave it, in addition or instead, and is sent back so while the dialect stays.
Members that are null, or that SDKs add (`parsed_output`), are ignored.

Usage is read, and streams are joined, by the code that reads recordings (`formats.answers`, `formats.outputs`).
Sources: the references of the five APIs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, TypeAlias, cast

from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.errors import LoreError, kind_of
from lore.formats.answers import ParsedAnswer, answer_of, answer_of_events
from lore.formats.outputs import items_of_events
from lore.model.canonical import decode, encode, text_of
from lore.model.events import Usage, Verdict
from lore.model.items import AssistantMessage, Block, RawBlock, TextBlock, ThinkingBlock, ToolCall, is_blank
from lore.model.jsonslice import array, is_json, raw_members, without_member
from lore.model.mask import cut_masked
from lore.sdk.objects import chunks_of, final, plain

Part: TypeAlias = Block | ToolCall
NAMES = {
    "anthropic": "Anthropic's Messages",
    "openai-chat": "OpenAI's Chat Completions",
    "openai-responses": "OpenAI's Responses",
    "gemini": "Gemini's generateContent",
    "bedrock": "Bedrock's Converse",
}
_NOTHING = (b"null", b"[]", b"{}", b'""')
_TEXTS = (None, b'"text"', b'"input_text"', b'"output_text"')
_ADDED = ("parsed_output", "parsed", "parsed_arguments")  # by helpers of SDKs: no server sent them


class ToolUse(Struct, frozen=True):
    """A call that the model asks for."""

    call_id: str
    name: str  # of the tool
    input: Any  # Python values


class Reply(Struct, frozen=True):
    """An answer of a model."""

    parts: tuple[Part, ...] = ()  # in order
    usage: Usage | None = None  # None: the response has none
    verdict: Verdict | None = None  # the provider's
    response_id: str = ""
    stop_reason: str | None = None  # the provider's word

    @property
    def text(self) -> str:
        """The text of all parts, joined."""
        return "".join(text_of(bytes(part.text)) for part in self.parts if isinstance(part, TextBlock))

    @property
    def calls(self) -> tuple[ToolUse, ...]:
        """The calls, in order; an input that is not JSON is the text that the model wrote."""
        return tuple(
            ToolUse(part.call_id, part.name, decode(bytes(part.input)))
            for part in self.parts
            if isinstance(part, ToolCall)
        )


def reply_of(response: object, dialect: str, *, prefix: str = "call") -> Reply:
    """Read a response in the shape of a dialect; text alone is an answer, too. Reads a stream to its end.

    `prefix` begins the ids of calls that the server gave none, or the id of an earlier call of the response. Raises
    LoreError for a response of another dialect, an error, or an object that is not a response. Costs O(the response).
    """
    if isinstance(response, str):
        return Reply((TextBlock(Raw(encode(response))),) if response.strip() else ())
    if dialect not in READERS:
        raise LoreError(f"the dialect {dialect} has no responses of an SDK", hint="give the text that the model wrote")
    response = final(response)
    chunks = chunks_of(response)
    if chunks is not None:
        events = [_unwrapped(encode(plain(chunk))) for chunk in chunks]
        if not events:
            raise LoreError("the stream has no chunks", hint="it was read before: give the list of its chunks")
        found = next(filter(None, (_shape_of(raw_members(event) or {}) for event in events)), "")
        _check(found, dialect, response, raw_members(events[0]) or {})
        stopped = next(filter(None, (_stop_in(dialect, raw_members(event) or {}) for event in reversed(events))), None)
        reply = _made(dialect, items_of_events(events), answer_of_events(events), stopped, prefix)
        if reply.calls and stopped in _UNDER_WAY:  # a path that was cut is another path
            raise LoreError("the stream ended within a call", hint="`session.failed(error)`, and ask again")
        return reply
    raw = encode(plain(response))
    members = raw_members(raw) or {}
    if dialect == "anthropic" and [*members] == ["role", "content"] and members["content"][:1] == b'"':
        return reply_of(text_of(members["content"]), dialect)  # as a message of Chat Completions, which is text, too
    _check(_shape_of(members), dialect, response, members)
    if _is_message(members):
        return _made(dialect, b"[" + raw + b"]", ParsedAnswer(), None, prefix)
    answer = answer_of(raw)
    output = answer.output if isinstance(answer.output, bytes) else b""
    return _made(dialect, output, answer, _stop_in(dialect, members), prefix)


def _made(dialect: str, items: bytes, answer: ParsedAnswer, stopped: str | None, prefix: str) -> Reply:
    reader = READERS[dialect](dialect, prefix)
    read = (part for item in array(items or b"[]") if (own := raw_members(item)) for part in reader.parts(item, own))
    parts, ids = list[Part](), set[str]()
    for number, part in enumerate(read, 1):
        if isinstance(part, ToolCall):  # of two calls with one id, one would never get its result
            part = replace(part, call_id=f"{prefix}_{number}", raw=None) if part.call_id in ids else part
            ids.add(part.call_id)
        parts.append(part)
    return Reply(tuple(parts), answer.usage, answer.verdict, answer.response_id, stopped)


def items_of(parts: Iterable[Part], response_id: str | None) -> Iterator[AssistantMessage | ToolCall]:
    """Yield an answer's items, without uuids: one for each call, and one for what is said between two calls."""
    for is_call, group in groupby(parts, lambda part: isinstance(part, ToolCall)):
        if is_call:
            yield from (replace(call, response_id=response_id) for call in cast("Iterable[ToolCall]", group))
        else:
            yield AssistantMessage("", blocks=tuple(cast("Iterable[Block]", group)), response_id=response_id)


def _check(found: str, dialect: str, response: object, members: dict[str, bytes]) -> None:
    """Raise LoreError for an object that is not an answer in this dialect."""
    if found == "error" or (not found and "error" in members):
        told = raw_members(members.get("error", b"")) or members
        text = cut_masked(text_of(told.get("message", b"null")), 200)
        message = "".join(char if char.isprintable() else " " for char in text)
        raise LoreError(f"the provider answered with an error: {message}",
                        hint="`session.failed(error)` ends the turn, `session.request()` asks again")  # fmt: skip
    if found == dialect:
        return
    if found:
        raise LoreError(
            f"this is a response of {NAMES[found]}; the session's dialect is {dialect}",
            hint=f"call the SDK that the session's requests are for, or begin with dialect={found!r}",
        )
    named = kind_of(response) + (f" with {', '.join(list(members)[:6])}" if members else "")
    if isinstance(response, Mapping):
        named += f", without {_NEEDED[dialect]}"
    raise LoreError(f"this is no response of {NAMES[dialect]}: {named}", hint="give what the SDK's call returned")


_NEEDED = {  # the member by which a response is known
    "anthropic": '"type": "message"', "openai-chat": '"choices"', "openai-responses": '"output"',
    "gemini": '"candidates"', "bedrock": '"output"',
}  # fmt: skip


_CONVERSE = ("messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata")


def _unwrapped(event: bytes) -> bytes:
    """Return a ConverseStream event as usage is read from it: `metadata` without its name."""
    own = raw_members(event) or {}
    return own["metadata"] if [*own] == ["metadata"] else event


def _shape_of(members: dict[str, bytes]) -> str:
    """Return the dialect of a response, a message of one, or an event of a stream; empty if it is unknown."""
    return next((name for name, knows in _SHAPES if knows(members)), "")


def _type(members: dict[str, bytes], *begins: bytes) -> bool:
    return members.get("type", b"").startswith(begins)


_SHAPES: tuple[tuple[str, Callable[[dict[str, bytes]], bool]], ...] = (
    ("error", lambda own: _type(own, b'"error"')),
    ("openai-responses", lambda own: _type(own, b'"response.') or own.get("output", b"")[:1] == b"["),
    ("bedrock", lambda own: own.get("output", b"")[:1] == b"{" or any(name in own for name in _CONVERSE)
     or ("usage" in own and b'"inputTokens"' in own["usage"])),
    ("gemini", lambda own: any(key in own for key in ("candidates", "usageMetadata", "usage_metadata", "promptFeedback",
                                                      "prompt_feedback", "parts"))),
    ("openai-chat", lambda own: "choices" in own or own.get("object", b"").startswith(b'"chat.')
     or (_is_message(own) and own.get("content", b"")[:1] != b"[")),
    ("anthropic", lambda own: _type(own, b'"message"', b'"message_', b'"content_block_', b'"ping"')
     or _is_message(own) or (own.get("role") == b'"assistant"' and own.get("content", b"")[:1] == b"[")),
)  # fmt: skip


def _is_message(members: dict[str, bytes]) -> bool:
    """Return whether this is a message of the model alone, without the other members of a response."""
    if members.get("role") not in (b'"assistant"', b'"model"'):
        return False
    return "usage" not in members and "stop_reason" not in members and "choices" not in members


_UNDER_WAY = (None, "in_progress", "queued")
_STOPS: dict[str, tuple[tuple[str, ...], ...]] = {
    "anthropic": (("stop_reason",), ("delta", "stop_reason"), ("message", "stop_reason")),
    "openai-chat": (("choices", "finish_reason"),),
    "openai-responses": (("incomplete_details", "reason"), ("status",), ("response", "incomplete_details", "reason"),
                         ("response", "status")),
    "gemini": (("candidates", "finishReason"), ("candidates", "finish_reason")),
    "bedrock": (("stopReason",), ("messageStop", "stopReason")),
}  # fmt: skip


def _stop_in(dialect: str, members: dict[str, bytes]) -> str | None:
    """Return why an answer stopped, for the first of several."""
    for path in _STOPS[dialect]:
        value, own = b"", members
        for key in path:
            value = own.get(key, b"")
            value = next(iter(array(value)), b"") if value[:1] == b"[" else value
            own = raw_members(value) or {}
        if value[:1] == b'"':
            return text_of(value)
    return None


class ItemReader:
    """Reads messages and items of one dialect; ids of calls that the server gave none begin with `prefix`."""

    key = "content"  # the member that holds a message's blocks

    def __init__(self, dialect: str, prefix: str) -> None:
        self._dialect, self._prefix, self._unnamed = dialect, prefix, 0

    def is_reply(self, own: dict[str, bytes]) -> bool:
        """Return whether a message or an item is the model's."""
        return own.get("role") in (b'"assistant"', b'"model"')

    def parts(self, item: bytes, own: dict[str, bytes]) -> Iterator[Part]:
        """Yield the parts of a message; here: a text that is all of its content, or a part for each block of it."""
        content = own.get(self.key, b"")
        if content[:1] == b'"' and not is_blank(content):
            yield TextBlock(Raw(content))
        for block in array(content):
            yield self.block(block, raw_members(block) or {})

    def split_message(self, item: bytes, own: dict[str, bytes]) -> list[bytes]:
        """Return the blocks of a message that is not the model's; the message itself if it has no list of blocks."""
        content = own.get(self.key, b"")
        return array(content) if content[:1] == b"[" else [item]

    def read_block(self, raw: bytes) -> Block:
        """Read a piece of a message that is not the model's, or a block of a result."""
        own = raw_members(raw) or {}
        text = raw if raw[:1] == b'"' else own.get(self.key, b"") if own.get("type") in (None, b'"message"') else b""
        if text[:1] == b'"':
            return TextBlock(Raw(text))
        said = own.get("type") in _TEXTS and "text" in own and own.get("thought", b"false") == b"false"
        return self.text(raw, own, "type", "thought") if said else self.raw(raw)

    def block(self, raw: bytes, own: dict[str, bytes]) -> Part:
        raise NotImplementedError

    def raw(self, raw: bytes) -> RawBlock:
        """Keep a block as it was given."""
        for key in _ADDED:
            raw = without_member(raw, key) if f'"{key}"'.encode() in raw else raw
        return RawBlock(Raw(raw), self._dialect)

    def text(self, raw: bytes, own: dict[str, bytes], *said: str) -> TextBlock | RawBlock:
        """Read a text, with its block if that has more members than these. A signature may be on an empty text."""
        text, more = own["text"], _more(own, "text", *said)
        if text[:1] != b'"' or (more and is_blank(text)):
            return self.raw(raw)
        return TextBlock(Raw(text), self.raw(raw) if more else None)

    def call(self, call_id: str, name: str, *, given: bytes, raw: bytes | None) -> ToolCall:
        """Return a call; `raw` is the provider's block if it has more."""
        self._unnamed += not call_id
        call_id = call_id or f"{self._prefix}-{self._unnamed}"
        return ToolCall("", call_id, name, Raw(given), raw=None if raw is None else self.raw(raw))


def _more(own: dict[str, bytes], *said: str) -> bool:
    """Return whether a block has a member that lore's blocks do not have."""
    return any(key not in said and key not in _ADDED and value not in _NOTHING for key, value in own.items())


class _AnthropicReply(ItemReader):
    def block(self, raw: bytes, own: dict[str, bytes]) -> Part:
        match own.get("type"):
            case b'"text"' if "text" in own:
                return self.text(raw, own, "type")
            case b'"thinking"' if "thinking" in own and not _more(own, "type", "thinking", "signature"):
                signature = own.get("signature", b"null")
                return ThinkingBlock(Raw(own["thinking"]), None if signature == b"null" else text_of(signature))
            case b'"tool_use"' if "id" in own and "name" in own:
                more = _more(own, "type", "id", "name", "input")
                given = own.get("input", b"{}")
                return self.call(text_of(own["id"]), text_of(own["name"]), given=given, raw=raw if more else None)
            case _:
                return self.raw(raw)


def _input_of(text: bytes) -> tuple[bytes, bool]:
    """Return arguments that came as a text, as JSON on one line, and whether that is their spelling."""
    spelled = text_of(text).encode("utf-8", "backslashreplace")
    if not is_json(spelled) or spelled[:1] != b"{":
        return (text if spelled.strip() else b"{}"), False
    exact = b"\n" not in spelled and b"\r" not in spelled
    return (spelled if exact else encode(decode(spelled))), exact


class _ChatReply(ItemReader):
    _SAID = ("role", "content", "tool_calls", "refusal")

    def split_message(self, item: bytes, own: dict[str, bytes]) -> list[bytes]:
        name = own.get("name")
        named = [] if name is None else [b'{"role":' + own.get("role", b'"user"') + b',"name":' + name + b"}"]
        return [item] if own.get("role") == b'"tool"' else [*named, *super().split_message(item, own)]

    def parts(self, item: bytes, own: dict[str, bytes]) -> Iterator[Part]:
        more = {key: value for key, value in own.items() if key not in (*self._SAID, *_ADDED) and value not in _NOTHING}
        if more:
            role = b'"role":' + own.get("role", b'"assistant"')
            kept = b",".join([role, *(encode(key) + b":" + value for key, value in more.items())])
            yield RawBlock(Raw(b"{" + kept + b"}"), self._dialect)
        yield from super().parts(item, own)
        if own.get("refusal", b"null") not in _NOTHING:
            yield RawBlock(Raw(b'{"type":"refusal","refusal":' + own["refusal"] + b"}"), self._dialect)
        for call in array(own.get("tool_calls", b"")):
            yield self._called(call, raw_members(call) or {})

    def block(self, raw: bytes, own: dict[str, bytes]) -> Part:
        return self.text(raw, own, "type") if own.get("type") == b'"text"' and "text" in own else self.raw(raw)

    def _called(self, raw: bytes, own: dict[str, bytes]) -> ToolCall:
        raw = without_member(raw, "index") if "index" in own else raw
        called = raw_members(own.get("function", own.get("custom", b""))) or {}
        given, exact = _input_of(called.get("arguments", called.get("input", b'""')))
        exact = exact and "function" in own and not _more(own, "id", "type", "function", "index")
        if "function" in own and any(f'"{key}"'.encode() in own["function"] for key in _ADDED):
            raw, exact = raw.replace(own["function"], bytes(self.raw(own["function"]).json)), exact
        exact = exact and not _more(called, "name", "arguments")
        call_id = text_of(own["id"]) if own.get("id", b"")[:1] == b'"' else ""
        name = text_of(called.get("name", b'""'))
        return self.call(call_id, name, given=given, raw=None if exact and call_id else raw)


class _Responses(ItemReader):
    _PART = ("type", "text", "annotations", "logprobs")

    def is_reply(self, own: dict[str, bytes]) -> bool:
        kind = own.get("type", b"")
        return super().is_reply(own) or ("role" not in own and (kind == b'"reasoning"' or kind.endswith(b'_call"')))

    def split_message(self, item: bytes, own: dict[str, bytes]) -> list[bytes]:
        return super().split_message(item, own) if own.get("role") == b'"user"' else [item]

    def read_block(self, raw: bytes) -> Block:
        own = raw_members(raw) or {}
        is_item = "role" in own and own["role"] != b'"user"'  # instructions in mid-conversation stay an item
        return self.raw(raw) if is_item else super().read_block(raw)

    def parts(self, item: bytes, own: dict[str, bytes]) -> Iterator[Part]:
        if own.get("type") == b'"message"' or ("type" not in own and "role" in own):
            yield from self._message(item, own)
        else:
            yield self.block(item, own)

    def _message(self, item: bytes, own: dict[str, bytes]) -> Iterator[Part]:
        """Yield a message's texts; a message with more members is one part, as it was given."""
        if own.get("content", b"")[:1] == b'"':
            yield TextBlock(Raw(own["content"]))
            return
        parts = [raw_members(part) or {} for part in array(own.get("content", b""))]
        texts = [part["text"] for part in parts if part.get("type") == b'"output_text"' and "text" in part]
        more = _more(own, "type", "role", "content", "id", "status") or any(_more(part, *self._PART) for part in parts)
        cited = any(part.get("annotations", b"[]") not in _NOTHING for part in parts)
        if not more and not cited and len(texts) == len(parts):
            yield from (TextBlock(Raw(text)) for text in texts if not is_blank(text))
        elif texts and not all(map(is_blank, texts)):
            joined = Raw(b'"' + b"".join([text[1:-1] for text in texts]) + b'"')
            yield TextBlock(joined, self._item(item, own))
        else:
            yield self._item(item, own)

    def _item(self, item: bytes, own: dict[str, bytes]) -> RawBlock:
        if any(f'"{key}"'.encode() in item for key in _ADDED) and own.get("content", b"")[:1] == b"[":
            parts = b"[" + b",".join([bytes(self.raw(part).json) for part in array(own["content"])]) + b"]"
            item = item.replace(own["content"], parts)
        return self.raw(item)

    def block(self, raw: bytes, own: dict[str, bytes]) -> Part:
        kind, call_id = own.get("type"), own.get("call_id", b"")
        if call_id[:1] != b'"' or kind not in (b'"function_call"', b'"custom_tool_call"'):
            return self.raw(raw)
        custom = kind != b'"function_call"'
        given, exact = (own.get("input", b'""'), False) if custom else _input_of(own.get("arguments", b'""'))
        exact = exact and not _more(own, "type", "call_id", "name", "arguments")
        return self.call(text_of(call_id), text_of(own.get("name", b'""')), given=given, raw=None if exact else raw)


class _GeminiReply(ItemReader):
    key = "parts"

    def parts(self, item: bytes, own: dict[str, bytes]) -> Iterator[Part]:
        for part in array(own.get("parts", b"")):
            own = {key: value for key, value in (raw_members(part) or {}).items() if value != b"null"}
            yield self.block(b"{" + b",".join([encode(key) + b":" + value for key, value in own.items()]) + b"}", own)

    def block(self, raw: bytes, own: dict[str, bytes]) -> Part:
        called = next((own[key] for key in ("functionCall", "function_call") if key in own), None)
        if "text" in own and own.get("thought", b"false") == b"false":
            return self.text(raw, own, "thought")
        if called is None:
            return self.raw(raw)
        call = {key: value for key, value in (raw_members(called) or {}).items() if value != b"null"}
        call_id = text_of(call["id"]) if call.get("id", b'""') != b'""' else ""
        exact = call_id and not _more(own, "functionCall", "function_call") and not _more(call, "id", "name", "args")
        name, given = text_of(call.get("name", b'""')), call.get("args", b"{}")
        return self.call(call_id, name, given=given, raw=None if exact else raw)


class _ConverseReply(ItemReader):
    def block(self, raw: bytes, own: dict[str, bytes]) -> Part:
        call, thought = raw_members(own.get("toolUse", b"")), raw_members(own.get("reasoningContent", b"")) or {}
        reasoning = raw_members(thought.get("reasoningText", b"")) or {}
        if "text" in own:
            return self.text(raw, own)
        if call is not None and "toolUseId" in call and len(own) == 1:
            more = _more(call, "toolUseId", "name", "input")
            name, given = text_of(call.get("name", b'""')), call.get("input", b"{}")
            return self.call(text_of(call["toolUseId"]), name, given=given, raw=raw if more else None)
        if "text" in reasoning and len(thought) == len(own) == 1 and not _more(reasoning, "text", "signature"):
            signature = reasoning.get("signature", b"null")
            return ThinkingBlock(Raw(reasoning["text"]), None if signature == b"null" else text_of(signature))
        return self.raw(raw)


READERS: dict[str, type[ItemReader]] = {
    "anthropic": _AnthropicReply, "openai-chat": _ChatReply, "openai-responses": _Responses, "gemini": _GeminiReply,
    "bedrock": _ConverseReply,
}  # fmt: skip
