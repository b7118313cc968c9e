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
from itertools import chain, groupby
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
from lore.sdk.objects import chunks_of, final_response, plain

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
_OF_TOOLS = ("input", "args", "arguments")  # whose members are a tool's own


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
    is_cut: bool = False  # it is a stream that ended before the answer did

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

    def __repr__(self) -> str:
        shown = f"text={self.text!r}, calls={list(self.calls)}, stop_reason={self.stop_reason!r}, usage={self.usage}"
        return f"Reply({shown}{', is_cut=True' if self.is_cut else ''})"


def reply_of(response: object, dialect: str, *, prefix: str = "call") -> Reply:
    """Read a response in the shape of a dialect; text alone is an answer, too. Reads a stream to its end.

    `prefix` begins the ids of calls that the server gave none, or the id of an earlier call of the response. Raises
    LoreError for a response of another dialect, an error, or an object that is not a response. Costs O(the response).
    """
    if isinstance(response, str):
        return Reply((TextBlock(Raw(encode(response))),) if response.strip() else ())
    if dialect not in READERS:
        raise LoreError(f"the dialect {dialect} has no responses of an SDK", hint="give the text that the model wrote")
    response = final_response(response)
    chunks = chunks_of(response)
    if chunks is not None:
        return _reply_of_chunks(chunks, response, dialect, prefix)
    raw = encode(_without_added(plain(response)))
    members = raw_members(raw) or {}
    # The content of Anthropic's message may be a text; a message of Chat Completions, too, has role and content alone.
    is_text = dialect == "anthropic" and members.get("content", b"")[:1] == b'"'
    if not (is_text and [*members] == ["role", "content"]):
        _check(_shape_of(members), dialect, response, members)
    is_message = _is_message(members)
    answer = ParsedAnswer() if is_message else answer_of(raw)
    output = answer.output if isinstance(answer.output, bytes) else b""
    if is_text or is_message:
        output = b"[" + raw + b"]"
    return _build_reply(dialect, output, answer, _stop_in(dialect, members), prefix)


