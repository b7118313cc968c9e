"""Put a pair of turns into figures: bytes, canonical bytes, tokens, causes with their cost.

Rules: every figure that is not counted is said to be estimated; what was not asked for is None; text
that looks like a credential is masked before it is cut, so that half of one is not shown either.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from lore.judge.base import Place
from lore.judge.pairs import Pair
from lore.judge.rules import findings_of
from lore.model.codes import Problem
from lore.model.events import Verdict
from lore.model.prompt import Prompt, Segment
from lore.model.results import (
    BilledResult,
    CachePrediction,
    Diff,
    FileLengths,
    PromptLengths,
    Side,
    VerdictResult,
)  # fmt: skip
from lore.model.turn import Turn
from lore.model.vector import common_prefix
from lore.prefix.overlap import Measure, Measured, canonical_of, divergence, relation, since
from lore.report.redacted import REDACTED, redacted_finding
from lore.report.sentences import cause_result, columns_result, worded

if TYPE_CHECKING:
    from lore.tokens.o200k import Counter

NOWHERE = Place("")


class _Canonical:
    """Sums of canonical bytes over the latest prompt, made as far as they are asked for.

    A prompt that parts early costs what it shares; what two prompts share is weighed once.
    """

    def __init__(self) -> None:
        self._sums = [0]
        self._prompt: Prompt | None = None

    def go_on(self, prompt: Prompt, common: int) -> None:
        """Go on to the next prompt, whose first `common` segments are those of the last one."""
        del self._sums[common + 1 :]
        self._prompt = prompt

    def upto(self, position: int) -> int:
        """Return the canonical bytes of the latest prompt's first `position` segments."""
        sums, known = self._sums, len(self._sums) - 1
        if position > known and self._prompt is not None:
            for segment in islice(since(self._prompt, known, tail=True), position - known):
                sums.append(sums[-1] + len(canonical_of(segment)))
        return sums[min(position, len(sums) - 1)]


class Figures:
    """Figures for the successive pairs of one chain; each segment is weighed once."""

    def __init__(self, counter: Counter | None) -> None:
        self._counter = counter
        self._canonical = _Canonical()
        self._tokens = None if counter is None else Measure(lambda segment: counter.count(segment.data))

    def first(self, turn: Turn) -> None:
        """Take the first turn of the chain."""
        self._canonical.go_on(turn.prompt, 0)
        if self._tokens is not None:
            self._tokens.advance(turn.prompt, 0)

    def describe(
        self, pair: Pair, left: Side, right: Side, *, file: FileLengths | None, problems: list[Problem],
        named: bool = False, caches: Sequence[CachePrediction] = (), place: Place = NOWHERE, redact: bool = False,
    ) -> Diff:  # fmt: skip
        """Return the result for the next pair; `named` adds the chain and turn of its right side.

        `place` says where causes are reported, and to whom; with `redact` no cause and no column shows content.
        """
        change = REDACTED if redact else None
        canonical = self._canonical_bytes(pair)
        tokens = self._token_counts(pair)
        where = divergence(pair.left.prompt, pair.right.prompt, pair.overlap, pair.bytes.common)
        lengths = PromptLengths(
            left_bytes=pair.bytes.left,
            right_bytes=pair.bytes.right,
            common_prefix_bytes=pair.bytes.common + pair.overlap.inside,
            common_prefix_segments=pair.overlap.common,
            left_tail_bytes=pair.left_tail_bytes,
            canonical_common_prefix_bytes=canonical,
            left_tokens=None if tokens is None else tokens.left,
            right_tokens=None if tokens is None else tokens.right,
            common_prefix_tokens=None if tokens is None else tokens.common,
            tokenizer=None if self._counter is None else self._counter.name,
        )
        said = redacted_finding if redact else worded
        causes = [cause_result(said(found)) for _, found in findings_of(pair, place)]
        return Diff(
            left=left,
            right=right,
            file=file,
            prompt=lengths,
            relation=relation(pair.left.prompt, pair.right.prompt, pair.overlap),
            divergence=where,
            reuse_ratio=None if pair.reuse is None else round(pair.reuse, 6),
            causes=causes,
            caches=list(caches),
            billed=None if pair.right.usage is None else BilledResult.of(pair.right.usage),
            verdict=verdict_result(pair.right.verdict),
            problems=problems,
            chain=pair.right.chain if named else None,
            turn=pair.right.number if named else None,
            columns=columns_result(pair.columns, change),
        )

    def _canonical_bytes(self, pair: Pair) -> int:
        """Common canonical bytes, in the left's canonical encoding; then go on to the right prompt."""
        position = pair.overlap.canonical
        shared = self._canonical.upto(position)
        mine, theirs = pair.left.prompt.at(position), pair.right.prompt.at(position)
        if (
            position < pair.left.prompt.stable
            and mine is not None
            and theirs is not None
            and (mine.section, mine.kind) == (theirs.section, theirs.kind)
        ):
            shared += common_prefix(canonical_of(mine), canonical_of(theirs))
        self._canonical.go_on(pair.right.prompt, pair.overlap.common)
        return shared

    def _token_counts(self, pair: Pair) -> Measured | None:
        if self._tokens is None or self._counter is None:
            return None
        sums = self._tokens.advance(pair.right.prompt, pair.overlap.common)
        inside = 0
        if pair.overlap.inside:
            mine, theirs = _differing(pair)
            inside = self._counter.common(mine.data, theirs.data)
        return Measured(sums.left, sums.right, sums.common + inside)


def _differing(pair: Pair) -> tuple[Segment, Segment]:
    position = pair.overlap.common
    mine, theirs = pair.left.prompt.at(position), pair.right.prompt.at(position)
    assert mine is not None
    assert theirs is not None
    return mine, theirs


def verdict_result(verdict: Verdict | None) -> VerdictResult | None:
    """Return the provider's verdict."""
    return None if verdict is None else VerdictResult(verdict.reason, verdict.missed_tokens, verdict.source)
