"""Requests as tests hold them, to records that lore reads.

In: bodies as objects, text or bytes; requests of `httpx` and `requests`; `{request, response | usage,
timestamp}`; what a recorder recorded. Out: one JSON record a request. Rules: text and bytes are kept as they
are (`wire`), an object is written in its own order (`parsed`), objects of an SDK as their JSON; what is no
JSON is a LoreError that counts requests from 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, NamedTuple, cast

from lore.errors import LoreError
from lore.pytest_plugin.recorder import Recorded

_SURROGATE = re.compile("[\ud800-\udfff]")
_HINT = "give bodies (dict, str or bytes), httpx or requests requests, or {request, usage, timestamp} records"


class RequestEntry(NamedTuple):
    """One request as a JSON record; `must`: it was given as a request body, and has to be one."""

    record: bytes
    must: bool


def entries(requests: Iterable[object]) -> list[RequestEntry]:
    """Return a record for each request; raises LoreError for what is none."""
    if not _is_list(requests):
        raise LoreError(f"assert_prefix_stable takes a list of requests, not {_kind(requests)}", hint=_HINT)
    return [_entry(request, number) for number, request in enumerate(requests, 1)]


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _entry(value: object, number: int) -> RequestEntry:
    if isinstance(value, Recorded):
        return RequestEntry(_record(value.record(), number), must=False)
    members = _members(value)
    if members is not None and "request" in members:
        return RequestEntry(_record({**members, "request": _body(members["request"], number)}, number), must=True)
    return RequestEntry(_record({"request": _body(value, number)}, number), must=True)


def _members(value: object) -> dict[str, object] | None:
    """Return the members of a dict, None of anything else."""
    return dict(cast("Mapping[str, object]", value)) if isinstance(value, Mapping) else None


def _body(value: object, number: int) -> object:
    """Return a body as text where that is known, else as the object that it is."""
    members = _members(value)
    if members is not None:
        return members
    if not isinstance(value, str | bytes | bytearray | memoryview):
        value = _sent(value, number)
    if isinstance(value, str):
        return value
    try:
        return bytes(cast("bytes", value)).decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoreError(f"request {number} is no UTF-8 text (byte {error.start})", hint=_HINT) from None


def _sent(value: object, number: int) -> str | bytes:
    """Return the body of a request object: `content` as httpx has it, `body` as requests has it."""
    kind = type(value)
    if (kind.__module__, kind.__name__) == ("requests.models", "Request"):
        value = cast("Any", value).prepare()
    for name in ("content", "body"):
        try:
            body = getattr(value, name, None)
        except Exception as error:  # noqa: BLE001 - httpx has an error of its own for a body that is a stream
            raise LoreError(f"request {number} has a body that was not read: {error}", hint="read it first") from None
        if isinstance(body, str | bytes):
            return body
    raise LoreError(f"request {number} is {_kind(value)}, and no request", hint=_HINT)


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _record(record: Mapping[str, Any], number: int) -> bytes:
    try:
        text = json.dumps(record, ensure_ascii=False, default=_plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise LoreError(f"request {number} is no JSON: {error}", hint=_HINT) from None
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode("utf-8")


def _plain(value: object) -> object:
    """Return an object as JSON has it: models of an SDK as they would be sent, times as text."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return _members(cast("object", value))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(cast("bytes", value)).decode("utf-8")
    raise TypeError(f"{_kind(value)} in it")