def _without_added(value: Any) -> Any:
    """Return a response without the members that helpers of SDKs add."""
    if isinstance(value, list):
        return [_without_added(inner) for inner in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    members = cast("dict[str, Any]", value).items()
    return {key: inner if key in _OF_TOOLS else _without_added(inner) for key, inner in members if key not in _ADDED}


def _reply_of_chunks(chunks: list[object], response: object, dialect: str, prefix: str) -> Reply:
    events: list[bytes] = []
    members_of_events: list[dict[str, bytes]] = []
    for event in (encode(_without_added(plain(chunk))) for chunk in chunks):
        members = raw_members(event) or {}
        if [*members] == ["metadata"]:  # of ConverseStream, whose usage is read without this name
            event = members["metadata"]
            members = raw_members(event) or {}
        events.append(event)
        members_of_events.append(members)
    if not events:
        raise LoreError("the stream has no chunks", hint="it was read before: give the list of its chunks")
    if any(map(_is_whole, members_of_events)):  # its text would be lost: chunks hold it elsewhere
        raise LoreError("this is a list of whole answers, not of a stream's chunks", hint="give the answer itself")
    shape = next((shape for members in members_of_events if (shape := _shape_of(members))), "")
    _check(shape, dialect, response, members_of_events[0])
    stopped = next(filter(None, (_stop_in(dialect, members) for members in reversed(members_of_events))), None)
    reply = _build_reply(dialect, items_of_events(events), answer_of_events(events), stopped, prefix)
    is_cut = stopped in _UNFINISHED
    if is_cut and not reply.parts:
        for failure in filter(None, map(_failure_in, members_of_events)):
            raise _provider_error(failure)
    if is_cut and (reply.calls or any(_CALL_PIECE in event for event in events)):  # a cut path is another path
        raise LoreError("the stream ended within a call", hint="`session.failed(error)`, and ask again")
    # Thinking gets its signature at its end, and is refused without.
    parts = (part for part in reply.parts if not (is_cut and isinstance(part, ThinkingBlock) and not part.signature))
    return replace(reply, parts=tuple(parts), is_cut=is_cut)


def _build_reply(dialect: str, items: bytes, answer: ParsedAnswer, stopped: str | None, prefix: str) -> Reply:
    reader = READERS[dialect](dialect, prefix)
    parsed = (reader.parts(item, members) for item in array(items or b"[]") if (members := raw_members(item)))
    parts, ids = list[Part](), set[str]()
    for number, part in enumerate(chain.from_iterable(parsed), 1):
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


def _check(shape: str, dialect: str, response: object, members: dict[str, bytes]) -> None:
    """Raise LoreError for an object that is not an answer in this dialect."""
    failure = _failure_in(members)
    if shape == "error" or failure:
        raise _provider_error(failure or members)
    if shape == dialect:
        return
    if shape:
        raise LoreError(
            f"this is a response of {NAMES[shape]}; the session's dialect is {dialect}",
            hint=f"call the SDK that the session's requests are for, or begin with dialect={shape!r}",
        )
    description = kind_of(response) + (f" with {', '.join(list(members)[:6])}" if members else "")
    if isinstance(response, Mapping):
        description += f", without {_NEEDED[dialect]}"
    raise LoreError(
        f"not a response of {NAMES[dialect]}: {description}",
        hint="give what the SDK's call returned, or a mapping of that shape",
    )


def _provider_error(failure: dict[str, bytes]) -> LoreError:
    text = cut_masked(text_of(failure.get("message", b"null")), 200)
    message = "".join(char if char.isprintable() else " " for char in text)
    hint = "`session.failed(error)` ends the turn, `session.request()` asks again"
    return LoreError(f"the provider answered with an error: {message}", hint=hint)


_NO_FAILURE = (b"", b"null", b"{}", b'""', b"false")  # gateways write such an `error` into good answers


def _failure_in(members: dict[str, bytes]) -> dict[str, bytes]:
    """Return the error of a response or of an event; empty without one."""
    for path in (("error",), ("response", "error"), ("choices", "error")):
        raw = _value_at(members, path)
        if raw not in _NO_FAILURE:
            return raw_members(raw) or {"message": raw}
    return {}


_NEEDED = {  # the member by which a response is known
    "anthropic": '"type": "message"', "openai-chat": '"choices"', "openai-responses": '"output"',
    "gemini": '"candidates"', "bedrock": '"output"',
}  # fmt: skip


_CONVERSE = ("messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata")


def _shape_of(members: dict[str, bytes]) -> str:
    """Return the dialect of a response, a message of one, or an event of a stream; empty if it is unknown."""
    return next((name for name, knows in _SHAPES if knows(members)), "")


def _type(members: dict[str, bytes], *begins: bytes) -> bool:
    return members.get("type", b"").startswith(begins)


_SHAPES: tuple[tuple[str, Callable[[dict[str, bytes]], bool]], ...] = (
    ("error", lambda members: _type(members, b'"error"')),
    ("openai-responses", lambda members: _type(members, b'"response.') or members.get("output", b"")[:1] == b"["
     or _block_type(members) in (b'"output_text"', b'"refusal"')),
    ("bedrock", lambda members: members.get("output", b"")[:1] == b"{" or any(name in members for name in _CONVERSE)
     or ("usage" in members and b'"inputTokens"' in members["usage"])
     or _block_type(members) == b""),
    ("gemini", lambda members: any(key in members for key in ("candidates", "usageMetadata", "usage_metadata",
                                                              "promptFeedback", "prompt_feedback", "parts"))),
    ("openai-chat", lambda members: "choices" in members or members.get("object", b"").startswith(b'"chat.')
     or (_is_message(members) and members.get("content", b"")[:1] != b"[")),
    ("anthropic", lambda members: _type(members, b'"message"', b'"message_', b'"content_block_', b'"ping"')
     or _is_message(members) or (members.get("role") == b'"assistant"' and members.get("content", b"")[:1] == b"[")),
)  # fmt: skip


def _is_message(members: dict[str, bytes]) -> bool:
    """Return whether this is a message of the model alone, without the other members of a response."""
    if members.get("role") not in (b'"assistant"', b'"model"'):
        return False
    return "usage" not in members and "stop_reason" not in members and "choices" not in members


def _block_type(members: dict[str, bytes]) -> bytes | None:
    """Return the type of the first block of a message, empty if it has none (Bedrock's); None without a block."""
    content = members.get("content", b"")
    blocks = array(content) if _is_message(members) and content[:1] == b"[" else ()
    block = next((raw_members(block) for block in blocks), None)
    return None if block is None else block.get("type", b"")


def _is_whole(members: dict[str, bytes]) -> bool:
    """Return whether this is a whole response, or a message, of an API whose chunks look different."""
    is_response = members.get("object") in (b'"chat.completion"', b'"response"') or _type(members, b'"message"')
    return is_response or members.get("output", b"")[:1] == b"{" or _is_message(members)


_CALL_PIECE = b'"response.function_call_arguments.'  # of Responses, whose items are whole once they are done
_UNFINISHED = (None, "in_progress", "queued", "failed", "error")
_STOPS: dict[str, tuple[tuple[str, ...], ...]] = {
    "anthropic": (("stop_reason",), ("delta", "stop_reason"), ("message", "stop_reason")),
    "openai-chat": (("choices", "finish_reason"),),
    "openai-responses": (("incomplete_details", "reason"), ("status",), ("response", "incomplete_details", "reason"),
                         ("response", "status")),
    "gemini": (("candidates", "finishReason"), ("candidates", "finish_reason"), ("promptFeedback", "blockReason"),
               ("prompt_feedback", "block_reason")),
    "bedrock": (("stopReason",), ("messageStop", "stopReason")),
}  # fmt: skip


def _stop_in(dialect: str, members: dict[str, bytes]) -> str | None:
    """Return why an answer stopped, for the first of several."""
    values = (_value_at(members, path) for path in _STOPS[dialect])
    return next((text_of(value) for value in values if value[:1] == b'"'), None)


def _value_at(members: dict[str, bytes], path: tuple[str, ...]) -> bytes:
    """Return the value at a path, through the first element of a list; empty without one."""
    value = b""
    for key in path:
        value = members.get(key, b"")
        value = next(iter(array(value)), b"") if value[:1] == b"[" else value
        members = raw_members(value) or {}
    return value


class ItemReader:
    """Reads messages and items of one dialect; ids of calls that the server gave none begin with `prefix`."""

    key = "content"  # the member that holds a message's blocks

    def __init__(self, dialect: str, prefix: str) -> None:
        self._dialect, self._prefix, self._unnamed_calls = dialect, prefix, 0

    def is_reply(self, members: dict[str, bytes]) -> bool:
        """Return whether a message or an item is the model's."""
        return members.get("role") in (b'"assistant"', b'"model"')

    def parts(self, item: bytes, members: dict[str, bytes]) -> Iterator[Part]:
        """Yield the parts of a message; here: a text that is all of its content, or a part for each block of it."""
        content = members.get(self.key, b"")
        if content[:1] == b'"' and not is_blank(content):
            yield TextBlock(Raw(content))
        for block in array(content):
            yield self.block(block, raw_members(block) or {})

    def split_message(self, item: bytes, members: dict[str, bytes]) -> list[bytes]:
        """Return the blocks of a message that is not the model's; the message itself if it has no list of blocks."""
        content = members.get(self.key, b"")
        return array(content) if content[:1] == b"[" else [item]

    def read_block(self, raw: bytes) -> Block:
        """Read a piece of a message that is not the model's, or a block of a result."""
        members = raw_members(raw) or {}
        is_message = members.get("type") in (None, b'"message"')
        text = raw if raw[:1] == b'"' else members.get(self.key, b"") if is_message else b""
        if text[:1] == b'"':
            return TextBlock(Raw(text))
        is_text = members.get("type") in _TEXTS and "text" in members and members.get("thought", b"false") == b"false"
        return self.text(raw, members, "type", "thought") if is_text else self.raw(raw)

    def block(self, raw: bytes, members: dict[str, bytes]) -> Part:
        raise NotImplementedError

    def raw(self, raw: bytes) -> RawBlock:
        """Keep a block as it was given."""
        return RawBlock(Raw(raw), self._dialect)

    def text(self, raw: bytes, members: dict[str, bytes], *keys: str) -> TextBlock | RawBlock:
        """Read a text, with its block if that has more members than these. A signature may be on an empty text."""
        text, more = members["text"], _has_more(members, "text", *keys)
        if text[:1] != b'"' or (more and is_blank(text)):
            return self.raw(raw)
        return TextBlock(Raw(text), self.raw(raw) if more else None)

    def call(self, call_id: str, name: str, *, arguments: bytes, raw: bytes | None) -> ToolCall:
        """Return a call; `raw` is the provider's block if it has more."""
        self._unnamed_calls += not call_id
        call_id = call_id or f"{self._prefix}-{self._unnamed_calls}"
        return ToolCall("", call_id, name, Raw(arguments), raw=None if raw is None else self.raw(raw))


def _has_more(members: dict[str, bytes], *keys: str) -> bool:
    """Return whether a block has a member that lore's blocks do not have."""
    return any(key not in keys and value not in _NOTHING for key, value in members.items())


class _AnthropicReply(ItemReader):
    def block(self, raw: bytes, members: dict[str, bytes]) -> Part:
        match members.get("type"):
            case b'"text"' if "text" in members:
                return self.text(raw, members, "type")
            case b'"thinking"' if "thinking" in members and not _has_more(members, "type", "thinking", "signature"):
                signature = members.get("signature", b"null")
                return ThinkingBlock(Raw(members["thinking"]), None if signature == b"null" else text_of(signature))
            case b'"tool_use"' if "id" in members and "name" in members:
                more = _has_more(members, "type", "id", "name", "input")
                arguments = members.get("input", b"{}")
                call_id, name = text_of(members["id"]), text_of(members["name"])
                return self.call(call_id, name, arguments=arguments, raw=raw if more else None)
            case _:
                return self.raw(raw)


def _input_of(text: bytes) -> tuple[bytes, bool]:
    """Return arguments that came as a text, as JSON on one line, and whether that is their spelling."""
    json_text = text_of(text).encode("utf-8", "backslashreplace")
    if not is_json(json_text) or json_text[:1] != b"{":
        return (text if json_text.strip() else b"{}"), False
    is_exact = b"\n" not in json_text and b"\r" not in json_text
    return (json_text if is_exact else encode(decode(json_text))), is_exact


class _ChatReply(ItemReader):
    _KNOWN_MEMBERS = ("role", "content", "tool_calls", "refusal")

    def split_message(self, item: bytes, members: dict[str, bytes]) -> list[bytes]:
        name, role = members.get("name"), members.get("role", b'"user"')
        name_messages = [] if name is None else [b'{"role":' + role + b',"name":' + name + b"}"]
        return [item] if role == b'"tool"' else [*name_messages, *super().split_message(item, members)]

    def parts(self, item: bytes, members: dict[str, bytes]) -> Iterator[Part]:
        known = self._KNOWN_MEMBERS
        more = {key: value for key, value in members.items() if key not in known and value not in _NOTHING}
        if more:
            role = b'"role":' + members.get("role", b'"assistant"')
            fields = b",".join([role, *(encode(key) + b":" + value for key, value in more.items())])
            yield RawBlock(Raw(b"{" + fields + b"}"), self._dialect)
        yield from super().parts(item, members)
        if members.get("refusal", b"null") not in _NOTHING:
            yield RawBlock(Raw(b'{"type":"refusal","refusal":' + members["refusal"] + b"}"), self._dialect)
        yield from map(self._read_call, array(members.get("tool_calls", b"")))

    def block(self, raw: bytes, members: dict[str, bytes]) -> Part:
        is_text = members.get("type") == b'"text"' and "text" in members
        return self.text(raw, members, "type") if is_text else self.raw(raw)

    def _read_call(self, raw: bytes) -> ToolCall:
        members = raw_members(raw) or {}
        raw = without_member(raw, "index") if "index" in members else raw
        function = raw_members(members.get("function", members.get("custom", b""))) or {}
        arguments, exact = _input_of(function.get("arguments", function.get("input", b'""')))
        exact = exact and "function" in members and not _has_more(members, "id", "type", "function", "index")
        exact = exact and not _has_more(function, "name", "arguments")
        call_id = text_of(members["id"]) if members.get("id", b"")[:1] == b'"' else ""
        name = text_of(function.get("name", b'""'))
        return self.call(call_id, name, arguments=arguments, raw=None if exact and call_id else raw)


class _Responses(ItemReader):
    _PART = ("type", "text", "annotations", "logprobs")

    def is_reply(self, members: dict[str, bytes]) -> bool:
        kind = members.get("type", b"")
        is_item = kind == b'"reasoning"' or kind.endswith(b'_call"')
        return super().is_reply(members) or ("role" not in members and is_item)

    def split_message(self, item: bytes, members: dict[str, bytes]) -> list[bytes]:
        return super().split_message(item, members) if members.get("role") == b'"user"' else [item]

    def read_block(self, raw: bytes) -> Block:
        members = raw_members(raw) or {}
        is_item = "role" in members and members["role"] != b'"user"'  # instructions in mid-conversation stay an item
        return self.raw(raw) if is_item else super().read_block(raw)

    def parts(self, item: bytes, members: dict[str, bytes]) -> Iterator[Part]:
        """Yield a message's texts; another item, and a message with more members, is one part, as it was given."""
        if members.get("type") != b'"message"' and ("type" in members or "role" not in members):
            yield self.block(item, members)
            return
        if members.get("content", b"")[:1] == b'"':
            yield TextBlock(Raw(members["content"]))
            return
        parts = [raw_members(part) or {} for part in array(members.get("content", b""))]
        texts = [part["text"] for part in parts if part.get("type") == b'"output_text"' and "text" in part]
        more = _has_more(members, "type", "role", "content", "id", "status")
        more = more or any(_has_more(part, *self._PART) for part in parts)
        has_citations = any(part.get("annotations", b"[]") not in _NOTHING for part in parts)
        if not more and not has_citations and len(texts) == len(parts):
            yield from (TextBlock(Raw(text)) for text in texts if not is_blank(text))
        elif texts and not all(map(is_blank, texts)):
            whole_text = Raw(b'"' + b"".join([text[1:-1] for text in texts]) + b'"')
            yield TextBlock(whole_text, self.raw(item))
        else:
            yield self.raw(item)

    def block(self, raw: bytes, members: dict[str, bytes]) -> Part:
        kind, call_id = members.get("type"), members.get("call_id", b"")
        if call_id[:1] != b'"' or kind not in (b'"function_call"', b'"custom_tool_call"'):
            return self.raw(raw)
        arguments, exact = members.get("input", b'""'), False
        if kind == b'"function_call"':
            arguments, exact = _input_of(members.get("arguments", b'""'))
        exact = exact and not _has_more(members, "type", "call_id", "name", "arguments")
        name = text_of(members.get("name", b'""'))
        return self.call(text_of(call_id), name, arguments=arguments, raw=None if exact else raw)


class _GeminiReply(ItemReader):
    key = "parts"

    def parts(self, item: bytes, members: dict[str, bytes]) -> Iterator[Part]:
        for part in array(members.get("parts", b"")):
            members = {key: value for key, value in (raw_members(part) or {}).items() if value != b"null"}
            pairs = [encode(key) + b":" + value for key, value in members.items()]
            yield self.block(b"{" + b",".join(pairs) + b"}", members)

    def block(self, raw: bytes, members: dict[str, bytes]) -> Part:
        raw_call = next((members[key] for key in ("functionCall", "function_call") if key in members), None)
        if "text" in members and members.get("thought", b"false") == b"false":
            return self.text(raw, members, "thought")
        if raw_call is None:
            return self.raw(raw)
        call = {key: value for key, value in (raw_members(raw_call) or {}).items() if value != b"null"}
        call_id = text_of(call["id"]) if call.get("id", b'""') != b'""' else ""
        exact = call_id and not _has_more(members, "functionCall", "function_call")
        exact = exact and not _has_more(call, "id", "name", "args")
        name, arguments = text_of(call.get("name", b'""')), call.get("args", b"{}")
        return self.call(call_id, name, arguments=arguments, raw=None if exact else raw)


class _ConverseReply(ItemReader):
    def block(self, raw: bytes, members: dict[str, bytes]) -> Part:
        call = raw_members(members.get("toolUse", b""))
        thought = raw_members(members.get("reasoningContent", b"")) or {}
        reasoning = raw_members(thought.get("reasoningText", b"")) or {}
        if "text" in members:
            return self.text(raw, members)
        if call is not None and "toolUseId" in call and len(members) == 1:
            more = _has_more(call, "toolUseId", "name", "input")
            name, arguments = text_of(call.get("name", b'""')), call.get("input", b"{}")
            return self.call(text_of(call["toolUseId"]), name, arguments=arguments, raw=raw if more else None)
        if "text" in reasoning and len(thought) == len(members) == 1 and not _has_more(reasoning, "text", "signature"):
            signature = reasoning.get("signature", b"null")
            return ThinkingBlock(Raw(reasoning["text"]), None if signature == b"null" else text_of(signature))
        return self.raw(raw)


READERS: dict[str, type[ItemReader]] = {
    "anthropic": _AnthropicReply, "openai-chat": _ChatReply, "openai-responses": _Responses, "gemini": _GeminiReply,
    "bedrock": _ConverseReply,
}  # fmt: skip
