"""Responses that came as server-sent events: the few events that say what was billed.

In: the text of a stream, or its events as JSON. Out: an `Answer`. Most events carry pieces of text and are
passed over unseen; those that matter are found by a word that they hold. A stream that was cut, or holds
something else, gives what is known. What the model said is put together elsewhere (`said.py`), for who asks.
Cost: a few searches over the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from lore.formats.answers import NOTHING, Answer, answer_in, id_in, verdict_of
from lore.formats.usage import billed_from
from lore.model.canonical import decode
from lore.model.events import Billed
from lore.model.jsonslice import first_element, table

_BEGINS = re.compile(rb"\s*(?:event|data|id|retry)?:")
_DATA = b"data:"
_LAST = 4  # of the events that seem to have usage so many are read: some say `"usage": null`, or quote the word
_USAGE = (b'"usage"', b'"usageMetadata"')
_WHOLE = (b"response.completed", b"response.incomplete", b"response.failed", b"response.done")
_TELLING = (b"message_start", b"diagnostics", *_USAGE, *_WHOLE)


def is_stream(text: bytes) -> bool:
    """Tell whether a response is a stream of events."""
    return _BEGINS.match(text) is not None


def answer_of_stream(text: bytes) -> Answer:
    """Read a stream."""
    return answer_of_events(_telling(text))


def answer_of_events(events: Iterable[bytes]) -> Answer:
    """Read events, each as JSON; those without a telling word are not looked at, but for the first."""
    made = _GrowingAnswer()
    for number, raw in enumerate(events):
        if not number or any(word in raw for word in _TELLING):
            members = table(raw)
            if members is not None:
                made.take(members)
    return made.answer()


class _GrowingAnswer:
    """An answer that grows."""

    def __init__(self) -> None:
        self._answer = NOTHING
        self._id = ""
        self._usage: dict[str, Any] = {}
        self._verdict = NOTHING.verdict

    def take(self, members: dict[str, bytes]) -> None:
        inner = table(members.get("response", members.get("message", b""))) or {}
        for one in (members, inner):
            self._id = self._id or id_in(one)
            self._verdict = verdict_of(one.get("diagnostics", b"")) or self._verdict
            for key in ("usage", "usageMetadata", "usage_metadata"):
                self._count(one.get(key, b""))
        self._elsewhere(members)
        if inner and "response" in members:
            self._answer = answer_in(inner)
            self._id = self._answer.response_id or self._id

    def _elsewhere(self, members: dict[str, bytes]) -> None:
        """Count what some put into a choice (Moonshot), or into an object of their own (Groq)."""
        choice = first_element(members.get("choices", b"")) if b'"usage"' in members.get("choices", b"") else b""
        for raw in (choice, members.get("x_groq", b"")):
            self._count((table(raw) or {}).get("usage", b""))

    def _count(self, raw: bytes) -> None:
        """Add counters; the later ones hold."""
        if raw[:1] != b"{":
            return
        try:
            told = cast("dict[str, Any]", decode(raw))
        except (ValueError, RecursionError):
            return
        self._usage.update((key, value) for key, value in told.items() if value is not None)

    def answer(self) -> Answer:
        usage: Billed | None = self._answer.usage or billed_from(self._usage)
        return Answer(usage, self._id, self._answer.verdict or self._verdict, created=self._answer.created)


def _telling(text: bytes) -> Iterator[bytes]:
    """Yield the data of the first event and of those that matter, each once, in order."""
    places = {_line(text, text.find(_DATA))}
    places.add(_line(text, text.find(b"message_start")))
    places.add(_line(text, text.rfind(b'"diagnostics"')))
    places.update(place for word in _USAGE for place in _latest(text, word))
    whole = {_line(text, text.rfind(b'"%s"' % word)) for word in _WHOLE}
    places |= whole
    for start, end in sorted(places):
        if text.startswith(_DATA, start):
            yield text[start + len(_DATA) : end].strip()


def _latest(text: bytes, word: bytes) -> Iterator[tuple[int, int]]:
    """Yield the lines that hold a word, from the end, a few of them."""
    at = len(text)
    for _ in range(_LAST):
        at = text.rfind(word, 0, at)
        if at < 0:
            return
        line = _line(text, at)
        yield line
        at = line[0]


def _line(text: bytes, at: int) -> tuple[int, int]:
    """Return the range of the line that holds a byte; nothing for none."""
    if at < 0:
        return 0, 0
    end = text.find(b"\n", at)
    return text.rfind(b"\n", 0, at) + 1, len(text) if end < 0 else end
