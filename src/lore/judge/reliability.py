"""How reliably a provider reads what stood in its cache: is it the client, or the provider?

In: verdicts with what stood before each turn. Out: of the pure appends inside the lifetime, how many were read. Rules:
an append is a turn of which only the provider can have moved the prefix: nothing that the client does, no pause longer
than the cache lives, no compaction, and nothing that a provider leaves out of a prompt by rule; it was read where the
bill reads all that stood there but 2 % and one block. Counted by model, by hour of the day (UTC), by gateway or host,
and by the digest of the key, as far as each is recorded. Costs O(1) a turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from lore.cache.bills import DROP, block_tokens, met_read
from lore.cache.forecast import Situation
from lore.judge.base import Verdict
from lore.judge.losses import is_remark
from lore.model.codes import UNEXPLAINED, Code
from lore.model.results.simulate import ReliabilityResult
from lore.model.turn import Turn

SHARE = 0.02
# What a provider or its cache does by itself, though the prompt goes on.
_OWN = {*UNEXPLAINED, Code.READ_SHORT_OF_PREDICTION, Code.OLDER_ENTRY_SERVED, Code.IDLE_WITHIN_LIFETIME,
        Code.ERROR_BETWEEN}  # fmt: skip


class _Tally(NamedTuple):
    appends: int = 0
    read: int = 0


class Reliability:
    """Counts of appends, and of those that were read."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str], _Tally] = {}

    def take(self, verdict: Verdict, stood: int | None) -> None:
        """Count a turn where it is a pure append to what `stood` in the cache, in tokens; None: not known."""
        was_read = append_read(verdict, stood)
        if was_read is None:
            return
        for key in _keys(verdict.turn):
            before = self._tallies.get(key, _Tally())
            self._tallies[key] = _Tally(before.appends + 1, before.read + was_read)

    def results(self) -> list[ReliabilityResult]:
        """Return a row a key, the whole first, then each dimension: hours in their order, the most frequent first."""
        order = {by: number for number, by in enumerate(("all", "model", "hour", "gateway", "key"))}
        rows = sorted(
            self._tallies.items(),
            key=lambda row: (order[row[0][0]], row[0][0] != "hour" and -row[1].appends, row[0][1]),
        )
        return [
            ReliabilityResult(by=by, name=name, appends=found.appends, read=found.read,
                              share=round(found.read / found.appends, 4))
            for (by, name), found in rows
        ]  # fmt: skip


def append_read(verdict: Verdict, stood: int | None) -> bool | None:
    """Tell whether a pure append read what `stood` in the cache, in tokens; None where it is none or no bill says."""
    read = met_read(verdict.turn.usage)
    if not stood or read is None or not is_append(verdict):
        return None
    return read >= stood * (1 - SHARE) - block_tokens(verdict.turn)


def is_append(verdict: Verdict) -> bool:
    """Tell whether only the provider can have moved the prefix of a turn."""
    if not verdict.compared and verdict.pair is None:
        return False
    if any(cause.code not in _OWN and (not is_remark(cause) or cause.code == Code.TAIL_REPLACED)
           for cause in verdict.causes):  # fmt: skip
        return False
    seen = None if verdict.foreseen is None else verdict.foreseen.situation
    return seen is None or _goes_on(seen)


def _goes_on(seen: Situation) -> bool:
    """Tell whether a transcript goes on: the same model and history, in time, and nothing left out by rule."""
    if seen.same < seen.size or seen.moved_head or seen.other_model or seen.changes:
        return False
    if seen.pause is not None and seen.lifetime is not None and seen.pause > seen.lifetime:
        return False
    stood = seen.stood or 0
    return not any(sign.sign == "reasoning" and (sign.left or 0) < stood - DROP for sign in seen.seen)


def _keys(turn: Turn) -> Iterator[tuple[str, str]]:
    yield "all", ""
    yield "model", turn.answering_model or "unknown"
    if turn.at is not None:
        try:
            yield "hour", f"{datetime.fromtimestamp(turn.at, UTC):%H}:00"
        except (ValueError, OverflowError, OSError):  # a clock that no calendar holds
            yield "hour", "unknown"
    host = turn.call.endpoint.partition("/")[0]
    if host:
        yield "gateway", host
    if turn.call.account:
        yield "key", turn.call.account
