"""Decide whether a session is compacted now, and where its timeline is cut. Pure.

- `find_due` asks each trigger in turn. Cadence and gap are for sessions in which a person speaks; overflow is for all
  sessions, since an agent that works alone would otherwise stop.
- A cadence fires between exchanges, never inside a tool loop, and once for each exchange that ends. The first message
  of a session is not a gap: there is nothing to compact.
- The last messages are kept. A response stays together, its text and its parallel calls; a call that still runs is
  kept with its response, and so is everything that no model has answered yet.
- The window of outside context is fixed here, before the compaction begins. An overflow asks for none: it makes room.

An overflow (`plan_overflow`) has stages. Between 70 % and 90 % of the window it keeps the last 10 messages, if that
brings the prompt to 70 %. Otherwise it keeps the last 4, if that brings it to 90 %; otherwise it also cuts results of
more than 2,000 characters to 1,920; the prompt may be too long even then (final). A compaction that frees less than
5 % waits until 90 % is used: with a long head, each turn would otherwise drop one message, and the cache with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from lore.compaction.activity import UNTIMED, ChainActivity
from lore.compaction.base import Firing, Trigger, Window
from lore.compaction.entries import (
    BYTES_PER_TOKEN,
    Entries,
    bytes_of,
    calls_tools,
    count_messages,
    has_real_activity,
    is_message,
    result_blocks,
    tokens_of,
    tokens_of_size,
)
from lore.compaction.settings import Compaction
from lore.model import items as i
from lore.model.canonical import encode, text_of
from lore.model.state import Entry
from lore.prompt.layout import is_real
from lore.store.base import Tell

AUTOMATIC: tuple[Trigger, ...] = ("overflow", "gap", "cadence")
BEFORE_TURN: tuple[Trigger, ...] = ("overflow", "gap")
AFTER_TURN: tuple[Trigger, ...] = ("overflow", "cadence")
CALM, FULL, LEAST_GAIN = 70, 90, 5  # percent of the window
STAGES = ((10, CALM), (4, FULL))  # messages that the stages of an overflow keep, and what the prompt may fill then
RESULT_LIMIT, RESULT_KEPT = 2_000, 1_920  # characters
MARKER = (
    "[System: {} earlier messages were removed due to context overflow. The conversation continues from here. "
    "Use /compact for smarter summarization.]"
)
TRUNCATED = "[OVERFLOW RECOVERY: truncated from {} to {} chars]"
NOTHING_LEFT = "nothing more can be removed"  # although more than 90 % of the window is full
TOO_FEW = "no message can be removed (keep_recent = {:,})"


class PolicyInput(NamedTuple):
    """What triggers are judged by."""

    activity: ChainActivity
    entries: Entries
    settings: Compaction
    now: float | None = None  # seconds since 1970; None: there is no clock
    overhead: int = 0  # estimated tokens of the prompt before the timeline
    tokens: int | None = None  # estimated tokens of the timeline, if known


# triggers: each judge returns its firing, or why it is not due


def find_due(
    inputs: PolicyInput, triggers: Collection[Trigger] = AUTOMATIC, *, tell: Tell | None = None
) -> Firing | None:
    """Return the first of these triggers that is due, in the order manual, overflow, gap, cadence.

    `tell` receives why each trigger fires or is skipped. `manual` is always due if it is asked for. Costs O(1) far from
    any limit if the timeline's tokens are given, otherwise O(entries).
    """
    for trigger, judge in TRIGGERS.items():
        if trigger not in triggers:
            continue
        firing = judge(inputs)
        if tell is not None:
            tell(f"{trigger} skipped: {firing}" if isinstance(firing, str) else f"{trigger} fires: {firing.reason}")
        if not isinstance(firing, str):
            return firing
    return None


def judge_overflow(inputs: PolicyInput) -> Firing | str:
    """Return an overflow's compaction if the window fills up. The marker is kept only if room has to be made now."""
    settings, overhead = inputs.settings, inputs.overhead
    if not settings.window:
        return "off (window = 0)"
    tokens = tokens_of(inputs.entries) if inputs.tokens is None else inputs.tokens
    used = _percent(overhead + tokens, settings.window)
    reason = f"the prompt fills {used:.0f} % of the window"
    firing = plan_overflow(
        inputs.entries, settings.window, overhead=overhead, tokens=tokens, reserve=settings.summary_tokens
    )
    if firing is not None and (firing.pruned or firing.shortened):
        return firing._replace(marker=firing.marker if firing.full else "", reason=reason)
    if used > FULL:
        return f"{reason}: {NOTHING_LEFT}"
    return reason + (f", at most {CALM} %" if used <= CALM else ", and too little can be removed")


