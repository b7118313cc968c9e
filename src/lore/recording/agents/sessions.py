"""The sessions that agents keep on this machine, the newest first: of all, of one project, or at given paths.

A session is a log with the logs of its subagents. Its project is the folder that it was started in: the place of its
log tells it for agents that keep a folder for each project, else the beginning of the log or a file next to it does.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from heapq import heappop, heappush
from pathlib import PurePath
from typing import NamedTuple

from msgspec.structs import replace

from lore.errors import LoreError
from lore.formats.registry import GENERIC, row_of
from lore.model.deferred import pattern
from lore.model.times import parse_timestamp
from lore.recording import corpus, filesystem
from lore.recording.agents.beside import md5_name
from lore.recording.agents.companions import moved_to_database, session_of
from lore.recording.agents.logs import (
    Agent,
    LogPlace,
    Surroundings,
    existing,
    files_of,
    places,
    project_beside,
    project_of,
    sha256_name,
)
from lore.recording.base import UnrecognisedError
from lore.recording.inputs import Input, inputs, written_at
from lore.recording.opening import Options, reader_class_for


class AgentLog(NamedTuple):
    """A recording of an agent."""

    agent: Agent | None  # None: unknown
    file: Input
    written: float | None  # seconds since the epoch
    place: LogPlace | None = None  # where the agent keeps it


class AgentLogs(NamedTuple):
    """The sessions of agents, and the places with their logs."""

    groups: list[list[AgentLog]]  # a session each, its own log first; the session that was written last first
    places: list[LogPlace]  # those that exist
    failed: list[str]  # places that could not be listed, with the reason


def agent_logs(surroundings: Surroundings, agent: Agent | None = None) -> AgentLogs:
    """Return the logs of an agent (None: of all agents). Reads only the name and the time of each log."""
    failed: list[str] = []
    matches = [match for place in places(surroundings) if agent in (None, place.agent) for match in existing(place)]
    found = (log for place in matches if place.agent.is_read for log in _logs(place, failed))
    # one place may be a link to another, as `~/.claude` to `~/.config/claude`
    real_folders = dict[str, str]()
    logs = [*{_real_path(log.file.path, real_folders): log for log in reversed([*found])}.values()]
    moved = moved_to_database([log.file.path for log in logs])
    logs = [log for log in logs if log.file.is_named or log.file.path not in moved]
    return AgentLogs(_group_by_session(logs), matches, failed)


def _real_path(path: str, real_folders: dict[str, str]) -> str:
    """Return a path without links. `real_folders` remembers those of folders, since resolving a path asks for each."""
    folder, name = os.path.split(path)
    if os.path.islink(path):
        return os.path.realpath(path)
    if folder not in real_folders:
        real_folders[folder] = os.path.realpath(folder)
    return os.path.join(real_folders[folder], name)


def _logs(place: LogPlace, failed: list[str]) -> Iterator[AgentLog]:
    """Yield the recordings at a place: files of the names that logs have there, folders and stored sessions."""
    try:
        names = files_of(place, lambda _, error: failed.append(error.message))
        files = inputs([place.path] if place.logs.deep else list(names))
    except LoreError as error:
        failed.append(error.message)
        return
    for file in files:
        path, _, session = (file.path, "", "") if os.path.lexists(file.path) else file.path.rpartition("#")
        path, name = path or file.path, os.path.basename(file.path)
        is_log_name = any(fnmatch.fnmatchcase(name, pattern) for pattern in place.logs.names)
        if file.error is None and (is_log_name or session or os.path.isdir(path)):
            yield AgentLog(place.agent, file, written_at(replace(file, path=path)), place)


def _group_by_session(logs: list[AgentLog]) -> list[list[AgentLog]]:
    """Put the files of each session together, its own first; the session that was written last comes first."""
    groups: dict[str, list[AgentLog]] = {}
    for log in sorted(logs, key=lambda log: (-(log.written or 0.0), log.file.path)):
        groups.setdefault(session_of(log.file.path) or log.file.path, []).append(log)
    for name, group in groups.items():
        group.sort(key=lambda log: log.file.path != name)
        group[0] = group[0]._replace(written=max((log.written or 0.0 for log in group), default=0.0) or None)
    return list(groups.values())


# Times of records, as agents and recorders write them: text, or seconds or milliseconds since the epoch.
_TIME = pattern(
    r'(?<!\\)"(?:timestamp|ts|at|time|startTime|startedDateTime|completed|(?:created|updated)(?:At|_at)?|'
    r'(?:started|recorded)(?:At|_at)|(?:processed|logged)_at)"\s*:\s*(?:"(\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)?)"|(\d{13}|\d{10}(?:\.\d+)?)\b)'
)
_ENDS = 65_536, 4_194_304  # bytes at the end of a log in which its last time is looked for: a request may be long


def newest_first(
    groups: Iterable[list[AgentLog]], is_wanted: Callable[[AgentLog], bool] | None
) -> Iterator[tuple[float, list[AgentLog]]]:
    """Yield sessions by the last time that their logs record, the newest first, each with that time (0: unknown).

    A log that was copied has a newer file. `groups` come by the time of their files; as no log records a later time,
    only the ends of logs that may be the next are read. `is_wanted` selects by a session's own log.
    """
    waiting = list[tuple[float, int, list[AgentLog]]]()
    for number, logs in enumerate(groups):
        while waiting and -waiting[0][0] >= (logs[0].written or 0.0):
            last, _, group = heappop(waiting)
            yield -last, group
        if is_wanted is None or is_wanted(logs[0]):
            times = (_find_last_time(log.file.path, log.written or 0.0) for log in logs)
            last = max(filter(None, times), default=logs[0].written or 0.0)
            heappush(waiting, (-last, number, logs))
    for last, _, group in sorted(waiting):
        yield -last, group


def last_time(path: str, written: float) -> float:
    """Return the last time at the end of a log; `written`, the time of its file, if there is none."""
    return _find_last_time(path, written) or written


def _find_last_time(path: str, written: float) -> float | None:
    """Return the last time at the end of a log, `written` at most, also if it cannot be read; None: there is none."""
    matches = list[tuple[str, str]]()
    try:
        for size in _ENDS:
            end = filesystem.end_of(path, size)
            matches = _TIME.findall(end.decode("latin-1"))
            if matches or len(end) < size:
                break
    except (OSError, ValueError):  # a session in a database, a folder
        return written
    times = [parse_timestamp(text) if text else float(number) / (1000 if len(number) == 13 else 1)
             for text, number in matches]  # fmt: skip
    return min(max(filter(None, times), default=0.0), written) or None


def is_recording(path: str, format: str | None) -> bool:
    """Return whether a file is a recording; a generic format is read up to its first turn."""
    kind = reader_class_for(corpus.open_head(path).head, format)
    if kind is None or format is not None or (kind.name not in GENERIC and not row_of(kind.name).measures):
        return kind is not None
    return _has_turn(path, None)


def _has_turn(path: str, format: str | None) -> bool:
    try:
        return next(Options(format=format).open(path).turns(), None) is not None
    except UnrecognisedError:
        return False


def _newest_session(
    groups: Iterable[list[AgentLog]], format: str | None, is_wanted: Callable[[AgentLog], bool] | None = None
) -> AgentLog | None:
    """Return the log of the newest session that has a request, else of the newest session; None without sessions.

    Claude Code writes logs without a request, of a login or a summary. Raises LoreError for a log that cannot be read:
    it may be the newest.
    """

    def is_wanted_recording(log: AgentLog) -> bool:
        return (is_wanted is None or is_wanted(log)) and is_recording(log.file.path, format)

    first: AgentLog | None = None
    for _, logs in newest_first(groups, is_wanted_recording):
        if any(_has_turn(log.file.path, format) for log in logs):
            return logs[0]
        first = first or logs[0]
    return first


def newest(paths: list[str], format: str | None) -> str:
    """Return the recording at these paths that has the newest request, itself or in one of its subagents' files.

    Raises LoreError if no file is a recording, if one cannot be read, and if a path stands for nothing.
    """
    listed = [file for file in inputs(paths) if not file.stream]
    for file in filter(lambda file: file.is_named, listed):
        is_absent = isinstance(corpus.resolve(file.path), corpus.LocalFile) and not os.path.exists(file.path)
        if file.error is not None or is_absent:
            raise file.error or LoreError(f"cannot read {corpus.show(file.path)}: no such file or directory", own=True)
    files = [file for file in listed if file.error is None]
    groups = _group_by_session([AgentLog(None, file, written_at(file)) for file in files])
    session = _newest_session(groups, format)
    if session is not None:
        return session.file.path
    where = ", ".join(map(corpus.show, paths))
    raise LoreError(f"no recordings in {where}", hint="--last judges the newest recording of a folder", own=True)


def newest_of_project(surroundings: Surroundings, format: str | None = None) -> AgentLog | None:
    """Return the log of the newest session of the current folder's project; None if agents keep none."""
    return _newest_session(agent_logs(surroundings).groups, format, _selects_project(surroundings))


