"""Sums of a session that grows, turn by turn, for `watch`, the status line and the recording proxy."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from lore.cache.counts import position, total
from lore.cache.rules import DatedRules, Lifetime, lifetime_after
from lore.judge.base import TurnVerdict
from lore.judge.sums import CauseLoss, LedgerRequest, Sums, make_row, rebilled_dollars, sum_losses
from lore.model.codes import Audience
from lore.model.events import MAIN
from lore.model.ledger import LedgerRow
from lore.model.results.overview import SpendingCause
from lore.model.running import LastBreak, RunningTotals

_SMALL = 0.05  # share of the largest loss: a break that lost less is not reported as the last one


class RunningSums:
    """Sums of a session that grows; `worded` fills in the sentences of a cause."""

    def __init__(self, rules: Callable[[], DatedRules], worded: Callable[[SpendingCause], SpendingCause]) -> None:
        self._rules, self._worded = rules, worded
        self._sums = Sums()
        self._lifetimes: dict[str, Lifetime] = {}
        self._last: TurnVerdict | None = None
        self.breaks: dict[int, LastBreak] = {}  # by the number of the request, from 0 in the order of `take`

    def take(self, verdict: TurnVerdict, audience: Audience) -> LedgerRow:
        """Add the next verdict; return its row."""
        row, turn = make_row(verdict, self._rules()), verdict.turn
        request = LedgerRequest(row, "", "", "", subagent=turn.chain != MAIN, at=row.at)
        self._sums.add(request)
        if row.loss is not None and row.loss.tokens:
            cause = self._worded(sum_losses([CauseLoss.of(request)], audience))
            plain = self._worded(replace(cause, names=[], lifetime=None))
            self.breaks[self._sums.requests - 1] = LastBreak(
                cause.code, cause.kind, row.number, row.at, cause.tokens, cause.dollars, cause.says, plain.says,
                cause.fix,
            )  # fmt: skip
        previous = self._lifetimes.get(turn.chain, Lifetime())
        self._lifetimes[turn.chain] = lifetime_after(turn, previous, self._rules)
        if turn.chain == MAIN or self._last is None or self._last.turn.chain != MAIN:
            self._last = verdict
        return row

    def result(self, format: str, session: str) -> RunningTotals:
        """Return the sums of all chains, and the size of the last request of the main one."""
        sums, most = self._sums.result(""), max((entry.lost_tokens for entry in self.breaks.values()), default=0)
        running = RunningTotals(
            format, session, requests=sums.requests, breaks=sums.breaks, paid_again_tokens=sums.paid_again_tokens,
            paid_again_dollars=sums.paid_again, unexplained_tokens=sums.unexplained_tokens,
            expected_tokens=sums.expected_tokens, rebilled_dollars=rebilled_dollars(sums),
            last_break=next((b for b in reversed(self.breaks.values()) if b.lost_tokens >= most * _SMALL), None),
        )  # fmt: skip
        if self._last is None:
            return running
        turn, lives = self._last.turn, self._lifetimes[self._last.turn.chain]
        first = None if turn.usage is None else turn.usage.first_pass
        return running._replace(
            model=turn.answering_model, turn=turn.number,
            used_at=turn.at if turn.answered_at is None else turn.answered_at,
            prompt_tokens=None if first is None else total(first),
            read_tokens=None if first is None else first.read_tokens,
            stood=None if first is None else position(first), lifetime=lives.seconds, billed=lives.billed,
        )  # fmt: skip
