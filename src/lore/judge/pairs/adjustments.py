"""Adjust the causes of a pair once its bytes are measured: small changes, remarks, breaks without a loss, tails.

Each function takes the measures of the pair and its causes, and returns the causes; a remark is one cause, or None.
Their order is in `lore.judge.rules`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from lore.cache import counts
from lore.judge.pairs.finders import find_missing_answers, find_named_route, measure_lookback
from lore.judge.pairs.pair import BY_BILL, ESTIMATED, PairFacts, find_dispute, is_remark
from lore.judge.pairs.rewrites import ReplacedTail, describe_tail, last_message
from lore.model import evidence as e
from lore.model.cause import Cause
from lore.model.codes import UNEXPLAINED, Code
from lore.model.differences import VolatileText
from lore.model.turn import Turn
from lore.prefix.overlap import PairSums

_Causes: TypeAlias = tuple[Cause, ...]


class PairMeasures(Struct, frozen=True):
    """The bytes and tokens of two turns whose causes are known."""

    facts: PairFacts
    sums: PairSums
    cacheable_bytes: int  # bytes of the previous prompt that were to be cached
    per_token: float  # bytes per token of the current prompt
    short: int | None  # tokens by which the read is smaller than the cached prompt; None: unknown
    tail: ReplacedTail | None  # what was removed from the end of the previous prompt before it was compared
    wrote_hour: bool  # a usage of the chain wrote for an hour, so the wish for it is passed on
    find_remarks: Callable[[PairMeasures, _Causes], _Causes]  # `Remarks.find`, which remembers them

    @property
    def shared(self) -> float:
        """The tokens that both prompts share, estimated from their bytes."""
        return (self.sums.common + self.facts.overlap.common_bytes) / self.per_token


_NEAR = 0.15  # the share by which a place in tokens, estimated from bytes, may be wrong


def blame_shape(measures: PairMeasures, causes: _Causes) -> _Causes:
    """Replace an unexplained fall by a change of shape among the causes, if the read ended at its place.

    Anthropic documents text and block as one value; a read that stops there shows that the model saw two
    (anthropics/claude-code#93490: a system message within the history).
    """
    facts, size = measures.facts, measures.cacheable_bytes
    cached, read = counts.cached(facts.previous.usage), facts.read
    if not (facts.fell and cached and read and size) or not any(cause.code in UNEXPLAINED for cause in causes):
        return causes
    for cause in causes:
        tokens_before = cached * (1 - cause.lost / size)
        if "same-to-the-api" in cause.qualifiers and tokens_before * (1 - _NEAR) <= read <= tokens_before * (1 + _NEAR):
            shape = replace(cause, qualifiers=("read-ends-there",), override=None)
            return (shape, *(other for other in causes if other is not cause and other.code not in UNEXPLAINED))
    return causes


def mark_within_block(measures: PairMeasures, causes: _Causes) -> _Causes:
    """Turn changes at the prompt's end, if shorter than a cache block, into changes after the last breakpoint.

    No cache holds a part of a block. A change at an earlier place, or of a parameter, costs everything after it.
    """
    facts, short = measures.facts, measures.short
    block = counts.block_tokens(facts.previous)
    if facts.fell or not facts.comparable or (short is not None and short > block):
        return causes
    prompt, new_causes = facts.previous.prompt, list[Cause]()
    for cause in causes:
        lost = cause.lost / measures.per_token
        is_short = lost <= block and cause.code != Code.IMAGE_CHANGED  # bytes do not say how many tokens an image is
        if is_short and _is_from_bytes(cause) and cause.position >= len(prompt.head) + last_message(prompt):
            size = e.WithinBlock(round(lost), block)
            block_cause = Cause(cause.code, cause.section, size, cause.position, path=cause.path)
            cause = replace(
                cause, code=Code.CHANGE_AFTER_LAST_BREAKPOINT, override=None, qualifiers=("within-a-block",),
                also=(block_cause,),
            )  # fmt: skip
        new_causes.append(cause)
    return tuple(new_causes)


def add_remarks(measures: PairMeasures, causes: _Causes) -> _Causes:
    """Add remarks, which are reported although nothing was lost, and remember them."""
    return (*causes, *measures.find_remarks(measures, causes))


def mark_nothing_lost(measures: PairMeasures, causes: _Causes) -> _Causes:
    """Mark breaks in the bytes as expected if usage shows that all of the previous prompt was read."""
    facts = measures.facts
    if measures.short != 0 or not counts.read_everything(facts.previous, facts.current):
        return causes
    return tuple([
        replace(cause, override="expected", qualifiers=(*cause.qualifiers, "nothing-lost"))
        if cause.strength == "certain" and _is_from_bytes(cause) else cause
        for cause in causes
    ])  # fmt: skip


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
        elif facts.fell <= evidence.tokens * ESTIMATED + counts.block_tokens(previous):
            causes = ()
    return (*causes, Cause(Code.TAIL_REPLACED, "messages", evidence, position, path=evidence.path))


def _is_from_bytes(cause: Cause) -> bool:
    """Return whether bytes show a break that was not expected."""
    return cause.kind != "expected" and cause.code not in BY_BILL and not is_remark(cause)


# remarks: contradictions, and settings without effect


class RemarkRule(Struct, frozen=True):
    """A remark, and when it is not looked for."""

    code: Code
    find: Callable[[PairMeasures, _Causes], Cause | None]
    why: str  # a count, or the source
    once: bool = False  # it is reported once a chain
    unless: Code | None = None  # it is not looked for if the chain has this remark

    @property
    def codes(self) -> tuple[Code, ...]:
        """The causes that it may report."""
        return (self.code,)


def find_contradicted_body(measures: PairMeasures, _: _Causes) -> Cause | None:
    """Return that a usage cannot belong to the recorded body."""
    facts, sums = measures.facts, measures.sums
    if not facts.comparable:
        return None
    unlike = counts.contradiction(facts.previous, sums.previous) or counts.contradiction(facts.current, sums.current)
    return None if unlike is None else Cause(Code.BILL_CONTRADICTS_BODY, None, unlike)


def find_lost_lifetime(measures: PairMeasures, _: _Causes) -> Cause | None:
    """Return that an hour was asked for, and only five minutes were billed, in a chain that never wrote for an hour."""
    facts = measures.facts
    if not facts.comparable or measures.wrote_hour or wrote_for_an_hour(facts.current):
        return None
    lost = counts.lost_lifetime(facts.previous) or counts.lost_lifetime(facts.current)
    return None if lost is None else Cause(Code.LIFETIME_LOST, None, lost)


def find_far_breakpoint(measures: PairMeasures, causes: _Causes) -> Cause | None:
    """Return that no breakpoint reaches the last entry, if no usage shows whether it was missed."""
    facts = measures.facts
    is_broken = any(not is_remark(cause) for cause in causes)
    if not facts.comparable or facts.fell is not None or is_broken or facts.current.is_rebuilt:
        return None
    if find_named_route(facts) is not None or find_missing_answers(facts) is not None:
        return None
    evidence = measure_lookback(facts)
    return None if evidence is None else Cause(Code.LOOKBACK_EXCEEDED, "messages", evidence, facts.overlap.common)


def find_disagreement(measures: PairMeasures, causes: _Causes) -> Cause | None:
    """Return that bytes, usage and the provider's verdict contradict one another."""
    facts = measures.facts
    dispute = find_dispute(facts, causes, measures.shared)
    return None if dispute is None else Cause(Code.VERDICT_DISAGREES, None, dispute, facts.overlap.common)


def wrote_for_an_hour(turn: Turn) -> bool:
    """Return whether a turn's usage has writes for an hour."""
    return turn.usage is not None and bool(turn.usage.write_1h_tokens)
