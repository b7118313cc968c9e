"""What changes after the causes of a pair are found: tails, remarks, losses that cost nothing, prices, alternation.

The tables of `lore.judge.rules` have the functions in their order. Adjustments take the measures of a pair and its
causes, and return the causes; a remark is one cause, or None. Corrections take a pair and the state of its chain, and
return the pair.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain as chained
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from lore.cache import counts
from lore.cache.rules import MILLION, MOST, DatedRules, least_cached, minimum_tokens
from lore.cache.served import is_transcript, served_by
from lore.judge.pairs.finders import find_signal, measure_lookback
from lore.judge.pairs.outside import find_missing_answers, find_named_route
from lore.judge.pairs.pair import ESTIMATE_FACTOR, Pair, PairFacts, is_remark, lost_tokens
from lore.judge.pairs.rewrites import ReplacedTail, describe_tail, last_message
from lore.judge.prices import paid_again, price_of
from lore.judge.requests.request_laws import UNDERRATED, needs_breakpoints
from lore.model import evidence as e
from lore.model.cause import Cause, Qualifier
from lore.model.codes import UNEXPLAINED, Code
from lore.model.differences import ParameterChanged, ToolsChanged, VolatileText
from lore.model.events import Usage
from lore.model.providers import ENGINES
from lore.prefix.causes import find_causes
from lore.prefix.overlap import PairSums, byte_size, compare_prompts, iterate_from
from lore.prefix.purpose import begins_user_turn, last_user_texts

NEAR = 0.15  # the share by which a place in tokens, estimated from bytes, may be wrong
HIGHEST_MINIMUM = 6144  # tokens: of some models on Vertex; no provider documents a higher one (2026-10)
DAY = 86_400.0  # seconds
PACE = 600.0  # seconds that a chain has to last before its cost a day is reported
SMALL = 0.01  # the share of a prompt whose loss is no more than worth a note
_MOST_BYTES = 16.0  # of a token: no prompt has more
_Causes: TypeAlias = tuple[Cause, ...]
_Values: TypeAlias = tuple[tuple[object, ...], tuple[object, ...]]  # the values before and after


class Remarks(Struct):
    """The remarks of one chain so far."""

    reported: set[str] = field(default_factory=set[str])
    wrote_hour: bool = False  # usage of the chain has writes of an hour, so the request for it reaches the provider


class PairMeasures(Struct, frozen=True):
    """The bytes and tokens of two turns whose causes are known."""

    facts: PairFacts
    sums: PairSums
    cacheable_bytes: int  # bytes of the previous prompt that were to be cached
    per_token: float  # bytes per token of the current prompt
    tail: ReplacedTail | None  # what was removed from the end of the previous prompt before it was compared
    remarks: Remarks


# causes that lead instead of others, or are added to them


def name_refusal(facts: PairFacts, causes: _Causes) -> _Causes:
    """Name the refusal that the log records as the reason why another model answered."""
    refusal = find_signal("refusal", facts)
    if refusal is None:
        return causes
    return tuple([
        replace(cause, evidence=refusal) if cause.code == Code.MODEL_CHANGED else cause for cause in causes
    ])  # fmt: skip


def lead_with(
    facts: PairFacts, causes: _Causes, *, explain: Callable[[PairFacts], Cause | None],
    outranks: Callable[[PairFacts, Cause], bool],
) -> _Causes:  # fmt: skip
    """Let the cause that `explain` finds lead if it `outranks` the first one; the others are then in its `also`."""
    breaking = tuple([cause for cause in causes if not is_remark(cause)])
    cause = explain(facts) if breaking and outranks(facts, breaking[0]) else None
    if cause is None or cause.code == breaking[0].code:
        return causes
    return (replace(cause, also=breaking), *filter(is_remark, causes))


def expiry_outranks(facts: PairFacts, lead: Cause) -> bool:
    """Return whether an expired entry explains what another model, or a compaction that read nothing, may have lost."""
    return lead.code == Code.MODEL_CHANGED or (lead.code == Code.COMPACTION and facts.read == 0)


def missing_breakpoints_outrank(facts: PairFacts, lead: Cause) -> bool:
    """Return whether the request read nothing, and has no breakpoint at which it could, whatever else changed."""
    is_possible = lead.code == Code.REWIND or (lead.kind != "expected" and lead.strength == "certain")
    is_unread = bool(facts.fell) and not facts.read and not facts.current.is_rebuilt
    return is_possible and is_unread and not facts.current.prompt.breakpoints


def add_hashes(facts: PairFacts, causes: _Causes) -> _Causes:
    """Add what differs by the client's hashes to the first cause, or let it lead if nothing else is known."""
    if not facts.hash_causes:
        return causes
    if all(map(is_remark, causes)):
        return (*facts.hash_causes, *causes) if facts.fell is None else causes
    codes = {cause.code for lead in causes for cause in (lead, *lead.also)}
    also = [cause for cause in facts.hash_causes if cause.code not in codes]
    return (replace(causes[0], also=(*causes[0].also, *also)), *causes[1:])


