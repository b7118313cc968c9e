"""Ledgers of recordings, kept between runs: only recordings that changed are read again.

A ledger is kept with the identity of its recording's files (sizes, times) and of this lore with its rules; if either
differs, the recording is read again. It holds only numbers and names (`lore.model.ledger`). Without a usable folder
nothing is kept. Cost: a look at each file; O(bytes) of those that changed.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
from collections import defaultdict
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

import lore
from lore.cache.counts import SUGGESTED_WINDOW
from lore.cache.rules import DatedRules
from lore.compaction.settings import TRIAL_SETTINGS
from lore.errors import LoreError
from lore.files import make_folder
from lore.model.events import RUN
from lore.model.evidence import ReadPlateau, SharedBlock
from lore.model.ledger import CompactionTrial, CostParts, Ledger, LedgerRow, MissedRead, UnloggedWork
from lore.model.results import Finding, UnrecordedParts
from lore.recording import corpus, filesystem
from lore.recording.agents.companions import companions
from lore.recording.agents.copilot_usage import database_of
from lore.recording.agents.logs import project_beside, project_in
from lore.recording.base import Recording, collected_seldom, load_plugins
from lore.recording.inputs import UNKNOWN_START, Input, Start, by_start, start_of, written_at
from lore.recording.opening import Options
from lore.run.rules import PACKAGED, Dated
from lore.store.registry import ignore

if TYPE_CHECKING:
    from lore.judge.base import TurnVerdict


_ENDS = 65_536  # bytes of a file's beginning and end that its digest is of
_WRITTEN_AT_ONCE = 32 * 1024 * 1024  # bytes of recordings whose ledgers are kept together: a second of reading
_DAY = 86_400.0
_DECODER = msgspec.msgpack.Decoder(Ledger)
_TRIAL_DECODER = msgspec.msgpack.Decoder(CompactionTrial)
_TRIAL = "\0trial"  # ends the path under which a trial is kept; no file has such a name
Progress = Callable[[int, int], None]


class Ledgers:
    """Reads ledgers; `kept_in` is the file that keeps them (empty: none), `now` the time in seconds since the epoch."""

    def __init__(
        self, options: Options, kept_in: str = "", *, dated: Dated = PACKAGED, now: float = 0.0, jobs: int = 1
    ) -> None:  # fmt: skip
        load_plugins()
        dated.check_file()
        self.options, self.dated = options, dated
        maker = _maker(dated, options.format or "") if kept_in else ""
        self._cache = LedgerCache(kept_in, maker, int(now // _DAY)) if kept_in else None
        self._jobs = jobs  # recordings that are read at a time
        self.taken = 0  # ledgers that were in the cache
        self.read_bytes = 0

    def read(self, files: list[Input], progress: Progress | None = None) -> Iterator[tuple[Input, Ledger]]:
        """Yield each file that is a recording, or that cannot be read, with its ledger, in the order of `by_start`."""
        kept_ledgers = self.find_kept(files)
        starts = {path: kept.start for path, kept in kept_ledgers.items() if kept.start != UNKNOWN_START}
        files = by_start(files, lambda file: file, starts)
        changed_files = [file for file in files if file.path not in kept_ledgers]
        total_bytes, done_bytes = sum(file.size for file in changed_files), 0
        if progress is not None:
            progress(0, total_bytes)
        with collected_seldom(), closing(self._read(changed_files)) as new_ledgers:
            for file in files:
                if file.path in kept_ledgers:
                    try:
                        ledger = replace(_DECODER.decode(kept_ledgers.pop(file.path).data), path=corpus.show(file.path))
                        self.taken += 1
                    except (TypeError, ValueError, RecursionError):  # it is damaged: read the recording again
                        with closing(self._read([file])) as ledgers:
                            ledger = next(ledgers)
                else:
                    ledger = next(new_ledgers)
                    done_bytes += file.size
                    self.read_bytes += file.size
                    if progress is not None:
                        progress(done_bytes, total_bytes)
                if ledger is not None:
                    yield file, placed(ledger, file)

    def find_kept(self, files: Iterable[Input]) -> dict[str, KeptLedger]:
        """Return the cached ledgers of unchanged files by path."""
        return {} if self._cache is None else self._cache.find({file.path: identity_of(file) for file in files})

    def try_compactions(self, path: str, file: Input | None) -> CompactionTrial:
        """Return what earlier compactions would have saved in a log; `file`: the log, if its trial may be kept."""
        name, identity = path + _TRIAL, b"" if file is None or self._cache is None else identity_of(file)
        if self._cache is not None and identity:
            with suppress(KeyError, TypeError, ValueError):  # it is not kept, or damaged
                return _TRIAL_DECODER.decode(self._cache.find({name: identity})[name].data)
        from lore.run.compaction import dry_run  # noqa: PLC0415 - slow to import, and a trial is kept

        policy, trial = replace(TRIAL_SETTINGS, window=SUGGESTED_WINDOW), CompactionTrial()
        with suppress(LoreError):  # recorded requests, which hold no events
            totals = dry_run(path, self.options, policy, self.dated.rules()).totals
            if totals is not None:
                trial = CompactionTrial(totals.fired, totals.saved, totals.without.cost or 0.0)
        if self._cache is not None and identity:
            self._cache.keep([(name, identity, UNKNOWN_START, trial)])
        return trial

    def _read(self, files: list[Input]) -> Generator[Ledger | None]:
        """Yield the ledger of each file, and add them to the cache, also if the generator is closed early."""
        if not files:
            return
        from lore.run.checking.verdicts import map_files  # noqa: PLC0415 - not needed if no recording is new

        identities = {file.path: identity_of(file) for file in files} if self._cache is not None else {}
        waiting, size = list[tuple[str, bytes, Start, Ledger]](), 0
        silent = Ledgers(replace(self.options, log=ignore, counter=None), dated=self.dated)  # can be pickled
        try:
            with closing(map_files(files, self._jobs, self.make, silent.make)) as ledgers:
                for file, ledger in zip(files, ledgers, strict=True):
                    if ledger is not None and ledger.format and identities.get(file.path):
                        waiting.append((file.path, identities[file.path], start_of(file), ledger))
                        size += file.size
                    if self._cache is not None and size > _WRITTEN_AT_ONCE:
                        self._cache.keep(waiting)
                        waiting, size = [], 0
                    yield ledger
        finally:
            if self._cache is not None and waiting:
                self._cache.keep(waiting)

    def make(self, file: Input) -> Ledger | None:
        """Return the ledger of a file, with the problem that ended it; None if the file is not a recording."""
        from lore.run.checking.verdicts import CheckContext, judge_file  # noqa: PLC0415 - as above

        file = replace(file, optional=not file.is_named)  # agents leave empty logs behind
        result = judge_file(file, CheckContext(dated=self.dated, options=self.options, with_ledgers=True))
        if result.error is not None:
            return Ledger(corpus.show(file.path), written=written_at(file), message=result.error.message)
        return result.ledger


class LedgerMaker:
    """Makes the ledger of a recording while it is judged."""

    def __init__(self, file: Input, recording: Recording, head: bytes, rules: DatedRules) -> None:
        self._file, self._recording, self._project = file, recording, project_in(head)
        self._works: dict[str, UnloggedWork] = getattr(recording.reader, "unlogged", {})  # grows while it is read
        self._rows, self._rules = list[LedgerRow](), rules
        self._missed: dict[tuple[str | None, int | None], MissedRead] = {}  # by chain and turn
        self._origin = ""
        self._unlogged: dict[str, int] = {}  # name of the work -> place of the latest row when it was mentioned

    def add(self, verdict: TurnVerdict) -> None:
        """Add the next verdict."""
        from lore.judge.sums import make_row  # noqa: PLC0415 - as above

        row, usage = make_row(verdict, self._rules), verdict.turn.usage
        if usage is not None and usage.is_sum:
            self._cover_earlier(row, [run.model or row.model for run in usage.iterations if run.kind == RUN])
        self._rows.append(row)
        self._origin = self._origin or verdict.turn.call.inherited_from
        for name in islice(self._works, len(self._unlogged), None):
            self._unlogged[name] = len(self._rows) - 1

    def _cover_earlier(self, last: LedgerRow, models: Container[str | None]) -> None:
        """Count earlier requests of these models without usage as recorded, at no cost: that of the last has a sum."""
        nothing = None if last.spent is None else CostParts(0.0, 0.0, 0.0, 0.0, 0.0)
        self._rows = [
            replace(row, billed=True, unknown=(), spent=nothing) if not row.billed and row.model in models else row
            for row in self._rows
        ]

    def add_missed(self, findings: Iterable[Finding]) -> None:
        """Add the costs of findings about whole chains to the rows of the turns that they name."""
        for cause in findings:
            if not cause.is_break and cause.lost_tokens:
                requests = cause.evidence.requests if isinstance(cause.evidence, SharedBlock | ReadPlateau) else 1
                detail = "" if cause.evidence is None else cause.evidence.fix_detail()
                missed = MissedRead(cause.code, cause.kind, requests, cause.lost_tokens, cause.lost_dollars, detail)
                self._missed[cause.chain, cause.turn] = missed

    def ledger(self, unseen: UnrecordedParts | None) -> Ledger:
        """Return the ledger of all verdicts; `unseen` are parts of prompts that the format does not record."""
        from lore.judge.totals import UNREAD  # noqa: PLC0415 - as above

        problems = self._recording.problems
        fatal_problem = next((problem for problem in problems.kept if problem.code in UNREAD), None)
        where = "" if fatal_problem is None or fatal_problem.line is None else f" (line {fatal_problem.line})"
        rows = self._rows
        if self._missed:
            rows = [replace(row, missed=self._missed.get((row.chain, row.number))) for row in rows]
        chains = {row.chain for row in rows}
        works = defaultdict[int, list[UnloggedWork]](list)  # by place of a row
        for name, work in self._works.items():
            if name not in chains and rows:
                works[self._unlogged.get(name, len(rows) - 1)].append(work)
        if works:
            rows = [replace(row, unlogged=tuple(works.get(place, ()))) for place, row in enumerate(rows)]
        return Ledger(
            path=corpus.show(self._file.path), format=self._recording.reader.name,
            session=self._recording.state.id or "", project=self._project, written=written_at(self._file),
            bytes=self._file.size, rows=tuple(rows), problems=problems.total,
            message=None if fatal_problem is None else f"{fatal_problem.message}{where}", unseen=unseen,
            origin=self._origin,
        )  # fmt: skip


@cache
def _maker(dated: Dated, format: str) -> str:
    """Return a digest of what ledgers are made by: this program's files, by name, size and time, and the settings."""
    digest = hashlib.sha256(repr((lore.__version__, dated, format)).encode())
    paths = (
        os.path.join(folder, name) for folder, _, names in os.walk(os.path.dirname(lore.__file__)) for name in names
    )
    program = sorted(path for path in paths if path.endswith((".py", ".toml")))
    for path in [*program, *filter(None, [dated.path])]:
        status = os.stat(path)
        digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def identity_of(file: Input) -> bytes:
    """Return bytes that identify the state of a recording's files; empty: the recording has to be read.

    That is the name, size, times and number of each file; of a remote file its size and its ETag.
    """
    if file.stream or file.error is not None:
        return b""
    if filesystem.is_remote(file.path):
        return f"{file.size}.{file.tag}".encode() if file.tag else b""
    try:
        states = [
            (os.path.abspath(name), state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
            for name, state in states_of_files(file.path)
        ]
        ends = ""
        if os.name == "nt":  # where a time can be set back unseen
            with open(file.path, "rb") as data:
                both_ends = data.read(_ENDS) + filesystem.end_of(file.path, _ENDS)
            ends = hashlib.sha256(both_ends).hexdigest()
    except (OSError, ValueError):  # a session in a store has no files
        return b""
    return repr((file.written, states, ends)).encode()


def states_of_files(path: str) -> list[tuple[str, os.stat_result]]:
    """Return the files that a recording is read from, and others in its folder that change how it is read.

    Raises OSError, and ValueError for a name that no file can have.
    """
    database = path.rpartition("#")[0]
    path = path if not database or os.path.lexists(path) else database
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        return sorted((entry.path, entry.stat()) for entry in os.scandir(path))
    states = [(path, status)]
    siblings = [*companions(path), *filter(None, (database_of(path),))]
    logs = [f"{name}-wal" for name in [path, *siblings] if not name.endswith(".jsonl")]  # of databases
    for name in [*siblings, *logs]:
        with suppress(FileNotFoundError, NotADirectoryError):
            states.append((name, os.stat(name)))
    return sorted(states)


def placed(ledger: Ledger, file: Input) -> Ledger:
    """Return a ledger with the project that other files in its folder name, which may change independently."""
    if ledger.project or filesystem.is_remote(file.path):
        return ledger
    return replace(ledger, project=project_beside(file.path))


KEPT_DAYS = 60  # days that an unused ledger is kept
PATIENCE = 2.0  # seconds for which another process may write
_DAMAGE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)  # other tables, or no database
_TABLE = """create table if not exists ledgers (
    path blob primary key, maker text, identity blob, used integer, began real, size integer, ledger blob)"""


