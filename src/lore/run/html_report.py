"""Write pages: one file, or a folder with `index.html` and a page for each session.

A name that ends in .html or .htm, a stream or standard output is one page, any other name is a folder; its pages of
sessions are in `sessions/`, named by a digest of the path, and written as they are made. One page shows the sessions
that lost most in full, and lists the others. Only pages that lore wrote are replaced.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from lore.errors import LoreError
from lore.judge.sums import rebilled_dollars, rebilled_tokens
from lore.model.results.page import PageSession
from lore.recording import corpus
from lore.recording.base import load_plugins
from lore.recording.inputs import Input
from lore.report.html.blocks import Intro
from lore.report.html.page import PageContent, render_page
from lore.report.html.sessions import name_of, view_session
from lore.run.checking.pool import ProcessPool
from lore.run.checking.verdicts import CheckContext
from lore.run.outputs import open_output, refuse_recording
from lore.run.pages import list_sessions, read_session
from lore.store.registry import ignore

IN_FULL = 20  # sessions in one page
MOST_TURNS = 50_000  # of them all: about 8 MB
SMALL = 8 * 1024 * 1024  # bytes of recordings: starting processes would cost more than it saves
_MARK = b'<meta name="generator" content="lore '
Progress: TypeAlias = Callable[[int, int], None]
Listed: TypeAlias = Mapping[str, PageSession]


def is_folder(path: str) -> bool:
    """Return whether pages are written to a folder of this name."""
    return bool(path) and not path.lower().endswith((".html", ".htm")) and not corpus.is_stream(path)


def refuse_target(path: str) -> None:
    """Raise LoreError if pages cannot be written to a path, or would replace something that lore did not write."""
    if not path or corpus.is_stream(path):
        return
    shown, parent = corpus.show(path), os.path.dirname(path.rstrip("/\\"))
    if parent and not os.path.isdir(parent):
        message = f"cannot write {shown}: there is no folder {corpus.show(parent)}"
        raise LoreError(message, hint="make the folder first, or name a file in another")
    if not is_folder(path):
        refuse_recording(path)
        if os.path.isdir(path):
            raise LoreError(f"{shown} is a folder", hint="name a page FILE.html, or a folder without that ending")
        return
    if os.path.lexists(path) and not os.path.isdir(path):
        raise LoreError(f"{shown} is a file", hint="name a page FILE.html, or a new folder")
    index = os.path.join(path, "index.html")
    if os.path.lexists(index) and not _is_page(index):
        raise LoreError(f"{corpus.show(index)} is not lore's", hint="name another folder")


def _is_page(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return _MARK in file.read(4096)
    except OSError:
        return False


def write_report(
    path: str, intro: Intro, files: Sequence[Input], context: CheckContext, *, cache: str | None = None,
    listed: Listed | None = None, jobs: int = 1, progress: Progress | None = None,
) -> int:  # fmt: skip
    """Write pages to a path (empty: standard output) and return how many bytes they have.

    `listed` are the sessions that the command lists, by path; None: those that are read. They keep their sums. `cache`
    is the one to predict; None: the cache that served each turn.
    """
    load_plugins()
    sessions = list_sessions(files)
    if listed is not None and not is_folder(path):
        in_full = set(list(listed)[:IN_FULL])
        sessions = [file for file in sessions if corpus.show(file.path) in in_full]
    recordings = [file.path for file in sessions if not file.stream and os.path.isfile(file.path)]
    with closing(_read_sessions(sessions, context, cache, jobs, progress)) as found:
        if is_folder(path):
            return _write_folder(path, intro, found, listed, recordings)
        text = render_page(_one_page(intro, found, listed))
    if path:
        return _write(path, text, recordings)
    sys.stdout.write(text)
    return len(text.encode())


def _read_sessions(
    files: list[Input], context: CheckContext, cache: str | None, jobs: int, progress: Progress | None
) -> Generator[tuple[str, PageSession]]:  # fmt: skip
    """Yield a digest of the path and the contents of each session, in the order of the files."""
    size, done = sum(file.size for file in files), 0
    context = replace(context, options=replace(context.options, log=ignore))
    work = partial(read_session, context=context, cache=cache)
    jobs = min(jobs, sum(not file.stream for file in files)) if size >= SMALL else 1
    results = ProcessPool(jobs, work, work).results(files) if jobs > 1 else (work(file) for file in files)
    with closing(results):
        for file, session in zip(files, results, strict=True):
            done += file.size
            if progress is not None:
                progress(done, size)
            if session is not None:
                path = os.path.abspath(file.path).encode("utf-8", "surrogateescape")
                yield hashlib.sha256(path).hexdigest()[:16], session


def _write_folder(
    path: str, intro: Intro, sessions: Iterable[tuple[str, PageSession]], listed: Listed | None, recordings: list[str]
) -> int:  # fmt: skip
    folder, rows, places, size = os.path.join(path, "sessions"), list[PageSession](), dict[str, str](), 0
    _make_folder(path)
    for name, session in sessions:
        _make_folder(folder)
        rows.append(replace(session, chains={}))
        places[session.path] = f"sessions/{name}.html"
        page = PageContent(session.title or name_of(session.path), views=[view_session(session)], back="../index.html")
        size += _write(os.path.join(folder, f"{name}.html"), render_page(page), recordings)
    index = PageContent(intro.title, intro, _list_rows(rows, listed), places)
    return size + _write(os.path.join(path, "index.html"), render_page(index), recordings)


def _one_page(intro: Intro, sessions: Iterable[tuple[str, PageSession]], listed: Listed | None) -> PageContent:
    """Return a page that shows the sessions in full that lost most."""
    rows, kept = list[PageSession](), list[PageSession]()
    for _, session in sessions:
        rows.append(replace(session, chains={}))
        kept.append(session)
        kept.sort(key=_loss, reverse=True)
        while len(kept) > 1 and (len(kept) > IN_FULL or sum(len(one.turns) for one in kept) > MOST_TURNS):
            kept.pop()
    places = {session.path: f"#s{number}" for number, session in enumerate(kept)}
    views = [view_session(session, str(number)) for number, session in enumerate(kept)]
    rows = _list_rows(rows, listed)
    return PageContent(intro.title, intro, rows if len(rows) > 1 else (), places, views, len(rows) - len(kept))


def _loss(session: PageSession) -> tuple[float, int, float]:
    """Return the re-billed dollars, the re-billed tokens, and the cost of a session."""
    spending = session.spending
    return rebilled_dollars(spending) or 0.0, rebilled_tokens(spending), spending.dollars or 0.0


def _list_rows(rows: Sequence[PageSession], listed: Listed | None) -> list[PageSession]:
    """Return the rows of all sessions, the costliest first; equal titles get the names of their files."""
    rows = list(rows if listed is None else listed.values())
    titles = Counter(row.title for row in rows)
    rows = [
        replace(row, title=f"{row.title} ({name_of(row.path)})") if row.title and titles[row.title] > 1 else row
        for row in rows
    ]
    return sorted(rows, key=lambda row: row.spending.dollars or 0.0, reverse=True)


def _make_folder(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        message = f"cannot make the folder {corpus.show(path)}: {(error.strerror or str(error)).lower()}"
        raise LoreError(message, hint="name another folder") from None


def _write(path: str, text: str, recordings: Sequence[str]) -> int:
    data = text.encode("utf-8", "backslashreplace")
    if not corpus.is_stream(path):
        with open_output(path, force=True, inputs=recordings) as file:
            return file.write(data)
    try:
        with open(path, "wb") as file:  # a pipe or a device cannot be replaced
            return file.write(data)
    except OSError as error:
        raise LoreError(f"cannot write {corpus.show(path)}: {(error.strerror or str(error)).lower()}") from None