# adjustments


def explain_by_shape(measures: PairMeasures, causes: _Causes) -> _Causes:
    """Replace an unexplained fall by the cause that content changed its shape, if the read ended at that place.

    Anthropic documents text and block as one value; a read that stops there shows that the model saw two
    (anthropics/claude-code#93490: a system message within the history).
    """
    facts, size = measures.facts, measures.cacheable_bytes
    cached, read = counts.cached(facts.previous.usage), facts.read
    if not (facts.fell and cached and read and size) or not any(cause.code in UNEXPLAINED for cause in causes):
        return causes
    for cause in causes:
        tokens_before = cached * (1 - cause.lost / size)
        if "same-to-the-api" in cause.qualifiers and tokens_before * (1 - NEAR) <= read <= tokens_before * (1 + NEAR):
            shape = replace(cause, qualifiers=("read-ends-there",), override="waste")
            return (shape, *(other for other in causes if other is not cause and other.code not in UNEXPLAINED))
    return causes


def mark_within_block(measures: PairMeasures, causes: _Causes) -> _Causes:
    """Turn changes at the prompt's end, if shorter than a cache block, into changes after the last breakpoint.

    No cache holds a part of a block. A change at an earlier place costs everything after it; so does one of a
    parameter, whose loss the corrections know from usage. A cache that needs breakpoints has no blocks: if the request
    sets none, that is the reason.
    """
    facts, short, prompt = measures.facts, measures.facts.short, measures.facts.previous.prompt
    block, is_marked = counts.block_tokens(facts.previous), prompt.has_breakpoints
    if facts.fell or not facts.comparable or (short is not None and short > block):
        return causes
    if not is_marked and needs_breakpoints(facts.previous) and counts.cached(facts.previous.usage) == 0:
        return causes
    new_causes = list[Cause]()
    for cause in causes:
        lost = cause.lost / measures.per_token
        is_short = lost <= block and cause.code != Code.IMAGE_CHANGED  # bytes do not say how many tokens an image is
        is_billed = isinstance(cause.evidence, ParameterChanged) and facts.previous.usage is not None
        if (
            is_short
            and not is_billed
            and _is_from_bytes(cause)
            and cause.position >= len(prompt.head) + last_message(prompt)
        ):
            size = e.WithinBlock(round(lost), block)
            block_cause = Cause(cause.code, cause.section, size, cause.position, path=cause.path)
            cause = replace(
                cause, code=Code.CHANGE_AFTER_LAST_BREAKPOINT, override=None, qualifiers=("within-a-block",),
                also=(block_cause,),
            )  # fmt: skip
        new_causes.append(cause)
    return tuple(new_causes)


