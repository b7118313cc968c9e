"""Try a compaction policy on a recording: for `lore compact --dry-run` and the first screen."""

from __future__ import annotations

from lore.cache.rules import DatedRules
from lore.compaction.settings import Compaction
from lore.compaction.trial import Trial, order_turn_ends
from lore.model.results.compact import DryRunResult
from lore.recording.base import Problems, collected_seldom
from lore.recording.opening import Options
from lore.recording.request_session import session_of
from lore.report.compacted import describe_unconfigured, trial_answer, trial_notes
from lore.store.base import Tell


def dry_run(
    path: str, options: Options, policy: Compaction | None, rules: DatedRules, *, explain: Tell | None = None
) -> DryRunResult:
    """Try a policy on a recording; `explain` receives why triggers fire or not. Raises LoreError for requests."""
    hint = "name a session log; requests are judged by `lore check` and `lore simulate`"
    recording = session_of(options.open(path, Problems()), "events: it holds no session to compact", hint=hint)
    if policy is None:
        return DryRunResult(
            session=recording.shown, configured=False, triggers=[], totals=None,
            answer=describe_unconfigured(recording.shown), notes=[], problems=[],
        )  # fmt: skip
    with collected_seldom():
        trial = Trial(lambda: recording.state, policy, rules, explain)
        for read, event in order_turn_ends(recording.reads()):
            trial.before(event)
            recording.apply(read, event)
            trial.after(event)
        outcome = trial.result()
    return DryRunResult(
        session=recording.shown, configured=True, triggers=outcome.triggers, totals=outcome.totals,
        answer=trial_answer(outcome), notes=list(trial_notes(outcome)), problems=list(recording.problems.kept),
    )  # fmt: skip
