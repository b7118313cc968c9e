"""Explain how one text became another, and equal content in other bytes.

In: two segments, JSON values or decoded texts. Out: what is spelled otherwise; or each reason once, in the order in
which they are met. Rules: what a server decodes away (escapes, white space between tokens, a number's digits) is
perhaps harmless; newlines, Unicode forms and HTML entities are other characters, and so is JSON inside a text: they
break the prefix, and are waste. Texts are compared line by line, sentence by sentence: what is equal once words that
vary are taken out is named by these words, the rest by what it is about; what nothing explains has no code.
Cost: O(text), and nothing of it is looked at twice.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

from lore.model.canonical import canonical, decode, encode, letters
from lore.model.cause import Cause
from lore.model.codes import CauseKind, Code
from lore.model.differences import Respelled, Spelling, Varies
from lore.model.limits import (
    DIFFERENCE_CHARACTERS,
    DIFFERENCE_WINDOW,
    DIFFERING_LINES,
    DIFFERING_TEXT_BYTES,
    HEADING_CHARACTERS,
)
from lore.model.turn import Segment
from lore.model.vector import common_prefix, common_suffix
from lore.prefix.align import DifferingRanges, gaps
from lore.prefix.volatile import numbered, topic, varied

_LOOKED_AT = 2_048  # characters of each side of a difference, read for what it is about
_MOST_LINE = 400  # characters of a line read or shown
_MOST_CONTEXT = 4_000  # characters before a sentence, searched for its heading
_EACH = 64  # characters that a look costs by itself
_SENTENCES = re.compile(r"(?<=[.!?;>|])[ \t]+|(?<=>)(?=[^\s<])|(?<=[^\s>])(?=<)|[\t|]")

TOPICS: dict[str, tuple[Code, Varies]] = {
    "git": (Code.GIT_STATUS_IN_PREFIX, "repository"),
    "memory": (Code.MEMORY_IN_PREFIX, "memory"),
}


class Spelled(NamedTuple):
    """A code, what is spelled otherwise, and the kind where it is not the code's own."""

    code: Code
    spelling: Spelling
    override: CauseKind | None = None

    def cause(self, section: str, position: int, path: str) -> Cause:
        """Say it of the segment at a position."""
        stored = self.spelling in ("shape", "member-order", "json", "number")
        return Cause(
            self.code, section, Respelled(path, self.spelling), position, self.override, path, respelled=stored
        )


def of_segments(left: Segment, right: Segment) -> Spelled:
    """Name how two segments of the same content differ."""
    if (left.data[:1] == b'"') != (right.data[:1] == b'"') and left.kind != "envelope":
        return Spelled(Code.CONTENT_SHAPE_CHANGED, "shape")
    if _in_order(left.json) != _in_order(right.json):
        return Spelled(Code.KEY_ORDER_CHANGED, "member-order")
    return Spelled(Code.SERIALISATION_CHANGED, "json")


def _in_order(raw: bytes) -> bytes:
    try:
        return encode(decode(raw))
    except (ValueError, RecursionError):
        return raw


def of_texts(left: str, right: str) -> Spelled | None:
    """Name how two decoded texts differ that are equal once normalised; None where they are not."""
    at = common_prefix(left, right)
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
    if not all(text.lstrip()[:1] in ("{", "[") for text in (left, right)):
        return None
    inside = [text.encode("utf-8", "surrogatepass") for text in (left, right)]  # JSON: a call's arguments, a result
    if letters(inside[0]) == letters(inside[1]) and canonical(inside[0]) == canonical(inside[1]):
        if _in_order(inside[0]) != _in_order(inside[1]):
            return Spelled(Code.KEY_ORDER_CHANGED, "inner-order")
        return Spelled(Code.SERIALISATION_CHANGED, "inner-json", "waste")
    return None


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
    """Name how two JSON values differ that are equal once numbers and texts are normalised; None where they are not."""
    try:
        values = decode(left), decode(right)
        if left != right and encode(_numbers(values[0])) == encode(_numbers(values[1])):
            return Spelled(Code.SERIALISATION_CHANGED, "number")
        pairs = list(_texts(*values)) if len(left) + len(right) <= DIFFERING_TEXT_BYTES else []
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
        case dict(), dict() if left.keys() == right.keys():
            for key, value in cast("dict[str, Any]", left).items():
                yield from _texts(value, right[key])
        case list(), list() if len(cast("list[Any]", left)) == len(cast("list[Any]", right)):
            for value, other in zip(cast("list[Any]", left), cast("list[Any]", right), strict=True):
                yield from _texts(value, other)
        case _:
            if encode(left) != encode(right):
                yield None


def _numbers(value: Any) -> Any:
    """Return a value in which 1.0 and 1 are one number, and members stand in one order."""
    match value:
        case dict():
            table = cast("dict[str, Any]", value)
            return {key: _numbers(table[key]) for key in sorted(table)}
        case list():
            return [_numbers(element) for element in cast("list[Any]", value)]
        case float() if math.isfinite(value) and value.is_integer() and abs(value) < 2**53:
            return int(value)
        case _:
            return value


