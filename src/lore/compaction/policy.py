"""Decide whether a session is compacted now: pure, each trigger a function of its own, `due` asks them in order.

- Cadence and gap are for sessions in which a person speaks; an overflow is judged in others too, or an agent that runs
  by itself would stop.
- Cadence fires between exchanges, never in the middle of a tool loop, and once for each exchange that ends.
- The first message ever is no gap: there is nothing to compact.
- The window of outside context is fixed here, before compaction begins. Overflows ask for none: they make room.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from lore.compaction.activity import Entries, calls_tools, has_real_activity, messages
from lore.compaction.base import Cut, Firing, Trigger, Window
from lore.compaction.cuts import cut, stages
from lore.compaction.settings import Compaction
from lore.compaction.tracker import Tracked
from lore.model.items import AssistantMessage, ToolCall
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
    """Compact where the window fills: `cuts.stages`. Where no summary can be had only if room has to be made."""
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
    return _firing("gap", inputs) or (None if about is None else Firing("gap", Cut(0), about))


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