def mark_nothing_lost(measures: PairMeasures, causes: _Causes) -> _Causes:
    """Mark breaks in the bytes as expected if usage shows that all of the previous prompt was read.

    Also a changed output schema if no less was read than before, and more than the tools, after which it would count.
    """
    facts = measures.facts
    if facts.short != 0:
        return causes
    is_whole = counts.read_everything(facts.previous, facts.current)
    tools = sum(map(byte_size, facts.current.prompt.head[: facts.current.prompt.tool_count]))
    most = tools / measures.per_token * ESTIMATE_FACTOR + counts.block_tokens(facts.previous)
    new_causes: list[Cause] = []
    for cause in causes:
        is_unharmed = is_whole and _is_from_bytes(cause)
        if cause.code == Code.OUTPUT_SCHEMA_CHANGED and not is_whole and (facts.read or 0) > most:
            is_unharmed, cause = True, replace(cause, lost=0)  # noqa: PLW2901
        if is_unharmed:
            cause = replace(cause, override="expected", qualifiers=(*cause.qualifiers, "nothing-lost"))  # noqa: PLW2901
        new_causes.append(cause)
    return tuple(new_causes)


def _is_from_bytes(cause: Cause) -> bool:
    """Return whether bytes show a break that was not expected."""
    return cause.kind != "expected" and cause.strength == "certain" and not is_remark(cause)


def add_tail(measures: PairMeasures, causes: _Causes) -> _Causes:
    """Add the replaced tail, if there is one; an unexplained fall is then dropped or replaced by its cause.

    The fall is a breakpoint on changing text if the tail has one, and no break if it is at most the tail's tokens.
    """
    facts, tail = measures.facts, measures.tail
    if tail is None:
        return causes
    previous = facts.previous
    evidence = describe_tail(tail, measures.per_token, counts.prompt_tokens(previous.usage))
    position = previous.prompt.stable
    if facts.fell and [cause.code for cause in causes] == [Code.BILLED_READ_FELL]:
        if previous.prompt.auto_breakpoint or any(segment.breakpoint is not None for segment in tail.segments):
            holds = " and ".join(evidence.holds) or "text that is replaced each turn"
            marked = VolatileText(holds, "", True)  # noqa: FBT003
            code = Code.BREAKPOINT_ON_VOLATILE
            causes = (Cause(code, "messages", marked, position, "waste", evidence.path, strength="strong"),)
        elif facts.fell <= evidence.tokens * ESTIMATE_FACTOR + counts.block_tokens(previous):
            causes = ()
    return (*causes, Cause(Code.TAIL_REPLACED, "messages", evidence, position, path=evidence.path))


# remarks: contradictions, and settings without effect


def find_contradicted_body(measures: PairMeasures, _: _Causes) -> e.BillUnlikeBody | None:
    """Return evidence that a usage cannot belong to the recorded body."""
    facts, sums = measures.facts, measures.sums
    unlike = counts.contradiction(facts.previous, sums.previous) or counts.contradiction(facts.current, sums.current)
    is_told = Code.LIFETIME_LOST in measures.remarks.reported  # then no five minutes contradict an hour
    return None if unlike is not None and is_told and unlike.what == "five-minutes-unasked" else unlike


def find_lost_lifetime(measures: PairMeasures, _: _Causes) -> e.LifetimeLost | None:
    """Return evidence that an hour was asked for and five minutes were billed, in a chain without writes of an hour."""
    facts, usage = measures.facts, measures.facts.current.usage
    if measures.remarks.wrote_hour or (usage is not None and usage.write_1h_tokens):
        return None
    return counts.lost_lifetime(facts.previous) or counts.lost_lifetime(facts.current)


def find_far_breakpoint(measures: PairMeasures, causes: _Causes) -> e.LookbackExceeded | None:
    """Return evidence that no breakpoint reaches the last entry, if no usage shows whether that was missed."""
    facts = measures.facts
    if facts.fell is not None or facts.current.is_rebuilt or any(not is_remark(cause) for cause in causes):
        return None
    is_elsewhere = find_named_route(facts) is not None or find_missing_answers(facts) is not None
    return None if is_elsewhere else measure_lookback(facts)


# answers that an agent sends back otherwise than the model wrote them


