"""Slice JSON text without decoding it: every result is a piece of the input, with its spelling and white space.

msgspec's `Raw` does this. It rejects escapes of lone surrogates, which JavaScript writes (`"\\ud83d"` of an emoji that
was cut in two): such escapes are replaced while msgspec slices the text, or, if that fails, a scanner slices it. Only
`raw_members` and `is_json` validate; the other functions expect valid JSON.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Raw, Struct

from lore.model.canonical import decode, encode, has_surrogate_escape, printable, text_of
from lore.model.deferred import pattern
from lore.model.limits import RECORD_LEVELS

_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_ARRAY = msgspec.json.Decoder(list[Raw])
_RAW = msgspec.json.Decoder(Raw)
_SPACES = b" \t\r\n"
_SPACE = pattern(rb"[ \t\r\n]*")
_OBJECT_STARTS = frozenset((b"{", b" ", b"\t", b"\r", b"\n"))  # first bytes of an object's text
_PIECE = 1024 * 1024  # bytes that are decoded at a time
LARGEST = 4 * 1024 * 1024  # bytes up to which an object's members are kept with it


class Sliced(bytes):
    """The text of a JSON object, with its members, so that `raw_members` and `sliced_members` do not slice it again."""

    members: dict[str, bytes]  # values as JSON, by key

    @classmethod
    def of(cls, raw: bytes, members: dict[str, bytes]) -> bytes:
        """Return a `Sliced` of the text and its members; the plain text if it has more than `LARGEST` bytes."""
        if len(raw) > LARGEST or isinstance(raw, cls):
            return raw
        sliced = cls(raw)
        sliced.members = members
        return sliced


# Lone surrogates: msgspec accepts escapes `\uExxx` in place of `\uDxxx`

_HIDDEN = pattern("[\ue000-\uefff]")  # the characters that stand for surrogates


def _hide_surrogates(raw: bytes) -> bytes:
    """Return the text with escapes `\\uExxx` in place of `\\uDxxx`; ValueError if it already has such characters."""
    if b"\\ue" in raw or b"\\uE" in raw or b"\xee" in raw:  # escapes and UTF-8 of U+E000 to U+EFFF
        raise ValueError("characters of U+E000 to U+EFFF")
    return raw.replace(b"\\ud", b"\\ue").replace(b"\\uD", b"\\uE")


def _show_surrogates(value: Raw) -> bytes:
    raw = bytes(value)
    return raw.replace(b"\\ue", b"\\ud").replace(b"\\uE", b"\\uD") if b"\\u" in raw else raw


def _members_with_surrogates(raw: bytes) -> dict[str, bytes]:
    """Return the values of an object by key; ValueError for broken JSON, and if only the scanner can slice it."""
    members: dict[str, bytes] = {}
    for hidden_key, value in _MEMBERS.decode(_hide_surrogates(raw)).items():
        if "\\" in hidden_key:
            raise ValueError("`\\\\ud83d` in a key may be a backslash and five letters")
        key = _HIDDEN.sub(lambda match: chr(ord(match[0]) - 0x1000), hidden_key)
        members[key.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")] = _show_surrogates(value)
    return members


# Validated


def check_text(data: bytes) -> None:
    """Raise UnicodeDecodeError if bytes are not UTF-8. Decodes in pieces: one emoji makes a text 4 times as large."""
    if not data.isascii():
        decoder = codecs.getincrementaldecoder("utf-8")()
        for at in range(0, len(data), _PIECE):
            decoder.decode(data[at : at + _PIECE])
        decoder.decode(b"", final=True)


def is_json(data: bytes) -> bool:
    """Return whether bytes are one JSON value in UTF-8 that is not nested too deeply; it may have lone surrogates."""
    try:
        _RAW.decode(data)
        check_text(data)  # msgspec skips strings without checking them
        return True
    except (msgspec.DecodeError, UnicodeDecodeError):
        if not has_surrogate_escape(data):
            return False
    except RecursionError:  # msgspec allows less depth than other parsers, and still less in a deep call stack
        if is_deep(data):
            return False
    try:
        decode(data)
    except (ValueError, RecursionError):
        return False
    return True


def raw_members(raw: bytes) -> dict[str, bytes] | None:
    """Return a valid JSON object's values as JSON, by decoded key, the last of equal keys; None for other bytes."""
    if isinstance(raw, Sliced):
        return dict(raw.members)
    if raw[:1] not in _OBJECT_STARTS:
        return None
    try:
        fast = _MEMBERS.decode(raw)
        check_text(raw)
        return {key: bytes(value) for key, value in fast.items()}
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if isinstance(error, msgspec.ValidationError) or not has_surrogate_escape(raw):
            return None
    except RecursionError:
        pass
    if not raw.startswith(b"{", _skip_space(raw, 0)):
        return None
    try:
        check_text(raw)
        return _members_with_surrogates(raw)
    except (ValueError, RecursionError):
        return {m.key: raw[m.value : m.end] for m in _scan_members(raw)} if is_json(raw) else None


