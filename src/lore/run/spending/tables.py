"""Tables of requests with their cost, and of findings, written while `lore check` judges.

A plug-in writes them. It publishes a function under the entry-point group `lore.tables`, by the name of the form
(`lore check --report parquet=FOLDER`). Given the folder, it returns a context of tables that are being written; raises
LoreError, before anything is judged, if the folder cannot take them. The tables have `add(recording)` for the next
`TabledRecording`, and `finish(findings)`, which adds all findings and returns a line for the user. They are complete
when the context ends; if an error ends it, the previous tables remain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from msgspec.structs import replace

from lore.errors import LoreError, lacks_plug_in
from lore.judge.sums import Copies, LedgerRequest
from lore.judge.totals import FINDINGS_KEPT
from lore.model.ledger import Ledger
from lore.plugins import entry_points
from lore.recording import corpus
from lore.recording.agents.companions import session_of
from lore.recording.agents.sessions import AgentLog
from lore.recording.inputs import Input, written_at
from lore.report.plain import visible
from lore.report.redacted import redacted
from lore.run.checking.check import CheckOutcome, CheckRun, check
from lore.run.checking.verdicts import CheckContext, InterruptedRunError
from lore.run.spending.ledgers import placed
from lore.run.spending.overview import agent_of, every_request

GROUP = "lore.tables"  # of entry points
_BROUGHT = ("parquet",)  # by lore's own plug-in `scale`


class TabledRequest(NamedTuple):
    """A request of a recording; `copied`: an earlier recording of the run holds the same response."""

    request: LedgerRequest
    copied: bool


class TabledRecording(NamedTuple):
    """A recording as rows; `session` is the path of the session that it belongs to."""

    ledger: Ledger
    session: str
    agent: str
    requests: list[TabledRequest]


def table_forms() -> dict[str, Any]:
    """Return the forms of tables by name; None for one whose plug-in is missing."""
    return dict.fromkeys(_BROUGHT) | {point.name: point.load() for point in entry_points(GROUP)}


def check_into_tables(
    form: str, folder: str, paths: list[str], context: CheckContext, run: CheckRun, tell: Callable[[str], None]
) -> CheckOutcome:  # fmt: skip
    """Check recordings and write their tables; `tell` receives lines about these. Raises LoreError if that fails."""
    open_tables, copies, label = table_forms().get(form), Copies(), corpus.show(folder)
    if open_tables is None:
        raise lacks_plug_in("scale", f"--report {form}", "tables")
    if "://" in folder:
        raise LoreError(f"cannot write {label}: lore writes to this machine only", hint="name a folder")
    outcome: CheckOutcome | None = None
    summary = ""
    with suppress(InterruptedRunError), open_tables(folder) as tables:

        def take(file: Input, ledger: Ledger | None) -> None:
            if ledger is not None:
                log, output, path = AgentLog(None, file, written_at(file)), placed(ledger, file), file.path
                output = redacted(output) if context.redact else replace(output, session=visible(output.session))
                requests = [TabledRequest(turn, copies.has(turn.row, path)) for turn in every_request(output, log)]
                session = corpus.show(session_of(path) or path)
                tables.add(TabledRecording(output, session, agent_of(output, log), requests))

        outcome = check(paths, context, replace(run, on_ledger=take))
        if outcome.result.interrupted:
            raise InterruptedRunError  # so that the previous tables remain
        summary = tables.finish(outcome.result.findings)
    assert outcome is not None, "an interrupted run has a result"
    by_severity = Counter(finding.severity for finding in outcome.result.findings)
    if summary:
        tell(f"{label}: {summary}")
    if summary and max(by_severity.values(), default=0) >= FINDINGS_KEPT:
        tell(f"{label}: findings holds the first {FINDINGS_KEPT:,} of each severity")
    return outcome