def explain_answer(pair: Pair) -> Pair:
    """Add the cause that the client sent the answer back changed, if an engine read less than prompt and answer.

    In the returned pair the previous turn's prompt and usage include its answer. An engine's cache holds the prompt and
    the generated tokens after it, so it computes an answer again that comes back in other bytes (sorted arguments, no
    reasoning: public reports of llama.cpp and vLLM). A template may omit the reasoning of earlier turns itself, so only
    within a turn of the user is its absence the client's.
    """
    turn, current, read = pair.previous, pair.current, counts.first_pass_read(pair.current.usage)
    prompt, messages, usage = turn.prompt, current.prompt.messages, turn.usage
    if pair.is_break or read is None or usage is None or turn.generated is None:
        return pair
    at, is_extended = len(prompt.messages), pair.overlap.is_covered and len(prompt.messages) < len(messages)
    if not is_extended or served_by(turn).provider not in ENGINES:
        return pair
    answer = turn.generated()
    if sum(segment.kind == "envelope" for segment in answer) != 1:
        return pair
    begin, place = len(answer[0].path), messages[at].path
    parts = [replace(segment, path=place + segment.path[begin:]) for segment in answer]
    prompt = replace(prompt, messages=prompt.messages.extend(parts))
    usage = replace(usage, uncached_tokens=(usage.uncached_tokens or 0) + (usage.output_tokens or 0))
    previous = replace(turn, source=prompt, usage=usage, generated=None)
    overlap = compare_prompts(prompt, current.prompt)
    if overlap.is_covered or counts.prompt_tokens(usage) - read <= 2 * counts.block_tokens(previous):
        return pair
    causes = find_causes(prompt, current.prompt, overlap, (), previous_call=previous.call, current_call=current.call)
    is_template = begins_user_turn(current.prompt)
    answer_causes = [
        replace(
            cause, lost=sum(map(byte_size, iterate_from(prompt, cause.position, tail=False))),
            override="unattributable" if cause.evidence.fix_detail() == "call" else cause.override,  # few render ids
        ) for cause in causes if not is_remark(cause) and not (is_template and cause.code == Code.THINKING_CHANGED)
    ]  # fmt: skip
    limit = max(2 * counts.block_tokens(previous), SMALL * counts.prompt_tokens(usage)) * pair.bytes_per_token
    if max((cause.lost for cause in answer_causes), default=0) <= limit:
        return pair
    return replace(pair, previous=previous, causes=(*answer_causes, *pair.causes))


# corrections


class ChainState(Struct):
    """What the corrections remember of one chain."""

    rules: Callable[[], DatedRules]  # returns the dated rules in force
    began: float | None = None  # when its first recorded request with a time was sent
    tails: int = 0  # tails that were replaced since then
    cached: int | None = None  # tokens that its latest request left in the cache; None: unknown
    # by code, segment and path: the latest change
    changes: dict[tuple[str, int, str], _Values] = field(default_factory=dict[tuple[str, int, str], _Values])


def drop_loss_below_minimum(pair: Pair, state: ChainState) -> Pair:
    """Return the pair without a loss if one of the prompts is shorter than its model caches, or nothing was marked.

    Usage says how long a prompt was; without usage its length is estimated from bytes, with a margin. A prompt that was
    cached all the same, whatever its length, shows that the minimum does not hold.
    """
    if not pair.is_break:
        return pair
    previous = pair.previous
    nothing_cached = counts.cached(previous.usage) == counts.cached(pair.current.usage) == 0
    # a log does not show breakpoints: its prompt is not made for that
    may_lack = previous.fidelity in ("wire", "parsed") and not counts.bills_writes(previous)
    is_unmarked = may_lack and needs_breakpoints(previous) and not previous.prompt.has_breakpoints
    # a log whose requests before and after a compaction read nothing, as those of servers that report no reads
    is_silent = previous.basis is not None and any(cause.code == Code.COMPACTION for cause in pair.causes)
    if nothing_cached and (is_unmarked or is_silent):
        causes = [_excuse(cause, "nothing-lost", override="expected", lost=0) for cause in pair.causes]
        return replace(pair, causes=tuple(causes), uncacheable=is_silent)
    if counts.cached(previous.usage) and counts.prompt_tokens(previous.usage) < least_cached(state.rules(), previous):
        return pair
    for turn, size in ((previous, pair.bytes.previous), (pair.current, pair.bytes.current)):
        billed, least = counts.prompt_tokens(turn.usage), least_cached(state.rules(), turn)
        tokens = billed or size / counts.BYTES_PER_TOKEN * UNDERRATED
        if not 0 < tokens < least or counts.cached(turn.usage):
            continue
        has_all_bytes = turn.basis is None and not turn.prompt.partial and not counts.has_unseen(turn.prompt)
        if least != MOST and not billed and not has_all_bytes:
            continue
        # what was never cached cannot expire: the other causes that were seen lead
        seen = chained(*(cause.also if cause.code == Code.CACHE_EXPIRED else (cause,) for cause in pair.causes))
        if least == MOST:
            causes = [_excuse(cause, "without-cache", override="expected", lost=0) for cause in seen]
        else:
            qualifiers: tuple[Qualifier, ...] = ("under-minimum", "too-short-by-usage")[: 1 + bool(billed)]
            causes = [replace(_excuse(cause, *qualifiers), lost=0) for cause in seen]
        return replace(pair, causes=tuple(causes), uncacheable=True)
    return pair


