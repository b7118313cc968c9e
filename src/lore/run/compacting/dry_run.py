"""`lore compact --dry-run`: read a recording of events, and try a policy on it. Nothing is written or run."""

from __future__ import annotations

from lore.cache.rules import Rules
from lore.compaction.settings import Compaction
from lore.compaction.trial.trial import Trial, ended_first
from lore.compaction.trial.verdict_text import UNCONFIGURED
from lore.model.compacted import DryRun
from lore.recording.events import session_log
from lore.recording.options import Options
from lore.recording.problems import Problems
from lore.run.gc_tuning import collected_seldom


def dry_run(path: str, options: Options, settings: Compaction | None, rules: Rules) -> DryRun:
    """Try a policy on a recording; raises LoreError for recordings of requests, which hold no events."""
    hint = "name a session log; requests are judged by `lore check` and `lore simulate`"
    recording = session_log(options.open(path, Problems()), "events: there is no session to compact", hint=hint)
    if settings is None:
        return DryRun(
            session=recording.shown, configured=False, when=None, triggers=[], totals=None, answer=UNCONFIGURED,
            notes=[], problems=[],
        )  # fmt: skip
    with collected_seldom():
        trial = Trial(recording.reader.name, lambda: recording.state, settings, rules)
        for read, event in ended_first(recording.reads()):
            trial.before(event)
            recording.apply(read, event)
            trial.after(event)
        return trial.result(recording.shown, recording.problems.kept)
