"""Fold a session with a checkpoint: read only what was added since the last run.

In: a log and a checkpoint file. Out: what a cold fold gives, to the byte, and a new checkpoint. Rules:
what is saved is the state before the reader closes what is open, what is shown the state after it; a
checkpoint that does not fit is refused with its reason, and the log is folded from its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from io import FileIO
from typing import NamedTuple

import msgspec

from lore import __version__
from lore.errors import LoreError
from lore.model.checkpoint import save
from lore.recording import corpus
from lore.recording.base import Problems, collected_seldom
from lore.recording.opening import Options, reader_named
from lore.run import checkpoints
from lore.run.checkpoints import Checkpoint, Run, UnusableError
from lore.run.fingerprint import Digester, recognised
from lore.run.folding import Folded, LogFold, main_name


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
    if corpus.is_stream(path):
        raise LoreError(f"{corpus.show(path)} cannot be read twice: no checkpoint of it can be used",
                        hint="name a file, or leave --checkpoint out")  # fmt: skip
    if corpus.is_stored(path):
        raise LoreError(f"{corpus.show(path)} is a stored session: a checkpoint is one of a file",
                        hint="leave --checkpoint out")  # fmt: skip
    if corpus.is_same(path, checkpoint):
        raise LoreError("the checkpoint and the session are one file", hint="name another file for the checkpoint")
    with collected_seldom():
        refused = None
        try:
            known = checkpoints.load(checkpoint)
            if known is not None:
                return _resume(path, options, checkpoint, known, verify=verify)
        except UnusableError as error:
            refused = f"checkpoint {corpus.show(checkpoint)} is not used: {error.message}; the log is folded anew"
        opened = corpus.open_head(path)
        folding = LogFold(options.open(path, Problems(), subagents=True, opened=opened))
        return _fold(folding, opened.data, Digester(), checkpoint, None)._replace(refused=refused)


def _resume(path: str, options: Options, checkpoint: str, known: Checkpoint, *, verify: bool) -> Resumed:
    name = known.run.format
    if options.format not in (None, name):
        raise UnusableError(f"it was read as {name}, not as {options.format}")
    try:
        kind = reader_named(name)
        reader = kind.restore(known.reader)
    except (ValueError, RecursionError, LoreError) as error:
        raise UnusableError(f"the state of its reader ({name}) cannot be restored: {error}") from None
    try:
        with open(path, "rb", buffering=0) as file:
            digester = recognised(file, known.run.log, whole=verify)
            if isinstance(digester, str):
                raise UnusableError(digester)
            opened = corpus.Opened(b"", iter(()))
            folding = LogFold(replace(options, format=name).open(path, Problems(), subagents=True, opened=opened))
            recording = folding.recording
            recording.resume(reader, known.session.state)
            _recall(recording.problems, known.run, recording.shown)
            folding.pruned = dict.fromkeys(known.run.pruned)
            options.log(f"{recording.shown}: {known.run.log.size:,} bytes known from {corpus.show(checkpoint)}")
            return _fold(folding, _pieces(file), digester, checkpoint, known)
    except OSError as error:
        raise corpus.unreadable(path, error) from None


def _pieces(file: FileIO) -> Iterator[bytes]:
    while data := file.read(corpus.PIECE):
        yield data


def _fold(
    folding: LogFold, data: Iterator[bytes], digester: Digester, checkpoint: str, known: Checkpoint | None
) -> Resumed:
    """Fold what comes, save where that ended, then close what is open and answer."""
    recording = folding.recording
    for piece in data:
        digester.feed(piece)
        for _ in folding.take(recording.take(piece)):
            pass
    reader, state = recording.reader.state, recording.state
    run = _run(folding, digester)
    for _ in folding.take(recording.finish()):
        pass
    for _ in folding.take(recording.companions_reads()):
        pass
    written = None if known is None else known.session.written
    folded = folding.result((written or {}).get(main_name(recording.state)))
    failure = None
    try:
        checkpoints.store(checkpoint, run, reader, save(state, written), known)
    except LoreError as error:
        failure = error
    return Resumed(folded, None, failure)


def _run(folding: LogFold, digester: Digester) -> Run:
    problems = folding.recording.problems
    kept = [msgspec.structs.replace(one, file=None) for one in problems.kept]
    counts = {code: number for (code, _), number in problems.counts.items()}
    name = folding.recording.reader.name
    return Run(__version__, name, digester.fingerprint, list(folding.pruned), kept, counts)


def _recall(problems: Problems, run: Run, shown: str) -> None:
    """Put back the problems of earlier runs, under the name that the log has now."""
    problems.kept = [msgspec.structs.replace(one, file=shown) for one in run.problems]
    problems.counts.update({(code, shown): number for code, number in run.counts.items()})
