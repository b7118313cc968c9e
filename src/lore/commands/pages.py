"""`--report html=PATH` and `--open`: where a command writes its page, and the writing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lore.commands.common import count_cores, progress, surroundings, tell
from lore.errors import LoreError, reason_of
from lore.files import make_folder

if TYPE_CHECKING:
    from lore.model.results.page import PageSession
    from lore.recording.inputs import Input
    from lore.report.html.blocks import Intro
    from lore.run.checking.verdicts import CheckContext
    from lore.run.outputs import Target
    from lore.run.spending.ledgers import Ledgers
    from lore.run.spending.overview import SpendingSums

HTML = "html"


class PageTarget(Struct, frozen=True):
    """Where a page goes."""

    path: str  # empty: standard output
    opens: bool  # a browser opens it


def page_target(reports: Iterable[str] | None, *, opens: bool, name: str, in_use: bool = False) -> PageTarget | None:
    """Return the target of --report and --open of a command that writes no other report; None without a page.

    `in_use`: standard output has another answer. Raises LoreError if the target cannot be written.
    """
    texts = list(reports or ())
    for text in texts:
        if text.partition("=")[0] != HTML:
            raise LoreError(f"--report {text}: this command writes html alone", hint="--report html=FILE.html")
        if text.endswith("="):
            raise LoreError(f"--report {text} names no file", hint="--report html=FILE.html, or a folder")
    _refuse_second(texts)
    path = texts[0].partition("=")[2] if texts else None
    return _target(path, opens=opens, name=name, in_use=in_use)


def page_among(
    reports: list[Target], *, opens: bool, protected: Mapping[str, str], name: str
) -> PageTarget | None:  # fmt: skip
    """Remove the page from a command's reports and return its target.

    Raises LoreError for a report that cannot be written, or that would replace a file of `protected`.
    """
    from lore.run.outputs import refuse_overwriting

    pages = [target for target in reports if target.kind == HTML]
    _refuse_second(pages)
    for target in pages:
        reports.remove(target)
    refuse_overwriting([*(replace(target, path=target.path.rstrip("/\\")) for target in pages), *reports], protected)
    path = pages[0].path if pages else None
    return _target(path, opens=opens, name=name, in_use=bool(reports) and not all(report.path for report in reports))


def _refuse_second(pages: Sequence[object]) -> None:
    if len(pages) > 1:
        raise LoreError("--report html is given twice", hint="leave one out")


def _target(path: str | None, *, opens: bool, name: str, in_use: bool) -> PageTarget | None:
    if path is None and not opens:
        return None
    from lore.run.pages import refuse_target

    path = "" if path in (None, "-") else path
    if not path and opens:  # in the user's cache folder, readable by its owner alone
        cache, hint = surroundings().roots()["{cache}"], "name a file: --report html=FILE.html --open"
        folder = os.path.join(cache, "lore", "pages")
        if not cache:
            raise LoreError("no cache folder is known", hint=hint)
        try:
            make_folder(folder)
        except OSError as error:
            raise LoreError(f"cannot make {folder}: {reason_of(error)}", hint=hint) from None
        path = os.path.join(folder, f"{name}.html")
    if not path and in_use:
        raise LoreError("html cannot share standard output", hint="give it a file: --report html=FILE.html")
    refuse_target(path)
    return PageTarget(path, opens)


def require_rereadable(files: list[Input]) -> list[Input]:
    """Return the inputs, which are read a second time for pages; raises LoreError if one can be read only once."""
    if any(file.stream for file in files):
        hint = "save it to a file: a page needs a second look"
        raise LoreError("standard input and pipes can be read once only", hint=hint)
    return files


def write_spending(
    target: PageTarget, spending: SpendingSums, ledgers: Ledgers, *, redact: bool, verbose: bool, colour: bool | None
) -> None:
    """Write pages about costs; a single page shows only the costliest sessions in full."""
    from lore.model.codes import CODES
    from lore.model.results.page import PageSession
    from lore.report.html.answers import introduce_overview
    from lore.report.redacted import digest
    from lore.report.sentences.spending import short_of
    from lore.run.checking.verdicts import CheckContext

    listed: dict[str, PageSession] = {}
    for sums in spending.period.by("session"):
        first, losses = spending.period.first[sums.name], spending.period.losses[sums.name]
        causes = sorted(losses, key=lambda cause: losses[cause], reverse=True)
        title, project = ("", digest(first.project)) if redact else (sums.title or "", first.project)
        listed[sums.name] = PageSession(
            sums.name, "", project, {}, sums, [], [], title=title, began=first.at,
            codes=tuple(dict.fromkeys(code for code, _ in causes)),
            leading=next((short_of(code, CODES[code].name, kind) for code, kind in causes), ""),
        )  # fmt: skip
    intro = introduce_overview(spending.result, spending.period.by("day"))
    context = CheckContext(options=ledgers.options, dated=ledgers.dated, redact=redact)
    write_pages(target, intro, spending.files, context, listed=listed, verbose=verbose, colour=colour)


def write_pages(
    target: PageTarget, intro: Intro, files: list[Input], context: CheckContext, *, verbose: bool, colour: bool | None,
    cache: str | None = None, listed: Mapping[str, PageSession] | None = None,
) -> None:  # fmt: skip
    """Write pages of a command's answer and of recordings, report their path, and open them."""
    from lore.recording import corpus
    from lore.run.pages import is_folder, write_report

    with progress(is_on=not verbose, colour=colour, what="drawing") as update:
        size = write_report(
            target.path, intro, files, context, cache=cache, listed=listed, jobs=count_cores(), progress=update
        )
    if not target.path:
        sys.stdout.flush()
        return
    index = os.path.join(target.path, "index.html") if is_folder(target.path) else target.path
    if not corpus.is_stream(target.path):
        suffix = " with the pages of its folder" if is_folder(target.path) else ""
        tell(f"{corpus.show(index)}: {size / 1e6:,.2f} MB{suffix}")
    if target.opens:
        import webbrowser
        from pathlib import Path

        if not webbrowser.open(Path(index).absolute().as_uri()):
            tell(f"no browser could be opened: open {corpus.show(index)}")