class Reason(NamedTuple):
    """A code (None: nothing explains it), what varies or is spelled otherwise, and the texts that differ."""

    code: Code | None
    what: Varies | Spelled = ""
    left: str = ""
    right: str = ""


class Room:
    """How many characters may still be looked through: a pair in which all is different is not worth more."""

    def __init__(self, left: int = DIFFERENCE_CHARACTERS) -> None:
        self.left = left

    def take(self, *texts: str) -> bool:
        """Take the room for some texts; False where there is too little: then smaller ones may still find some."""
        size = sum(map(len, texts))
        fits = size + _EACH < self.left
        self.left -= size + _EACH if fits else _EACH
        return fits


def reasons(left: str, right: str, room: Room) -> list[Reason]:
    """Return why two texts differ; empty where they are equal."""
    if left == right:
        return []
    spelled = of_texts(left, right)
    if spelled is not None:
        return [Reason(spelled.code, spelled, left, right)]
    found: list[Reason] = []
    lines = _cut(left, right)
    parts = gaps(lines.left, lines.right)
    if lines.more and len(parts) > 1:  # where the windows end, the lines of both need not be the same
        parts.pop()
    for number, gap in enumerate(parts):
        if number == DIFFERING_LINES:
            found.append(Reason(None))
            break
        found += _of_lines(lines, gap, room)
    return list({(reason.code, reason.what): reason for reason in reversed(found)}.values())[::-1]


class _LinePair(NamedTuple):
    """The lines of both texts around where they differ; `more` says that they go on differing behind."""

    left: list[str]
    right: list[str]
    more: bool


def _cut(left: str, right: str) -> _LinePair:
    """Cut both texts into lines, from some before the first difference to some behind the last, or to enough."""
    front = common_prefix(left, right)
    back = common_suffix(left, right, min(len(left), len(right)) - front)
    begin = left.rfind("\n", 0, max(0, front - HEADING_CHARACTERS)) + 1
    ends = [_line_end(text, max(front, len(text) - back)) for text in (left, right)]
    cut = [min(end, _line_end(text, front + DIFFERENCE_WINDOW)) for text, end in zip((left, right), ends, strict=True)]
    if all(end <= front + 2 * DIFFERENCE_WINDOW for end in ends):
        cut = ends
    return _LinePair(left[begin : cut[0]].split("\n"), right[begin : cut[1]].split("\n"), cut != ends)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _of_lines(lines: _LinePair, gap: DifferingRanges, room: Room) -> list[Reason]:
    left, right = ("\n".join(lines.left[gap.left.start : gap.left.stop]),
                   "\n".join(lines.right[gap.right.start : gap.right.stop]))  # fmt: skip
    whole = _known(left, right, room)
    if whole:
        return whole
    if room.left <= 0:
        return [Reason(None, "", left[:_MOST_LINE], right[:_MOST_LINE])]
    before = "".join([line[:_MOST_LINE] + "\n" for line in lines.left[max(0, gap.left.start - 60) : gap.left.start]])
    if len(gap.left) == len(gap.right) <= DIFFERING_LINES:
        found: list[Reason] = []
        for at, other in zip(gap.left, gap.right, strict=True):
            left, right = lines.left[at], lines.right[other]
            if left != right:
                found += _known(left, right, room) or _of_sentences(before, left, right, room)
        return found
    return [_about(before, left, right, room)]


def _known(left: str, right: str, room: Room) -> list[Reason]:
    if not room.take(left, right):
        return []
    words = varied(left, right)
    if words:
        return [Reason(code, what, left, right) for code, what in words]
    spelled = of_texts(left, right)
    return [] if spelled is None else [Reason(spelled.code, spelled, left, right)]


def _of_sentences(before: str, left: str, right: str, room: Room) -> list[Reason]:
    """Explain one line, sentence by sentence: a system prompt is often one long line."""
    sentences, others = _SENTENCES.split(left), _SENTENCES.split(right)
    if len(sentences) == len(others) == 1:
        return [_about(before, left, right, room)]
    found: list[Reason] = []
    for gap in gaps(sentences, others):
        left = " ".join(sentences[gap.left.start : gap.left.stop])
        right = " ".join(others[gap.right.start : gap.right.stop])
        known = _known(left, right, room)
        if not known and len(gap.left) == len(gap.right) <= DIFFERING_LINES:
            for at, to in zip(gap.left, gap.right, strict=True):
                left, right = sentences[at], others[to]
                if left != right:
                    context = before + " ".join(sentences[max(0, at - 20) : at])[-_MOST_CONTEXT:] + "\n"
                    found += _known(left, right, room) or [_about(context, left, right, room)]
            continue
        found += known or [_about(before, left, right, room)]
    return found


def _about(before: str, left: str, right: str, room: Room) -> Reason:
    if not room.take(left[:_LOOKED_AT], right[:_LOOKED_AT], before[-_LOOKED_AT:]):
        return Reason(None, "", left, right)
    about = topic(before, left, right)
    code, what = TOPICS[about] if about is not None else numbered(left, right) or (None, "")
    return Reason(code, what, left, right)
