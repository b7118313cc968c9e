"""Fold a session: what `lore fold` answers.

In: a session log. Out: the main chain's timeline, what compactions pruned, sums. Rules: `at` stops before
a turn's request goes out, so that the timeline is what its prompt was made of; `unpruned` reads every
compaction as its divider alone, so that nothing is hidden; nothing is ever removed from the log.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Raw

from lore.errors import LoreError
from lore.model.events import Append, CompactApplied, Event, TurnStarted
from lore.model.items import CompactDivider, Item
from lore.model.results import ChainResult, FoldResult, SessionResult, UsageResult
from lore.model.state import Chain, Session, Totals
from lore.run.options import Options
from lore.run.problems import Problems


class Folded(NamedTuple):
    """The result, and the items that it shows: the timeline, or what compactions pruned."""

    result: FoldResult
    shown: list[Item]


def fold(
    path: str, options: Options, *, at: int | None = None, unpruned: bool = False, only_pruned: bool = False
) -> Folded:
    """Fold a session; raises LoreError for recordings of requests, which hold no events."""
    problems = Problems()
    recording = options.open(path, problems, subagents=True)
    if not recording.events:
        raise LoreError(
            f"{recording.shown} holds request bodies, not events: there is nothing to fold",
            hint="compare its turns with `lore diff-prefix`, judge them with `lore check`",
        )
    gone: dict[str, Item] = {}
    reached = False
    for read in recording.reads():
        event: Event = read.value  # pyright: ignore[reportAssignmentType]
        if isinstance(event, CompactApplied) and unpruned:
            event = _divider_only(event)
        before = recording.state.chain(event.chain)
        recording.apply(read, event)
        if isinstance(event, CompactApplied) and event.chain == recording.state.main().id:
            gone.update(_pruned(before, recording.state.chain(event.chain)))
        if isinstance(event, TurnStarted) and event.chain == recording.state.main().id and event.turn == at:
            reached = True
            break
    if at is not None and not reached:
        raise LoreError(f"{recording.shown} has no turn {at}", hint=f"it has {recording.state.main().turns} turns")
    return _result(recording.state, gone, problems, only_pruned=only_pruned)


def _divider_only(event: CompactApplied) -> Append:
    divider = CompactDivider(event.uuid, event.trigger, event.pre_tokens, event.post_tokens, event.summary)
    return Append(item=divider, chain=event.chain, at=event.at)


def _pruned(before: Chain, after: Chain) -> dict[str, Item]:
    kept = {entry.item.uuid for entry in after.entries}
    return {entry.item.uuid: entry.item for entry in before.entries if entry.item.uuid not in kept}


def _result(state: Session, gone: dict[str, Item], problems: Problems, *, only_pruned: bool) -> Folded:
    main = state.main()
    shown = list(gone.values()) if only_pruned else [entry.item for entry in main.entries]
    chains = [ChainResult(one.id, one.kind, one.turns, len(one.entries)) for one in state.chains.values()]
    session = SessionResult(state.id, state.format, "reconstructed", main.model or state.model, chains)
    usage = _sum([one.totals for one in state.chains.values()])
    raws = [Raw(msgspec.json.encode(item)) for item in shown]
    result = FoldResult(session=session, timeline=raws, pruned=list(gone), usage=usage, problems=problems.kept)
    return Folded(result, shown)


def _sum(totals: list[Totals]) -> UsageResult:
    sums: dict[str, int | None] = {}
    for name in ("fresh_tokens", "read_tokens", "write_tokens", "output_tokens"):
        known = [count for one in totals if (count := getattr(one, name)) is not None]
        sums[name] = sum(known) if known else None
    return UsageResult(sum(one.turns for one in totals), **sums)
