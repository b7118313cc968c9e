"""The objects of an SDK as plain JSON values, whatever class they are of; and streams of them.

In: a response, a message or a chunk: a pydantic model (`model_dump`: anthropic, openai, google-genai, mistral), an
object with `to_dict`, a mapping (boto3), a plain object with attributes (stand-ins, litellm). Out: values that JSON
has; bytes as base64, times as ISO 8601. Rules: what a server did not send is left out, where the class remembers it;
what has no place in JSON is a LoreError that names its type. Cost: O(the object).
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterable, Iterable, Mapping
from datetime import date
from enum import Enum
from typing import Any, cast

import msgspec

from lore.errors import LoreError
from lore.model.canonical import decode

_FINAL = ("get_final_message", "get_final_completion", "get_final_response")  # of helpers that watched a stream
_AWAITED = "use `await session.assistant_async(stream)`"
_PLAIN = (str, int, float, bool, type(None))


def plain(value: object) -> Any:
    """Return a value as JSON has it; raises LoreError for what JSON has no place for."""
    try:
        return _plain(value)
    except RecursionError:
        raise LoreError(f"a {type(value).__name__} is no JSON: it holds itself, or nests too deep") from None


def _plain(value: object) -> Any:
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(cast("bytes", value))).decode("ascii")
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in cast("Iterable[object]", value)]
    if isinstance(value, msgspec.Struct):
        return decode(msgspec.json.encode(value))
    if isinstance(value, date):
        return value.isoformat()
    return _plain(_members(value))


def _members(value: Any) -> object:
    """Return what an object holds, by the first way that it offers."""
    if callable(getattr(value, "__await__", None)):
        raise LoreError("this is a coroutine, no response", hint="await the call first")
    dump = None if isinstance(value, type) else getattr(value, "model_dump", None)
    if callable(dump):
        try:
            return _dumped(value, dump(mode="json", by_alias=True, exclude_unset=True, warnings=False))
        except TypeError:  # another library's, with fewer options
            return _dumped(value, dump())
    if callable(getattr(value, "to_dict", None)) and not isinstance(value, type):
        return _dumped(value, value.to_dict())
    members = getattr(value, "__dict__", None)
    if not isinstance(members, dict) or isinstance(value, type) or callable(value):
        raise LoreError(f"a {type(value).__name__} is no JSON", hint="give text, numbers, lists and mappings")
    own = cast("dict[str, object]", members)
    return {key: inner for key, inner in own.items() if not key.startswith("_") and inner is not None}


def _dumped(value: object, made: object) -> object:
    """Return what an object says of itself; a mock answers with another mock, for ever."""
    if isinstance(made, (*_PLAIN, Mapping, list, tuple)):
        return cast("object", made)
    raise LoreError(f"a {type(value).__name__} is no JSON", hint="give text, numbers, lists and mappings")


def final(response: Any) -> Any:
    """Return the response of a helper that watched a stream; everything else as it is."""
    if isinstance(response, (*_PLAIN, Mapping, list, tuple)):
        return cast("object", response)
    for name in _FINAL:
        found = getattr(response, name, None)
        if callable(found):
            made: Any = found()
            if callable(getattr(made, "__await__", None)):
                made.close()
                raise LoreError("this is a stream of asyncio", hint=_AWAITED)
            return made
    return response


async def awaited(response: Any) -> Any:
    """Return a response, or the chunks of a stream, of an SDK's asynchronous client."""
    if callable(getattr(response, "__await__", None)):
        return await response
    for name in _FINAL:
        found = getattr(response, name, None)
        if callable(found):
            made: Any = found()
            return await made if callable(getattr(made, "__await__", None)) else made
    if isinstance(response, AsyncIterable):
        return [chunk async for chunk in cast("AsyncIterable[object]", response)]
    return response


def chunks_of(response: object) -> list[object] | None:
    """Return the chunks of a stream, read to its end; None where this is no stream but a response.

    boto3's `converse_stream` has its stream in a mapping. Raises LoreError for a stream of asyncio.
    """
    if isinstance(response, Mapping):
        stream = cast("Mapping[str, object]", response).get("stream")
        streams = isinstance(stream, Iterable) and not isinstance(stream, (*_PLAIN, Mapping))
        return list(cast("Iterable[object]", stream)) if streams else None
    if isinstance(response, list | tuple):
        return list(cast("Iterable[object]", response))
    if isinstance(response, _PLAIN) or callable(getattr(response, "model_dump", None)):
        return None
    if isinstance(response, Iterable):
        return list(cast("Iterable[object]", response))
    if isinstance(response, AsyncIterable):
        raise LoreError("this is a stream of asyncio", hint=_AWAITED)
    return None
