"""Slice JSON text without decoding it.

In: bytes that a JSON parser has already accepted (these functions do not validate). Out: positions.
Rules: the result is exact (what is returned is a range of the input, key order, spelling and white
space untouched); cost is O(bytes), one regular-expression match per string or bracket.

Used where msgspec's `Raw` cannot serve: lines with lone surrogates, positions of members, paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import NamedTuple, Self

import msgspec

from lore.model.canonical import decode, encode, printable, refuse_constant

# Possessive: a string without an end must fail at once, not after every way to cut it into pieces.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\],:]', re.DOTALL)
# The next brackets inside a value, and the next brackets or comma beside values, behind whatever else stands there.
_WITHIN = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+"|")*+([{\[]++|[}\]]++)', re.DOTALL)
_BESIDE = re.compile(rb'(?:[^",{}\[\]]++|"(?:[^"\\]++|\\.)*+"|")*+([{\[]++|[}\]]++|,)', re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]*")
_TRAIL = b" \t\r\n"
_MAY_OPEN = frozenset(
    (b"{", b" ", b"\t", b"\r", b"\n")
)  # how an object's text begins: a long text is not looked through

LARGEST = 4 * 1024 * 1024  # bytes of a text that is kept a second time when it is decoded


class Sliced(bytes):
    """The text of a JSON object with its members."""

    members: dict[str, bytes]

    @classmethod
    def of(cls, raw: bytes, members: dict[str, bytes]) -> bytes:
        """Keep the members that were sliced from this text; of a huge one nothing is kept twice."""
        if len(raw) > LARGEST or isinstance(raw, cls):
            return raw
        made = cls(raw)
        made.members = members
        return made


class SlicedArray(bytes):
    """The text of a JSON array with its elements."""

    elements: list[bytes]


class SlicedText(bytes):
    """A JSON string with the text that it holds."""

    text: bytes


class Member(NamedTuple):
    """One member of an object: its key, where the key starts, and the half-open range of its value."""

    key: str
    start: int
    value: int
    end: int


class Leaf(NamedTuple):
    """A place inside a JSON value: the path to it (`.text`, `[2].name`) and where that value starts."""

    path: str
    start: int


def key_text(token: bytes) -> str:
    """Decode a JSON string token, lone surrogates included."""
    text = token[1:-1]
    if b"\\" not in text:
        return text.decode("utf-8", "backslashreplace")
    return str(json.loads(token.decode("utf-8", "backslashreplace"), strict=False))


def _pieces(raw: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges between the top-level commas of the container that opens at `start`."""
    depth, begin, at = 1, start + 1, start + 1
    while (match := (_BESIDE if depth == 1 else _WITHIN).match(raw, at)) is not None:
        (first, at), token = match.span(1), match[1]
        if token == b",":
            yield begin, first
            begin = at
        elif token[0] in b"{[":
            depth += len(token)
        elif len(token) < depth:
            depth -= len(token)
        else:
            end = first + depth - 1
            if raw[begin:end].strip(_TRAIL):
                yield begin, end
            return


def _skip(raw: bytes, at: int) -> int:
    return _SPACE.match(raw, at).end()  # pyright: ignore[reportOptionalMemberAccess] - it matches anywhere


def _trim(raw: bytes, start: int, end: int) -> tuple[int, int]:
    start = min(_skip(raw, start), end)
    while end > start and raw[end - 1] in _TRAIL:
        end -= 1
    return start, end


def element_ranges(raw: bytes) -> list[tuple[int, int]]:
    """Find the elements of a JSON array, as half-open ranges; anything else has none."""
    begin = _trim(raw, 0, len(raw))[0]
    if raw[begin : begin + 1] != b"[":
        return []
    return [_trim(raw, *piece) for piece in _pieces(raw, begin)]


