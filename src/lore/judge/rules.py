"""Verdicts as findings, and the rules of others beside them: what every command shows of a turn.

In: verdicts, problems of a recording. Out: findings, one for each cause. Rules: nothing is attributed here; every
command that speaks of a turn shows these findings, in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lore.cache.rules import Rules
from lore.judge.base import Place, Rule, TurnRule, finding
from lore.judge.bills import paid_again, within_bill
from lore.judge.laws import Laws, UnderMinimum
from lore.judge.pairs import BY_BILL, Pair, is_remark, lost_tokens
from lore.judge.reads import Beside, Reads, ReadShort, Unread
from lore.model.codes import CODES, Code, Problem
from lore.model.evidence import Damage
from lore.model.results import AlsoSeen, Finding
from lore.model.turn import Turn
from lore.prefix.cause import Cause
from lore.prefix.overlap import PromptPlace, place_of

BILLED = BY_BILL | {
    Code.LIFETIME_LOST,
    Code.VERDICT_DISAGREES,
    Code.BILL_CONTRADICTS_BODY,
}  # what bills, times and verdicts say


def findings_of(pair: Pair, place: Place, counted: int | None = None) -> list[tuple[int, Finding]]:
    """Return a finding for each cause of a pair, with the number of the cause; `counted` tokens, where that is known.

    What is said once a chain (a billing header that the provider takes out) is left to the rules of chains.
    """
    found: list[tuple[int, Finding]] = []
    for number, cause in enumerate(pair.causes):
        if cause.code == Code.BILLING_HEADER_CHANGED and cause.harmless:
            continue
        where = None if cause.code in BILLED else _where(pair, cause)
        exact = counted if pair.lost[number] == pair.lost_bytes else None
        tokens, source = lost_tokens(pair, number, exact)
        usage = pair.right.usage
        dollars = None if pair.price is None else paid_again(pair.price, usage, within_bill(usage, tokens))
        made = finding(
            cause.code, place, cause.evidence, kind=cause.kind, line=pair.right.line, chain=pair.right.chain,
            turn=pair.right.number, dialect=pair.right.dialect,
            section=CODES[cause.code].section or cause.section or (where and where.section),
            json_path=cause.path or None if where is None else where.path, offset=where and where.offset,
            lost_bytes=pair.lost[number], lost_tokens=tokens, lost_dollars=dollars, tokens=source,
            fidelity=pair.right.fidelity,
            strength=cause.strength, more=cause.more, qualifiers=cause.qualifiers, ruled_out=cause.ruled_out,
            paused=cause.paused, skipped=cause.skipped,
            also=tuple(map(_also, cause.also)), partial=_partial(pair, cause),
            is_break=not is_remark(cause),
        )  # fmt: skip
        found.append((number, made))
    return found


def _also(cause: Cause) -> AlsoSeen:
    about = CODES[cause.code]
    return AlsoSeen(cause.code, about.name, about.section or cause.section, cause.strength, cause.evidence)


def damage(problems: Iterable[Problem], counts: dict[str, int], place: Place) -> Iterable[Finding]:
    """Yield one finding for each kind of problem of a recording, at its first place, with their number."""
    seen: set[str] = set()
    for problem in problems:
        if problem.code not in seen:
            seen.add(problem.code)
            evidence = Damage(problem.message, counts.get(problem.code, 1) - 1)
            yield finding(problem.code, place, evidence, line=problem.line)


RULES: dict[str, Rule] = {}  # those of others, asked about every pair beside the verdict
TURN_RULES: dict[str, Callable[[], TurnRule]] = {}  # those of others, besides lore's own


class ChainRules:
    """Ask the rules that follow whole chains; those of a chain are made when its first turn comes."""

    def __init__(self, rules: Callable[[], Rules], tolerance: float) -> None:
        self._rules: dict[str, list[TurnRule]] = {}
        self._dated = rules
        self._tolerance = tolerance
        self._between: tuple[Beside, Reads] | None = None  # what the chains of a recording know of one another
        self._heads: dict[int, int] = {}

    def _made(self) -> list[TurnRule]:
        beside, reads = self._between = self._between or (Beside(), Reads())
        own: list[TurnRule] = [
            Laws(self._dated), ReadShort(self._dated, self._tolerance, beside), Unread(reads),
            UnderMinimum(self._dated, self._heads),
        ]  # fmt: skip
        return [*own, *(make() for make in TURN_RULES.values())]

    @property
    def chains(self) -> list[str]:
        """The chains that have not ended."""
        return list(self._rules)

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        """Take the next turn of any chain."""
        rules = self._rules.get(turn.chain)
        if rules is None:
            rules = self._rules[turn.chain] = self._made()
        for rule in rules:
            rule.turn(turn, pair)

    def ended(self, chain: str, place: Place) -> list[Finding]:
        """Return what was found in a chain that goes on no more."""
        found = [result for rule in self._rules.pop(chain, ()) for result in rule.findings(place)]
        if any(result.code == Code.BREAKPOINTS_MISSING for result in found):  # that says where breakpoints stand, too
            return [result for result in found if result.code != Code.PROMPT_UNDER_MINIMUM]
        return found


def _where(pair: Pair, cause: Cause) -> PromptPlace | None:
    """Return where the two prompts part; None where they do not, or a later cause has a place of its own."""
    if pair.overlap.covered or (cause.path and cause.position != pair.overlap.common):
        return None
    return place_of(pair.left.prompt, pair.right.prompt, max(cause.position, pair.overlap.common))


def _partial(pair: Pair, cause: Cause) -> bool:
    """Tell whether a cause rests on less than the whole prompt; only recorded requests can be partial."""
    sides = (turn.prompt.partial for turn in (pair.left, pair.right) if turn.basis is None)
    return cause.code != Code.CONTINUATION and any(sides)