class KeptLedger(NamedTuple):
    """A ledger in the cache, encoded, and the start of its recording."""

    start: Start
    data: bytes


class LedgerCache:
    """Ledgers by path; each counts only for the `maker` and the identity of the files with which it was kept."""

    def __init__(self, file: str, maker: str, day: int) -> None:
        self._file, self._maker = os.path.abspath(file), maker
        self._day = day  # today, in days since the epoch

    def find(self, identities: Mapping[str, bytes]) -> dict[str, KeptLedger]:
        """Return the ledgers of recordings whose files are unchanged, by path.

        Marks them as used today, and deletes those that were not used for `KEPT_DAYS`.
        """
        if not os.path.exists(self._file):
            return {}
        ledgers, unmarked = dict[str, KeptLedger](), list[tuple[int, bytes]]()
        query = """select began, size, ledger, used from ledgers where path = ? and identity = ? and maker = ?
            and typeof(began) in ('real', 'null') and typeof(size) = 'integer'"""  # any column holds any type

        def look(database: sqlite3.Connection) -> None:
            for path, identity in identities.items():
                row = database.execute(query, (_key(path), identity, self._maker)).fetchone() if identity else None
                if row is not None:
                    began, size, ledger, used = row
                    ledgers[path] = KeptLedger((began, size), ledger)
                    unmarked.extend([(self._day, _key(path))] if used != self._day else [])
            if unmarked:  # as few runs write as possible
                database.executemany("update ledgers set used = ? where path = ?", unmarked)
                database.execute("delete from ledgers where used < ?", (self._day - KEPT_DAYS,))

        self._run(look)
        return ledgers

    def keep(self, entries: Sequence[tuple[str, bytes, Start, Ledger | CompactionTrial]]) -> None:
        """Keep ledgers or trials.

        Each has its path, the identity that its files had before they were read, and the start of the recording.
        """
        rows = list[tuple[object, ...]]()
        for path, identity, start, ledger in entries:
            with suppress(OverflowError):  # a recording may contain numbers that msgpack cannot encode
                rows.append((_key(path), self._maker, identity, self._day, *start, msgspec.msgpack.encode(ledger)))
        self._run(lambda database: database.executemany("replace into ledgers values (?, ?, ?, ?, ?, ?, ?)", rows))

    def _run(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Do work in one transaction, or none of it; a damaged file is deleted."""
        try:
            make_folder(os.path.dirname(self._file))
            os.close(os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600))
            with closing(sqlite3.connect(self._file, timeout=PATIENCE)) as database, database:
                database.execute(_TABLE)
                work(database)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_NOTADB) & 0xFF in _DAMAGE:
                with suppress(OSError):
                    os.unlink(self._file)
        except OSError:
            return


def _key(path: str) -> bytes:
    return os.fsencode(path if filesystem.is_remote(path) else os.path.abspath(path))