def judge_gap(inputs: PolicyInput) -> Firing | str:
    """Return a compaction after a pause of `gap_secs`; if nothing can be removed, one that only asks the sources.

    A person who waits for a long tool loop was not away, so a loop is never a gap.
    """
    settings = inputs.settings
    if not settings.gap_secs:
        return "off (gap_secs = 0)"
    pause = inputs.activity.pause_before_message(inputs.now)
    if pause is None:
        return "no earlier message" if inputs.activity.is_timed else UNTIMED
    reason = f"a pause of {pause:,.0f} s (gap_secs = {settings.gap_secs:,})"
    if pause < settings.gap_secs:
        return reason
    if fault := _between_exchanges_fault(inputs):
        return fault
    firing, window = _prune_for("gap", inputs, reason), source_window(inputs)
    return Firing("gap", window=window, reason=reason) if isinstance(firing, str) and window is not None else firing


def judge_cadence(inputs: PolicyInput) -> Firing | str:
    """Return a compaction every `continuous_interval` exchanges."""
    count, settings = inputs.activity.finished, inputs.settings
    if not settings.continuous_interval:
        return "off (continuous_interval = 0)"
    reason = f"{count:,} finished exchanges (continuous_interval = {settings.continuous_interval:,})"
    if count <= inputs.activity.compacted:
        return f"no exchange ended since the last compaction; {reason}"
    if not count or count % settings.continuous_interval:
        return f"{count:,} finished exchanges are no multiple of {settings.continuous_interval:,} (continuous_interval)"
    return _between_exchanges_fault(inputs) or _prune_for("cadence", inputs, reason)


TRIGGERS: dict[Trigger, Callable[[PolicyInput], Firing | str]] = {
    "manual": lambda inputs: _prune_for("manual", inputs, "asked for"),
    "overflow": judge_overflow,
    "gap": judge_gap,
    "cadence": judge_cadence,
}


def source_window(inputs: PolicyInput) -> Window | None:
    """Return the time since sources were last asked, at most the look-back; empty if the clock went back.

    None if no source is asked: without sources, or if their token cap is 0.
    """
    settings, now, asked_at = inputs.settings, inputs.now, inputs.activity.asked_at
    if now is None or not settings.context_sources or not settings.context_token_cap:
        return None
    earliest = now - settings.gap_max_lookback_secs
    return Window(min(earliest if asked_at is None else max(asked_at, earliest), now), now)


def _prune_for(trigger: Trigger, inputs: PolicyInput, reason: str) -> Firing | str:
    pruned = prunable_entries(inputs.entries, inputs.settings.keep_recent)
    if not pruned:
        return TOO_FEW.format(inputs.settings.keep_recent)
    return Firing(trigger, pruned, source_window(inputs), reason=reason)


def _between_exchanges_fault(inputs: PolicyInput) -> str:
    """Return why a session is not between two exchanges of a person; empty if it is."""
    if _is_in_tool_loop(inputs.entries):
        return "inside a tool loop"
    has_person = inputs.activity.exchanges > 0 or has_real_activity(inputs.entries)  # also before a compaction
    return "" if has_person else "no person spoke"


def _is_in_tool_loop(entries: Entries) -> bool:
    """Return whether the last response called tools, and no user message followed."""
    for at in range(len(entries) - 1, -1, -1):
        item = entries[at].item
        if isinstance(item, i.AssistantMessage) and item.response_id is None and item.stop_reason != "tool_use":
            return False  # a text without a response id ends a loop: it was not part of a response with tool calls
        if isinstance(item, i.AssistantMessage | i.ToolCall):
            return calls_tools(entries, at)
        if is_real(item):
            return False
    return False


# what is removed


def prunable_entries(entries: Entries, keep_recent: int) -> tuple[Entry, ...]:
    """Return the entries to remove so that at least the last messages stay; empty without a message among them."""
    remaining, place = keep_recent, len(entries)
    while remaining > 0 and place > 0:
        place -= 1
        remaining -= is_message(entries[place].item)
    place = min(place, _first_unanswered(entries))
    while 0 < place < len(entries) and entries[place].group == entries[place - 1].group:
        place -= 1  # a response stays together
    running = {
        entry.group
        for entry in islice(entries, place)
        if isinstance(entry.item, i.ToolCall) and entry.item.status == "running"
    }
    pruned = tuple([entry for entry in islice(entries, place) if entry.group not in running])
    return pruned if count_messages(pruned) else ()


def kept_places(entries: Entries, pruned: Sequence[Entry]) -> list[int]:
    """Return the places of the entries that stay, in their order."""
    uuids = {entry.item.uuid for entry in pruned}
    return [place for place, entry in enumerate(entries) if entry.item.uuid not in uuids]


