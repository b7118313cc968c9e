"""Which recordings: where agents keep their logs, how new they are, the newest session.

In: the environment, the current folder, the clock. Out: paths. Rules: Claude Code's logs come first, of them
the project of the current folder; else the current folder. Times are those when files were last written;
the time zone of a date without one is this machine's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from lore.errors import LoreError
from lore.recording import corpus
from lore.recording.inputs import Input, inputs
from lore.recording.opening import kind_of

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_AGO = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*([smhdw])")
HINT_SINCE = "give an age (30m, 2h, 1d, 1w) or a date (2026-01-31, 2026-01-31T09:00)"
_NO_WORD = re.compile(r"[^A-Za-z0-9]")  # JavaScript counts a character beyond 16 bits as two
LOGS_LOOKED_AT = 10_000  # how many files are passed over in search of the first log


class NoRecordingError(LoreError):
    """There is no recording where one was looked for."""


class Whereabouts(NamedTuple):
    """Where recordings were looked for, in this order, and where some are (empty: nowhere)."""

    looked: tuple[str, ...]
    path: str


def whereabouts(environment: Mapping[str, str], home: str, folder: str) -> Whereabouts:
    """Look where agents keep their logs; the last place is the current folder, which is not looked into."""
    looked: list[str] = []
    for place in _places(environment, home, folder):
        looked.append(place)
        if _holds_logs(place):
            return Whereabouts(tuple(looked), place)
    return Whereabouts((*looked, os.curdir), "")


def _places(environment: Mapping[str, str], home: str, folder: str) -> Iterator[str]:
    own = environment.get("CLAUDE_CONFIG_DIR")
    bases = [own] if own else []
    if home:
        bases += [os.path.join(home, ".claude"), os.path.join(home, ".config", "claude")]
    projects = list(dict.fromkeys(os.path.join(base, "projects") for base in bases))
    yield from (os.path.join(project, project_name(folder)) for project in projects)
    yield from projects


def project_name(folder: str) -> str:
    """Return the name under which Claude Code keeps the logs of a folder: its path, all else than words a dash."""
    return _NO_WORD.sub(lambda found: "-" * (1 + (ord(found[0]) > 0xFFFF)), folder)


def _holds_logs(folder: str) -> bool:
    if not os.path.isdir(folder):
        return False
    files = corpus.files_below(folder, lambda _place, _error: None)  # judging it says so
    return any(file.endswith(".jsonl") for file in islice(files, LOGS_LOOKED_AT))


def since(text: str, now: float) -> float:
    """Return the time that `--since` names, in seconds since the epoch; raises LoreError for what names none."""
    ago = _AGO.fullmatch(text.strip().lower())
    if ago is not None:
        return now - float(ago[1]) * _UNITS[ago[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        raise LoreError(f"--since {text!r} is no time", hint=HINT_SINCE) from None


def is_as_new(file: Input, since: float) -> bool:
    """Tell whether a file was written since then; a stream, and what cannot be looked at, is."""
    return file.stream or file.error is not None or (written := _written(file.path)) is None or written >= since


def _written(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime
    except (OSError, ValueError):
        return None


def newest(paths: list[str], format: str | None) -> str:
    """Return the recording that was written last, its subagents' files counted with it.

    Raises LoreError where there is none, and for one that cannot be read: it may be the newest. Costs a look at
    each file, and the beginning of the newest.
    """
    files = [file for file in inputs(paths) if not file.stream and file.error is None]
    subagents = {file.path: _session(file.path) for file in files}
    times: dict[str, float] = {}
    for file in files:
        session = subagents[file.path] or file.path
        times[session] = max(times.get(session, 0.0), _written(file.path) or 0.0)
    for path in sorted(times, key=lambda time: (-times[time], time)):
        if os.path.isfile(path) and kind_of(corpus.open_head(path).head, format) is not None:
            return path
    where = ", ".join(corpus.show(path) for path in paths)
    raise NoRecordingError(f"no recordings in {where}", hint="--last judges the newest recording of a folder")


def _session(path: str) -> str | None:
    """Return the session that a subagent's file in its folder belongs to; None for other files."""
    below = re.fullmatch(r"(.+)[/\\]subagents[/\\].*agent-[^/\\]*\.jsonl", path, re.DOTALL)
    return None if below is None else f"{below[1]}.jsonl"


def nothing(looked: Iterable[str]) -> LoreError:
    """Say that no recordings were found where they were looked for."""
    return LoreError("there are no recordings", hint=f"looked in {shown_places(looked)}; name a file or folder")


def shown_places(found: Iterable[str]) -> str:
    """Name the places that were looked at."""
    return ", ".join(map(corpus.show, found))
