"""What a log says further on: deltas, contexts and resets that were derived for earlier turns and saved later.

`lore assemble --persist` appends behind the turns that it is about. What was sent with a turn is what the
log says, not what other settings (or another version of lore) would derive today: so these records are
looked up before a turn is planned, and only what is not recorded is derived.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from lore.model.events import CacheReset, ContextPersisted, Event, PromptDelta

Saved: TypeAlias = PromptDelta | ContextPersisted | CacheReset
KINDS = (b"prompt_delta", b"context_persisted", b"cache_reset")  # a line that says none of these is none


class Ahead:
    """The saved events of a log, by chain and turn. Only those that name their turn can be looked up."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._deltas: dict[tuple[str, int], list[PromptDelta]] = {}
        self._contexts: dict[tuple[str, int], ContextPersisted] = {}
        self._resets: dict[tuple[str, int], CacheReset] = {}
        self._seqs: dict[str, int] = {}
        for one in events:
            self.note(one)

    def note(self, event: Event) -> None:
        """Remember an event, if it is one that was saved; of two for one turn the first holds."""
        match event:
            case PromptDelta(turn=int(turn), chain=chain):
                self._deltas.setdefault((chain, turn), []).append(event)
                self._seqs[chain] = max(self._seqs.get(chain, 0), event.seq + 1)
            case ContextPersisted(turn=turn, chain=chain, outside=False):  # that from outside is never derived
                self._contexts.setdefault((chain, turn), event)
            case CacheReset(turn=int(turn), chain=chain):
                self._resets.setdefault((chain, turn), event)
            case _:
                pass

    def deltas(self, chain: str, turn: int) -> list[PromptDelta]:
        """Return the deltas that were first sent with a turn."""
        return self._deltas.get((chain, turn), [])

    def context(self, chain: str, turn: int) -> ContextPersisted | None:
        """Return what a turn's context was written as."""
        return self._contexts.get((chain, turn))

    def reset(self, chain: str, turn: int) -> CacheReset | None:
        """Return the reset that was made for a turn."""
        return self._resets.get((chain, turn))

    def seq(self, chain: str, least: int) -> int:
        """Return a seq that no saved delta of a chain has."""
        return max(least, self._seqs.get(chain, 0))
