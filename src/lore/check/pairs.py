"""Successive turns of a chain, compared: what `diff-prefix SESSION` shows and `check` judges.

In: the turns of one chain, in order. Out: one pair for each turn after the first. Rules: an expected
cause comes before any other; a pause longer than the cache lives explains a break and a fall of billed
reads alike; a fall that nothing explains is unattributable, never waste. Cost: O(what is new).
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Struct

from lore.cache.lifetime import expiry, lifetime
from lore.model.turn import Turn
from lore.prefix.causes import Cause, causes, limit_of, recorded
from lore.prefix.measure import Measure, Measured, size
from lore.prefix.overlap import Overlap, overlap

TOLERANCE_TOKENS, TOLERANCE_SHARE = 1024, 0.02  # reads fall short by this much without any cause
BYTES_PER_TOKEN = 4.0
_BILLED = frozenset(("LORE128", "LORE301"))  # causes that bytes do not show
# Anthropic's verdicts on a miss, and the section that each is about.
_SAID = {"tools_changed": "tools", "system_changed": "system", "messages_changed": "messages"}


class Pair(Struct, frozen=True):
    """Two successive turns: what they share, why they part, what it cost.

    `lost` counts, for each cause, the bytes from where it begins to where the left wanted to be cached;
    `short` the tokens that the right's bill reads less than the left's left in the cache, `fell` the same
    but 0 within tolerance; None unknown. `bytes_per_token` is the right's, from its bill, or a default.
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

    @property
    def lost_bytes(self) -> int:
        """The bytes that all causes together cost."""
        return max(self.lost, default=0)

    @property
    def bust(self) -> bool:
        """Whether what the left wanted cached was not reused, by bytes or by bill."""
        return bool(self.causes) and any(not cause.harmless for cause in self.causes)

    @property
    def reuse(self) -> float | None:
        """Common bytes as a share of the left without its tail; None where that is empty."""
        stable = self.bytes.left - self.left_tail_bytes
        return None if stable <= 0 else (self.bytes.common + self.overlap.inside) / stable

    @property
    def worst(self) -> str:
        """The worst kind among the causes."""
        kinds = [cause.kind for cause in self.causes if not cause.harmless]
        return max(kinds, key=("expected", "unattributable", "waste").index, default="expected")


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
        self._last = turn
        self._lives = lifetime(turn, self._lives)
        return Extension(pair)

    def _unmeasured(self, left: Turn, right: Turn, fell: int, short: int | None) -> Pair:
        cause = self._of_bill(left, right, fell)
        found = Overlap(0, 0, 0, covered=True, covered_canonical=True)
        return Pair(left, right, found, Measured(0, 0, 0), 0, (cause,), (0,), fell, short, BYTES_PER_TOKEN)

    def advance(self, turn: Turn) -> Pair | None:
        """Take the next turn; None for the first."""
        left, self._last = self._last, turn
        pair = None if left is None else self._pair(left, turn)
        self._lives = lifetime(turn, self._lives)
        return pair

    def _measure(self, left: Turn) -> None:
        """Measure the left turn, if turns passed since the last one that was measured."""
        before = self._measured
        if before is not left:
            self._sizes.advance(left.prompt, 0 if before is None else overlap(before.prompt, left.prompt).common)

    def _pair(self, left: Turn, right: Turn) -> Pair:
        self._measure(left)
        found = overlap(left.prompt, right.prompt)
        tail = self._sizes.tail
        short = shortfall(left, right) if self._billed else None
        fell = fall(left, short)
        why = self._causes(left, right, found, fell)
        lost = self._lost(left, found, why) if why else ()
        sums = self._sizes.advance(right.prompt, found.common)
        self._measured = right
        ratio = bytes_per_token(right, sums.right)
        return Pair(left, right, found, sums, tail, why, lost, fell, short, ratio)

    def _lost(self, left: Turn, found: Overlap, why: tuple[Cause, ...]) -> tuple[int, ...]:
        """Weigh the causes; call before the sums go on to the right prompt."""
        wanted = self._sizes.upto(limit_of(left.prompt))
        lost: list[int] = []
        for cause in why:
            inside = found.inside if cause.position == found.common else 0
            begins = wanted if cause.code in _BILLED else self._sizes.upto(cause.position) + inside
            lost.append(max(0, wanted - begins))
        return tuple(lost)

    def _causes(self, left: Turn, right: Turn, found: Overlap, fell: int | None) -> tuple[Cause, ...]:
        pause = None if left.at is None or right.at is None else right.at - left.at
        why = causes(
            left.prompt, right.prompt, found, right.changes,
            left_call=left.call, right_call=right.call, pause=pause, fell=fell,
        )  # fmt: skip
        if why and why[0].kind == "expected" and not why[0].harmless:
            return why
        if not why and not fell:
            return ()
        if not why and (known := recorded(right.changes)):
            return tuple(msgspec.structs.replace(cause, position=found.common) for cause in known)
        if not fell and all(cause.harmless for cause in why):
            return why
        if fell or fell is None:
            gone = self._expired(left, right)
            if gone is not None:
                return (gone,)
        if fell and not any(not cause.harmless for cause in why):
            return (*why, _unexplained(left, right, fell))
        return why

    def _of_bill(self, left: Turn, right: Turn, fell: int) -> Cause:
        """Return the cause of a bill that fell though the prompt goes on."""
        return self._expired(left, right) or _unexplained(left, right, fell)

    def _expired(self, left: Turn, right: Turn) -> Cause | None:
        gone = expiry(left, right, self._lives) if self._billed else None
        if gone is None:
            return None
        paused = f"{_duration(gone.pause)} since the last turn; the cache lives {_duration(gone.lifetime)}"
        return Cause("LORE128", None, paused)


