"""List the sessions that agents keep on this machine: what `lore sessions` answers.

The newest comes first. A subagent's file belongs to its session; a session that cannot be read is a row with its
problem. Cost: a look at every log's name and time, then reading the shown ones without a kept ledger, up to
`most_bytes`: a session beyond that is listed and not counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from lore.errors import lacks_plug_in
from lore.formats.registry import plug_in_of
from lore.formats.unrecognised import LATER, why_unread
from lore.judge.base import WORSE, summed
from lore.model.ledger import Ledger
from lore.model.results.found import FoundSession, FoundSessions, UnreadLogs
from lore.recording import corpus
from lore.recording.agents.logs import Agent, LogPlace, Surroundings, files_of
from lore.recording.agents.sessions import AgentLog, agent_logs
from lore.recording.base import load_plugins
from lore.recording.titles import title_of
from lore.run.spending.ledgers import Ledgers

MOST_BYTES = 256 * 1024 * 1024  # bytes read for one answer: some seconds
SHOWN = 20
NOT_COUNTED = "not counted: --all reads it"
NO_RECORDING = "no recording"
Progress = Callable[[int, int], None]


class SessionsRequest(NamedTuple):
    """Which sessions: of one agent (None: of all), written since a time, at most `most` (None: all).

    At most `most_bytes` are read for their counts (None: all), `jobs` recordings at a time.
    """

    agent: Agent | None = None
    since: float | None = None
    most: int | None = SHOWN
    most_bytes: int | None = MOST_BYTES
    jobs: int = 1


def sessions(
    here: Surroundings, request: SessionsRequest, ledgers: Ledgers, progress: Progress | None = None
) -> FoundSessions:  # fmt: skip
    """List the sessions of agents, the newest first."""
    load_plugins()
    grouped, there, failed = agent_logs(here, request.agent)
    databases = {log.file.path.rpartition("#")[0] for logs in grouped for log in logs if not log.file.size}
    total = sum(log.file.size for logs in grouped for log in logs) + sum(map(_size, databases))
    wanted = [logs for logs in grouped if request.since is None or (logs[0].written or request.since) >= request.since]
    chosen = list(islice(wanted, request.most))
    read, left_out = 0, set[str]()
    for logs in chosen:
        size = sum(log.file.size for log in logs if not ledgers.keeps(log.file))
        if request.most_bytes is not None and read + size > request.most_bytes:
            left_out.add(logs[0].file.path)
        else:
            read += size
    files = [log.file for logs in chosen if logs[0].file.path not in left_out for log in logs]
    made = {file.path: ledger for file, ledger in ledgers.each(files, progress, request.jobs)}
    return FoundSessions(
        sessions=[_row(logs, made, left_out) for logs in chosen], found=len(wanted), bytes=total,
        read_bytes=ledgers.read_bytes, unread=unread_logs(there, failed), looked=looked_places(there), failed=failed,
    )  # fmt: skip


def is_incomplete(found: FoundSessions) -> bool:
    """Return whether a place could not be listed, or a session could not be read to its end."""
    passed_over = (None, NOT_COUNTED, NO_RECORDING)
    return bool(found.failed) or any(session.message not in passed_over for session in found.sessions)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size if path else 0
    except (OSError, ValueError):
        return 0


def _row(logs: list[AgentLog], made: dict[str, Ledger], left_out: Collection[str]) -> FoundSession:
    """Return the row of a session with its subagents' requests, or with the reason why it was not read."""
    own = logs[0]
    at = None if own.written is None else datetime.fromtimestamp(own.written, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    agent = "" if own.agent is None else own.agent.name
    row = FoundSession(agent, corpus.show(own.file.path), at, sum(log.file.size for log in logs) or None,
                       title=title_of(own.file.path))  # fmt: skip
    if own.file.path in left_out:
        return replace(row, message=NOT_COUNTED)
    found = [made[log.file.path] for log in logs if log.file.path in made]
    first = made.get(own.file.path)
    if first is None:
        return replace(row, message=NO_RECORDING)
    message = next((ledger.message for ledger in found if ledger.message is not None), None)
    row = replace(row, bytes=row.bytes or first.bytes, project=first.project, message=message,
                  problems=sum(ledger.problems for ledger in found))  # fmt: skip
    return _counted(row, first, found) if first.format else row


def _counted(row: FoundSession, own: Ledger, found: list[Ledger]) -> FoundSession:
    requests = [request for ledger in found for request in ledger.rows]
    counts = [request.read_tokens for request in requests if request.read_tokens is not None]
    lost = {kind: [request for request in requests if request.loss and request.loss.kind == kind] for kind in WORSE}
    tokens = {kind: sum(request.loss.tokens for request in rows if request.loss) for kind, rows in lost.items()}
    paid = [request.spent.again for request in lost["waste"] if request.spent is not None]
    models = [request.model for request in own.rows if request.model is not None]
    return replace(
        row, format=own.format, session_id=own.session or None, model=models[-1] if models else None, counted=True,
        requests=len(requests), billed_requests=len(counts), read_tokens=sum(counts) if counts else None,
        paid_again_tokens=tokens["waste"] if counts else None, paid_again_dollars=summed(paid),
        unexplained_tokens=tokens["unattributable"] if counts else None,
        dollars=summed(request.spent.total for request in requests if request.spent is not None),
        recorded_dollars=summed(request.recorded.dollars for request in requests if request.recorded is not None),
    )  # fmt: skip


def looked_places(there: list[LogPlace]) -> list[str]:
    """Return the places of logs that lore reads."""
    return list(dict.fromkeys(corpus.show(place.path) for place in there if place.agent.is_read))


def unread_logs(there: list[LogPlace], failed: list[str]) -> list[UnreadLogs]:
    """Return the logs that lore does not read."""
    return [logs for place in there if not place.agent.is_read for logs in _unread(place, failed)]


def _unread(place: LogPlace, failed: list[str]) -> Iterator[UnreadLogs]:
    files = sum(1 for _ in files_of(place, lambda _, error: failed.append(error.message)))
    if files:
        agent = place.agent
        why = LATER if agent.formats else why_unread(agent.name)
        plug_in = next((plug_in_of(name) for name in agent.formats if plug_in_of(name)), "")
        if plug_in:
            why = lacks_plug_in(plug_in, "its reader").message
        yield UnreadLogs(agent.name, agent.title, corpus.show(place.path), files, why)
