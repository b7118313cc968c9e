"""Execute a firing: learn from what goes, have a summary made, ask outside sources, make the events.

A summary that fails raises, and the caller prunes nothing, except in an overflow above 90 %, which has to make room:
its marker and the built-in summary are used instead, and `tell` hears why. A compaction that would not make the prompt
shorter is not made: `Done.refused` says so, and an overflow tries its next stage. May run in another thread than the
session's: states are immutable. The same session, firing and texts give the same events: `compact_started`,
`compact_applied`, the results that an overflow cuts, and outside context as `context_persisted`, directly before the
next real user message.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Raw, structs

from lore.asking import Summarizer, SummaryError, SummaryRequest, Waiting
from lore.cache.bills import total, unbelievable
from lore.compaction.activity import Tracker
from lore.compaction.base import Done, Firing, TimelineCut, Trigger, Window
from lore.compaction.costs import BillScale, Cache, PromptSizes, cheapest
from lore.compaction.extractive import Extractive
from lore.compaction.passes import summarized
from lore.compaction.policy import due, kept, latest, next_stage, opening, pruned, summary_room, with_results
from lore.compaction.settings import Compaction
from lore.compaction.transcripts import summary_in
from lore.model.canonical import encode
from lore.model.events import CompactApplied, CompactStarted, ContextPersisted, Event, PatchToolCall, ToolResultCleared
from lore.model.items import NULL, CompactDivider, is_absent
from lore.model.state import Chain, Entry, FoldedSession, settled
from lore.model.times import format_timestamp
from lore.prompt.entries import in_tokens, messages, overhead, tokens_of
from lore.prompt.layout import is_real
from lore.store.base import Tell
from lore.store.registry import silent
from lore.untrusted import SourceText, context_refresh

if TYPE_CHECKING:
    from lore.compaction.base import SessionMemory


def compacted(
    session: FoldedSession,
    chain: str,
    firing: Firing,
    summary: str,
    context: str | None = None,
    *,
    at: str | None = None,
) -> tuple[Event, ...]:
    """Return the events of a compaction. `chain` names the chain that `firing` was judged on, as it is now.

    `context` is outside context, wrapped already; None or empty for none. `at` is the time, RFC 3339. Costs
    O(entries).
    """
    held = settled(session.chain(chain))
    gone, stay = pruned(held.entries, firing.cut), kept(held.entries, firing.cut)
    events: list[Event] = []
    if firing.cut.place:
        before, after, text = _sizes(held, firing, summary)
        # What is pruned holds the previous divider, so every uuid differs.
        parts = [session.id, chain, *[entry.item.uuid for entry in gone], "", *[entry.item.uuid for entry in stay]]
        digest = hashlib.sha256(b"\0".join(encode(part) for part in parts)).hexdigest()
        made = CompactApplied(
            uuid=f"compact-{digest[:32]}", trigger=firing.trigger, pre_tokens=before, post_tokens=after,
            preserved_uuids=tuple([entry.item.uuid for entry in stay]) or None, summary=text, chain=chain, at=at,
        )  # fmt: skip
        events += (CompactStarted(trigger=firing.trigger, pre_tokens=made.pre_tokens, chain=chain, at=at), made)
    calls = latest(stay) if firing.shortened else {}
    for call_id, text in firing.shortened:  # as cleared ones, which says why the next prompt differs
        call, result = calls.get(call_id), Raw(encode(text))
        if call is not None:
            events.append(ToolResultCleared(call_ids=(call_id,), placeholder=result, chain=chain, at=at))
            if not is_absent(call.error):  # an error is read instead of a result
                events.append(PatchToolCall(call_id=call_id, status=call.status, error=result, chain=chain, at=at))
    outside = [*_unheard(held, firing), *([Raw(encode([{"role": "user", "text": context}]))] if context else [])]
    turn = 1 if held.turn is None else held.turn.turn + 1
    place = _place(held, firing, leading=session.divider == "before")
    events += [
        ContextPersisted(turn=turn, insert_at=place, content=text, outside=True, chain=chain, at=at) for text in outside
    ]
    return tuple(events)


class _Sizes(NamedTuple):
    """Estimates of a prompt in tokens, as compactions are decided by and logged, and the divider's text as JSON."""

    before: int
    after: int
    summary: Raw


def _sizes(chain: Chain, firing: Firing, summary: str) -> _Sizes:
    """Measure a compaction, outside context left out: who asks for it wants more to be said. Costs O(entries)."""
    head, stay = overhead(chain), kept(chain.entries, firing.cut)
    text = Raw(encode(summary or firing.marker)) if summary or firing.marker else NULL
    divider = [Entry(CompactDivider("", firing.trigger, summary=text), 0, 0)] if firing.cut.place else []
    after = tokens_of([*divider, *with_results(stay, firing.shortened)])
    return _Sizes(head + tokens_of(chain.entries), head + after, text)


LEAST = 48  # tokens: a summary that has less room says nothing (the first line of the built-in one takes 27)


