"""All chains of a recording, paired: each turn with the one before it in its chain, and what joins chains.

In: the turns of a recording, in order. Out: their pairs. Rules: the first turn of a chain makes no pair,
but where it restarts another chain without its tools, or was sent beside others of one fan-out before the
first of them was answered: then the other one's tools and system prompt are its left.

Memory: one turn a chain, and the heads of at most 16 first turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from lore.judge.expected import started_in_parallel
from lore.judge.pairs import Extension, Look, Pair, Pairs, unknown
from lore.model.prompt import Prompt
from lore.model.turn import Turn
from lore.model.vector import Vector

SIBLINGS = 16  # first turns that a fan-out is looked for in


class Chained:
    """Pair the turns of all chains of one recording; `seen` counts the chains, `turns` the turns."""

    def __init__(self) -> None:
        self._chains: dict[str, Pairs] = {}
        self._latest: dict[str, Turn] = {}  # of chains of recorded requests: what a restart gives up
        self._starts: deque[Turn] = deque(maxlen=SIBLINGS)
        self.seen = self.turns = 0

    def advance(self, turn: Turn, look: Look = unknown) -> Pair | None:
        """Take the next turn; None where it has nothing to be compared with."""
        self.turns += 1
        pairs = self._chains.get(turn.chain)
        if pairs is None:
            pairs = self._begun(turn)
        if turn.basis is None and not turn.failed:
            self._latest[turn.chain] = turn
        return pairs.advance(turn, look)

    def extended(self, turn: Turn, look: Look = unknown) -> Extension | None:
        """Take the next turn if it surely extends the last one of its chain; None where that is not sure."""
        pairs = self._chains.get(turn.chain)
        return None if pairs is None else pairs.extended(turn, look)

    def forget(self, names: Iterable[str]) -> None:
        """Let go of chains that no turn will continue."""
        for name in names:
            self._chains.pop(name, None)
            self._latest.pop(name, None)

    def _begun(self, turn: Turn) -> Pairs:
        """Begin a chain: with the turn that it is compared with, where there is one in another chain."""
        pairs = self._chains[turn.chain] = Pairs()
        self.seen += 1
        if turn.basis is not None or turn.failed:
            return pairs
        left = self._latest.get(turn.given_up) or self._sibling(turn)
        if left is not None:
            pairs.advance(left)
        if turn.answered_at is not None and turn.prompt.head:
            self._starts.append(_head_of(turn))
        return pairs

    def _sibling(self, turn: Turn) -> Turn | None:
        """Return the first turn of a chain that wrote the head of this one too late for it to be read."""
        bill = turn.usage
        if bill is None or bill.read_tokens is None or not bill.write_tokens:
            return None
        for one in self._starts:
            early = started_in_parallel(one, turn)
            wrote = one.usage is not None and one.usage.write_tokens
            if (
                early is not None
                and wrote
                and one.prompt.head == turn.prompt.head
                and one.prompt.model == turn.prompt.model
            ):
                return one if bill.read_tokens <= (one.usage and one.usage.read_tokens or 0) else None
        return None


def _head_of(turn: Turn) -> Turn:
    """Return a turn of its tools and system prompt alone: what it shares with its siblings."""
    whole = turn.prompt
    breakpoints = [breakpoint for breakpoint in whole.breakpoints if breakpoint < len(whole.head)]
    head: Prompt = msgspec.structs.replace(
        whole,
        messages=Vector(),
        tail=(),
        breakpoints=tuple(breakpoints),
        breakpoint_values=whole.breakpoint_values[: len(breakpoints)],
    )
    return msgspec.structs.replace(turn, source=head)
