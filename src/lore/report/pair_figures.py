"""A pair of turns as a `DiffResult`: the common prefix in bytes and tokens, the first difference, causes, usage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lore.judge.base import findings_of
from lore.judge.messages import MASKED
from lore.judge.pair import Pair
from lore.model import results
from lore.model.cause import Place
from lore.model.codes import Problem
from lore.model.results import Finding
from lore.model.turn import Turn
from lore.prefix.overlap import (
    ChainSums,
    PairSums,
    canonical_of,
    count_canonical_bytes,
    count_shared_segments,
    find_divergence,
    name_relation,
)
from lore.report.redacted import REDACTED, redacted_finding
from lore.report.sentences.findings import cause_result, columns_result

if TYPE_CHECKING:
    from lore.tokens.o200k import Counter


def causes_of(findings: Iterable[Finding], *, redact: bool = False) -> list[results.CauseResult]:
    """Return findings in the form of results about a turn."""
    return [cause_result(redacted_finding(finding) if redact else finding) for finding in findings]


class PairFigures:
    """Describes the successive pairs of one chain, from its first turn on; each segment is measured once.

    Tokens are counted if there is a `counter`; with `redact` no result holds content.
    """

    def __init__(self, first: Turn, counter: Counter | None = None, *, redact: bool = False) -> None:
        self._counter = counter
        self._redact = redact
        self._canonical = ChainSums(lambda segment: len(canonical_of(segment)))
        self._tokens = None if counter is None else ChainSums(lambda segment: counter.count(segment.data))
        self._latest = first
        for sums in filter(None, (self._canonical, self._tokens)):
            sums.advance(first.prompt, 0)

    def describe(
        self, pair: Pair, place: Place, left: results.DiffSide, right: results.DiffSide, *,
        file: results.FileLengths | None = None,
        problems: Sequence[Problem] = (), caches: Sequence[results.CachePrediction] = (), named: bool = False,
    ) -> results.DiffResult:  # fmt: skip
        """Return the result for the next pair; `named` adds the chain and turn of its right side."""
        usage, verdict = pair.right.usage, pair.right.verdict
        return results.DiffResult(
            left=left,
            right=right,
            file=file,
            prompt=self._lengths(pair),
            relation=name_relation(pair.left.prompt, pair.right.prompt, pair.overlap),
            divergence=find_divergence(pair.left.prompt, pair.right.prompt, pair.overlap, pair.bytes.common),
            reuse_ratio=None if pair.reuse is None else round(pair.reuse, 6),
            causes=causes_of((found for _, found in findings_of(pair, place)), redact=self._redact),
            caches=list(caches),
            billed=None if usage is None else results.UsageResult.of(usage),
            verdict=None if verdict is None else results.copy_fields(results.VerdictResult, verdict),
            problems=list(problems),
            chain=pair.right.chain if named else None,
            turn=pair.right.number if named else None,
            columns=columns_result(pair, REDACTED if self._redact else MASKED),
        )

    def _lengths(self, pair: Pair) -> results.PromptLengths:
        left = pair.left
        if (left.chain, left.number) != (self._latest.chain, self._latest.number):
            # A request may continue any earlier request: measure from that one.
            shared = count_shared_segments(self._latest.prompt, left.prompt)
            for sums in filter(None, (self._canonical, self._tokens)):
                sums.advance(left.prompt, shared)
        self._latest = pair.right
        canonical = count_canonical_bytes(self._canonical, left.prompt, pair.right.prompt, pair.overlap)
        self._canonical.advance(pair.right.prompt, pair.overlap.common)
        tokens = self._token_counts(pair)
        return results.PromptLengths(
            left_bytes=pair.bytes.previous,
            right_bytes=pair.bytes.current,
            common_prefix_bytes=pair.bytes.common + pair.overlap.common_bytes,
            common_prefix_segments=pair.overlap.common,
            left_tail_bytes=pair.left_tail_bytes,
            canonical_common_prefix_bytes=canonical,
            left_tokens=None if tokens is None else tokens.previous,
            right_tokens=None if tokens is None else tokens.current,
            common_prefix_tokens=None if tokens is None else tokens.common,
            tokenizer=None if self._counter is None else self._counter.name,
        )

    def _token_counts(self, pair: Pair) -> PairSums | None:
        if self._tokens is None or self._counter is None:
            return None
        sums, place = self._tokens.advance(pair.right.prompt, pair.overlap.common), pair.overlap.common
        left, right = pair.left.prompt.segment_at(place), pair.right.prompt.segment_at(place)
        if not pair.overlap.common_bytes or left is None or right is None:
            return sums
        return replace(sums, common=sums.common + self._counter.common(left.data, right.data))
