"""Follow a recording that is being written, and judge it: findings as soon as their turn is whole.

In: a path, budgets, and what waits between two looks. Out: an iterator of findings, and the sums when
waiting ends; `None` says that all that there was has been said. A recording that was truncated or
replaced is judged anew; the sums are those of the one that stands there last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lore.judge.base import Place
from lore.judge.budgets import Budgets, over_budget
from lore.judge.chained import Chained
from lore.judge.policy import NO_POLICY, Limited, Policy
from lore.judge.rules import RULES, ChainRules
from lore.model.results import Checked, Finding, Summary
from lore.model.turn import Turn
from lore.recording import corpus, plugins
from lore.recording.base import UnrecognisedError
from lore.recording.options import Options
from lore.recording.paths import place_of
from lore.recording.problems import Problems
from lore.recording.tail_source import Live, Say, every
from lore.recording.tailing import Wait
from lore.run.outlook import PACKAGED, Expecting
from lore.run.tally import Costs, Said, added, costliest, judge_pair, settle


def follow_check(
    path: str, budgets: Budgets, options: Options, say: Say, *, wait: Wait = every, policy: Policy = NO_POLICY,
    root: str = "", expecting: Expecting = PACKAGED,
) -> Iterator[Finding | Checked | None]:  # fmt: skip
    """Judge a recording that is being written: yield findings as soon as their turn is whole.

    Last, when waiting ends, the sums (without the findings) of the log as it then stands.
    """
    plugins.load()
    policy.known("check.")
    expecting.known()
    live = Live(path, options.format, wait, say)
    while (head := live.head()) is not None:
        problems = Problems()
        pieces = _Pieces(live)
        recording = options.open(path, problems, opened=corpus.Opened(head, pieces.some()))
        judge = _Judge(place_of(path, root), budgets, policy, expecting)
        turns = recording.turns()
        while True:
            try:
                turn = next(turns, None)
            except UnrecognisedError as error:  # no request came
                say(error.message)
                turn = None
            if turn is None:
                break
            yield from judge.turn(turn, () if recording.events else recording.forgotten())
            yield None
        yield from judge.end(problems)
        if live.over:
            judge.summary.compactions = len(recording.boundaries)
            yield Checked(summary=judge.summary, top=costliest(judge.costs), findings=[], problems=problems.kept)


class _Pieces:
    """The bytes of a live log for one who knows nothing of waiting."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def some(self) -> Iterator[bytes]:
        for data in self._live.pieces():
            if data is not None:
                yield data


class _Judge:
    """The sums of one log, turn by turn."""

    def __init__(self, place: Place, budgets: Budgets, policy: Policy, expecting: Expecting) -> None:
        self.summary = Summary(files=1, sessions=1)
        self.costs: Costs = {}
        self._place = place
        self._ruling = policy.ruling(place.key, budgets)
        self._budgets = self._limits(budgets, policy)
        self._chained = Chained()
        self._followed = ChainRules(expecting.outlook())

    def _limits(self, budgets: Budgets, policy: Policy) -> Budgets:
        """Return the budgets of the sums: those of the entry of `per_path` that they count against."""
        for name, entry in zip(Limited._fields, self._ruling.limited, strict=True):
            if entry >= 0:
                limit = Budgets(**{name: getattr(policy.per_path[entry], name)})
                budgets = limit.over(budgets)
        return budgets

    def turn(self, turn: Turn, forgotten: Iterable[str] = ()) -> Iterator[Finding]:
        """Take a turn that is whole; yield what was found. `forgotten` names chains that nothing continues."""
        self.summary.turns += 1
        for name in forgotten:
            self._chained.forget([name])
            yield from self._ended(name)
        pair = self._chained.advance(turn)
        if turn.basis is None:
            self._followed.turn(turn, pair)
        self.summary.chains = self._chained.seen
        if pair is not None:
            self.summary.pairs += 1
            yield from self._left(judge_pair(pair, self._place, self._ruling))

    def _ended(self, chain: str) -> Iterator[Finding]:
        return self._left([added(one, self._ruling) for one in self._followed.ended(chain, self._place)])

    def _left(self, said: list[Said]) -> Iterator[Finding]:
        settle((one.found for one in said), self.summary, self.costs)
        return (one.finding for one in said if not one.found.out)

    def end(self, problems: Problems) -> Iterator[Finding]:
        """Say what can be said of the whole."""
        for name in self._followed.chains:
            yield from self._ended(name)
        self.summary.problems = problems.total
        counts = {code: number for (code, _), number in problems.counts.items()}
        found = [one for rule in RULES.values() for one in rule.problems(problems.kept, counts, self._place)]
        yield from self._left([added(one, self._ruling) for one in found])
        over = over_budget(self.summary, self._budgets, self._place)
        yield from self._left([added(one, self._ruling) for one in over])
