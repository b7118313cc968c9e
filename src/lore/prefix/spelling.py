"""Equal content in other bytes: key order, escapes, white space, newlines, Unicode forms, HTML entities, numbers.

In: two segments or texts. Out: the code, and in words what was spelled otherwise. Rules: what a server decodes
away (escapes, white space between tokens, a number's digits) is perhaps harmless; newlines, Unicode forms and
HTML entities are other characters, and so is JSON inside a text: they break the prefix, and are waste.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from lore.model.canonical import canonical, decode, encode, letters
from lore.model.codes import CauseKind
from lore.model.prompt import Segment


class Spelled(NamedTuple):
    """A code, what was spelled otherwise, and the kind where it is not the code's own."""

    code: str
    words: str
    here: CauseKind | None = None


def of_segments(mine: Segment, theirs: Segment) -> Spelled:
    """Name how two segments of the same content differ."""
    if (mine.data[:1] == b'"') != (theirs.data[:1] == b'"') and mine.kind != "envelope":
        return Spelled("LORE112", f"{mine.path} is a text on one side and a block of it on the other")
    wrapped = [b"{" + one.data + b"}" if one.kind == "envelope" else one.data for one in (mine, theirs)]
    if _in_order(wrapped[0]) != _in_order(wrapped[1]):
        return Spelled("LORE105", f"{mine.path} has the same members in another order")
    return Spelled(
        "LORE106", f"{mine.path} has the same content in another spelling: JSON's own, which a server decodes"
    )


def _in_order(raw: bytes) -> bytes:
    try:
        return encode(decode(raw))
    except (ValueError, RecursionError):
        return raw


def of_texts(mine: str, theirs: str) -> Spelled | None:
    """Name how two decoded texts differ that are equal once normalised; None where they are not."""
    at = _first_difference(mine, theirs)
    escaped = any("&" in text[max(0, at - _ENTITY_LENGTH) : at + 1] for text in (mine, theirs))
    if escaped and _characters(mine) == _characters(theirs):
        return Spelled("LORE106", f"{_ENTITIES}: the decoded text is another, so the prefix ends there", "waste")
    if abs(len(mine) - len(theirs)) > len(mine) + len(theirs) >> 1:
        return None
    there = mine[at : at + 1] + theirs[at : at + 1]  # what a form could make equal shows at the first place already
    if not there or there.isspace() or not there.isascii() or any(map(str.isspace, there)):
        for name, normal in _FORMS:
            if normal(mine) == normal(theirs):
                return Spelled("LORE106", f"{name}: the decoded text is another, so the prefix ends there", "waste")
    inside = [_inner(text) for text in (mine, theirs)]
    if inside[0] is None or inside[1] is None or letters(inside[0]) != letters(inside[1]):
        return None
    if canonical(inside[0]) == canonical(inside[1]):
        if _in_order(inside[0]) != _in_order(inside[1]):
            return Spelled("LORE105", "the JSON inside a text has its members in another order")
        return Spelled("LORE106", "the JSON inside a text is spelled otherwise: a server sees another text", "waste")
    return None


def _first_difference(mine: str, theirs: str) -> int:
    low, high = 0, min(len(mine), len(theirs))
    while low < high:
        middle = (low + high + 1) // 2
        if mine[low:middle] == theirs[low:middle]:
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


_FORMS = (
    ("newlines are written otherwise (CRLF or LF)", _lines),
    ("Unicode is composed otherwise (NFC or NFD)", _composed),
    ("white space at the ends of lines differs", _trimmed),
)


_ENTITIES = "characters are written as HTML entities or as themselves (&lt; or <)"
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")
_ENTITY_LENGTH = 10


def _characters(text: str) -> str:
    """Return a text with the characters that entities stand for; what was escaped twice is `&lt;` after one round."""
    for _ in range(2):
        if "&" in text:
            text = _ENTITY.sub(lambda found: html.unescape(found.group()), text)
    return _lines(text)


def of_values(mine: bytes, theirs: bytes) -> Spelled | None:
    """Name how two JSON values differ that are equal once their texts are normalised; None where they are not."""
    try:
        found = list(_texts(decode(mine), decode(theirs)))
    except (ValueError, RecursionError):
        return None
    said = [None if text is None else of_texts(*text) for text in found]
    return said[0] if said and None not in said else None


def _texts(mine: Any, theirs: Any) -> Iterator[tuple[str, str] | None]:
    """Iterate over the texts that differ at one place of two values; None where anything else does."""
    match mine, theirs:
        case str(), str():
            if mine != theirs:
                yield mine, theirs
        case dict(), dict():
            ours, others = cast("dict[str, Any]", mine), cast("dict[str, Any]", theirs)
            if ours.keys() != others.keys():
                yield None
                return
            for key, value in ours.items():
                yield from _texts(value, others[key])
        case list(), list():
            one, other = cast("list[Any]", mine), cast("list[Any]", theirs)
            if len(one) != len(other):
                yield None
                return
            for value, peer in zip(one, other, strict=True):
                yield from _texts(value, peer)
        case _:
            if encode(mine) != encode(theirs):
                yield None


def _inner(text: str) -> bytes | None:
    """Return a text that is JSON of its own: arguments of a call, a result."""
    return text.encode("utf-8", "surrogatepass") if text.lstrip()[:1] in ("{", "[") else None


def same_numbers(mine: bytes, theirs: bytes) -> bool:
    """Tell whether two JSON values are equal once 1.0 and 1 are one number."""
    try:
        return encode(_numbers(decode(mine))) == encode(_numbers(decode(theirs)))
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
