"""Equal content in other bytes: key order, escapes, white space, newlines, Unicode forms, HTML entities, numbers.

In: two segments or texts. Out: the code, and what was spelled otherwise. Rules: what a server decodes
away (escapes, white space between tokens, a number's digits) is perhaps harmless; newlines, Unicode forms and
HTML entities are other characters, and so is JSON inside a text: they break the prefix, and are waste.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

from lore.model.canonical import canonical, decode, encode, letters
from lore.model.codes import CauseKind, Code
from lore.model.differences import Spelling
from lore.model.prompt import Segment


class Spelled(NamedTuple):
    """A code, what is spelled otherwise, and the kind where it is not the code's own."""

    code: Code
    spelling: Spelling
    here: CauseKind | None = None


def of_segments(left: Segment, right: Segment) -> Spelled:
    """Name how two segments of the same content differ."""
    if (left.data[:1] == b'"') != (right.data[:1] == b'"') and left.kind != "envelope":
        return Spelled(Code.CONTENT_SHAPE_CHANGED, "shape")
    raw = [b"{" + segment.data + b"}" if segment.kind == "envelope" else segment.data for segment in (left, right)]
    return (
        Spelled(Code.KEY_ORDER_CHANGED, "member-order")
        if _in_order(raw[0]) != _in_order(raw[1])
        else Spelled(Code.SERIALISATION_CHANGED, "json")
    )


def _in_order(raw: bytes) -> bytes:
    try:
        return encode(decode(raw))
    except (ValueError, RecursionError):
        return raw


def of_texts(left: str, right: str) -> Spelled | None:
    """Name how two decoded texts differ that are equal once normalised; None where they are not."""
    at = _first_difference(left, right)
    escaped = any("&" in text[max(0, at - _ENTITY_LENGTH) : at + 1] for text in (left, right))
    if escaped and _characters(left) == _characters(right):
        return Spelled(Code.SERIALISATION_CHANGED, "entities", "waste")
    if abs(len(left) - len(right)) > len(left) + len(right) >> 1:
        return None
    there = left[at : at + 1] + right[at : at + 1]  # what a form could make equal shows at the first place already
    if not there or there.isspace() or not there.isascii() or any(map(str.isspace, there)):
        for spelling, normal in _FORMS:
            if normal(left) == normal(right):
                return Spelled(Code.SERIALISATION_CHANGED, spelling, "waste")
    inside = [_inner(text) for text in (left, right)]
    if inside[0] is None or inside[1] is None or letters(inside[0]) != letters(inside[1]):
        return None
    if canonical(inside[0]) == canonical(inside[1]):
        if _in_order(inside[0]) != _in_order(inside[1]):
            return Spelled(Code.KEY_ORDER_CHANGED, "inner-order")
        return Spelled(Code.SERIALISATION_CHANGED, "inner-json", "waste")
    return None


def _first_difference(left: str, right: str) -> int:
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _composed(text: str) -> str:
    return _lines(text) if text.isascii() else unicodedata.normalize("NFC", _lines(text))


def _trimmed(text: str) -> str:
    return "\n".join([line.rstrip() for line in _composed(text).strip().split("\n")])


_FORMS: tuple[tuple[Spelling, Callable[[str], str]], ...] = (
    ("newlines", _lines), ("unicode", _composed), ("white-space", _trimmed)
)  # fmt: skip
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")
_ENTITY_LENGTH = 10


def _characters(text: str) -> str:
    """Return a text with the characters that entities stand for; what was escaped twice is `&lt;` after one round."""
    for _ in range(2):
        if "&" in text:
            text = _ENTITY.sub(lambda found: html.unescape(found.group()), text)
    return _lines(text)


def of_values(left: bytes, right: bytes) -> Spelled | None:
    """Name how two JSON values differ that are equal once their texts are normalised; None where they are not."""
    try:
        pairs = list(_texts(decode(left), decode(right)))
    except (ValueError, RecursionError):
        return None
    found = [None if pair is None else of_texts(*pair) for pair in pairs]
    return found[0] if found and None not in found else None


def _texts(left: Any, right: Any) -> Iterator[tuple[str, str] | None]:
    """Iterate over the texts that differ at one place of two values; None where anything else does."""
    match left, right:
        case str(), str():
            if left != right:
                yield left, right
        case dict(), dict():
            table, other_table = cast("dict[str, Any]", left), cast("dict[str, Any]", right)
            if table.keys() != other_table.keys():
                yield None
                return
            for key, value in table.items():
                yield from _texts(value, other_table[key])
        case list(), list():
            items, other_items = cast("list[Any]", left), cast("list[Any]", right)
            if len(items) != len(other_items):
                yield None
                return
            for value, other in zip(items, other_items, strict=True):
                yield from _texts(value, other)
        case _:
            if encode(left) != encode(right):
                yield None


def _inner(text: str) -> bytes | None:
    """Return a text that is JSON of its own: arguments of a call, a result."""
    return text.encode("utf-8", "surrogatepass") if text.lstrip()[:1] in ("{", "[") else None


def same_numbers(left: bytes, right: bytes) -> bool:
    """Tell whether two JSON values are equal once 1.0 and 1 are one number."""
    try:
        return encode(_numbers(decode(left))) == encode(_numbers(decode(right)))
    except (ValueError, RecursionError):
        return False


def _numbers(value: Any) -> Any:
    match value:
        case dict():
            table = cast("dict[str, Any]", value)
            return {key: _numbers(table[key]) for key in sorted(table)}
        case list():
            return [_numbers(one) for one in cast("list[Any]", value)]
        case float() if math.isfinite(value) and value.is_integer() and abs(value) < 2**53:
            return int(value)
        case _:
            return value
