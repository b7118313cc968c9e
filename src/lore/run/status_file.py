"""The line of `lore statusline`, from a small file with the figures of a log.

The file holds what judging the log gave (`running.py`), in numbers and names alone, with the log's size and time of
then. A log that has grown since is judged again by a background process; until then the line says `judging …`. Errors
are not shown: what cannot be read counts as absent. Only the standard library is imported, so that the line takes about
as long as Python's start.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import time
from contextlib import suppress
from typing import Any, NamedTuple, cast
from zlib import crc32

from lore import __version__
from lore.files import cache_root, current_folder
from lore.model.running import LastBreak, RunningTotals
from lore.report.status_line import DEFAULT, LineFacts, client_and_path, status_line

CLAIMED, UNUSED = 600.0, 60 * 86_400.0  # seconds that judging may take, and after which an unused file is deleted
PACE, NEWEST = 10, 20.0  # judging takes at most 1/10 of the time; seconds for which a project's newest session holds
STDIN_LIMIT, STDIN_SECONDS = 1024 * 1024, 0.5  # tmux leaves standard input open and writes nothing


class KeptStatus(NamedTuple):
    """The kept figures of a log."""

    running: RunningTotals
    size: int  # of the log when it was judged
    written: int  # its time then, in nanoseconds
    judged_at: float  # seconds since the epoch
    cost: float  # seconds that judging took


def line(
    path: str = "", parts: tuple[str, ...] = DEFAULT, *, width: int | None = None, colour: bool | None = None,
    redact: bool = False,
) -> str:  # fmt: skip
    """Return the line about a log or a project's newest session; without a path, about what standard input names.

    A log that has grown is judged again by a process in the background.
    """
    stdin_data = b"" if path else standard_input()
    is_shown = bool(stdin_data.strip() or os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()
    coloured = is_shown and not os.environ.get("NO_COLOR") if colour is None else colour
    columns = os.environ.get("COLUMNS", "")
    width = width or (int(columns) if re.fullmatch(r"[0-9]{1,4}", columns) else 0) or None
    facts, unjudged = status_of(path, stdin_data, current_folder(), status_folder(), time.time())
    if unjudged:
        start([sys.executable, "-P", "-m", "lore", "statusline", "--refresh", "--", unjudged])
    return status_line(facts._replace(redact=redact), parts, width=width, colour=coloured) + "\n"


def status_of(name: str, stdin_data: bytes, project: str, folder: str, now: float) -> tuple[LineFacts, str]:
    """Return what to show, and the log or project's folder that a background process has to judge (empty: none).

    `name` is the argument, `stdin_data` what Claude Code wrote, `folder` has the kept results (empty: there is none).
    """
    client, path = client_and_path(stdin_data)
    if not folder:  # nothing is kept: only what Claude Code says is known
        return LineFacts(None, client, now), ""
    path, unjudged, figures, current = name or path or project, "", None, True
    if os.path.isdir(path):
        state = read_state(folder, path)
        if not now - NEWEST < state.get("at", 0.0) <= now:
            unjudged = path
        path, current = state.get("newest", ""), "newest" in state
    if os.path.lexists(path) or os.path.lexists(path.partition("#")[0]):  # else it has no line yet
        figures, current = read_status(folder, path)
        if not current and (figures is None or not figures.judged_at <= now < figures.judged_at + PACE * figures.cost):
            unjudged = unjudged or path
    pending = "" if current else "judging …" if path else "looking for a session …"
    facts = LineFacts(None if figures is None else figures.running, client, now, pending)
    return facts, unjudged if unjudged and claim(folder, unjudged, now) else ""


def read_status(folder: str, path: str) -> tuple[KeptStatus | None, bool]:
    """Return the kept figures of a log, and whether they are current; None if the log was truncated since."""
    state = read_state(folder, path)
    try:
        fields: dict[str, Any] = state["running"]
        if fields.keys() != set(RunningTotals._fields):
            return None, False
        break_fields = cast("dict[str, Any] | None", fields.pop("last_break"))
        running = RunningTotals(**fields, last_break=None if break_fields is None else LastBreak(**break_fields))
        kept_status = KeptStatus(running, *(state[field] for field in KeptStatus._fields[1:]))
    except (TypeError, KeyError, AttributeError):
        return None, False
    now = stamp_of(path)
    if now is not None and now[0] < kept_status.size:
        return None, False
    return kept_status, now == (kept_status.size, kept_status.written)


def stamp_of(path: str) -> tuple[int, int] | None:
    """Return a file's size and time; None if it is not a file."""
    with suppress(OSError, ValueError):
        info = os.stat(path)
        return (info.st_size, info.st_mtime_ns) if stat.S_ISREG(info.st_mode) else None
    return None


