"""The rules that `lore check` begins with: the prefix moved, billed reads fell, the transcript is damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lore.judge.base import Place, Rule, TurnRule, finding
from lore.judge.laws import Laws
from lore.judge.outlook import Outlook
from lore.judge.pairs import BY_BILL, Pair, lost_tokens
from lore.judge.read_short import Beside, ReadShort
from lore.judge.under_minimum import UnderMinimum
from lore.judge.unread import Reads, Unread
from lore.model.problems import Problem
from lore.model.results import Finding
from lore.model.turn import Turn
from lore.prefix.causes import Cause
from lore.prefix.divergence import Place as At
from lore.prefix.divergence import place_of

BILLED = BY_BILL | {"LORE134", "LORE302", "LORE303"}  # what bills, times and verdicts say


class PrefixMoved:
    """One finding for each cause of a pair that bytes show."""

    def pair(self, pair: Pair, place: Place) -> Iterable[Finding]:
        for number, cause in enumerate(pair.causes):
            if cause.code in BILLED or (cause.code == "LORE107" and cause.harmless):
                continue  # the latter is said once a chain
            where = _where(pair, cause)
            tokens, how = lost_tokens(pair, number)
            yield finding(
                cause.code, place, _message(cause) + _partly(pair, cause), kind=cause.kind,
                line=pair.right.line, chain=pair.right.chain, turn=pair.right.number,
                dialect=pair.right.dialect, section=cause.section or (where and where.section),
                json_path=cause.path or None if where is None else where.path,
                offset=None if where is None else where.offset,
                evidence=cause.evidence, lost_bytes=pair.lost[number], lost_tokens=tokens, tokens=how,
                fidelity=pair.right.fidelity,
            )  # fmt: skip

    def problems(self, problems: list[Problem], counts: dict[str, int], place: Place) -> Iterable[Finding]:
        return ()


class BilledReadsFell:
    """The provider read less than the turn before had left in its cache, and no bytes say why."""

    def pair(self, pair: Pair, place: Place) -> Iterable[Finding]:
        for cause in pair.causes:
            if cause.code not in BILLED:
                continue
            tokens, how = lost_tokens(pair, pair.causes.index(cause))
            yield finding(
                cause.code, place, _message(cause) + _partly(pair, cause), kind=cause.kind,
                line=pair.right.line, chain=pair.right.chain, turn=pair.right.number,
                dialect=pair.right.dialect, section=cause.section, evidence=cause.evidence,
                lost_bytes=pair.lost_bytes or None, lost_tokens=tokens, tokens=how,
                fidelity=pair.right.fidelity,
            )  # fmt: skip

    def problems(self, problems: list[Problem], counts: dict[str, int], place: Place) -> Iterable[Finding]:
        return ()


class TranscriptDamage:
    """One finding for each kind of problem of a recording, at its first place, with their number."""

    def pair(self, pair: Pair, place: Place) -> Iterable[Finding]:
        return ()

    def problems(self, problems: list[Problem], counts: dict[str, int], place: Place) -> Iterable[Finding]:
        seen: set[str] = set()
        for problem in problems:
            if problem.code in seen:
                continue
            seen.add(problem.code)
            number = counts.get(problem.code, 1)
            more = f" (and {number - 1} more like it)" if number > 1 else ""
            yield finding(problem.code, place, f"{problem.message}{more}", line=problem.line, evidence=problem.message)


RULES: dict[str, Rule] = {
    "prefix": PrefixMoved(),
    "billed": BilledReadsFell(),
    "damage": TranscriptDamage(),
}
BUILT_IN = frozenset(RULES)
TURN_RULES: dict[str, Callable[[], TurnRule]] = {}  # those of others, besides lore's own


class ChainRules:
    """Ask the rules that follow whole chains; those of a chain are made when its first turn comes."""

    def __init__(self, outlook: Outlook) -> None:
        self._rules: dict[str, list[TurnRule]] = {}
        self._outlook = outlook
        self._beside = Beside()
        self._reads = Reads()
        self._heads: dict[int, int] = {}

    def _made(self) -> list[TurnRule]:
        look = self._outlook
        own: list[TurnRule] = [
            Laws(look.minimum), ReadShort(look, self._beside), Unread(self._reads), UnderMinimum(look, self._heads)
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
        found = [one for rule in self._rules.pop(chain, ()) for one in rule.findings(place)]
        if any(one.code == "LORE114" for one in found):  # it says where the breakpoints stand, too
            return [one for one in found if one.code != "LORE306"]
        return found


def _where(pair: Pair, cause: Cause) -> At | None:
    """Return where the two prompts part; None where they do not, or a later cause has a place of its own."""
    if pair.overlap.covered or (cause.path and cause.position != pair.overlap.common):
        return None
    return place_of(pair.left.prompt, pair.right.prompt, max(cause.position, pair.overlap.common))


_LEADS = {
    "LORE106": "the bytes differ though the content does not; a server that decodes them may not notice",
    "LORE112": "the bytes differ though the content does not; a server that decodes them may not notice",
    "LORE119": "another model reads nothing of this cache",
    "LORE113": "the last entry is out of reach of every breakpoint",
    "LORE128": "the cache had expired",
    "LORE132": "the prompt is partial",
    "LORE129": "requests were sent together",
    "LORE131": "the request went elsewhere",
    "LORE134": "the lifetime that was asked for was not billed",
    "LORE155": "the newest entry was not readable yet",
    "LORE302": "bytes, bill and verdict contradict one another",
    "LORE303": "the bill does not belong to the recorded body",
    "LORE146": "the prompt differs",
}
_KINDS = {
    "waste": "the prompt does not extend the one before",
    "unattributable": "the cache was not reused, and the recording does not show why",
    "expected": "the prompt starts anew, as expected",
}


def _partly(pair: Pair, cause: Cause) -> str:
    """Say of a finding that it rests on less than the whole prompt; only recorded requests can be partial."""
    sides = (turn.prompt.partial for turn in (pair.left, pair.right) if turn.basis is None)
    return "; the prompt is partial: its beginning is not recorded" if cause.code != "LORE132" and any(sides) else ""


def _message(cause: Cause) -> str:
    if cause.code == "LORE301":
        return cause.evidence
    return f"{_LEADS.get(cause.code) or _KINDS[cause.kind]}: {cause.evidence}"
