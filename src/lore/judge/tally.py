"""Settle what findings add to the sums: how many cache breaks, of which kind, how many tokens.

In: the findings of one pair, after the policy. Out: counts. Rules: a cache break has the worst kind of the causes
that are left; one of which nothing is left is none; tokens are lost where that is not expected. Done where
a file is judged if nothing more can be taken out, else where files are put together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from lore.judge.base import Place
from lore.judge.bills import summed, within_bill
from lore.judge.pairs import Pair, is_remark, lost_tokens
from lore.judge.policy import Out, Ruling, below_reuse
from lore.judge.rules import RULES, findings_of
from lore.model.codes import CODES, CauseKind, Code, Reader, fix_of
from lore.model.results import CostlyCause, Finding, Summary

_WORSE = ("expected", "unattributable", "waste")
TOP = 3
UNEXPLAINED = Code.BILLED_READ_FELL  # nothing was found: it has no fix


class Found(NamedTuple):
    """What one finding adds: `kind` and `lost_tokens` of a cache break's cause, `is_break` False where it is none.

    `place` is where it stands among the findings kept of its file, -1 where it is not kept. `paid_tokens` are those of
    the lost ones that were paid again.
    """

    code: str
    severity: str
    kind: CauseKind
    is_break: bool
    lost_tokens: int
    fingerprint: str
    out: Out = ""
    place: int = -1
    lost_dollars: float | None = None
    paid_tokens: int = 0


class Judged(NamedTuple):
    """A turn, or what a file's problems gave: `paired` where it was compared with the one before it."""

    response_id: str
    chain: str
    paired: bool
    found: tuple[Found, ...] = ()


class Cost(NamedTuple):
    """What a cause cost."""

    breaks: int = 0
    lost_tokens: int = 0
    dollars: float | None = None

    def plus(self, other: Cost) -> Cost:
        """Return both together."""
        dollars = summed((self.dollars, other.dollars))
        return Cost(self.breaks + other.breaks, self.lost_tokens + other.lost_tokens, dollars)


Costs = dict[tuple[str, CauseKind], Cost]


def settle(found: Iterable[Found], summary: Summary, costs: Costs) -> bool:
    """Count one pair's findings; return whether one that is left is an error."""
    failed, worst, lost, unexplained = False, -1, 0, 0
    for finding in found:
        if finding.out:
            setattr(summary, finding.out, getattr(summary, finding.out) + 1)
            continue
        failed = failed or finding.severity == "error"
        if finding.is_break:
            worst, lost = max(worst, _WORSE.index(finding.kind)), max(lost, finding.lost_tokens)
            unexplained = max(unexplained, finding.paid_tokens if finding.kind == "unattributable" else 0)
            key = (finding.code, finding.kind)
            costs[key] = costs.get(key, Cost()).plus(Cost(1, finding.lost_tokens, finding.lost_dollars))
    if worst >= 0:
        summary.breaks += 1
        setattr(summary, _WORSE[worst], getattr(summary, _WORSE[worst]) + 1)
        summary.lost_tokens += lost if worst else 0
        if _WORSE[worst] == "unattributable":
            summary.unexplained += 1
            summary.unexplained_tokens += unexplained
    return failed


def costliest(costs: Costs, reader: Reader = "author") -> list[CostlyCause]:
    """Return the causes that cost most, with what a reader can do: waste before what is expected.

    Only waste may cost nothing; what is not explained for sure is counted apart, since nothing surely mends it.
    """
    ranked = sorted(
        costs.items(), key=lambda item: (_WORSE[::-1].index(item[0][1]), -item[1].lost_tokens, -item[1].breaks, item[0])
    )
    return [
        CostlyCause(code, CODES[code].name, kind, cost.breaks, cost.lost_tokens, fix_of(code, reader), cost.dollars)
        for (code, kind), cost in ranked
        if kind == "waste" or (cost.lost_tokens and kind == "expected")
    ][:TOP]


class Decided(NamedTuple):
    """One finding, what it adds to the sums, and by which exemption it is taken out."""

    finding: Finding
    found: Found
    by: int = -1


def judge_pair(pair: Pair, place: Place, ruling: Ruling) -> list[Decided]:
    """Decide about every finding of a pair: those of its verdict, those of others' rules, its budget.

    The budget of a pair holds for what is left of its causes: one whose causes are all taken out, or all
    expected, may reuse as little as it likes.
    """
    own = findings_of(pair, place)
    decided = [_of_cause(pair, number, finding, ruling) for number, finding in own]
    decided += [decide(finding, ruling) for rule in RULES.values() for finding in rule.pair(pair, place)]
    by_number = {number: decision for (number, _), decision in zip(own, decided, strict=False)}
    left = tuple(
        replace(cause, override=by_number[number].finding.kind if number in by_number else cause.override)
        for number, cause in enumerate(pair.causes)
        if number not in by_number or not by_number[number].found.out
    )
    if pair.causes and not left:
        return decided
    budget = below_reuse(replace(pair, causes=left), ruling.budgets, place)
    return [*decided, *(decide(finding, ruling) for finding in budget)]


def decide(finding: Finding, ruling: Ruling) -> Decided:
    """Decide about a finding that is about no cause of a pair."""
    ruled = ruling.rule(finding)
    finding = ruled.finding
    found = Found(finding.code, finding.severity, finding.kind, False, 0, finding.fingerprint, ruled.out)  # noqa: FBT003
    return Decided(finding, found, ruled.by)


def _of_cause(pair: Pair, number: int, finding: Finding, ruling: Ruling) -> Decided:
    """Decide about the finding of a cause, which may be a cache break and cost tokens."""
    decided = decide(finding, ruling)
    if is_remark(pair.causes[number]):
        return decided
    lost = lost_tokens(pair, number)[0]
    found = decided.found._replace(
        is_break=True, lost_tokens=lost, lost_dollars=finding.lost_dollars,
        paid_tokens=within_bill(pair.right.usage, lost),
    )  # fmt: skip
    return decided._replace(found=found)
