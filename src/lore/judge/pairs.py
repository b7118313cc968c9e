"""Successive turns of a chain, compared, and why the right one was not read from the cache.

In: the turns of one chain, in order. Out: one pair for each turn after the first. Rules: an expected
cause comes before any other; a replaced tail is its own thing, and no excuse for what breaks before it; a pause
longer than the cache lives explains a break and a fall of billed reads alike; a fall that nothing explains is
unattributable, never waste; a request that failed wrote no cache, so it is no side of a pair.
Cost: O(what is new).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from lore.cache import counts
from lore.cache.transcripts import TurnState
from lore.judge.attribution import attribute, cause_of, disputed, limited, too_far
from lore.judge.pair import BY_BILL, Pair, Sizes, columns, dispute, is_remark
from lore.judge.rewrites import ReplacedTail, evidence_of, last_message, replaced_tail, without_tail
from lore.judge.witnesses import ESTIMATED, PairContext, Tally, by_shape, expired, other_api, parallel, rerouted, routed
from lore.model.cause import Cause
from lore.model.codes import Code
from lore.model.differences import VolatileText
from lore.model.events import PromptHashes
from lore.model.evidence import BillUnlikeBody, LifetimeLost, WithinBlock
from lore.model.turn import Turn
from lore.prefix.causes import find_causes, recorded_causes
from lore.prefix.overlap import (
    ChainSums,
    Overlap,
    PairSums,
    byte_size,
    compare_prompts,
    count_cached_segments,
)
from lore.prefix.request_ends import RequestEnd
from lore.prefix.tools import explain_hashes

MODELS = 8  # of a chain, whose last turns are remembered
_REWRITES = (Code.COMPACTION, Code.REWIND, Code.TOOL_RESULT_REWRITTEN)

Look: TypeAlias = Callable[[], "TurnState | None"]  # what levels knew before the bill: asked where the bill fell


def unknown() -> None:
    """Know nothing of levels."""


class Extension(Struct, frozen=True):
    """A turn that extends the one before; `pair`, its bytes not measured, where its bill fell all the same."""

    pair: Pair | None = None


class Pairs:
    """Pair the turns of one chain; `billed` says that each follows the one before, so bills compare."""

    def __init__(self, *, billed: bool = True) -> None:
        self._billed = billed
        self._shown: dict[str, Tally] = {}
        self._last: Turn | None = None
        self._of_models: dict[tuple[str | None, str], Turn] = {}  # the last billed turn of each cache of a transcript
        self._sizes = ChainSums(byte_size)
        self._measured: Turn | None = None
        self._lives: float | None = None
        self._positions: tuple[int, ...] = ()  # tokens at the last breakpoint of the turn before the last one
        self._hour = False  # whether a bill of the chain wrote for an hour: it is passed on, then
        self._hashed: dict[tuple[str | None, str], Hashed] = {}
        self._noted: set[str] = set()  # what is true of every turn of a chain is said once
        self._read: Turn | None = None  # the last turn that read anything

    def extended(self, turn: Turn, look: Look = unknown) -> Extension | None:
        """Take the next turn if it surely extends the last one; None where that is not sure.

        No prompt is made and nothing is measured then: where bytes do not part, only the bill can have
        fallen, and a bill says itself what was lost.
        """
        left = self._last
        if left is None or not turn.extends(left):
            return None
        there, read = counts.cached(left.usage), counts.first_pass_read(turn.usage)
        if there is not None and read and read >= there and turn.hashes is None:  # most: all that stood there was read
            self._go_on(turn)
            return Extension()
        if there is None and self._own(left, turn) is not None:
            return None
        short = counts.shortfall(left, turn) if self._billed else None
        fell = counts.significant_fall(left, short)
        moved = self._moved(turn)
        if (fell or moved) and recorded_causes(turn.changes):
            return None
        pair = None
        if fell or (moved and fell is None):
            context = self._context(left, turn, _COVERED, fell, look)
            pair = _pair_of_bills(context, self._of_bill(context) if fell else context.moved, short)
        if not fell and self._billed and _reads_nothing(left, turn):
            pair = self._unread(left, turn, look, pair)
        self._go_on(turn)
        return Extension(pair)

    def _moved(self, right: Turn) -> tuple[Cause, ...]:
        """Return what moved by hash since the last request to the same model of which hashes were noted."""
        before = None if right.hashes is None else self._hashed.get(_cache_of(right))
        if right.hashes is None or before is None:
            return ()
        moved = explain_hashes(before.hashes, right.hashes, right.number - before.turn)
        rewritten = before.rewritten or _rewrites(right)
        return tuple([cause for cause in moved if not (rewritten and cause.section == "messages")])

    def _note_hashes(self, turn: Turn) -> None:
        """Keep the hashes of a request; a compaction or rewind behind it moves those of messages, as it is to."""
        if self._hashed and _rewrites(turn):
            self._hashed = {cache: before._replace(rewritten=True) for cache, before in self._hashed.items()}
        if turn.hashes is not None:
            self._hashed.pop(_cache_of(turn), None)
            self._hashed[_cache_of(turn)] = Hashed(turn.number, turn.hashes)
            if len(self._hashed) > MODELS:
                del self._hashed[next(iter(self._hashed))]

    def _unread(self, left: Turn, right: Turn, look: Look, pair: Pair | None) -> Pair | None:
        """Return a pair with the cause of a turn that read nothing, as the one before; itself where there is none.

        It is held against the last turn that read anything of the same history, of which the left is the last use.
        """
        if pair is not None and pair.is_break:
            return pair
        last = self._read
        base = last if last is not None and _cache_of(last) == _cache_of(right) and right.extends(last) else left
        short = counts.shortfall(base, right)
        fell = counts.significant_fall(base, short)
        context = self._context(base, right, _COVERED, fell, look, left)._replace(state=look())
        cause = cause_of(context)
        if cause is None:
            return pair
        made = _pair_of_bills(context, (cause,), short)
        if pair is None:
            return made
        three = made.columns._replace(bytes=pair.columns.bytes)
        return replace(pair, causes=(cause, *pair.causes), lost=(0, *pair.lost), fell=made.fell, short=short,
                       columns=three)  # fmt: skip

    def advance(self, turn: Turn, look: Look = unknown, end: RequestEnd | None = None) -> Pair | None:
        """Take the next turn; None for the first, and for one that failed.

        `end` is where it goes on from, where that is not its chain's last turn.
        """
        if turn.failed:
            return None
        left, pair = self._last, None
        own = None if left is None or end is not None else self._own(left, turn)
        if end is not None:
            pair = self._pair(end.turn, turn, look, end.used)
        elif own is not None:
            changes = tuple([change for change in turn.changes if change.cause != Code.MODEL_CHANGED])
            same = turn if len(changes) == len(turn.changes) else replace(turn, changes=changes)
            pair = self._pair(own, same, look, own)
        elif left is not None:
            pair = self._pair(left, turn, look)
            if not pair.fell and self._billed and _reads_nothing(left, turn):
                pair = self._unread(left, turn, look, pair)
        self._go_on(turn, own)
        return pair

    def _own(self, left: Turn, right: Turn) -> Turn | None:
        """Return the last billed turn of the right's own model, where another turn stands between and the bill tells.

        Each model has a cache of its own. What it left there is what it reads: a fall is one of its own cache. Where
        it reads that and the chain has grown by more since, the change of model is what the rest was lost by. A turn
        that was never billed, such as one that its client did not outlive, takes nothing out of that cache.
        """
        own = self._of_models.get(_cache_of(right))
        same = _cache_of(left) == _cache_of(right)
        is_known = counts.cached(left.usage) is not None
        if own is None or own is left or (same and (is_known or not _goes_on(left, right))):
            return None
        if not _goes_on(own, right):
            return None
        short = counts.shortfall(own, right)
        beyond = counts.significant_fall(left, counts.shortfall(left, right))
        return own if short is not None and (counts.significant_fall(own, short) or not beyond) else None

    def _remember(self, turn: Turn) -> None:
        """Keep the last billed turn of each cache that a chain of a log uses, of the latest `MODELS`."""
        if not turn.is_rebuilt or not self._billed or counts.cached(turn.usage) is None:
            return
        kept, cache = self._of_models, _cache_of(turn)
        if turn.basis is None:  # its prompt is held as it was sent
            kept.clear()
        kept.pop(cache, None)
        kept[cache] = turn
        if len(kept) > MODELS:
            del kept[next(iter(kept))]

    def _go_on(self, turn: Turn, own: Turn | None = None) -> None:
        """Make a turn the one that the next is compared with; `own` is with what it was, where not with the last."""
        left = self._last if own is None else own
        self._remember(turn)
        self._note_hashes(turn)
        there = None if left is None else counts.cached(left.usage)
        if left is None:
            there = counts.first_pass_read(turn.usage)
        self._positions = (there,) if there else ()
        if turn.signs:
            fell = left is not None and bool(counts.significant_fall(left, counts.shortfall(left, turn)))
            for sign in turn.signs:
                tally = self._shown.get(sign.name, Tally())
                self._shown[sign.name] = tally if left is None else tally.plus(fell=fell)
        self._last = turn
        self._read = turn if turn.basis is not None and counts.first_pass_read(turn.usage) else self._read
        self._lives = counts.lifetime(turn, self._lives)
        self._hour = self._hour or _wrote_for_an_hour(turn)

    def _context(
        self, left: Turn, right: Turn, found: Overlap, fell: int | None, look: Look, used: Turn | None = None
    ) -> PairContext:  # fmt: skip
        asked_for = fell and not any(change.cause == Code.COMPACTION for change in right.changes)  # that explains it
        state = look() if asked_for else None
        lives = self._lives if used is None else counts.lifetime(left, self._lives)
        positions = self._positions if used is None else ()
        return PairContext(
            left, right, found, fell, lives, positions, self._billed, state, used, self._shown, self._moved(right),
        )  # fmt: skip

    def _pair(self, left: Turn, right: Turn, look: Look, used: Turn | None = None) -> Pair:
        before = self._measured
        if before is not left:  # turns passed since the last one that was measured
            self._sizes.advance(
                left.prompt, 0 if before is None else compare_prompts(before.prompt, left.prompt).common
            )
        found = compare_prompts(left.prompt, right.prompt)
        tail = None
        if not found.is_covered and not right.is_rebuilt and right.fidelity != "rendered":
            tail = replaced_tail(left.prompt, right.prompt)
            if tail is not None:
                whole, left = left.prompt, replace(left, source=without_tail(left.prompt, tail))
                self._sizes.advance(left.prompt, min(len(whole), left.prompt.stable))
                found = compare_prompts(left.prompt, right.prompt)
        tail_bytes, wanted = self._sizes.tail, self._sizes.sum_before(count_cached_segments(left.prompt))
        short = counts.shortfall(left, right) if self._billed else None
        context = self._context(left, right, found, counts.significant_fall(left, short), look, used)
        why = _with_hashes(context, limited(context, self._causes(context)))
        begins = [self._sizes.sum_before(cause.position) for cause in why]
        sums = self._sizes.advance(right.prompt, found.common)
        self._measured = right
        ratio = counts.bytes_per_token(right, sums.current)
        sizes = Sizes(sums.previous - tail_bytes, wanted, sums.common + found.common_bytes, ratio)
        why = self._at_the_end(context, why, begins, sizes)
        why = (*why, *self._remarks(context, why, sums, sizes))
        if short == 0 and counts.read_everything(left, right):
            why = tuple(map(_read_all_the_same, why))
        if tail is not None:
            why = self._with_tail(context, why, tail, ratio)
        begins += [0] * (len(why) - len(begins))
        lost = tuple(_lost(context, cause, begin, wanted) for cause, begin in zip(why, begins, strict=True))
        if right.fidelity in ("reconstructed", "hashed"):  # such bytes were never sent
            why = tuple([replace(cause, strength="strong") if cause.strength == "certain" else cause for cause in why])
        three = columns(context, why, sizes)
        return Pair(left, right, found, sums, tail_bytes, why, lost, context.fell, short, ratio, three)

    def _at_the_end(
        self, context: PairContext, why: tuple[Cause, ...], begins: list[int], sizes: Sizes
    ) -> tuple[Cause, ...]:  # fmt: skip
        """Say of an end that gave way that no cache holds it, where it is less than one block of it.

        What changed further in front, or in no byte (a parameter), costs what stands behind it.
        """
        left, right = context.left, context.right
        if context.fell or not self._billed or not why:
            return why
        block, short = counts.block_tokens(left), counts.shortfall(left, right)
        if short is not None and short > block:
            return why
        end, found = len(left.prompt.head) + last_message(left.prompt), list[Cause]()
        for cause, begin in zip(why, begins, strict=True):
            lost = (sizes.wanted - begin - _inside(context, cause)) / sizes.per_token
            within = cause.position >= end and lost <= block
            found.append(_within_a_block(cause, round(lost), block) if within else cause)
        return tuple(found)

    def _with_tail(
        self, context: PairContext, why: tuple[Cause, ...], tail: ReplacedTail, ratio: float
    ) -> tuple[Cause, ...]:
        """Add the replaced tail: a bill fell because of a breakpoint on it, or by what a cache held of it alone."""
        left = context.left
        evidence = evidence_of(tail, ratio, counts.prompt_tokens(left.usage))
        position = left.prompt.stable
        if context.fell and [cause.code for cause in why] == [Code.BILLED_READ_FELL]:
            if left.prompt.auto_breakpoint or any(segment.breakpoint is not None for segment in tail.segments):
                marked = VolatileText(" and ".join(evidence.holds) or "text that is replaced each turn", "", True)  # noqa: FBT003
                code = Code.BREAKPOINT_ON_VOLATILE
                why = (Cause(code, "messages", marked, position, "waste", evidence.path, strength="strong"),)
            elif context.fell <= evidence.tokens * ESTIMATED + counts.block_tokens(left):
                why = ()
        return (*why, Cause(Code.TAIL_REPLACED, "messages", evidence, position, path=evidence.path))

    def _causes(self, context: PairContext) -> tuple[Cause, ...]:
        left, right, found, fell = context.left, context.right, context.found, context.fell
        shape = by_shape(context) or other_api(context)
        if shape is not None:
            return (shape,)
        pause = None if left.at is None or right.at is None else right.at - left.at
        why = find_causes(
            left.prompt, right.prompt, found, right.changes,
            previous_call=left.call, current_call=right.call, pause=pause,
            fell=fell if counts.can_show_losses(left) else None,
            all_read=self._billed and counts.read_everything(left, right),
        )  # fmt: skip
        if why and why[0].kind == "expected" and not is_remark(why[0]):
            return why
        broken = any(not is_remark(cause) for cause in why)
        if not broken and not fell:
            return (*why, *self._gone_elsewhere(context))
        if not why and (known := recorded_causes(right.changes)):
            return tuple(replace(cause, position=found.common) for cause in known)
        if not broken:
            return (*why, *self._of_bill(context))
        gone = (expired(context) or parallel(context)) if fell or fell is None else None
        if gone is None:
            return (*self._gone_elsewhere(context), *why)
        return (replace(gone, also=tuple([cause for cause in why if not is_remark(cause)])),)

    def _gone_elsewhere(self, context: PairContext) -> tuple[Cause, ...]:
        """Return the cause of a request to another place, where no bill says that its cache was read there."""
        if not self._billed or context.fell == 0:
            return ()
        moved = rerouted(context) or (routed(context) if context.fell else None)
        return () if moved is None else (moved,)

    def _of_bill(self, context: PairContext) -> tuple[Cause, ...]:
        """Return the cause of a bill that fell though the prompt goes on."""
        doubt = disputed(context)
        return (attribute(context),) if doubt is None else (attribute(context), doubt)

    def _remarks(
        self, context: PairContext, why: tuple[Cause, ...], sums: PairSums, sizes: Sizes
    ) -> list[Cause]:  # fmt: skip
        """Return what is worth saying though nothing was lost: each of a chain's settings and contradictions once."""
        left, right = context.left, context.right
        found: list[Cause] = []
        broken = any(not is_remark(cause) for cause in why)
        if self._billed:
            if Code.BILL_CONTRADICTS_BODY not in self._noted:
                unlike = counts.contradiction(left, sums.previous) or counts.contradiction(right, sums.current)
                found += self._once(Code.BILL_CONTRADICTS_BODY, unlike)
            hour = self._hour or _wrote_for_an_hour(right)
            found += self._once(
                Code.LIFETIME_LOST, None if hour else counts.lost_lifetime(left) or counts.lost_lifetime(right)
            )
            if context.fell is None and not broken and not right.is_rebuilt and routed(context) is None:
                far = too_far(context)
                found += [] if far is None else [Cause(Code.LOOKBACK_EXCEEDED, "messages", far, context.found.common)]
        if Code.BILL_CONTRADICTS_BODY not in self._noted:  # such a bill is no witness
            disputed = dispute(context, why, sizes, broken=broken)
            if disputed is not None:
                found.append(Cause(Code.VERDICT_DISAGREES, None, disputed, context.found.common))
        return found

    def _once(self, code: Code, evidence: BillUnlikeBody | LifetimeLost | None) -> list[Cause]:
        if evidence is None or code in self._noted:
            return []
        self._noted.add(code)
        return [Cause(code, None, evidence)]


