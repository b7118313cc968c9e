"""`lore fold`: the timeline of a session's main chain, with injected and pruned items, requests and usage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw

from lore.cache.prices import is_partial
from lore.errors import LoreError
from lore.fold.turns import MOST_TOKENS
from lore.formats.base import Read
from lore.model import events as e
from lore.model.items import CompactDivider, Item
from lore.model.results import store as results
from lore.model.state import Chain, Entry, FoldedSession, settled
from lore.model.vector import Vector
from lore.recording.base import Problems, Recording, collected_seldom
from lore.recording.events import session_log
from lore.recording.opening import Options
from lore.recording.request_session import session_of
from lore.run.rules import packaged

NOTHING = "events: there is nothing to fold"
HINT = "fold it without --follow; `lore convert` writes requests as a session's log"


class Folded(NamedTuple):
    """The result of folding a session."""

    result: results.FoldResult
    entries: Vector[Entry]  # the timeline, or pruned items

    @property
    def shown(self) -> list[Item]:
        """The items of the entries."""
        return [entry.item for entry in self.entries]


class TurnRows:
    """The requests of a session. As in the fold, the last two of a chain may still end."""

    def __init__(self) -> None:
        self.rows: list[results.TurnResult] = []
        self._latest: dict[str, list[int]] = {}

    def _add(self, row: results.TurnResult) -> None:
        self._latest[row.chain] = [*self._latest.get(row.chain, ())[-1:], len(self.rows)]
        self.rows.append(row)

    def latest(self, chain: str) -> results.TurnResult | None:
        """Return the latest request of a chain."""
        places = self._latest.get(chain)
        return self.rows[places[-1]] if places else None

    def take(self, event: e.TurnStarted | e.TurnCompleted | e.TurnFailed | e.TurnCanceled) -> None:
        """Add a turn's start or end; the end of any other turn is ignored."""
        if isinstance(event, e.TurnStarted):
            self._add(results.TurnResult(event.chain, event.turn, "open", event.at))
            return
        places = self._latest.get(event.chain, [])
        place = next((place for place in reversed(places) if self.rows[place].turn == event.turn), None)
        if place is None:
            return
        row, counts = self.rows[place], {} if event.usage is None else _counts(event.usage)
        if place == places[-1]:
            ended = {**dict.fromkeys(e.SUMMED_COUNTS), **counts}
            self.rows[place] = msgspec.structs.replace(row, state=_ENDS[type(event)], ended_at=event.at, **ended)
        elif counts:  # late usage of the previous turn
            self.rows[place] = msgspec.structs.replace(row, **counts)


_ENDS = {e.TurnCompleted: "completed", e.TurnFailed: "failed", e.TurnCanceled: "canceled"}
TURNS = (e.TurnStarted, e.TurnCompleted, e.TurnFailed, e.TurnCanceled)


def _counts(usage: e.Usage) -> dict[str, int | None]:
    """Return sums over the passes of a response; impossible counts are unknown, as in the fold."""
    sums: dict[str, int | None] = {}
    for name in e.SUMMED_COUNTS:
        known = [count for counts in usage.passes if (count := getattr(counts, name)) is not None]
        believable = [count for count in known if 0 <= count <= MOST_TOKENS]
        sums[name] = sum(believable) if believable else None
    return sums