def status_folder() -> str:
    """Return where results are kept; empty if this user has no folder for caches."""
    home = os.path.expanduser("~")
    root = cache_root(os.environ, "" if home == "~" else home, sys.platform)
    return os.path.join(root, "lore", "status") if root else ""


def state_file(folder: str, name: str) -> str:
    """Return the file for the figures of a log, or for the newest session of a project's folder."""
    path = os.path.abspath(name).encode("utf-8", "surrogateescape")
    return os.path.join(folder, f"{crc32(path):08x}{crc32(path[::-1]):08x}")


def read_state(folder: str, name: str) -> dict[str, Any]:
    """Return the state of a log or of a project's folder; empty without a state of this version of lore."""
    with (
        suppress(OSError, ValueError, TypeError, KeyError, RecursionError),
        open(state_file(folder, name), "rb") as file,
    ):
        state = json.load(file)
        if (state["lore"], state["path"]) == (__version__, os.path.abspath(name)):
            return state
    return {}


def write_state(folder: str, name: str, state: dict[str, Any]) -> bool:
    """Write a state to a private file, whole or not at all; return whether that was possible."""
    temporary = f"{state_file(folder, name)}.{os.getpid()}.part"
    with suppress(OSError, ValueError):
        os.makedirs(folder, 0o700, exist_ok=True)
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(json.dumps({**state, "lore": __version__, "path": os.path.abspath(name)}).encode())
        os.replace(temporary, state_file(folder, name))
        return True
    return False


def claim(folder: str, name: str, now: float) -> bool:
    """Record in a state that this process judges the log now; return False if another one does, or writing fails.

    Judging writes the state without it. Two that claim at the same moment both judge, and write the same.
    """
    state = read_state(folder, name)
    return not now - CLAIMED < state.get("claimed", 0.0) <= now and write_state(folder, name, {**state, "claimed": now})


def standard_input() -> bytes:
    """Read the session that Claude Code writes; empty if standard input is a terminal, or silent."""
    data, until = b"", time.monotonic() + STDIN_SECONDS
    with suppress(OSError, ValueError, AttributeError):
        while not sys.stdin.isatty() and len(data) < STDIN_LIMIT:
            if sys.platform != "win32":  # no pipe can be waited for there
                from select import select  # noqa: PLC0415

                if not select([sys.stdin], [], [], max(0.0, until - time.monotonic()))[0]:
                    break
            piece = os.read(sys.stdin.fileno(), 65_536)
            if not piece:
                break
            data += piece
    return data


def start(command: list[str]) -> None:
    """Start a silent process that continues after this one has ended."""
    import subprocess  # noqa: PLC0415 - most lines start none

    flags, null = getattr(subprocess, "DETACHED_PROCESS", 0), subprocess.DEVNULL
    with suppress(OSError):
        started = subprocess.Popen(  # noqa: S603 - lore itself
            command, stdin=null, stdout=null, stderr=null, creationflags=flags, start_new_session=True
        )
        started.returncode = 0  # this process does not wait for it
