"""One session as it would be with a policy: folded beside the recorded one, with compactions of its own.

In: the recorded events. Out: the timeline with the policy's compactions applied, and its size in tokens. Rules: what a
recorded event says of items that the policy has pruned already is left out, and is no problem of the recording; a
recorded compaction stays, and keeps what of its items is still there. Costs O(1) an event, O(items) a compaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from lore.compaction.activity import TimelineSizes
from lore.compaction.tracking import Tracker
from lore.fold.step import Folding
from lore.model.events import Append, CompactApplied, Event, PatchText, PatchToolCall, Remove, ToolResultCleared
from lore.model.items import ToolCall
from lore.model.state import Chain, Session


class Counterfactual:
    """A session with the compactions of a policy.

    `added` are the tokens that these put in and that are still there, outside context included (it is counted without
    events: no source was asked). `rewritten`: no request has gone out since something was pruned or cut. `new` are the
    tokens that were added without pruning since the last request. Call `sent` with each request.
    """

    def __init__(self, format: str) -> None:
        self._folding = Folding(Session(format=format))
        self._sizes = TimelineSizes()
        self._gone: set[str] = set()
        self._calls: set[str] = set()
        self.tracker = Tracker()
        self.added = self._context = 0
        self.new = 0
        self.rewritten = False

    def take(self, event: Event) -> None:
        """Apply an event of the recording, as far as it speaks of what is still there."""
        self.tracker.feed(event)
        if self._gone:
            left = self._left(event)
            if left is None:
                return
            event = left
        if isinstance(event, CompactApplied):
            self.added = self._context = 0
        self._folding.apply(event)

    def chain(self, name: str) -> Chain:
        """Return a chain as it is here."""
        return self._folding.chain(name)

    @property
    def state(self) -> Session:
        """The session as it is here. Costs O(chains)."""
        return self._folding.state()

    def tokens(self, name: str) -> int:
        """Estimate a chain's timeline in tokens, outside context too. Costs O(what changed since it was last asked)."""
        return self._sizes.tokens_of(self.chain(name).entries) + self._context

    def compact(
        self, events: Iterable[Event], gone: Collection[str], calls: Iterable[str], *, summary: int, context: int
    ) -> None:  # fmt: skip
        """Apply a compaction of the policy, which takes these uuids and calls away and puts so many tokens in."""
        self._gone.update(gone)
        self._calls.update(calls)
        for event in events:
            self.tracker.feed(event)
            self._folding.apply(event)
        if gone:
            self.added, self._context, self.new = summary + context, context, 0
        else:  # results were cut, or sources asked alone: what was put in before still stands
            self.added, self._context, self.new = self.added + context, self._context + context, self.new + context
        self.rewritten = self.rewritten or not context or bool(gone)

    def sent(self) -> None:
        """Take that a request has gone out."""
        self.rewritten, self.new = False, 0

    def _left(self, event: Event) -> Event | None:
        """Return what an event says of items that are still there; None where that is nothing."""
        match event:
            case PatchText():
                return None if event.uuid in self._gone else event
            case PatchToolCall():
                return None if event.call_id in self._calls else event
            case ToolResultCleared():
                ids = tuple([call_id for call_id in event.call_ids if call_id not in self._calls])
                return replace(event, call_ids=ids) if ids else None
            case Remove():
                uuids = tuple([uuid for uuid in event.uuids if uuid not in self._gone])
                return replace(event, uuids=uuids) if uuids else None
            case CompactApplied():
                kept = tuple([uuid for uuid in event.preserved_uuids or () if uuid not in self._gone])
                return replace(event, preserved_uuids=kept)
            case Append():
                self._gone.discard(event.item.uuid)
                if isinstance(event.item, ToolCall):
                    self._calls.discard(event.item.call_id)
                return event
            case _:
                return event
