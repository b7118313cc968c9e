"""A fall that no evidence explains: every reason that was examined, with its figure if the recording shows one.

A prompt that was built from a transcript has no breakpoints, parameters or endpoint to examine. In a cache without
breakpoints reads fall although nothing changed, because requests reach other machines: LORE130 instead of LORE301.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from lore.cache import counts
from lore.cache.lookback import POSITIONS, lookback_gap
from lore.cache.served import served_by
from lore.judge.pairs import finders as find
from lore.judge.pairs import outside
from lore.judge.pairs.pair import CLIENT_SECTIONS, PairFacts
from lore.judge.requests.request_laws import lacks_cache_key
from lore.model import evidence as e
from lore.model.cause import Cause, RuledOut
from lore.model.codes import Code
from lore.model.deferred import pattern
from lore.model.fact import count_of
from lore.model.items import NULL
from lore.model.providers import place_in
from lore.model.turn import Turn

_BEGINNING = 4  # requests
_DISTANCE = "blocks since the last breakpoint"  # a provider looks only so far back for an earlier entry
# In caches without breakpoints, tools that a search found follow the history: 1 of 47 reads fell.
_HEAD_SIGNALS = frozenset(("client-version", "effort", "restart", "tool-reference", "tools-delta"))
# Parameters that differ in every request and change nothing in the prompt.
_IRRELEVANT = frozenset(("metadata", "stream", "stream_options", "user", "max_tokens", "store", "prompt_cache_key"))
_EDIT = pattern(rb'"((?:clear_|compact)\w{0,60})"')


def unexplained(facts: PairFacts) -> Cause:
    """Return the cause of a fall that nothing explains, with everything that was examined."""
    usage = facts.previous.usage
    evidence: e.Evidence = e.NothingRead(counts.prompt_tokens(usage))
    dropped = find.find_dropped_reasoning(facts, is_missed=True)
    if facts.fell:
        reachable = counts.cached(usage) or 0
        if dropped is not None:  # what follows the reasoning could not be read
            reachable = min(reachable, dropped.tokens)
        read, state = facts.read or 0, facts.state
        # 9.5 % of the reads at such a prompt fell (facts/measured.md). Within a tool loop 3 % of the second to fourth
        # reads of a session fell (56 of 1,867 in 665 public sessions), of later ones 9 of 35,717.
        at_prompt = at_begin = False
        if state is not None and not state.implicit:
            at_prompt = state.grown.prompted
            at_begin = not at_prompt and facts.current.number <= _BEGINNING
        current = facts.current
        provider = served_by(current).provider if current.basis is None else ""
        lacks_key = lacks_cache_key(current, provider)
        fell = min(facts.fell, reachable - read)
        evidence = e.ReadFell(fell, reachable, read, at_prompt, at_begin, lacks_key, provider == "gemini")
    reasons = tuple(_examine(facts))
    is_routing = facts.is_implicit and all(reason.out is not False for reason in reasons)
    code = Code.SERVER_SIDE_MISS if is_routing else Code.BILLED_READ_FELL
    also = () if dropped is None else (Cause(Code.REASONING_DROPPED_BY_TEMPLATE, "messages", dropped),)
    return Cause(code, None, evidence, strength="weak", ruled_out=reasons, also=also)


def _examine(facts: PairFacts) -> Iterator[RuledOut]:
    """Yield each reason that was examined, and whether the recording rules it out (`RuledOut.out`)."""
    previous, current = facts.previous, facts.current
    head_read, head_missed = find.head_was_read(facts), find.head_was_missed(facts)
    yield from _clock(facts)
    before, after = previous.answering_model, current.answering_model
    is_known = before is not None and after is not None
    yield RuledOut("model", before == after if is_known else None, detail=(after or "") if is_known else "")
    yield from _history(facts)
    if facts.state is not None:
        head_signals = _HEAD_SIGNALS - {"tool-reference"} if facts.state.implicit else _HEAD_SIGNALS
        signals = [sign.name for sign in current.signs if sign.name in head_signals]
        if not signals or head_read is None:
            yield RuledOut("a change of the client that the log notes", not signals, detail=", ".join(signals))
    if facts.unbilled:
        yield RuledOut(f"what {count_of(len(facts.unbilled), 'request')} without usage read", None)
    verdict = facts.verdict
    if verdict is not None and verdict.reason not in CLIENT_SECTIONS:
        yield RuledOut("what the provider says", out=False, detail=verdict.reason or verdict.other)
    if not current.is_rebuilt:
        yield from _request(previous, current)
        return
    if head_read is not None:
        yield replace(head_read, reason=f"tools and system prompt: {head_read.reason}")
    elif head_missed is not None:
        yield replace(head_missed, reason="messages alone: the read falls below them")
    system = "" if current.basis is not None and current.basis.head[0] not in (None, NULL) else "system prompt, "
    unseen = "the client's own tools, " if current.fidelity == "structural" else f"{system}tools, "
    is_whole = current.basis is None and bool(current.prompt.head)  # lore's own log has tools and system prompt
    head = unseen if head_read is None and not is_whole else ""
    marks = "" if facts.is_implicit else "breakpoints, "
    yield RuledOut(f"{head}{marks}parameters and endpoint", None)


def _clock(facts: PairFacts) -> Iterator[RuledOut]:
    """Examine expiry, a parallel start and an older entry by the clock; a negative pause rules out none of them."""
    previous, current, state = facts.previous, facts.current, facts.state
    pause = counts.pause_between(facts.last_use or previous, current)
    if pause is None or pause < 0:
        yield RuledOut("expiry", None)
    else:
        lifetime = outside.entry_lifetime(facts)
        if lifetime is None and state is not None and not state.implicit and pause <= counts.FIVE_MINUTES:
            lifetime = counts.FIVE_MINUTES  # the shortest that a breakpoint can ask for
        least = facts.least_lifetime
        if state is not None and state.implicit and facts.lifetime in (None, state.lifetime):
            least = state.least_lifetime
        is_unknown = lifetime is None or (least is not None and pause > least)
        surely = lifetime if least is None or lifetime is None else min(lifetime, least)
        yield RuledOut("expiry", None if is_unknown else True, seconds=pause, limit=None if is_unknown else surely)
    pause = outside.seconds_since(previous, current)
    if pause is None or pause < 0:
        yield RuledOut("a parallel start", None)
        yield RuledOut("an older entry", None)
        return
    seconds = outside.seconds_before_answer(previous, current)
    yield RuledOut("a parallel start", None if previous.answered_at is None else seconds is None)
    yield RuledOut("an older entry", out=True, seconds=pause if pause > counts.SOON else None)


def _history(facts: PairFacts) -> Iterator[RuledOut]:
    """Examine by the log and the totals whether the history changed."""
    (before, after), state = facts.totals, facts.state
    has_shrunk = before is not None and after is not None and before - after > find.SHRANK
    if has_shrunk and facts.signal("reasoning") is None:
        yield RuledOut("the prompt shrank", out=False, count=after, limit=before)
    if state is None:
        return
    has_grown = state.unchanged == state.entries and not has_shrunk
    yield RuledOut("compaction, cleared results, rewind", has_grown or None)
    if not state.implicit:
        is_near = state.new_positions <= POSITIONS
        yield RuledOut(_DISTANCE, is_near, count=state.new_positions, limit=POSITIONS)


def _request(previous: Turn, current: Turn) -> Iterator[RuledOut]:
    """Examine breakpoints, endpoint, parameters and the provider's editing in two recorded requests."""
    gap = lookback_gap(previous.prompt, current.prompt, current.at)
    if gap is None or gap.new < 0:
        yield RuledOut("breakpoints", None if gap is None else False)
    else:
        yield RuledOut(_DISTANCE, not gap.is_exceeded, count=gap.new, limit=gap.allowed)
    places = [place_in(turn.call.endpoint) for turn in (previous, current)]
    is_same = places[0] == places[1] if previous.call.endpoint and current.call.endpoint else None
    yield RuledOut("endpoint", is_same, detail="" if is_same is None else current.call.endpoint.partition("/")[0])
    changed = changed_parameters(previous, current)
    yield RuledOut("parameters", not changed, detail=", ".join(changed))
    management = current.prompt.params.get("context_management", b"")
    edits = ", ".join(dict.fromkeys(edit.decode() for edit in _EDIT.findall(management)))
    if edits:  # they change the prompt, and no body shows it
        out = current.call.edits is not None and "compact" not in edits
        yield RuledOut("the provider's own editing of the context", out, detail=edits)


def changed_parameters(previous: Turn, current: Turn) -> list[str]:
    """Return the names of parameters that differ, except those that differ in every request."""
    before, after = previous.prompt.params, current.prompt.params
    return [name for name in sorted({*before, *after} - _IRRELEVANT) if before.get(name) != after.get(name)]
