"""What commands write: files, whole or not at all and never over an input; reports of a result; events of a session.

A file is written under a temporary name in the same folder, synchronised, then renamed. Several reports share standard
output only if each consists of lines; without a report for standard output, the terminal report is written there.

Only a file that lore's own reader recognises is appended to, by whole lines or not at all. An exclusive lock is held
from before the log is read until after it was written, so that two writers neither mix nor write the same event twice.
Events are one write, synchronised before success is reported; a write that fails is undone. A log that changed while it
was read is not written to. A stored session is not written to if another writer came between: its head is taken before
it is read.
"""

from __future__ import annotations

import io
import os
import sys
from collections import ChainMap, Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from lore import files
from lore.errors import LoreError, Where, reason_of
from lore.files import relative, replaced
from lore.judge.findings import findings_of_problems
from lore.model.cause import Place
from lore.model.codes import Code, Problem
from lore.model.events import Event, encode
from lore.model.limits import RECORD_BYTES
from lore.plugins import register_plugins
from lore.recording import corpus, filesystem
from lore.recording.opening import reader_class_for
from lore.report.forms.base import REPORTS, Report
from lore.store.base import ConflictError, Head, SessionDelta, Store, UnknownSessionError, now
from lore.store.registry import address_of, is_file_of_store, load_notes, mask_url, open_existing, print_note_once
from lore.store.reserved import refuse_reserved

if TYPE_CHECKING:
    from lore.report.console import Console
    from lore.report.forms.terminal import Reported


@contextmanager
def open_output(path: str, *, force: bool, inputs: Iterable[str] = ()) -> Generator[BinaryIO]:
    """Open a file to be written. It takes its name when all is written; if that fails, nothing is left.

    Raises LoreError if it exists (unless `force`), is not a regular file, cannot be written, is one of the inputs, or
    belongs to a store that was read; also for any OSError while it is open.
    """
    filesystem.refuse_output(path)
    label = corpus.show(path)
    path = os.path.realpath(path) if os.path.islink(path) else path  # what a link names is written, and it stays
    if "\0" in path:
        raise LoreError(f"cannot write {label!r}: no file can have this name")
    if any(corpus.is_same(path, source) or is_file_of_store(source, path) for source in inputs):
        raise LoreError(f"{label} is an input of this command", hint="name another file")
    if os.path.lexists(path) and not os.path.isfile(path):
        kind = "is a folder" if os.path.isdir(path) else "is not a regular file"
        raise LoreError(f"{label} {kind}", hint="name a file, or leave it out and redirect standard output")
    if os.path.lexists(path) and not force:
        raise LoreError(f"{label} exists", hint="name another file, or overwrite it with --force")
    if os.path.lexists(path) and not os.access(path, os.W_OK):
        raise LoreError(f"{label} is read-only", hint="make it writable, or name another file")
    try:
        with suppress(FileNotFoundError):
            os.lstat(path)  # a name that no file can have is refused now, and not when all has been written
        with replaced(path) as file:
            yield file
    except OSError as error:
        hint = "name a file in a folder that can be written"
        raise LoreError(f"cannot write {label}: {reason_of(error)}", hint=hint) from None


def write_file(path: str, data: bytes, inputs: Iterable[str]) -> int:
    """Write a file (a pipe or device is not replaced) and return how many bytes. Raises LoreError."""
    if not corpus.is_stream(path):
        with open_output(path, force=True, inputs=inputs) as file:
            return file.write(data)
    try:
        with open(path, "wb") as file:
            return file.write(data)
    except OSError as error:
        raise LoreError(f"cannot write {corpus.show(path)}: {reason_of(error)}") from None


def refuse_missing_folder(path: str) -> None:
    """Raise LoreError if the folder of a file that is to be written does not exist."""
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        message = f"cannot write {corpus.show(path)}: there is no folder {corpus.show(folder)}"
        raise LoreError(message, hint="make the folder first, or name a file in another")


def refuse_recording(path: str) -> None:
    """Raise LoreError if a file that is to be written is a recording: lore never replaces one."""
    head = corpus.open_head(path).head if os.path.isfile(path) else b""
    is_sarif = b"sarif" in head[:100]  # its help texts quote members of requests
    if head and not is_sarif and reader_class_for(head, None) is not None:
        raise LoreError(f"{corpus.show(path)} is a recording", hint="name another file")


SUMMARY_LIMIT = 1024 * 1024  # bytes of a step summary: GitHub refuses a larger one


class Target(Struct, frozen=True):
    """A kind of report, and the file that it goes to; empty: standard output."""

    kind: str
    path: str = ""


_register_reports = cache(partial(register_plugins, "lore.reports", REPORTS, call=True))


