"""Write pages: `--report html=PATH`, one page or a folder of them.

In: what a command answered (an `Intro`), the sessions that it is about. Out: files. Rules: a name that ends in .html or
.htm, a stream or standard output is one page, any other a folder: `index.html`, and a page for each session below
`sessions/`, named by a digest, written as they are made; they share a style, `lore.css`. One page holds the sessions
that lost most, whole, up to `WHOLE` of them and `MOST` bytes; the others are rows. Pages of a former run are replaced,
and nothing else is: no recording, and no file that lore did not write. Sessions are read several at a time.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import NamedTuple

from markupsafe import Markup
from msgspec.structs import replace

from lore.errors import LoreError
from lore.model.results.overview import Spending
from lore.recording import corpus
from lore.recording.base import load_plugins
from lore.recording.inputs import Input
from lore.report.html.blocks import PageBlock
from lore.report.html.intros import Intro, ListedSession, Weight, list_block, row_of
from lore.report.html.page import STYLE, page, session_body, style_sheet
from lore.report.html.session import view_of
from lore.report.plain import counted
from lore.run.checking.pool import ProcessPool
from lore.run.compaction import earlier_compaction
from lore.run.outputs import open_output, refuse_recording
from lore.run.pages import PageRequest, page_of, sessions_of
from lore.store.registry import ignore

WHOLE = 20  # sessions in one page
MOST = 8 * 1024 * 1024  # bytes of recordings in one page: with more, each session has a page of its own
SMALL = 8 * 1024 * 1024  # bytes of recordings: starting processes would cost more than it saves
_ENDINGS = (".html", ".htm")
_GENERATOR, _STYLE_BEGIN = b'<meta name="generator" content="lore ', "/* the style of lore's pages */\n"
_BELOW = "sessions"
Progress = Callable[[int, int], None]
Trials = Sequence[tuple[int, str]]


class HtmlReportRequest(NamedTuple):
    """What to write: `files` are read for pages; `sums` say what sessions came to where the command counts otherwise.

    `chosen` are the paths that get a page of their own where not all do; `trials` are of a policy that was tried on
    the one session.
    """

    intro: Intro
    files: list[Input]
    request: PageRequest
    sums: Mapping[str, Spending] | None = None
    chosen: frozenset[str] | None = None
    trials: Trials = ()


class _Made(NamedTuple):
    """A session in the list, and its markup: a whole page in a folder, else a part of one."""

    row: ListedSession
    text: str


def is_folder(path: str) -> bool:
    """Tell whether pages are written to a folder of this name."""
    return bool(path) and not path.lower().endswith(_ENDINGS) and not corpus.is_stream(path)


def refuse(path: str) -> None:
    """Raise LoreError, before anything is read, where pages could not be written, or would replace what is no page."""
    if not path or corpus.is_stream(path):
        return
    shown, folder = corpus.show(path), os.path.dirname(path.rstrip("/\\"))
    if folder and not os.path.isdir(folder):
        message = f"cannot write {shown}: there is no folder {corpus.show(folder)}"
        raise LoreError(message, hint="make the folder first, or name a file in another")
    if not is_folder(path):
        refuse_recording(path)
        if os.path.isdir(path):
            raise LoreError(f"{shown} is a folder", hint="name a page FILE.html, or a folder without that ending")
        return
    if os.path.lexists(path) and not os.path.isdir(path):
        raise LoreError(f"{shown} is a file", hint="name a page FILE.html, or a folder that is none yet")
    for name, mark in (("index.html", _GENERATOR), (STYLE, _STYLE_BEGIN.encode())):
        found = os.path.join(path, name)
        if os.path.lexists(found) and not _holds(found, mark):
            raise LoreError(f"{corpus.show(found)} is not lore's", hint="name another folder")


def _holds(path: str, mark: bytes) -> bool:
    """Tell whether a mark stands at the beginning of a file."""
    try:
        with open(path, "rb") as file:
            return mark in file.read(4096)
    except OSError:
        return False


def write_site(path: str, site: HtmlReportRequest, *, jobs: int = 1, progress: Progress | None = None) -> int:
    """Write pages to a path (empty: standard output) and return how many bytes they have."""
    load_plugins()
    files = sessions_of(site.files)
    recordings = [file.path for file in files if not file.stream and os.path.isfile(file.path)]
    if is_folder(path):
        return _write_folder(path, site, _made(files, site, folder=True, jobs=jobs, progress=progress), recordings)
    text = _one_page(site, _made(files, site, folder=False, jobs=jobs, progress=progress))
    if path:
        return _write(path, text, recordings)
    sys.stdout.write(text)
    return len(text.encode())


def _write_folder(path: str, site: HtmlReportRequest, sessions: Generator[_Made], recordings: Sequence[str]) -> int:
    for folder in (path, *([os.path.join(path, _BELOW)] if site.files else [])):
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            message = f"cannot make the folder {corpus.show(folder)}: {(error.strerror or str(error)).lower()}"
            raise LoreError(message, hint="name another folder") from None
    rows: list[ListedSession] = []
    done = _write(os.path.join(path, STYLE), _STYLE_BEGIN + style_sheet(), recordings)
    with closing(sessions):
        for made in sessions:
            done += _write(os.path.join(path, made.row.href), made.text, recordings)
            rows.append(made.row)
    intro = site.intro
    listed = _summed(rows, site)
    blocks = [*intro.blocks, *([list_block(listed)] if listed else [])]
    text = page(intro.title, heading=intro.heading, lead=intro.lead, blocks=blocks, closing=intro.closing, style=STYLE)
    return done + _write(os.path.join(path, "index.html"), text, recordings)


def _one_page(site: HtmlReportRequest, sessions: Generator[_Made]) -> str:
    """Return one page: sessions that lost most are in it whole, the others as rows."""
    rows: list[ListedSession] = []
    kept: list[tuple[Weight, int, _Made]] = []
    with closing(sessions):
        for number, made in enumerate(sessions):
            rows.append(made.row)
            heapq.heappush(kept, (made.row.weight, -number, made))
            while len(kept) > 1 and (len(kept) > WHOLE or sum(len(each.text) for *_, each in kept) > MOST):
                heapq.heappop(kept)
    whole = [made for *_, made in sorted(kept, reverse=True)]
    linked = {made.row.href for made in whole}
    rows = [row if row.href in linked else row._replace(href="") for row in _summed(rows, site)]
    blocks = [*site.intro.blocks, *([] if len(rows) < 2 else [list_block(rows)])]  # noqa: PLR2004
    if len(whole) < len(rows):
        left = f"{counted(len(rows) - len(whole), 'session')} stand in the list alone"
        blocks.append(PageBlock(lines=(f"{left}: --report html=FOLDER writes a page for each",)))
    intro = site.intro
    bodies = [Markup(made.text) for made in whole]  # noqa: S704 - made of templates
    return page(
        intro.title, heading=intro.heading, lead=intro.lead, blocks=blocks, bodies=bodies, closing=intro.closing
    )


def _summed(rows: Sequence[ListedSession], site: HtmlReportRequest) -> list[ListedSession]:
    """Return rows with the sums of the command that lists them; sessions that were not read have rows of sums alone."""
    if site.sums is None:
        return list(rows)
    known = {row.path: row for row in rows}
    return [
        known[path]._replace(spending=sums)
        if path in known
        else ListedSession(path, spending=sums, title=sums.title or "")
        for path, sums in site.sums.items()
    ]


def _made(
    files: Sequence[Input], site: HtmlReportRequest, *, folder: bool, jobs: int, progress: Progress | None
) -> Generator[_Made]:  # fmt: skip
    """Yield each session that has a page, in the order of the files."""
    chosen = [file for file in files if site.chosen is None or corpus.show(file.path) in site.chosen]
    total, done = sum(file.size for file in chosen), 0
    options = replace(site.request.options, log=ignore)
    work = partial(
        _session, request=site.request._replace(options=options), folder=folder, alone=len(chosen) == 1,
        trials=site.trials,
    )  # fmt: skip
    able = min(jobs, sum(not file.stream for file in chosen)) if total >= SMALL else 1
    results = ProcessPool(able, work, work).results(chosen) if able > 1 else (work(file) for file in chosen)
    with closing(results):
        for file, made in zip(chosen, results, strict=True):
            done += file.size
            if progress is not None:
                progress(done, total)
            if made is not None:
                yield made


def _session(file: Input, *, request: PageRequest, folder: bool, alone: bool, trials: Trials) -> _Made | None:
    """Return a session's row and markup; None where the file is no recording."""
    session = page_of(file, request)
    if session is None:
        return None
    if alone and not trials and session.message is None:
        spending, options = session.spending, request.options
        found = earlier_compaction(
            file.path, spending.dollars, spending.largest_prompt_tokens, options, request.dated.rules()
        )
        session = replace(session, earlier=found)
    name = hashlib.sha256(os.path.abspath(file.path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    row = row_of(session)
    if folder:
        view = view_of(session, trials)
        text = page(
            view.name, bodies=[session_body(view, trials=bool(trials))], back="../index.html", style=f"../{STYLE}"
        )
        return _Made(row._replace(href=f"{_BELOW}/{name}.html"), text)
    view = view_of(session, trials, key="" if alone else f"{name[:8]}-")
    text = str(session_body(view, folded="" if alone else f"s{name[:8]}", trials=bool(trials)))
    return _Made(row._replace(href="" if alone else f"#s{name[:8]}"), text)


def _write(path: str, text: str, recordings: Sequence[str]) -> int:
    data = text.encode("utf-8", "backslashreplace")
    if corpus.is_stream(path):  # a pipe or a device keeps its name
        try:
            with open(path, "wb") as file:
                return file.write(data)
        except OSError as error:
            raise LoreError(f"cannot write {corpus.show(path)}: {(error.strerror or str(error)).lower()}") from None
    with open_output(path, force=True, inputs=recordings) as file:
        return file.write(data)
