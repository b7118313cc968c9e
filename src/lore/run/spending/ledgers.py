"""Ledgers of recordings, kept between runs: only recordings that changed are read again.

A ledger is a private file in the user's cache folder, named by the digest of its recording's path. It has a signature
of the recording's files (sizes, times, digests of both ends) and of this lore with its rules; if either differs, the
recording is read again. It holds only numbers and names (`lore.model.ledger`). Without a usable folder nothing is kept.
Ledgers that no run used for 60 days are deleted. Cost: a look at each file; O(bytes) of those that changed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

import lore
from lore.cache.rules import DatedRules
from lore.files import make_folder, replaced
from lore.model.ledger import Ledger, LedgerRow
from lore.model.results import UnrecordedParts
from lore.recording import corpus, filesystem
from lore.recording.agents.companions import companions
from lore.recording.agents.logs import Surroundings, project_beside, project_in
from lore.recording.agents.usage_stores import stores_beside
from lore.recording.base import Problems, collected_seldom, load_plugins
from lore.recording.inputs import Input, ahead, written_at
from lore.recording.opening import Options
from lore.run.dated import PACKAGED, Dated
from lore.store.registry import ignore

if TYPE_CHECKING:
    from lore.judge.base import TurnVerdict

ENDS = 65_536  # bytes of a file's beginning and end that its digest is of
KEPT_DAYS = 60  # days that an unused ledger is kept
_DAY = 86_400.0
Progress = Callable[[int, int], None]


class _KeptLedger(msgspec.Struct, frozen=True, array_like=True):
    """A ledger as it is kept: `signature` is of the recording's files, `maker` of this lore and its rules."""

    maker: str
    signature: str
    ledger: Ledger


def folder_of(here: Surroundings) -> str:
    """Return the folder for ledgers; empty if this system has no place for caches."""
    cache = here.roots()["{cache}"]
    return os.path.join(cache, "lore", "ledgers") if cache else ""


class Ledgers:
    """Reads ledgers; `folder` keeps them (empty: none is kept), `now` is the time in seconds since the epoch."""

    def __init__(self, options: Options, folder: str = "", *, dated: Dated = PACKAGED, now: float = 0.0) -> None:
        load_plugins()
        self.options = options
        self._folder = folder
        self.dated = dated
        self._now = now
        dated.known()
        self.taken = 0  # ledgers that were as they were kept
        self.read_bytes = 0

    def each(
        self, files: list[Input], progress: Progress | None = None, jobs: int = 1
    ) -> Iterator[tuple[Input, Ledger]]:  # fmt: skip
        """Yield each file that is a recording, or that cannot be read, with its ledger; `jobs` are read at a time."""
        known = {file.path: kept for file in files if (kept := self._kept(file)) is not None}
        self.taken += len(known)
        todo = [file for file in files if file.path not in known]
        total, done = sum(file.size for file in todo), 0
        with collected_seldom(), closing(self._made(todo, jobs)) as fresh:
            for file in files:
                ledger = known.pop(file.path, None)
                if ledger is None:
                    ledger = next(fresh)
                    done += file.size
                    self.read_bytes += file.size or (0 if ledger is None else ledger.bytes)
                    if progress is not None:
                        progress(done, total)
                if ledger is not None:
                    yield file, placed(ledger, file)
        self._expire()

    def _made(self, files: list[Input], jobs: int) -> Generator[Ledger | None]:
        if not files:
            return
        from lore.run.checking.verdicts import processes_for  # noqa: PLC0415 - not needed if no recording is new

        if (processes := processes_for(files, jobs)) == 1:
            yield from map(self.made, ahead(files))
            return
        from lore.run.checking.pool import ProcessPool  # noqa: PLC0415 - as above

        silent = replace(self.options, log=ignore, counter=None)  # can be pickled
        yield from ProcessPool(processes, self.made, Ledgers(silent, self._folder, dated=self.dated).made).results(
            files
        )

    def keeps(self, file: Input) -> bool:
        """Return whether a ledger of the unchanged file is kept."""
        return self._kept(file) is not None

    def made(self, file: Input) -> Ledger | None:
        """Read a ledger, and keep it; None if the file is not a recording. It has the problem that ended it."""
        from lore.run.checking.verdicts import CheckContext, judge_file  # noqa: PLC0415 - as above

        signature = "" if file.error is not None else self._signature(file)
        result = judge_file(file, CheckContext(dated=self.dated, options=self.options, tabled=True))
        if result.error is not None:
            return Ledger(corpus.show(file.path), written=written_at(file), message=result.error.message)
        ledger = result.ledger
        if ledger is not None and ledger.format and signature:
            _keep(self._place(file), _KeptLedger(self._maker, signature, ledger))
        return ledger

    def _kept(self, file: Input) -> Ledger | None:
        """Return the kept ledger of a file, if the file is unchanged."""
        place, signature = self._place(file), "" if file.error is not None else self._signature(file)
        try:
            kept = msgspec.msgpack.decode(place.read_bytes(), type=_KeptLedger) if signature else None
            if kept is None or (kept.maker, kept.signature) != (self._maker, signature):
                return None
            os.utime(place)
        except (OSError, msgspec.DecodeError, ValueError, RecursionError):
            return None
        return replace(kept.ledger, path=corpus.show(file.path))

    def _signature(self, file: Input) -> str:
        return "" if file.stream or not self._folder else _signature(file)

    def _place(self, file: Input) -> Path:
        path = file.path if filesystem.is_remote(file.path) else os.path.abspath(file.path)
        return Path(self._folder, hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest())

    @property
    def _maker(self) -> str:
        return _maker(self.dated, self.options.format or "")

    def _expire(self) -> None:
        try:
            entries = list(os.scandir(self._folder)) if self._folder else []
            for entry in entries:
                if entry.stat().st_mtime < self._now - KEPT_DAYS * _DAY:
                    os.unlink(entry.path)
        except OSError:
            return


