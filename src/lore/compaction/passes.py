"""Get a summary from any summariser: in parts if the history is too long for it, again if it fails.

Rules (numbers: openfang's compactor):
- A history that does not fit `summarizer_window` (estimates, times 1.2) is cut between messages into parts of at
  least five; the parts' summaries are summed up again, with the summary that is replaced.
- One message has at most a twelfth of a part: a longer one is shortened in the middle, with a note.
- A failed request is made three times in all, unless a retry would not help; an unreadable answer is asked for once
  more, with its fault in the prompt; an answer that was cut off is asked for with twice the room, up to
  16,384 tokens and half the window; an answer that is twice as long as it may be is cut, with a note.
- A part without a summary ends it all: nothing is pruned, and the next trigger tries again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from lore.asking import MOST_TOKENS, GivenUpError, Summarizer, SummaryError, SummaryRequest, UnusableAnswerError, usable
from lore.compaction.entries import BYTES_PER_TOKEN
from lore.compaction.extractive import Extractive
from lore.compaction.settings import Compaction
from lore.compaction.transcripts import PROMPT, escaped, message_texts, opening_text, truncated
from lore.store.base import Tell
from lore.store.registry import ignore
from lore.untrusted import harmless

SAFETY = 1.2  # estimates are too low by so much
SHARE = 0.4  # of the window that a part takes: its answer needs room
FEWEST = 5  # messages of a part
SMALL = 12  # messages that fit a part, however long they were
LEAST = 400  # bytes of a shortened message
TRIES = 3
MOST_TIMES = 2  # times the requested length: a command may write a megabyte


def summarize_in_passes(
    summarizer: Summarizer, request: SummaryRequest, settings: Compaction, *, tell: Tell = ignore,
    unusable: Tell = ignore,
) -> str:  # fmt: skip
    """Return a summary of `request`, in one pass or several; raises SummaryError. Costs a call for each part.

    `unusable` receives the fault of each answer that could not be read.
    """
    if isinstance(summarizer, Extractive):
        return _checked_text(summarizer.summarize(request).text)
    return _Passes(summarizer, settings.summarizer_window, request.tokens, tell, unusable).summarize(request)


class _Passes:
    """Asks one summariser."""

    def __init__(self, summarizer: Summarizer, window: int, tokens: int, tell: Tell, unusable: Tell) -> None:
        self._summarizer, self._tell, self._unusable = summarizer, tell, unusable
        self._most_tokens = min(MOST_TOKENS, window // 2) if window else MOST_TOKENS
        self._whole = self._part = 2**62  # bytes that fit the only pass, and one of several
        if window:
            overhead = len(PROMPT) // BYTES_PER_TOKEN + 64
            part = min(int(window / SAFETY) - tokens - overhead, int(window * SHARE))
            whole = max(part, int((window - self._most_tokens) / SAFETY) - overhead)
            self._whole, self._part = whole * BYTES_PER_TOKEN, part * BYTES_PER_TOKEN
        if self._part < SMALL * LEAST:
            hint = "make summarizer_window larger, or summary_tokens smaller"
            raise GivenUpError(f"a window of {window:,} tokens has no room for {tokens:,} of summary", hint=hint)

    def summarize(self, request: SummaryRequest) -> str:
        """Return a request's summary.

        Ends: nine texts of a twelfth each fit one pass together with the rest, and ten or more make fewer parts.
        """
        request = request._replace(texts=message_texts(request))
        while not self._fits(request):
            most = self._part // SMALL
            texts = tuple([_clip(text, most) for text in message_texts(request)])
            request = request._replace(texts=texts, previous=_clip(request.previous, most))
            if self._fits(request):
                break
            request = request._replace(texts=tuple(self._ask_parts(texts, request.tokens)))
        return self._ask(request)

    def _fits(self, request: SummaryRequest) -> bool:
        """Return whether a request fits one pass."""
        return sum(map(_size, (*message_texts(request), opening_text(request), request.previous))) <= self._whole

    def _ask_parts(self, texts: Sequence[str], tokens: int) -> Iterator[str]:
        """Yield the summary of each part of a history; raises SummaryError."""
        parts = _parts(list(map(_size, texts)), self._part)
        for number, part in enumerate(parts, 1):
            try:
                summary = self._ask(SummaryRequest(texts=tuple(texts[part.start : part.stop]), tokens=tokens))
            except SummaryError as error:
                raise type(error)(f"part {number} of {len(parts)}: {error.message}", hint=error.hint) from None
            yield f"[summary of part {number} of {len(parts)}]\n{escaped(summary)}\n\n"

    def _ask(self, request: SummaryRequest) -> str:
        """Ask for one summary, again if that may help, with twice the room each time that it is cut off."""

        def attempt(tokens: int, fault: str) -> str | None:
            answer = self._summarizer.summarize(request._replace(tokens=tokens, fault=fault))
            if answer.cut_off:
                return None
            return truncated(_checked_text(harmless(answer.text)), MOST_TIMES * tokens)

        return usable(
            attempt, request.tokens, self._most_tokens, tries=TRIES, tell=self._tell, unusable=self._unusable
        )  # fmt: skip


def _checked_text(text: str) -> str:
    if not text.strip():
        raise UnusableAnswerError("the summary is empty")
    return text.strip()


def _parts(sizes: Sequence[int], room: int) -> list[range]:
    """Cut at message borders into parts of at least five; no message has more than a twelfth of `room`."""
    borders, held = [0], 0
    for place, size in enumerate(sizes):
        # A third of the room is left: a last part of up to four messages joins the one before.
        if held + size > room * 2 // 3 and place - borders[-1] >= FEWEST:
            borders.append(place)
            held = 0
        held += size
    if len(borders) > 1 and len(sizes) - borders[-1] < FEWEST:
        borders.pop()
    return [range(*ends) for ends in pairwise([*borders, len(sizes)])]


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _clip(text: str, most: int) -> str:
    """Return a text's beginning and end, `most` bytes of UTF-8 with the note between them."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return text
    room = max(0, most - 48)
    begin, end = data[: room - room // 4], data[len(data) - room // 4 :]
    note = f" […{len(data) - room:,} bytes left out…] "
    return begin.decode("utf-8", "ignore") + note + end.decode("utf-8", "ignore")
