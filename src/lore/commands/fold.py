"""`lore fold`: the timeline of a session's main chain, with injected and pruned items, requests and usage."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from lore.cache.rules import is_partial
from lore.commands import common, flags
from lore.errors import LoreError
from lore.fold.turns import MOST_UNENDED, STATES, clear_impossible_counts
from lore.judge.totals import list_unjudged
from lore.model import events as e
from lore.model.items import CompactDivider, Item
from lore.model.results import UsageResult
from lore.model.results import store as results
from lore.model.state import Chain, Entry, with_streamed_text
from lore.recording.base import Problems, collected_seldom
from lore.recording.opening import Options
from lore.recording.request_session import session_of
from lore.report.timeline import write
from lore.run.rules import packaged


class FoldOptions(common.CommonOptions, frozen=True):
    """The options of `lore fold`."""

    session: Annotated[str, "SESSION", "A session log, a stored session (URL#ID), or `-`."]
    at: Annotated[int | None, "The timeline as this turn's request was sent."] = None
    pruned: Annotated[bool, "Show what compactions pruned instead."] = False
    unpruned: Annotated[bool, "Show everything, compactions as dividers only."] = False
    redact: flags.Redact = False
    as_json: flags.AsJson = False
    format: flags.Format = None


@common.takes(FoldOptions)
def run(options: FoldOptions) -> int:
    """Show a session's timeline: messages, tool calls, compactions, and the usage of each request.

    Exit code 3 if a part of the session cannot be read.
    """
    rules = common.find_settings(options.config).settings.assemble
    opening = Options(format=options.format, rules=rules, log=common.log(options.verbose))
    common.refuse((options.pruned and options.unpruned, "--pruned and --unpruned are different views", "choose one"))
    with common.redact_errors(redact=options.redact):
        folded = fold(options.session, opening, at=options.at, unpruned=options.unpruned, only_pruned=options.pruned)
    result, items = folded.result, folded.items
    if options.redact:
        from lore.report.redacted import redacted_fold

        result, items = redacted_fold(result, items)
    if options.as_json:
        common.write_json(result)
    else:
        write(result, items, common.out(options.color), title="pruned by compaction" if options.pruned else "")
    rows = len(result.timeline) or len(result.turns)
    unread = list_unjudged(result.problems, rows, has_findings=False)
    common.name_unjudged(unread, "not read", verbose=options.verbose)
    return common.exit_code(unread, judged=rows)


class Folded(NamedTuple):
    """The result of folding a session."""

    result: results.FoldResult
    items: list[Item]  # the timeline, or pruned items


class TurnRows:
    """Collects a session's requests, and their ends as the fold accepts them."""

    def __init__(self) -> None:
        self.rows: list[results.TurnResult] = []
        self._places: dict[str, list[int]] = {}  # by chain: the last two requests, and earlier ones that are open
        self._inherited: set[int] = set()  # places of requests that a fork's log holds, and another session sent
        self._clients: set[str] = set()  # the programs that noted the usage of the others

    def usage(self) -> results.SessionUsage:
        """Return sums over the requests, without inherited ones."""
        own_rows = [row for place, row in enumerate(self.rows) if place not in self._inherited]
        partial = any(is_partial(packaged(), client) for client in self._clients)
        return results.SessionUsage.sum_of(own_rows, turns=len(own_rows), partial_output=True if partial else UNSET)

    def take(self, event: e.TurnStarted | e.TurnCompleted | e.TurnFailed | e.TurnCanceled) -> None:
        """Add a request at its start; at an end, update its row.

        An end counts if its request is open or the chain's latest; for the request before the latest it only corrects
        the usage. Other ends are ignored.
        """
        places = self._places.get(event.chain, [])
        if isinstance(event, e.TurnStarted):
            if event.call is not None and event.call.inherited_from:
                self._inherited.add(len(self.rows))
            open_places = [place for place in places[:-1] if self.rows[place].state == "open"][-MOST_UNENDED:]
            self._places[event.chain] = [*open_places, *places[-1:], len(self.rows)]
            self.rows.append(results.TurnResult(event.chain, event.turn, "open", event.at))
            return
        place = next((place for place in reversed(places) if self.rows[place].turn == event.turn), None)
        if place is None:
            return
        row, counts = self.rows[place], {} if event.usage is None else _counts(event.usage)
        if event.usage is not None and place not in self._inherited:
            self._clients.add(event.usage.client)
        if place == places[-1] or row.state == "open":
            ended = {**dict.fromkeys(e.SUMMED_COUNTS), **counts}
            self.rows[place] = msgspec.structs.replace(row, state=STATES[type(event)], ended_at=event.at, **ended)
        elif counts and place == places[-2]:  # corrected usage of the previous turn
            self.rows[place] = msgspec.structs.replace(row, **counts)


