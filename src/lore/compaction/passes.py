"""Have a summary made by any summariser: in parts where the history is too long for it, again where it fails.

Rules (numbers: openfang's compactor):
- a history that does not fit `summarizer_window` (estimates, times 1.2) is cut between messages into parts of at
  least five; the parts' summaries are summed up again, with the summary that is replaced;
- one message has at most a twelfth of a part: a longer one is shortened in the middle, and says so;
- what fails is asked for three times in all, unless that would not help; an answer that cannot be read (empty, no text)
  once more, with what is wrong with it in the prompt; an answer that was cut off is asked for with
  twice the room, up to 16,384 tokens and half the window; one that is twice as long as it may be is cut, and says so;
- three parts in a row that are given up end it all: the key is wrong, or nobody is there, and each part would wait;
- a part without a summary is said so behind what the model wrote, so that it cannot be summed up away.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Raw
from msgspec.structs import replace

from lore.asking import MOST_TOKENS, GivenUpError, Summarizer, SummaryError, SummaryRequest, UnusableAnswerError, usable
from lore.compaction.entries import BYTES_PER_TOKEN
from lore.compaction.extractive import Extractive
from lore.compaction.settings import Compaction
from lore.compaction.transcripts import PROMPT, fresh, input_of, piece_of, result_of, truncated, words
from lore.model.canonical import encode, text_of
from lore.model.items import NULL, AssistantMessage, CompactDivider, OpaqueItem, ToolCall, UserMessage
from lore.model.state import Entry
from lore.store.base import Tell
from lore.store.registry import ignore
from lore.untrusted import harmless, one_line

SAFETY = 1.2  # estimates fall short by so much
SHARE = 0.4  # of the window that a part takes: its answer, and tokens that are shorter than thought, need room
FEWEST = 5  # messages of a part
SMALL = 12  # messages that fit a part however long they were: two short parts can always be one
LEAST = 400  # bytes of a message that was shortened
TRIES = 3
MOST_TIMES = 2  # times the length that was asked for: a command may write a megabyte
LOST = 3  # parts in a row that are given up before all is
_AROUND = 140  # bytes of a message's first line, and of what a transcript puts around it


def summarize_in_passes(
    summarizer: Summarizer,
    request: SummaryRequest,
    settings: Compaction,
    *,
    tell: Tell = ignore,
    unusable: Tell = ignore,
) -> str:
    """Return a summary of `request`, in one pass or several; raises SummaryError. Costs a call for each part.

    `unusable` hears of each answer that could not be read.
    """
    if isinstance(summarizer, Extractive):
        return _checked_text(summarizer.summarize(request).text)
    request = request._replace(entries=fresh(request))
    spans = [range(place, place + 1) for place in range(len(request.entries))]
    return _Passes(summarizer, settings.summarizer_window, request.tokens, tell, unusable).whole(request, spans)


class _Passes:
    """Asks one summariser: `_whole` bytes fit one pass, `_part` one of several; a window of 0 is no limit."""

    def __init__(self, summarizer: Summarizer, window: int, tokens: int, tell: Tell, unusable: Tell) -> None:
        self._summarizer, self._tell, self._unusable = summarizer, tell, unusable
        self._most_tokens = min(MOST_TOKENS, window // 2) if window else MOST_TOKENS
        self._whole = self._part = 2**62
        if window:
            overhead = len(PROMPT) // BYTES_PER_TOKEN + 64
            part = min(int(window / SAFETY) - tokens - overhead, int(window * SHARE))
            whole = max(part, int((window - self._most_tokens) / SAFETY) - overhead)
            self._whole, self._part = whole * BYTES_PER_TOKEN, part * BYTES_PER_TOKEN
        if self._part < SMALL * LEAST:
            hint = "make summarizer_window larger, or summary_tokens smaller"
            raise GivenUpError(f"a window of {window:,} tokens has no room for {tokens:,} of summary", hint=hint)

    def whole(self, request: SummaryRequest, spans: Sequence[range]) -> str:
        """Sum up a request, in parts where it must be; `spans` are the messages that each entry stands for.

        Ends: nine entries of a twelfth each and what comes with them fit one pass, and ten or more make at most a
        fifth as many parts.
        """
        around = len(request.previous.encode("utf-8", "replace")) + sum(map(_size, request.opening[:1]))
        if sum(map(_size, request.entries)) + around <= self._whole:
            return self._ask(request)
        most = self._part // SMALL
        shorter = request._replace(
            entries=tuple([_shortened(entry, most) for entry in request.entries]),
            opening=tuple([_shortened(entry, most) for entry in request.opening[:1]]),
            previous=_clip(request.previous, most),
        )
        sizes = list(map(_size, shorter.entries))
        if sum(sizes) + 2 * most <= self._whole:
            return self._ask(shorter)
        return self._in_parts(shorter, spans, _parts(sizes, self._part))

    def _in_parts(self, request: SummaryRequest, spans: Sequence[range], parts: Sequence[range]) -> str:
        made: list[Entry] = []
        covered: list[range] = []
        missing: list[str] = []
        why, lost = "", 0
        for number, part in enumerate(parts, 1):
            span = range(spans[part.start].start, spans[part.stop - 1].stop)
            try:
                text = self._ask(SummaryRequest(request.entries[part.start : part.stop], tokens=request.tokens))
            except SummaryError as error:
                why = one_line(error.message)
                self._tell(f"messages {span.start + 1} to {span.stop} have no summary: {why}")
                missing.append(
                    f"[Messages {span.start + 1} to {span.stop} of those that this summary replaces have none: {why}. "
                    "The session's log still holds them.]"
                )
                lost = lost + 1 if isinstance(error, GivenUpError) else 0
                if lost == LOST and len(parts) > LOST:
                    raise GivenUpError(f"{LOST} of {len(parts)} parts in a row could not be summed up: {why}") from None
            else:
                lost = 0
                summary = _raw(f"Part {number} of {len(parts)}:\n{text}")
                made.append(Entry(CompactDivider(f"part-{number}", "manual", summary=summary), 0, -number))
                covered.append(span)
        if not made:
            raise SummaryError(f"none of {len(parts)} parts could be summed up; the last: {why}")
        return "\n\n".join([self.whole(request._replace(entries=tuple(made)), covered), *missing])

    def _ask(self, request: SummaryRequest) -> str:
        """Ask for one summary, again where that may help; where it is cut off each time with twice the room."""

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
        if held + size > room and place - borders[-1] >= FEWEST:
            borders.append(place)
            held = 0
        held += size
    if len(borders) > 1 and len(sizes) - borders[-1] < FEWEST:  # too few for a part of their own
        last = borders.pop()
        if len(sizes) - borders[-1] >= 2 * FEWEST:
            borders.append(min(last, len(sizes) - FEWEST))
    return [range(*ends) for ends in pairwise([*borders, len(sizes)])]


def _size(entry: Entry) -> int:
    return len(piece_of(entry.item).encode("utf-8", "replace"))


def _shortened(entry: Entry, most: int) -> Entry:
    """Return a message that takes about `most` bytes of a transcript; one that takes less stays as it is."""
    item, most_text = entry.item, max(LEAST, most) - _AROUND
    if _size(entry) <= most:
        return entry
    match item:
        case UserMessage() | AssistantMessage():
            item = replace(item, text=_raw(_clip(words(item), most_text)), blocks=None)
        case ToolCall():
            given, answer = _clip(input_of(item), most_text // 2), _clip(result_of(item), most_text // 2)
            item = replace(item, input=_raw(given), output=_raw(answer), error=NULL, detail=NULL)
        case CompactDivider():
            item = replace(item, summary=_raw(_clip(text_of(bytes(item.summary)), most_text)))
        case OpaqueItem():
            pass
    return Entry(item, entry.turn, entry.group)


def _clip(text: str, most: int) -> str:
    """Keep a text's beginning and end, `most` bytes of UTF-8 with the note between them."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return text
    room = max(0, most - 48)
    begin, end = data[: room - room // 4], data[len(data) - room // 4 :]
    note = f" […{len(data) - room:,} bytes left out…] "
    return begin.decode("utf-8", "ignore") + note + end.decode("utf-8", "ignore")


def _raw(text: str) -> Raw:
    return Raw(encode(text))
