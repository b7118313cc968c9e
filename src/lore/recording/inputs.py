"""The inputs of a command: files, folders, patterns, stores and databases become a list in which each file is once.

Inputs come in the order in which they were named; those of a folder or pattern in the order of their names, sessions of
a store in that of their ids, and the files of its subagents after a session that is named. A file that is reached
twice (by two names, a link, a folder and a pattern) keeps its first place and name, and `is_named` if one of them was.
Files that are one recording together (`packed`) are listed as their folder. Files of one request body each that are
named are read as one recording, so that two files give the same answer as the same two requests in one file.
"""

from __future__ import annotations

import fnmatch
import math
import os
import re
import stat
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from typing import TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lore.errors import LoreError
from lore.formats.contents import recorded_body
from lore.formats.folders import PackHeader
from lore.model.deferred import pattern
from lore.model.times import decode_time
from lore.recording import corpus, filesystem, packed
from lore.recording.agents.companions import companions, is_companion, is_skipped, moved_to_database, session_of
from lore.recording.base import Problems, Recording, UnrecognisedError
from lore.recording.opening import Options, reader_class_for
from lore.store.registry import ignore, open_existing, print_note_once, scheme_of

T = TypeVar("T")
Start: TypeAlias = tuple[float | None, int]  # when a recording begins, and its size
UNKNOWN_START: Start = (None, 0)
_MAGIC = pattern(r"[*?\[]")
_SMALL = 256 * 1024  # bytes
_FIRST_LINE, _LEAST_LINE = 256 * 1024, 32  # bytes of a first line: those that are compared, and the least
_COMPARED = 8  # files with the same first line
_BEGIN = 64 * 1024  # bytes in which the first time of a log is looked for
_FIRST, _LONGEST_TIME = 4096, 128  # bytes that are read first; bytes of a time with its name
_TIME = re.compile(rb'"(?:timestamp|time|ts|at|\w{1,20}(?:At|_at|Time|_time))": ?("[^"\\]{8,40}"|[\d.]{9,20})')
_FETCHED = 1024 * 1024  # bytes of a remote file that is read together with others
_AT_ONCE = 16  # of them


class Input(Struct, frozen=True):
    """A file to judge, or a folder that could not be listed."""

    path: str
    is_named: bool  # the user named this very file: it is an error if it is not a recording
    size: int = 0  # bytes; 0 if unknown
    stream: bool = False  # it can be read only once, and only by this process
    optional: bool = False  # it may be no recording: named and unrecognised, or damaged in a folder
    error: LoreError | None = None  # why the folder could not be listed
    written: float | None = None  # when it was written, in seconds; None: its own time says so
    tag: str = ""  # the ETag that a remote file had when it was listed
    number: int = 0  # its place among the files of a run
    together: tuple[str, ...] = ()  # files with one request body each, read as one recording; `path` is empty then
    is_only: bool = False  # the user named this file and nothing else: an error of it ends the run


def inputs(
    paths: list[str], is_wanted: Callable[[Input], bool] | None = None, on_hidden: Callable[[str], object] = ignore, *,
    is_only: bool | None = None,
) -> list[Input]:  # fmt: skip
    """List the inputs that these paths stand for; raises LoreError if there is one path, and it stands for nothing.

    One of several paths that stands for nothing is an input with an error; `is_only=False`: the user named others, too.
    Remote files for which `is_wanted` is False are dropped while listing, so that a million old ones cost no memory.
    Hidden folders, which are not searched, are passed to `on_hidden`.
    """
    files: dict[object, Input] = {}
    is_only = len(paths) == 1 if is_only is None else is_only
    for path in paths:
        is_empty = not is_only
        try:
            for file in _inputs_of(path, on_hidden):
                is_empty = False
                key, file = _identify(file)
                if is_wanted is not None and filesystem.is_remote(file.path) and not is_wanted(file):
                    continue
                before = files.setdefault(key, replace(file, is_only=is_only and file.is_named))
                if file.is_named and not before.is_named:
                    files[key] = replace(before, is_named=True, is_only=is_only)
        except LoreError as error:
            if is_only:
                raise
            files[path] = Input(path, is_named=True, error=error)
        if is_empty and path not in files:
            files[path] = Input(path, is_named=True, error=LoreError("a folder without recordings", own=True))
    listed = list(files.values())
    if is_only and len(listed) == 1 and (error := listed[0].error) is not None:  # a folder that cannot be listed
        raise error
    moved = moved_to_database([file.path for file in listed])
    return [
        file for file in listed
        if (file.is_named or file.path not in moved)
        and (is_wanted is None or filesystem.is_remote(file.path) or is_wanted(file))
    ]  # fmt: skip