class Prepared(NamedTuple):
    """A firing that makes the prompt shorter, with what it needs from outside: its summary, and what sources said,
    wrapped. `ids` are those of the entries before the cut; `refused`: why nothing is pruned (the cut is at 0).
    """

    firing: Firing
    summary: str = ""
    refused: str = ""
    context: str = ""
    ids: tuple[str, ...] = ()


def shorter(
    chain: Chain, firing: Firing, settings: Compaction, summaries: Callable[[Firing, SummaryRequest], Iterable[str]], *,
    tell: Tell,
) -> Prepared:  # fmt: skip
    """Return the first stage of a firing that makes the prompt shorter; `tell` hears of each that another one follows.

    `summaries` are tried in turn, as few as it takes, and never asked for where there is no room for one.
    """
    stage, refused = firing, ""
    while stage is not None and stage.cut.place:
        request = request_of(chain, stage, settings)
        fits = request.tokens >= min(LEAST, settings.summary_tokens)
        if not fits:
            gone = tokens_of(pruned(chain.entries, stage.cut))
            refused = f"the messages that would go are too short for a summary ({gone:,} tokens)"
        for summary in summaries(stage, request) if fits else ():
            sizes = _sizes(chain, stage, summary)
            if sizes.after < sizes.before:
                return Prepared(stage, summary)
            refused = f"the prompt would go from {sizes.before:,} to {sizes.after:,} tokens"
        stage = next_stage(chain.entries, stage)
        if stage is not None:
            tell(f"no {firing.trigger} compaction: {refused}; the next stage is tried")
    if stage is not None and stage.shortened:
        return Prepared(stage)
    window = None if firing.trigger == "cadence" else firing.window  # of sources alone: a cadence comes again
    return Prepared(Firing(firing.trigger, TimelineCut(0), window), refused=refused)


def _unheard(chain: Chain, firing: Firing) -> Iterator[Raw]:
    """Yield outside context that would be pruned before any request has carried it."""
    if chain.outside:
        came = max((place for place, entry in enumerate(chain.entries) if is_real(entry.item)), default=-1)
        for context in chain.outside:
            if came < context.place < firing.cut.place and context.place not in firing.cut.held:
                yield context.content


def _place(chain: Chain, firing: Firing, *, leading: bool) -> int:
    """Return the place of the next real user message once this is applied; the end where it has not come yet.

    `leading` says that the divider comes before what stays.
    """
    cut = firing.cut  # of place 0 where nothing goes, and no divider comes
    places = (*cut.held, *range(cut.place, len(chain.entries)))
    for new, old in enumerate(places, int(leading and cut.place > 0)):
        if old >= chain.sent and is_real(chain.entries[old].item):
            return new
    return int(cut.place > 0) + len(places)


class Dependencies(NamedTuple):
    """What a compaction works with: who sums up, who asks the sources about a window (what each said, harmless and cut
    already, as `commands.outside_context` returns it), the key of boundary lines, who remembers what goes. `waiting`
    surrounds each wait for a model or a command, and may raise there; the built-in summariser never waits.
    """

    summarizer: Summarizer
    ask: Callable[[Window], Sequence[SourceText]] | None = None
    key: bytes = b""
    tell: Tell = silent
    memory: SessionMemory | None = None
    waiting: Waiting = nullcontext


def execute(
    session: FoldedSession, chain: str, firing: Firing, settings: Compaction, dependencies: Dependencies, *,
    at: float | None,
) -> Done:  # fmt: skip
    """Return the events of a firing that was judged on a chain as it is here; raises SummaryError, LoreError."""
    done = finish(session, chain, prepare(session, chain, firing, settings, dependencies), at=at)
    assert done is not None, "nothing has changed since it was judged"
    return done


def prepare(
    session: FoldedSession, chain: str, firing: Firing, settings: Compaction, dependencies: Dependencies
) -> Prepared:
    """Learn from what is pruned, ask the sources and the summariser: slow. Raises SummaryError, LoreError."""
    held, tell = settled(session.chain(chain)), dependencies.tell
    if firing.final:
        tell("what stays fills more than 90 % of the window even so: nothing more can go")

    def summaries(stage: Firing, request: SummaryRequest) -> Iterator[str]:
        if dependencies.memory is not None:  # learns from all that this stage drops
            dependencies.memory.before_drop(held.entries, stage.cut.place)
        why = "the summariser's would make the prompt longer"
        try:
            yield _audited(dependencies, request, settings)
        except SummaryError as error:
            if not stage.marker:
                raise
            why = error.message
        if stage.marker:  # room has to be made
            tell(f"an overflow with a summary by rule: {why}")
            most = max(0, request.tokens - in_tokens(len(stage.marker)) - 1)
            yield f"{stage.marker}\n\n{Extractive().summarize(request._replace(tokens=most)).text}".strip()

    made, context = shorter(held, firing, settings, summaries, tell=tell), ""
    window = made.firing.window
    if window is not None and dependencies.ask is not None:
        with dependencies.waiting():
            answers = dependencies.ask(window)
        context = context_refresh(answers, session_id=session.id, key=dependencies.key, at=window.end)
    return made._replace(context=context, ids=_ids(held, made.firing))


