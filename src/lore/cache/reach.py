"""What of an earlier turn's writes a later one can still read: up to where, for how long, from how far behind.

Rules: what is not billed is unknown; a request has at least one token; lifetimes add up to what was written. Read +
write is the position of the last breakpoint; where writes are not billed at all, everything that was sent stands in the
cache. Entries live 5 minutes or 1 hour, as billed (`write_5m`, `write_1h`); the clock starts at the previous response's
first line, with 2 % grace; where nothing says how long, nothing is said. An entry stands at each breakpoint of the
request that wrote it, and a look-up goes back from each breakpoint of the one that reads, by a dated number of
positions; blocks of thinking are no positions. What a segment is (a call, a result, thinking, an image) its block's own
type says, else its message; only the ends of a block are looked at, where every writer puts the type.

Sources: Anthropic's documentation (5 minutes by default; 20 positions, runs of calls and of results counted once);
measured over 38,782 transitions: the grace; in December 2024 only an entry exactly at a breakpoint was read; from
June 2026 each block counts, and 16 to 20 new positions were read, 21 and more were not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from lore.model.events import Billed
from lore.model.turn import Prompt, Segment, Turn

FIVE_MINUTES, ONE_HOUR, GRACE = 300.0, 3600.0, 1.02
SOON = 3.0  # seconds after an answer began within which an older entry may be served
POSITIONS = 20  # looked back from a breakpoint
MOST_TOKENS = 20_000_000  # no prompt is longer
_RUNS = ("call", "result")
NO_POSITION = ("envelope", "thinking")  # kinds that count as no position and take no breakpoint
_ENDS = 256  # bytes looked at, at either end of a block
_BLOCKS: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    (
        "result",
        re.compile(rb'"type"\s*:\s*"(?:\w{1,40}_result|\w{1,40}_output)"|"(?:functionResponse|toolResult)"\s*:'),
    ),
    ("call", re.compile(rb'"type"\s*:\s*"(?:\w{0,40}tool_use|\w{1,40}_call)"|"(?:functionCall|toolUse)"\s*:')),
    ("thinking", re.compile(rb'"type"\s*:\s*"(?:(?:redacted_)?thinking|reasoning)"|"reasoningContent"\s*:')),
    ("image", re.compile(rb'"type"\s*:\s*"(?:input_)?image(?:_url)?"|"inlineData"\s*:')),
)
_MESSAGES: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("result", re.compile(rb'"role"\s*:\s*"(?:tool|function)"|"type"\s*:\s*"\w{1,40}_output"')),
    ("call", re.compile(rb'"type"\s*:\s*"\w{1,40}_call"')),
    ("thinking", re.compile(rb'"type"\s*:\s*"reasoning"')),
)


def unbelievable(usage: Billed) -> str:
    """Say why a bill cannot be; empty where it can."""
    counts = usage.uncached_tokens, usage.read_tokens, usage.write_tokens, usage.write_5m_tokens, usage.write_1h_tokens
    known = [count for count in counts if count is not None]
    if known and not 0 <= min(known) <= max(known) <= MOST_TOKENS:
        return "a count below zero" if min(known) < 0 else f"a count over {MOST_TOKENS:,}"
    if known and not any(known):
        return "a prompt of no tokens"
    parts = (usage.write_5m_tokens or 0) + (usage.write_1h_tokens or 0)
    if usage.write_tokens is not None and parts and parts != usage.write_tokens:
        return f"{parts:,} tokens written by lifetime, {usage.write_tokens:,} in all"
    return ""


def position(usage: Billed) -> int | None:
    """Return the position of the request's last breakpoint; None where the bill does not say."""
    if usage.read_tokens is None:
        return None
    return usage.read_tokens + (usage.uncached_tokens or 0 if usage.write_tokens is None else usage.write_tokens)


def total(usage: Billed) -> int | None:
    """Return the tokens of the whole prompt; None where the bill does not say."""
    if usage.read_tokens is None or usage.uncached_tokens is None:
        return None
    return usage.read_tokens + (usage.write_tokens or 0) + usage.uncached_tokens


class Expiry(NamedTuple):
    """A pause that was longer than what was written before it lives; both in seconds."""

    pause: float
    lifetime: float


