"""Turns: requests that start, end, fail or are given up, and what was billed for them."""

from __future__ import annotations

import msgspec

from lore.fold.timeline import Problems, settle
from lore.model.codes import Code, Problem
from lore.model.events import Billed, TurnCanceled, TurnCompleted, TurnFailed, TurnStarted
from lore.model.items import is_absent
from lore.model.state import Chain, ClosedTurn, OpenTurn, Totals, Waiting

_ENDS = {TurnCompleted: "completed", TurnFailed: "failed", TurnCanceled: "canceled"}
MOST_TOKENS = 2**53  # what every JSON reader holds exactly


def start(chain: Chain, event: TurnStarted) -> Problems:
    """Open a turn: the changes noted since the last one become its own."""
    problems: Problems = ()
    if chain.turn is not None and event.turn <= chain.turn.turn:
        problems = (Problem(Code.TURN_OUT_OF_ORDER, f"turn {event.turn} starts after turn {chain.turn.turn}"),)
        chain.reset = None  # numbers begin again: a reset of this turn is none that was made before
    settle(chain)
    chain.turns += 1
    chain.sent_before, chain.sent = chain.sent, len(chain.entries)
    written = chain.persisted.last()
    if not is_absent(event.context) and (written is None or written.number != event.turn):
        chain.waiting = Waiting(event.turn, event.context)
    chain.previous = chain.last
    chain.turn, chain.last = OpenTurn(event.turn, event.at, event.context, chain.since, chain.signs), None
    chain.since = chain.signs = ()
    chain.before = chain.totals = msgspec.structs.replace(chain.totals, turns=chain.turns)
    return problems


def end(chain: Chain, event: TurnCompleted | TurnFailed | TurnCanceled) -> Problems:
    """Close the turn; a second closing of the same turn replaces the first."""
    if chain.turn is None or event.turn != chain.turn.turn:
        if chain.previous is not None and event.turn == chain.previous.turn:
            return _end_late(chain, event, chain.previous)
        return (Problem(Code.TURN_OUT_OF_ORDER, f"turn {event.turn} ends but is not the one under way"),)
    usage, problems = _believable(event.usage)
    response = event.response_id if isinstance(event, TurnCompleted) else None
    chain.last = ClosedTurn(event.turn, _ENDS[type(event)], event.at, usage, event.verdict, response)
    chain.totals = _add(chain.before, usage)
    return problems


def _end_late(chain: Chain, event: TurnCompleted | TurnFailed | TurnCanceled, before: ClosedTurn) -> Problems:
    """Put the bill of the turn before the latest right: its last line came after the next one began."""
    usage, problems = _believable(event.usage)
    if usage is not None:
        chain.previous = msgspec.structs.replace(before, usage=usage)
        chain.before = _add(_add(chain.before, before.usage, -1), usage)
        chain.totals = _add(_add(chain.totals, before.usage, -1), usage)
    return problems


def _believable(usage: Billed | None) -> tuple[Billed | None, Problems]:
    """Take counts that no request can have, below 0 or past 2^53, as unknown."""
    if usage is None:
        return None, ()
    counts = (
        usage.uncached_tokens, usage.read_tokens, usage.write_tokens, usage.output_tokens,
        usage.write_5m_tokens, usage.write_1h_tokens,
    )  # fmt: skip
    for count in counts:
        if count is not None and not 0 <= count <= MOST_TOKENS:
            break
    else:
        return usage, ()
    named = dict(zip(Billed.__struct_fields__, counts, strict=True))
    odd = [name for name, count in named.items() if count is not None and not 0 <= count <= MOST_TOKENS]
    said = f"{', '.join(odd)} cannot be: taken as unknown"
    return Billed(**{**named, **dict.fromkeys(odd)}), (Problem(Code.MALFORMED_RECORD, said),)


def _add(totals: Totals, usage: Billed | None, sign: int = 1) -> Totals:
    if usage is None:
        return totals
    return Totals(
        totals.turns,
        _sum(totals.uncached_tokens, usage.uncached_tokens, sign),
        _sum(totals.read_tokens, usage.read_tokens, sign),
        _sum(totals.write_tokens, usage.write_tokens, sign),
        _sum(totals.output_tokens, usage.output_tokens, sign),
    )


def _sum(had: int | None, count: int | None, sign: int) -> int | None:
    return had if count is None else (had or 0) + sign * count