def _audited(dependencies: Dependencies, request: SummaryRequest, settings: Compaction) -> str:
    """Have a summary made, and note answers that could not be used; raises SummaryError."""
    faults, failure, summarizer = list[str](), "", dependencies.summarizer
    try:
        with nullcontext() if isinstance(summarizer, Extractive) else dependencies.waiting():
            return summarized(summarizer, request, settings, tell=dependencies.tell, unusable=faults.append)
    except SummaryError as error:
        failure = error.message
        raise
    finally:
        if faults and dependencies.memory is not None:
            dependencies.memory.note_summary(len(faults), failure)


def finish(session: FoldedSession, chain: str, prepared: Prepared, *, at: float | None) -> Done | None:
    """Make the events of what was prepared, on the session as it is by now; None where what was to go has changed."""
    held, firing = settled(session.chain(chain)), prepared.firing
    if len(held.entries) < firing.cut.place or _ids(held, firing) != prepared.ids:
        return None
    stamp = None if at is None else format_timestamp(at)
    events = compacted(session, chain, firing, prepared.summary, prepared.context, at=stamp)
    gone, stay = messages(pruned(held.entries, firing.cut)), messages(kept(held.entries, firing.cut))
    context = in_tokens(len(prepared.context.encode("utf-8", "replace")))
    return Done(firing.trigger, events, gone, stay, context, prepared.refused)


def _ids(chain: Chain, firing: Firing) -> tuple[str, ...]:
    return tuple([entry.item.uuid for entry in islice(chain.entries, firing.cut.place)])


def scale_of(tracker: Tracker, chain: Chain) -> BillScale:
    """Return how a chain's latest bill differs from the estimate of what was sent. Costs O(entries).

    What stands before the timeline is no longer than the shortest prompt that was billed; the rest of the difference
    is how many tokens an estimated one is. A bill from before the latest compaction says nothing of what is there now.
    """
    usage, least = None if chain.last is None else chain.last.usage, tracker.chain(chain.id).least_billed
    whole = None if usage is None or unbelievable(usage) else total(usage)
    turn = chain.turn
    is_compacted = turn is not None and any(
        isinstance(entry.item, CompactDivider) and entry.item.pruned and entry.turn == turn.turn
        for entry in chain.entries
    )
    if whole is None or least is None or not chain.sent or is_compacted:
        return BillScale(overhead(chain))
    sent = tokens_of(tuple(islice(chain.entries, chain.sent)))
    return BillScale.of(whole, sent, min(max(0, whole - sent), least))


def judged(
    tracker: Tracker, chain: Chain, settings: Compaction, ask: Collection[Trigger], *, now: float | None,
    agent: str | None = None, scale: BillScale | None = None, tokens: int | None = None,
) -> Firing | None:  # fmt: skip
    """Ask the policy about a chain, its window and what stands before the timeline as they were billed.

    `scale` and `tokens`, the estimate of its timeline, where they are known.
    """
    before = 0
    if settings.window and "overflow" in ask:
        scale = scale_of(tracker, chain) if scale is None else scale
        before = max(overhead(chain), scale.estimated(scale.head))
        settings = structs.replace(settings, window=max(1, scale.estimated(settings.window)))
    return due(
        tracker.chain(chain.id), chain.entries, settings, now=now, agent=agent, overhead=before, tokens=tokens, ask=ask,
    )  # fmt: skip


def waits(
    firing: Firing, tracker: Tracker, chain: Chain, settings: Compaction, cache: Cache | None, now: float,
) -> bool:  # fmt: skip
    """Tell whether a cadence had better wait until the cache has gone cold anyway: `when = "cheapest"`.

    As far as can be foreseen: so many requests come before a pause as did on average, and as many behind it.
    """
    if settings.when != "cheapest" or firing.trigger != "cadence" or cache is None or cache.lives is None:
        return False
    if not cache.is_warm(tracker.pause(now)):
        return False
    until, scale = tracker.until(cache.lives), scale_of(tracker, chain)
    after = tokens_of(kept(chain.entries, firing.cut)) + request_of(chain, firing, settings).tokens
    before = tokens_of(chain.entries)
    grown = before // max(1, tracker.requests)
    sizes = PromptSizes(scale.prompt(before), scale.prompt(after), scale.head, grown)
    return cheapest(sizes, cache, 2 * until, until, warm=True).moment == "later"


def request_of(chain: Chain, firing: Firing, settings: Compaction) -> SummaryRequest:
    """Return what a summariser is asked for a firing; the summary among the pruned entries is the previous one."""
    gone = pruned(chain.entries, firing.cut)
    room = summary_room(gone, settings.summary_tokens)
    return SummaryRequest(gone, opening(chain.entries, firing.cut), summary_in(gone), room)
