"""Get a summary from any summariser: asked again if it fails, with a history that fits its window.

- A history that does not fit `summarizer_window` (estimates, times 1.2) is shortened in its middle, with a note.
- A failed request is made three times in all, unless a retry would not help; an unreadable answer is asked for once
  more, with its fault in the prompt; an answer that was cut off is asked for with twice the room, up to
  16,384 tokens and half the window; an answer that is twice as long as it may be is cut, with a note.
- Without a summary nothing is pruned, and it is tried again later (`base.Waiting`).
"""

from __future__ import annotations

from lore.asking import (
    MOST_TOKENS,
    AuthorSummarizer,
    GivenUpError,
    SummaryRequest,
    UnusableAnswerError,
    answer_of,
    retry,
)
from lore.compaction.entries import BYTES_PER_TOKEN
from lore.compaction.extractive import Extractive
from lore.compaction.settings import Compaction
from lore.compaction.transcripts import OPENING_TOKENS, PROMPT, message_texts, truncate
from lore.store.base import Tell
from lore.store.registry import ignore
from lore.untrusted import harmless

SAFETY = 1.2  # estimates are too low by so much
OVERHEAD = len(PROMPT) // BYTES_PER_TOKEN + OPENING_TOKENS + 64  # tokens of a request apart from messages and summary
LEAST = 3_600  # bytes of a history
TRIES = 3
MOST_TIMES = 2  # times the requested length: a command may write a megabyte


def summarize(
    summarizer: AuthorSummarizer, request: SummaryRequest, settings: Compaction, *, tell: Tell = ignore
) -> str:
    """Return the summary that a summariser writes; raises SummaryError."""
    if isinstance(summarizer, Extractive):
        return _checked_text(summarizer.summarize(request).text)
    most_tokens = MOST_TOKENS
    if window := settings.summarizer_window:
        most_tokens = min(MOST_TOKENS, window // 2)
        room = (int((window - most_tokens) / SAFETY) - OVERHEAD) * BYTES_PER_TOKEN
        if room < LEAST or request.tokens > most_tokens:
            hint = "make summarizer_window larger, or summary_tokens smaller"
            raise GivenUpError(
                f"a window of {window:,} tokens has no room for {request.tokens:,} of summary", hint=hint
            )
        history = "".join(message_texts(request))
        text, previous = _shorten(history, room - room // 4), _shorten(request.previous, room // 4)
        if text != history:
            tell(f"the messages are too long for summarizer_window = {window:,}: their middle is left out")
        request = request._replace(texts=(text,), previous=previous)

    def attempt(tokens: int, fault: str) -> str | None:
        answer = answer_of(summarizer, request._replace(tokens=tokens, fault=fault))
        return None if answer.cut_off else truncate(_checked_text(harmless(answer.text)), MOST_TIMES * tokens)

    return retry(attempt, request.tokens, most_tokens, tries=TRIES, tell=tell, unusable=ignore)


def _checked_text(text: str) -> str:
    if not text.strip():
        raise UnusableAnswerError("the summary is empty")
    return text.strip()


def _shorten(text: str, most: int) -> str:
    """Return a text's beginning and end, `most` bytes of UTF-8 with the note between them."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return text
    room = max(0, most - 48)
    begin, end = data[: room - room // 4], data[len(data) - room // 4 :]
    note = f" […{len(data) - room:,} bytes left out…] "
    return begin.decode("utf-8", "ignore") + note + end.decode("utf-8", "ignore")
