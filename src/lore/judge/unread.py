"""Writes that are paid for and never read: LORE305.

In: the turns of one chain with their bills. Out: one finding, when the chain has ended. Rules: what the last turn wrote
could not be read yet, nor what was written for a pause that was longer than it lives; where anything that the chain
wrote may have been read, by whatever chain, or a bill is missing, nothing is said; a turn whose cause was found is told
there. One fall alone is LORE301's matter.
"""

from __future__ import annotations

from collections.abc import Iterator

from lore.cache.lifetime import FIVE_MINUTES, lifetime
from lore.cache.turn_context import SOON
from lore.judge.base import Place, finding
from lore.judge.bills import TOLERANCE_TOKENS
from lore.judge.expected import since
from lore.judge.pairs import Pair, is_remark
from lore.model.codes import Code
from lore.model.evidence import WritesUnread
from lore.model.results import Finding
from lore.model.turn import Turn

FEWEST = 2  # writes that went unread


class Reads:
    """The most that a chain of each model read, and the most that another one did."""

    def __init__(self) -> None:
        self._most: dict[str | None, dict[str, int]] = {}

    def note(self, turn: Turn, read: int) -> None:
        """Take what a turn read."""
        found = self._most.setdefault(turn.model, {})
        if read <= found.get(turn.chain, 0):
            return
        found[turn.chain] = read
        if len(found) > 2:
            del found[min(found, key=found.__getitem__)]

    def beside(self, turn: Turn) -> int:
        """Return the most that another chain of the turn's model read."""
        return max((read for chain, read in self._most.get(turn.model, {}).items() if chain != turn.chain), default=0)


class Unread:
    """Follow the bills of one chain."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._silent = False
        self._base: int | None = None  # the lowest position behind which this chain wrote
        self._first: Turn | None = None
        self._tokens = self._writes = 0

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        """Take the next turn."""
        usage = turn.usage
        if turn.failed:
            return
        read = None if usage is None else usage.read_tokens
        if read:
            self._reads.note(turn, read)
        if self._silent:
            return
        if self._base is not None and (read is None or read > self._base or pair is None or pair.short is None):
            self._silent = True
            return
        if pair is not None and pair.left.chain == turn.chain:
            self._follows(turn, pair)
        if usage is not None and usage.write_tokens:
            self._base = min(read or 0, read or 0 if self._base is None else self._base)

    def _follows(self, turn: Turn, pair: Pair) -> None:
        left = pair.left
        if any(one.code == Code.BILL_CONTRADICTS_BODY for one in pair.causes):
            self._silent = True
            return
        wrote = 0 if left.usage is None else left.usage.write_tokens or 0
        pause = since(left, turn)
        if not wrote or pause is None or not SOON < pause <= (lifetime(left, None) or FIVE_MINUTES):
            return
        if any(one.code != Code.BILLED_READ_FELL and not is_remark(one) for one in pair.causes):
            return
        self._first = self._first or left
        self._tokens += wrote
        self._writes += 1

    def findings(self, place: Place) -> Iterator[Finding]:
        """Say what was paid for nothing."""
        turn = self._first
        if self._silent or turn is None or self._writes < FEWEST or self._tokens <= TOLERANCE_TOKENS:
            return
        if self._reads.beside(turn) > (self._base or 0):
            return
        yield finding(
            Code.WRITES_NEVER_READ,
            place.of(turn),
            WritesUnread(self._tokens, self._writes),
            line=turn.line,
            chain=turn.chain,
            turn=turn.number,
            dialect=turn.dialect,
            lost_tokens=self._tokens,
            tokens="recorded",
            fidelity=turn.fidelity,
        )
