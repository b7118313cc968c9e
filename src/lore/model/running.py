"""The session that runs: what its requests came to so far, in numbers and names alone.

What a status line and a screen show, and what is kept of a recording between two looks. Standard library alone: a
status line has no time to import more. Tokens are counts as billed, money is in US dollars, times are seconds since the
epoch; unknown is None, never 0.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class LastBreak(NamedTuple):
    """The last request that did not read all that stood before it, and the leading cause.

    `says` is the cause in words, `plain` without what it names, `fix` what to do; `lost_tokens` were paid for again,
    for `dollars` more than reading them.
    """

    code: str
    kind: Literal["expected", "waste", "unattributable"]
    turn: int
    at: float | None
    lost_tokens: int
    dollars: float | None
    says: str
    plain: str
    fix: str


class RunningTotals(NamedTuple):
    """A session up to its last request. Size, read, lifetime and time are of its main chain, sums of all its chains.

    `used_at` is when the last answer began, from which `lifetime` (in seconds; `billed`: as the bill says, else by a
    rule) counts; `stood` is what that request left in the cache. What was paid again without a sure cause is
    `unexplained_tokens` alone.
    """

    format: str
    session: str = ""
    model: str | None = None
    turn: int = 0
    used_at: float | None = None
    prompt_tokens: int | None = None
    read_tokens: int | None = None
    stood: int | None = None
    lifetime: float | None = None
    billed: bool = False
    requests: int = 0
    breaks: int = 0
    paid_again_tokens: int = 0
    paid_again_dollars: float | None = None
    unexplained_tokens: int = 0
    last_break: LastBreak | None = None

    @property
    def share(self) -> float | None:
        """The part of the last prompt that was read from the cache; None where the bill does not say."""
        if not self.prompt_tokens or self.read_tokens is None:
            return None
        return self.read_tokens / self.prompt_tokens

    @property
    def expires_at(self) -> float | None:
        """When what stands in the cache is forgotten, unless it is used before; None where nothing says it."""
        return None if self.used_at is None or self.lifetime is None else self.used_at + self.lifetime
