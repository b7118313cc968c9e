"""Read a session for its HTML page: its turns, judged, predicted and priced, and the text around each cache break.

A session is read once, with the files of its subagents, as `lore simulate` reads it, without the cache entries of other
sessions. Its sums are those of `lore` and `lore check`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from msgspec.structs import replace

from lore.cache.predictor import NO_CHANGE, Predictor
from lore.errors import LoreError
from lore.formats.registry import lacks_of
from lore.judge.messages import MASKED
from lore.judge.sums import CauseSums, LedgerRequest, LedgerRows, Sums
from lore.model.codes import Code, Problem
from lore.model.events import MAIN
from lore.model.results.page import PageSession, PageTurn
from lore.model.results.simulate import SimulatedTurn
from lore.model.state import UTILITY
from lore.model.turn import Turn
from lore.prefix.overlap import excerpt, locate_difference
from lore.recording import corpus
from lore.recording.agents.companions import companions, session_of
from lore.recording.agents.logs import project_of
from lore.recording.base import Problems, Recording, UnrecognisedError, collected_seldom
from lore.recording.inputs import Input
from lore.recording.titles import title_of
from lore.report.redacted import REDACTED, redacted, redacted_error
from lore.report.sentences.findings import columns_result
from lore.report.sentences.spending import cause_in_words
from lore.run.checking.verdicts import CheckContext, reader_of
from lore.run.simulation import PlayedTurn, Simulation
from lore.tokens.o200k import Counter

EXAMINED = 300  # breaks of a session whose prompts a page shows
PAUSE = 300.0  # seconds: the shortest time that a provider says it keeps a prompt for (Anthropic, 2026)
BEFORE, AFTER = 120, 400  # bytes that are shown around a difference


def list_sessions(files: Iterable[Input]) -> list[Input]:
    """Return the files without those of subagents whose session is among them: they are read with it."""
    every = list(files)
    known = {os.path.abspath(file.path) for file in every}
    owned = dict[str, set[str]]()
    kept: list[Input] = []
    for file in every:
        session = None if file.stream or file.error is not None else session_of(file.path)
        place = "" if session is None else os.path.abspath(session)
        if place in known and place not in owned:
            owned[place] = {os.path.abspath(path) for path in companions(place)}
        if os.path.abspath(file.path) not in owned.get(place, ()):
            kept.append(file)
    return kept


def read_session(file: Input, context: CheckContext, cache: str | None = None) -> PageSession | None:
    """Return the contents of a session's page; None if the file is not a recording.

    `cache` is the one to predict; None: the cache that served each turn.
    """
    shown, reading = corpus.show(file.path), None
    session = PageSession(shown, "", None, {}, Sums().result(shown), [], [])
    try:
        if file.error is not None:
            raise file.error
        project = None if file.stream else project_of(corpus.open_head(file.path).head, file.path)
        problems = Problems()
        recording = context.options.open(file.path, problems, subagents=not file.stream)
        title = None if context.redact else title_of(file.path)
        reading = _Reading(recording, context, cache, replace(session, project=project))
        with collected_seldom():
            reading.read()
        session = replace(reading.result(), problems=list[Problem](problems.kept), title=title)
        return redacted(session) if context.redact else session
    except UnrecognisedError:
        return None
    except LoreError as error:
        message = (redacted_error(error) if context.redact else error).message
        session = session if reading is None else reading.result()
        return replace(redacted(session) if context.redact else session, message=message)


class _Reading:
    """Reads one recording turn by turn."""

    def __init__(
        self, recording: Recording, context: CheckContext, cache: str | None, session: PageSession
    ) -> None:  # fmt: skip
        self._recording, self._context, self._cache, self._session = recording, context, cache, session
        self._chains: dict[str, list[PageTurn]] = {}
        self._sums, self._causes = Sums(), CauseSums()
        self._latest: dict[str, Turn] = {}
        self._played: dict[tuple[str, int], SimulatedTurn] = {}
        self._examined = 0
        self._lacks = ""

    def read(self) -> None:
        """Read every turn. Raises LoreError if the recording cannot be read to its end."""
        context, rules = self._context, self._context.dated.rules()
        counter = context.options.counter or Counter()
        predictor, rows = Predictor(rules, self._cache, NO_CHANGE, counter.count), LedgerRows(rules)
        simulation = Simulation(predictor, dated=context.dated, reader=context.reader, redact=context.redact)
        for played in simulation.recording(self._recording):
            turn = played.verdict.turn
            if turn.basis is not None and not self._lacks:
                self._lacks = lacks_of(self._recording.state.format, turn.basis)
            is_subagent = turn.chain != MAIN and not turn.chain.startswith(UTILITY) and self._recording.events
            path, project = self._session.path, self._session.project or ""
            row = LedgerRequest(rows.row(played.verdict), path, "", project, is_subagent, turn.at)
            self._sums.add(row)
            self._causes.add(row)
            self._chains.setdefault(turn.chain, []).append(self._page_turn(played))
            self._latest[turn.chain] = turn
            self._played[turn.chain, turn.number] = played.result

    def _page_turn(self, played: PlayedTurn) -> PageTurn:
        turn, pair = played.verdict.turn, played.verdict.pair
        previous = self._latest.get(turn.chain)
        pause = None if previous is None or previous.at is None or turn.at is None else turn.at - previous.at
        made = PageTurn(
            played.result,
            pause=pause if pause is not None and pause >= PAUSE else None,
            compacted=any(change.cause == Code.COMPACTION for change in turn.changes),
            model_before=previous.model if previous is not None and previous.model != turn.model else None,
        )
        if pair is None or not pair.is_break or self._examined >= EXAMINED:
            return made
        self._examined += 1
        left, common, texts, path = pair.left, pair.overlap.common, ["", ""], ""
        where = None if pair.overlap.is_covered else locate_difference(left.prompt, turn.prompt, common)
        if where is not None:
            path = where.path
            texts = [
                excerpt(side.prompt.segment_at(common), pair.overlap.common_bytes, BEFORE, AFTER)
                for side in (left, turn)
            ]
        return replace(
            made, before=self._played.get((left.chain, left.number)), left=texts[0], right=texts[1],
            path=path, columns=columns_result(pair.columns, REDACTED if self._context.redact else MASKED),
        )  # fmt: skip

    def result(self) -> PageSession:
        """Return the page of the turns that were read."""
        reader = reader_of(self._recording, self._context.reader)
        causes, unexplained = (
            list(map(cause_in_words, self._causes.results(reader, unsure=unsure))) for unsure in (False, True)
        )
        costliest = sorted([*causes, *unexplained], key=lambda cause: -(cause.dollars or 0.0))
        times = [turn.played.at for turns in self._chains.values() for turn in turns if turn.played.at is not None]
        return replace(
            self._session, format=self._recording.reader.name, spending=self._sums.result(self._session.path),
            chains=dict(sorted(self._chains.items(), key=lambda chain: chain[0] != MAIN)), causes=causes,
            unexplained=unexplained, lacks=self._lacks, began=min(times, default=None),
            codes=tuple(dict.fromkeys(cause.code for cause in costliest)),
        )  # fmt: skip
