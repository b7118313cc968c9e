"""Import sessions into a store: what `lore store import` does.

In: files, folders, patterns, standard input, stored sessions. Out: what came of each. Rules: lore's own logs are
stored to the byte, what a store of logs noted for itself left out; other sessions are converted first, their
subagents' files with them; of recorded requests the session that they make is stored, one a file, under its file's
name where another file of the same import has that of the session already: session logs come before all requests, so
that a session's own log keeps its id. What fails or conflicts is said, and the
others go on; where it is all that was asked for, it is the error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count
from typing import NamedTuple

from lore.errors import LoreError
from lore.formats.base import HOLDS
from lore.formats.lore_log import LoreLog
from lore.model.codes import Problem
from lore.model.results.store import ImportedSession, StoreImported
from lore.recording import corpus
from lore.recording.agents.companions import companions, is_companion
from lore.recording.base import Problems, UnrecognisedError, collected_seldom
from lore.recording.events import EventRecording
from lore.recording.inputs import Input, inputs
from lore.recording.opening import Options, kind_of
from lore.recording.requests import RequestRecording
from lore.run.stored.converting import converted
from lore.run.stored.syncing import (
    Synced,
    SyncSource,
    put_header_first,
    read_storable_lines,
    rename_session,
    session_id_of,
    sync,
)
from lore.store.base import Clock, ConflictError, DamagedError, SessionData, Store, StoreError, now
from lore.store.lines import read_header
from lore.store.registry import address_of, load_notes, open_existing
from lore.store.reserved import refuse_header

ImportProgress = Callable[[int, int], None]


class ImportRequest(NamedTuple):
    """What is to be imported: paths, an id for a session that names none or another one, a project."""

    paths: list[str]
    session_id: str | None = None
    project_id: str | None = None


class _RequestsError(LoreError):
    """The input can be read, and holds requests instead of a session."""


@dataclass(slots=True)
class _Imported:
    requests: int = 0
    skipped: int = 0
    joined: int = 0
    problems: list[Problem] = field(default_factory=list[Problem])
    refusal: str = ""  # why the store took nothing of the latest session
    taken: set[str] = field(default_factory=set[str])  # ids of sessions that files of this import have


def import_sessions(
    store: Store, request: ImportRequest, options: Options, *, progress: ImportProgress | None = None,
    clock: Clock = now,
) -> StoreImported:  # fmt: skip
    """Import what these paths stand for; raises LoreError where nothing of it can be, or the store takes no more."""
    files = inputs(request.paths)
    sums = _Imported()
    others = chain.from_iterable(companions(file.path) for file in files if file.error is None)
    with_others = {os.path.realpath(path) for path in others}  # subagents' files, read with their sessions
    files = [file for file in files if os.path.realpath(file.path) not in with_others]
    sums.joined = len(with_others)
    if request.session_id is not None and len(files) != 1:
        raise LoreError(f"--id names one session, and there are {len(files)} inputs", hint="name one session")
    total, done = sum(file.size for file in files), 0
    rows: dict[int, ImportedSession] = {}
    with collected_seldom():
        for place in _sessions_first(files, options):
            show = partial(_show, progress, done, total)
            importer = _Importer(store, request, options, clock, show, sums.taken)
            row = _import(importer, files[place], sums, alone=len(files) == 1)
            rows |= {} if row is None else {place: row}
            done += files[place].size
    sessions = [rows[place] for place in sorted(rows)]
    if not sessions:
        raise LoreError(
            f"no sessions in {corpus.show(request.paths[0])}", hint="`lore store import` reads session logs"
        )
    return StoreImported(
        store=store.url, sessions=sessions, requests=sums.requests, skipped=sums.skipped, joined=sums.joined,
        problems=sums.problems,
    )  # fmt: skip


def _show(progress: ImportProgress | None, done: int, total: int, read: int) -> None:
    if progress:
        progress(min(done + read, total), total)


def _sessions_first(files: list[Input], options: Options) -> list[int]:
    """Return the places of files in the order in which they are imported: those of requests behind all others."""
    places = list(range(len(files)))
    return sorted(places, key=lambda place: _holds_requests(files[place], options)) if len(files) > 1 else places


def _holds_requests(file: Input, options: Options) -> bool:
    """Tell whether a file holds requests; one that cannot be looked at is met again when it is imported."""
    if file.error is not None or file.stream or corpus.is_stored(file.path):
        return False
    try:
        kind = kind_of(corpus.open_head(file.path).head, options.format)
    except LoreError:
        return False
    return kind is not None and kind.yields == "exchanges"


def _import(importer: _Importer, file: Input, sums: _Imported, *, alone: bool) -> ImportedSession | None:
    """Import one input, and return what came of it; None where it is no session."""
    path = corpus.show(file.path)
    try:
        synced = importer.take(file)
        row = ImportedSession(
            path=path, session_id=importer.session_id, state=synced.state, new_events=synced.new,
            events=synced.head.number,
        )  # fmt: skip
    except LoreError as error:
        if not file.named and isinstance(error, UnrecognisedError | _RequestsError):
            sums.requests += isinstance(error, _RequestsError)
            sums.skipped += isinstance(error, UnrecognisedError)
            return None
        if isinstance(error, StoreError) and not (importer.reading or isinstance(error, ConflictError | DamagedError)):
            if error.message == sums.refusal:
                raise  # the same again: it is the store
            sums.refusal = error.message
        if alone and file.named:
            raise
        state, message = "failed", error.message
        if isinstance(error, ConflictError):
            state, message = "conflict", f"{message} ({error.hint})" if error.hint else message
        elif isinstance(error, DamagedError) and error.where is not None:
            message = f"{error.where}: {message}"
        row = ImportedSession(
            path=path, session_id=importer.session_id, state=state, new_events=None, events=None, message=message
        )
    finally:
        sums.problems += importer.problems.kept
    return row


@dataclass(slots=True)
class _Importer:
    """Import one input. `reading` until it goes to the store; `session_id` as soon as it is known."""

    _store: Store
    _request: ImportRequest
    _options: Options
    _clock: Clock
    _show: Callable[[int], None]
    _taken: set[str]
    _read: int = 0
    problems: Problems = field(default_factory=Problems)
    session_id: str | None = None
    reading: bool = True
    _named: bool = False

    def take(self, file: Input) -> Synced:
        """Store what is new of a session; raises LoreError."""
        if file.error is not None:
            raise file.error
        path, self._named = file.path, file.named
        chained, requests, lines = self._opened(path, self.problems)
        header = next(lines)
        # a subagent's file names its session: alone it would take that one's place
        alone = is_companion(os.path.basename(path)) and not corpus.is_stored(path)
        self.session_id = self._request.session_id or ("" if alone else session_id_of(header)) or _stem(path)
        if requests and self.session_id in self._taken:
            self.session_id = self._free_name(path)
        self._taken.add(self.session_id)
        source = SyncSource(
            read_header(self._header(header)), lines, None if corpus.is_stream(path) else lambda: self._again(path),
            chained, _beside(path), requests,
        )  # fmt: skip
        refuse_header(source.header)
        self.reading = False
        synced = sync(self._store, source, self._clock, lambda: self._show(self._read))
        self._move(source)
        return synced

    def _free_name(self, path: str) -> str:
        """Name requests of a session that another file of the import has, or a file called like another one."""
        folder, stem = os.path.basename(os.path.dirname(os.path.abspath(path))), _stem(path)
        names = chain((stem, f"{folder}-{stem}"), (f"{folder}-{stem}-{number}" for number in count(2)))
        return next(name for name in names if name not in self._taken)

    def _header(self, line: bytes) -> bytes:
        return line if session_id_of(line) == self.session_id else rename_session(line, self.session_id or "")

    def _again(self, path: str) -> Iterator[bytes]:
        *_, lines = self._opened(path, Problems())
        yield self._header(next(lines))
        yield from lines

    def _opened(self, path: str, problems: Problems) -> tuple[bool, bool, Iterator[bytes]]:
        """Return whether a session's chains come one behind another, whether requests make it, and its lines."""
        opened = corpus.open_head(path)
        data = self._counted(opened.data)
        recording = self._options.open(path, problems, subagents=True, opened=opened._replace(data=data))
        requests = isinstance(recording, RequestRecording)
        whole = requests and recording.options.completion is not None and not self._named
        if whole or not (requests or isinstance(recording, EventRecording)):
            raise _RequestsError(
                f"{recording.shown} is read as {HOLDS[recording.reader.yields]}, not as a session",
                hint="import the session that they were assembled from",
            )
        if type(recording.reader) is LoreLog:
            return False, False, put_header_first(read_storable_lines(data, recording.take_problem), recording.shown)
        return True, requests, (line[:-1] for line in converted(recording).lines)

    def _counted(self, data: Iterable[bytes]) -> Iterator[bytes]:
        self._read = 0
        for piece in data:
            self._read += len(piece)
            yield piece

    def _move(self, source: SyncSource) -> None:
        """Put the session where it was asked to be, or where it is in the store that it comes from."""
        project = self._request.project_id or (source.notes.project_id if source.notes else None)
        if project is None:
            return
        there = load_notes(self._store, source.header.session_id)
        if there is not None and there.project_id != project:
            self._store.move(source.header.session_id, project)


def _beside(path: str) -> SessionData | None:
    """Return what a store notes of a session that is read from it."""
    address = address_of(path)
    if address is None:
        return None
    with closing(open_existing(address.url)) as store:
        return load_notes(store, address.session_id)


def _stem(path: str) -> str:
    stem = os.path.splitext(os.path.basename(corpus.show(path)))[0]
    if path == corpus.STDIN:
        raise LoreError("the session on standard input names no id", hint="give one with --id")
    return stem
