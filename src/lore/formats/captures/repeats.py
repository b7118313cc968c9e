"""Pass over the messages that a request repeats of an earlier one.

An agent sends its whole history with each request, so a capture holds a message as often as requests follow it. In:
the text of a record. Out: the text without the messages that an earlier body held as well, which is what gets parsed,
and from what was sliced of it the body as it stands in the whole text, equal to the byte.

The messages of the latest bodies are remembered. Where they stand again, by how they open, bytes are compared as far
as they are alike, at a tenth of what scanning costs. Cut out are whole elements of the array behind the first; of a
body that is kept as text, a piece of the string that halves no escape and no character. Both were valid JSON where
they stood before, and a parser is in the same state before and behind a cut: an array that opens as it did can only
be one, or the text around it is no JSON, cut or not. What does not fit is parsed whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from lore.formats.contents import NO_CONTENT, unescaped
from lore.formats.http import Http, Judged, exchanges_of
from lore.model.deferred import pattern
from lore.model.jsonslice import Sliced, SlicedArray, SlicedText, array, spans, table
from lore.model.turn import Exchange
from lore.model.vector import common_prefix

KEPT = 4  # bodies kept for comparison: subagents and side calls interrupt a conversation
ROOM = 8 * 1024 * 1024  # bytes of request bodies kept for comparison with the next one
SMALLEST = 2048  # bytes of messages that are worth it
_OPENING = 256  # bytes by which messages are found
_AROUND = 4096  # bytes before and behind the place where they stood, in which they are looked for
_PIECE = 32 * 1024  # bytes compared at once: copies of them stay in the processor's cache
_LISTS = ("messages", "input", "contents")
_OPENS = pattern(rb'\[[ \t\r\n]*+\{[ \t\r\n]*+"\w')
_IN_TEXT = pattern(rb'"(?:messages|input|contents)\\"(?:[ \t]|\\[nrt])*+:(?:[ \t]|\\[nrt])*+(?=\[\{)')
_BRACKETS = 2  # bytes of an array in a string that stay: `[{`
_BETWEEN = pattern(rb"[ \t\r\n,]*+")
_UNCUT = pattern(rb"[^\\]{6}(?=[^\x80-\xbf\\])")  # behind it neither an escape (of six bytes) nor a character is cut
_NEAR = 2048  # bytes in which such a place is looked for


class _Known(NamedTuple):
    """A body, and where its array of messages opens: `start` in it, `at` in `text`, which is the body or its string.

    The array last stood at `place` of a record; its elements, all of them objects, end at `ends`, from its beginning.
    """

    text: bytes
    at: int
    body: Sliced
    start: int
    place: int
    key: str
    ends: list[int]


class Short(NamedTuple):
    """A text without `cut` bytes of the whole one, at `at`; the array that is cut opens at `place`."""

    text: bytes
    whole: bytes
    place: int
    at: int
    cut: int
    known: _Known


class Repeats:
    """The latest bodies of one recording."""

    def __init__(self) -> None:
        self._known: list[_Known] = []  # the latest first
        self._seen: tuple[bytes, Sliced, bytes] | None = None  # what to learn when another record comes

    def short(self, text: bytes) -> Short | None:
        """Return a record's text without what it repeats; None where that is not worth it."""
        if self._seen is not None:
            self._learn(*self._seen)
            self._seen = None
        same, best = 0, None
        for known in self._known:
            opening = known.text[known.at : known.at + _OPENING]
            place = text.find(opening, max(0, known.place - _AROUND), known.place + _AROUND)
            found = _alike(known.text, known.at, text, place) if place >= 0 else 0
            if found > same:
                same, best = found, (known, place)
            if known.at + found + _AROUND > len(known.text):  # all of it: no other has more
                break
        if best is None:
            return None
        known, place = best
        if known.text is known.body:
            count = bisect_right(known.ends, same)
            at, end = (known.ends[0], known.ends[count - 1]) if count else (0, 0)
        else:
            near = place + max(_BRACKETS, same - _NEAR)
            ends = [match.end() for match in _UNCUT.finditer(text, near, place + same + 1)]
            at, end = _BRACKETS, ends[-1] - place if ends else 0
        if end - at < SMALLEST:
            return None
        return Short(text[: place + at] + text[place + end :], text, place, place + at, end - at, known)

    def body(self, short: Short, raw: bytes) -> Sliced | SlicedText | None:
        """Return the body of the whole record that was sliced as `raw` from the short one, if that is where it is cut.

        A body that is kept as text is given as its string.
        """
        begin = short.text.find(raw) if raw else -1
        if not 0 <= begin < short.place < short.at < begin + len(raw) or short.text.find(raw, begin + 1) >= 0:
            return None
        text, known, at = short.whole[begin : begin + len(raw) + short.cut], short.known, short.place - begin
        if known.text is known.body:
            return self._sliced(known, text, at, short.at + short.cut - short.place, short.place)
        head, rest = unescaped(raw[: at + _BRACKETS] + b'"'), unescaped(b'"' + raw[at + _BRACKETS :])
        if raw[at - 1] == 0x5C or head[:1] != b"{" or rest[-1:] != b"}":  # white space around it is no part of a body
            return None
        upto = len(known.body) - len(unescaped(b'"' + known.text[known.at + _BRACKETS + short.cut :]))
        same = upto - known.start + common_prefix(known.body[upto:], rest)
        whole = b"".join((head, known.body[known.start + _BRACKETS : upto], rest))
        body = self._sliced(known, whole, len(head) - _BRACKETS, same, short.place, text, at)
        if body is None:
            return None
        made = SlicedText(text)
        made.text = body
        return made

    def see(self, given: bytes, body: bytes, record: bytes) -> None:
        """Remember a body that was sliced, and its text in a record: itself, or the string that holds it."""
        if len(body) >= SMALLEST and isinstance(body, Sliced) and not any(known.body is body for known in self._known):
            self._seen = given, body, record

    def _learn(self, given: bytes, body: Sliced, record: bytes) -> None:
        found = next((member for member in reversed(spans(body)) if member.key in _LISTS), None)
        if found is None or found.end - found.value < SMALLEST or not _OPENS.match(body, found.value):
            return
        text, at = (given, -1) if given[:1] == b'"' else (body, found.value)
        if at < 0:
            at = next((match.end() for match in _IN_TEXT.finditer(text)), 0)
            if len(unescaped(text[:at] + b'"')) != found.value:
                return
        made = SlicedArray(body.members[found.key])
        made.elements = array(body.members[found.key])
        body.members[found.key] = made
        place = record.find(text[at : at + _OPENING])
        self._remember(_Known(text, at, body, found.value, place, found.key, []))

    def _sliced(
        self, known: _Known, raw: bytes, start: int, same: int, place: int, text: bytes = b"", at: int = 0
    ) -> Sliced | None:
        """Slice a body whose array opens at `start` and begins with `same` bytes of the known one, and remember it.

        In the record the array opens at `place`; a body that is kept as text has its array `at` a byte of `text`.
        """
        count = bisect_right(known.ends, same)
        if count < 2:
            return None
        first, last = known.ends[0], known.ends[count - 1]
        short = raw[: start + first] + raw[start + last :]
        members = table(short) or {}
        found = members.get(known.key, b"")
        if not found or short.find(found) != start or short.find(found, start + 1) >= 0:
            return None
        made = SlicedArray(raw[start : start + len(found) + last - first])
        made.elements = array(known.body.members[known.key])[:count] + array(found)[1:]
        body = Sliced.of(raw, {**members, known.key: made})
        if isinstance(body, Sliced):
            if count > len(known.ends) - 2:  # it goes on from that one
                self._known = [other for other in self._known if other is not known]
            self._remember(
                _Known(text or body, at if text else start, body, start, place, known.key, known.ends[:count])
            )
        return body if isinstance(body, Sliced) else None

    def _remember(self, known: _Known) -> None:
        """Put a body before the others, its elements' ends counted on, if all of them are objects."""
        made = known.body.members[known.key]
        at = known.ends[-1] if known.ends else 1
        elements = array(made)
        for element in elements[len(known.ends) :]:
            at = _BETWEEN.match(made, at).end() + len(element)  # pyright: ignore[reportOptionalMemberAccess]
            known.ends.append(at)
            if element[:1] != b"{":
                return
        self._known.insert(0, known)
        room = ROOM
        for place, other in enumerate(self._known):
            room -= 2 * len(other.body) + len(other.text)  # its messages stand in it and apart
            if place and (room < 0 or place == KEPT):
                del self._known[place:]
                break


