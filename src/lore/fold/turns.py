"""Turns in the fold: a turn starts, it ends in one of three ways, and usage is summed.

The last two turns of a chain may still end: the last line of a response can come after the next request began.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec.structs import astuple, replace

from lore.fold.timeline import Problems, join_stream, problem
from lore.model import events as e
from lore.model.codes import Code
from lore.model.items import is_absent
from lore.model.limits import SESSION_CLIENTS
from lore.model.state import Chain, ClosedTurn, OpenTurn, Totals

TurnEnd: TypeAlias = e.TurnCompleted | e.TurnFailed | e.TurnCanceled

STATES = {e.TurnCompleted: "completed", e.TurnFailed: "failed", e.TurnCanceled: "canceled"}
MOST_TOKENS = 10**9  # no request is longer


def start_turn(chain: Chain, event: e.TurnStarted) -> Problems:
    """Open a turn. Changes and signs noted since the previous turn started become part of it."""
    problems: Problems = ()
    if chain.turn is not None and event.turn <= chain.turn.turn:
        problems = problem(Code.TURN_OUT_OF_ORDER, f"turn {event.turn} starts after turn {chain.turn.turn}")
        chain.reset = None  # numbers begin again, so an earlier reset of this number was another turn's
    join_stream(chain)
    chain.turns += 1
    chain.sent_before, chain.sent = chain.sent, len(chain.entries)
    persisted = chain.persisted.last()
    if not is_absent(event.context) and (persisted is None or persisted.number != event.turn):
        chain.waiting = event
    chain.previous, chain.last = chain.last, None
    chain.turn = OpenTurn(
        event.turn, event.at, event.context, chain.since, chain.signs, event.breakpoints, event.call, event.given_up,
    )  # fmt: skip
    chain.since = chain.signs = ()
    if not chain.turn.is_inherited:
        chain.totals = replace(chain.totals, turns=chain.totals.turns + 1)
    chain.before = chain.totals
    return problems


def end_turn(chain: Chain, event: TurnEnd) -> Problems:
    """Close the latest turn; a second end replaces the first. A late end of the previous turn corrects its usage."""
    usage, problems = _without_impossible_counts(event.usage)
    if chain.turn is not None and event.turn == chain.turn.turn:
        response, hashes = (event.response_id, event.hashes) if isinstance(event, e.TurnCompleted) else (None, None)
        chain.last = ClosedTurn(event.turn, STATES[type(event)], event.at, usage, event.verdict, response, hashes)
        chain.totals = chain.before if chain.turn.is_inherited else _add(chain.before, usage)
        return problems
    previous = chain.previous
    if previous is None or event.turn != previous.turn:
        return problem(Code.TURN_OUT_OF_ORDER, f"turn {event.turn} ends but is not the one under way")
    if usage is not None:
        chain.previous = replace(previous, usage=usage)
        chain.before = _add(_add(chain.before, previous.usage, -1), usage)
        chain.totals = _add(_add(chain.totals, previous.usage, -1), usage)
    return problems


def _without_impossible_counts(usage: e.Usage | None) -> tuple[e.Usage | None, Problems]:
    """Return the usage with counts below 0 or above 10^9 unknown, and a problem that names them."""
    if usage is None:
        return None, ()
    names, *passes = map(_impossible_counts, usage.passes)
    if not names and not any(passes):
        return usage, ()
    iterations = tuple(
        [replace(one, **dict.fromkeys(found)) for one, found in zip(usage.iterations, passes, strict=True)]
    )
    listed = ", ".join(dict.fromkeys([*names, *(name for found in passes for name in found)]))
    message = f"{listed} cannot be: taken as unknown"
    return replace(usage, iterations=iterations, **dict.fromkeys(names)), problem(Code.MALFORMED_RECORD, message)


def _impossible_counts(usage: e.Usage) -> list[str]:
    known = [*filter(None, astuple(usage)[: len(e.COUNTS)])]
    if not known or 0 <= min(known) <= max(known) <= MOST_TOKENS:
        return []
    return [name for name in e.COUNTS if (count := getattr(usage, name)) is not None and not 0 <= count <= MOST_TOKENS]


def _add(totals: Totals, usage: e.Usage | None, sign: int = 1) -> Totals:
    if usage is None:
        return totals
    clients = totals.clients
    if usage.client and usage.client not in clients and len(clients) < SESSION_CLIENTS:
        clients = (*clients, usage.client)
    sums = totals.uncached_tokens, totals.read_tokens, totals.write_tokens, totals.output_tokens
    for one in usage.passes:
        counts = one.uncached_tokens, one.read_tokens, one.write_tokens, one.output_tokens
        pairs = zip(sums, counts, strict=True)
        sums = tuple([total if count is None else (total or 0) + sign * count for total, count in pairs])
    uncached, read, write, output = sums
    return Totals(totals.turns, uncached, read, write, output, clients)
