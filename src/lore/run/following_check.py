"""Follow a recording that is being written, and judge it: findings as soon as their turn is whole.

In: a path, budgets, and what waits between two looks. Out: an iterator of findings, and the sums when
waiting ends; `None` says that all that there was has been said. A recording that was truncated or
replaced is judged anew; the sums are those of the one that stands there last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lore import corpus
from lore.check.base import Place
from lore.check.budgets import Budgets, over_budget
from lore.check.chained import Chained
from lore.check.rules import RULES
from lore.model.results import Checked, Finding, Summary
from lore.model.turn import Turn
from lore.run import plugins
from lore.run.live import Live, Say, every
from lore.run.options import Options
from lore.run.problems import Problems
from lore.run.recording import UnrecognisedError
from lore.run.sums import found_in, tally
from lore.tailing import Wait


def follow_check(
    path: str, budgets: Budgets, options: Options, say: Say, *, wait: Wait = every
) -> Iterator[Finding | Checked | None]:
    """Judge a recording that is being written: yield findings as soon as their turn is whole.

    Last, when waiting ends, the sums (without the findings) of the log as it then stands.
    """
    plugins.load()
    live = Live(path, options.format, wait, say)
    while (head := live.head()) is not None:
        problems = Problems()
        pieces = _Pieces(live)
        recording = options.open(path, problems, opened=corpus.Opened(head, pieces.some()))
        judge = _Judge(Place(recording.shown), budgets)
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
            yield Checked(summary=judge.summary, findings=[], problems=problems.kept)


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

    def __init__(self, place: Place, budgets: Budgets) -> None:
        self.summary = Summary(files=1, sessions=1)
        self._place = place
        self._budgets = budgets
        self._chained = Chained()

    def turn(self, turn: Turn, forgotten: Iterable[str] = ()) -> Iterable[Finding]:
        """Take a turn that is whole; return what was found. `forgotten` names chains that nothing continues."""
        self.summary.turns += 1
        self._chained.forget(forgotten)
        pair = self._chained.advance(turn)
        self.summary.chains = self._chained.seen
        if pair is None:
            return ()
        self.summary.pairs += 1
        tally(self.summary, pair)
        return found_in(pair, self._place, self._budgets)

    def end(self, problems: Problems) -> Iterator[Finding]:
        """Say what can be said of the whole."""
        self.summary.problems = problems.total
        counts = {code: number for (code, _), number in problems.counts.items()}
        for rule in RULES.values():
            yield from rule.problems(problems.kept, counts, self._place)
        yield from over_budget(self.summary, self._budgets, self._place)