def members(raw: bytes) -> list[Member]:
    """Find the members of a JSON object, in order, duplicates included; anything else has none."""
    begin = _trim(raw, 0, len(raw))[0]
    if raw[begin : begin + 1] != b"{":
        return []
    found: list[Member] = []
    for piece in _pieces(raw, begin):
        start, end = _trim(raw, *piece)
        token = _TOKEN.match(raw, start)
        if token is None or raw[start : start + 1] != b'"':
            continue
        colon = raw.find(b":", token.end())
        if colon < 0:
            continue
        value, end = _trim(raw, colon + 1, end)
        found.append(Member(key_text(token.group()), start, value, end))
    return found


def spans(raw: bytes) -> list[Member]:
    """Find the members of an object as `members` does, without looking inside the values.

    Where the object is plainly written (no duplicate keys, no escapes in keys); else falls back.
    """
    try:
        fast = _TABLE.decode(raw)
    except (ValueError, RecursionError):
        return members(raw)
    found: list[Member] = []
    at = raw.find(b"{") + 1
    for key, value in fast.items():
        token, text = b'"' + key.encode() + b'"', bytes(value)
        start, colon, begin = at, at + len(token), at + len(token) + 1
        if raw[at : at + 1] != b'"' or raw[colon:begin] != b":" or raw[begin : begin + 1] in _TRAIL:  # white space
            start = _skip(raw, at)
            colon = _skip(raw, start + len(token))
            begin = _skip(raw, colon + 1)
        end = begin + len(text)
        if not raw.startswith(token, start) or raw[colon : colon + 1] != b":" or not raw.startswith(text, begin):
            return members(raw)
        found.append(Member(key, start, begin, end))
        at = _skip(raw, end) if raw[end : end + 1] in _TRAIL else end
        at += raw[at : at + 1] == b","
    return found if raw[at : at + 1] == b"}" or not found else members(raw)


def table(raw: bytes) -> dict[str, bytes] | None:
    """Slice the values of a JSON object, validated; None where it is none. Of duplicates the last holds."""
    if isinstance(raw, Sliced):
        return dict(raw.members)
    if raw[:1] not in _MAY_OPEN:
        return None
    try:
        fast = _TABLE.decode(raw)
        check_text(raw)  # msgspec does not look inside strings that it skips
        return {key: bytes(value) for key, value in fast.items()}
    except msgspec.DecodeError as error:
        if isinstance(error, msgspec.ValidationError) or not may_hold_half(raw):
            return None
    except (ValueError, RecursionError):
        pass
    if (found := _with_halves(raw)) is not None:
        return found if is_text(raw) else None
    try:
        value = validated(raw)
    except (ValueError, RecursionError):
        return None
    return sliced(raw) if isinstance(value, dict) else None


def object_of(members: Mapping[str, bytes]) -> bytes:
    """Write a JSON object of its members' JSON, compactly, in their order."""
    return b"{" + b",".join([encode(key) + b":" + value for key, value in members.items()]) + b"}"


def sliced(raw: bytes) -> dict[str, bytes]:
    """Slice the values of a JSON object as `table` does, without looking whether it is one; anything else has none."""
    try:
        return {key: bytes(value) for key, value in _TABLE.decode(raw).items()}
    except msgspec.ValidationError:  # a list, a text: what follows would be a long look for nothing
        return {}
    except (ValueError, RecursionError):
        pass
    found = _with_halves(raw)
    return {m.key: raw[m.value : m.end] for m in members(raw)} if found is None else found


def _with_halves(raw: bytes) -> dict[str, bytes] | None:
    """Slice an object in which halves of characters stand, in one pass; None where that cannot be done."""
    try:
        hidden = _Hidden.of(raw)
        found = _TABLE.decode(hidden.text)
    except (ValueError, RecursionError):
        return None
    if any("\\" in key for key in found):  # perhaps `\\ud83d`, a backslash and five letters
        return None
    return {hidden.key(key): hidden.value(value) for key, value in found.items()}


def may_hold_half(raw: bytes) -> bool:
    """Tell whether text that msgspec refuses may be JSON after all: escapes of half a character are the only cause."""
    return b"\\ud" in raw or b"\\uD" in raw


_DIGITS = "ef123456789abc"  # first ones of escapes (`\\u1000`) that may stand for `d`; those of ASCII begin with 0