list_inputs = inputs  # the public name: `lore.recording.inputs` is this module


def fetched_ahead(files: Sequence[Input]) -> bool:
    """Return whether all files are remote and so small that fetching each takes longer than judging it."""
    sizes = [file.size for file in files if filesystem.is_remote(file.path)]
    return bool(sizes) and len(sizes) == len(files) and sum(sizes) < len(sizes) * _SMALL


def ahead(files: Sequence[Input]) -> Iterator[Input]:
    """Yield files one by one; small remote ones are fetched in groups."""
    for start in range(0, len(files), _AT_ONCE):
        group = files[start : start + _AT_ONCE]
        small = [file.path for file in group if 0 < file.size <= _FETCHED and filesystem.is_remote(file.path)]
        with filesystem.prefetch(small):  # nothing to fetch of local files
            yield from group


def _inputs_of(path: str, on_hidden: Callable[[str], object]) -> Iterator[Input]:
    if not is_pattern(path):
        yield from _inputs_at(path, on_hidden, is_named=True)
        return
    failed: list[Input] = []
    separated = path.replace(os.altsep or os.sep, os.sep)
    start = _MAGIC.search(path)
    base = path[: separated.rfind(os.sep, 0, start.start() if start else None) + 1]  # the folder where it begins
    parts = separated[len(base) :].split(os.sep)
    with filesystem.list_once(base) if "**" in path else nullcontext():
        matched = sorted(set(_match_parts(
            base, parts, lambda place, error: failed.append(Input(place, is_named=False, error=error))
        )))  # fmt: skip
        if base and not filesystem.is_folder(base):
            hint = f"there is no folder {corpus.show(base)}"
            raise LoreError(f"nothing matches {corpus.show(path)}", hint=hint, own=True)
        if not matched and not failed:
            hint = "`*` stands for one name, `**` for any folders; hidden files are omitted"
            raise LoreError(f"nothing matches {corpus.show(path)}", hint=hint, own=True)
        yield from failed
        for name in matched:
            yield from _inputs_at(name, on_hidden, is_named=False)


def _sessions_of_store(url: str) -> Iterator[Input]:
    """Yield the sessions of a store, after the reason why some of them cannot be listed."""
    from lore.store.reserved import drop_reserved  # noqa: PLC0415 - few runs name a store

    unlisted: list[str] = []
    note = print_note_once
    with closing(open_existing(url, lambda text: note(text))) as store:
        note = unlisted.append
        sessions = drop_reserved(store.list())
    if unlisted:
        yield Input(url, is_named=False, error=LoreError("; ".join(unlisted)))
    yield from (Input(f"{url}#{session.session_id}", is_named=False, size=session.size) for session in sessions)


def _inputs_at(path: str, on_hidden: Callable[[str], object], *, is_named: bool) -> Iterator[Input]:
    """Yield a file with its companions, or the files of a folder, or the sessions of a store or database."""
    path = packed.session_folder_of(path)
    match source := corpus.resolve(path):
        case corpus.Stdin():
            yield Input(path, is_named)
        case corpus.StoreSource(address=None):
            yield from _sessions_of_store(path)
        case corpus.Folder() | corpus.Remote() if filesystem.is_folder(path):
            yield from _files_in_folder(path, on_hidden)
        case _ if sessions := _sessions_in(path):
            yield from sessions
        case _:
            if is_named or not (isinstance(source, corpus.Pipe) or is_skipped(path)):
                yield Input(path, is_named)
            if is_named:  # a folder lists them anyway
                yield from (Input(companion, is_named=False) for companion in companions(path))


def _files_in_folder(path: str, on_hidden: Callable[[str], object]) -> Iterator[Input]:
    unread: list[Input] = []  # folders that could not be listed
    folder, together = "", frozenset[str]()
    for file in corpus.files_below(
        path, lambda place, error: unread.append(Input(place, is_named=False, error=error)), on_hidden
    ):
        yield from unread
        unread.clear()
        if (parent := os.path.dirname(file)) != folder:
            folder, together = parent, frozenset(packed.find_pack(parent)[1])
            if together:
                yield Input(parent, is_named=False)
        if os.path.basename(file) not in together and not is_skipped(file):
            yield from _sessions_in(file) or (Input(file, is_named=False),)
    yield from unread


def _sessions_in(path: str) -> list[Input]:
    """Return the sessions of an agent's database; none for any other file."""
    sessions = corpus.opencode().sessions_of(path) if path.endswith(".db") and corpus.opencode().is_sqlite(path) else {}
    return [Input(row.name, is_named=False, size=row.size, written=row.written) for row in sessions.values()]