def drop_unread_below_minimum(pair: Pair, state: ChainState) -> Pair:
    """Return a log's pair without a "nothing was read" cause if the previous prompt may be too short to be cached.

    If the model's minimum is unknown, the highest of any provider counts.
    """
    if counts.first_pass_read(pair.current.usage) != 0 or not is_transcript(pair.current):
        return pair
    minimum = minimum_tokens(state.rules(), pair.previous)
    if counts.prompt_tokens(pair.previous.usage) >= (HIGHEST_MINIMUM if minimum is None else minimum):
        return pair
    causes = [cause for cause in pair.causes if not isinstance(cause.evidence, e.NothingRead)]
    return replace(pair, causes=tuple(causes))


def excuse_small_loss(pair: Pair, _: ChainState) -> Pair:
    """Return the pair with `little-lost` causes if it lost less than a block, or 1 % of the prompt, by its usage.

    The larger of both is the limit. Causes keep their kind and become notes; a loss of less than a block costs nothing,
    and is expected. If writes are not reported, a block is the limit, and a loss of 0 tokens shows something only of a
    shorter prompt. Of a request whose usage states no reads, bytes show the loss. Requests without usage, or with that
    of a mock, which counts one token for hundreds of bytes, are not excused. A rewind that lost less than a block is a
    remark: entries of the kept history serve another branch.
    """
    usage, lead = pair.current.usage, pair.leading
    if lead is None or usage is None:
        return pair
    states_reads = counts.first_pass_read(usage) is not None
    if not states_reads and pair.bytes.current > _MOST_BYTES * counts.prompt_tokens(usage):
        return pair
    tokens, _source = lost_tokens(pair, lead)
    block, limit = counts.block_tokens(pair.previous), 0.0
    if tokens < block and pair.short is not None and isinstance(lead.evidence, e.MessagesTakenBack):
        free = replace(lead, override="expected", qualifiers=("nothing-lost",), lost=0)
        return replace(pair, causes=tuple([free if cause is lead else cause for cause in pair.causes]))
    if counts.bills_writes(pair.previous) or not states_reads:
        limit = max(block, SMALL * counts.prompt_tokens(usage.first_pass))
    elif tokens or counts.prompt_tokens(pair.previous.usage) < block:
        limit = block
    is_unknown = pair.short is None if states_reads else not tokens
    if is_unknown or tokens >= limit or isinstance(lead.evidence, e.NothingRead | e.ProviderSaid):
        return pair
    changes: dict[str, Any] = {"override": "expected"} if tokens < block else {}
    return replace(pair, causes=tuple([_excuse(cause, "little-lost", **changes) for cause in pair.causes]))


def _excuse(cause: Cause, *qualifiers: Qualifier, **changes: Any) -> Cause:
    """Return the cause of a break with more qualifiers, and other fields; unchanged if it is expected already."""
    if cause.kind == "expected" or is_remark(cause):
        return cause
    return replace(cause, qualifiers=tuple(dict.fromkeys((*cause.qualifiers, *qualifiers))), **changes)


