"""What is to be judged: files, folders and patterns to inputs, each file once.

In: the paths of a command line. Out: inputs in the order in which they were named, the files of a folder
or pattern in the order of their names, the sessions of a store in that of their ids; behind a session that is
named, its subagents' files. Rules: a file that is reached twice (by two names, a link, a folder and a pattern)
keeps its first place and name, and counts as named if one of them named it; files that are one recording
together (`packed`) are the folder that they lie in, beside its others; a pattern that matches nothing is an
error, one that matches a folder stands for the files below it.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from typing import NamedTuple, TypeAlias, TypeVar

from lore.errors import LoreError
from lore.files import relative
from lore.model.cause import Place
from lore.recording import corpus, filesystem, packed
from lore.recording.agents.companions import companions, is_superseded
from lore.store.registry import is_store, open_existing, print_note_once, scheme_of
from lore.store.reserved import drop_reserved

_MAGIC = re.compile(r"[*?\[]")
_DATABASE = ".db"
_SMALL = 256 * 1024  # bytes
_FETCHED = 1024 * 1024  # bytes of a remote file that is read with others at the same time
_AT_ONCE = 16  # of them
Failed: TypeAlias = Callable[[str, LoreError], None]  # takes a folder that cannot be listed, and why

T = TypeVar("T")


class Input(NamedTuple):
    """A file to judge, or a folder that could not be listed (`error`).

    `named`: the user asked for this very file, so that it is an error where it is no recording, unless
    `optional`. `size` in bytes, 0 where it is unknown; `stream`: it can be read only once, and only by this
    process. `written` is when it last was, in seconds, where that is not the time of a file here; `tag` is the ETag of
    a remote one as it was listed. `number` is its place among the files of a run.
    """

    path: str
    named: bool
    size: int = 0
    stream: bool = False
    optional: bool = False
    error: LoreError | None = None
    written: float | None = None
    tag: str = ""
    number: int = 0


def inputs(paths: list[str], wanted: Callable[[Input], bool] | None = None) -> list[Input]:
    """List what these paths stand for, as far as it is `wanted`; raises LoreError for a pattern that matches nothing.

    What is remote and not wanted is left out at once: a listing of a million costs no memory for what is old.
    """
    found: dict[object, Input] = {}
    for path in paths:
        for file in _inputs_of(path):
            key, file = _identified(file)
            if wanted is not None and filesystem.is_remote(file.path) and not wanted(file):
                continue
            before = found.setdefault(key, file)
            if file.named and not before.named:
                found[key] = before._replace(named=True)
    every = without_taken_over(list(found.values()), lambda file: file)
    return [file for file in every if wanted is None or filesystem.is_remote(file.path) or wanted(file)]


list_inputs = inputs  # the public name: `lore.recording.inputs` is this module


def fetched_ahead(files: Sequence[Input]) -> bool:
    """Tell whether files are remote and so small that waiting for each takes longer than judging it."""
    sizes = [file.size for file in files if filesystem.is_remote(file.path)]
    return bool(sizes) and len(sizes) == len(files) and sum(sizes) < len(sizes) * _SMALL


def ahead(files: Sequence[Input]) -> Iterator[Input]:
    """Yield files one by one; small remote ones are read in groups, at the same time."""
    if not any(filesystem.is_remote(file.path) for file in files):
        yield from files
        return
    for start in range(0, len(files), _AT_ONCE):
        group = files[start : start + _AT_ONCE]
        small = [file.path for file in group if 0 < file.size <= _FETCHED and filesystem.is_remote(file.path)]
        with filesystem.fetched(small):
            yield from group


def without_taken_over(found: list[T], input_of: Callable[[T], Input]) -> list[T]:
    """Leave out what an agent took over into a database that is among the inputs, unless it is named itself."""
    if not any("#" in input_of(entry).path for entry in found):
        return found
    left = corpus.opencode().taken_over(input_of(entry).path for entry in found)
    return [entry for entry in found if input_of(entry).named or input_of(entry).path not in left]


def _inputs_of(path: str) -> Iterator[Input]:
    if is_store(path) and not corpus.is_stored(path):
        yield from _stored(path)
        return
    if path == corpus.STDIN or not is_pattern(path):
        yield from _below(path, named=True)
        return
    failed: list[Input] = []
    with filesystem.listed(fixed(path)) if "**" in path else nullcontext():
        matched = matches(path, lambda place, error: failed.append(Input(place, named=False, error=error)))
        if not matched and not failed:
            hint = "quote it, so that lore reads it: `*` is one name, `**` any folders; hidden names are left out"
            raise LoreError(f"nothing matches {corpus.show(path)}", hint=hint)
        yield from failed
        for name in matched:
            yield from _below(name, named=False)


def _stored(url: str) -> Iterator[Input]:
    """Yield the sessions of a store, and what it says of those that it cannot list, which are not judged."""
    unlisted: list[str] = []
    tell = print_note_once
    with closing(open_existing(url, lambda text: tell(text))) as store:
        tell = unlisted.append
        sessions = drop_reserved(store.list())
    if unlisted:
        yield Input(url, named=False, error=LoreError("; ".join(unlisted)))
    yield from (Input(f"{url}#{session.session_id}", named=False, size=session.size) for session in sessions)


def _below(path: str, *, named: bool) -> Iterator[Input]:
    """Yield a file, or the files below a folder and what could not be listed, where it was met."""
    path = packed.task_of(path)
    if path == corpus.STDIN or not filesystem.is_folder(path):
        if path.endswith(_DATABASE) and (sessions := _sessions_in(path)):
            yield from sessions
            return
        if named or not (corpus.is_special(path) or is_superseded(path)):
            yield Input(path, named)
        if named and path != corpus.STDIN:  # in a folder they are met anyway
            yield from (Input(companion, named=False) for companion in companions(path))
        return
    failed: list[Input] = []
    folder, together = "", frozenset[str]()
    for file in corpus.files_below(path, lambda place, error: failed.append(Input(place, named=False, error=error))):
        yield from failed
        failed.clear()
        if (parent := os.path.dirname(file)) != folder:
            folder, together = parent, frozenset(packed.members(parent))
            if together:
                yield Input(parent, named=False)
        if os.path.basename(file) not in together and not is_superseded(file):
            sessions = _sessions_in(file) if file.endswith(_DATABASE) else []
            yield from sessions or (Input(file, named=False),)
    yield from failed


def _sessions_in(path: str) -> list[Input]:
    """Return the sessions of an agent's database, each an input of its own; none where it is no such database."""
    sessions = (corpus.opencode().sessions_of(path) or []) if corpus.opencode().is_sqlite(path) else []
    return [
        Input(f"{path}#{session.id}", named=False, size=session.size, written=session.written) for session in sessions
    ]


