"""List the sessions that agents keep on this machine: what `lore sessions` answers.

In: where lore runs, which sessions are wanted. Out: a row a session, the newest first. Rules: nothing is written; a
subagent's file belongs to its session; what cannot be read is a row with its problem. Cost: a look at every log's name
and time, then reading those that are shown, as far as `most_bytes` goes: a session beyond it is listed and not counted.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from lore.errors import LoreError
from lore.formats.foreign import LATER, why_unread
from lore.judge.base import Place
from lore.judge.policy import Budgets, Policy
from lore.judge.totals import UNREAD, FileTotals
from lore.model.results_found import FoundSession, FoundSessions, UnreadLogs
from lore.recording import corpus
from lore.recording.agents import Agent, LogPlace, Surroundings, existing, files_of, places
from lore.recording.base import Problems, collected_seldom, load_plugins
from lore.recording.inputs import Input, inputs, without_taken_over
from lore.recording.opening import Options
from lore.recording.projects import project_of
from lore.recording.recent import LOGS_LOOKED_AT, session_of, written
from lore.run.verdicts import PACKAGED, Dated, reader_of, verdicts

MOST_BYTES = 256 * 1024 * 1024  # read for one answer: some seconds
SHOWN = 20
Progress = Callable[[int, int], None]


class SessionsRequest(NamedTuple):
    """Which sessions: of one agent (None: of all), written since then, at most so many (None: all).

    `most_bytes` are read to count what they hold (None: all).
    """

    agent: Agent | None = None
    since: float | None = None
    most: int | None = SHOWN
    most_bytes: int | None = MOST_BYTES
    dated: Dated = PACKAGED


class AgentLog(NamedTuple):
    """A file, folder or stored session of an agent's (None: of whichever), and when it was written."""

    agent: Agent | None
    file: Input
    written: float | None


class AgentLogs(NamedTuple):
    """The logs of agents: by session, its own first, the session that was written last first; those that lore does not
    read; the places where logs are; those that could not be listed, and why.
    """

    groups: list[list[AgentLog]]
    unread: list[UnreadLogs]
    looked: list[str]
    failed: list[str]


def agent_logs(here: Surroundings, agent: Agent | None) -> AgentLogs:
    """Find the logs that agents keep here (None: all agents'). Costs a look at each log's name and time."""
    failed: list[str] = []
    own = [place for place in places(here) if agent in (None, place.agent)]
    there = [found for place in own for found in existing(place)]
    logs = [log for place in there if place.agent.is_read for log in _logs(place, failed)]
    groups = _grouped(without_taken_over(logs, lambda log: log.file))
    unread = [logs for place in there if not place.agent.is_read for logs in _unread(place, failed)]
    looked = list(dict.fromkeys(corpus.show(place.path) for place in there if place.agent.is_read))
    return AgentLogs(groups, unread, looked, failed)


def sessions(
    here: Surroundings, request: SessionsRequest, options: Options, progress: Progress | None = None
) -> FoundSessions:  # fmt: skip
    """List the sessions of agents, the newest first."""
    load_plugins()
    grouped, unread, looked, failed = agent_logs(here, request.agent)
    databases = {log.file.path.rpartition("#")[0] for logs in grouped for log in logs if not log.file.size}
    total = sum(log.file.size for logs in grouped for log in logs) + sum(map(_size, databases))
    wanted = [logs for logs in grouped if request.since is None or (logs[0].written or request.since) >= request.since]
    chosen = list(islice(wanted, request.most))
    rows: list[FoundSession] = []
    size = sum(log.file.size for logs in chosen for log in logs)
    read = 0
    for logs in chosen:
        row = _row(logs)
        if logs[0].file.error is not None:
            row = replace(row, message=logs[0].file.error.message)
        elif request.most_bytes is not None and read + (row.bytes or 0) > request.most_bytes:
            row = replace(row, message="not counted: --all reads it")
        else:
            row = _counted(row, logs[0].file.path, options, request.dated)
            read += row.bytes or 0
        rows.append(row)
        if progress is not None:
            progress(read, size)
    return FoundSessions(
        sessions=rows, found=len(wanted), bytes=total, read_bytes=read, unread=unread, looked=looked, failed=failed
    )