class _Hidden(NamedTuple):
    """JSON text in which halves of characters (`\\ud83d`), which msgspec refuses, are written as other characters.

    `\\ud` and `\\uD` are escapes that begin with one `digit` each, of which the text had none, and no such character.
    """

    text: bytes
    digits: str

    @classmethod
    def of(cls, raw: bytes) -> Self:
        """Hide escapes of surrogates; ValueError where characters of nearly every kind stand in the text."""
        free = (digit for digit in _DIGITS if not any(sign in raw for sign in _signs(digit)))
        digits = "".join(islice(free, 2))
        if len(digits) < 2:
            raise ValueError("escapes of every kind")
        for half, digit in zip(_HALVES, digits, strict=True):
            raw = raw.replace(half, b"\\u" + digit.encode())
        return cls(raw, digits)

    def value(self, value: msgspec.Raw) -> bytes:
        """Return a value as it stood in the text."""
        raw = bytes(value)
        if b"\\u" in raw:
            for half, digit in zip(_HALVES, self.digits, strict=True):
                raw = raw.replace(b"\\u" + digit.encode(), half)
        return raw

    def key(self, key: str) -> str:
        """Return a key as it is decoded from the text, its halves joined to characters where they can be."""
        if key.isascii():
            return key
        first, second = self.digits
        moved = re.compile(f"[\\u{first}000-\\u{first}fff\\u{second}000-\\u{second}fff]")
        halves = moved.sub(lambda found: chr(0xD000 | ord(found[0]) & 0xFFF), key)
        return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


_HALVES = (b"\\ud", b"\\uD")


def _signs(digit: str) -> Iterator[bytes]:
    """Yield what stands in a text that holds a character of this first digit: escapes, and UTF-8."""
    yield b"\\u" + digit.encode()
    yield b"\\u" + digit.upper().encode()
    yield bytes([0xE0 + int(digit, 16)])


_PIECE = 1024 * 1024
_REST = re.compile(rb"[\x80-\xbf]{0,3}")


def check_text(data: bytes) -> None:
    """Raise UnicodeDecodeError (a ValueError) where bytes are no UTF-8.

    Looks at pieces: where one emoji stands in it, text takes four bytes for each character while it is decoded.
    """
    if data.isascii():
        return
    view, at = memoryview(data), 0
    while at < len(data):
        end = _REST.match(data, at + _PIECE).end() if at + _PIECE < len(data) else len(data)  # pyright: ignore[reportOptionalMemberAccess]
        str(view[at:end], "utf-8")
        at = end


def is_text(data: bytes) -> bool:
    """Tell whether bytes are UTF-8."""
    try:
        check_text(data)
    except UnicodeDecodeError:
        return False
    return True


def is_json(data: bytes) -> bool:
    """Tell JSON text, lone surrogates included; copies nothing of what is plainly written."""
    try:
        _RAW.decode(data)
        check_text(data)
        return True
    except msgspec.DecodeError:
        if not may_hold_half(data):
            return False
    except (ValueError, RecursionError):
        pass
    with suppress(ValueError, RecursionError):
        _RAW.decode(_Hidden.of(data).text)
        return is_text(data)
    try:
        validated(data)
    except (ValueError, RecursionError):
        return False
    return True


def parts(raw: bytes) -> dict[str, bytes]:
    """Slice the values of an object inside JSON text that has been validated; anything else has none.

    Does not look again whether its bytes are UTF-8: that costs as much as slicing.
    """
    if isinstance(raw, Sliced):
        return dict(raw.members)
    try:
        return {key: bytes(value) for key, value in _TABLE.decode(raw).items()} if raw[:1] in _MAY_OPEN else {}
    except (ValueError, RecursionError):
        return table(raw) or {}