def members_at(value: bytes | Raw | Mapping[str, bytes | Raw], *names: str) -> dict[str, bytes]:
    """Return the members of an object as JSON, with `names` those of the object at this path; none of another value."""
    for name in names:
        value = (value if isinstance(value, Mapping) else members_at(value)).get(name, b"")
    return raw_members(value if isinstance(value, bytes) else bytes(value)) or {}  # pyright: ignore[reportArgumentType]


# Not validated


def sliced_members(raw: bytes) -> dict[str, bytes]:
    """Return a JSON object's values as JSON, by decoded key, the last of equal keys; empty for any other value.

    Unlike `raw_members` it does not check that the bytes are UTF-8, which costs as much as slicing.
    """
    if isinstance(raw, Sliced):
        return dict(raw.members)
    try:
        return {key: bytes(value) for key, value in _MEMBERS.decode(raw).items()} if raw[:1] in _OBJECT_STARTS else {}
    except (ValueError, RecursionError):
        return raw_members(raw) or {}


def array(raw: bytes) -> list[bytes]:
    """Return the elements of a JSON array as JSON, in order; empty for any other value."""
    try:
        return [bytes(element) for element in _ARRAY.decode(raw)]
    except msgspec.ValidationError:
        return []
    except (ValueError, RecursionError):
        pass
    try:
        return [_show_surrogates(element) for element in _ARRAY.decode(_hide_surrogates(raw))]
    except (ValueError, RecursionError):
        return [raw[start:end] for start, end in element_ranges(raw)]


def first_element(raw: bytes) -> bytes:
    """Return the first element of a JSON array, b"" if it is empty or not an array."""
    return next(iter(array(raw)), b"")


def object_of(members: Mapping[str, bytes]) -> bytes:
    """Return the JSON object of these members, without white space; keys are decoded, values JSON."""
    return b"{" + b",".join([encode(key) + b":" + value for key, value in members.items()]) + b"}"


# Positions


class Member(Struct, frozen=True):
    """One member of an object."""

    key: str  # its name, decoded
    start: int  # where the key begins
    value: int  # where the value begins
    end: int  # where the value ends


def member_ranges(raw: bytes) -> list[Member]:
    """Return the places of a JSON object's members, in order, with repeated keys; empty for any other value."""
    try:
        fast = _MEMBERS.decode(raw)
    except (ValueError, RecursionError):
        return _scan_members(raw)
    members: list[Member] = []
    at = raw.find(b"{") + 1
    for key, value in fast.items():
        token, text = b'"' + key.encode() + b'"', bytes(value)
        start = _skip_space(raw, at)
        colon = _skip_space(raw, start + len(token))
        begin = _skip_space(raw, colon + 1)
        end = begin + len(text)
        if not raw.startswith(token, start) or raw[colon : colon + 1] != b":" or not raw.startswith(text, begin):
            return _scan_members(raw)  # duplicate keys, or escapes in a key
        members.append(Member(key, start, begin, end))
        at = _skip_space(raw, end)
        at += raw[at : at + 1] == b","
    return members if raw[at : at + 1] == b"}" or not members else _scan_members(raw)


def element_ranges(raw: bytes) -> list[tuple[int, int]]:
    """Return the half-open byte ranges of a JSON array's elements, in order; empty for any other value."""
    begin = _skip_space(raw, 0)
    return list(_split_container(raw, begin)) if raw[begin : begin + 1] == b"[" else []


def without_member(raw: bytes, key: str) -> bytes:
    """Return an object's bytes without the members of this name, their commas and the adjacent white space."""
    for member in reversed([member for member in member_ranges(raw) if member.key == key]):
        end = _skip_space(raw, member.end)
        if raw[end : end + 1] == b",":
            raw = raw[: member.start] + raw[_skip_space(raw, end + 1) :]
        else:
            raw = raw[: member.start].rstrip(_SPACES).removesuffix(b",") + raw[member.end :]
    return raw


def leaf_in(raw: bytes, offset: int) -> tuple[str, int]:
    """Return path (`.content[2].text`) and start of the innermost value that holds the byte at `offset`.

    Punctuation, white space and keys belong to the container around them; that of the whole text is `("", 0)`.
    `raw` must not begin with white space.
    """
    path, base = "", 0
    while raw[:1] in (b"{", b"["):
        inner = next((value for value in _value_ranges(raw) if value[1] <= offset < value[2]), None)
        if inner is None:
            break
        step, start, end = inner
        path, base, offset, raw = path + step, base + start, offset - start, raw[start:end]
    return path, base


