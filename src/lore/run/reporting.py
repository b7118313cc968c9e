"""Reports: what `--report` asks for, written to the terminal and to files.

In: a result and the kinds asked for. Out: text on standard output, files whole or not at all. Rules: a
report without a file goes to standard output, where several may stand only if each is made of lines; without
any for standard output, a person's report stands there too. Where GitHub gives a step summary and `github` is
asked for, that is written as well.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rich.console import Console

from lore.errors import LoreError
from lore.model.results import Checked
from lore.recording import corpus, plugins
from lore.recording.writing import spare_recordings, written
from lore.report.console import console
from lore.report.registry import REPORTS

SUMMARY_LIMIT = 1024 * 1024  # of a step summary: GitHub refuses one that is larger


class Target(NamedTuple):
    """A kind of report, and the file it goes to; empty: standard output."""

    kind: str
    path: str = ""


def targets(reports: Iterable[str], *, as_json: bool = False) -> list[Target]:
    """Read what --report and --json ask for; raises LoreError for what cannot be."""
    plugins.register("lore.reports", REPORTS, call=True)
    found = [Target("json")] if as_json else []
    for text in reports:
        kind, equals, path = text.partition("=")
        if kind not in REPORTS:
            raise LoreError(f"no report is called {kind!r}", hint="reports: " + ", ".join(REPORTS))
        if equals and not path:
            raise LoreError(f"--report {text} names no file", hint=f"--report {kind}=FILE, or --report {kind}")
        found.append(Target(kind, "" if path == "-" else path))
    on_stdout = [target.kind for target in found if not target.path]
    again = next((kind for place, kind in enumerate(on_stdout) if kind in on_stdout[:place]), None)
    if again is not None:
        raise LoreError(
            f"{again} is asked for twice on standard output",
            hint=f"leave one out (--json is --report {again})" if again == "json" else "leave one out",
        )
    if len(on_stdout) > 1 and not all(REPORTS[kind].mixes for kind in on_stdout):
        message = f"{' and '.join(on_stdout)} cannot share standard output"
        raise LoreError(message, hint=f"give one of them a file: --report {on_stdout[-1]}=FILE")
    paths = [os.path.realpath(target.path) for target in found if target.path and not corpus.is_stream(target.path)]
    twice = next((path for place, path in enumerate(paths) if path in paths[:place]), None)
    if twice is not None:
        raise LoreError(f"two reports go to {corpus.show(os.path.relpath(twice))}", hint="give each a file of its own")
    return found if on_stdout else [Target("terminal"), *found]


def keep_apart(reports: Iterable[Target], taken: Mapping[str, str]) -> None:
    """Raise LoreError, before anything is judged, for a report that could not be written, or only over what is needed.

    `taken` are files that no report may replace, by what they are.
    """
    for path in (target.path for target in reports if target.path and not corpus.is_stream(target.path)):
        shown = corpus.show(path)
        for what, other in taken.items():
            if corpus.is_same(path, other) or os.path.realpath(path) == os.path.realpath(other):
                raise LoreError(f"{shown} is {what}, and no report goes there", hint="name another file")
        folder = os.path.dirname(path)
        if folder and not os.path.isdir(folder):
            message = f"cannot write {shown}: there is no folder {corpus.show(folder)}"
            raise LoreError(message, hint="make the folder first, or name a file in another")


def write_files(result: Checked, reports: Iterable[Target], paths: Iterable[str], *, verbose: bool) -> None:
    """Write the reports that go to files; `paths` are the recordings, which none of them may replace."""
    for target in reports:
        if target.path:
            _write(target.path, text(target.kind, result, verbose=verbose), paths)


def text(kind: str, result: Checked, *, verbose: bool) -> bytes:
    """Return a report as it stands in a file."""
    stream = io.StringIO()
    REPORTS[kind].write(result, console(stream, colour=False, terminal=False), verbose=verbose)
    return stream.getvalue().encode("utf-8", "backslashreplace")


def _write(path: str, data: bytes, paths: Iterable[str]) -> None:
    if not corpus.is_stream(path):
        spare_recordings(path)
        with written(path, force=True, inputs=[path for path in paths if path != corpus.STDIN]) as file:
            file.write(data)
        return
    try:  # a pipe or a device keeps its name
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise LoreError(f"cannot write {corpus.show(path)}: {(error.strerror or str(error)).lower()}") from None


def write_here(result: Checked, reports: Iterable[Target], out: Console, *, verbose: bool) -> None:
    """Write the reports that go to standard output."""
    for target in reports:
        if not target.path:
            REPORTS[target.kind].write(result, out, verbose=verbose)


def step_summary(result: Checked, reports: Iterable[Target], environment: Mapping[str, str], *, verbose: bool) -> None:
    """Add the report to GitHub's step summary, where there is one and `github` is asked for."""
    path = environment.get("GITHUB_STEP_SUMMARY")
    if not path or not any(target.kind == "github" for target in reports):
        return
    data = text("markdown", result, verbose=verbose)
    try:
        with open(path, "ab") as file:  # other steps of the same job may have written to it
            if file.tell() + len(data) <= SUMMARY_LIMIT:
                file.write(data)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise LoreError(f"cannot write the step summary {corpus.show(path)}: {reason}") from None


def at_once(reports: Iterable[Target]) -> list[str]:
    """Name the kinds that cannot be written while a recording grows."""
    return [target.kind for target in reports if target.path or target.kind not in ("terminal", "json")]
