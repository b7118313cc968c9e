"""`--report html=PATH` and `--open`: what the commands that write pages share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

import typer

from lore.cli.common import cores, progress, surroundings, tell

if TYPE_CHECKING:
    from lore.model.results.overview import Overview
    from lore.recording.inputs import Input
    from lore.run.checking.check import Target
    from lore.run.html_report import HtmlReportRequest
    from lore.run.pages import PageRequest
    from lore.run.spending.overview import Summed

HTML = "html"

Page: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--report", help="html=FILE.html writes a page for a browser, html=FOLDER an index and a page for each session."
    ),
]
Open: TypeAlias = Annotated[
    bool,
    typer.Option("--open", help="Open the page in a browser; without --report html=… it lies in your cache folder."),
]


class PageTarget(NamedTuple):
    """Where a page goes (empty: standard output), and whether a browser is to open it."""

    path: str
    opens: bool


def page_target(reports: Iterable[str] | None, *, opens: bool, name: str, taken: bool = False) -> PageTarget | None:
    """Read --report and --open of a command that writes no other report; None where no page is asked for.

    `taken`: standard output has another answer. Raises LoreError, before anything is read, for what cannot be.
    """
    from lore.errors import LoreError

    given = list(reports or ())
    for text in given:
        if text.partition("=")[0] != HTML:
            raise LoreError(f"--report {text}: this command writes html alone", hint="--report html=FILE.html")
        if text.endswith("="):
            raise LoreError(f"--report {text} names no file", hint="--report html=FILE.html, or a folder")
    if len(given) > 1:
        raise LoreError("--report html is given twice", hint="leave one out")
    path = given[0].partition("=")[2] if given else None
    return _target(path, opens=opens, name=name, taken=taken)


def page_among(
    reports: list[Target], *, opens: bool, needed: Mapping[str, str], name: str
) -> PageTarget | None:  # fmt: skip
    """Take the page out of a command's reports; `needed` are files that no report replaces."""
    from lore.run.checking.check import keep_apart

    pages = [target for target in reports if target.kind == HTML]
    for target in pages:
        reports.remove(target)
        keep_apart([target._replace(path=target.path.rstrip("/\\"))], needed)
    path = pages[0].path if pages else None
    return _target(path, opens=opens, name=name, taken=bool(reports) and not all(each.path for each in reports))


def _target(path: str | None, *, opens: bool, name: str, taken: bool) -> PageTarget | None:
    if path is None and not opens:
        return None
    from lore.errors import LoreError
    from lore.run.html_report import refuse

    path = "" if path == "-" else path
    if not path and opens:
        path = _kept_at(name)
    if not path and taken:
        raise LoreError("html cannot share standard output", hint="give it a file: --report html=FILE.html")
    refuse(path or "")
    return PageTarget(path or "", opens)


def _kept_at(name: str) -> str:
    """Return where a page lies that is only opened: in the user's cache folder, for its owner alone."""
    from lore.errors import LoreError
    from lore.files import make_folder

    cache = surroundings().roots()["{cache}"]
    folder = os.path.join(cache, "lore", "pages")
    hint = "name a file: --report html=FILE.html --open"
    if not cache:
        raise LoreError("nothing says where your cache folder is", hint=hint)
    try:
        make_folder(folder)
    except OSError as error:
        raise LoreError(f"cannot make {folder}: {(error.strerror or str(error)).lower()}", hint=hint) from None
    return os.path.join(folder, f"{name}.html")


def read_twice(files: list[Input]) -> list[Input]:
    """Return inputs that are read again for pages; raises LoreError for what can be read once only."""
    from lore.errors import LoreError

    if any(file.stream for file in files):
        hint = "save it to a file: a page needs a second look"
        raise LoreError("standard input and pipes can be read once only", hint=hint)
    return files


def spending_site(target: PageTarget, result: Overview, found: Summed, request: PageRequest) -> HtmlReportRequest:
    """Return pages of what was spent: in one file only the sessions that cost most are read for it."""
    from lore.report.html.intros import of_overview
    from lore.run.html_report import WHOLE, HtmlReportRequest, is_folder

    sums = {session.name: session for session in found.period.by("session")}
    chosen = None if is_folder(target.path) else frozenset(list(sums)[:WHOLE])
    return HtmlReportRequest(of_overview(result, found.period.by("day")), found.files, request, sums, chosen)


def write_pages(target: PageTarget, site: HtmlReportRequest, *, verbose: bool, colour: bool | None) -> None:
    """Write pages, say where they are, and open them."""
    from lore.recording import corpus
    from lore.run.html_report import is_folder, write_site

    with progress(wanted=not verbose, colour=colour, what="drawing") as shown:
        size = write_site(target.path, site, jobs=cores(), progress=shown)
    if not target.path:
        sys.stdout.flush()
        return
    index = os.path.join(target.path, "index.html") if is_folder(target.path) else target.path
    if not corpus.is_stream(target.path):
        whole = " with the pages of its folder" if is_folder(target.path) else ""
        tell(f"{corpus.show(index)}: {size / 1e6:,.2f} MB{whole}")
    if target.opens:
        import webbrowser
        from pathlib import Path

        if not webbrowser.open(Path(index).absolute().as_uri()):
            tell(f"no browser could be opened: open {corpus.show(index)}")
