"""Turns: requests that start, end, fail or are given up, and what was billed for them."""

from __future__ import annotations

import msgspec

from lore.fold.timeline import Folded, settle
from lore.model.events import Billed, TurnCanceled, TurnCompleted, TurnFailed, TurnStarted
from lore.model.problems import Problem
from lore.model.state import Chain, ClosedTurn, OpenTurn, Totals

_ENDS = {TurnCompleted: "completed", TurnFailed: "failed", TurnCanceled: "canceled"}
MOST_TOKENS = 2**53  # what every JSON reader holds exactly
_COUNTS = ("fresh_tokens", "read_tokens", "write_tokens", "output_tokens")


def start(chain: Chain, event: TurnStarted) -> Folded:
    """Open a turn: the changes noted since the last one become its own."""
    problems: tuple[Problem, ...] = ()
    if chain.turn is not None and event.turn <= chain.turn.turn:
        problems = (Problem("LORE213", f"turn {event.turn} starts after turn {chain.turn.turn}"),)
    chain = settle(chain)
    opened = OpenTurn(event.turn, event.at, event.context, chain.since)
    totals = msgspec.structs.replace(chain.totals, turns=chain.turns + 1)
    started = msgspec.structs.replace(
        chain, turn=opened, last=None, turns=chain.turns + 1, since=(), before=totals, totals=totals
    )
    return Folded(started, problems)


def end(chain: Chain, event: TurnCompleted | TurnFailed | TurnCanceled) -> Folded:
    """Close the turn; a second closing of the same turn replaces the first."""
    if chain.turn is None or event.turn != chain.turn.turn:
        return Folded(chain, (Problem("LORE213", f"turn {event.turn} ends but is not the one under way"),))
    usage, problems = _believable(event.usage)
    response = event.response_id if isinstance(event, TurnCompleted) else None
    closed = ClosedTurn(event.turn, _ENDS[type(event)], event.at, usage, event.verdict, response)
    return Folded(msgspec.structs.replace(chain, last=closed, totals=_add(chain.before, usage)), problems)


def _believable(usage: Billed | None) -> tuple[Billed | None, tuple[Problem, ...]]:
    """Take counts that no request can have, below 0 or past 2^53, as unknown."""
    if usage is None:
        return None, ()
    counts = msgspec.structs.asdict(usage)
    odd = [name for name, count in counts.items() if count is not None and not 0 <= count <= MOST_TOKENS]
    if not odd:
        return usage, ()
    said = f"{', '.join(odd)} cannot be: taken as unknown"
    return Billed(**{**counts, **dict.fromkeys(odd)}), (Problem("LORE207", said),)


def _add(totals: Totals, usage: Billed | None) -> Totals:
    if usage is None:
        return totals
    sums: dict[str, int | None] = {}
    for name in _COUNTS:
        count: int | None = getattr(usage, name)
        had: int | None = getattr(totals, name)
        sums[name] = had if count is None else (had or 0) + count
    return msgspec.structs.replace(totals, **sums)
