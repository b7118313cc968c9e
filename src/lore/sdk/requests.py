"""Request bodies as the arguments that an SDK takes, and its parameters as a body holds them.

In: a body as a dialect writes it. Out: keyword arguments of

    anthropic          client.messages.create
    openai-chat        client.chat.completions.create
    openai-responses   client.responses.create
    gemini             client.models.generate_content       (google-genai)
    bedrock            client.converse                      (boto3)

with plain Python values. Rules: for the first three and Bedrock the arguments are the body's members in its order, so
that encoding them again gives the body; google-genai takes all but model and contents in `config`; where an SDK wants
bytes (boto3, google-genai), what is base64 in the body is decoded. Source: the references of these SDKs, of 2026-11.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from lore.errors import MisuseError
from lore.model.canonical import decode
from lore.model.lenient import camel

_Place: TypeAlias = tuple[str | None, str]
_MAX_TOKENS = 8192  # tokens of an answer where no limit is set: every model of Claude 3.5 and later may answer as much
_TOP = frozenset(
    ("generationConfig", "toolConfig", "safetySettings", "cachedContent", "labels", "serviceTier", "store")
)
_SAID_OTHERWISE = {
    **dict.fromkeys(("model", "modelId"), "give it as `model`"),
    **dict.fromkeys(("system", "systemInstruction", "instructions"), "give it as `system`"),
    **dict.fromkeys(("messages", "contents", "input"), "say it with `user`, `assistant`, `result`"),
    "tools": "give them as `tools`",
}


def arguments_of(body: bytes, dialect: str) -> dict[str, Any]:
    """Return the keyword arguments for an SDK. Costs O(the body)."""
    members, made = cast("dict[str, Any]", decode(body)), _ARGUMENTS.get(dialect)
    return members if made is None else made(members)


def params_of(params: Mapping[str, Any], dialect: str) -> dict[str, Any]:
    """Return parameters as a body holds them: those that its API requires, and Gemini's where it has them.

    google-genai has in one `config` what the API has in `generationConfig` and beside it. Raises MisuseError for what
    the session itself puts into a body: it would vanish behind that.
    """
    if not isinstance(params, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise MisuseError("params is a mapping", hint='params={"max_tokens": 4000}')
    for name in params:
        if camel(name) in _SAID_OTHERWISE:
            raise MisuseError(f"{name!r} is no parameter: the session writes it", hint=_SAID_OTHERWISE[camel(name)])
    if dialect == "anthropic":
        return {"max_tokens": _MAX_TOKENS, **params}
    if dialect != "gemini":
        return dict(params)
    own = {camel(key): value for key, value in params.items()}
    top = {key: value for key, value in own.items() if key in _TOP}
    config = {**top.pop("generationConfig", {}), **{key: value for key, value in own.items() if key not in _TOP}}
    return {**top, "generationConfig": config} if config else top


def _gemini(members: dict[str, Any]) -> dict[str, Any]:
    """Put all but model and contents into `config`; the generation's settings stand in it side by side."""
    contents = _with_bytes(members.pop("contents"), _GEMINI_BYTES)
    model = {"model": members.pop("model")} if "model" in members else {}
    config = {**members.pop("generationConfig", {}), **members}
    return {**model, "contents": contents, **({"config": config} if config else {})}


def _bedrock(members: dict[str, Any]) -> dict[str, Any]:
    return {**members, "messages": _with_bytes(members["messages"], _BEDROCK_BYTES)}


# The members that hold bytes, by the member that they stand in (None: in any).
_GEMINI_BYTES: set[_Place] = {
    ("inlineData", "data"),
    ("inline_data", "data"),
    (None, "thoughtSignature"),
    (None, "thought_signature"),
}
_BEDROCK_BYTES: set[_Place] = {("source", "bytes"), ("reasoningContent", "redactedContent")}
_WORDS = frozenset(("input", "args", "response", "json"))  # whose members are a tool's own


def _with_bytes(value: Any, places: set[_Place], inside: str | None = None) -> Any:
    """Return a value in which the base64 at these places is bytes; what is none stays as it is."""
    if isinstance(value, list):
        return [_with_bytes(inner, places, inside) for inner in cast("list[Any]", value)]
    if not isinstance(value, dict) or inside in _WORDS:
        return cast("Any", value)
    own = cast("dict[str, Any]", value)
    return {
        key: _opened(inner)
        if isinstance(inner, str) and ((inside, key) in places or (None, key) in places)
        else _with_bytes(inner, places, key)
        for key, inner in own.items()
    }


def _opened(text: str) -> bytes | str:
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return text


_ARGUMENTS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"gemini": _gemini, "bedrock": _bedrock}
