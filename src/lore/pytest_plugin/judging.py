"""Judge successive requests as `lore check` does: chains, pairs, rules; and keep what moved the prefix.

A finding counts where `lore check` would fail by it (waste), and where bytes that were to be reused moved
and nothing says whose fault it is. What is expected (a model change, a compaction, a rewind) does not count.
"""

from __future__ import annotations

from typing import NamedTuple

from lore.errors import LoreError
from lore.judge.base import Place
from lore.judge.pairs import Pair
from lore.judge.rules import RULES, findings_of
from lore.judge.verdict import Verdict
from lore.model.results import Diff, Finding, Side
from lore.pytest_plugin.asked import Entry
from lore.recording.base import Problems
from lore.recording.corpus import Opened
from lore.recording.opening import Options
from lore.report.sentences import worded
from lore.run.diff_metrics import Figures
from lore.run.verdicts import PACKAGED, verdicts

PLACE = Place("requests")
_HINT = "lore knows bodies of Anthropic, OpenAI Chat and Responses, Gemini and Bedrock"


class Moved(NamedTuple):
    """Two successive requests, numbered from 1, between which the prefix moved.

    Where one request wastes by itself (too many breakpoints), both numbers are its own and `diff` is None.
    """

    left: int
    right: int
    chain: str
    findings: tuple[Finding, ...]
    diff: Diff | None


class Judged(NamedTuple):
    """How many of the requests lore knows and how many pairs were compared, what moved, every code that was found."""

    requests: int
    pairs: int
    moved: tuple[Moved, ...]
    codes: frozenset[str]


def judge(entries: list[Entry]) -> Judged:
    """Judge requests in the order in which they were sent; raises LoreError for one that is none.

    Cost O(bytes of all requests).
    """
    problems = Problems()
    data = b"\n".join(one.record for one in entries)
    recording = Options(format="bodies").open("requests", problems, opened=Opened(data, iter([data])))
    judged = _Requests()
    for verdict, ended in verdicts(recording, PACKAGED.judge(), PLACE):
        judged.ended(ended)
        if verdict is not None:
            judged.take(verdict)
    for one in problems.kept:
        number = one.line or 1
        if entries[number - 1].must:
            raise LoreError(f"request {number} cannot be judged: {one.message}", hint=_HINT)
    return Judged(judged.requests, judged.pairs, tuple(judged.moved), frozenset(judged.codes))


class _Requests:
    """The verdicts on requests, as far as a test fails by them."""

    def __init__(self) -> None:
        self._chains: dict[str, Figures] = {}
        self.requests = self.pairs = 0
        self.moved: list[Moved] = []
        self.codes: set[str] = set()

    def take(self, verdict: Verdict) -> None:
        """Take a verdict."""
        self.requests += 1
        turn, pair = verdict.turn, verdict.pair
        figures = self._chains.setdefault(turn.chain, Figures(None))
        if pair is None:
            figures.first(turn)
            return
        self.pairs += 1
        numbers = pair.left.line or 0, pair.right.line or 0
        sides = [Side(f"request {number}") for number in numbers]
        diff = figures.describe(pair, *sides, file=None, problems=[], place=PLACE)
        found = [worded(one) for _, one in findings_of(pair, PLACE)]
        found += [worded(one) for rule in RULES.values() for one in rule.pair(pair, PLACE)]
        self.codes.update(one.code for one in found)
        moved = tuple(one for one in found if _counts(one, pair))
        if moved:
            self.moved.append(Moved(*numbers, turn.chain, moved, diff))

    def ended(self, findings: list[Finding]) -> None:
        """Take what was found in whole chains: waste fails here as it does `lore check`."""
        for one in map(worded, findings):
            self.codes.add(one.code)
            if one.kind == "waste":
                self.moved.append(Moved(one.line or 0, one.line or 0, one.chain or "main", (one,), None))


def _counts(one: Finding, pair: Pair) -> bool:
    if one.kind != "unattributable":
        return one.kind == "waste"
    return not pair.overlap.covered and bool(one.lost_bytes)
