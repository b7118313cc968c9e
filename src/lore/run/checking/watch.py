"""Follow a recording that is being written, and judge it: findings as soon as their turn is whole.

In: a path, budgets, and what waits between two looks. Out: an iterator of findings, and the sums when
waiting ends; `None` says that all that there was has been said. A recording that was truncated or
replaced is judged anew; the sums are those of the one that stands there last.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from lore.judge.policy import NO_POLICY, Budgets, Decided, Limited, Policy, Ruling, over_budget
from lore.judge.totals import FileTotals, costliest
from lore.model.codes import Reader
from lore.model.results import CheckResult, Finding
from lore.recording import corpus
from lore.recording.base import Problems, UnrecognisedError, load_plugins
from lore.recording.inputs import place_of
from lore.recording.opening import Options
from lore.recording.tailing import LogTail, Say, Wait, every
from lore.run.checking.verdicts import reader_of, verdicts
from lore.run.dated import PACKAGED, Dated


def follow_check(
    path: str, budgets: Budgets, options: Options, say: Say, *, wait: Wait = every, policy: Policy = NO_POLICY,
    root: str = "", dated: Dated = PACKAGED, reader: Reader | None = None,
) -> Iterator[Finding | CheckResult | None]:  # fmt: skip
    """Judge a recording that is being written: yield findings as soon as their turn is whole.

    Last, when waiting ends, the sums (without the findings) of the log as it then stands.
    """
    load_plugins()
    policy.known("check.")
    dated.known()
    live = LogTail(path, options.format, wait, say)
    while (head := live.head()) is not None:
        problems = Problems()
        data = (piece for piece in live.pieces() if piece is not None)
        recording = options.open(path, problems, opened=corpus.Opened(head, data))
        place = structs.replace(place_of(path, root), reader=reader_of(recording, reader))
        ruling = policy.ruling(place.key, budgets)
        totals, judge = FileTotals(place, ruling, settles=True), dated.judge()
        steps = verdicts(recording, judge, place)
        while True:
            try:
                verdict, ended = next(steps)
            except UnrecognisedError as error:  # no request came
                say(error.message)
                break
            yield from _left(totals.ended(ended))
            if verdict is None:
                break
            yield from _left(totals.turn(verdict, events=recording.events))
            yield None
        summary = totals.result.summary
        yield from _left(totals.finish(recording.state.id, (), problems.kept, problems.counts))
        yield from _left(totals.ended(over_budget(summary, _limits(budgets, ruling, policy), place)))
        if live.over:
            summary.sessions, summary.chains, summary.compactions = 1, judge.chains, len(recording.boundaries)
            top = costliest(totals.result.costs, place.reader)
            yield CheckResult(summary=summary, top=top, findings=[], problems=problems.kept)


def _left(decided: list[Decided]) -> Iterator[Finding]:
    return (decision.finding for decision in decided if not decision.out)


def _limits(budgets: Budgets, ruling: Ruling, policy: Policy) -> Budgets:
    """Return the budgets of the sums: those of the entry of `per_path` that they count against."""
    for name, entry in zip(Limited._fields, ruling.limited, strict=True):
        if entry >= 0:
            budgets = Budgets(**{name: getattr(policy.per_path[entry], name)}).over(budgets)
    return budgets