def _identified(file: Input) -> tuple[object, Input]:
    """Return what a file is known by, whatever its names, and the input with its size."""
    if file.error is not None:
        return (file.path, "folder"), file
    if file.path == corpus.STDIN:
        return file.path, file._replace(stream=True)
    try:
        if filesystem.is_remote(file.path):
            return file.path, _known(file)
        about = os.stat(file.path)
    except (OSError, ValueError):  # a session of a database, else let opening it say what is wrong
        base, _, session = file.path.rpartition("#")
        return ((os.path.realpath(base), session) if os.path.isfile(base) else file.path), file
    if os.path.isdir(file.path):  # what it holds is one recording
        return (about.st_dev, about.st_ino), file._replace(size=packed.size_of(file.path))
    stream = corpus.is_stream(file.path)
    key = (about.st_dev, about.st_ino) if about.st_ino else file.path
    return key, file._replace(size=0 if stream else about.st_size, stream=stream)


def _known(file: Input) -> Input:
    """Return a remote input with what is known of it; of a web server's, nothing is, and nobody is asked."""
    if file.path.lower().startswith("http"):
        return file
    try:
        about = filesystem.status(file.path)
    except OSError:  # a folder that is one recording, else let opening it say what is wrong
        members = [filesystem.status(os.path.join(file.path, name)) for name in packed.members(file.path)]
        times = [about.written for about in members if about.written is not None]
        return file._replace(size=sum(about.size or 0 for about in members), written=max(times, default=None))
    return file._replace(size=about.size or 0, written=about.written, tag=about.tag)


