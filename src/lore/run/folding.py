"""Fold a session: what `lore fold` answers.

In: a session log. Out: the main chain's timeline, what compactions pruned, sums. Rules: `at` stops before
a turn's request goes out, so that the timeline is what its prompt was made of; `unpruned` reads every
compaction as its divider alone, so that nothing is hidden; nothing is ever removed from the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from msgspec import Raw

from lore.cache.billing import is_partial
from lore.errors import LoreError
from lore.formats.base import Read
from lore.model.events import MAIN, Append, CompactApplied, Event, TurnStarted
from lore.model.items import CompactDivider, Item
from lore.model.results_store import ChainResult, FoldResult, SessionResult, UsageResult
from lore.model.state import Session, Totals
from lore.recording.base import Problems, Recording, collected_seldom
from lore.recording.events import session_log
from lore.recording.opening import Options
from lore.run.rules import packaged


class Folded(NamedTuple):
    """The result, and the items that it shows: the timeline, or what compactions pruned."""

    result: FoldResult
    shown: list[Item]


class LogFold:
    """A session log while it is folded; `pruned` holds what compactions took, by uuid, in order.

    The items themselves are kept in it only where `keep` says that they will be shown.
    """

    def __init__(self, recording: Recording, *, unpruned: bool = False, keep: bool = False) -> None:
        hint = "compare its turns with `lore diff-prefix`, judge them with `lore check`"
        self.recording = session_log(recording, "events: there is nothing to fold", hint=hint)
        self.pruned: dict[str, Item | None] = {}
        self._unpruned = unpruned
        self._keep = keep

    def take(self, reads: Iterable[Read]) -> Iterator[Event]:
        """Fold what was read, event by event; yield each once it is folded."""
        recording = self.recording
        for read in reads:
            event: Event = read.value  # pyright: ignore[reportAssignmentType]
            if isinstance(event, CompactApplied):
                yield self._compact(read, event)
                continue
            recording.apply(read, event)
            yield event

    def take_all(self, reads: Iterable[Read]) -> None:
        """Fold what was read."""
        for _ in self.take(reads):
            pass

    def _compact(self, read: Read, event: CompactApplied) -> Event:
        taken: Event = event
        if self._unpruned:
            divider = CompactDivider(
                event.uuid, event.trigger, event.pre_tokens, event.post_tokens, event.summary,
                duration_ms=event.duration_ms,
            )  # fmt: skip
            taken = Append(item=divider, chain=event.chain, at=event.at)
        before = self.recording.state.chain(event.chain)
        self.recording.apply(read, taken)
        state = self.recording.state
        if taken is event and event.chain == main_name(state):
            kept = {entry.item.uuid for entry in state.chain(event.chain).entries}
            gone = [entry.item for entry in before.entries if entry.item.uuid not in kept]
            self.pruned.update({item.uuid: item if self._keep else None for item in gone})
        return taken

    def result(self, *, only_pruned: bool = False) -> Folded:
        """Return the result as it stands."""
        recording = self.recording
        state, main = recording.state, recording.state.main()
        shown = [item for item in self.pruned.values() if item is not None]
        if not only_pruned:
            shown = [entry.item for entry in main.entries]
        raws = [Raw(msgspec.json.encode(item)) for item in shown]
        chains = [ChainResult(chain.id, chain.kind, chain.turns, len(chain.entries)) for chain in state.chains.values()]
        session = SessionResult(state.id, state.format, "reconstructed", main.model or state.model, chains)
        usage = _sum([chain.totals for chain in state.chains.values()])
        if any(is_partial(packaged(), client) for chain in state.chains.values() for client in chain.totals.clients):
            usage = msgspec.structs.replace(usage, partial_output=True)
        kept = list(recording.problems.kept)
        result = FoldResult(session=session, timeline=raws, pruned=list(self.pruned), usage=usage, problems=kept)
        return Folded(result, shown)


def fold(
    path: str, options: Options, *, at: int | None = None, unpruned: bool = False, only_pruned: bool = False
) -> Folded:
    """Fold a session; raises LoreError for recordings of requests, which hold no events."""
    folding = LogFold(options.open(path, Problems(), subagents=True), unpruned=unpruned, keep=only_pruned)
    recording = folding.recording
    reached = False
    with collected_seldom():
        for event in folding.take(recording.reads()):
            if isinstance(event, TurnStarted) and event.turn == at and event.chain == recording.state.main().id:
                reached = True
                break
        if at is not None and not reached:
            raise LoreError(f"{recording.shown} has no turn {at}", hint=f"it has {recording.state.main().turns} turns")
        return folding.result(only_pruned=only_pruned)


def main_name(state: Session) -> str:
    """Return the name of the chain that is shown, without joining any text that still arrives."""
    return MAIN if MAIN in state.chains else next(iter(state.chains), MAIN)


def _sum(totals: list[Totals]) -> UsageResult:
    sums: list[int | None] = []
    for name in ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens"):
        known = [count for total in totals if (count := getattr(total, name)) is not None]
        sums.append(sum(known) if known else None)
    uncached, read, write, output = sums
    return UsageResult(sum(total.turns for total in totals), uncached, read, write, output)
