"""Write pages: one file, or a folder with `index.html` and a page for each session.

A name that ends in .html or .htm, a stream or standard output is one page, any other name is a folder; its pages of
sessions are in `sessions/`, named by a digest of the path, and written as they are made. One page shows the sessions
that lost most in full, and lists the others. Only pages that lore wrote are replaced.

A session is read once, with the files of its subagents: its turns, judged, predicted and priced as by `lore simulate`
without the cache entries of other sessions, and the text around each cache break. Its sums are those of `lore check`.
"""

from __future__ import annotations

import hashlib
import os
import sys
import webbrowser
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from msgspec.structs import replace

from lore.cache.predictor import NO_CHANGE, Predictor
from lore.commands.common import PageTarget, Progress, count_cores, progress, tell
from lore.errors import LoreError, reason_of
from lore.formats.registry import lacks_of
from lore.judge.messages import MASKED
from lore.judge.pairs.pair import Pair
from lore.judge.sums import CauseSums, Copies, LedgerRequest, Sums, make_row, rebilled_dollars, rebilled_tokens
from lore.model.codes import Code, Problem
from lore.model.events import MAIN
from lore.model.ledger import UnloggedWork
from lore.model.results.overview import SpendingCause
from lore.model.results.page import PageSession, PageTurn
from lore.model.results.simulate import SimulatedTurn
from lore.model.state import UTILITY
from lore.model.turn import Turn
from lore.prefix.overlap import excerpt, locate_difference
from lore.recording import corpus
from lore.recording.agents.companions import companions, session_of
from lore.recording.agents.logs import project_of
from lore.recording.base import Problems, Recording, UnrecognisedError, collected_seldom, load_plugins
from lore.recording.inputs import Input, by_start
from lore.recording.titles import title_of
from lore.report.html.page import Intro, PageContent, introduce_overview, render_page, view_session
from lore.report.plain import last_part
from lore.report.redacted import CHANGES, digest, redacted, redacted_error
from lore.report.sentences import UNSURE, cause_in_words, columns_result
from lore.run.checking.verdicts import CheckContext, audience_of, map_files
from lore.run.outputs import refuse_missing_folder, refuse_recording, write_file
from lore.run.simulation import Simulation
from lore.run.spending.ledgers import Ledgers
from lore.run.spending.overview import SpendingSums, sum_absent
from lore.store.registry import ignore
from lore.tokens import o200k

IN_FULL = 20  # sessions in one page
MOST_TURNS = 50_000  # of them all: about 8 MB
_MARK = b'<meta name="generator" content="lore '
Listed: TypeAlias = Mapping[str, PageSession]


def is_folder(path: str) -> bool:
    """Return whether pages are written to a folder of this name."""
    return bool(path) and not path.lower().endswith((".html", ".htm")) and not corpus.is_stream(path)


def refuse_target(path: str) -> None:
    """Raise LoreError if pages cannot be written to a path, or would replace something that lore did not write."""
    if not path or corpus.is_stream(path):
        return
    label = corpus.show(path)
    refuse_missing_folder(path.rstrip("/\\"))
    if not is_folder(path):
        refuse_recording(path)
        if os.path.isdir(path):
            raise LoreError(f"{label} is a folder", hint="name a page FILE.html, or a folder without that ending")
        return
    if os.path.lexists(path) and not os.path.isdir(path):
        raise LoreError(f"{label} is a file", hint="name a page FILE.html, or a new folder")
    index = os.path.join(path, "index.html")
    if os.path.lexists(index):
        with suppress(OSError), open(index, "rb") as file:
            if _MARK in file.read(4096):
                return
        raise LoreError(f"{corpus.show(index)} is not lore's", hint="name another folder")


def write_spending(
    target: PageTarget, spending: SpendingSums, ledgers: Ledgers, *, redact: bool, verbose: bool, colour: bool | None
) -> None:
    """Write pages about costs; a single page shows only the costliest sessions in full."""
    listed: dict[str, PageSession] = {}
    for sums in spending.period.by("session"):
        first, causes = spending.period.first[sums.name], spending.period.session_causes[sums.name]
        title, project = ("", digest(first.project)) if redact else (sums.title or "", first.project)
        listed[sums.name] = PageSession(
            sums.name, "", project, {}, sums, [], [], title=title, began=first.at,
            **_name_costliest(causes.results("user", worded=cause_in_words)),
        )  # fmt: skip
    intro = introduce_overview(spending.result, spending.period.by("day"))
    context = CheckContext(options=ledgers.options, dated=ledgers.dated, redact=redact)
    write_pages(target, intro, spending.files, context, listed=listed, verbose=verbose, colour=colour)