def _value_ranges(raw: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield the path step (`.key`, `[0]`), start and end of each value in a container."""
    if raw[:1] == b"{":
        yield from (("." + printable(member.key), member.value, member.end) for member in member_ranges(raw))
        return
    end = 0
    for number, element in enumerate(array(raw)):
        start = _skip_space(raw, end + 1)  # after the bracket or comma
        yield f"[{number}]", start, start + len(element)
        end = _skip_space(raw, start + len(element))


_STEP = pattern(r"\[(\d{1,9})\]|([^.\[\]]+)")


def value_at(raw: bytes, path: str, uncounted: str = "") -> tuple[int, int] | None:
    """Return the half-open byte range of the value at a path (`messages[3].content[0]`); None if it has no such value.

    Of equal keys the last counts. Indexes skip elements that are objects whose only member is `uncounted`.
    """
    start, end = 0, len(raw)
    for step in _STEP.finditer(path):
        inside, value_range = raw[start:end], None
        if step[1] is None:
            value_range = next(((m.value, m.end) for m in reversed(member_ranges(inside)) if m.key == step[2]), None)
        else:
            ranges = element_ranges(inside)
            if uncounted:
                ranges = [
                    span for span in ranges if [m.key for m in member_ranges(inside[slice(*span)])] != [uncounted]
                ]
            value_range = ranges[int(step[1])] if int(step[1]) < len(ranges) else None
        if value_range is None:
            return None
        start, end = start + value_range[0], start + value_range[1]
    return start, end


# The scanner. Possessive quantifiers: a string without an end fails at once instead of after much backtracking.
_STRING = pattern(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NEXT_BRACKET = pattern(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+"|")*+([{\[]++|[}\]]++)', re.DOTALL)
_NEXT_BRACKET_OR_COMMA = pattern(rb'(?:[^",{}\[\]]++|"(?:[^"\\]++|\\.)*+"|")*+([{\[]++|[}\]]++|,)', re.DOTALL)


def _skip_space(raw: bytes, at: int) -> int:
    return _SPACE.match(raw, at).end()  # pyright: ignore[reportOptionalMemberAccess] - it matches anywhere


def _split_container(raw: bytes, opening: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the elements or members of the container that opens at `opening`, without outer space."""
    depth, begin, at = 1, opening + 1, opening + 1
    while (match := (_NEXT_BRACKET_OR_COMMA if depth == 1 else _NEXT_BRACKET).match(raw, at)) is not None:
        (first, at), token = match.span(1), match[1]
        if token == b",":
            yield _without_space(raw, begin, first)
            begin = at
        elif token[0] in b"{[":
            depth += len(token)
        elif len(token) < depth:
            depth -= len(token)
        else:
            start, end = _without_space(raw, begin, first + depth - 1)
            if start < end:
                yield start, end
            return


def _without_space(raw: bytes, start: int, end: int) -> tuple[int, int]:
    start = min(_skip_space(raw, start), end)
    return start, start + len(raw[start:end].rstrip(_SPACES))


def _scan_members(raw: bytes) -> list[Member]:
    opening = _skip_space(raw, 0)
    members: list[Member] = []
    for start, end in _split_container(raw, opening) if raw[opening : opening + 1] == b"{" else ():
        token = _STRING.match(raw, start)
        colon = raw.find(b":", start if token is None else token.end(), end)
        if token is not None and colon >= 0:
            members.append(Member(text_of(token[0]), start, _skip_space(raw, colon + 1), end))
    return members


# Depth: each parser rejects nested values from another depth on, so lore has a limit below theirs, `RECORD_LEVELS`.

_STRETCH = 16 * 1024  # bytes that are counted at a time; they rarely hold `RECORD_LEVELS` opening brackets
_STRING_OR_OPEN = pattern(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_AS_LISTS = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STRIPPED_LEVELS = 8  # levels that are removed as empty pairs, before the remaining brackets are counted
_RUNS = pattern(rb"(\[*+)(\]*+)")


def is_deep(data: bytes) -> bool:
    """Return whether a record is nested deeper than `RECORD_LEVELS`.

    Counts brackets by stretches, and calls `_is_nested` only if enough of them open. Closing brackets inside strings
    may hide levels, so False can be wrong; then the parser's own limit of 1,024 levels applies.
    """
    size, most = len(data), RECORD_LEVELS + 1
    if size < most:
        return False
    # `replace` only looks at the matches, `count` at each byte: counting took a tenth of a check's instructions
    without = len(data.replace(b"[", b"", most)) + len(data.replace(b"{", b"", most))
    if 2 * size - without < most:
        return False
    depth = 0
    for at in range(0, len(data), _STRETCH):
        end = at + _STRETCH
        depth += data.count(b"[", at, end) + data.count(b"{", at, end)
        if depth > RECORD_LEVELS:
            return _is_nested(data)
        depth = max(0, depth - data.count(b"]", at, end) - data.count(b"}", at, end))
    return False


def _is_nested(data: bytes) -> bool:
    """Return exactly whether a record is nested deeper than `RECORD_LEVELS`.

    Removing every empty pair (`[]`) makes a value one level shallower. A few rounds remove most brackets; the remaining
    ones are counted run by run.
    """
    brackets = (_STRING_OR_OPEN.sub(b"", data) if b'"' in data else data).translate(_AS_LISTS, _NOT_BRACKETS)
    for _ in range(_STRIPPED_LEVELS):
        brackets = brackets.replace(b"[]", b"")
    depth = _STRIPPED_LEVELS
    for run in _RUNS.finditer(brackets):
        depth += len(run[1])
        if depth > RECORD_LEVELS:
            return True
        depth -= len(run[2])
    return False
