"""Sessions for pages: a recording's verdicts, turn by turn, with the text before and after each break.

A session is read once, with the files of its subagents. Its turns are judged, predicted and priced as in `lore
simulate`, without the cache entries of other sessions; its sums are those of a ledger. Cost: O(bytes of the recording),
and O(segments of the prompt) for each of its first `LOOKED_INTO` breaks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from lore.cache.counts import BYTES_PER_TOKEN, total
from lore.cache.predictor import NO_CHANGE, Predictor
from lore.errors import LoreError
from lore.formats.registry import lacks_of
from lore.judge.base import TurnVerdict
from lore.judge.messages import MASKED
from lore.judge.pair import Pair
from lore.judge.sums import CauseSums, LedgerRequest, LedgerRows, Sums
from lore.model.codes import Code, Problem, Reader
from lore.model.events import MAIN
from lore.model.results import UsageResult
from lore.model.results.page import PageChain, PageSession, PageSide, PageTurn, PartName, PromptPart
from lore.model.state import UTILITY
from lore.model.turn import Turn
from lore.prefix.overlap import excerpt, locate_difference
from lore.recording import corpus
from lore.recording.agents.companions import companions, session_of
from lore.recording.agents.logs import project_of
from lore.recording.base import Problems, Recording, UnrecognisedError, collected_seldom
from lore.recording.inputs import Input
from lore.recording.opening import Options
from lore.recording.titles import title_of
from lore.report.redacted.findings import REDACTED, redacted_error
from lore.report.redacted.results import redacted
from lore.report.sentences.findings import columns_result
from lore.report.sentences.spending import cause_in_words
from lore.run.checking.verdicts import reader_of
from lore.run.dated import PACKAGED, Dated
from lore.run.simulation import PlayedTurn, Simulation
from lore.tokens.o200k import Counter

LOOKED_INTO = 300  # breaks of a session whose prompts a page shows
PAUSE = 300.0  # seconds: the shortest time that a provider says it keeps a prompt for (Anthropic, 2026)
BEFORE, AFTER = 120, 400  # bytes that are shown around a difference


class PageRequest(NamedTuple):
    """How sessions are read."""

    options: Options
    cache: str | None = None  # None: the cache that served each turn
    dated: Dated = PACKAGED
    redact: bool = False  # pages hold no content
    reader: Reader | None = None  # the person that fixes address; None: chosen by the format


def sessions_of(files: Iterable[Input]) -> list[Input]:
    """Return the inputs that are read for a page of their own: files of subagents are read with their session."""
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


def page_of(file: Input, request: PageRequest) -> PageSession | None:
    """Return the page of a session; None if the file is not a recording."""
    shown, made = corpus.show(file.path), None
    try:
        if file.error is not None:
            raise file.error
        project = None if file.stream else project_of(corpus.open_head(file.path).head, file.path)
        problems = Problems()
        recording = request.options.open(file.path, problems, subagents=not file.stream)
        made = _Page(shown, project, recording, request)
        made.title = None if request.redact else title_of(file.path)
        with collected_seldom():
            made.read()
        return redacted(made.result(problems.kept)) if request.redact else made.result(problems.kept)
    except UnrecognisedError:
        return None
    except LoreError as error:
        message = (redacted_error(error) if request.redact else error).message
        empty = PageSession(shown, "", None, [], Sums().result(shown), [], [], message=message)
        found = empty if made is None else made.result(())
        return replace(redacted(found) if request.redact else found, message=message)


class _Page:
    """The page of one recording, filled as it is read."""

    def __init__(self, shown: str, project: str | None, recording: Recording, request: PageRequest) -> None:
        self._shown, self._project, self._recording, self._request = shown, project, recording, request
        self._chains: dict[str, list[PageTurn]] = {}
        self._sums, self._causes = Sums(), CauseSums()
        self._latest: dict[str, Turn] = {}
        self._looked = 0
        self._missing: dict[str, int] = {}  # tokens of a chain's first bill that the log does not hold
        self._lacks = ""
        self.title: str | None = None

    def read(self) -> None:
        """Read every turn. Raises LoreError where the recording cannot be read on."""
        request, rules = self._request, self._request.dated.rules()
        counter = request.options.counter or Counter()
        predictor, rows = Predictor(rules, request.cache, NO_CHANGE, counter.count), LedgerRows(rules)
        simulation = Simulation(predictor, dated=request.dated, reader=request.reader, redact=request.redact)
        for played in simulation.recording(self._recording):
            turn = played.verdict.turn
            if turn.basis is not None and not self._lacks:
                self._lacks = lacks_of(self._recording.state.format)
            beside = self._is_subagent(turn.chain)
            row = LedgerRequest(rows.row(played.verdict), self._shown, "", self._project or "", beside, turn.at)
            self._sums.add(row)
            self._causes.add(row)
            if turn.chain not in self._chains:
                self._missing[turn.chain] = _missing(turn)
            self._chains.setdefault(turn.chain, []).append(self._turn(played))
            self._latest[turn.chain] = turn
        for chain, turn in self._latest.items():
            last = self._chains[chain][-1]
            if not last.parts:
                self._chains[chain][-1] = replace(last, parts=_parts(turn, None, self._missing[chain]))

    def _turn(self, played: PlayedTurn) -> PageTurn:
        turn, pair = played.verdict.turn, played.verdict.pair
        before = self._latest.get(turn.chain)
        pause = None if before is None or before.at is None or turn.at is None else turn.at - before.at
        made = PageTurn(
            played.result, pause=pause if pause is not None and pause >= PAUSE else None,
            compacted=any(change.cause == Code.COMPACTION for change in turn.changes),
            model_before=before.model if before is not None and before.model != turn.model else None,
        )  # fmt: skip
        if pair is None or not pair.is_break or self._looked >= LOOKED_INTO:
            return made
        self._looked += 1
        return self._with_break(made, played.verdict, pair)

    def _with_break(self, made: PageTurn, verdict: TurnVerdict, pair: Pair) -> PageTurn:
        """Add the text before and after the change, and the parts of the prompt."""
        left, right, texts, path = pair.left, verdict.turn, ["", ""], ""
        where = None if pair.overlap.is_covered else locate_difference(left.prompt, right.prompt, pair.overlap.common)
        if where is not None:
            path = where.path
            texts = [
                excerpt(side.prompt.segment_at(pair.overlap.common), pair.overlap.common_bytes, BEFORE, AFTER)
                for side in (left, right)
            ]
        return replace(
            made, before=_side(left, texts[0]), after=_side(right, texts[1]), path=path,
            shared=len(os.path.commonprefix(texts)),
            columns=columns_result(pair.columns, REDACTED if self._request.redact else MASKED),
            parts=_parts(right, pair, self._missing[right.chain]),
        )  # fmt: skip

    def result(self, problems: Iterable[Problem]) -> PageSession:
        """Return the page of the turns that were read."""
        chains = [
            PageChain(name, self._is_subagent(name), turns)
            for name, turns in sorted(self._chains.items(), key=lambda chain: chain[0] != MAIN)
        ]
        reader = reader_of(self._recording, self._request.reader)
        causes, unexplained = (
            list(map(cause_in_words, self._causes.results(reader, unsure=unsure))) for unsure in (False, True)
        )
        return PageSession(
            self._shown, self._recording.reader.name, self._project, chains, self._sums.result(self._shown),
            causes, unexplained, self._lacks, list(problems), title=self.title,
        )  # fmt: skip

    def _is_subagent(self, chain: str) -> bool:
        return chain != MAIN and not chain.startswith(UTILITY) and self._recording.events


def _side(turn: Turn, text: str) -> PageSide:
    billed = None if turn.usage is None else UsageResult.of(turn.usage)
    return PageSide(turn.number, turn.chain, turn.at, turn.model, billed, text)


def _missing(turn: Turn) -> int:
    """Estimate how many tokens of a chain's first usage its log does not record; 0 if unknown."""
    billed = None if turn.usage is None else total(turn.usage.first_pass)
    if not billed or not turn.is_rebuilt:
        return 0
    return max(0, billed - round(sum(len(segment.data) for segment in turn.prompt) / BYTES_PER_TOKEN))


def _parts(turn: Turn, pair: Pair | None, missing: int) -> tuple[PromptPart, ...]:
    """Return the parts of a prompt in tokens; they add up to its usage, if there is one.

    `missing` tokens are not in the log: they are at the beginning, like system prompt and tools. Bytes of images do not
    show their tokens, so a part with an image is estimated too large.
    """
    prompt = turn.prompt
    common = len(prompt) if pair is None or pair.overlap.is_covered else pair.overlap.common
    sizes: dict[PartName, int] = dict.fromkeys(("tools", "system", "kept", "messages"), 0)
    for place, segment in enumerate(prompt):
        kept = segment.section == "messages" and pair is not None and not pair.overlap.is_covered and place < common
        sizes["kept" if kept else segment.section] += len(segment.data)
    billed = None if turn.usage is None else total(turn.usage.first_pass)
    known, missing = sum(sizes.values()), min(missing, billed or 0)
    scale = (billed - missing) / known if billed and known else 1 / BYTES_PER_TOKEN
    parts = [PromptPart(name, round(size * scale)) for name, size in sizes.items() if size]
    return (PromptPart("unrecorded", missing), *parts) if missing else tuple(parts)
