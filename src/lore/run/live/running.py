"""Judge a running session, for `lore watch` and `lore statusline`: the whole log, each time that it changed.

The session is a path, the newest of a project's folder, or the newest of this machine. The log is judged like any other
recording, so that these commands and `lore check` agree, also after a rotation. A last line that is still being written
is left out. A log that takes long to judge is judged less often; an error is shown, and the log is tried again.
Cost: O(bytes of the log) for each change, 30 MB a second.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from lore.errors import LoreError
from lore.judge.sums import RunningSums
from lore.model.cause import Place
from lore.model.jsonslice import is_json
from lore.model.ledger import LedgerRow
from lore.model.running import LastBreak, RunningTotals
from lore.recording import corpus
from lore.recording.agents.logs import Surroundings
from lore.recording.agents.sessions import newest_of_agents, newest_of_project
from lore.recording.base import Problems, collected_seldom, load_plugins
from lore.recording.opening import Options
from lore.recording.tailing import check_followable
from lore.report.sentences.running import worded_break
from lore.report.status_line import ClientStatus, client_and_path
from lore.run.checking.verdicts import verdicts
from lore.run.dated import Dated
from lore.run.live.statusline import UNUSED, KeptStatus, end_of, state_file, write_state


class RunningLog(NamedTuple):
    """A log that was judged: its totals, its rows, and its cache breaks by row."""

    running: RunningTotals
    rows: tuple[LedgerRow, ...] = ()
    breaks: Mapping[int, LastBreak] = MappingProxyType({})


def judge_running(path: str, options: Options, dated: Dated) -> RunningLog:
    """Judge the whole log; raises LoreError if it cannot be read or is not a recording.

    A log without a complete line has empty totals.
    """
    load_plugins()
    with collected_seldom():
        opened = corpus.open_head(path)
        if _is_beginning(opened.head):
            return RunningLog(RunningTotals(""))
        recording = options.open(path, Problems(), opened=opened._replace(data=_whole_lines(opened.data)))
        sums = RunningSums(dated.rules, worded_break)
        steps = verdicts(recording, dated.judge(quick=True), Place(recording.shown, reader="user"))
        rows = tuple([sums.take(verdict, "user") for verdict, _ in steps if verdict is not None])
        running = sums.result(recording.reader.name, recording.state.id or "")
        return RunningLog(running, rows, sums.breaks)


def _is_beginning(head: bytes) -> bool:
    """Return whether a log holds only a part of its first line."""
    return not head.strip() or (b"\n" not in head and head.startswith(b"{") and not is_json(head))


def _whole_lines(data: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a log without a last line that is still being written."""
    rest, lines = b"", False
    for piece in data:
        end = piece.rfind(b"\n") + 1
        if end:
            lines = True
            yield rest + piece[:end]
            rest = piece[end:]
        else:
            rest += piece
    if rest and not (lines and rest.startswith(b"{") and not is_json(rest)):
        yield rest


def newest_session(here: Surroundings, *, machine: bool) -> str | None:
    """Return the newest session of the current project, else (`machine`) of all; None without sessions."""
    return newest_of_project(here) or (newest_of_agents(here) if machine else None)


class NamedSession(NamedTuple):
    """The facts that Claude Code gives about its session, and the log of it, if there is one."""

    client: ClientStatus
    path: str | None


def session_named(name: str | None, given: bytes, here: Surroundings) -> NamedSession:
    """Return the log that was named, else the one that Claude Code names in `given`, else the project's newest."""
    client, named = client_and_path(given)
    path = name or named or here.folder
    if os.path.isdir(path):
        return NamedSession(client, newest_session(here._replace(folder=os.path.abspath(path)), machine=False))
    return NamedSession(client, path)


def refresh(name: str, folder: str, options: Options, dated: Dated, here: Surroundings) -> None:
    """Judge a log, or the newest session of a project's folder, and keep the result for `lore statusline`."""
    began = time.time()
    try:
        path: str | None = name
        if os.path.isdir(name):
            path = newest_session(here._replace(folder=os.path.abspath(name)), machine=False)
            write_state(folder, name, {"newest": path or "", "at": began})
        if path is not None:
            keep(folder, path, options, dated)
        for entry in os.scandir(folder):
            if entry.stat().st_mtime < began - UNUSED:
                os.unlink(entry.path)
    except OSError:  # the folder cannot be written
        pass
    finally:
        with suppress(OSError):
            os.unlink(state_file(folder, name) + ".lock")


def keep(folder: str, path: str, options: Options, dated: Dated) -> KeptStatus:
    """Judge a log and keep the result; one that cannot be judged is kept without any figure."""
    began, (size, end) = time.time(), end_of(path) or (0, 0)
    try:
        check_followable(path)
        running = judge_running(path, options, dated).running
    except LoreError as error:
        options.log(error.message)
        running = RunningTotals("")
    known = KeptStatus(running, size, end, began, time.time() - began)
    last = running.last_break
    fields = {**running._asdict(), "last_break": None if last is None else last._asdict()}
    write_state(folder, path, {**known._asdict(), "running": fields})
    return known


LOOKED = 10.0  # seconds between two searches for a newer session
PACE = 4  # judging takes at most this part of the time

Clock: TypeAlias = Callable[[], float]
_File: TypeAlias = tuple[str, int, int, int]


class WatchLook(NamedTuple):
    """A look at a session: the path of its log (empty: none was found), its totals, a note on errors and changes."""

    path: str
    log: RunningLog | None
    note: str = ""
    title: str = ""  # of the session, if it has one

    @property
    def shown(self) -> str:
        """The name of the log, as it can be printed."""
        return corpus.show(self.path) if self.path else ""


class SessionWatch:
    """Looks at a session repeatedly; only differences of `clock` count. Not safe to share between threads."""

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
        """Return the session if it changed since the last look, else None."""
        note = self._search()
        files = _files(self._path) if self._path else ()
        if self._last is not None and not note and (files == self._files or self._clock() < self._rests_until):
            return None
        note = note or _change(self._files, files)
        self._files = files
        self._last = self._judged(note)
        return self._last

    def _search(self) -> str:
        """Search for a newer session from time to time; return a note if there is one."""
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
        from lore.recording.titles import title_of  # noqa: PLC0415 - a status line needs none of it

        return WatchLook(self._path, log, note, title_of(self._path) or "")


def _files(path: str) -> tuple[_File, ...]:
    """Return the files of a recording with their numbers, sizes and times; none if they are missing."""
    from lore.run.spending.ledgers import files_of_recording  # noqa: PLC0415 - a status line needs none of it

    try:
        found = [(name, os.stat(name)) for name in files_of_recording(path)]
    except (OSError, ValueError):
        return ()
    return tuple((name, status.st_ino, status.st_size, status.st_mtime_ns) for name, status in found)


def _change(before: tuple[_File, ...] | None, now: tuple[_File, ...]) -> str:
    if before is None or not before:
        return ""
    if not now:
        return "the log is gone; waiting for it"
    (_, number, size, _), (_, number_now, size_now, _) = before[0], now[0]
    if number != number_now:
        return "the log was replaced by another file"
    return "the log was truncated" if size_now < size else ""
