"""Write the body of an OpenAI Chat request from what other tools recorded of one: pieces stay slices.

Tools that normalise messages have shapes of their own; this one is what a dialect reads. What it writes is
never more than `structural`: it is not what was sent. Beside it: reading a body that was kept whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lore.formats.contents import unescaped
from lore.model.canonical import encode
from lore.model.jsonslice import table
from lore.model.turn import Fidelity


def object_of(members: Mapping[str, bytes]) -> bytes:
    """Write an object of members that are JSON."""
    return b"{" + b",".join([encode(key) + b":" + value for key, value in members.items()]) + b"}"


def array_of(elements: Iterable[bytes]) -> bytes:
    """Write an array of elements that are JSON."""
    return b"[" + b",".join(elements) + b"]"


def body_of(
    model: bytes, messages: Iterable[bytes], tools: bytes = b"", params: Mapping[str, bytes] | None = None
) -> bytes:
    """Write a body of JSON pieces; `tools` is an array, or nothing."""
    members = {"model": model or b"null"}
    if tools[:1] == b"[" and tools.strip(b"[] \t\r\n"):
        members["tools"] = tools
    return object_of({**members, **(params or {}), "messages": array_of(messages)})


def message_of(role: str, content: Iterable[bytes] = (), calls: Iterable[bytes] = ()) -> bytes:
    """Write a message of content blocks and calls."""
    called = b",".join(calls)
    end = b',"tool_calls":[' + called + b"]}" if called else b"}"
    return b'{"role":' + encode(role) + b',"content":[' + b",".join(content) + b"]" + end


def text_block(text: bytes) -> bytes:
    """Write a text block of a JSON string."""
    return b'{"type":"text","text":' + text + b"}"


def call_of(call_id: bytes, name: bytes, arguments: bytes) -> bytes:
    """Write a call; arguments that are no text are put into one, as they are spelled."""
    text = arguments if arguments[:1] == b'"' else encode(arguments.decode("utf-8", "backslashreplace"))
    function = b'{"name":' + name + b',"arguments":' + text + b"}"
    return b'{"id":' + call_id + b',"type":"function","function":' + function + b"}"


def result_of(call_id: bytes, content: bytes) -> bytes:
    """Write a call's result; content that is neither text nor list is put into a text, as it is spelled."""
    text = content if content[:1] in (b'"', b"[") else encode(content.decode("utf-8", "backslashreplace"))
    return b'{"role":"tool","tool_call_id":' + call_id + b',"content":' + text + b"}"


class RecordedBody(NamedTuple):
    """A request body that was kept whole: `wire` as text, `parsed` as JSON."""

    body: bytes
    fidelity: Fidelity


def kept(raw: bytes) -> RecordedBody | None:
    """Read a body that stands in a record; None where it is none."""
    text = unescaped(raw).strip() if raw[:1] == b'"' else raw
    own = table(text) if text[:1] == b"{" else None
    if own is None or not any(key in own for key in ("messages", "input", "contents")):
        return None
    return RecordedBody(text, "wire" if raw[:1] == b'"' else "parsed")