def kept_entries(entries: Entries, pruned: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries that stay, in their order."""
    return tuple([entries[place] for place in kept_places(entries, pruned)])


def place_after(entries: Entries, pruned: Sequence[Entry]) -> int:
    """Return the place after the last removed entry; 0 if none is removed."""
    last = pruned[-1].item.uuid if pruned else None
    return next((at + 1 for at in range(len(entries) - 1, -1, -1) if entries[at].item.uuid == last), 0)


def opening_entries(entries: Entries, pruned: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Return the removed entries that begin the exchange (or the rest of it) whose end stays."""
    place = place_after(entries, pruned)
    if place == len(entries) or is_real(entries[place].item):
        return ()
    for at in range(len(pruned) - 1, -1, -1):
        if is_real(pruned[at].item):
            return pruned[at:]
        if isinstance(pruned[at].item, i.CompactDivider):
            return pruned[at + 1 :]
    return ()


def _first_unanswered(entries: Entries) -> int:
    """Return where the unanswered end begins: at new user messages, or at the results of the last response."""
    place = len(entries)
    for at in range(len(entries) - 1, -1, -1):
        item = entries[at].item
        if isinstance(item, i.AssistantMessage | i.ToolCall):
            return at if place == len(entries) and calls_tools(entries, at) else place
        if isinstance(item, i.UserMessage):
            place = at
    return place


# overflow


def plan_overflow(
    entries: Entries, window: int, *, overhead: int = 0, tokens: int | None = None, reserve: int = 0
) -> Firing | None:
    """Return what an overflow does; None at 70 % of the window or below, and if nothing useful can be removed.

    `window` is in tokens, and 0 never overflows. `overhead` estimates the prompt before the timeline, `tokens` the
    timeline, if known. `reserve` is kept free for a summary longer than the marker, as far as `summary_room` allows.
    """
    before = overhead + (tokens_of(entries) if tokens is None else tokens)
    used = _percent(before, window)
    if used <= CALM:
        return None
    firing = Firing("overflow", before=before)
    for keep, limit in STAGES[1:] if used > FULL else STAGES:
        firing = firing._replace(tokens=before, full=used > FULL)
        if pruned := prunable_entries(entries, keep):
            marker = MARKER.format(count_messages(pruned))
            after = _tokens_with_summary(kept_entries(entries, pruned), marker, summary_room(pruned, reserve))
            firing = firing._replace(pruned=pruned, marker=marker, tokens=overhead + after)
        if _percent(firing.tokens, window) <= limit:
            gains = firing.full or _percent(before - firing.tokens, window) >= LEAST_GAIN
            return firing if firing.pruned and gains else None
    remaining = kept_entries(entries, firing.pruned)
    calls = latest_calls(remaining).items()
    shortened = tuple([(call_id, text) for call_id, call in calls if (text := shorten_result(call)) is not None])
    room = summary_room(firing.pruned, reserve)
    after = overhead + _tokens_with_summary(replace_results(remaining, shortened), firing.marker, room)
    return firing._replace(shortened=shortened, tokens=after, final=_percent(after, window) > FULL)


def summary_room(pruned: Sequence[Entry], most: int) -> int:
    """Return how many tokens a summary of these entries may have: at most nine tenths of theirs, so that it helps."""
    return min(most, sum(map(bytes_of, pruned)) // BYTES_PER_TOKEN * 9 // 10)


def latest_calls(entries: Entries) -> dict[str, i.ToolCall]:
    """Return the most recent call of each id."""
    return {entry.item.call_id: entry.item for entry in entries if isinstance(entry.item, i.ToolCall)}


def replace_results(entries: Entries, shortened: Iterable[tuple[str, str]]) -> list[Entry]:
    """Return entries with the results of these calls replaced by texts."""
    calls, replaced = latest_calls(entries), list(entries)
    texts = {calls[call_id].uuid: Raw(encode(text)) for call_id, text in shortened if call_id in calls}
    for at, entry in enumerate(entries):
        text = texts.get(entry.item.uuid)
        if text is not None and isinstance(entry.item, i.ToolCall):
            error = i.NULL if i.is_absent(entry.item.error) else text
            replaced[at] = replace(entry, item=replace(entry.item, output=text, error=error))
    return replaced


def shorten_result(call: i.ToolCall) -> str | None:
    """Return a call's result, cut; None if it is short, not there yet, or holds more than text."""
    raw = bytes(call.output if i.is_absent(call.error) else call.error)
    if call.status == "running":
        return None
    if raw[:1] == b'"':
        text = text_of(raw)
    else:
        blocks = result_blocks(raw) or ()
        texts = [text_of(bytes(block.text)) for block in blocks if isinstance(block, i.TextBlock)]
        text = "\n".join(texts) if len(texts) == len(blocks) else ""
    if len(text) <= RESULT_LIMIT:
        return None
    return text[:RESULT_KEPT] + "\n" + TRUNCATED.format(len(text), RESULT_KEPT)


def _percent(tokens: int, window: int) -> float:
    return 100 * tokens / window if window > 0 else 0


def _tokens_with_summary(entries: Entries, marker: str, reserve: int) -> int:
    size = sum(map(bytes_of, entries))
    return max(tokens_of_size(size + len(marker)), tokens_of_size(size) + reserve)