def add_prices(pair: Pair, state: ChainState) -> Pair:
    """Return the pair with its price if tokens were lost, and dollars in a replaced tail or a cold compaction.

    A replaced tail, which is counted in the state, gets its cost a day; a compaction that was requested after the cache
    had expired ("cold") its cost, and the cost if the lost tokens had been read ("warm"). A recorded request without
    usage has the price of its estimated size, with the lost tokens written again if it has breakpoints.
    """
    turn, daily = pair.current, 0.0  # replaced tails of the chain a day; 0: unknown
    has_tail = any(cause.code == Code.TAIL_REPLACED for cause in pair.causes)
    if has_tail and state.began is not None and turn.at is not None:
        state.tails += 1
        lasted = turn.at - state.began
        daily = state.tails / lasted * DAY if lasted >= PACE else 0.0
    lost = 0 if pair.leading is None else lost_tokens(pair, pair.leading)[0]
    is_priced = daily or (lost and (turn.usage is not None or turn.basis is None))
    size = round(pair.bytes.current / pair.bytes_per_token)
    price = price_of(state.rules(), turn, size=size) if is_priced else None
    if price is None:
        return pair
    causes, priced_as, usage = list[Cause](), None, turn.usage
    for cause in pair.causes:
        evidence = cause.evidence
        if isinstance(evidence, e.TailReplaced) and daily and price.uncached is not None:
            evidence = replace(
                evidence, dollars_a_day=round(evidence.tokens * (daily * float(price.uncached / MILLION)), 6)
            )
        elif isinstance(evidence, e.ColdCompaction) and usage is not None and not usage.iterations:
            paid = price.of(replace(usage, output_tokens=0, server_tools=()))
            rebilled = paid_again(price, usage, lost)
            if paid is not None and rebilled is not None:
                warm = float(paid) - rebilled
                if evidence.warm_tokens > counts.prompt_tokens(usage):  # with the conversation's head, which is longer
                    asked = round(sum(map(byte_size, last_user_texts(turn.prompt))) / pair.bytes_per_token)
                    warm = float(price.of(Usage(asked, evidence.warm_tokens, 0, 0)) or warm)
                evidence = replace(evidence, dollars=round(float(paid), 6), warm_dollars=round(warm, 6))
        causes.append(replace(cause, evidence=evidence))
    if turn.usage is None and lost:
        written = lost if turn.prompt.has_breakpoints else 0
        hour = written if counts.asked_lifetime(turn) == counts.ONE_HOUR else 0
        priced_as = Usage(size - written, 0, written, write_1h_tokens=hour, write_5m_tokens=written - hour)
    return replace(pair, causes=tuple(causes), price=price, priced_as=priced_as)


def mark_alternating(pair: Pair, state: ChainState) -> Pair:
    """Return the pair with a mark on changes of a setting, a model or tools back to the value before the last change.

    The state remembers the changes. One from A to B and back to A is known from its second change on; the fix is to
    keep one of the two.
    """
    causes: list[Cause] = []
    for cause in pair.causes:
        evidence, before, after = cause.evidence, tuple[object, ...](), tuple[object, ...]()
        if isinstance(evidence, ToolsChanged):
            if not (evidence.changed or evidence.reordered or evidence.unnamed):
                before, after = evidence.removed, evidence.added
        elif evidence.quoted_change() is None:  # text may come back by chance, as a list of recent files does
            fields = asdict(evidence)
            before = tuple([value for name, value in fields.items() if name == "before" or name.endswith("_before")])
            after = tuple([value for name, value in fields.items() if name == "after" or name.endswith("_after")])
            if all(isinstance(value, int | float) for value in before):  # numbers may repeat by chance
                before = after
        if before != after and not is_remark(cause) and "alternates" not in cause.qualifiers:
            key = cause.code, cause.position, cause.path
            if state.changes.get(key) == (after, before):
                cause = replace(cause, qualifiers=(*cause.qualifiers, "alternates"))
            state.changes[key] = before, after
        causes.append(cause)
    return replace(pair, causes=tuple(causes))
