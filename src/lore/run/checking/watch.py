"""`lore check --follow`: judge a recording while it is written.

A recording that is truncated or replaced is judged from its beginning; the sums are those of the last one.
"""

from __future__ import annotations

from collections.abc import Iterator

from lore.judge.totals import FileTotals, RunTotals
from lore.model.results import CheckResult, Finding
from lore.recording import corpus
from lore.recording.base import Problems, UnrecognisedError, load_plugins
from lore.recording.tailing import LogTail, Say, Wait, every
from lore.run.checking.places import place_of
from lore.run.checking.verdicts import CheckContext, judge_turns


def follow_check(
    path: str, context: CheckContext, say: Say, *, wait: Wait = every
) -> Iterator[Finding | CheckResult | None]:  # fmt: skip
    """Yield findings as soon as their turn is complete, None after each turn, and at the end the sums.

    `wait` returns when it is time to look again, False to end.
    """
    load_plugins()
    context.policy.known("check.")
    context.dated.known()
    live = LogTail(path, context.options.format, wait, say)
    while (head := live.head()) is not None:
        problems = Problems()
        data = (piece for piece in live.pieces() if piece is not None)
        recording = context.options.open(path, problems, opened=corpus.Opened(head, data))
        place = place_of(path, context.root)
        totals = FileTotals(place, context.ruling(place.key))
        try:
            for verdict, decided in judge_turns(recording, totals, context):
                yield from (each.finding for each in decided if not each.out)
                if verdict is not None:
                    yield None
        except UnrecognisedError as error:  # no request came
            say(error.message)
        ended = totals.finish(recording.state.id, recording.boundaries, problems.kept, problems.counts)
        yield from (each.finding for each in ended if not each.out)
        run = RunTotals()
        run.take(totals.result)
        yield from run.conclude(run.over(context.budgets, context.policy, totals.place), context.ruling(""))
        if live.over:
            checked = run.checked(context.reader)
            yield CheckResult(summary=checked.summary, top=checked.top, findings=[], problems=checked.problems)
