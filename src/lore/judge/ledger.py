"""Rows of a ledger: a verdict, its price, to numbers and names.

In: the verdicts of one recording in order, the dated rules. Out: a row each (`lore.model.ledger`). Rules: a bill is
split into parts that add up to it; what was paid again is the difference between what was paid and the price of
reading, for tokens of the leading cause, whatever its kind; a bill without a known price has no parts at all.
Cost O(1) a turn.
"""

from __future__ import annotations

from decimal import Decimal

from lore.cache.bills import position, self_contradiction, total, within_bill
from lore.cache.prices import MILLION, Price
from lore.cache.rules import Rules
from lore.judge.base import Verdict, exact, lasting_path, paid_again, price_of
from lore.judge.reliability import append_read
from lore.model.codes import Code
from lore.model.evidence import (
    Evidence,
    ModelChanged,
    Paused,
    Rerouted,
    RoutedElsewhere,
)
from lore.model.ledger import LedgerRow, Loss, Spent
from lore.model.results import BilledResult

NAMES = 3  # of what a cause names

_LISTS = (
    "servers",
    "hooks",
    "names",
    "changed",
    "added",
    "removed",
    "loaded",
    "put_off",
    "ids",
)  # the first that holds any
_DIGITS = 9  # of a dollar


class LedgerRows:
    """Make the rows of one recording."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._stood: dict[str, int | None] = {}

    def row(self, verdict: Verdict) -> LedgerRow:
        """Return the row of the next verdict."""
        turn, usage = verdict.turn, verdict.turn.usage
        stood = self._stood.get(turn.chain)
        self._stood[turn.chain] = None if usage is None or self_contradiction(usage) else position(usage)
        price = None if usage is None else price_of(self._rules, turn)
        counts = BilledResult.sum_of(() if usage is None else usage.passes)
        return LedgerRow(
            chain=turn.chain, number=turn.number, line=turn.line, at=turn.at, model=turn.answering_model,
            client="" if usage is None else usage.client, gateway=turn.call.endpoint.partition("/")[0],
            response_id=turn.response_id or "", prompt_tokens=None if usage is None else total(usage.met),
            uncached_tokens=counts.uncached_tokens, read_tokens=counts.read_tokens,
            write_tokens=counts.write_tokens, output_tokens=counts.output_tokens, billed=usage is not None,
            spent=None if price is None else _spent(verdict, price), loss=_loss(verdict),
            appended=append_read(verdict, stood),
            compacted=any(change.cause == Code.COMPACTION for change in turn.changes), answered=turn.answered_at,
        )  # fmt: skip


def _spent(verdict: Verdict, price: Price) -> Spent | None:
    """Split a bill; None where a count or a price of it is not known."""
    usage = verdict.turn.usage
    if usage is None or price.of(usage) is None:
        return None
    parts = price.parts(usage)
    lost = within_bill(usage, verdict.lost_tokens or 0)
    again = exact(paid_again(price, usage, lost))
    readable = lost * price.read / MILLION if again and price.read is not None else Decimal(0)
    context = sum((parts.get(kind, Decimal(0)) for kind in ("uncached", "write", "write_5m", "write_1h")), Decimal(0))
    known = {"uncached", "write", "write_5m", "write_1h", "read", "output"}
    tools = sum((paid for kind, paid in parts.items() if kind not in known), Decimal(0))
    return Spent(*(
        round(float(part), _DIGITS)
        for part in (parts.get("read", Decimal(0)) + readable, context - again - readable,
                     parts.get("output", Decimal(0)), tools, again)
    ))  # fmt: skip


def _loss(verdict: Verdict) -> Loss | None:
    number, lost = verdict.leading, verdict.lost_tokens
    if number is None or not lost:
        return None
    cause = verdict.causes[number]
    lives = cause.evidence.lifetime if isinstance(cause.evidence, Paused) else None
    return Loss(cause.code, cause.kind, within_bill(verdict.turn.usage, lost), named_by(cause.evidence), lives)


def named_by(evidence: Evidence) -> tuple[str, ...]:
    """Return what evidence names: at most three of the servers, hooks or tools, two models, a field, a path."""
    if isinstance(evidence, ModelChanged):
        return tuple(model for model in (evidence.before, evidence.after) if model is not None)
    if isinstance(evidence, RoutedElsewhere):
        return tuple(name for name in (evidence.provider_after or evidence.deployment_after,) if name)
    if isinstance(evidence, Rerouted):
        return tuple(name for name in (evidence.host_after,) if name)
    for member in _LISTS:
        names: tuple[str, ...] = getattr(evidence, member, ())
        if names:
            return names[:NAMES]
    field: str | None = getattr(evidence, "field", None)
    path = lasting_path(getattr(evidence, "path", None))
    return tuple(name for name in (field or path,) if name)
