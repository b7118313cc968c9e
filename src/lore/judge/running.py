"""What a running session came to: verdicts to the numbers of a status line and a screen.

In: the verdicts of one recording in order, the dated rules. Out: a row each (`judge/ledger.py`), and what all of them
come to (`lore.model.running`). Rules: sums are those of `judge/spending.py`; the words of the last break are left to
whoever reports them; size, read and time are of the main chain, of the last one where there is no main one.
Cost O(1) a turn.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from lore.cache.bills import position
from lore.cache.bills import total as prompt_size
from lore.cache.lifetimes import UNKNOWN, Lifetime, lifetime_after
from lore.cache.rules import Rules
from lore.judge.base import Verdict
from lore.judge.ledger import LedgerRows
from lore.judge.spending import CauseSums, Request, Sums
from lore.model.codes import Reader
from lore.model.events import MAIN
from lore.model.ledger import LedgerRow
from lore.model.results.overview import SpendingCause
from lore.model.running import LastBreak, Running

Worded = Callable[[SpendingCause], SpendingCause]


class RunningSums:
    """Sums of a session that grows; `worded` gives a cause its words."""

    def __init__(self, rules: Callable[[], Rules], worded: Worded) -> None:
        self._rules, self._worded = rules, worded
        self._rows: LedgerRows | None = None
        self._sums = Sums()
        self._lifetimes: dict[str, Lifetime] = {}
        self._last: Verdict | None = None
        self.breaks: dict[int, LastBreak] = {}  # by the number of the request in the log

    def take(self, verdict: Verdict, reader: Reader) -> LedgerRow:
        """Take the next verdict; return its row."""
        self._rows = self._rows or LedgerRows(self._rules())
        row, turn = self._rows.row(verdict), verdict.turn
        request = Request(row, "", "", "", subagent=turn.chain != MAIN, at=row.at)
        self._sums.add(request)
        if row.loss is not None:
            self.breaks[self._sums.requests - 1] = self._break_of(request, reader)
        before = self._lifetimes.get(turn.chain, UNKNOWN)
        self._lifetimes[turn.chain] = lifetime_after(turn, before, self._rules)
        if turn.chain == MAIN or self._last is None or self._last.turn.chain != MAIN:
            self._last = verdict
        return row

    def _break_of(self, request: Request, reader: Reader) -> LastBreak:
        causes = CauseSums()
        causes.add(request)
        loss, row = request.row.loss, request.row
        assert loss is not None
        cause = self._worded(causes.results(reader, unsure=loss.kind == "unattributable")[0])
        plain = self._worded(replace(cause, names=[], lifetime=None))
        return LastBreak(cause.code, cause.kind, row.number, row.at, cause.tokens, cause.dollars, cause.says,
                         plain.says, cause.fix)  # fmt: skip

    def result(self, format: str, session: str) -> Running:
        """Return what it came to."""
        total = self._sums.result("")
        running = Running(
            format, session, requests=total.requests, breaks=total.breaks, paid_again_tokens=total.paid_again_tokens,
            paid_again_dollars=total.paid_again, unexplained_tokens=total.unexplained_tokens,
            last_break=next(reversed(self.breaks.values()), None),
        )  # fmt: skip
        if self._last is None:
            return running
        turn, lives = self._last.turn, self._lifetimes[self._last.turn.chain]
        met = None if turn.usage is None else turn.usage.met
        return running._replace(
            model=turn.answering_model, turn=turn.number, response=turn.response_id or "",
            used_at=turn.at if turn.answered_at is None else turn.answered_at,
            prompt_tokens=None if met is None else prompt_size(met),
            read_tokens=None if met is None else met.read_tokens,
            stood=None if met is None else position(met), lifetime=lives.seconds, billed=lives.billed,
        )  # fmt: skip
