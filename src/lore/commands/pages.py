"""`--report html=PATH` and `--open`: what the commands that write pages share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lore.commands.common import cores, progress, surroundings, tell

if TYPE_CHECKING:
    from lore.model.results.overview import Spending
    from lore.recording.inputs import Input
    from lore.report.html.intros import Intro
    from lore.run.pages import PageRequest
    from lore.run.reports import Target
    from lore.run.spending.ledgers import Ledgers
    from lore.run.spending.overview import Summed

HTML = "html"


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
    from lore.run.reports import keep_apart

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


def write_spending(
    target: PageTarget, found: Summed, ledgers: Ledgers, *, redact: bool, verbose: bool, colour: bool | None
) -> None:
    """Write pages of what was spent: in one file only the sessions that cost most are read for it."""
    from lore.report.html.intros import of_overview
    from lore.run.html_report import WHOLE, is_folder
    from lore.run.pages import PageRequest

    sums = {session.name: session for session in found.period.by("session")}
    chosen = None if is_folder(target.path) else frozenset(list(sums)[:WHOLE])
    intro = of_overview(found.result, found.period.by("day"))
    request = PageRequest(ledgers.options, dated=ledgers.dated, redact=redact)
    write_pages(target, intro, found.files, request, sums=sums, chosen=chosen, verbose=verbose, colour=colour)


def write_pages(
    target: PageTarget, intro: Intro, files: list[Input], request: PageRequest, *, verbose: bool, colour: bool | None,
    sums: Mapping[str, Spending] | None = None, chosen: frozenset[str] | None = None,
    trials: Sequence[tuple[int, str]] = (),
) -> None:  # fmt: skip
    """Write pages of what a command answered and of recordings, say where they are, and open them."""
    from lore.recording import corpus
    from lore.run.html_report import HtmlReportRequest, is_folder, write_site

    site = HtmlReportRequest(intro, files, request, sums, chosen, trials)
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
