"""`lore report --format trace`: recordings to a trace of their requests.

A request that two recordings hold is drawn in the one that was written first; a subagent's lanes are next to those of
its session. Rows come from ledgers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lore.errors import LoreError, Where
from lore.judge.sums import Copies
from lore.recording import corpus
from lore.recording.agents.sessions import AgentLog
from lore.recording.inputs import Input, written_at
from lore.report.redacted.findings import redacted_error
from lore.report.redacted.results import redacted
from lore.report.trace import LaneRequest, Trace, trace_of
from lore.run.recent import nothing
from lore.run.spending.ledgers import Ledgers, Progress
from lore.run.spending.overview import requests_of


class Traced(NamedTuple):
    """A trace, with the number of its requests and of copies, and a sentence for each file that failed."""

    trace: Trace
    requests: int
    copied: int
    failed: list[str]


def traced(
    files: list[Input], ledgers: Ledgers, *, looked: tuple[str, ...] = (), redact: bool = False,
    progress: Progress | None = None, jobs: int = 1,
) -> Traced:  # fmt: skip
    """Make a trace of recordings; `looked` are the places that were searched.

    Raises LoreError without recordings, and for a named file that cannot be read.
    """
    copies, failed, recordings = Copies(), list[str](), 0

    def requests() -> Iterator[LaneRequest]:
        nonlocal recordings
        ordered = sorted(files, key=lambda file: (written_at(file) or 0.0, file.path))
        for file, ledger in ledgers.each(ordered, progress, jobs):
            recordings += 1
            if ledger.message is not None:
                error = LoreError(ledger.message, where=Where(ledger.path))
                error = redacted_error(error) if redact else error
                if file.named and not ledger.rows:
                    raise error
                named = error.message.startswith(ledger.path)
                failed.append(error.message if named else f"{ledger.path}: {error.message}")
            for request in requests_of(ledger, AgentLog(None, file, None), copies):
                sent = request._replace(row=redacted(request.row)) if redact else request
                yield LaneRequest(corpus.show(file.path), sent)

    found = list(requests())
    if not recordings:
        raise nothing(looked)
    return Traced(trace_of(found), len(found), copies.count, failed)