def _identify(file: Input) -> tuple[object, Input]:
    """Return a key that all names of a file share, and the input with its size."""
    path = file.path
    if file.error is not None:
        return (path, "folder"), file
    if path == corpus.STDIN:
        return path, replace(file, stream=True)
    if filesystem.is_remote(path):
        if path.lower().startswith("http"):  # a web server is not asked
            return path, file
        try:
            about = filesystem.status(path)
        except OSError:  # a folder that is one recording, or a file that opening will report
            about = packed.status_of(path)
        return path, replace(file, size=about.size or 0, written=about.written, tag=about.tag)
    try:
        about = os.stat(path)
    except (OSError, ValueError):  # a session of a database, or a file that opening will report
        base, _, session = path.rpartition("#")
        return ((os.path.realpath(base), session) if os.path.isfile(base) else path), file
    key = (about.st_dev, about.st_ino) if about.st_ino else path
    if stat.S_ISDIR(about.st_mode):  # its files are one recording
        return key, replace(file, size=packed.status_of(path).size or 0)
    stream = not stat.S_ISREG(about.st_mode)
    return key, replace(file, size=0 if stream else about.st_size, stream=stream)


def is_passed_over(file: Input, error: LoreError) -> bool:
    """Return whether an input with this error is skipped and counted: it is not a recording, nor expected to be.

    Any other error of an input ends the run if the input is the only one; else the run is incomplete.
    """
    return isinstance(error, UnrecognisedError) and (file.optional or not (file.is_named or error.is_damaged))


# copies and snapshots of a log


def drop_copies(files: list[Input], options: Options) -> list[Input]:
    """Return the files without those that another one equals or begins with; these are logged.

    Of equal files the one whose path comes first remains. Equal request bodies may be a request that was sent twice.
    """
    listed = sorted(files, key=lambda file: file.path) if len(files) > 1 else []
    sizes = Counter(file.size for file in listed)
    originals: dict[tuple[int, bytes], Input] = {}  # by size and digest
    versions: dict[int, list[Input]] = defaultdict(list)  # files by their first line
    earlier = set[str]()
    for file in listed:
        if file.stream or file.size < _LEAST_LINE or not os.path.isfile(file.path):
            continue
        with suppress(OSError), filesystem.open_file(file.path) as opened:
            line = opened.readline(_FIRST_LINE)
            if sizes[file.size] > 1:
                from hashlib import file_digest  # noqa: PLC0415 - it loads OpenSSL: 2 ms

                opened.seek(0)
                digest = file_digest(opened, "sha256").digest()  # pyright: ignore[reportArgumentType]
                same = originals.setdefault((file.size, digest), file)
                if same is not file and not _is_body(file.path, options.format):
                    earlier.add(file.path)
                    options.log(f"{corpus.show(file.path)}: equal to {corpus.show(same.path)}, skipped")
                    continue
            if file.path.endswith(".jsonl") and len(line) >= _LEAST_LINE:
                versions[hash(line)].append(file)
    for group in versions.values():
        longest = sorted(group, key=lambda other: -other.size)[:_COMPARED]
        for file in group:
            longer = [other.path for other in longest if file.size < other.size]
            whole = next((path for path in longer if corpus.begins_with(path, file.path)), None)
            if whole is not None:
                earlier.add(file.path)
                options.log(f"{corpus.show(file.path)}: an earlier version of {corpus.show(whole)}, skipped")
    return [file for file in files if file.path not in earlier]


# copies of requests


def by_start(
    files: Iterable[T], file_of: Callable[[T], Input], known_starts: Mapping[str, Start] | None = None
) -> list[T]:
    """Return files in the order in which their copies of one request count: the first file holds it.

    A fork repeats requests of its parent, perhaps only from the middle on, and then its first copy cannot be compared
    with the request before it. So the file that begins first holds them: by the first time that it records, then the
    larger file, then by path. The order in which files are named makes no difference. Remote files are not opened:
    their time is that of their last change. Files whose start is known, by path, are not opened, either.
    """
    listed = list(files)
    if len(listed) < 2:  # noqa: PLR2004 - nothing to order
        return listed

    def key_of(entry: T) -> tuple[float, int, str]:
        file = file_of(entry)
        return start_key((known_starts or {}).get(file.path) or start_of(file), file.path)

    return sorted(listed, key=key_of)


def start_key(start: Start, path: str) -> tuple[float, int, str]:
    """Return the sort key of `by_start`; files without a time come last."""
    time, size = start
    return math.inf if time is None else time, -size, path


