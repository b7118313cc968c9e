"""Blocks and items of a timeline, a typed function for each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, cast

import msgspec
from msgspec import Raw

from lore.errors import MisuseError, kind_of, nearest_name
from lore.events.strict import (
    JSON,
    STATUSES,
    expect,
    json_of,
    optional_json,
    refuse_misspelling,
    require_word,
    strict,
    text_json,
)
from lore.model import items as i
from lore.model.canonical import encode
from lore.sdk.objects import GIVEN, plain

Content: TypeAlias = str | Sequence[i.Block]
SOURCES = ("user", "context_injection", "tick")


def block_list(blocks: Iterable[i.Block], field: str) -> tuple[i.Block, ...]:
    """Return blocks; raises MisuseError for another object."""
    block_tuple = tuple(blocks)
    for at, block in enumerate(block_tuple):
        expect(block, i.Block, f"{field}[{at}]", "lore.events.text, thinking, image or raw")
    return block_tuple


def output_json(value: Content | None) -> Raw:
    """Encode a call's output: a text or blocks."""
    if value is None:
        return i.NULL
    if isinstance(value, str):
        return Raw(encode(value))
    return Raw(msgspec.json.encode(block_list(value, "output")))


@strict
def text(value: str) -> i.TextBlock:
    """Return a block of text.

    >>> bytes(text("hello").text)
    b'"hello"'
    """
    return i.TextBlock(text_json(value, "text"))


@strict
def thinking(value: str, *, signature: str | None = None) -> i.ThinkingBlock:
    """Return a block of a model's reasoning, with the provider's signature.

    >>> thinking("so…", signature="c2ln").signature
    'c2ln'
    """
    return i.ThinkingBlock(text_json(value, "thinking"), signature)


@strict
def image(media_type: str, data: str) -> i.ImageBlock:
    """Return an image; `data` is base64 without a `data:` prefix. Raises MisuseError for another text.

    >>> image("image/png", "iVBORw0=").media_type
    'image/png'
    """
    raw = text_json(data, "data")
    if re.fullmatch(r"[A-Za-z0-9+/\s]+={0,2}\s*", data) is None:
        raise MisuseError("data is not base64", hint="base64.b64encode(bytes).decode(), without `data:…,`")
    return i.ImageBlock(media_type, raw)


@strict
def raw(json: JSON, *, dialect: str | None = None) -> i.RawBlock:
    """Return a block in a provider's own shape, sent as it is while the session keeps that dialect.

    >>> raw({"type": "document", "title": "Report"}, dialect="anthropic").dialect
    'anthropic'
    """
    return i.RawBlock(json_of(json, "json"), dialect)


@strict
def user_message(uuid: str, content: Content, *, source: str = "user") -> i.UserMessage:
    """Return a message of the user, or of a harness as the user (`context_injection`, `tick`).

    >>> user_message("u1", "What is new?").source
    'user'
    """
    if source not in SOURCES and nearest_name(source, SOURCES):  # other sources are programs
        require_word(source, SOURCES, "source")
    if isinstance(content, str):
        return i.UserMessage(uuid, text_json(content, "content"), source=source)
    return i.UserMessage(uuid, blocks=block_list(content, "content"), source=source)


@strict
def assistant_message(
    uuid: str, content: Content, *, stop_reason: str | None = None, response_id: str | None = None
) -> i.AssistantMessage:
    """Return a message of the model. Items of one `response_id` are one response.

    >>> assistant_message("a1", [thinking("hm"), text("Nothing.")], response_id="msg_1").response_id
    'msg_1'
    """
    if isinstance(content, str):
        return i.AssistantMessage(uuid, text_json(content, "content"), None, stop_reason, response_id)
    return i.AssistantMessage(uuid, i.NULL, block_list(content, "content"), stop_reason, response_id)


@strict
def tool_call(
    uuid: str, call_id: str, name: str, input: JSON = None, *, status: i.Status = "running",
    output: Content | None = None, error: str | None = None, detail: JSON = None, response_id: str | None = None,
    raw: i.RawBlock | None = None,
) -> i.ToolCall:  # fmt: skip
    """Return a call that the model made; `patch_tool_call` adds its result.

    >>> tool_call("t1", "toolu_1", "read_file", {"path": "a.py"}).status
    'running'
    """
    arguments = json_of({} if input is None else input, "input")
    return i.ToolCall(
        uuid, call_id, name, arguments, require_word(status, STATUSES, "status"), output_json(output),
        optional_json(error, "error"), optional_json(detail, "detail"), response_id, raw,
    )  # fmt: skip


_LORE_MEMBERS = {"text": ("type", "text"), "raw": ("type", "json", "dialect"), "image": ("type", "media_type", "data"),
                 "thinking": ("type", "text", "signature")}  # fmt: skip

