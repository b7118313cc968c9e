"""Successive turns of a chain, compared: what `diff-prefix SESSION` shows and `check` judges.

In: the turns of one chain, in order. Out: one pair for each turn after the first. Rules: an expected
cause comes before any other; a pause longer than the cache lives explains a break and a fall of billed
reads alike; a fall that nothing explains is unattributable, never waste; a request that failed wrote no
cache, so it is no side of a pair. Cost: O(what is new).
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Struct

from lore.cache.lifetime import lifetime
from lore.cache.lookback import gap
from lore.judge.bills import (
    BYTES_PER_TOKEN,
    asked,
    bills_writes,
    bytes_per_token,
    cached,
    contradiction,
    fall,
    lost_lifetime,
    never_cached,
    read_again,
    shortfall,
    testifies,
    within_a_block,
)
from lore.judge.columns import SAID, Columns, Sizes, columns, dispute
from lore.judge.expected import PairContext, by_shape, by_time
from lore.judge.ruled_out import moved_elsewhere, unexplained
from lore.model.turn import Turn
from lore.prefix.causes import Cause, causes, limit_of, recorded
from lore.prefix.measure import Measure, Measured, size
from lore.prefix.overlap import Overlap, overlap

BY_BILL = frozenset(
    ("LORE113", "LORE128", "LORE129", "LORE131", "LORE155", "LORE301")
)  # bytes do not show what these cost
# What is worth saying of a pair though nothing was lost by it.
REMARKS = frozenset(("LORE134", "LORE146", "LORE302", "LORE303"))


class Pair(Struct, frozen=True):
    """Two successive turns: what they share, why they part, what it cost.

    `lost` counts, for each cause, the bytes from where it begins to where the left wanted to be cached;
    `short` the tokens that the right's bill reads less than the left's left in the cache, `fell` the same
    but 0 within tolerance; None unknown. `bytes_per_token` is the right's, from its bill, or a default.
    `columns` holds what bytes, bill and verdict say, each for itself.
    """

    left: Turn
    right: Turn
    overlap: Overlap
    bytes: Measured
    left_tail_bytes: int
    causes: tuple[Cause, ...]
    lost: tuple[int, ...]
    fell: int | None
    short: int | None
    bytes_per_token: float
    columns: Columns

    @property
    def lost_bytes(self) -> int:
        """The bytes that all causes together cost."""
        return max(self.lost, default=0)

    @property
    def is_break(self) -> bool:
        """Whether what the left wanted cached was not reused, by bytes or by bill."""
        return any(not is_remark(cause) for cause in self.causes)

    @property
    def reuse(self) -> float | None:
        """Common bytes as a share of the left without its tail; None where that is empty."""
        stable = self.bytes.left - self.left_tail_bytes
        return None if stable <= 0 else (self.bytes.common + self.overlap.inside) / stable

    @property
    def worst(self) -> str:
        """The worst kind among the causes."""
        kinds = [cause.kind for cause in self.causes if not is_remark(cause)]
        return max(kinds, key=("expected", "unattributable", "waste").index, default="expected")


def is_remark(cause: Cause) -> bool:
    """Tell whether a cause lost nothing here: it is told, and makes no cache break."""
    if cause.code == "LORE113":  # what no bill shows to be missed
        return cause.kind != "waste"
    return cause.harmless or cause.code in REMARKS


class Extension(NamedTuple):
    """A turn that extends the one before; `pair` where its bill fell all the same.

    That pair's figures of bytes are not measured: they are 0.
    """

    pair: Pair | None


class Pairs:
    """Pair the turns of one chain; `billed` says that each follows the one before, so bills compare."""

    def __init__(self, *, billed: bool = True) -> None:
        self._billed = billed
        self._last: Turn | None = None
        self._sizes = Measure(size)
        self._measured: Turn | None = None
        self._lives: float | None = None
        self._positions: tuple[int, ...] = ()  # the tokens at the last breakpoint of the turn before the last one
        self._told: set[str] = set()  # what is true of every turn of a chain is said once

    def extended(self, turn: Turn) -> Extension | None:
        """Take the next turn if it surely extends the last one; None where that is not sure.

        No prompt is made and nothing is measured then: where bytes do not part, only the bill can have
        fallen, and a bill says itself what was lost.
        """
        left = self._last
        if left is None or not turn.extends(left):
            return None
        short = shortfall(left, turn) if self._billed else None
        fell = fall(left, short)
        if fell and recorded(turn.changes):
            return None
        pair = self._unmeasured(left, turn, fell, short) if fell else None
        self._go_on(turn)
        return Extension(pair)

    def _unmeasured(self, left: Turn, right: Turn, fell: int, short: int | None) -> Pair:
        found = Overlap(0, 0, 0, covered=True, covered_canonical=True)
        facts = self._facts(left, right, found, fell)
        why = self._of_bill(facts)
        three = columns(facts, why, None)
        return Pair(left, right, found, Measured(0, 0, 0), 0, why, (0,) * len(why), fell, short, BYTES_PER_TOKEN, three)

    def advance(self, turn: Turn) -> Pair | None:
        """Take the next turn; None for the first, and for one that failed."""
        if turn.failed:
            return None
        left = self._last
        pair = None if left is None else self._pair(left, turn)
        self._go_on(turn)
        return pair

    def _go_on(self, turn: Turn) -> None:
        """Make a turn the one that the next is compared with."""
        left = self._last
        there = None if left is None else cached(left.usage)
        if left is None and turn.usage is not None:
            there = turn.usage.read_tokens
        self._positions = (there,) if there else ()
        self._last = turn
        self._lives = lifetime(turn, self._lives)

    def _facts(self, left: Turn, right: Turn, found: Overlap, fell: int | None) -> PairContext:
        return PairContext(left, right, found, fell, self._lives, self._positions, self._billed)

    def _measure(self, left: Turn) -> None:
        """Measure the left turn, if turns passed since the last one that was measured."""
        before = self._measured
        if before is not left:
            self._sizes.advance(left.prompt, 0 if before is None else overlap(before.prompt, left.prompt).common)

    def _pair(self, left: Turn, right: Turn) -> Pair:
        self._measure(left)
        found = overlap(left.prompt, right.prompt)
        tail, wanted = self._sizes.tail, self._sizes.upto(limit_of(left.prompt))
        short = shortfall(left, right) if self._billed else None
        facts = self._facts(left, right, found, fall(left, short))
        why = self._causes(facts)
        begins = [self._sizes.upto(cause.position) for cause in why]
        sums = self._sizes.advance(right.prompt, found.common)
        self._measured = right
        ratio = bytes_per_token(right, sums.right)
        sizes = Sizes(sums.left - tail, wanted, sums.common + found.inside, ratio)
        gone = (wanted - sums.common - found.inside) / ratio
        if self._billed and within_a_block(left, right, gone) and _last_message_gone(left, found.common):
            why = tuple([_at_the_end(cause) for cause in why])
        why = self._with_remarks(facts, why, sums, sizes)
        begins += [0] * (len(why) - len(begins))
        lost = tuple(_lost(facts, cause, begin, wanted) for cause, begin in zip(why, begins, strict=True))
        three = columns(facts, why, sizes)
        return Pair(left, right, found, sums, tail, why, lost, facts.fell, short, ratio, three)

    def _causes(self, facts: PairContext) -> tuple[Cause, ...]:
        left, right, found, fell = facts.left, facts.right, facts.found, facts.fell
        shape = by_shape(facts)
        if shape is not None:
            return (shape,)
        pause = None if left.at is None or right.at is None else right.at - left.at
        why = causes(
            left.prompt, right.prompt, found, right.changes,
            left_call=left.call, right_call=right.call, pause=pause, fell=fell if testifies(left) else None,
            reread=self._billed and read_again(left, right),
        )  # fmt: skip
        if why and why[0].kind == "expected" and not is_remark(why[0]):
            return why
        is_break = any(not is_remark(cause) for cause in why)
        if not is_break and not fell:
            return (*why, *self._gone_elsewhere(facts))
        if not why and (known := recorded(right.changes)):
            return tuple(msgspec.structs.replace(cause, position=found.common) for cause in known)
        if not is_break:
            return (*why, *self._of_bill(facts))
        gone = by_time(facts, goes_on=False) if fell or fell is None else None
        return (gone,) if gone is not None else (*self._gone_elsewhere(facts), *why)

    def _gone_elsewhere(self, facts: PairContext) -> tuple[Cause, ...]:
        """Return the cause of a request to another place, where no bill says that its cache was read there."""
        moved = moved_elsewhere(facts.left, facts.right) if self._billed and facts.fell != 0 else None
        return () if moved is None else (moved,)

    def _of_bill(self, facts: PairContext) -> tuple[Cause, ...]:
        """Return the cause of a bill that fell though the prompt goes on."""
        far = self._too_far(facts)
        known = far or by_time(facts, goes_on=True) or next(iter(self._gone_elsewhere(facts)), None)
        if known is not None:
            return (known,)
        verdict = facts.right.verdict
        return (unexplained(facts, None if verdict is None else SAID.get(verdict.reason)),)

    def _too_far(self, facts: PairContext) -> Cause | None:
        """Tell whether the last entry is out of reach of every breakpoint; waste where the bill shows the miss."""
        left, right = facts.left, facts.right
        if not self._billed or right.fidelity == "reconstructed":
            return None
        found = gap(left.prompt, right.prompt, right.at)
        if found is None or found.new < 0 or not found.exceeded:
            return None
        looked = (
            f"{found.allowed} are looked back"
            if found.allowed
            else "only an entry at a breakpoint was read at that time"
        )
        said = f"{found.new} new positions stand between the last breakpoint before and the next one; {looked}"
        if facts.fell:
            said += f"; the bill did not read {facts.fell:,} tokens that were cached"
        return Cause("LORE113", "messages", said, facts.found.common, "waste" if facts.fell else None)

    def _with_remarks(
        self, facts: PairContext, why: tuple[Cause, ...], sums: Measured, sizes: Sizes
    ) -> tuple[Cause, ...]:  # fmt: skip
        """Add what is worth saying though nothing was lost: each of a chain's settings and contradictions once."""
        left, right = facts.left, facts.right
        found: list[Cause] = []
        is_break = any(not is_remark(cause) for cause in why)
        if self._billed:
            if "LORE303" not in self._told:
                found += self._once("LORE303", contradiction(left, sums.left) or contradiction(right, sums.right))
            found += self._once("LORE134", lost_lifetime(left) or lost_lifetime(right))
            far = self._too_far(facts) if facts.fell is None and not is_break else None
            found += [far] if far is not None else []
        said = (
            "" if "LORE303" in self._told else dispute(facts, why, sizes, is_break=is_break)
        )  # such a bill is no witness
        return (*why, *found, *([Cause("LORE302", None, said, facts.found.common)] if said else []))

    def _once(self, code: str, said: str) -> list[Cause]:
        if not said or code in self._told:
            return []
        self._told.add(code)
        return [Cause(code, None, said)]