TURNS = (e.TurnStarted, e.TurnCompleted, e.TurnFailed, e.TurnCanceled)


def _counts(usage: e.Usage) -> dict[str, int | None]:
    """Return sums over the passes of a response; impossible counts are unknown, as in the fold."""
    valid_usage, _ = clear_impossible_counts(usage)
    sums = UsageResult.sum_of(() if valid_usage is None else valid_usage.passes)
    return {name: getattr(sums, name) for name in e.SUMMED_COUNTS}


def list_injected(chain: Chain) -> list[results.InjectedResult]:
    """Return the texts between a chain's items, in order."""
    unsaved: set[tuple[str, int]] = set()  # kind and number
    for event in chain.unsaved:
        if isinstance(event, e.PromptDelta):
            unsaved.add(("delta", event.seq))
        elif isinstance(event, e.ContextPersisted):
            unsaved.add(("outside" if event.outside else "context", event.turn))
    texts: list[results.InjectedResult] = []
    for insert in sorted((*chain.deltas.values(), *chain.persisted, *chain.outside), key=lambda insert: insert.order):
        kind = "delta" if insert.is_delta else "outside" if insert.outside else "context"
        saved = (kind, insert.number) not in unsaved
        texts.append(results.InjectedResult(kind, insert.number, insert.age + 1, insert.place, saved, insert.content))
    return texts


def fold(
    path: str, options: Options, *, at: int | None = None, unpruned: bool = False, only_pruned: bool = False
) -> Folded:
    """Fold a session log, or the session of recorded requests, up to the request of turn `at`.

    `unpruned`: a compaction only adds its divider; `only_pruned`: the timeline is what compactions pruned. Raises
    LoreError for other files, and if there is no such turn.
    """
    opened = options.open(path, Problems(), subagents=True)
    hint = "name a session log, or recorded requests"
    recording = session_of(opened, "events: there is nothing to fold", hint=hint)
    pruned, turns, is_reached = dict[str, Entry](), TurnRows(), at is None
    with collected_seldom():
        for read in recording.reads():
            event: e.Event = read.value  # pyright: ignore[reportAssignmentType]
            if isinstance(event, e.CompactApplied) and unpruned:
                counts = event.pre_tokens, event.post_tokens
                divider = CompactDivider(
                    event.uuid, event.trigger, *counts, event.summary, duration_ms=event.duration_ms
                )
                event = e.Append(item=divider, chain=event.chain, at=event.at)
            if isinstance(event, e.CompactApplied):
                old_chain = with_streamed_text(recording.state.chain(event.chain))
                recording.apply(read, event)
                if old_chain.id == recording.state.main().id:
                    uuids = {entry.item.uuid for entry in recording.state.chain(old_chain.id).entries}
                    pruned |= {entry.item.uuid: entry for entry in old_chain.entries if entry.item.uuid not in uuids}
                continue
            recording.apply(read, event)
            if isinstance(event, TURNS):
                turns.take(event)
            if isinstance(event, e.TurnStarted) and event.turn == at and event.chain == recording.state.main().id:
                is_reached = True
                break
    state, main = recording.state, recording.state.main()
    if not is_reached:
        raise LoreError(f"{recording.shown} has no turn {at}", hint=f"it has {main.turns} turns", own=True)
    entries = list(pruned.values() if only_pruned else main.entries)
    chains = [
        results.ChainResult(chain.id, chain.kind, chain.turns, len(chain.entries)) for chain in state.chains.values()
    ]
    result = results.FoldResult(
        session=results.SessionResult(state.id, state.format, "reconstructed", main.model or state.model, chains),
        timeline=[Raw(msgspec.json.encode(entry.item)) for entry in entries],
        item_turns=[entry.turn for entry in entries], injected=[] if only_pruned else list_injected(main),
        pruned=list(pruned), turns=turns.rows, usage=turns.usage(), problems=recording.problems.kept,
    )  # fmt: skip
    return Folded(result, [entry.item for entry in entries])