def shortfall(left: Turn, right: Turn) -> int | None:
    """Return by how many tokens the bill reads less than was left in the cache; None where not billed."""
    if left.usage is None or right.usage is None or right.usage.read_tokens is None:
        return None
    if left.usage.read_tokens is None and left.usage.write_tokens is None:
        return None
    there = (left.usage.read_tokens or 0) + (left.usage.write_tokens or 0)
    return max(0, there - right.usage.read_tokens)


def fall(left: Turn, short: int | None) -> int | None:
    """Return the shortfall, 0 where it is within what happens without any cause."""
    if not short or left.usage is None:
        return short
    there = (left.usage.read_tokens or 0) + (left.usage.write_tokens or 0)
    return short if short > max(TOLERANCE_TOKENS, TOLERANCE_SHARE * there) else 0


def lost_tokens(pair: Pair, number: int, counted: int | None = None) -> tuple[int, str]:
    """Return what a cause cost in tokens, and whether that is recorded, counted or estimated.

    A bill that reads all that was cached says that nothing was lost, whatever the bytes say.
    """
    if pair.causes[number].harmless:
        return 0, "recorded" if pair.fell is not None else "estimated"
    if pair.short is not None:
        return pair.short, "recorded"
    if counted is not None:
        return counted, "counted"
    return round(pair.lost[number] / pair.bytes_per_token), "estimated"


def bytes_per_token(turn: Turn, total_bytes: int) -> float:
    """Return this turn's bytes per token, from its bill where that is plausible for its bytes."""
    usage = turn.usage
    if usage is None or total_bytes <= 0:
        return BYTES_PER_TOKEN
    tokens = (usage.fresh_tokens or 0) + (usage.read_tokens or 0) + (usage.write_tokens or 0)
    ratio = total_bytes / tokens if tokens else 0.0
    return ratio if 1.0 <= ratio <= 16.0 else BYTES_PER_TOKEN


def _unexplained(left: Turn, right: Turn, fell: int) -> Cause:
    section = _SAID.get(right.verdict.reason) if right.verdict is not None else None
    return Cause("LORE301", section, _fell(left, right, fell))


def _fell(left: Turn, right: Turn, fell: int) -> str:
    left_usage, right_usage = left.usage, right.usage
    assert left_usage is not None
    assert right_usage is not None
    there = (left_usage.read_tokens or 0) + (left_usage.write_tokens or 0)
    said = "no change that the recording shows explains it"
    if right.verdict is not None:
        said = f"the provider says {right.verdict.reason}"
    return f"{fell:,} of {there:,} cached tokens were not read again ({right_usage.read_tokens or 0:,} were); {said}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{seconds / 3600:.1f} h"