class LedgerMaker:
    """Makes the ledger of a recording while it is judged."""

    def __init__(self, file: Input, options: Options, rules: DatedRules, problems: Problems) -> None:
        """Open the recording; raises LoreError."""
        opened, self._bytes = corpus.open_head(file.path), 0
        self._file, self._project = file, project_in(opened.head)
        counted = opened._replace(data=self._count_bytes(opened.data))
        self.recording = options.open(file.path, problems, opened=counted, growing=False)
        from lore.judge.sums import LedgerRows  # noqa: PLC0415 - as above

        self._rows, self._made = list[LedgerRow](), LedgerRows(rules)

    def _count_bytes(self, data: Iterator[bytes]) -> Iterator[bytes]:
        for piece in data:
            self._bytes += len(piece)
            yield piece

    def add(self, verdict: TurnVerdict) -> None:
        """Add the next verdict."""
        self._rows.append(self._made.row(verdict))

    def ledger(self, unseen: UnrecordedParts | None) -> Ledger:
        """Return the ledger of all verdicts; `unseen` are parts of prompts that the format does not record."""
        from lore.judge.totals import UNREAD  # noqa: PLC0415 - as above

        problems = self.recording.problems
        broken = next((problem for problem in problems.kept if problem.code in UNREAD), None)
        where = "" if broken is None or broken.line is None else f" (line {broken.line})"
        return Ledger(
            path=corpus.show(self._file.path), format=self.recording.reader.name,
            session=self.recording.state.id or "", project=self._project, written=written_at(self._file),
            bytes=self._bytes, rows=tuple(self._rows), problems=problems.total,
            message=None if broken is None else f"{broken.message}{where}", unseen=unseen,
        )  # fmt: skip


@cache
def _maker(dated: Dated, format: str) -> str:
    """Return a digest of what ledgers are made by: this program's files, by name, size and time, and the settings."""
    digest = hashlib.sha256(repr((lore.__version__, tuple(dated), format)).encode())
    found = (
        os.path.join(folder, name) for folder, _, names in os.walk(os.path.dirname(lore.__file__)) for name in names
    )
    program = sorted(path for path in found if path.endswith((".py", ".toml")))
    for path in [*program, *filter(None, [dated.path])]:
        status = os.stat(path)
        digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _signature(file: Input) -> str:
    """Return a digest of a recording's files: names, sizes, times, and both ends of a file; empty: it has none.

    Of a remote file its size and its ETag.
    """
    if filesystem.is_remote(file.path):
        return f"{file.size}.{file.tag}" if file.tag else ""
    digest = hashlib.sha256(f"{file.written}".encode())
    try:
        if not (files := files_of_recording(file.path)):
            return ""  # a session in a store
        for path in files:
            status = os.stat(path)
            digest.update(os.fsencode(os.path.abspath(path)) + f"\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
        if os.path.isfile(file.path):
            with open(file.path, "rb") as data:
                digest.update(data.read(ENDS))
                data.seek(-min(ENDS, os.fstat(data.fileno()).st_size), os.SEEK_END)
                digest.update(data.read(ENDS))
    except (OSError, ValueError):
        return ""
    return digest.hexdigest()


def files_of_recording(path: str) -> list[str]:
    """Return the files that a recording is read from, and others in its folder that change how it is read."""
    if os.path.isdir(path):
        return sorted(entry.path for entry in os.scandir(path))
    if not os.path.lexists(path):
        path = path.rpartition("#")[0]  # a session in a database
    paths = [path, *companions(path), *stores_beside(path)]
    return sorted(found for known in paths if known for found in (known, known + "-wal") if os.path.exists(found))


def placed(ledger: Ledger, file: Input) -> Ledger:
    """Return a ledger with the project that other files in its folder name, which may change independently."""
    if ledger.project or filesystem.is_remote(file.path):
        return ledger
    return replace(ledger, project=project_beside(file.path))


def _keep(place: Path, kept: _KeptLedger) -> None:
    try:
        make_folder(str(place.parent))
        with replaced(str(place), private=True) as file:
            file.write(msgspec.msgpack.encode(kept))
    except (OSError, OverflowError):  # a recording may say numbers that no form of storage holds
        return
