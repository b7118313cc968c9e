"""Watch the session that runs: what it came to, each time that its log has changed.

In: a log, a project's folder, or nothing (the newest session of this project, else of this machine); the time. Out: a
look, or None where nothing has changed. Rules: each look judges the log as it stands (`running.py`), so that what
is shown is what judging it says, also after a rotation; a log that takes long to judge is looked at more seldom; what
goes wrong is said and looked at again. Cost: a look at the names, and O(bytes of the log) where it has changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from lore.errors import LoreError
from lore.recording import corpus
from lore.recording.agents.logs import Surroundings
from lore.recording.opening import Options
from lore.run.dated import Dated
from lore.run.live.running import RunningLog, judge_running, newest_session
from lore.run.spending.ledgers import files_of_recording

LOOKED = 10.0  # seconds between two searches for a newer session
PACE = 4  # judging takes at most this part of the time

Clock: TypeAlias = Callable[[], float]
_File: TypeAlias = tuple[str, int, int, int]


class WatchLook(NamedTuple):
    """A look at a session: its log (empty: none was found), what it came to, and what is wrong or new (`note`)."""

    path: str
    log: RunningLog | None
    note: str = ""

    @property
    def shown(self) -> str:
        """The name of the log, as it can be printed."""
        return corpus.show(self.path) if self.path else ""


class SessionWatch:
    """Look at a session again and again; `clock` gives seconds, of which only differences count.

    Not safe to share between threads: one looks.
    """

    def __init__(self, name: str | None, options: Options, dated: Dated, here: Surroundings, clock: Clock) -> None:
        self._options, self._dated, self._clock = options, dated, clock
        folder = name is not None and os.path.isdir(name)
        self._here = here._replace(folder=os.path.abspath(name)) if folder and name is not None else here
        self._own = folder  # of that project alone
        self._fixed = "" if folder or name is None else name
        self._path = self._fixed
        self._files: tuple[_File, ...] | None = None
        self._searched: float | None = None
        self._rests_until = 0.0
        self._last: WatchLook | None = None

    def look(self) -> WatchLook | None:
        """Return what has changed since the last look; None where nothing has."""
        note = self._search()
        files = _files(self._path) if self._path else ()
        if self._last is not None and not note and (files == self._files or self._clock() < self._rests_until):
            return None
        note = note or _change(self._files, files)
        self._files = files
        self._last = self._judged(note)
        return self._last

    def _search(self) -> str:
        """Look for a newer session, once in a while; say so where one was found."""
        now = self._clock()
        if self._fixed or (self._searched is not None and now < self._searched + LOOKED):
            return ""
        self._searched = now
        try:
            found = newest_session(self._here, machine=not self._own) or ""
        except LoreError as error:
            return error.message
        before, self._path = self._path, found or self._path
        if before == self._path:
            return ""
        self._files, self._rests_until = None, 0.0
        return "a newer session" if before else ""

    def _judged(self, note: str) -> WatchLook:
        if not self._path:
            return WatchLook("", None, note)
        began = self._clock()
        try:
            log = judge_running(self._path, self._options, self._dated)
        except LoreError as error:
            before = self._last.log if self._last is not None and self._last.path == self._path else None
            return WatchLook(self._path, before, error.message)
        finally:
            self._rests_until = self._clock() + PACE * (self._clock() - began)
        return WatchLook(self._path, log, note)


def _files(path: str) -> tuple[_File, ...]:
    """Return the files of a recording with their numbers, sizes and times; none where they are gone."""
    try:
        found = [(name, os.stat(name)) for name in files_of_recording(path)]
    except (OSError, ValueError):
        return ()
    return tuple((name, status.st_ino, status.st_size, status.st_mtime_ns) for name, status in found)


def _change(before: tuple[_File, ...] | None, now: tuple[_File, ...]) -> str:
    """Say what happened to a log besides growing."""
    if before is None or not before:
        return ""
    if not now:
        return "the log is gone; waiting for it"
    (_, number, size, _), (_, number_now, size_now, _) = before[0], now[0]
    if number != number_now:
        return "the log was replaced by another file"
    return "the log was truncated" if size_now < size else ""
