"""Get a summary from any summariser: in parts if the history is too long for it, again if it fails.

- A history that does not fit `summarizer_window` (estimates, times 1.2) is cut between messages into parts. Each part
  is summed up together with the summary of the parts before it, which it continues.
- A message has at most half of the room of a part: a longer one is shortened in the middle, with a note.
- A failed request is made three times in all, unless a retry would not help; an unreadable answer is asked for once
  more, with its fault in the prompt; an answer that was cut off is asked for with twice the room, up to
  16,384 tokens and half the window; an answer that is twice as long as it may be is cut, with a note.
- A part without a summary ends it all: nothing is pruned, and it is tried again later (`base.Waiting`).
"""

from __future__ import annotations

from collections.abc import Sequence

from lore.asking import MOST_TOKENS, GivenUpError, Summarizer, SummaryError, SummaryRequest, UnusableAnswerError, retry
from lore.compaction.entries import BYTES_PER_TOKEN
from lore.compaction.extractive import Extractive
from lore.compaction.settings import Compaction
from lore.compaction.transcripts import OPENING_TOKENS, PROMPT, message_texts, truncate
from lore.store.base import Tell
from lore.store.registry import ignore
from lore.untrusted import harmless

SAFETY = 1.2  # estimates are too low by so much
OVERHEAD = len(PROMPT) // BYTES_PER_TOKEN + OPENING_TOKENS + 64  # tokens of a request apart from messages and summary
LEAST = 3_600  # bytes of a part
TRIES = 3
MOST_TIMES = 2  # times the requested length: a command may write a megabyte


def summarize_in_passes(
    summarizer: Summarizer, request: SummaryRequest, settings: Compaction, *, tell: Tell = ignore
) -> str:
    """Return a summary of `request`, in one pass or several; raises SummaryError. Costs a call for each part."""
    if isinstance(summarizer, Extractive):
        return _checked_text(summarizer.summarize(request).text)
    window = settings.summarizer_window
    most_tokens = min(MOST_TOKENS, window // 2) if window else MOST_TOKENS
    room = (int((window - most_tokens) / SAFETY) - OVERHEAD) * BYTES_PER_TOKEN if window else 2**62
    if room < LEAST or request.tokens > most_tokens:
        hint = "make summarizer_window larger, or summary_tokens smaller"
        raise GivenUpError(f"a window of {window:,} tokens has no room for {request.tokens:,} of summary", hint=hint)

    def ask(part: SummaryRequest) -> str:
        def attempt(tokens: int, fault: str) -> str | None:
            answer = summarizer.summarize(part._replace(tokens=tokens, fault=fault))
            return None if answer.cut_off else truncate(_checked_text(harmless(answer.text)), MOST_TIMES * tokens)

        return retry(attempt, part.tokens, most_tokens, tries=TRIES, tell=tell, unusable=ignore)

    summary = request.previous
    parts = _parts([_clip(text, room // 2) for text in message_texts(request)], room - room // 4)
    for number, texts in enumerate(parts, 1):
        opening = request.opening if number == len(parts) else ()
        try:
            summary = ask(request._replace(texts=texts, opening=opening, previous=_clip(summary, room // 4)))
        except SummaryError as error:
            place = f"part {number} of {len(parts)}: " if len(parts) > 1 else ""
            raise type(error)(place + error.message, hint=error.hint) from None
    return summary


def _checked_text(text: str) -> str:
    if not text.strip():
        raise UnusableAnswerError("the summary is empty")
    return text.strip()


def _parts(texts: Sequence[str], room: int) -> list[tuple[str, ...]]:
    """Cut a history into parts of at most `room` bytes; no text is longer than that."""
    parts, free = [list[str]()], room
    for text in texts:
        size = len(text.encode("utf-8", "replace"))
        if size > free:
            parts.append([])
            free = room
        parts[-1].append(text)
        free -= size
    return list(map(tuple, parts))


def _clip(text: str, most: int) -> str:
    """Return a text's beginning and end, `most` bytes of UTF-8 with the note between them."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return text
    room = max(0, most - 48)
    begin, end = data[: room - room // 4], data[len(data) - room // 4 :]
    note = f" […{len(data) - room:,} bytes left out…] "
    return begin.decode("utf-8", "ignore") + note + end.decode("utf-8", "ignore")
