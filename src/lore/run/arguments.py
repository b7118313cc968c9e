"""What the words of a command line name: recordings, times, and the files of --system and --tools.

A command without a path takes the sessions of the current folder's project, then all logs of agents, then the current
folder. A date without a time zone is in this machine's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from lore.errors import LoreError, Where
from lore.formats.beginning import BOM, SPACE
from lore.model.canonical import decode, encode
from lore.model.jsonslice import array, is_json, raw_members
from lore.recording import corpus
from lore.recording.agents.logs import Surroundings, existing, files_of, read_places
from lore.recording.agents.sessions import AgentLog, folder_of, last_time, logs_of_project, newest_of_agents
from lore.recording.inputs import Input, start_of, written_at
from lore.recording.overrides import Completion
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
    searched = [place.path for place in read_places(surroundings, project=True)]
    paths = find_agent_logs(surroundings, project=True)
    paths += [path for path in logs_of_project(surroundings) if not path.startswith(tuple(paths))]
    if not paths:
        searched += [place.path for place in read_places(surroundings)]
        paths = find_agent_logs(surroundings)
    return (*dict.fromkeys(searched), *([] if paths else [os.curdir])), paths


def find_agent_logs(surroundings: Surroundings, *, project: bool = False) -> list[str]:
    """Return the folders and files in which agents keep logs that lore reads; of a folder with other files the logs."""
    paths: dict[str, None] = {}
    read = read_places(surroundings, project=project)
    for place in (match for entry in read for match in existing(entry)):
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
    """Return whether a recording may have a request since `since` and may have begun before `until` (None: any)."""
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
    places = ["this folder" if place == os.curdir else place for place in searched_places]
    hint = f"looked in {list_places(places, 'places of agents')}; name a file or folder"
    return LoreError("there are no recordings", hint=hint)


def no_session_of_project(surroundings: Surroundings, command: str = "check") -> LoreError:
    """Return the error for a project without sessions; it has the command for the newest session of another one."""
    newest = newest_of_agents(surroundings)
    if newest is None:
        searched = dict.fromkeys(place.path for place in read_places(surroundings))
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
        return LoreError(message, hint="leave --since and --until out", own=True)
    if looked:
        return no_recordings_error(looked)
    return LoreError(f"no recordings in {corpus.show(path)}", hint="`lore formats` lists what lore reads", own=True)


def list_places(paths: Sequence[str], what: str = "") -> str:
    """Return places as text, separated by commas; if they are many, only `PLACES_SHOWN` of them and a count.

    With `what` (the words for places that are not shown) the last place is shown, too: `a, b, c, d, 7 more WHAT, z`.
    Without it: `a, b, c, d, 8 more`.
    """
    labels, extra = [*map(corpus.show, paths)], len(paths) - PLACES_SHOWN - 1
    if what and extra > 1:
        labels[PLACES_SHOWN:-1] = [f"{extra} more {what}"]
    elif not what and extra > 0:
        labels[PLACES_SHOWN:] = [f"{extra + 1} more"]
    return ", ".join(labels)


_BREAKS = re.compile(rb"[ \t]*[\r\n][ \t\r\n]*")  # never inside a string, where line ends are escapes
_HINT_SYSTEM = "give text, or JSON: a string, a list of strings, a list of text blocks"
_HINT_TOOLS = "give a JSON array of tools, or an object with `tools`"


def read_completion(system: str | None, tools: str | None, *, strict: bool = True) -> Completion | None:
    """Read the files of --system and --tools; None if neither is given. Raises LoreError with the place of a fault."""
    if system is None and tools is None:
        return None
    if system == tools == corpus.STDIN:
        raise LoreError("standard input can be one of --system and --tools only", hint="name a file for the other")
    return Completion(
        None if system is None else _read_system(system), None if tools is None else _read_tools(tools), strict
    )


def _read_system(path: str) -> bytes:
    """Return a system prompt: JSON if the file holds a value of a fitting kind, else the text as it is."""
    data = b"".join(corpus.pieces(path)).removeprefix(BOM)
    start = data.lstrip(SPACE)[:1]
    if not path.endswith(".json") and (start not in (b'"', b"[", b"{") or not is_json(data)):
        try:
            return encode(data.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise _fault(path, " holds bytes that are not UTF-8", _HINT_SYSTEM, at=(data, error.start)) from None
    value = _read_value(path, data)
    raw = (raw_members(value) or {}).get("system", value)
    if raw[:1] == b'"':
        return raw
    if raw[:1] != b"[":
        raise _fault(path, " holds no system prompt", _HINT_SYSTEM)
    texts: list[bytes] = []
    for number, element in enumerate(array(raw)):
        block = raw_members(element) or {}
        text = block.get("text", b"") if block.get("type") == b'"text"' else element
        if text[:1] != b'"':
            reason = f": element {number} of the system prompt is neither a string nor a text block"
            raise _fault(path, reason, _HINT_SYSTEM)
        texts.append(text)
    return b"[" + b",".join(texts) + b"]"


def _read_tools(path: str) -> tuple[bytes, ...]:
    """Return tools in the order given."""
    value = _read_value(path, b"".join(corpus.pieces(path)).removeprefix(BOM))
    raw_tools = (raw_members(value) or {}).get("tools", b"") if value[:1] == b"{" else value
    if raw_tools[:1] != b"[":
        raise _fault(path, " holds no tools", _HINT_TOOLS)
    tools = tuple(array(raw_tools))
    for number, tool in enumerate(tools):
        if tool[:1] != b"{":
            raise _fault(path, f": element {number} of the tools is no object", _HINT_TOOLS)
    return tools


def _read_value(path: str, data: bytes) -> bytes:
    """Return a file's JSON value without line feeds, because a log has one record a line; raises LoreError."""
    try:
        data.decode("utf-8")
        decode(data)
    except UnicodeDecodeError as error:
        raise _fault(path, " holds bytes that are not UTF-8", at=(data, error.start)) from None
    except ValueError as error:
        at = len(str(getattr(error, "doc", ""))[: getattr(error, "pos", 0)].encode("utf-8", "surrogatepass"))
        raise _fault(path, f" is not JSON: {str(error).partition(': line')[0].lower()}", at=(data, at)) from None
    except RecursionError:
        raise _fault(path, " is nested too deeply", at=(data, 0)) from None
    return _BREAKS.sub(b"", data.strip(SPACE))


def _fault(path: str, reason: str, hint: str = "", at: tuple[bytes, int] | None = None) -> LoreError:
    """Return the error about a file; `at` is its bytes and the offset of the fault, if that is known."""
    label = corpus.show(path)
    where = Where(label) if at is None else Where(label, at[0].count(b"\n", 0, at[1]) + 1, at[1])
    return LoreError(label + reason, hint=hint, where=where)
