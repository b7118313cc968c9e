"""`lore compact --watch`: open a store, and compact and remember its sessions until stopped."""

from __future__ import annotations

import os
from functools import lru_cache

from lore.cache.rules import Rules
from lore.compaction.memory.asking import asking
from lore.compaction.memory.idle import IdleMemory, IdleSettings
from lore.compaction.settings import Compaction
from lore.compaction.stopping import interruptible
from lore.compaction.summarizers import summarizer_of
from lore.compaction.watching import Hands, Watch
from lore.errors import LoreError
from lore.run.compacting.dependencies import dependencies_of, refuse_nested
from lore.store.base import Store
from lore.store.registry import open_there, shown

_NOTHING = IdleSettings()


def watch(
    url: str, settings: Compaction | None, rules: Rules, hands: Hands, remembered: IdleSettings = _NOTHING
) -> int:  # fmt: skip
    """Watch a store; raises LoreError where it, or what the policy names, cannot be had."""
    refuse_nested()
    _refuse_nothing(settings, remembered)
    if settings is not None:
        dependencies_of(settings, hands.tell, "")  # what cannot be had is said before anything is read
    store = open_there(url, lru_cache(1_024)(hands.tell))  # a damaged session is told with every look otherwise
    try:
        hands.tell(f"watching {shown(url)}")
        return watch_of(store, settings, rules, hands, remembered).run()
    finally:
        store.close()


def watch_of(
    store: Store, settings: Compaction | None, rules: Rules, hands: Hands, remembered: IdleSettings = _NOTHING
) -> Watch:  # fmt: skip
    """Return a watch of an open store, with this process' environment."""
    idle = IdleMemory(store, remembered, tell=hands.tell, clock=hands.clock)
    if settings is not None:
        idle.window = settings.summarizer_window
        if remembered.memory.system == "structured":
            summarizer = summarizer_of(settings, os.environ, tell=hands.tell)
            idle.ask = asking(interruptible(summarizer, hands.waiting))
    return Watch(store, settings, rules, hands, idle, dependencies_of)


def _refuse_nothing(settings: Compaction | None, remembered: IdleSettings) -> None:
    """Raise LoreError where no trigger is switched on: such a watch would wait for ever."""
    if remembered.is_on:
        return
    if settings is None:
        raise LoreError("nothing is configured: no session would ever be compacted", hint="give --policy FILE")
    if not (settings.continuous_interval or settings.gap_secs or settings.window):
        hint = "set continuous_interval, gap_secs or window"
        raise LoreError("the policy switches no trigger on", hint=hint)
