"""Fold a session with a checkpoint: read only what was added since the last run.

In: a log and a checkpoint file. Out: what a cold fold gives, to the byte, and a new checkpoint. Rules: what is saved is
the state before the reader closes what is open, what is shown the state after it; a checkpoint that does not fit is
refused with its reason (`recording.checkpoint_file`), and the log is folded from its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import msgspec

from lore import __version__
from lore.errors import LoreError
from lore.model.checkpoint import restore
from lore.recording import corpus, filesystem
from lore.recording.base import Problems, collected_seldom
from lore.recording.checkpoint_file import (
    Digester,
    LoadedCheckpoint,
    LogCheckpoint,
    UnusableError,
    load,
    recognised,
    store,
)
from lore.recording.opening import Options, reader_named
from lore.run.folding import Folded, LogFold, TurnRows

_NOT_FILES = (
    (corpus.is_stream, "cannot be read twice: no checkpoint of it can be used"),
    (corpus.is_stored, "is a stored session: a checkpoint is one of a file"),
    (filesystem.is_remote, "is remote: a checkpoint is one of a file here"),
    (corpus.is_in_database, "is a session of a database: a checkpoint is one of a file"),
)


class Resumed(NamedTuple):
    """The answer; why the checkpoint was refused, where it was; why no new one was written, where none was."""

    folded: Folded
    refused: str | None
    failure: LoreError | None


def fold_resumed(path: str, options: Options, checkpoint: str, *, verify: bool = False) -> Resumed:
    """Fold a session from its checkpoint where that fits, else from the beginning; write a new checkpoint.

    Costs O(what was added) plus reading and writing the checkpoint; `verify` reads all of the log to
    compare it; subagents' files are read anew each time. Raises LoreError where the log cannot be folded,
    or `checkpoint` is some other file.
    """
    for is_one, what in _NOT_FILES:
        if is_one(path):
            raise LoreError(f"{corpus.show(path)} {what}", hint="name a file, or leave --checkpoint out")
    if corpus.is_same(path, checkpoint):
        raise LoreError("the checkpoint and the session are one file", hint="name another file for the checkpoint")
    with collected_seldom():
        refused = None
        try:
            loaded = load(checkpoint)
            if loaded is not None:
                return _resume(path, options, checkpoint, loaded, verify=verify)
        except UnusableError as error:
            refused = f"checkpoint {corpus.show(checkpoint)} is not used: {error.message}; the log is folded anew"
        opened = corpus.open_head(path)
        folding = LogFold(options.open(path, Problems(), subagents=True, opened=opened))
        return _fold(folding, opened.data, Digester(), checkpoint)._replace(refused=refused)


def _resume(path: str, options: Options, checkpoint: str, loaded: LoadedCheckpoint, *, verify: bool) -> Resumed:
    known, name = loaded.known, loaded.known.format
    if options.format not in (None, name):
        raise UnusableError(f"it was read as {name}, not as {options.format}")
    try:
        reader = reader_named(name).restore(known.reader)
    except (ValueError, RecursionError, LoreError) as error:
        raise UnusableError(f"the state of its reader ({name}) cannot be restored: {error}") from None
    try:
        session = restore(known.session, loaded.data, options.rules.divider)
    except LoreError as error:
        raise UnusableError(error.message) from None
    try:
        with open(path, "rb") as file:
            digester = recognised(file, known.log, whole=verify)
            opened = corpus.Opened(b"", iter(()))
            folding = LogFold(replace(options, format=name).open(path, Problems(), subagents=True, opened=opened))
            recording = folding.recording
            recording.resume(reader, session)
            recording.problems.kept = [
                msgspec.structs.replace(problem, file=recording.shown) for problem in known.problems
            ]
            recording.problems.counts.update({(code, recording.shown): many for code, many in known.counts.items()})
            folding.pruned, folding.turns = dict.fromkeys(known.pruned), TurnRows(known.turns)
            options.log(f"{recording.shown}: {known.log.size:,} bytes known from {corpus.show(checkpoint)}")
            return _fold(folding, iter(lambda: file.read(corpus.PIECE), b""), digester, checkpoint, loaded)
    except OSError as error:
        raise corpus.unreadable(path, error) from None


def _fold(
    folding: LogFold, data: Iterator[bytes], digester: Digester, checkpoint: str, before: LoadedCheckpoint | None = None
) -> Resumed:
    """Fold what comes, save where that ended (behind what is saved), then close what is open and answer."""
    recording, problems = folding.recording, folding.recording.problems
    for piece in data:
        digester.feed(piece)
        folding.take_all(recording.take(piece))
    known = LogCheckpoint(
        __version__, recording.reader.name, digester.fingerprint, list(folding.pruned),
        list(folding.turns.rows),
        [msgspec.structs.replace(problem, file=None) for problem in problems.kept],
        {code: number for (code, _), number in problems.counts.items()},
        recording.reader.state,
    )  # fmt: skip
    state = recording.state
    folding.take_all(recording.finish())
    folding.take_all(recording.companions_reads())
    unchanged = before is not None and before.known.log == known.log
    failure = None if unchanged else store(checkpoint, known, state, before and before.data)
    return Resumed(folding.result(), None, failure)
