"""Which recordings a command without a path takes, and which are as new as `--since` asks.

The sessions of the current folder's project come first, then all logs of agents, then the current folder. A date
without a time zone is in this machine's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime

from lore.errors import LoreError
from lore.recording import corpus
from lore.recording.agents.logs import Surroundings, existing, files_of, places
from lore.recording.agents.sessions import AgentLog, folder_of, last_time, logs_of_project, newest_of_agents
from lore.recording.inputs import Input, written_at

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_AGO = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*([smhdw])")
_DATE = re.compile(r"\d{4}-?\d{2}-?\d{2}")
HINT_SINCE = "give an age (30m, 2h, 1d, 1w) or a date (2026-01-31, 2026-01-31T09:00)"
PLACES_SHOWN = 4  # in a list for a person


def whereabouts(here: Surroundings) -> tuple[tuple[str, ...], list[str]]:
    """Return the places that were searched, in order, and the folders and files with the logs to judge.

    These are the sessions of the current folder's project, of all agents; all sessions if it has none. If nothing is
    found, the last place that was searched is the current folder.
    """
    looked = dict.fromkeys(place.path for place in places(here, project=True) if place.agent.is_read)
    found = kept_by_agents(here, project=True)
    found += [path for path in logs_of_project(here) if not path.startswith(tuple(found))]
    if not found:
        looked |= dict.fromkeys(place.path for place in places(here) if place.agent.is_read)
        found = kept_by_agents(here)
    return (*looked, *([] if found else [os.curdir])), found


def kept_by_agents(here: Surroundings, *, project: bool = False) -> list[str]:
    """Return the folders and files in which agents keep logs that lore reads; of a folder with other files the logs."""
    found: dict[str, None] = {}
    kept = (there for place in places(here, project=project) if place.agent.is_read for there in existing(place))
    for place in kept:
        files = files_of(place, lambda _place, _error: None)  # judging it reports the reason
        if not place.logs.deep:
            found |= dict.fromkeys(files)
        elif next(files, None) is not None:
            found[place.path] = None
    return list(found)


def since(text: str, now: float, option: str = "--since") -> float:
    """Parse the value of an option into seconds since the epoch; raises LoreError."""
    ago = _AGO.fullmatch(text.strip().lower())
    if ago is not None:
        return now - float(ago[1]) * _UNITS[ago[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        raise LoreError(f"{option} {text!r} is not a time", hint=HINT_SINCE) from None


def until(text: str, now: float, option: str = "--until") -> float:
    """Parse the value of an option into seconds since the epoch: a date means its end. Raises LoreError."""
    moment = since(text, now, option)
    return moment + _UNITS["d"] if _DATE.fullmatch(text.strip()) else moment


def is_as_new(file: Input, since: float) -> bool:
    """Return whether a recording has a time since then, or may have one: a stream, a file of unknown time.

    A log that was copied has a newer file, so its last record counts.
    """
    if file.stream or file.error is not None or (moment := written_at(file)) is None:
        return True
    return moment >= since and last_time(file.path, moment) >= since


def nothing(looked: Sequence[str]) -> LoreError:
    """Return the error for places without recordings."""
    shown, rest = looked, len(looked) - PLACES_SHOWN - 1
    if rest > 1:
        shown = (*looked[:PLACES_SHOWN], f"{rest} more places of agents", looked[-1])
    return LoreError(
        "there are no recordings", hint=f"looked in {', '.join(map(corpus.show, shown))}; name a file or folder"
    )


def no_session_of_project(here: Surroundings) -> LoreError:
    """Return the error for a project without sessions; it names the project that has the newest one."""
    newest = newest_of_agents(here)
    if newest is None:
        looked = dict.fromkeys(place.path for place in places(here) if place.agent.is_read)
        return nothing([*looked, os.curdir])
    message = f"agents keep no session of this project ({corpus.show(here.folder)})"
    return LoreError(message, hint=f"the newest session is {describe_log(newest)}")


def describe_log(log: AgentLog) -> str:
    """Return the agent, the project and the path of a session's log."""
    agent, project = "" if log.agent is None else f" of {log.agent.title}", folder_of(log)
    where = "" if project is None else f" in {corpus.show(project)}"
    return f"{agent}{where}: {corpus.show(log.file.path)}".lstrip()


def no_recordings(path: str, looked: Sequence[str], *, by_time: bool) -> LoreError:
    """Return the error for a path without recordings, or without any as new as `--since` (`by_time`)."""
    if by_time:
        return LoreError(f"no recordings in {corpus.show(path)} are as new as --since asks", hint="leave --since out")
    if looked:
        return nothing(looked)
    return LoreError(f"no recordings in {corpus.show(path)}", hint="`lore formats` lists what lore reads")


def shown_places(found: Sequence[str]) -> str:
    """Return places as a list for a person; the first ones, and the number of the others, if they are many."""
    rest = len(found) - PLACES_SHOWN - 1
    shown = [*map(corpus.show, found)] if rest < 1 else [*map(corpus.show, found[:PLACES_SHOWN]), f"{rest + 1} more"]
    return ", ".join(shown)