def parse_targets(reports: Iterable[str], *, as_json: bool = False) -> list[Target]:
    """Parse --report and --json; without one for standard output the terminal's report comes first.

    Raises LoreError for an unknown report, one that names no file after `=`, or if two have the same target.
    """
    _register_reports()
    result = [Target("json")] if as_json else []
    for text in reports:
        kind, equals, path = text.partition("=")
        if kind not in REPORTS:
            raise LoreError(f"no report is called {kind!r}", hint="reports: " + ", ".join(REPORTS))
        if equals and not path:
            raise LoreError(f"--report {text} names no file", hint=f"--report {kind}=FILE, or --report {kind}")
        filesystem.refuse_output(path)
        result.append(Target(kind, "" if path == "-" else path))
    on_stdout = [target.kind for target in result if not target.path]
    repeated_kind = next((kind for kind, count in Counter(on_stdout).items() if count > 1), None)
    if repeated_kind is not None:
        hint = f"leave one out (--json is --report {repeated_kind})" if repeated_kind == "json" else "leave one out"
        raise LoreError(f"{repeated_kind} is asked for twice on standard output", hint=hint)
    if len(on_stdout) > 1 and not all(REPORTS[kind].can_share_stdout for kind in on_stdout):
        message = f"{' and '.join(on_stdout)} cannot share standard output"
        raise LoreError(message, hint=f"give one of them a file: --report {on_stdout[-1]}=FILE")
    files = [os.path.realpath(target.path) for target in result if target.path and not corpus.is_stream(target.path)]
    repeated_file = next((file for file, count in Counter(files).items() if count > 1), None)
    if repeated_file is not None:
        raise LoreError(f"two reports go to {corpus.show(relative(repeated_file))}", hint="give each a file of its own")
    return result if on_stdout else [Target("terminal"), *result]


def refuse_overwriting(paths: Iterable[str], settings: str | None, baseline: str | None) -> None:
    """Raise LoreError for a report (empty: standard output) without a folder, or that would replace one of two files.

    A pipe or a device is never refused.
    """
    for path in (path for path in paths if path and not corpus.is_stream(path)):
        label = corpus.show(path)
        for what, file in (("the file of the settings", settings), ("the baseline", baseline)):
            if file and (corpus.is_same(path, file) or os.path.realpath(path) == os.path.realpath(file)):
                raise LoreError(f"{label} is {what}, and no report goes there", hint="name another file")
        refuse_missing_folder(path)


def write_reports(
    result: Reported, reports: list[Target], paths: list[str], out: Console, *, verbose: bool,
    writers: Mapping[str, Report] = MappingProxyType({}),
) -> None:  # fmt: skip
    """Write all reports: files first, so that a closed pipe loses none of them.

    Raises LoreError if a report cannot be written, or would replace an input (`paths`) or any recording. `github` adds
    the report in Markdown to the job's summary. `writers` replace reports of the registry, by kind.
    """
    kinds = ChainMap(dict(writers), REPORTS)
    recordings = [path for path in paths if path != corpus.STDIN and not os.path.isdir(path)]
    for target in reports:
        if target.path:
            if not corpus.is_stream(target.path):
                refuse_recording(target.path)
            write_file(target.path, render_report(kinds[target.kind], result, verbose=verbose), recordings)
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if path and any(target.kind == "github" for target in reports):
        data = render_report(kinds["markdown"], result, verbose=verbose)
        try:
            with open(path, "ab") as file:  # other steps of the same job may have written to it
                if file.tell() + len(data) <= SUMMARY_LIMIT:  # one for which there is no room is left out
                    file.write(data)
        except OSError as error:
            raise LoreError(f"cannot write the step summary {corpus.show(path)}: {reason_of(error)}") from None
    for target in reports:
        if not target.path:
            kinds[target.kind].write(result, out, verbose=verbose)


@contextmanager
def reporting_errors(
    reports: Iterable[Target], paths: Sequence[str], make_result: Callable[..., Reported]
) -> Generator[None]:
    """Write a LoreError that ends the run into report files and annotations, too, and raise it again.

    A CI job may show nothing else. `make_result` gets `findings` and `problems`, each with the error, at the longest of
    the paths (inputs, settings, baseline) that its message names.
    """
    try:
        yield
    except LoreError as error:
        outputs = [target for target in reports if target.path or target.kind == "github"]
        if outputs:
            from lore.report.console import Console  # noqa: PLC0415 - as below

            matches = [path for path in paths if corpus.show(path) in error.message]  # one may be the end of another
            place = max(matches, key=len) if matches else next(iter(paths), os.curdir)
            problem = Problem(Code.UNREADABLE_FILE, error.message, file=corpus.show(place))
            damaged = findings_of_problems([problem], {}, Place(corpus.show(place)))
            findings = [replace(finding, fix=error.advice or finding.fix) for finding in damaged]
            out = Console(sys.stdout, colour=False, terminal=False)
            write_reports(make_result(findings=findings, problems=[problem]), outputs, [*paths], out, verbose=True)
        raise