def _last_message_gone(left: Turn, common: int) -> bool:
    """Tell whether prompts part where the left's last message begins, a user's: none of it stands there any more."""
    rest = tuple(left.prompt.messages.since(max(0, common - len(left.prompt.head))))
    starts = [number for number, one in enumerate(rest) if one.kind == "envelope"]
    return starts == [0] and b'"user"' in rest[0].data


def _at_the_end(cause: Cause) -> Cause:
    """Say of a note at the end that gave way that no cache holds it, as with text behind the last breakpoint."""
    if cause.kind == "expected" or cause.code in BY_BILL or is_remark(cause):
        return cause
    words = (
        f"{cause.evidence}; the bill read all that was sent before it: what is lost is less than a block of the cache"
    )
    return msgspec.structs.replace(cause, code="LORE146", evidence=words, here=None)


def _lost(facts: PairContext, cause: Cause, begins: int, wanted: int) -> int:
    """Weigh a cause in bytes: from where it begins to where the left wanted to be cached."""
    if cause.code in BY_BILL or is_remark(cause):
        return 0
    inside = facts.found.inside if cause.position == facts.found.common else 0
    return max(0, wanted - begins - inside)


def lost_tokens(pair: Pair, number: int, counted: int | None = None) -> tuple[int, str]:
    """Return what a cause cost in tokens, and whether that is recorded, counted or estimated.

    A bill that reads all that was cached says that nothing was lost, whatever the bytes say. Where writes are not
    billed, what was cached is not known: bytes say it then, and no more than what was asked and not read.
    """
    if is_remark(pair.causes[number]):
        return 0, "recorded" if pair.fell is not None else "estimated"
    said = (
        (counted, "counted") if counted is not None else (round(pair.lost[number] / pair.bytes_per_token), "estimated")
    )
    if pair.short is None:
        return said
    paid = pair.short if pair.left.chain == pair.right.chain else min(pair.short, asked(pair.right.usage))
    unbilled = min(said[0], _unbilled(pair)) if pair.lost[number] else 0
    return (unbilled, said[1]) if unbilled > paid else (paid, "recorded")


def _unbilled(pair: Pair) -> int:
    """Return how many tokens may have been lost that no bill says were cached: writes are billed by few providers."""
    left, right = pair.left, pair.right
    if bills_writes(left) or read_again(left, right) or never_cached(left) or left.chain != right.chain:
        return 0
    return asked(left.usage) - (right.usage.read_tokens or 0 if right.usage else 0)
