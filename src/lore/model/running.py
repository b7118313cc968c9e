"""The totals of a running session, which a status line shows and keeps between two calls.

Only the standard library is imported, since a status line has no time for more. Holds numbers and names, no content.
Money is in US dollars, times are seconds since the epoch; None, never 0: unknown.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class LastBreak(NamedTuple):
    """The last cache break of a session."""

    code: str  # such as `LORE104`
    kind: Literal["expected", "waste", "unattributable"]  # of the leading cause
    turn: int  # number in its chain, from 1
    at: float | None  # when that turn was sent
    lost_tokens: int  # tokens that were cached and not read again
    dollars: float | None  # beyond the price of reading the lost tokens
    says: str  # the leading cause in words
    plain: str  # the same without names from the recording
    fix: str  # what the user or the agent's author can do about it


class RunningTotals(NamedTuple):
    """A session up to its last request. Counts are of all its chains, unless a field names the main one."""

    format: str  # name of the log's format; empty before the first request
    session: str = ""  # id that the log names; empty if it names none
    model: str | None = None  # that answered last in the main chain
    turn: int = 0  # number of the main chain's last request, from 1; 0 before the first
    used_at: float | None = None  # when the response to the main chain's last request began
    prompt_tokens: int | None = None  # of the main chain's last request
    read_tokens: int | None = None  # of the main chain's last request
    stood: int | None = None  # tokens that the main chain's last request left in the cache
    lifetime: float | None = None  # seconds that the cache keeps them, from `used_at` on
    billed: bool = False  # the lifetime is from the usage, not from a dated rule
    requests: int = 0  # in all chains
    breaks: int = 0  # requests in all chains that lost cached tokens
    paid_again_tokens: int = 0  # re-billed without need
    paid_again_dollars: float | None = None  # what these tokens cost beyond the price of reading
    unexplained_tokens: int = 0  # re-billed, without a certain cause
    expected_tokens: int = 0  # re-billed, as expected
    rebilled_dollars: float | None = None  # what all re-billed tokens cost beyond the price of reading
    last_break: LastBreak | None = None  # that lost at least 5 % of the largest loss; None if nothing was lost so far

    @property
    def rebilled_tokens(self) -> int:
        """All re-billed tokens: as waste, as expected, and without a certain cause."""
        return self.paid_again_tokens + self.expected_tokens + self.unexplained_tokens

    @property
    def share(self) -> float | None:
        """The part of the last prompt that was read from the cache."""
        if not self.prompt_tokens or self.read_tokens is None:
            return None
        return self.read_tokens / self.prompt_tokens

    @property
    def expires_at(self) -> float | None:
        """When the cached prompt expires unless a request reads it."""
        return None if self.used_at is None or self.lifetime is None else self.used_at + self.lifetime
