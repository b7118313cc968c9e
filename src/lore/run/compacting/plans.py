"""A policy at work on one world: asked at its places, its firings applied, and what each of them cost.

`moment` says when a cadence compacts: at once, or (`later`) when the cache has gone cold anyway: it waits for the first
pause that is longer than entries live. Gaps and overflows never wait: one is after a pause, the other cannot.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, Protocol

from msgspec import structs

from lore.compaction.activity import in_tokens, is_message, overhead
from lore.compaction.base import Firing, Trigger
from lore.compaction.carrying import in_estimates, request_of
from lore.compaction.carrying import moment as stamp
from lore.compaction.compacting import compacted
from lore.compaction.costs import FREE, Cache, Scale, Sizes
from lore.compaction.cutting import kept, pruned
from lore.compaction.extractive import Extractive
from lore.compaction.policy import Asked, due, silence
from lore.compaction.settings import Compaction
from lore.model.canonical import encode
from lore.model.compacted import Fired
from lore.model.items import ToolCall
from lore.model.state import Chain, Entry, settled
from lore.run.compacting.ledger import Ledger, cost_of, dollars
from lore.run.compacting.worlds import World

Moment = Literal["now", "later"]
EXTRACTIVE = Extractive()


class Known(Protocol):
    """What is known of the session at a place where a policy is asked."""

    scale: Scale
    turn: int

    def is_cold(self, at: float | None) -> bool:
        """Tell whether the cache has surely forgotten the session by then."""
        ...

    def cache(self) -> tuple[Cache, int]:
        """Return the cache of the latest turn, and by how many tokens a turn grows."""
        ...

    def summary(self, asked: int) -> Decimal | None:
        """Return what the configured summariser is paid for a summary of so many tokens."""
        ...


@dataclass(slots=True)
class Fire:
    """A firing, and what came of it so far: `saved` over `turns`, None once a turn's cost was not known."""

    trigger: Trigger
    turn: int
    at: float | None
    kept: int
    pruned: int
    context: int | None
    sizes: Sizes
    cache: Cache
    summary: Decimal | None
    rewrites: bool = True
    warm: bool | None = None
    saved: Decimal | None = FREE
    turns: int = 0

    def follow(self, cost: Decimal | None, paid: Decimal | None) -> None:
        """Take what a turn behind it cost as it was recorded, and what it would have cost."""
        self.turns += 1
        if self.saved is None or cost is None or paid is None:
            self.saved = None
        else:
            self.saved += cost - paid

    def result(self) -> Fired:
        """Return it as results hold it."""
        cost = structs.replace(
            cost_of(self.sizes, self.cache, self.warm, self.summary),
            saved=dollars(self.saved) if self.turns else None, turns=self.turns or None,
        )  # fmt: skip
        return Fired(
            trigger=self.trigger, turn=self.turn, at=self.at, kept=self.kept, pruned=self.pruned,
            context_tokens=self.context, before_tokens=self.sizes.before, after_tokens=self.sizes.after, cost=cost,
        )  # fmt: skip


class Plan:
    """A world with a policy."""

    def __init__(self, format: str, settings: Compaction, moment: Moment) -> None:
        self.world = World(format)
        self.moment = moment
        self.ledger = Ledger()
        self.fires: list[Fire] = []
        self.overfull = 0
        self.pause: float | None = None  # the longest that ended when somebody spoke
        self._settings = settings
        self._waits = False

    def wake(self, known: Known, chain: str, at: float | None) -> None:
        """Fire what has waited for a cold cache, if it is cold by now."""
        if self._waits and known.is_cold(at):
            self._ask(("manual",), known, chain, at, None, "cadence")

    def ask(
        self, ask: Collection[Trigger], known: Known, chain: str, at: float | None, *, agent: str | None = None
    ) -> None:  # fmt: skip
        """Ask the policy, and apply what is due."""
        self._ask(ask, known, chain, at, agent, None)

    def _ask(
        self, ask: Collection[Trigger], known: Known, name: str, at: float | None, agent: str | None,
        called: Trigger | None,
    ) -> None:  # fmt: skip
        world = self.world
        chain = settled(world.chain(name))
        scale, tracker = known.scale, world.tracker
        if "gap" in ask:
            self._rested(silence(Asked(tracker.chain(name), chain.entries, self._settings, at, agent, tracker.user)))
        before = max(scale.estimated(scale.head), overhead(chain))
        firing = due(
            tracker.chain(name), chain.entries, in_estimates(self._settings, scale), now=at, agent=agent,
            user=tracker.user, overhead=before, tokens=world.tokens(name), ask=ask,
        )  # fmt: skip
        if firing is None:
            self._waits = self._waits and called is None
        elif firing.trigger == "cadence" and self.moment == "later" and not known.is_cold(at):
            self._waits = True
        else:
            self._waits = False
            self._fire(firing._replace(trigger=called or firing.trigger), known, chain, at)

    def _rested(self, pause: float | None) -> None:
        if pause is not None:
            self.pause = pause if self.pause is None else max(self.pause, pause)

    def _fire(self, firing: Firing, known: Known, chain: Chain, at: float | None) -> None:
        world, settings, entries = self.world, self._settings, chain.entries
        gone = pruned(entries, firing.cut) if firing.cut.place else ()
        stay = kept(entries, firing.cut) if firing.cut.place else tuple(entries)
        summary = EXTRACTIVE.summarize(request_of(chain, firing, settings)).text if gone else ""
        before = world.tokens(chain.id)
        unsaid = " " if firing.window is not None and not gone else None  # that they were asked, not what they said
        events = compacted(world.session, chain.id, firing, summary, unsaid, at=None if at is None else stamp(at))
        calls = [one.item.call_id for one in gone if isinstance(one.item, ToolCall)]
        context = settings.context_token_cap if settings.context_sources and firing.window is not None else 0
        spelled = in_tokens(len(encode(summary)) - 2)  # as the timeline counts it
        world.compact(events, [one.item.uuid for one in gone], calls, summary=spelled, context=context)
        cache, grown = known.cache()
        scale, after = known.scale, world.tokens(chain.id)
        rewrites = bool(gone or firing.shortened)
        head = scale.head if rewrites else scale.prompt(before)
        sizes = Sizes(scale.prompt(before), scale.prompt(after), head, grown)
        self.fires.append(
            Fire(
                firing.trigger, known.turn, at, _messages(stay), _messages(gone), None if context else 0, sizes, cache,
                known.summary(sum(sizes.before - sizes.head for _ in gone[:1])), rewrites,
            )
        )  # fmt: skip


def _messages(entries: tuple[Entry, ...]) -> int:
    return sum(is_message(one.item) for one in entries)