# patterns


def is_pattern(path: str) -> bool:
    """Tell whether a name is a pattern: it has `*`, `?` or `[`, and no file or stored session has that very name."""
    if filesystem.is_remote(path):
        web = path.lower().startswith("http")  # a `?` begins its query
        return not web and _MAGIC.search(path) is not None and not filesystem.is_file(path)
    return _MAGIC.search(path) is not None and not os.path.lexists(path) and scheme_of(path) is None


def matches(pattern: str, failed_on: Failed) -> list[str]:
    """Return the files and folders that a pattern names, sorted.

    `*`, `?` and `[…]` match within one name, `**` any number of folders, links to folders not among
    them; a hidden name is matched only by one that begins with a dot. Cost: the folders that the pattern may lie
    in, each listed once a part.
    """
    base = fixed(pattern)
    parts, found = pattern.replace(os.altsep or os.sep, os.sep)[len(base) :].split(os.sep), {base}
    for number, part in enumerate(parts, 1):
        found = {name for base in sorted(found) for name in _step(base, part, failed_on)}
        if number < len(parts):
            found = {os.path.join(name, "") for name in found}
    return sorted(found)


def fixed(pattern: str) -> str:
    """Return the folder that a pattern begins in, with a separator at its end; empty for the current one."""
    start = _MAGIC.search(pattern)
    return pattern[: pattern[: start.start() if start else None].replace(os.altsep or os.sep, os.sep).rfind(os.sep) + 1]


def _step(base: str, part: str, failed_on: Failed) -> Iterator[str]:
    """Follow one part of a pattern from a folder (a path that ends in a separator, or nothing)."""
    if part == "**":
        yield from _folders(base, failed_on)
    elif _MAGIC.search(part):
        for entry in _entries(base, failed_on):
            if (part.startswith(".") or not entry.name.startswith(".")) and fnmatch.fnmatch(entry.name, part):
                yield base + entry.name
    elif (
        filesystem.exists(base + part) if part else filesystem.is_folder(base)
    ):  # a separator at the end: folders are meant
        yield base + part


def _folders(base: str, failed_on: Failed) -> Iterator[str]:
    """Yield a folder and all below it, as paths that end in a separator."""
    waiting = [base]
    while waiting:
        folder = waiting.pop()
        yield folder
        waiting.extend(
            folder + entry.name + os.sep
            for entry in _entries(folder, failed_on)
            if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
        )


def _entries(folder: str, failed_on: Failed) -> list[filesystem.FolderEntry | os.DirEntry[str]]:
    """List a folder; what is none has nothing in it."""
    found: list[filesystem.FolderEntry | os.DirEntry[str]] = []
    if folder and not filesystem.is_folder(folder):
        return found
    try:
        found.extend(filesystem.entries(folder or "."))  # keeps what came before an error
    except OSError as error:
        failed_on(folder, corpus.unreadable(folder, error))
    return found


# places


def place_of(path: str, root: str) -> Place:
    """Return where a file's findings are reported; its key is relative to `root`, the current folder if empty."""
    return Place(corpus.show(path), key_of(path, root))


def key_of(path: str, root: str) -> str:
    """Return a path relative to a folder, its parts joined by `/`; links are not followed.

    A stored session keeps its name.
    """
    if path == corpus.STDIN or filesystem.is_remote(path) or corpus.is_stored(path):
        return corpus.show(path)
    return corpus.show(relative(path, root).replace(os.sep, "/"))


def path_of(key: str, root: str) -> str:
    """Return the path that a key stands for."""
    if filesystem.is_remote(key):
        return key
    return os.path.join(root, *key.split("/"))