def _name_costliest(causes: list[SpendingCause]) -> dict[str, Any]:
    """Return the fields of a session that name its causes, which begin with the costliest."""
    words = [cause_in_words(replace(cause, names=[])).says for cause in causes[:1]]
    return {"codes": tuple(dict.fromkeys(cause.code for cause in causes)), "leading": "".join(words)}


def write_pages(
    target: PageTarget, intro: Intro, files: list[Input], context: CheckContext, *, verbose: bool, colour: bool | None,
    cache: str | None = None, listed: Listed | None = None,
) -> None:  # fmt: skip
    """Write pages of a command's answer and of recordings, report their path and size, and open them.

    `listed` are the sessions that the command lists, by path (None: those that are read), with their sums. `cache`
    is the one to predict; None: the cache that served each turn.
    """
    load_plugins()
    path, sessions, size, text = target.path, by_start(list_sessions(files), lambda file: file), 0, ""
    if listed is not None and not is_folder(path):
        full_paths = set(list(listed)[:IN_FULL])
        sessions = [file for file in sessions if corpus.show(file.path) in full_paths]
    recordings = [file.path for file in sessions if not file.stream and os.path.isfile(file.path)]
    with (
        progress(is_on=not verbose, colour=colour, what="drawing") as update,
        closing(_read_sessions(sessions, context, cache, update, listed)) as page_sessions,
    ):
        if is_folder(path):
            size = _write_folder(path, intro, page_sessions, listed, recordings)
        else:
            text = render_page(_one_page(intro, page_sessions, listed))
    if not path:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    index = os.path.join(path, "index.html") if is_folder(path) else path
    size = size or write_file(path, text.encode("utf-8", "backslashreplace"), recordings)
    if not corpus.is_stream(path):
        suffix = " with the pages of its folder" if is_folder(path) else ""
        tell(f"{corpus.show(index)}: {f'{size / 1e6:,.1f} MB' if size >= 1e6 else f'{size / 1e3:,.0f} kB'}{suffix}")
    if target.opens and not webbrowser.open(Path(index).absolute().as_uri()):
        tell(f"no browser could be opened: open {corpus.show(index)}")


def _read_sessions(
    files: list[Input], context: CheckContext, cache: str | None, update: Progress | None, listed: Listed | None
) -> Generator[tuple[str, PageSession, PageSession]]:  # fmt: skip
    """Yield a digest of the path, the contents of each session, and its row in the list, in the order of the files."""
    total_bytes, done_bytes, copies = sum(file.size for file in files), 0, Copies()
    context = replace(context, options=replace(context.options, log=ignore))
    work = partial(read_session, context=context, cache=cache)
    with closing(map_files(files, count_cores(), work, work)) as results:
        for file, result in zip(files, results, strict=True):
            done_bytes += file.size
            if update is not None:
                update(done_bytes, total_bytes)
            if result is not None:
                session, requests = result
                row = (
                    _without_copies(session, requests, copies) if listed is None else listed.get(session.path, session)
                )
                path = os.path.abspath(file.path).encode("utf-8", "surrogateescape")
                yield hashlib.sha256(path).hexdigest()[:16], session, replace(row, chains={})


def _without_copies(session: PageSession, requests: Sequence[LedgerRequest], copies: Copies) -> PageSession:
    """Return a session with the sums of its requests that no earlier session of the page holds."""
    own_requests = [request for request in requests if not copies.has(request.row, request.session)]
    if len(own_requests) == len(requests):
        return session
    sums = Sums()
    for request in own_requests:
        sums.add(request)
    spending = sums.result(session.path)
    absent = {
        name: getattr(session.spending, name) for name in spending.__struct_fields__ if name.startswith("absent_")
    }
    return replace(session, spending=replace(spending, **absent))