def newest_of_agents(surroundings: Surroundings) -> AgentLog | None:
    """Return the log of the newest session of all agents; None without sessions."""
    return _newest_session(agent_logs(surroundings).groups, None)


def logs_of_project(surroundings: Surroundings) -> list[str]:
    """Return the logs of all sessions of the current folder's project, those of subagents too, the newest first.

    A log that cannot be read is skipped: its project is unknown.
    """
    is_own, paths = _selects_project(surroundings), list[str]()
    for group in agent_logs(surroundings).groups:
        with suppress(LoreError):
            paths += [log.file.path for log in group if is_own(group[0])]
    return paths


def _selects_project(surroundings: Surroundings) -> Callable[[AgentLog], bool]:
    """Return a function that returns whether a log is of the current folder's project; LoreError: it cannot be read."""
    # the project is the folder's Git repository, else the folder, each with all folders below it
    above = [surroundings.folder, *map(str, PurePath(surroundings.folder).parents)]
    is_root = (os.path.exists(os.path.join(folder, ".git")) for folder in above)
    paths = above[: next((number for number, found in enumerate(is_root) if found), 0) + 1]
    folders = list(map(os.path.realpath, paths))
    # the home folder and those above it hold all projects, so each of them means only itself
    home = os.path.realpath(surroundings.home or os.sep)
    root = next((folder for folder in reversed(folders) if not _is_below(home, folder)), "")
    matches = (place for folder in paths for place in places(surroundings._replace(folder=folder), project=True))
    prefixes = tuple(os.path.join(place.path, "") for place in matches)

    def is_of_project(log: AgentLog) -> bool:
        if log.file.path.startswith(prefixes):
            return True
        name = None if log.place is None else log.place.logs.project
        is_readable = name not in (None, md5_name, sha256_name)  # it shows the project's path
        if is_readable and name is not None and not any(name(path).rstrip("-") in log.file.path for path in folders):
            return False
        started = folder_of(log)  # reads the beginning of the log
        if not started or not os.path.isabs(started):  # also of another system: `C:\src` on Linux
            return False
        started = os.path.realpath(started)
        return started in folders or (root != "" and _is_below(started, root))

    return is_of_project


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def folder_of(log: AgentLog) -> str | None:
    """Return the folder that a log, or a file next to it, says its session was started in; None if neither does.

    Raises LoreError for a log that cannot be read.
    """
    path = log.file.path
    if log.place is not None and log.place.logs.project in (md5_name, sha256_name):
        return project_beside(path)
    if corpus.is_in_database(path):
        return corpus.opencode().directory_of(path)
    return project_of(corpus.open_head(path).head, path)