def exchanges_in(data: bytes, call: Callable[[bytes], Http | None], repeats: Repeats) -> list[Judged] | None:
    """Return what there is to judge in a record that `call` reads; None where that finds no call."""
    short = repeats.short(data)
    http = None if short is None else call(short.text)
    body = None if short is None or http is None else repeats.body(short, http.request.raw)
    if http is None or body is None:
        http = call(data)
    else:
        members = {} if isinstance(body, SlicedText) else table(body) or {}
        http = replace(http, request=replace(http.request, raw=body, members=members))
    if http is None:
        return None
    if not http.url and http.request is NO_CONTENT:  # a note beside calls
        return []
    found = exchanges_of(http)
    for exchange in found:
        if isinstance(exchange, Exchange):
            repeats.see(http.request.raw, exchange.body, data)
    return found


def _alike(left: bytes, at: int, right: bytes, place: int) -> int:
    """Count the bytes that are the same from `at` on in one text and from `place` on in the other."""
    done, most = 0, min(len(left) - at, len(right) - place)
    while done < most and left[at + done : at + done + _PIECE] == right[place + done : place + done + _PIECE]:
        done += _PIECE
    here, there = at + done, place + done
    return min(most, done + common_prefix(left[here : here + _PIECE], right[there : there + _PIECE]))