def render_report(report: Report, result: Reported, *, verbose: bool) -> bytes:
    """Return a report as the bytes of a file."""
    from lore.report.console import Console  # noqa: PLC0415 - slow to import, and most runs write no file

    stream = io.StringIO()
    report.write(result, Console(stream, colour=False, terminal=False), verbose=verbose)
    return stream.getvalue().encode("utf-8", "backslashreplace")


PATIENCE = 10.0  # seconds to wait for another writer
HINT_AGAIN = "nothing was written: run the command again"
HINT_CONVERT = "only lore's own logs are written to: make one with `lore convert SESSION --to lore --output FILE`"

# Appends events, if there are any, once. Raises LoreError if nothing could be written.
Append: TypeAlias = Callable[[Iterable[Event]], None]


@contextmanager
def appending(path: str, *, patience: float = PATIENCE) -> Generator[Append]:
    """Lock a lore log, or open a stored session, to be read and then appended to.

    Waits `patience` seconds for another writer. Raises LoreError if the file is not a lore log, cannot be written, or
    another writer holds it for longer; the returned function ConflictError if another writer of the session was faster.
    """
    address = address_of(path)
    if address is not None:
        refuse_reserved(address.session_id)
        with closing(open_existing(address.url, print_note_once)) as store:
            notes = load_notes(store, address.session_id)
            if notes is None:
                raise UnknownSessionError(address.session_id, mask_url(address.url))
            yield partial(_append_to_session, store, address.session_id, notes.head)
        return
    if path == corpus.STDIN:
        raise LoreError("standard input cannot be written to", hint="name a lore log")
    filesystem.refuse_output(path)
    label = corpus.show(path)
    if os.path.lexists(path) and not os.path.isfile(path):
        raise LoreError(f"{label} is not a regular file", hint="name a lore log")
    from lore.formats.lore_log import LoreLog  # noqa: PLC0415 - few commands append

    if not LoreLog.recognises(corpus.open_head(path).head):  # read first: no other file is opened for writing
        raise LoreError(f"{label} is not a lore log", hint=HINT_CONVERT)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise LoreError(f"cannot write to {label}: {reason_of(error)}", where=Where(label)) from None
    try:
        if not files.lock(descriptor, patience):
            raise LoreError(f"another writer holds {label}", hint=HINT_AGAIN)
        yield partial(_append_to_log, descriptor, path, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def _append_to_session(store: Store, session_id: str, head: Head, events: Iterable[Event]) -> None:
    lines = tuple(encode(event) for event in events)
    try:
        if lines:
            store.save_delta(session_id, SessionDelta(base=head, new_events=lines, updated_at=now()))
    except ConflictError as error:
        error.hint = HINT_AGAIN
        raise


def _append_to_log(descriptor: int, path: str, size: int, events: Iterable[Event]) -> None:
    """Append to a locked log of `size` bytes; a last line without a line feed gets one first, also a torn one."""
    lines, label = [encode(event) for event in events], corpus.show(path)
    if not lines:
        return
    if max(map(len, lines)) > RECORD_BYTES:
        message = f"a record longer than {RECORD_BYTES >> 20} MiB: no reader accepts it"
        raise LoreError(message, hint="write less content")
    now_open = os.fstat(descriptor)
    try:
        now_named = os.stat(path)
    except OSError as error:
        raise corpus.unreadable(path, error) from None
    if (now_open.st_dev, now_open.st_ino) != (now_named.st_dev, now_named.st_ino):
        raise LoreError(f"{label} was replaced while it was read", hint=HINT_AGAIN)
    if now_open.st_size != size:
        raise LoreError(f"{label} was written to while it was read", hint=HINT_AGAIN)
    os.lseek(descriptor, max(0, size - 1), os.SEEK_SET)  # writing appends, whatever the position
    is_ended = os.read(descriptor, 1) in (b"\n", b"")
    data = (b"" if is_ended else b"\n") + b"".join(line + b"\n" for line in lines)
    try:
        files.append(descriptor, data, size)
    except OSError as error:
        if os.fstat(descriptor).st_size != size:
            message = f"{label} holds part of a record: a write failed during another one"
            raise LoreError(message, hint="look at its last lines") from None
        message = f"cannot write to {label}: {reason_of(error)}"
        raise LoreError(message, hint="the log is as it was", where=Where(label)) from None