def _logs(place: LogPlace, failed: list[str]) -> Iterator[AgentLog]:
    """Yield the recordings at a place: files of the names that logs have there, folders and stored sessions."""
    try:
        if place.logs.deep:
            found = inputs([place.path])
        else:
            found = inputs(list(files_of(place, lambda _, error: failed.append(error.message))))
    except LoreError as error:
        failed.append(error.message)
        return
    for file in found:
        path, _, session = (file.path, "", "") if os.path.lexists(file.path) else file.path.rpartition("#")
        path, name = path or file.path, os.path.basename(file.path)
        named = any(fnmatch.fnmatchcase(name, pattern) for pattern in place.logs.names)
        if file.error is None and not (named or session or os.path.isdir(path)):
            continue
        yield AgentLog(place.agent, file, written(file._replace(path=path)))


def _grouped(logs: list[AgentLog]) -> list[list[AgentLog]]:
    """Put the files of each session together, its own first; the session that was written last comes first."""
    known = {log.file.path: log for log in logs}
    groups: dict[str, list[AgentLog]] = {}
    for log in sorted(logs, key=lambda log: (-(log.written or 0.0), log.file.path)):
        session = session_of(log.file.path)
        name = session if session in known else log.file.path
        groups.setdefault(name, []).append(log)
    for name, found in groups.items():
        found.sort(key=lambda log: log.file.path != name)
        found[0] = found[0]._replace(written=max((log.written or 0.0 for log in found), default=0.0) or None)
    return list(groups.values())


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size if path else 0
    except (OSError, ValueError):
        return 0


def _row(logs: list[AgentLog]) -> FoundSession:
    own = logs[0]
    at = None if own.written is None else datetime.fromtimestamp(own.written, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    size = sum(log.file.size for log in logs)
    return FoundSession("" if own.agent is None else own.agent.name, corpus.show(own.file.path), at, size or None)


def _counted(row: FoundSession, path: str, options: Options, dated: Dated) -> FoundSession:
    """Read a session, and say what it holds; a problem that ends it stands in its row."""
    problems = Problems()
    try:
        opened = corpus.open_head(path)
        row = replace(row, project=project_of(opened.head, path))
        read = _Bytes()
        with collected_seldom():
            row = _read(row, path, options, problems, dated, opened._replace(data=read.of(opened.data)))
        return row if row.bytes is not None else replace(row, bytes=read.count)
    except LoreError as error:
        return replace(row, message=error.message, problems=problems.total)


class _Bytes:
    """Counts the bytes of an input as they are read."""

    def __init__(self) -> None:
        self.count = 0

    def of(self, data: Iterator[bytes]) -> Iterator[bytes]:
        for piece in data:
            self.count += len(piece)
            yield piece


def _read(
    row: FoundSession, path: str, options: Options, problems: Problems, dated: Dated, opened: corpus.Opened
) -> FoundSession:  # fmt: skip
    recording = options.open(path, problems, subagents=True, opened=opened)
    place = Place(row.path, reader=reader_of(recording, None))
    totals = FileTotals(place, Policy().ruling("", Budgets()), settles=True)
    read, billed = 0, 0
    model: str | None = None
    for verdict, ended in verdicts(recording, dated.judge(quick=True), place):
        totals.ended(ended)
        if verdict is None:
            break
        totals.turn(verdict, events=recording.events)
        model = verdict.turn.model or model
        usage = verdict.turn.usage
        counts = [] if usage is None else [part.read_tokens for part in usage.passes if part.read_tokens is not None]
        read += sum(counts)
        billed += bool(counts)
    summary = totals.result.summary
    broken = next((problem for problem in problems.kept if problem.code in UNREAD), None)
    where = "" if broken is None or broken.line is None else f" (line {broken.line})"
    return replace(
        row, format=recording.reader.name, session_id=recording.state.id or None, model=model, counted=True,
        requests=summary.turns, billed_requests=billed, read_tokens=read if billed else None,
        paid_again_tokens=summary.waste_tokens if billed else None,
        paid_again_dollars=summary.waste_dollars, unexplained_tokens=summary.unexplained_tokens if billed else None,
        problems=problems.total, message=None if broken is None else f"{broken.message}{where}",
    )  # fmt: skip


def _unread(place: LogPlace, failed: list[str]) -> Iterator[UnreadLogs]:
    files = sum(1 for _ in files_of(place, lambda _, error: failed.append(error.message), LOGS_LOOKED_AT))
    if files:
        agent = place.agent
        why = LATER if agent.formats else why_unread(agent.name)
        yield UnreadLogs(agent.name, agent.title, corpus.show(place.path), files, why)