def _write_folder(
    path: str, intro: Intro, sessions: Iterable[tuple[str, PageSession, PageSession]], listed: Listed | None,
    recordings: list[str],
) -> int:  # fmt: skip
    folder, rows, places, size = os.path.join(path, "sessions"), list[PageSession](), dict[str, str](), 0
    _make_folder(path)
    for name, session, row in sessions:
        _make_folder(folder)
        rows.append(row)
        places[session.path] = f"sessions/{name}.html"
        title = session.title or last_part(session.path)
        page = PageContent(title, views=[view_session(session, row)], back="../index.html")
        data = render_page(page).encode("utf-8", "backslashreplace")
        size += write_file(os.path.join(folder, f"{name}.html"), data, recordings)
    index = PageContent(intro.title, intro, _list_rows(rows, listed), places)
    data = render_page(index).encode("utf-8", "backslashreplace")
    return size + write_file(os.path.join(path, "index.html"), data, recordings)


def _one_page(
    intro: Intro, sessions: Iterable[tuple[str, PageSession, PageSession]], listed: Listed | None
) -> PageContent:
    """Return one page, which shows in full the sessions that lost most and lists the others."""
    rows, pages = dict[str, PageSession](), list[PageSession]()
    for _, session, row in sessions:
        rows[session.path] = row
        pages.append(session)
        pages.sort(key=lambda page: _loss(rows[page.path]), reverse=True)
        while len(pages) > 1 and (len(pages) > IN_FULL or sum(len(page.turns) for page in pages) > MOST_TURNS):
            pages.pop()
    places = {session.path: f"#s{number}" for number, session in enumerate(pages)}
    list_rows = _list_rows([*rows.values()], listed)
    row_of = {row.path: row for row in list_rows}
    views = [view_session(page, row_of.get(page.path), str(number)) for number, page in enumerate(pages)]
    hidden_count = len(list_rows) - len(pages)
    return PageContent(intro.title, intro, list_rows if len(list_rows) > 1 else (), places, views, hidden_count)


def _loss(session: PageSession) -> tuple[float, int, float]:
    """Return the re-billed dollars, the re-billed tokens, and the cost of a session."""
    spending = session.spending
    return rebilled_dollars(spending) or 0.0, rebilled_tokens(spending), spending.dollars or 0.0


def _list_rows(rows: Sequence[PageSession], listed: Listed | None) -> list[PageSession]:
    """Return the rows of all sessions, the costliest first; equal titles get the names of their files."""
    rows = list(rows if listed is None else listed.values())
    titles = Counter(row.title for row in rows)
    rows = [
        replace(row, title=f"{row.title} ({last_part(row.path)})") if row.title and titles[row.title] > 1 else row
        for row in rows
    ]
    return sorted(rows, key=lambda row: row.spending.dollars or 0.0, reverse=True)


