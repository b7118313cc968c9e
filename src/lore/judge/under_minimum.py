"""Breakpoints in prompts that are too short to be cached: LORE306.

In: the turns of one chain. Out: one finding, when the chain has ended. Rules: said where every request with breakpoints
of the chain is under the model's dated minimum and no bill shows anything cached: a conversation that grows past the
minimum loses nothing; nor does a prompt that is sent once, so the same beginning has to be sent again, in this chain or
in another one. Tokens are those of the bill, else estimated from bytes with half of room; what bytes do not show
(pictures, the provider's own tools) is not estimated. A long prompt whose breakpoints stand too early is LORE114.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from lore.cache.predictor import minimum_tokens
from lore.cache.rules import Rules
from lore.judge.base import Place, finding
from lore.judge.bills import BYTES_PER_TOKEN, asked, has_unseen
from lore.judge.pairs import Pair
from lore.model.codes import Code
from lore.model.evidence import BelowMinimum
from lore.model.prompt import Prompt
from lore.model.results import Finding
from lore.model.turn import Turn

ROOM = 1.5  # an estimate from bytes may be too low by this factor
MOST = 16_384  # tokens: no provider asks for more, so nothing is looked up


class _Held(NamedTuple):
    turn: Turn
    evidence: BelowMinimum
    times: int = 1


class UnderMinimum:
    """Follow the turns of one chain; `heads` counts the chains that sent the same beginning too short."""

    def __init__(self, rules: Callable[[], Rules], heads: dict[int, int]) -> None:
        self._rules = rules
        self._heads = heads
        self._silent = False
        self._held: _Held | None = None

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        """Take the next turn."""
        if self._silent or turn.failed:
            return
        prompt, usage = turn.prompt, turn.usage
        was_cached = usage is not None and (usage.read_tokens or usage.write_tokens)
        if was_cached or prompt.partial or turn.fidelity not in ("wire", "parsed"):
            self._silent = True
        elif (prompt.breakpoints or prompt.auto_breakpoint) and not (usage is not None and _half_told(turn)):
            self._take(turn)

    def _take(self, turn: Turn) -> None:
        found = self._evidence(turn)
        if found is None:
            self._silent = True
        elif self._held is None:
            self._held = _Held(turn, found)
        else:
            self._held = self._held._replace(times=self._held.times + 1)

    def _evidence(self, turn: Turn) -> BelowMinimum | None:
        """Return how short the cached prefix is; None where it is long enough, or that is not known."""
        billed = asked(turn.usage)
        estimate = _up_to_last(turn.prompt, billed)
        most = min(estimate * ROOM, billed) if billed else estimate * ROOM
        if most >= MOST:
            return None
        least = minimum_tokens(self._rules(), turn)
        if least is None or most >= least:
            return None
        if billed and billed < least:
            return BelowMinimum(billed, least, turn.model, counted=True)
        return None if has_unseen(turn.prompt) else BelowMinimum(round(estimate), least, turn.model, counted=False)

    def findings(self, place: Place) -> Iterator[Finding]:
        """Say it once: of the chain, or of a beginning that several chains sent."""
        held = self._held
        if self._silent or held is None:
            return
        turn = held.turn
        if held.times == 1 and not self._sent_again(turn):
            return
        yield finding(
            Code.PROMPT_UNDER_MINIMUM,
            place.of(turn),
            replace(held.evidence, turns=held.times),
            line=turn.line,
            chain=turn.chain,
            turn=turn.number,
            dialect=turn.dialect,
            section="messages",
            fidelity=turn.fidelity,
        )

    def _sent_again(self, turn: Turn) -> bool:
        """Tell whether a chain before sent the same tools and system prompt as short; true once."""
        if not turn.prompt.head:
            return False
        key = hash((turn.model, turn.prompt.head))
        self._heads[key] = self._heads.get(key, 0) + 1
        return self._heads[key] == 2


def _half_told(turn: Turn) -> bool:
    usage = turn.usage
    return usage is None or usage.read_tokens is None or usage.write_tokens is None


def _up_to_last(prompt: Prompt, billed: int) -> float:
    """Estimate the tokens up to the last breakpoint from bytes: their share of the bill, where there is one."""
    upto = len(prompt) if prompt.auto_breakpoint else prompt.breakpoints[-1] + 1
    if billed:
        every = [len(one.data) for one in prompt] if billed < MOST / ROOM else []
        return billed * sum(every[:upto]) / max(1, sum(every)) if every else billed
    size, most = 0, MOST * BYTES_PER_TOKEN
    for one in islice(prompt, upto):
        size += len(one.data)
        if size > most:
            break
    return size / BYTES_PER_TOKEN
