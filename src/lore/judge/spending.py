"""What requests came to: rows of ledgers, to sums of money and tokens, and to causes in the order of what they cost.

In: rows, each with its session and whether that is a chain beside the main one. Out: sums. Rules: a request that two
recordings hold counts once, in the first that has it; the parts of a sum of money add up to it; what has no bill or no
price is counted, and in no sum. Exact sums of floats (`math.fsum`), so that the order of files changes nothing.
Memory: one number a request, for the median. Cost O(1) a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum
from statistics import median_low
from typing import NamedTuple

from lore.model.codes import CODES, Reader, actor_of, fix_of
from lore.model.ledger import LedgerRow, Loss
from lore.model.results.overview import Spending, SpendingCause

UNSURE = "unattributable"
_PARTS = ("reading", "context", "output", "tools", "again")
_TOKENS = ("uncached_tokens", "read_tokens", "write_tokens", "output_tokens")
_DIGITS = 6  # of a dollar


class Request(NamedTuple):
    """A row with what it belongs to: `session` names it, `subagent`: its chain is one beside the main one."""

    row: LedgerRow
    session: str
    agent: str
    project: str
    subagent: bool
    at: float | None


class Copies:
    """Tell which requests an earlier recording held."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self.count = 0

    def has(self, row: LedgerRow, recording: str) -> bool:
        """Tell whether an earlier recording had this row; what one holds twice itself is no copy."""
        copied = bool(row.response_id) and self._first.setdefault(row.response_id, recording) != recording
        self.count += copied
        return copied


class Sums:
    """Sums of requests, which grow."""

    def __init__(self) -> None:
        self._sessions: set[str] = set()
        self._sizes: list[int] = []
        self._tokens = dict.fromkeys(_TOKENS, 0)
        self._parts: dict[str, list[float]] = {name: [] for name in (*_PARTS, "unexplained", "subagent")}
        self.requests = self._unbilled = self._unpriced = self._breaks = self._compactions = 0
        self._again = self._unexplained = self._subagents = self._appends = self._read = 0

    def add(self, request: Request) -> None:
        """Add one."""
        row, spent, loss = request.row, request.row.spent, request.row.loss
        self._sessions.add(request.session)
        self.requests += 1
        self._subagents += request.subagent
        self._compactions += row.compacted
        if row.appended is not None:
            self._appends += 1
            self._read += row.appended
        if row.prompt_tokens is not None:
            self._sizes.append(row.prompt_tokens)
        if not row.billed:
            self._unbilled += 1
        elif spent is None:
            self._unpriced += 1
        for name in _TOKENS:
            self._tokens[name] += getattr(row, name) or 0
        unsure = loss is not None and loss.kind == UNSURE
        if loss is not None:
            self._breaks += 1
            if unsure:
                self._unexplained += loss.tokens
            else:
                self._again += loss.tokens
        if spent is not None:
            for name in _PARTS:
                self._parts["unexplained" if unsure and name == "again" else name].append(getattr(spent, name))
            if request.subagent:
                self._parts["subagent"].append(spent.total)

    @property
    def dollars(self) -> float | None:
        """What it cost; None where no bill has a price."""
        priced = self.requests - self._unbilled - self._unpriced
        return _sum(part for name in (*_PARTS, "unexplained") for part in self._parts[name]) if priced else None

    def result(self, name: str) -> Spending:
        """Return the sums."""
        known = self.dollars is not None
        parts = {name: _sum(found) if known else None for name, found in self._parts.items()}
        return Spending(
            name=name, sessions=len(self._sessions), requests=self.requests, unbilled=self._unbilled,
            unpriced=self._unpriced, **self._tokens, paid_again_tokens=self._again,
            unexplained_tokens=self._unexplained, dollars=self.dollars, reading=parts["reading"],
            context=parts["context"], output=parts["output"], tools=parts["tools"], paid_again=parts["again"],
            unexplained=parts["unexplained"], breaks=self._breaks, compactions=self._compactions,
            median_prompt_tokens=median_low(self._sizes) if self._sizes else None,
            largest_prompt_tokens=max(self._sizes, default=None), subagent_requests=self._subagents,
            subagent_dollars=parts["subagent"], appends=self._appends, appends_read=self._read,
        )  # fmt: skip


class CauseSums:
    """What causes cost: those of one code that name the same count together."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, tuple[str, ...], float | None], list[Request]] = {}

    def add(self, request: Request) -> None:
        """Add a request, if it lost anything."""
        loss = request.row.loss
        if loss is not None:
            self._found.setdefault((loss.code, loss.kind, loss.names, loss.lifetime), []).append(request)

    def results(self, reader: Reader, *, unsure: bool) -> list[SpendingCause]:
        """Return the causes that cost most first; with `unsure` those that explain nothing surely, else the others.

        The words and the next command are left to whoever reports them.
        """
        found = [
            _cause(requests, reader)
            for key, requests in self._found.items()
            if (key[1] == UNSURE) == unsure
        ]  # fmt: skip
        return sorted(found, key=lambda cause: (-(cause.dollars or 0.0), -cause.tokens, cause.code, cause.names))


def _cause(requests: list[Request], reader: Reader) -> SpendingCause:
    losses = [request.row.loss for request in requests if request.row.loss is not None]
    first: Loss = losses[0]
    paid = [request.row.spent.again for request in requests if request.row.spent is not None]
    return SpendingCause(
        code=first.code, name=CODES[first.code].name, kind=first.kind, actor=actor_of(first.code, first.kind, reader),
        names=list(first.names), lifetime=first.lifetime, sessions=len({request.session for request in requests}),
        turns=len(requests), tokens=sum(loss.tokens for loss in losses), dollars=_sum(paid) if paid else None,
        says="", fix=fix_of(first.code, reader, first.kind), command="",
    )  # fmt: skip


def _sum(parts: Iterable[float]) -> float:
    return round(fsum(parts), _DIGITS)