_COVERED = Overlap(0, 0, 0, is_covered=True, is_covered_canonically=True)


def _pair_of_bills(context: PairContext, why: tuple[Cause, ...], short: int | None) -> Pair:
    """Return a pair of which no bytes were measured."""
    return Pair(context.left, context.right, context.found, PairSums(0, 0, 0), 0, why, (0,) * len(why), context.fell,
                short, counts.BYTES_PER_TOKEN, columns(context, why, None))  # fmt: skip


class Hashed(NamedTuple):
    """What was noted by hash of a chain's turn; `rewritten`: the history was replaced since, as the log says."""

    turn: int
    hashes: PromptHashes
    rewritten: bool = False


def _rewrites(turn: Turn) -> bool:
    return any(change.cause in _REWRITES for change in turn.changes)


def _with_hashes(context: PairContext, why: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """Name beside what leads what a client's hashes say; they lead themselves where nothing else is known."""
    if not context.moved:
        return why
    if all(is_remark(cause) for cause in why):
        return (*context.moved, *why) if context.fell is None else why
    known = {cause.code for lead in why for cause in (lead, *lead.also)}
    also = [cause for cause in context.moved if cause.code not in known]
    return (replace(why[0], also=(*why[0].also, *also)), *why[1:])


def _cache_of(turn: Turn) -> tuple[str | None, str]:
    """Return what keeps a transcript's caches apart: the model, and who answered."""
    return turn.model, turn.call.answered_by


def _goes_on(left: Turn, right: Turn) -> bool:
    """Tell whether all of a prompt stands at the beginning of the other."""
    return right.extends(left) if right.basis is not None else compare_prompts(left.prompt, right.prompt).is_covered


def _reads_nothing(left: Turn, right: Turn) -> bool:
    """Tell whether a bill reads nothing of a log that goes on, and the bill before it read nothing to speak of."""
    if right.basis is None or counts.first_pass_read(right.usage) != 0 or right.changes:
        return False
    there = counts.cached(left.usage)
    if (
        there is None
        or there > counts.DROP
        or not counts.prompt_tokens(left.usage)
        or counts.bills_writes(left)
        or counts.bills_writes(right)
    ):
        return False
    return _cache_of(left) == _cache_of(right) and right.extends(left)


def _wrote_for_an_hour(turn: Turn) -> bool:
    return turn.usage is not None and bool(turn.usage.write_1h_tokens)


def _is_of_bytes(cause: Cause) -> bool:
    """Tell whether bytes show that a cause broke the prefix, and it was not to be expected."""
    return cause.kind != "expected" and cause.code not in BY_BILL and not is_remark(cause)


def _read_all_the_same(cause: Cause) -> Cause:
    """Say of what bytes show that it lost nothing, where the bill read all that was to be cached."""
    if cause.strength != "certain" or not _is_of_bytes(cause):
        return cause
    return replace(cause, override="expected", qualifiers=(*cause.qualifiers, "nothing-lost"))


def _within_a_block(cause: Cause, tokens: int, block: int) -> Cause:
    if not _is_of_bytes(cause) or cause.code == Code.IMAGE_CHANGED:  # bytes do not say how many tokens an image is
        return cause
    within = Cause(cause.code, cause.section, WithinBlock(tokens, block), cause.position, path=cause.path)
    return replace(
        cause, code=Code.CHANGE_AFTER_LAST_BREAKPOINT, override=None, qualifiers=("within-a-block",), also=(within,)
    )


def _lost(context: PairContext, cause: Cause, begins: int, wanted: int) -> int:
    """Weigh a cause in bytes: from where it begins to where the left wanted to be cached."""
    by_bytes = cause.code not in BY_BILL and cause.strength == "certain" and not is_remark(cause)
    return max(0, wanted - begins - _inside(context, cause)) if by_bytes else 0


def _inside(context: PairContext, cause: Cause) -> int:
    """Count the bytes that both share of the segment in which a cause begins."""
    return context.found.common_bytes if cause.position == context.found.common else 0