def lifetime(turn: Turn, before: float | None) -> float | None:
    """Return how long the latest write lives after this turn; `before` is what held before it."""
    usage = turn.usage
    if usage is None:
        return before
    if usage.write_1h_tokens:
        return ONE_HOUR
    if usage.write_5m_tokens or (usage.write_tokens and _is_claudes(turn)):
        return FIVE_MINUTES
    return before


def expiry(left: Turn, right: Turn, lives: float | None, *, missed: bool = False) -> Expiry | None:
    """Tell whether what `left` wrote had expired when `right` was asked; None if not, or not known.

    `missed` says that the bill shows it was not read: then there is no grace, for what dies in it dies of age.
    """
    start = left.answered_at if left.answered_at is not None else left.at
    if start is None or right.at is None or lives is None:
        return None
    pause = right.at - start
    return Expiry(pause, lives) if pause > lives * (1.0 if missed else GRACE) else None


def kind_of(segment: Segment, envelope: bytes = b"") -> str:
    """Return "call", "result", "thinking", "image", "envelope" or "" (text); `envelope` is that of its message."""
    if segment.kind == "envelope":
        return "envelope"
    data = segment.data
    ends = data if len(data) <= 2 * _ENDS else data[:_ENDS] + b"\n" + data[-_ENDS:]
    own = next((kind for kind, pattern in _BLOCKS if pattern.search(ends)), "")
    return own or next((kind for kind, pattern in _MESSAGES if envelope and pattern.search(envelope, 0, 4096)), "")


def positions(kinds: Iterable[str], *, runs: bool) -> Iterator[int]:
    """Count the positions up to and with each piece, by its kind; envelopes and blocks of thinking are none.

    With `runs` neighbours that are all calls, or all results, are one.
    """
    counted, before = 0, ""
    for kind in kinds:
        if kind not in NO_POSITION:
            counted += not (runs and kind in _RUNS and kind == before)
            before = kind
        yield counted


class Lookback(NamedTuple):
    """From `since` on: positions looked back, and whether a run of calls, or of results, counts once."""

    since: float
    positions: int
    runs: bool


LOOKBACKS = (
    Lookback(0.0, 0, runs=False),
    Lookback(datetime(2025, 1, 1, tzinfo=UTC).timestamp(), POSITIONS, runs=True),
    Lookback(datetime(2026, 6, 1, tzinfo=UTC).timestamp(), POSITIONS, runs=False),
)


def lookback(at: float | None) -> Lookback:
    """Return the rule that holds at a time; None: now."""
    return LOOKBACKS[-1] if at is None else [rule for rule in LOOKBACKS if rule.since <= max(at, 0.0)][-1]


class LookbackGap(NamedTuple):
    """Positions between the last breakpoint of a request and the breakpoint behind it, and how many are looked back.

    `new` is negative where no breakpoint stands behind it any more.
    """

    new: int
    allowed: int

    @property
    def exceeded(self) -> bool:
        """Whether the earlier entry is out of reach."""
        return not 0 <= self.new <= self.allowed


def gap(left: Prompt, right: Prompt, at: float | None) -> LookbackGap | None:
    """Measure from the left's last breakpoint to the nearest of the right; None where such are not looked up."""
    if any(prompt.fidelity == "reconstructed" or not _is_claudes(prompt) for prompt in (left, right)):
        return None
    written, breakpoints = _breakpoints(left), _breakpoints(right)
    if not written or not breakpoints:
        return None
    rule = lookback(at)
    behind = next((place for place in breakpoints if place >= written[-1]), None)
    if behind is None:
        return LookbackGap(-1, rule.positions)
    segments = [right.at(place) for place in range(written[-1] + 1, behind + 1)]
    kinds = ("envelope" if segment is None else kind_of(segment) for segment in segments)
    return LookbackGap(max(positions(kinds, runs=rule.runs), default=0), rule.positions)


def _is_claudes(request: Turn | Prompt) -> bool:
    return request.dialect == "anthropic" or "claude" in (request.model or "")


def _breakpoints(prompt: Prompt) -> tuple[int, ...]:
    return (*prompt.breakpoints, prompt.stable - 1) if prompt.auto_breakpoint and prompt.stable else prompt.breakpoints
