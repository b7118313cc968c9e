"""Settle what findings add to the sums: how many cache breaks, of which kind, how many tokens.

In: the findings of one pair, after the policy. Out: counts. Rules: a cache break has the worst kind of the causes
that are left; one of which nothing is left is none; tokens are lost where that is not expected. Done where
a file is judged if nothing more can be taken out, else where files are put together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from lore.judge.base import Place
from lore.judge.budgets import below_reuse
from lore.judge.pairs import Pair, lost_tokens
from lore.judge.policy import Out, Ruling
from lore.judge.rules import RULES
from lore.model.codes import CODES, CauseKind
from lore.model.results import CostlyCause, Finding, Summary

_WORSE = ("expected", "unattributable", "waste")
TOP = 3


class Found(NamedTuple):
    """What one finding adds: `kind` and `lost_tokens` of a cache break's cause, `is_break` False where it is none.

    `place` is where it stands among the findings kept of its file, -1 where it is not kept.
    """

    code: str
    severity: str
    kind: CauseKind
    is_break: bool
    lost_tokens: int
    fingerprint: str
    out: Out = ""
    place: int = -1


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

    def plus(self, other: Cost) -> Cost:
        """Return both together."""
        return Cost(self.breaks + other.breaks, self.lost_tokens + other.lost_tokens)


Costs = dict[tuple[str, CauseKind], Cost]


def settle(found: Iterable[Found], summary: Summary, costs: Costs) -> bool:
    """Count one pair's findings; return whether one that is left is an error."""
    failed, worst, lost = False, -1, 0
    for one in found:
        if one.out:
            setattr(summary, one.out, getattr(summary, one.out) + 1)
            continue
        failed = failed or one.severity == "error"
        if one.is_break:
            worst, lost = max(worst, _WORSE.index(one.kind)), max(lost, one.lost_tokens)
            key = (one.code, one.kind)
            costs[key] = costs.get(key, Cost()).plus(Cost(1, one.lost_tokens))
    if worst >= 0:
        summary.breaks += 1
        setattr(summary, _WORSE[worst], getattr(summary, _WORSE[worst]) + 1)
        summary.lost_tokens += lost if worst else 0
    return failed


def costliest(costs: Costs) -> list[CostlyCause]:
    """Return the causes that cost most; what is expected comes behind what is not, and only waste may cost nothing."""
    ranked = sorted(
        costs.items(), key=lambda one: (one[0][1] == "expected", -one[1].lost_tokens, -one[1].breaks, one[0])
    )
    return [
        CostlyCause(code, CODES[code].name, kind, cost.breaks, cost.lost_tokens, CODES[code].fix)
        for (code, kind), cost in ranked
        if cost.lost_tokens or kind == "waste"
    ][:TOP]


class Said(NamedTuple):
    """One finding of a pair, what became of it, by which exemption, and what it adds."""

    finding: Finding
    found: Found
    by: int = -1


def judge_pair(pair: Pair, place: Place, ruling: Ruling) -> list[Said]:
    """Ask every rule about a pair; the policy decides about what they say.

    The budget of a pair holds for what is left of its causes: one whose causes are all taken out, or all
    expected, may reuse as little as it likes.
    """
    said = [_said(one, pair, ruling) for rule in RULES.values() for one in rule.pair(pair, place)]
    gone = {(one.finding.code, one.finding.evidence) for one in said if one.found.out}
    kinds = {(one.finding.code, one.finding.evidence): one.finding.kind for one in said if not one.found.out}
    left = tuple(
        msgspec.structs.replace(cause, here=kinds.get((cause.code, cause.evidence), cause.here))
        for cause in pair.causes
        if (cause.code, cause.evidence) not in gone
    )
    if pair.causes and not left:
        return said
    remaining = msgspec.structs.replace(pair, causes=left)
    budget = (_said(one, None, ruling) for one in below_reuse(remaining, ruling.budgets, place))
    return [*said, *budget]


def added(finding: Finding, ruling: Ruling) -> Said:
    """Decide about a finding that is about no pair."""
    return _said(finding, None, ruling)


def _said(finding: Finding, pair: Pair | None, ruling: Ruling) -> Said:
    ruled = ruling.rule(finding)
    one = ruled.finding
    lost = None if pair is None or not pair.is_break else _lost(pair, one)
    found = Found(
        one.code, one.severity, one.kind, lost is not None, lost or 0, one.fingerprint, ruled.out
    )  # fmt: skip
    return Said(one, found, ruled.by)


def _lost(pair: Pair, finding: Finding) -> int | None:
    """Return what the cause that a finding tells cost in tokens; None where it tells none, or no cache break."""
    for number, cause in enumerate(pair.causes):
        if (cause.code, cause.evidence) == (finding.code, finding.evidence):
            alone = msgspec.structs.replace(pair, causes=(cause,), lost=(pair.lost[number],))
            return lost_tokens(pair, number)[0] if alone.is_break else None
    return None
