"""Try a compaction policy on a recording: for `lore compact --dry-run` and the first screen."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from lore.cache.rules import DatedRules
from lore.compaction.settings import TRIED, WINDOWS, Compaction
from lore.compaction.trial import Trial, order_turn_ends
from lore.errors import LoreError
from lore.model.results.compact import DryRunResult
from lore.recording.base import Problems, collected_seldom
from lore.recording.opening import Options
from lore.recording.request_session import session_of
from lore.report.sentences.trial import UNCONFIGURED, notes, verdict
from lore.store.base import Tell

WORTH = 0.1  # of a session's cost


class EarlierCompaction(NamedTuple):
    """What compacting at a smaller window would have saved in a trial."""

    window: int  # in tokens
    saved: float  # US dollars
    compactions: int  # how many there would have been


def dry_run(
    path: str, options: Options, policy: Compaction | None, rules: DatedRules, *, explain: Tell | None = None
) -> DryRunResult:
    """Try a policy on a recording; raises LoreError for recordings of requests, which hold no events.

    `explain` receives why each trigger fires or is skipped.
    """
    hint = "name a session log; requests are judged by `lore check` and `lore simulate`"
    recording = session_of(options.open(path, Problems()), "events: it holds no session to compact", hint=hint)
    if policy is None:
        return DryRunResult(
            session=recording.shown, configured=False, when=None, triggers=[], totals=None, answer=UNCONFIGURED,
            notes=[], problems=[],
        )  # fmt: skip
    with collected_seldom():
        trial = Trial(lambda: recording.state, policy, rules, explain)
        for read, event in order_turn_ends(recording.reads()):
            trial.before(event)
            recording.apply(read, event)
            trial.after(event)
        outcome = trial.result()
    return DryRunResult(
        session=recording.shown, configured=True, when=policy.when, triggers=outcome.triggers, totals=outcome.totals,
        answer=verdict(outcome), notes=list(notes(outcome)), problems=list(recording.problems.kept),
    )  # fmt: skip


def earlier_compaction(
    path: str, dollars: float | None, largest: int | None, options: Options, rules: DatedRules
) -> EarlierCompaction | None:
    """Return what compacting a session earlier would have saved, if that is a tenth of its cost in `dollars`.

    Tries the windows below the `largest` prompt, in tokens, and returns the largest that is worth it; None for
    recordings of requests. Reads the session once a window.
    """
    for window in WINDOWS:
        if not dollars or (largest or 0) < window:
            continue
        try:
            totals = dry_run(path, options, replace(TRIED, window=window), rules).totals
        except LoreError:
            return None
        if totals is not None and totals.saved is not None and totals.saved >= dollars * WORTH:
            return EarlierCompaction(window, totals.saved, totals.fired)
    return None
