"""Which recordings a command without a path takes, and which are of the time that `--since` and `--until` name.

The sessions of the current folder's project come first, then all logs of agents, then the current folder. A date
without a time zone is in this machine's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from lore.errors import LoreError
from lore.recording import corpus
from lore.recording.agents.logs import Surroundings, existing, files_of, places
from lore.recording.agents.sessions import AgentLog, folder_of, last_time, logs_of_project, newest_of_agents
from lore.recording.inputs import Input, start_of, written_at
from lore.report.commands import in_shell

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_AGO = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*([smhdw])")
_DATE = re.compile(r"\d{4}-?\d{2}-?\d{2}")
HINT_SINCE = "give an age (30m, 2h, 1d, 1w) or a date (2026-01-31, 2026-01-31T09:00)"
PLACES_SHOWN = 4  # in a list for a person


def find_project_logs(surroundings: Surroundings) -> tuple[tuple[str, ...], list[str]]:
    """Return the places that were searched, in order, and the folders and files with the logs to judge.

    These are the sessions of the current folder's project, of all agents; all sessions if it has none. If nothing is
    found, the last place that was searched is the current folder.
    """
    searched = dict.fromkeys(place.path for place in places(surroundings, project=True) if place.agent.is_read)
    paths = find_agent_logs(surroundings, project=True)
    paths += [path for path in logs_of_project(surroundings) if not path.startswith(tuple(paths))]
    if not paths:
        searched |= dict.fromkeys(place.path for place in places(surroundings) if place.agent.is_read)
        paths = find_agent_logs(surroundings)
    return (*searched, *([] if paths else [os.curdir])), paths


def find_agent_logs(surroundings: Surroundings, *, project: bool = False) -> list[str]:
    """Return the folders and files in which agents keep logs that lore reads; of a folder with other files the logs."""
    paths: dict[str, None] = {}
    read_places = [place for place in places(surroundings, project=project) if place.agent.is_read]
    for place in (entry for read_place in read_places for entry in existing(read_place)):
        files = files_of(place, lambda _place, _error: None)  # judging it reports the reason
        if not place.logs.deep:
            paths |= dict.fromkeys(files)
        elif next(files, None) is not None:
            paths[place.path] = None
    return list(paths)


def parse_since(text: str, now: float, option: str = "--since") -> float:
    """Parse the value of an option into seconds since the epoch; raises LoreError."""
    ago = _AGO.fullmatch(text.strip().lower())
    if ago is not None:
        return now - float(ago[1]) * _UNITS[ago[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        raise LoreError(f"{option} {text!r} is not a time", hint=HINT_SINCE) from None


def parse_until(text: str, now: float, option: str = "--until") -> float:
    """Parse the value of an option into seconds since the epoch: a date means its end. Raises LoreError."""
    moment = parse_since(text, now, option)
    if not _DATE.fullmatch(text.strip()):
        return moment
    return (datetime.fromisoformat(text.strip()) + timedelta(days=1)).timestamp()  # not 24 hours if the clock changes


def parse_span(since: str | None, until: str | None, now: float) -> tuple[float | None, float | None]:
    """Parse `--since` and `--until` into seconds since the epoch; raises LoreError if the span is empty."""
    begin = None if since is None else parse_since(since, now)
    end = None if until is None else parse_until(until, now)
    if begin is not None and end is not None and begin >= end:
        raise LoreError("--until is not after --since", hint="name a later time: --since 2026-01-01 --until 2026-01-31")
    return begin, end


def is_in_span(file: Input, since: float | None, until: float | None) -> bool:
    """Return whether a recording has, or may have, a request since a time and began before another one."""
    if since is not None and not is_as_new(file, since):
        return False
    if until is None or file.stream or file.error is not None:
        return True
    began = start_of(file)[0]
    return began is None or began < until


def is_as_new(file: Input, since: float) -> bool:
    """Return whether a recording has, or may have, a request since then; a stream and a file of unknown time may.

    A log that was copied has a newer file, so its last record counts.
    """
    if file.stream or file.error is not None or (moment := written_at(file)) is None:
        return True
    return moment >= since and last_time(file.path, moment) >= since


def no_recordings_error(searched_places: Sequence[str]) -> LoreError:
    """Return the error for places without recordings."""
    labels, more_count = searched_places, len(searched_places) - PLACES_SHOWN - 1
    if more_count > 1:
        labels = (*searched_places[:PLACES_SHOWN], f"{more_count} more places of agents", searched_places[-1])
    hint = f"looked in {', '.join(map(corpus.show, labels))}; name a file or folder"
    return LoreError("there are no recordings", hint=hint)


def no_session_of_project(surroundings: Surroundings, command: str = "check") -> LoreError:
    """Return the error for a project without sessions; it has the command for the newest session of another one."""
    newest = newest_of_agents(surroundings)
    if newest is None:
        searched = dict.fromkeys(place.path for place in places(surroundings) if place.agent.is_read)
        return no_recordings_error([*searched, os.curdir])
    message = f"agents keep no session of this project ({corpus.show(surroundings.folder)})"
    path = in_shell(newest.file.path, surroundings.home) or corpus.show(newest.file.path)
    return LoreError(message, hint=f"the newest session is {describe_place(newest)}: lore {command} {path}")


def describe_log(log: AgentLog) -> str:
    """Return the agent, the project and the path of a session's log."""
    return f"{describe_place(log)}: {corpus.show(log.file.path)}".lstrip()


def describe_place(log: AgentLog) -> str:
    """Return the agent and the project of a session's log."""
    agent, project = "" if log.agent is None else f"one of {log.agent.title}", folder_of(log)
    return agent if project is None else f"{agent} in {corpus.show(project)}".lstrip()


def no_recordings(path: str, looked: Sequence[str], *, by_time: bool) -> LoreError:
    """Return the error for a path without recordings, or without any of the time that was asked for (`by_time`)."""
    if by_time:
        message = f"no recordings in {corpus.show(path)} are of the time that --since or --until names"
        return LoreError(message, hint="leave --since and --until out")
    if looked:
        return no_recordings_error(looked)
    return LoreError(f"no recordings in {corpus.show(path)}", hint="`lore formats` lists what lore reads")


def list_places(paths: Sequence[str]) -> str:
    """Return places as text for a person: if they are many, the first ones and the number of the others."""
    extra = len(paths) - PLACES_SHOWN - 1
    labels = [*map(corpus.show, paths)] if extra < 1 else [*map(corpus.show, paths[:PLACES_SHOWN]), f"{extra + 1} more"]
    return ", ".join(labels)
