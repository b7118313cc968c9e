"""What commands write: files, whole or not at all and never over an input, and reports of a result.

A file is written under a temporary name in the same folder, synchronised, then renamed. Several reports share standard
output only if each consists of lines; without a report for standard output, the terminal report is written there.
"""

from __future__ import annotations

import io
import os
import sys
from collections import ChainMap, Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from lore.errors import LoreError, reason_of
from lore.files import relative, replaced
from lore.judge.findings import findings_of_problems
from lore.model.cause import Place
from lore.model.codes import Code, Problem
from lore.plugins import register_plugins
from lore.recording import corpus, filesystem
from lore.recording.opening import reader_class_for
from lore.report.forms.base import REPORTS, Report
from lore.store.registry import is_file_of_store

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
            from lore.run.spending.tables import table_forms  # noqa: PLC0415 - only for an error

            raise LoreError(f"no report is called {kind!r}", hint="reports: " + ", ".join((*REPORTS, *table_forms())))
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
