"""Objects and streams of SDKs as plain JSON values.

A response, a message or a chunk is a pydantic model (`model_dump`: anthropic, openai, google-genai, mistral), an object
with `to_dict`, a mapping (boto3), a dataclass, or a plain object with attributes (fakes, litellm). It becomes JSON
values, bytes as base64, times as ISO 8601. A value that JSON does not have is a LoreError that names its type. Cost:
O(the object).
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from typing import Any, cast

import msgspec

from lore.errors import LoreError, kind_of
from lore.model.canonical import decode

_FINAL = ("get_final_message", "get_final_completion", "get_final_response")  # of helpers that watched a stream
_AWAITED = "use `await session.assistant_async(stream)`"
_PLAIN = (str, int, float, bool, type(None))
# Fields of a pydantic model that are left out, by what it is:
RECEIVED: Mapping[str, bool] = {"exclude_unset": True}  # a response: those that the server did not send
GIVEN: Mapping[str, bool] = {"exclude_none": True}  # a tool, block or parameter: those without a value
RESULT: Mapping[str, bool] = {}  # of a tool: none, as a value by default is part of the answer


def is_model(value: Any) -> bool:
    """Return whether a value is an object of an SDK, not its class: one that returns its own members."""
    return not isinstance(value, type) and any(
        callable(getattr(value, name, None)) for name in ("model_dump", "to_dict")
    )


def describe_class(kind: type) -> str:
    """Return what to give instead of a class."""
    instead = f"{kind.__name__}.model_json_schema()" if hasattr(kind, "model_json_schema") else "an object or a mapping"
    return f"{kind.__name__} is a class, give {instead}"


def plain(value: object, omit: Mapping[str, bool] = RECEIVED) -> Any:
    """Return a value as plain JSON values; raises LoreError for one that JSON does not have."""
    try:
        return _plain(value, omit)
    except RecursionError:
        raise LoreError(f"{kind_of(value)} is not JSON: it contains itself, or is nested too deep") from None


def _plain(value: object, omit: Mapping[str, bool]) -> Any:
    if isinstance(value, Enum):
        return _plain(value.value, omit)
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(cast("bytes", value))).decode("ascii")
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, omit) for key, inner in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, omit) for inner in cast("Iterable[object]", value)]
    if isinstance(value, msgspec.Struct):
        return decode(msgspec.json.encode(value))
    if isinstance(value, date):
        return value.isoformat()
    return _plain(_members(value, omit), omit)


def _members(value: Any, omit: Mapping[str, bool]) -> object:
    """Return the members of an object, by the first way that it offers."""
    if callable(getattr(value, "__await__", None)):
        raise LoreError("this is a coroutine, not a response", hint="await the call first")
    if isinstance(value, type):
        raise LoreError(describe_class(value))
    if isinstance(value, BaseException):  # its members do not say what failed
        message = f"{kind_of(value)} is an exception, not a response and not JSON"
        hint = "of a request: session.failed(EXCEPTION); of a tool: session.result(call_id, error=EXCEPTION)"
        raise LoreError(message, hint=hint)
    if callable(getattr(value, "model_dump", None)):
        try:
            return _json_of(value, value.model_dump(mode="json", by_alias=True, warnings=False, **omit))
        except TypeError:  # another library's, with fewer options
            return _json_of(value, value.model_dump())
    if callable(getattr(value, "to_dict", None)):
        return _json_of(value, value.to_dict())
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    members = getattr(value, "__dict__", None)
    if not isinstance(members, dict) or callable(value):
        raise LoreError(f"{kind_of(value)} is not JSON", hint="give text, numbers, lists and mappings")
    attributes = cast("dict[str, object]", members)
    return {key: inner for key, inner in attributes.items() if not key.startswith("_") and inner is not None}


def _json_of(value: object, values: object) -> object:
    """Return the values that an object returned for itself. Raise LoreError for a mock, which returns another mock."""
    if isinstance(values, (*_PLAIN, Mapping, list, tuple)):
        return cast("object", values)
    raise LoreError(f"{kind_of(value)} is not JSON", hint="give text, numbers, lists and mappings")


def final_response(response: Any) -> Any:
    """Return the response of a raw response, or of a helper that watched a stream; another object unchanged."""
    if isinstance(response, (*_PLAIN, Mapping, list, tuple)):
        return cast("object", response)
    finish = _finish_of(response)
    if finish is None:
        return response
    answer = finish()
    if callable(getattr(answer, "__await__", None)):
        answer.close()
        raise LoreError("this is a stream of asyncio", hint=_AWAITED)
    return answer


def _finish_of(response: object) -> Callable[[], Any] | None:
    """Return the method of a raw response, or of a helper that watched a stream, that gives the response."""
    if hasattr(response, "http_response"):  # of `with_raw_response`
        return getattr(response, "parse", None)
    methods = (getattr(response, name, None) for name in _FINAL)
    return next((method for method in methods if callable(method)), None)


async def receive_response(response: Any) -> Any:
    """Return a response, or the chunks of a stream, of an SDK's asynchronous client."""
    if callable(getattr(response, "__await__", None)):
        response = await response
    if (finish := _finish_of(response)) is not None:
        response = finish()
        response = await response if callable(getattr(response, "__await__", None)) else response
    if isinstance(response, AsyncIterable):
        return [chunk async for chunk in cast("AsyncIterable[object]", response)]
    return response


def chunks_of(response: object) -> list[object] | None:
    """Return the chunks of a stream, read to its end; None for a response.

    boto3's `converse_stream` has its stream in a mapping. Raises LoreError for a stream of asyncio.
    """
    if isinstance(response, Mapping):
        stream = cast("Mapping[str, object]", response).get("stream")
        streams = isinstance(stream, Iterable) and not isinstance(stream, (*_PLAIN, Mapping))
        return list(cast("Iterable[object]", stream)) if streams else None
    if isinstance(response, list | tuple):
        return list(cast("Iterable[object]", response))
    if isinstance(response, _PLAIN) or is_model(response):
        return None
    if isinstance(response, Iterable):
        return list(cast("Iterable[object]", response))
    if isinstance(response, AsyncIterable):
        raise LoreError("this is a stream of asyncio", hint=_AWAITED)
    if hasattr(response, "__enter__") or hasattr(response, "__aenter__"):
        hint = "`with … as stream: session.assistant(stream)`"
        if not hasattr(response, "__enter__"):
            hint = "`async with … as stream: await session.assistant_async(stream)`"
        raise LoreError(f"{kind_of(response)} is not opened", hint=hint)
    return None