def start_of(file: Input) -> Start:
    """Return the first time that a file records (None: unknown), and its size in bytes.

    A subagent's log begins with its session's log at the earliest and has the size 0, so that it comes after that one:
    an `acompact-…` log repeats the session, and 369 of 607 logs record a later time before their first message's.
    """
    path = file.together[0] if file.together else file.path
    if file.stream or filesystem.is_remote(path) or not os.path.isfile(path):
        return file.written, file.size
    session = session_of(path) if is_companion(os.path.basename(path)) else None
    times = [_first_time(name) for name in filter(None, (path, session))]
    time = max([time for time in times if time is not None], default=None)
    return time, 0 if session is not None else os.path.getsize(path)


def _first_time(path: str) -> float | None:
    """Return the first time in a file's beginning, in seconds since the epoch; None without one or if unreadable."""
    with suppress(OSError), filesystem.open_file(path) as opened:
        head, read = opened.read(_FIRST), _FIRST
        for end in (_FIRST - _LONGEST_TIME, _BEGIN):  # most logs have a time in the first bytes
            head += opened.read(end - read) if end > read else b""
            times = (decode_time(found[1]) for found in _TIME.finditer(head) if found.start() < end)
            if (time := next((time for time in times if time is not None), None)) is not None:
                return time
    return None


# request bodies in files of their own


def join_bodies(files: list[Input], format: str | None) -> list[Input]:
    """Return the files, with those that were named and are one request body each joined to one input."""
    bodies = [file for file in files if file.is_named and not file.stream and _is_body(file.path, format)]
    if len(bodies) < 2:  # noqa: PLR2004 - there is nothing to join
        return files
    paths = tuple(file.path for file in bodies)
    joint_body = replace(bodies[0], path="", size=sum(file.size for file in bodies), together=paths)
    return [joint_body if file is bodies[0] else file for file in files if file is bodies[0] or file not in bodies]


def _is_body(path: str, format: str | None) -> bool:
    if not path.endswith(".json") or filesystem.is_remote(path):
        return False
    try:
        head = corpus.open_head(path).head
    except LoreError:
        return False
    kind = reader_class_for(head, format)
    return kind is not None and kind.name == "bodies" and recorded_body(head.strip()) is not None


def open_input(file: Input, options: Options, problems: Problems, opened: corpus.Opened | None = None) -> Recording:
    """Open an input, joined files as one, or `opened` instead; raises LoreError as `Options.open` does."""
    if not file.together:
        return options.open(file.path, problems, opened=opened, growing=False)
    headers = [PackHeader(packed.PAIRS, path, is_file=True) for path in file.together]
    opened = corpus.Opened(packed.BODIES_OPENING, packed.pack_stream("", headers))
    return replace(options, format=None).open("", problems, opened=opened, growing=False)


# patterns


def is_pattern(path: str) -> bool:
    """Return whether a name is a pattern: it has `*`, `?` or `[`, and no file or stored session has that very name."""
    if _MAGIC.search(path) is None:
        return False
    if filesystem.is_remote(path):
        return not path.lower().startswith("http") and not filesystem.is_file(path)  # `?` begins the query of a URL
    return not os.path.lexists(path) and scheme_of(path) is None


def _match_parts(base: str, parts: list[str], failed_on: corpus.OnFailure) -> Iterator[str]:
    """Yield what the parts of a pattern match in a folder (a path that ends in a separator, or is empty).

    `*`, `?` and `[…]` match within one name, `**` any number of folders, without links to folders. A hidden name is
    matched only by a part that begins with a dot.
    """
    part, *tail = parts
    if part == "**":
        yield from _match_parts(base, tail, failed_on) if tail else [base]
    elif _MAGIC.search(part) is None:
        if filesystem.exists(base + part) if part else filesystem.is_folder(base):  # no part: a separator at the end
            yield from _match_parts(base + part + os.sep, tail, failed_on) if tail else [base + part]
        return
    for entry in corpus.list_folder(base or ".", failed_on):
        is_hidden = entry.name.startswith(".")
        if part == "**":
            if not is_hidden and entry.is_dir(follow_symlinks=False):
                yield from _match_parts(base + entry.name + os.sep, parts, failed_on)
        elif (not is_hidden or part.startswith(".")) and fnmatch.fnmatch(entry.name, part):
            yield from _match_parts(base + entry.name + os.sep, tail, failed_on) if tail else [base + entry.name]


def written_at(file: Input) -> float | None:
    """Return when a recording was last written: of a folder that is one recording, its newest file."""
    if file.written is not None:
        return file.written
    try:
        if filesystem.is_remote(file.path) or not os.path.isdir(file.path):
            return filesystem.status(file.path).written
        with os.scandir(file.path) as entries:  # also files that are no part of the recording
            return max((entry.stat().st_mtime for entry in entries), default=None)
    except (OSError, ValueError):
        return None