# Members of blocks in a user's message or a tool's result, by the API that knows them.
_API_MEMBERS = {
    "anthropic": ("type", "text", "source", "title", "context", "citations", "cache_control", "content", "id", "name",
                  "input", "thinking", "signature", "data"),
    "openai-chat": ("type", "text", "image_url", "input_audio", "file", "refusal"),
    "openai-responses": ("type", "text", "image_url", "file_id", "file_data", "file_url", "filename", "detail", "role",
                         "content", "arguments", "input", "name", "id", "status", "summary"),
    "gemini": ("text", "inlineData", "inline_data", "fileData", "file_data", "functionCall", "function_call", "thought",
                "thoughtSignature", "thought_signature"),
    "bedrock": ("text", "image", "document", "video", "toolUse", "guardContent", "cachePoint",
                "reasoningContent", "citationsContent", "searchResult"),
}  # fmt: skip
_RESULTS = ("tool_result", "function_call_output", "functionResponse", "function_response", "toolResult")
_APIS = {"openai-chat": ("image_url", "file"), "openai-responses": ("input_text", "input_image", "input_file")}
_ONE_API: dict[str, str] = {kind: api for api, kinds in _APIS.items() for kind in kinds}  # types that one API has
# Types of blocks in a tool's result, which have one of these members. Rows of data may have a type.
_RESULT_BLOCKS = {
    "text": ("text",), "image": ("data", "source"), "document": ("source",), "search_result": ("source",),
    "raw": ("json",), "tool_reference": ("tool_name",), "input_text": ("text",),
    "input_image": ("image_url", "file_id"), "input_file": ("file_id", "file_data", "file_url"),
}  # fmt: skip
_TYPE = 'give lore.events.text, image or raw, or a mapping in the shape of the API, such as {"type": "text", "text": …}'


def block_of(value: object, dialect: str) -> i.Block:
    """Return a value as a block: one of lore's, a text, or a mapping in lore's shape or the dialect's own.

    Raises MisuseError for a mapping with a misspelled member, and names the nearest one, and without the type that the
    dialect requires.
    """
    if isinstance(value, str):
        return text(value)
    if isinstance(value, i.Block):
        return value
    members = cast("Mapping[str, JSON]", value if isinstance(value, Mapping) else plain(value, GIVEN))
    expect(members, Mapping, "a block", "lore.events.text, image or raw")
    if "role" in members and "type" not in members:
        raise MisuseError("a block has a role: it is a whole message", hint="give its content, a text or blocks")
    kind = str(members.get("type", ""))
    if kind in _RESULTS or any(name in _RESULTS for name in members):
        raise MisuseError("a block is a tool's result", hint="session.result(call_id, output)")
    if _ONE_API.get(kind, dialect) != dialect:
        message = f"a block of type {kind!r} belongs to {_ONE_API[kind]}; the session's dialect is {dialect}"
        raise MisuseError(message, hint="lore.events.text or image fit every dialect; lore.events.raw sends any block")
    if kind == "image" and "mimeType" in members:  # of MCP
        members = {"type": "image", "media_type": members["mimeType"], "data": members.get("data")}
    known = _LORE_MEMBERS.get(kind, ())
    if not known or any(name not in known for name in members):
        refuse_misspelling("a block", members, (*known, *_API_MEMBERS.get(dialect, ())))
        if "type" not in members and "type" in _API_MEMBERS.get(dialect, ()):
            raise MisuseError(f"a block has no type: it has {', '.join(members) or 'no members'}", hint=_TYPE)
        return i.RawBlock(json_of(plain(members, GIVEN), "a block"), dialect)
    try:
        return i.blocks_of(b"[" + bytes(json_of(members, "a block")) + b"]")[0]
    except ValueError as error:
        raise MisuseError(f"a block of type {kind!r}: {error}") from None


def is_result_block(value: object, dialect: str) -> bool:
    """Return whether a value in a tool's output is a block, and not data."""
    if not isinstance(value, Mapping):
        return isinstance(value, i.Block)
    members = cast("Mapping[str, object]", value)
    if dialect == "bedrock" and "type" not in members:
        return len(members) == 1 and not members.keys().isdisjoint(("text", "json", "image", "document", "video"))
    return any(name in members for name in _RESULT_BLOCKS.get(str(members.get("type")), ()))


def blocks_from(content: object, dialect: str, field: str) -> tuple[i.Block, ...]:
    """Return each value of a list as a block."""
    if isinstance(content, Mapping) or not isinstance(content, Iterable):
        raise MisuseError(f"{field} is {kind_of(cast('object', content))}", hint="give a text, or a list of blocks")
    return tuple([block_of(value, dialect) for value in cast("Iterable[object]", content)])
