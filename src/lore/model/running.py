"""The session that runs: what its requests came to so far, in numbers and names alone.

What a status line and a screen show, and what is kept of a recording between two looks. Standard library alone: a
status line has no time to import more. Tokens are counts as billed, money is in US dollars, times are seconds since the
epoch; unknown is None, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable
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


class Running(NamedTuple):
    """A session up to its last request. Size, read, lifetime and time are of its main chain, sums of all its chains.

    `used_at` is when the last answer began, from which `lifetime` (in seconds; `billed`: as the bill says, else by a
    rule) counts; `stood` is what that request left in the cache, `response` the id of its answer. What was paid again
    without a sure cause is `unexplained_tokens` alone.
    """

    format: str
    session: str = ""
    model: str | None = None
    turn: int = 0
    used_at: float | None = None
    prompt_tokens: int | None = None
    read_tokens: int | None = None
    stood: int | None = None
    response: str = ""
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


class Answer(NamedTuple):
    """What an agent's log says of one answer: its id, model, time and bill, in tokens."""

    response: str
    model: str
    at: float | None
    uncached_tokens: int
    read_tokens: int
    write_tokens: int
    lifetime: float | None


def gone_on(running: Running, answers: Iterable[Answer]) -> Running | None:
    """Return a session with answers that lost nothing, O(answers); None where only judging the log tells.

    A turn of one model lost nothing where its bill reads all that the last one left: the judge's own rule, against
    which `tests/judge/test_going_on.py` holds this at each turn of recordings.
    """
    for answer in answers:
        if answer.response == running.response:  # more lines of the answer that was known
            continue
        if answer.model != running.model or not running.stood or answer.read_tokens < running.stood:
            return None
        running = running._replace(
            turn=running.turn + 1, requests=running.requests + 1, used_at=answer.at, response=answer.response,
            prompt_tokens=answer.uncached_tokens + answer.read_tokens + answer.write_tokens,
            read_tokens=answer.read_tokens, stood=answer.read_tokens + answer.write_tokens,
            lifetime=answer.lifetime or running.lifetime, billed=running.billed or answer.lifetime is not None,
        )  # fmt: skip
    return running
