"""Encode and decode JSON: compactly, or in a canonical form.

- `canonical` gives every spelling of one JSON value the same bytes: keys sorted by code point, no white space, shortest
  escapes, floats in shortest form. Values of different types differ: 1, 1.0, true and "1". Text that is not JSON is its
  own canonical form.
- `encode` keeps the order of keys; lore writes all JSON of its own with it.

orjson does the work. It reads integers of 2^64 and more as floats and refuses lone surrogates: both go through the
standard library's `json`, so integers keep their digits and lone surrogates stay escapes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, cast

import orjson

from lore.model.deferred import pattern

_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_INTEGER = b"0" * 19  # searched in text whose digits are all replaced by 0: ten times faster than a pattern
_FOUR_DIGITS = b"0" * 4  # among every fourth byte: a long integer has at least this number of them
_SURROGATE = pattern("[\ud800-\udfff]")


def decode(raw: bytes) -> Any:
    """Decode JSON text: every digit of an integer and lone surrogates are kept, of equal keys the last counts.

    Raises ValueError for bytes that are not JSON or not UTF-8, for NaN, and for a float beyond the range of floats;
    ValueError or RecursionError for too deep nesting; ValueError for an integer of more than 4,300 digits.
    """
    if (
        raw[:1] == b'"'  # a string has no integer
        or _FOUR_DIGITS not in raw[::4].translate(_ZEROS)
        or _LONG_INTEGER not in raw.translate(_ZEROS)
    ):
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError:
            if not has_surrogate_escape(raw):
                raise
    return json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant, parse_float=_finite)


def has_surrogate_escape(raw: bytes) -> bool:
    r"""Return whether `\ud` is in the text, of a half or a whole emoji: quick parsers may then refuse valid JSON."""
    return b"\\ud" in raw or b"\\uD" in raw


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is more than a float can hold")
    return value


def encode(value: object) -> bytes:
    """Return a value as compact JSON in UTF-8, keys in their order; lone surrogates become escapes.

    NaN and infinity become null. `value` is anything that `orjson.dumps` takes; TypeError for other values. Keys of
    dicts have to be texts: this is not checked.
    """
    try:
        return orjson.dumps(value)
    except (TypeError, ValueError):
        return _slow(value, sort=False)


def canonical(raw: bytes) -> bytes:
    """Return the canonical encoding of JSON text; the same bytes if `decode` refuses them or they are too deep."""
    try:
        value = decode(raw)
        try:
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        except (TypeError, ValueError):
            return _slow(value, sort=True)
    except (ValueError, RecursionError):
        return raw


def text_of(raw: bytes) -> str:
    """Return the decoded text of a JSON string, lone surrogates kept; any other bytes undecoded, as UTF-8 text."""
    try:
        value = decode(raw)
    except (ValueError, RecursionError):
        return raw.decode("utf-8", "replace")
    return value if isinstance(value, str) else raw.decode("utf-8", "replace")


def string_in(members: Mapping[str, bytes], key: str) -> str:
    """Return the decoded text of `members[key]` if it is a JSON string; empty if it is missing or anything else."""
    raw = members.get(key, b"")
    return text_of(raw) if raw[:1] == b'"' else ""


def printable(text: str) -> str:
    """Return text that any encoder accepts: lone surrogates become visible escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _slow(value: object, *, sort: bool) -> bytes:
    """Encode value by value. orjson is not tried again on containers, so deep nesting costs O(size)."""
    match value:
        case list() | tuple():
            items = cast("list[object]", value)
            return b"[" + b",".join([_slow(item, sort=sort) for item in items]) + b"]"
        case dict():
            table = cast("dict[str, object]", value)
            keys = sorted(table) if sort else list(table)
            parts = [_slow(key, sort=sort) + b":" + _slow(table[key], sort=sort) for key in keys]
            return b"{" + b",".join(parts) + b"}"
        case str() if _SURROGATE.search(value):
            return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")
        case int() if not isinstance(value, bool):
            return str(value).encode()
        case _:
            return orjson.dumps(value)
