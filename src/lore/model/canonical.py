"""The one canonical encoder, and the one compact encoder.

In: JSON text or Python values. Out: bytes. Rules:
- `canonical` maps every spelling of one JSON value to the same bytes: keys sorted by code point, no
  white space, shortest escapes, floats in shortest form. Values are strict: 1, 1.0, true and "1" differ.
- `encode` keeps key order; it is how lore writes text of its own.
- both are total: integers past 2^64 keep their digits, lone surrogates stay escapes, text that is no
  JSON is its own canonical form.

orjson is the encoder; it reads integers of 2^64 and more as floats and refuses lone surrogates, so
both go through the standard library's `json` (the slow lane), piece by piece.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, cast

import orjson

_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_INTEGER = b"0" * 19  # in text whose digits are all zeros: ten times faster than a pattern
_HALF = re.compile("[\ud800-\udfff]")
_HALVES = (b"\\ud", b"\\uD")  # escapes of surrogates begin so


def decode(raw: bytes) -> Any:
    """Decode JSON text exactly; raises ValueError where it is none, RecursionError where too deep."""
    if raw[:1] == b'"' or _LONG_INTEGER not in raw.translate(_ZEROS):  # a text has no integer
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError:
            if _HALVES[0] not in raw and _HALVES[1] not in raw:
                raise
    return json.loads(raw.decode("utf-8"), parse_constant=refuse_constant, parse_float=_finite)


def refuse_constant(name: str) -> None:
    """Raise ValueError: NaN and the infinities are no JSON."""
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is more than a float can hold")
    return value


def encode(value: object) -> bytes:
    """Encode a value compactly, keys in the order given."""
    try:
        return orjson.dumps(value)
    except (TypeError, ValueError):
        return _slow(value, sort=False)


def canonical(raw: bytes) -> bytes:
    """Return the canonical encoding of JSON text, or the text itself where it cannot be decoded."""
    try:
        value = decode(raw)
        try:
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        except (TypeError, ValueError):
            return _slow(value, sort=True)
    except (ValueError, RecursionError):
        return raw


# Letters that no escape, number or name of JSON (true, null) has: how many there are is the same in every spelling.
_OWN = frozenset(b"ghijklmopqsvwxyzGHIJKLMNOPQRSTUVWXYZ")
_OTHERS = bytes(byte for byte in range(256) if byte not in _OWN)
_ESCAPED_LETTERS = (b"\\u004", b"\\u005", b"\\u006", b"\\u007")


def letters(raw: bytes) -> tuple[int, ...] | None:
    """Count what is the same however JSON text is spelled; None where letters themselves are escaped.

    Texts of different counts have different canonical forms; others have nearly always one. The first count is
    that of all such letters. Costs a fraction of the canonical form.
    """
    if b"\\u00" in raw and any(letter in raw for letter in _ESCAPED_LETTERS):
        return None
    own = raw.translate(None, _OTHERS)
    return len(own), own.count(b"s"), own.count(b"l"), own.count(b"h"), own.count(b"m"), own.count(b"g")


def text_of(raw: bytes) -> str:
    """Decode a JSON string; other JSON gives its own text. Lone surrogates are kept."""
    try:
        value = decode(raw)
    except (ValueError, RecursionError):
        return raw.decode("utf-8", "replace")
    return value if isinstance(value, str) else raw.decode("utf-8", "replace")


def string_in(own: Mapping[str, bytes], key: str) -> str:
    """Return the text of a member that is a JSON string; empty for any other."""
    raw = own.get(key, b"")
    return text_of(raw) if raw[:1] == b'"' else ""


def printable(text: str) -> str:
    """Return text that any encoder takes: lone surrogates become visible escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _slow(value: object, *, sort: bool) -> bytes:
    """Encode piece by piece; containers never go back to the fast lane, so nesting costs its size once."""
    match value:
        case list() | tuple():
            items = cast("list[object]", value)
            return b"[" + b",".join([_slow(item, sort=sort) for item in items]) + b"]"
        case dict():
            table = cast("dict[str, object]", value)
            keys = sorted(table) if sort else list(table)
            parts = [_slow(key, sort=sort) + b":" + _slow(table[key], sort=sort) for key in keys]
            return b"{" + b",".join(parts) + b"}"
        case str() if _HALF.search(value):
            return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")
        case int() if not isinstance(value, bool):
            return str(value).encode()
        case _:
            return orjson.dumps(value)