class LogFold:
    """A session log while it is folded; the log itself is never changed."""

    def __init__(self, recording: Recording, *, unpruned: bool = False) -> None:
        self.recording = session_log(recording, NOTHING, hint=HINT)
        self.pruned: dict[str, Entry] = {}  # by uuid, in order
        self.turns = TurnRows()
        self._unpruned = unpruned  # a compaction only adds its divider

    def take(self, reads: Iterable[Read]) -> Iterator[e.Event]:
        """Fold events, and yield each after it is folded."""
        recording = self.recording
        for read in reads:
            event: e.Event = read.value  # pyright: ignore[reportAssignmentType]
            if isinstance(event, e.CompactApplied):
                yield self._compact(read, event)
                continue
            recording.apply(read, event)
            if isinstance(event, TURNS):
                self.turns.take(event)
            yield event

    def _compact(self, read: Read, event: e.CompactApplied) -> e.Event:
        """Fold a compaction and return the event that was folded; remember the items that it pruned."""
        if self._unpruned:
            divider = CompactDivider(
                event.uuid, event.trigger, event.pre_tokens, event.post_tokens, event.summary,
                duration_ms=event.duration_ms,
            )  # fmt: skip
            appended = e.Append(item=divider, chain=event.chain, at=event.at)
            self.recording.apply(read, appended)
            return appended
        before = settled(self.recording.state.chain(event.chain))  # with text that was streamed until here
        self.recording.apply(read, event)
        state = self.recording.state
        if event.chain == main_name(state):
            kept = {entry.item.uuid for entry in state.chain(event.chain).entries}
            self.pruned |= {entry.item.uuid: entry for entry in before.entries if entry.item.uuid not in kept}
        return event

    def result(self, *, only_pruned: bool = False) -> Folded:
        """Return the result up to here."""
        recording = self.recording
        state, main = recording.state, recording.state.main()
        entries = Vector(self.pruned.values()) if only_pruned else main.entries
        chains = [
            results.ChainResult(chain.id, chain.kind, chain.turns, len(chain.entries))
            for chain in state.chains.values()
        ]
        session = results.SessionResult(state.id, state.format, "reconstructed", main.model or state.model, chains)
        totals = [chain.totals for chain in state.chains.values()]
        partial = any(is_partial(packaged(), client) for total in totals for client in total.clients)
        usage = results.SessionUsage.sum_of(
            totals, turns=sum(total.turns for total in totals), partial_output=True if partial else UNSET
        )
        kept = list(recording.problems.kept)
        result = results.FoldResult(
            session=session,
            timeline=[Raw(msgspec.json.encode(entry.item)) for entry in entries],
            item_turns=[entry.turn for entry in entries],
            injected=[] if only_pruned else injected(main),
            pruned=list(self.pruned),
            turns=list(self.turns.rows),
            usage=usage,
            problems=kept,
        )
        return Folded(result, entries)


def injected(chain: Chain) -> list[results.InjectedResult]:
    """Return the texts between a chain's items, in order."""
    unsaved = {_name(event) for event in chain.unsaved}
    found: list[results.InjectedResult] = []
    for insert in sorted((*chain.deltas.values(), *chain.persisted, *chain.outside), key=lambda insert: insert.order):
        kind = "delta" if insert.is_delta else "outside" if insert.outside else "context"
        saved = (kind, insert.number) not in unsaved
        found.append(results.InjectedResult(kind, insert.number, insert.age + 1, insert.place, saved, insert.content))
    return found


def _name(event: e.Event) -> tuple[str, int]:
    """Return kind and number of the insert that an unsaved event made."""
    match event:
        case e.PromptDelta(seq=seq):
            return "delta", seq
        case e.ContextPersisted(turn=turn, outside=outside):
            return "outside" if outside else "context", turn
        case _:
            return "", 0


def fold(
    path: str, options: Options, *, at: int | None = None, unpruned: bool = False, only_pruned: bool = False
) -> Folded:
    """Fold a session log, or the session of recorded requests, up to the request of turn `at`.

    Raises LoreError for other files, and if there is no such turn.
    """
    recording = session_of(options.open(path, Problems(), subagents=True), NOTHING, hint=HINT)
    folding = LogFold(recording, unpruned=unpruned)
    reached = False
    with collected_seldom():
        for event in folding.take(recording.reads()):
            if isinstance(event, e.TurnStarted) and event.turn == at and event.chain == recording.state.main().id:
                reached = True
                break
        if at is not None and not reached:
            raise LoreError(f"{recording.shown} has no turn {at}", hint=f"it has {recording.state.main().turns} turns")
        return folding.result(only_pruned=only_pruned)


def main_name(state: FoldedSession) -> str:
    """Return the name of the main chain, or of the first chain."""
    return e.MAIN if e.MAIN in state.chains else next(iter(state.chains), e.MAIN)
