"""Members that hold nothing: null, an empty text, an empty list, what is made of such alone, a call's good end.

In: segments and other JSON. Out: whether they say anything, and whether two of them say the same. Rules: a member
that holds nothing is as good as one that is left out, since nothing of it reaches a prompt; what a program or the
model wrote as a value of its own (a schema, a call's arguments, a result's object) is shown as it stands, so there
nothing is left out; and an empty object may be a choice by its name (`{"any": {}}`, `{"googleSearch": {}}`), so it is
nothing only beside what a block of a message says. A message is no member: an empty one has a role, which shows.

Where providers differ: the Claude API, OpenAI, Gemini and Bedrock read such members as absent, or refuse them. An
open model's chat template sees them, and may print what stands for nothing (`None`, an empty thought).
"""

from __future__ import annotations

import re
from typing import Any, cast

from lore.model.canonical import decode, encode
from lore.model.prompt import Prompt, Segment
from lore.model.providers import provider_of

_AS_WRITTEN = frozenset((
    "input_schema", "inputSchema", "parameters", "parametersJsonSchema", "schema", "input", "arguments", "args",
    "response", "output", "format", "json",
))  # fmt: skip
_TEXTS = ("text", "input_text", "output_text")  # no set: a type may be anything
_SIGN = re.compile(rb'null|""|\[\s*\]|\{\s*\}|false|"success"')
_MOST = 4096  # bytes that members which hold nothing may take
_APIS = frozenset(("anthropic", "openai", "azure", "gemini", "vertex", "bedrock"))
_ROOTS = ("messages[", "input[", "contents[")


def by_template(prompt: Prompt, endpoint: str) -> bool:
    """Tell whether a chat template may see which members are there."""
    return prompt.dialect == "openai-chat" and provider_of(endpoint, prompt.model, prompt.dialect) not in _APIS


def says_nothing(segment: Segment) -> bool:
    """Tell whether a block, a tool or a system prompt holds nothing at all."""
    if len(segment.data) > _MOST:
        return False
    data = b"{" + segment.data + b"}" if segment.kind == "envelope" else segment.data
    try:
        return not _kept(decode(data))
    except (ValueError, RecursionError):
        return False


def is_message(segment: Segment) -> bool:
    """Tell whether a segment stands in a message, which has a role even where it is empty."""
    return segment.path.startswith(_ROOTS)


def say_the_same(mine: Segment, theirs: Segment) -> bool:
    """Tell whether two segments differ in nothing but members that hold nothing."""
    one, other = (b"{" + side.data + b"}" if side.kind == "envelope" else side.data for side in (mine, theirs))
    if abs(len(one) - len(other)) > _MOST or not (_SIGN.search(one) or _SIGN.search(other)):
        return False
    try:
        said = [encode(_sorted(_kept(decode(raw), blocks=mine.section != "tools"))) for raw in (one, other)]
    except (ValueError, RecursionError):
        return False
    return said[0] == said[1]


def without_empty(raw: bytes) -> bytes:
    """Return a field's JSON without members that hold nothing; empty where nothing is left."""
    if _SIGN.search(raw) is None:
        return raw
    try:
        kept = _kept(decode(raw))
    except (ValueError, RecursionError):
        return raw
    return encode(kept) if kept or isinstance(kept, bool | int | float) else b""


def _member(value: Any, *, blocks: bool) -> Any:
    return value if value == {} else _kept(value, blocks=blocks)


def _kept(value: Any, *, blocks: bool = False) -> Any:
    """Return what a value says; None where it says nothing. `blocks`: it is a message's."""
    match value:
        case dict():
            table = cast("dict[str, Any]", value)
            said = {
                key: one if key in _AS_WRITTEN and one else _member(one, blocks=blocks) for key, one in table.items()
            }
            said = {key: one for key, one in said.items() if one is not None and not _is_default(key, one, said)}
            if blocks and any(one != {} for one in said.values()):
                said = {key: one for key, one in said.items() if one != {}}
            return None if said.keys() <= {"role"} or _is_bare(said) else said
        case list():
            parts = [_kept(one, blocks=blocks) for one in cast("list[Any]", value)]
            return [one for one in parts if one is not None] or None
        case "":
            return None
        case _:
            return value


def _is_default(key: str, value: Any, said: dict[str, Any]) -> bool:
    """Tell whether a result says no more than that its call went well, which it does without a word, too."""
    return (key == "is_error" and value is False) or (key == "status" and value == "success" and "toolUseId" in said)


def _is_bare(said: dict[str, Any]) -> bool:
    """Tell whether a block of text has lost its text."""
    return said.keys() <= {"type", "role"} and said.get("type") in _TEXTS


def _sorted(value: Any) -> Any:
    match value:
        case dict():
            table = cast("dict[str, Any]", value)
            return {key: _sorted(table[key]) for key in sorted(table)}
        case list():
            return [_sorted(one) for one in cast("list[Any]", value)]
        case _:
            return value
