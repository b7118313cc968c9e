"""Equal content in other bytes: key order, escapes, white space, newlines, Unicode forms, numbers.

In: two segments or texts. Out: the code, and in words what was spelled otherwise. Rules: what a server decodes
away (escapes, white space between tokens, a number's digits) is perhaps harmless; newlines and Unicode forms
are other characters, and so is JSON inside a text: they bust the prefix, and are waste.
"""

from __future__ import annotations

import math
import unicodedata
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
    if abs(len(mine) - len(theirs)) > len(mine) + len(theirs) >> 1:
        return None
    at = _first_difference(mine, theirs)
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
