"""Judge a session that runs: the log as it stands, whole, to what a status line and a screen show.

In: a path, how recordings are read, the dated rules. Out: a row a request and what they come to; what a status line
goes on from (`run/live/status_file.py`). Rules: it is judged as any recording, with the same judge; a last line that is
still being written is left.
Cost: O(bytes of the log), 30 MB a second.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

from lore.errors import LoreError
from lore.formats.claude.answers import FORMAT
from lore.judge.ledger import RunningSums
from lore.model.cause import Place
from lore.model.jsonslice import is_json
from lore.model.ledger import LedgerRow
from lore.model.running import LastBreak, Running
from lore.recording import corpus, recent
from lore.recording.agents.logs import Surroundings
from lore.recording.base import Problems, collected_seldom, load_plugins
from lore.recording.opening import Options
from lore.recording.tailing import check_followable
from lore.report.sentences.running import worded
from lore.report.status_line import ClientStatus
from lore.run.checking.verdicts import verdicts
from lore.run.dated import Dated
from lore.run.live.status_file import KnownLog, Newest, ends_of, forget_old, keep_newest, release, save
from lore.run.live.statusline import client_and_path


class RunningLog(NamedTuple):
    """A log that was judged: what it came to, how many bytes of it were read, its rows, and what broke at which."""

    running: Running
    size: int = 0
    rows: tuple[LedgerRow, ...] = ()
    breaks: Mapping[int, LastBreak] = MappingProxyType({})


def judge_running(path: str, options: Options, dated: Dated) -> RunningLog:
    """Judge a log as it stands; raises LoreError where it cannot be read or is no recording.

    One without a whole line yet has come to nothing.
    """
    load_plugins()
    with collected_seldom():
        opened = corpus.open_head(path)
        if _is_beginning(opened.head):
            return RunningLog(Running(""))
        read = _WholeLines(opened.data)
        recording = options.open(path, Problems(), opened=opened._replace(data=iter(read)))
        sums = RunningSums(dated.rules, worded)
        steps = verdicts(recording, dated.judge(quick=True), Place(recording.shown, reader="user"))
        rows = tuple([sums.take(verdict, "user") for verdict, _ in steps if verdict is not None])
        running = sums.result(recording.reader.name, recording.state.id or "")
        return RunningLog(running, read.size, rows, sums.breaks)


def _is_beginning(head: bytes) -> bool:
    """Tell whether nothing came yet but a part of a first line."""
    return not head.strip() or (b"\n" not in head and head.startswith(b"{") and not is_json(head))


class _WholeLines:
    """The bytes of a log without a last line that is still being written; `size` is how many there were."""

    def __init__(self, data: Iterable[bytes]) -> None:
        self._data = data
        self.size = 0

    def __iter__(self) -> Iterator[bytes]:
        rest, lines = b"", False
        for piece in self._data:
            end = piece.rfind(b"\n") + 1
            if end:
                lines = True
                yield self._counted(rest + piece[:end])
                rest = piece[end:]
            else:
                rest += piece
        if rest and not (lines and rest.startswith(b"{") and not is_json(rest)):
            yield self._counted(rest)

    def _counted(self, data: bytes) -> bytes:
        self.size += len(data)
        return data


def newest_session(here: Surroundings, *, machine: bool) -> str | None:
    """Return the newest session of the current project; with `machine` else that of all. None where there is none."""
    found = recent.whereabouts(here) if machine else recent.whereabouts(here, wide=False)
    try:
        return recent.newest(list(found.paths), None) if found.paths else None
    except recent.NoRecordingError:
        return None


class NamedSession(NamedTuple):
    """What Claude Code says of its session, and the log that is meant; None: there is none."""

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
    """Judge a log, or look for the newest of a project's folder and judge that, and keep what it came to."""
    began = time.time()
    try:
        path: str | None = name
        if os.path.isdir(name):
            path = newest_session(here._replace(folder=os.path.abspath(name)), machine=False)
            keep_newest(folder, name, Newest(path or "", began))
        if path is not None:
            keep(folder, path, options, dated)
        forget_old(folder, began)
    finally:
        release(folder, name)


def keep(folder: str, path: str, options: Options, dated: Dated) -> KnownLog:
    """Judge a log, and keep what it came to; one that cannot be judged has come to nothing."""
    began, before = time.time(), _size(path)
    try:
        check_followable(path)
        running, size, *_ = judge_running(path, options, dated)
    except LoreError as error:
        options.log(error.message)
        running, size = Running(""), before
    size = min(size, before) if running.format == FORMAT else before
    head = tail = 0
    with suppress(OSError, ValueError):
        if os.path.isfile(path):
            with open(path, "rb", buffering=0) as file:
                head, tail = ends_of(file, size)
    known = KnownLog(running, size, head, tail, began, time.time() - began)
    save(folder, path, known)
    return known


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0