def first_element(raw: bytes) -> bytes:
    """Slice the first element of a JSON array that has been validated; nothing where there is none.

    Costs no more than that element: msgspec names the byte at which something follows a whole value.
    """
    begin = _skip(raw, 1) if raw[:1] == b"[" else len(raw)
    try:
        _RAW.decode(memoryview(raw)[begin:])
    except msgspec.DecodeError as error:
        behind = TRAILING.search(str(error))
        if behind is not None:
            return raw[begin : begin + int(behind[1]) - 1].rstrip(_TRAIL)
    except RecursionError:
        pass
    return next(iter(array(raw)), b"")


TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_RAW = msgspec.json.Decoder(msgspec.Raw)


def validated(raw: bytes) -> object:
    """Decode JSON text to see that it is some, lone surrogates included; raises ValueError where it is none.

    Nesting of up to 1,024 is read however deep the caller itself stands: between 970 and 1,020 the answer
    once changed from command to command. Raises RecursionError beyond.
    """
    text = raw.decode("utf-8")  # a UnicodeDecodeError is a ValueError
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except RecursionError:
        return decode(raw)


def array(raw: bytes) -> list[bytes]:
    """Slice the elements of a JSON array that has been validated; anything else has none."""
    if isinstance(raw, SlicedArray):
        return [*raw.elements]
    try:
        return [bytes(element) for element in _ARRAY.decode(raw)]
    except msgspec.ValidationError:
        return []
    except (ValueError, RecursionError):
        pass
    try:
        hidden = _Hidden.of(raw)
        return [hidden.value(element) for element in _ARRAY.decode(hidden.text)]
    except (ValueError, RecursionError):
        return [raw[start:end] for start, end in element_ranges(raw)]


_TABLE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


def without_member(raw: bytes, key: str) -> bytes:
    """Return an object's bytes with every member of this name cut out, its comma too."""
    for member in reversed([member for member in spans(raw) if member.key == key]):
        end = _skip(raw, member.end)
        if raw[end : end + 1] == b",":
            raw = raw[: member.start] + raw[_skip(raw, end + 1) :]
        else:
            raw = raw[: member.start].rstrip(_TRAIL).removesuffix(b",") + raw[member.end :]
    return raw


def leaf_in(raw: bytes, offset: int) -> Leaf:
    """Name the innermost value that holds byte `offset` of JSON text that is whole; the root where none does.

    An offset in punctuation, white space or a key belongs to the container around it. Costs each container on the way,
    sliced at a decoder's speed.
    """
    path, base = list[str](), 0
    while raw[:1] in (b"{", b"["):
        found = next(((step, start, end) for step, start, end in _values(raw) if start <= offset < end), None)
        if found is None:
            break
        step, start, end = found
        path.append(step)
        base, offset, raw = base + start, offset - start, raw[start:end]
    return Leaf("".join(path), base)


def _values(raw: bytes) -> Iterator[tuple[str, int, int]]:
    """Iterate over the values of an object or an array: the step to each, and its half-open range."""
    if raw[:1] == b"{":
        yield from (("." + printable(member.key), member.value, member.end) for member in spans(raw))
        return
    at = 1
    for number, element in enumerate(array(raw)):
        start = _skip(raw, at)
        if not raw.startswith(element, start):
            return
        yield f"[{number}]", start, start + len(element)
        at = _skip(raw, start + len(element)) + 1


_STEP = re.compile(r"\[(\d{1,9})\]|([^.\[\]]+)")


def value_at(raw: bytes, path: str, apart: str = "") -> tuple[int, int] | None:
    """Find the value that a path (`messages[3].content[0]`) names, as a half-open range; None where there is none.

    Elements that have no member but `apart` are not counted. Costs the containers on the way, each sliced once.
    """
    start, end = _trim(raw, 0, len(raw))
    for match in _STEP.finditer(path):
        inside, found = raw[start:end], None
        if match[1] is None:
            found = next(((m.value, m.end) for m in reversed(spans(inside)) if m.key == match[2]), None)
        else:
            ranges = element_ranges(inside)
            if apart:
                ranges = [each for each in ranges if [m.key for m in spans(inside[slice(*each)])] != [apart]]
            found = ranges[int(match[1])] if int(match[1]) < len(ranges) else None
        if found is None:
            return None
        start, end = start + found[0], start + found[1]
    return start, end