def _make_folder(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        message = f"cannot make the folder {corpus.show(path)}: {reason_of(error)}"
        raise LoreError(message, hint="name another folder") from None


EXAMINED = 300  # breaks of a session whose prompts a page shows
PAUSE = 300.0  # seconds: the shortest time that a provider says it keeps a prompt for (Anthropic, 2026)
BEFORE, AFTER = 120, 400  # bytes that are shown around a difference


def list_sessions(files: Iterable[Input]) -> list[Input]:
    """Return the files, except those of subagents whose session is among them: these are read with their session."""
    all_files = list(files)
    paths = {os.path.abspath(file.path) for file in all_files}
    subagent_paths = dict[str, set[str]]()
    main_files: list[Input] = []
    for file in all_files:
        session = None if file.stream or file.error is not None else session_of(file.path)
        place = "" if session is None else os.path.abspath(session)
        if place in paths and place not in subagent_paths:
            subagent_paths[place] = {os.path.abspath(path) for path in companions(place)}
        if os.path.abspath(file.path) not in subagent_paths.get(place, ()):
            main_files.append(file)
    return main_files


def read_session(
    file: Input, context: CheckContext, cache: str | None = None
) -> tuple[PageSession, list[LedgerRequest]] | None:
    """Return the contents of a session's page, and its requests; None if the file is not a recording.

    `cache` is the one to predict; None: the cache that served each turn.
    """
    label, reading = corpus.show(file.path), None
    session = PageSession(label, "", None, {}, Sums().result(label), [], [])
    try:
        if file.error is not None:
            raise file.error
        project = None if file.stream else project_of(corpus.open_head(file.path).head, file.path)
        problems = Problems()
        recording = context.options.open(file.path, problems, subagents=not file.stream)
        title = None if context.redact else title_of(file.path)
        reading = _Reading(recording, context, replace(session, project=project))
        with collected_seldom():
            reading.read(cache)
        session = replace(reading.result(), problems=list[Problem](problems.kept), title=title)
        return redacted(session) if context.redact else session, reading.requests
    except UnrecognisedError:
        return None
    except LoreError as error:
        message = (redacted_error(error) if context.redact else error).message
        session = session if reading is None else reading.result()
        requests = [] if reading is None else reading.requests
        return replace(redacted(session) if context.redact else session, message=message), requests


class _Reading:
    """Reads one recording turn by turn; can be used also if it cannot be read to its end."""

    def __init__(self, recording: Recording, context: CheckContext, session: PageSession) -> None:
        self._recording, self._context, self._session = recording, context, session
        self.requests: list[LedgerRequest] = []  # in the order recorded
        self._chains: dict[str, list[PageTurn]] = {}
        self._sums, self._causes = Sums(), CauseSums()
        self._lacks = ""
        self._works: Sequence[UnloggedWork] = ()  # of subagents and summaries whose requests are in no log

    def read(self, cache: str | None) -> None:
        """Read every turn. Raises LoreError if the recording cannot be read to its end."""
        context, rules, examined = self._context, self._context.dated.rules(), 0
        counter = context.options.counter or o200k.Counter()
        predictor = Predictor(rules, cache, NO_CHANGE, counter.count)
        simulation = Simulation(predictor, dated=context.dated, audience=context.audience, redact=context.redact)
        latest, results = dict[str, Turn](), dict[tuple[str, int], SimulatedTurn]()
        for played in simulation.recording(self._recording):
            turn, pair = played.verdict.turn, played.verdict.pair
            if turn.basis is not None and not self._lacks:
                self._lacks = lacks_of(self._recording.state.format, turn.basis)
            is_subagent = turn.chain != MAIN and not turn.chain.startswith(UTILITY) and self._recording.events
            path, project = self._session.path, self._session.project or ""
            row = LedgerRequest(make_row(played.verdict, rules), path, "", project, is_subagent, turn.at)
            self.requests.append(row)
            self._sums.add(row)
            self._causes.add(row)
            previous = latest.get(turn.chain)
            pause = None if previous is None or previous.at is None or turn.at is None else turn.at - previous.at
            page_turn = PageTurn(
                played.result, pause=pause if pause is not None and pause >= PAUSE else None,
                compacted=any(change.cause == Code.COMPACTION for change in turn.changes),
                model_before=previous.model if previous is not None and previous.model != turn.model else None,
            )  # fmt: skip
            if pair is not None and pair.is_break and examined < EXAMINED:
                examined += 1
                compared = results.get((pair.previous.chain, pair.previous.number))
                page_turn = self._with_difference(page_turn, pair, compared)
            self._chains.setdefault(turn.chain, []).append(page_turn)
            latest[turn.chain], results[turn.chain, turn.number] = turn, played.result
        self._works = [work for _, work in simulation.unlogged]

    def _with_difference(self, page_turn: PageTurn, pair: Pair, compared: SimulatedTurn | None) -> PageTurn:
        """Add the text around the first difference of a break, and what its bytes, usage and verdict show."""
        common, texts, path = pair.overlap.common, ["", ""], ""
        where = (
            None if pair.overlap.is_covered else locate_difference(pair.previous.prompt, pair.current.prompt, common)
        )
        if where is not None:
            segments = [side.prompt.segment_at(common) for side in (pair.previous, pair.current)]
            texts, path = [excerpt(one, pair.overlap.common_bytes, BEFORE, AFTER) for one in segments], where.path
        columns = columns_result(pair, CHANGES if self._context.redact else MASKED)
        return replace(
            page_turn, compared=compared, text_before=texts[0], text_after=texts[1], path=path, columns=columns
        )  # fmt: skip

    def result(self) -> PageSession:
        """Return the page of the turns that were read."""
        audience = audience_of(self._recording, self._context.audience)
        causes = self._causes.results(audience, worded=cause_in_words)
        spending = replace(self._sums.result(self._session.path), **sum_absent(self._works))
        all_times = (turn.simulated.at for turns in self._chains.values() for turn in turns)
        return replace(
            self._session, format=self._recording.reader.name, spending=spending,
            chains=dict(sorted(self._chains.items(), key=lambda chain: chain[0] != MAIN)),
            causes=[cause for cause in causes if cause.kind != UNSURE],
            unexplained=[cause for cause in causes if cause.kind == UNSURE], lacks=self._lacks,
            began=min((at for at in all_times if at is not None), default=None),
            **_name_costliest(causes),
        )  # fmt: skip
