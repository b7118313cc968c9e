"""The messages of a model call as instrumentations wrote them before the conventions had a place for them.

In: a span's attributes. Out: messages and tools in OpenAI's shape, `structural`. Two ways: one attribute for each
member (`gen_ai.prompt.0.content`, `llm.request.functions.0.name`: OpenLLMetry), and a list of events kept as text
in `events` (`gen_ai.user.message`, …: Pydantic AI and Logfire). Rule: what a key counts is an order, not an index
into anything, so a number of any size costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lore.formats.chat import call_of, message_of, result_of, text_block
from lore.formats.contents import unescaped
from lore.model.canonical import encode, text_of
from lore.model.jsonslice import array, is_json, table

_PROMPT = re.compile(r"gen_ai\.prompt\.(\d{1,9})\.(role|content|tool_call_id)$")
_CALLED = re.compile(r"gen_ai\.prompt\.(\d{1,9})\.tool_calls\.(\d{1,9})\.(id|name|arguments)$")
_FUNCTION = re.compile(r"llm\.request\.functions\.(\d{1,9})\.(name|description|parameters)$")
_SAID = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message$")

Numbered = dict[int, dict[str, bytes]]


def messages_in(own: Mapping[str, bytes]) -> list[bytes]:
    """Return the messages of a call; none where these attributes hold none."""
    return _flat(own) or _events(own.get("events", b""))


def tools_in(own: Mapping[str, bytes]) -> bytes:
    """Return the tools of a call as an array; nothing where there are none."""
    found: Numbered = {}
    for key, value in own.items():
        if key.startswith("llm.request.functions.") and (match := _FUNCTION.match(key)) is not None:
            found.setdefault(int(match[1]), {})[match[2]] = value
    written = [_function(found[number]) for number in sorted(found)]
    return b"[" + b",".join(written) + b"]" if written else b""


def _function(own: dict[str, bytes]) -> bytes:
    parameters = own.get("parameters", b"")
    if parameters[:1] == b'"':
        text = unescaped(parameters).strip()
        own = {**own, "parameters": text if is_json(text) else parameters}
    members = [encode(name) + b":" + own[name] for name in ("name", "description", "parameters") if name in own]
    return b'{"type":"function","function":{' + b",".join(members) + b"}}"


def _flat(own: Mapping[str, bytes]) -> list[bytes]:
    said: Numbered = {}
    called: dict[int, Numbered] = {}
    for key, value in own.items():
        if not key.startswith("gen_ai.prompt."):
            continue
        if (match := _PROMPT.match(key)) is not None:
            said.setdefault(int(match[1]), {})[match[2]] = value
        elif (match := _CALLED.match(key)) is not None:
            called.setdefault(int(match[1]), {}).setdefault(int(match[2]), {})[match[3]] = value
    found: list[bytes] = []
    for number in sorted({*said, *called}):
        inner = said.get(number, {})
        if "role" in inner or "content" in inner or number in called:
            calls = called.get(number, {})
            found.append(_message(inner, [_call(calls[at]) for at in sorted(calls)]))
    return found


def _message(own: dict[str, bytes], calls: list[bytes]) -> bytes:
    role, content = text_of(own.get("role", b'"user"')), own.get("content", b"")
    if role == "tool":
        return result_of(own.get("tool_call_id", b'""'), content or b'""')
    return message_of(role, [text_block(content)] if content not in (b"", b"null", b'""') else [], calls)


def _call(own: dict[str, bytes]) -> bytes:
    return call_of(own.get("id", b'""'), own.get("name", b'""'), own.get("arguments", b"{}"))


def _events(raw: bytes) -> list[bytes]:
    text = unescaped(raw).strip() if raw[:1] == b'"' else raw
    if text[:1] != b"[" or not is_json(text):
        return []
    found: list[bytes] = []
    for one in array(text):
        own = table(one) or {}
        match = _SAID.match(text_of(own.get("event.name", b'""')))
        if match is not None:
            found.append(_said(own, match[1]))
    return found


def _said(own: dict[str, bytes], role: str) -> bytes:
    """Write an event: its content is a text, a list of texts and parts, or something else, which is written as text."""
    content = own.get("content", b"")
    if role == "tool":
        return result_of(own.get("id", b'""'), content or b'""')
    parts = array(content) if content[:1] == b"[" else [content] if content not in (b"", b"null") else []
    blocks = [text_block(one) if one[:1] == b'"' else one for one in parts]
    calls: list[bytes] = []
    for one in array(own["tool_calls"]) if own.get("tool_calls", b"")[:1] == b"[" else []:
        called = table(one) or {}
        calls.append(_call({**(table(called.get("function", b"")) or {}), "id": called.get("id", b'""')}))
    return message_of(role, blocks, calls)
