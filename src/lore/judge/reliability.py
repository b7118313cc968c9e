"""How reliably a provider reads what its cache holds: appends, and the share of them that were read.

An append is a turn whose prefix only the provider can have lost: the causes found for it name no change by the client.
"""

from __future__ import annotations

from lore.cache.counts import block_tokens, first_pass_read
from lore.judge.base import TurnVerdict
from lore.judge.pairs.pair import Tally, is_remark
from lore.judge.prices import date_of
from lore.model.codes import UNEXPLAINED, Code
from lore.model.results.simulate import ReliabilityResult

_SHORT = 0.02  # share of the cached prompt by which a complete read may be smaller
# Causes that are the provider's alone.
_OF_PROVIDER = {*UNEXPLAINED, Code.READ_SHORT_OF_PREDICTION, Code.OLDER_ENTRY_SERVED, Code.ERROR_BETWEEN}


class Reliability:
    """Counts appends, and how many of them were read, by model, hour, gateway and key."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str], Tally] = {}

    def take(self, verdict: TurnVerdict) -> None:
        """Count a turn, if it is an append."""
        was_read, turn = was_append_read(verdict), verdict.turn
        if was_read is None:
            return
        keys = [("all", ""), ("model", turn.answering_model or "unknown")]
        if turn.at is not None:
            time = date_of(turn.at)
            keys.append(("hour", "unknown" if time is None else f"{time.hour:02}:00"))
        keys += [("gateway", host)] if (host := turn.call.endpoint.partition("/")[0]) else []
        keys += [("key", turn.call.account)] if turn.call.account else []
        for key in keys:
            self._tallies[key] = self._tallies.get(key, Tally()).plus(fell=not was_read)

    def results(self) -> list[ReliabilityResult]:
        """Return a row for the whole, then for each model, hour, gateway and key; the most frequent first."""
        order = ("all", "model", "hour", "gateway", "key")
        rows = sorted(
            self._tallies.items(),
            key=lambda row: (order.index(row[0][0]), row[0][0] != "hour" and -row[1].times, row[0][1]),
        )
        return [
            ReliabilityResult(by=by, name=name, appends=tally.times, read=tally.times - tally.fell,
                              share=round((tally.times - tally.fell) / tally.times, 4))
            for (by, name), tally in rows
        ]  # fmt: skip


def was_append_read(verdict: TurnVerdict) -> bool | None:
    """Return whether an append read the tokens in the cache, within 2 % and a block; None if unknown or no append.

    Predictions are not used: `lore compare` makes them only for turns whose read fell, `lore simulate` for all.
    """
    read, cached = first_pass_read(verdict.turn.usage), verdict.cached
    if not cached or read is None or (not verdict.compared and verdict.pair is None):
        return None
    for cause in verdict.causes:
        if cause.code not in _OF_PROVIDER and (not is_remark(cause) or cause.code == Code.TAIL_REPLACED):
            return None
    return read >= cached * (1 - _SHORT) - block_tokens(verdict.turn)
