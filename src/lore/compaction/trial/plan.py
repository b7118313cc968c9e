"""A policy at work on one counterfactual session: asked at its places, its firings applied, what each of them cost.

`moment` says when a cadence compacts: at once, or (`later`) when the cache has gone cold anyway: it waits for the first
pause that is longer than entries live. Gaps and overflows never wait: one is after a pause, the other cannot.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, NamedTuple

from msgspec import structs

from lore.cache.rules import Rules
from lore.compaction.activity import in_tokens, messages, overhead
from lore.compaction.base import Firing, Trigger
from lore.compaction.costs import FREE, BillScale, Cache, PromptSizes
from lore.compaction.cutting import kept, pruned
from lore.compaction.executor import compacted, in_estimates, request_of, timestamp
from lore.compaction.extractive import Extractive
from lore.compaction.policy import PolicyInput, due, silence
from lore.compaction.prices import cost_of, dollars, summary_price
from lore.compaction.settings import Compaction
from lore.compaction.trial.counterfactual import Counterfactual
from lore.compaction.trial.ledger import Ledger
from lore.model.canonical import encode
from lore.model.compacted import Fired
from lore.model.items import ToolCall
from lore.model.state import Chain, settled

Moment = Literal["now", "later"]
EXTRACTIVE = Extractive()


class RecordedState(NamedTuple):
    """What is known of the recorded session when a policy is asked: the latest turn and its cache, by how many tokens
    a turn grows, how bills differ from estimates, when the session was last heard of.
    """

    turn: int = 0
    cache: Cache = Cache(None)
    grown: int = 0
    scale: BillScale = BillScale()
    last: float | None = None

    def is_cold(self, at: float | None) -> bool:
        """Tell whether the cache has surely forgotten the session by then."""
        return self.cache.is_warm(None if at is None or self.last is None else at - self.last) is False


@dataclass(slots=True)
class TrialFiring:
    """A firing, and what came of it so far: `saved` over `turns`, None once a turn's cost was not known."""

    trigger: Trigger
    turn: int
    at: float | None
    kept: int
    pruned: int
    context: int | None
    sizes: PromptSizes
    cache: Cache
    summary: Decimal | None
    rewrites: bool = True
    warm: bool | None = None
    saved: Decimal | None = FREE
    turns: int = 0

    def follow(self, recorded: Decimal | None, compacted: Decimal | None) -> None:
        """Take what a turn behind it cost as it was recorded, and what it would have cost."""
        self.turns += 1
        if self.saved is None or recorded is None or compacted is None:
            self.saved = None
        else:
            self.saved += recorded - compacted

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
    """A counterfactual session with a policy. `pause` is the longest that ended when somebody spoke, in seconds."""

    def __init__(self, format: str, settings: Compaction, rules: Rules, moment: Moment) -> None:
        self.session = Counterfactual(format)
        self.moment = moment
        self.ledger = Ledger()
        self.firings: list[TrialFiring] = []
        self.overfull = 0
        self.pause: float | None = None
        self._settings = settings
        self._rules = rules
        self._waits = False

    def wake(self, known: RecordedState, chain: str, at: float | None) -> None:
        """Fire what has waited for a cold cache, if it is cold by now."""
        if self._waits and known.is_cold(at):
            self.ask(("manual",), known, chain, at, called="cadence")

    def ask(
        self, triggers: Collection[Trigger], known: RecordedState, name: str, at: float | None, *,
        agent: str | None = None, called: Trigger | None = None,
    ) -> None:  # fmt: skip
        """Ask the policy about a chain, and apply what is due; `called` is the trigger's name in the results."""
        session, scale = self.session, known.scale
        chain, tracked = settled(session.chain(name)), session.tracker.chain(name)
        user = session.tracker.user
        if "gap" in triggers:
            pause = silence(PolicyInput(tracked, chain.entries, self._settings, at, agent, user))
            self.pause = max((length for length in (self.pause, pause) if length is not None), default=None)
        firing = due(
            tracked, chain.entries, in_estimates(self._settings, scale), now=at, agent=agent, user=user,
            overhead=max(scale.estimated(scale.head), overhead(chain)), tokens=session.tokens(name), ask=triggers,
        )  # fmt: skip
        if firing is None:
            self._waits = self._waits and called is None
        elif firing.trigger == "cadence" and self.moment == "later" and not known.is_cold(at):
            self._waits = True
        else:
            self._waits = False
            self._fire(firing._replace(trigger=called or firing.trigger), known, chain, at)

    def _fire(self, firing: Firing, known: RecordedState, chain: Chain, at: float | None) -> None:
        session, settings, entries = self.session, self._settings, chain.entries
        gone = pruned(entries, firing.cut) if firing.cut.place else ()
        stay = kept(entries, firing.cut) if firing.cut.place else tuple(entries)
        summary = EXTRACTIVE.summarize(request_of(chain, firing, settings)).text if gone else ""
        before = session.tokens(chain.id)
        # Sources that are asked alone leave one event, whatever they say: a space stands for it.
        unsaid = " " if firing.window is not None and not gone else None
        stamp = None if at is None else timestamp(at)
        events = compacted(session.state, chain.id, firing, summary, unsaid, at=stamp)
        calls = [entry.item.call_id for entry in gone if isinstance(entry.item, ToolCall)]
        context = settings.context_token_cap if settings.context_sources and firing.window is not None else 0
        spelled = in_tokens(len(encode(summary)) - 2)  # as the timeline counts it
        session.compact(events, [entry.item.uuid for entry in gone], calls, summary=spelled, context=context)
        scale, after = known.scale, session.tokens(chain.id)
        rewrites = bool(gone or firing.shortened)
        head = scale.head if rewrites else scale.prompt(before)
        sizes = PromptSizes(scale.prompt(before), scale.prompt(after), head, known.grown)
        asked_tokens = sizes.before - sizes.head if gone else 0
        cost = summary_price(self._rules, settings, asked_tokens, known.last)
        self.firings.append(
            TrialFiring(
                firing.trigger, known.turn, at, messages(stay), messages(gone), None if context else 0, sizes,
                known.cache, cost, rewrites,
            )
        )  # fmt: skip
