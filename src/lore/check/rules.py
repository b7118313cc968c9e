"""The rules that `lore check` begins with: the prefix moved, billed reads fell, the transcript is damaged."""

from __future__ import annotations

from collections.abc import Iterable

from lore.check.base import Place, Rule, finding
from lore.check.pairs import Pair
from lore.model.codes import CODES
from lore.model.problems import Problem
from lore.model.results import Finding
from lore.prefix.divergence import divergence

BILLED = frozenset(("LORE128", "LORE301"))


class PrefixMoved:
    """One finding for each cause of a pair that bytes show."""

    def pair(self, pair: Pair, place: Place) -> Iterable[Finding]:
        where = divergence(pair.left.prompt, pair.right.prompt, pair.overlap, pair.bytes.common)
        for number, cause in enumerate(pair.causes):
            if cause.code in BILLED:
                continue
            tokens, how = lost_tokens(pair, number)
            yield finding(
                cause.code, place, _message(cause.code, cause.evidence),
                line=pair.right.line, chain=pair.right.chain, turn=pair.right.number,
                dialect=pair.right.prompt.dialect, section=cause.section or (where and where.section),
                json_path=None if where is None else where.path, offset=None if where is None else where.offset,
                evidence=cause.evidence, lost_bytes=pair.lost[number], lost_tokens=tokens, tokens=how,
                fidelity=pair.right.prompt.fidelity,
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
                cause.code, place, _message(cause.code, cause.evidence),
                line=pair.right.line, chain=pair.right.chain, turn=pair.right.number,
                dialect=pair.right.prompt.dialect, section=cause.section, evidence=cause.evidence,
                lost_bytes=pair.lost_bytes or None, lost_tokens=tokens, tokens=how,
                fidelity=pair.right.prompt.fidelity,
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


def lost_tokens(pair: Pair, number: int) -> tuple[int, str]:
    """Return what a cause cost in tokens: recorded by the bill, else estimated from bytes."""
    if pair.fell is not None and pair.fell > 0:
        return pair.fell, "recorded"
    return round(pair.lost[number] / pair.bytes_per_token), "estimated"


def _message(code: str, evidence: str) -> str:
    lead = {
        "waste": "the prompt does not extend the one before",
        "unattributable": "the cache was not reused, and the recording does not show why",
        "expected": "the prompt starts anew, as expected",
    }[CODES[code].kind]
    if code == "LORE106" or code == "LORE112":
        lead = "the bytes differ though the content does not; a server that decodes them may not notice"
    if code == "LORE146":
        lead = "the prompt differs"
    return f"{lead}: {evidence}"
