"""Decide whether a session is compacted now, and where it is cut: pure; `due` asks a function for each trigger in turn.

- Cadence and gap are for sessions in which a person speaks; an overflow is judged in others too, or an agent that runs
  by itself would stop.
- Cadence fires between exchanges, never in the middle of a tool loop, and once for each exchange that ends.
- The first message ever is no gap: there is nothing to compact.
- The window of outside context is fixed here, before compaction begins. Overflows ask for none: they make room.

What stays are the last messages; one response stays together, its text and its parallel calls; a call that is still
running is held with its response; what no model has answered yet stays. A cut that takes no message away is none.

An overflow (`stages`): above 70 % of the window, but not above 90 %, the last 10 messages stay, if that brings it to 70
%; else the last 4, if that brings it to 90 %; else results of more than 2,000 characters are cut to 1,920 as well; else
it is final. Limits and texts: openfang's overflow recovery. Unlike there, what is at most 90 % full is never final.
What would free less than 5 % waits until 90 % are full: where the head alone is long, each turn would drop a message,
and the cache with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from lore.compaction.activity import Tracked
from lore.compaction.base import Firing, Shortened, TimelineCut, Trigger, Window
from lore.compaction.settings import Compaction
from lore.model.canonical import encode, text_of
from lore.model.items import (
    NULL,
    AssistantMessage,
    CompactDivider,
    TextBlock,
    ToolCall,
    UserMessage,
    blocks_of,
    is_absent,
)
from lore.model.state import Entry
from lore.prompt.entries import (
    BYTES_PER_TOKEN,
    Entries,
    bytes_of,
    calls_tools,
    has_real_activity,
    in_tokens,
    is_message,
    messages,
    tokens_of,
)
from lore.prompt.layout import is_real

AUTOMATIC: tuple[Trigger, ...] = ("overflow", "gap", "cadence")
BEFORE_TURN: tuple[Trigger, ...] = ("overflow", "gap")
AFTER_TURN: tuple[Trigger, ...] = ("overflow", "cadence")


class PolicyInput(NamedTuple):
    """What triggers are judged by. `now` in seconds since 1970, None where no clock is known; `tokens` estimates the
    entries where that is known, `overhead` what stands before them in a prompt; `user` None is the session's own.
    """

    tracked: Tracked
    entries: Entries
    settings: Compaction
    now: float | None = None
    agent: str | None = None
    user: str | None = None
    overhead: int = 0
    tokens: int | None = None


def due(
    tracked: Tracked, entries: Entries, settings: Compaction | None, *, now: float | None = None,
    agent: str | None = None, user: str | None = None, overhead: int = 0, tokens: int | None = None,
    ask: Collection[Trigger] = AUTOMATIC,
) -> Firing | None:  # fmt: skip
    """Return the first trigger that is due, in the order manual, overflow, gap, cadence; None where none is.

    `manual` is due when it is asked for. Costs O(1) where nothing is near, with `tokens` given; else O(entries).
    """
    if settings is None:
        return None
    inputs = PolicyInput(tracked, entries, settings, now, agent, user, overhead, tokens)
    found = (judge(inputs) for trigger, judge in TRIGGERS.items() if trigger in ask)
    return next((firing for firing in found if firing is not None), None)


def overflow(inputs: PolicyInput) -> Firing | None:
    """Compact where the window fills: `stages`. Where no summary can be had only if room has to be made."""
    settings = inputs.settings
    plan = stages(
        inputs.entries, settings.window, overhead=inputs.overhead, tokens=inputs.tokens, reserve=settings.summary_tokens
    )
    if plan is None or not (plan.cut.place or plan.shortened):
        return None
    return plan if plan.full else plan._replace(marker="")


def gap(inputs: PolicyInput) -> Firing | None:
    """Compact after a pause of `gap_secs`, or ask the sources alone: who comes back is told what happened meanwhile."""
    silent = silence(inputs)
    if not inputs.settings.gap_secs or silent is None or silent < inputs.settings.gap_secs:
        return None
    if _in_loop(inputs.entries) or not _is_active(inputs):
        return None  # who asked for a long job was not away while it went on
    about = _window(inputs)
    return _firing("gap", inputs) or (None if about is None else Firing("gap", TimelineCut(0), about))


def cadence(inputs: PolicyInput) -> Firing | None:
    """Compact every `continuous_interval` exchanges."""
    count, settings = inputs.tracked.finished, inputs.settings
    if count <= inputs.tracked.compacted or not needs_continuous(count, len(inputs.entries), settings):
        return None  # asked with the number of all items first: cheaper, and never fewer
    if _in_loop(inputs.entries) or not needs_continuous(count, messages(inputs.entries), settings):
        return None
    return _firing("cadence", inputs) if count and _is_active(inputs) else None


TRIGGERS: dict[Trigger, Callable[[PolicyInput], Firing | None]] = {
    "manual": lambda inputs: _firing("manual", inputs), "overflow": overflow, "gap": gap, "cadence": cadence,
}  # fmt: skip


def needs_continuous(exchanges: int, size: int, settings: Compaction) -> bool:
    """Tell whether a cadence is met by so many exchanges, the one that has just ended among them."""
    interval = settings.continuous_interval
    return interval > 0 and size > settings.keep_recent and exchanges % interval == 0


def silence(inputs: PolicyInput) -> float | None:
    """Return seconds since this agent and user last spoke, or None.

    The answer counts: who waited for a long one, and speaks as soon as it is there, was never away. So does a
    compaction that no turn has followed: the pause that it was made in is over.
    """
    tracked = inputs.tracked
    spoke, last = tracked.heard(inputs.agent, inputs.user)
    if not spoke or last is None or inputs.now is None:
        return None
    later = (tracked.ended_at.get(tracked.meant(inputs.agent)), tracked.rested_at)
    return inputs.now - max(last, *(last if at is None else at for at in later))


def window(tracked: Tracked, settings: Compaction, now: float) -> Window:
    """Return the time since sources were last asked, at most the look-back; empty where the clock went back."""
    earliest = now - settings.gap_max_lookback_secs
    since = earliest if tracked.compacted_at is None else max(tracked.compacted_at, earliest)
    return Window(min(since, now), now)


def _firing(trigger: Trigger, inputs: PolicyInput) -> Firing | None:
    made = cut(inputs.entries, inputs.settings.keep_recent)
    return None if made is None else Firing(trigger, made, _window(inputs))


def _window(inputs: PolicyInput) -> Window | None:
    """Return the window to ask sources about; None without sources, or where their token cap is 0."""
    settings = inputs.settings
    if inputs.now is None or not settings.context_sources or not settings.context_token_cap:
        return None
    return window(inputs.tracked, settings, inputs.now)


def _is_active(inputs: PolicyInput) -> bool:
    """Tell whether a person ever spoke: what was compacted away counts, or a long loop would look like none."""
    return inputs.tracked.exchanges > 0 or has_real_activity(inputs.entries)


def _in_loop(entries: Entries) -> bool:
    """Tell whether a tool loop is under way: the last response called tools, and no user message followed."""
    for at in range(len(entries) - 1, -1, -1):
        item = entries[at].item
        if isinstance(item, AssistantMessage | ToolCall):
            # A text without a response id ends a loop: it was no part of a response with tool calls.
            is_text = isinstance(item, AssistantMessage) and item.response_id is None and item.stop_reason != "tool_use"
            return not is_text and calls_tools(entries, at)
        if is_real(item):
            return False
    return False


def cut(entries: Entries, keep_recent: int) -> TimelineCut | None:
    """Return the cut that keeps at least the last messages; None where it would take none away. Costs O(entries)."""
    left, place = keep_recent, len(entries)
    while left > 0 and place > 0:
        place -= 1
        left -= is_message(entries[place].item)
    place = min(place, _unanswered(entries))
    while 0 < place < len(entries) and entries[place].group == entries[place - 1].group:
        place -= 1  # a response stays together
    running = {
        entry.group
        for entry in islice(entries, place)
        if isinstance(entry.item, ToolCall) and entry.item.status == "running"
    }
    held = tuple([at for at in range(place) if entries[at].group in running]) if running else ()
    made = TimelineCut(place, held, _exchange(entries, place))
    return made if any(is_message(entry.item) for entry in pruned(entries, made)) else None


def pruned(entries: Entries, made: TimelineCut) -> tuple[Entry, ...]:
    """Return the entries that go, oldest first."""
    held = set(made.held)
    return tuple([entry for at, entry in enumerate(islice(entries, made.place)) if at not in held])


def kept(entries: Entries, made: TimelineCut) -> tuple[Entry, ...]:
    """Return the entries that stay, in their order."""
    return (*[entries[place] for place in made.held], *[entries[at] for at in range(made.place, len(entries))])


def opening(entries: Entries, made: TimelineCut) -> tuple[Entry, ...]:
    """Return those of the entries that go which begin the exchange whose end stays."""
    if made.exchange is None:
        return ()
    held = set(made.held)
    return tuple([entries[at] for at in range(made.exchange, made.place) if at not in held])


def _unanswered(entries: Entries) -> int:
    """Return where what no model has answered begins: what was said last, or the results of the last response."""
    place = len(entries)
    for at in range(len(entries) - 1, -1, -1):
        item = entries[at].item
        if isinstance(item, AssistantMessage | ToolCall):
            return at if place == len(entries) and calls_tools(entries, at) else place
        if isinstance(item, UserMessage):
            place = at
    return place


def _exchange(entries: Entries, place: int) -> int | None:
    """Return where the exchange (or the rest of it) begins that a place falls into; None where it falls between two."""
    if place == len(entries) or is_real(entries[place].item):
        return None
    for at in range(place - 1, -1, -1):
        if is_real(entries[at].item):
            return at
        if isinstance(entries[at].item, CompactDivider):
            return at + 1
    return None


CALM, FULL, LEAST = 70, 90, 5  # percent of the window
FIRST, SECOND = 10, 4  # messages that stay
RESULT_LIMIT, RESULT_KEPT = 2_000, 1_920  # characters

MARKER = (
    "[System: {} earlier messages were removed due to context overflow. The conversation continues from here. "
    "Use /compact for smarter summarization.]"
)
TRUNCATED = "[OVERFLOW RECOVERY: truncated from {} to {} chars]"


def stages(
    entries: Entries, window: int, *, overhead: int = 0, tokens: int | None = None, reserve: int = 0
) -> Firing | None:
    """Return what an overflow does; None below 70 %, and where it is calm enough and nothing can go.

    `tokens` estimates the entries where that is known, `overhead` what stands before them; `reserve` is kept free
    for a summary that is longer than the marker, as far as it may be (`summary_room`). A `window` of 0 is unknown: it
    never overflows.
    """
    before = overhead + (tokens_of(entries) if tokens is None else tokens)
    if _share(before, window) <= CALM:
        return None
    if _share(before, window) <= FULL:
        first = _drop(entries, FIRST, overhead, reserve)
        if first is not None and _share(first.tokens, window) <= CALM:
            return first if _share(before - first.tokens, window) >= LEAST else None
    second = _drop(entries, SECOND, overhead, reserve) or Firing("overflow", TimelineCut(0), tokens=before)
    second = second._replace(full=_share(before, window) > FULL)
    if _share(second.tokens, window) <= FULL:
        gains = second.full or _share(before - second.tokens, window) >= LEAST
        return second if second.cut.place and gains else None
    stay = kept(entries, second.cut)
    cuts = _long_results(stay)
    reserve = summary_room(pruned(entries, second.cut), reserve)
    after = overhead + _with_summary(with_results(stay, cuts), second.marker, reserve)
    return second._replace(shortened=cuts, tokens=after, final=_share(after, window) > FULL)


def next_stage(entries: Entries, firing: Firing) -> Firing | None:
    """Return what an overflow does whose cut would not make the prompt shorter: the last 4 messages stay, else long
    results alone are cut; None where nothing is left to do, and for other triggers, which have one stage.
    """
    if firing.trigger != "overflow" or not firing.cut.place:
        return None
    second = _drop(entries, SECOND, 0, 0)
    if second is not None and second.cut.place > firing.cut.place:
        return firing._replace(cut=second.cut, marker=second.marker if firing.marker else "")
    cuts = _long_results(entries)
    return firing._replace(cut=TimelineCut(0), marker="", shortened=cuts) if cuts else None


def _long_results(entries: Entries) -> tuple[Shortened, ...]:
    cuts = ((name, shortened(call)) for name, call in latest(entries).items())
    return tuple([Shortened(name, text) for name, text in cuts if text is not None])


def _share(tokens: int, window: int) -> float:
    return 100 * tokens / window if window > 0 else 0


def summary_room(gone: Sequence[Entry], most: int) -> int:
    """Return how many tokens a summary of these entries may have: at most nine tenths of theirs, so that one which
    keeps to that makes the prompt shorter.
    """
    return min(most, sum(map(bytes_of, gone)) // BYTES_PER_TOKEN * 9 // 10)


def _drop(entries: Entries, keep: int, overhead: int, reserve: int) -> Firing | None:
    made = cut(entries, keep)
    if made is None:
        return None
    gone = pruned(entries, made)
    marker = MARKER.format(sum(is_message(entry.item) for entry in gone))
    after = overhead + _with_summary(kept(entries, made), marker, summary_room(gone, reserve))
    return Firing("overflow", made, marker=marker, tokens=after)


def _with_summary(entries: Entries, marker: str, reserve: int) -> int:
    size = sum(map(bytes_of, entries))
    return max(in_tokens(size + len(marker)), in_tokens(size) + reserve)


def latest(entries: Entries) -> dict[str, ToolCall]:
    """Return the most recent call of each id."""
    return {entry.item.call_id: entry.item for entry in entries if isinstance(entry.item, ToolCall)}


def with_results(entries: Entries, cuts: Iterable[Shortened]) -> list[Entry]:
    """Return entries as they are once these results are cut."""
    calls, made = latest(entries), list(entries)
    texts = {calls[name].uuid: text for name, text in cuts if name in calls}
    for at, entry in enumerate(entries):
        text = texts.get(entry.item.uuid)
        if text is not None and isinstance(entry.item, ToolCall):
            result = Raw(encode(text))
            error = NULL if is_absent(entry.item.error) else result
            made[at] = replace(entry, item=replace(entry.item, output=result, error=error))
    return made


def shortened(call: ToolCall) -> str | None:
    """Return a call's result as it is cut; None where it is short, still to come, or more than text."""
    text = None if call.status == "running" else _text(call)
    if text is None or len(text) <= RESULT_LIMIT:
        return None
    return text[:RESULT_KEPT] + "\n" + TRUNCATED.format(len(text), RESULT_KEPT)


def _text(call: ToolCall) -> str | None:
    raw = bytes(call.output if is_absent(call.error) else call.error)
    if raw[:1] == b'"':
        return text_of(raw)
    if raw[:1] != b"[":
        return None
    try:
        blocks = blocks_of(raw)
    except (ValueError, RecursionError):
        return None
    texts = [text_of(bytes(block.text)) for block in blocks if isinstance(block, TextBlock)]
    return "\n".join(texts) if len(texts) == len(blocks) else None
