"""Follow a recording that is being written, and judge it: findings as soon as their turn is whole.

In: a path, budgets, and what waits between two looks. Out: an iterator of findings, and the sums when
waiting ends; `None` says that all that there was has been said. A recording that was truncated or
replaced is judged anew; the sums are those of the one that stands there last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import structs

from lore.judge.base import Place
from lore.judge.policy import NO_POLICY, Budgets, Limited, Policy, over_budget
from lore.judge.rules import RULES, damage
from lore.judge.tally import Costs, Decided, costliest, decide, judge_pair, settle
from lore.judge.verdict import Verdict
from lore.model.codes import Reader
from lore.model.results import Checked, Finding, Summary
from lore.recording import corpus, plugins
from lore.recording.base import Problems, UnrecognisedError
from lore.recording.inputs import place_of
from lore.recording.opening import Options
from lore.recording.tailing import Live, Say, Wait, every
from lore.report.sentences import worded
from lore.run.verdicts import PACKAGED, Dated, reader_of, verdicts


def follow_check(
    path: str, budgets: Budgets, options: Options, say: Say, *, wait: Wait = every, policy: Policy = NO_POLICY,
    root: str = "", dated: Dated = PACKAGED, reader: Reader | None = None,
) -> Iterator[Finding | Checked | None]:  # fmt: skip
    """Judge a recording that is being written: yield findings as soon as their turn is whole.

    Last, when waiting ends, the sums (without the findings) of the log as it then stands.
    """
    plugins.load()
    policy.known("check.")
    dated.known()
    live = Live(path, options.format, wait, say)
    while (head := live.head()) is not None:
        problems = Problems()
        pieces = _Pieces(live)
        recording = options.open(path, problems, opened=corpus.Opened(head, pieces.some()))
        place = structs.replace(place_of(path, root), reader=reader_of(recording, reader))
        sums = _Sums(place, budgets, policy)
        steps = verdicts(recording, dated.judge(), place)
        while True:
            try:
                verdict, ended = next(steps)
            except UnrecognisedError as error:  # no request came
                say(error.message)
                break
            yield from sums.ended(ended)
            if verdict is None:
                break
            yield from sums.turn(verdict)
            yield None
        yield from sums.end(problems)
        if live.over:
            sums.summary.compactions = len(recording.boundaries)
            yield Checked(
                summary=sums.summary, top=costliest(sums.costs, place.reader), findings=[], problems=problems.kept
            )


class _Pieces:
    """The bytes of a live log for one who knows nothing of waiting."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def some(self) -> Iterator[bytes]:
        for data in self._live.pieces():
            if data is not None:
                yield data


class _Sums:
    """The sums of one log, turn by turn."""

    def __init__(self, place: Place, budgets: Budgets, policy: Policy) -> None:
        self.summary = Summary(files=1, sessions=1)
        self.costs: Costs = {}
        self._place = place
        self._ruling = policy.ruling(place.key, budgets)
        self._budgets = self._limits(budgets, policy)
        self._chains: set[str] = set()

    def _limits(self, budgets: Budgets, policy: Policy) -> Budgets:
        """Return the budgets of the sums: those of the entry of `per_path` that they count against."""
        for name, entry in zip(Limited._fields, self._ruling.limited, strict=True):
            if entry >= 0:
                limit = Budgets(**{name: getattr(policy.per_path[entry], name)})
                budgets = limit.over(budgets)
        return budgets

    def turn(self, verdict: Verdict) -> Iterator[Finding]:
        """Take a verdict; yield what was found."""
        self.summary.turns += 1
        self.summary.pairs += verdict.compared
        self._chains.add(verdict.turn.chain)
        self.summary.chains = len(self._chains)
        if verdict.pair is not None:
            yield from self._left(judge_pair(verdict.pair, self._place, self._ruling))

    def ended(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Take what was found in chains that ended, or about the whole."""
        for finding in findings:  # each settled for itself
            yield from self._left([decide(finding, self._ruling)])

    def _left(self, decided: list[Decided]) -> Iterator[Finding]:
        settle((one.found for one in decided), self.summary, self.costs)
        return (worded(one.finding) for one in decided if not one.found.out)

    def end(self, problems: Problems) -> Iterator[Finding]:
        """Say what can be said of the whole."""
        self.summary.problems = problems.total
        counts = {code: number for (code, _), number in problems.counts.items()}
        yield from self.ended(damage(problems.kept, counts, self._place))
        yield from self.ended(
            one for rule in RULES.values() for one in rule.problems(problems.kept, counts, self._place)
        )
        yield from self.ended(over_budget(self.summary, self._budgets, self._place))
