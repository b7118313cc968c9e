"""Compare two turns, or every successive pair of a session: what `lore diff-prefix` answers.

In: names. Out: one result a pair, in bytes, canonical bytes and tokens, with causes and what caches would read.
Rules: a side that holds several turns stands for its last main-chain turn; two whole files are also compared byte by
byte, whatever they hold; every figure that is not counted is said to be estimated; text that looks like a credential
is masked before it is cut, so that half of one is not shown either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from lore.cache.predictor import Predictor
from lore.cache.registry import cache_named
from lore.cache.rules import DatedRules
from lore.errors import LoreError
from lore.formats.registry import lacks_of
from lore.judge.base import TurnVerdict
from lore.judge.chains import ComparedChain
from lore.judge.judge import cacheable
from lore.model import results
from lore.model.cause import Place
from lore.model.codes import Reader
from lore.model.events import MAIN
from lore.model.results import Finding
from lore.model.turn import Call, Memo, Turn
from lore.recording import corpus, filesystem
from lore.recording.base import Problems, Recording, UnrecognisedError, load_plugins
from lore.recording.corpus import Name
from lore.recording.opening import Options, Picked, pick
from lore.recording.overrides import HINT_COMPLETE
from lore.report.pair_figures import PairFigures, causes_of
from lore.report.redacted.findings import redacted_error
from lore.run.checking.verdicts import reader_of, verdicts
from lore.run.dated import PACKAGED, Dated


class Caches:
    """Predict turns in caches of these names; raises LoreError for a name that there is not.

    Without names it is the cache of who serves the turn, and nothing where nobody knows. A turn is predicted before
    its own bill is looked at; the turns of a session are predicted in one go, so that the cost stays O(what is new in
    each).
    """

    def __init__(self, rules: DatedRules, names: Sequence[str] = ()) -> None:
        load_plugins()
        for name in names:
            cache_named(name)
        self._predictors = [Predictor(rules, name) for name in dict.fromkeys(names)] or [Predictor(rules)]

    def turn(self, turn: Turn) -> list[results.CachePrediction]:
        """Predict the next turn, then take its bill."""
        predicted = [predictor.predict(turn) for predictor in self._predictors]
        return [
            results.CachePrediction(cache, found.read, found.write, found.uncached, found.confidence)
            for cache, found, *_ in predicted
            if cache and found.read is not None
        ]


class TurnComparison(NamedTuple):
    """How turns are compared: `caches` say what they would read (None: not asked), `dated` by which rules.

    With `redact` no result and no error carries content; `reader` is whom fixes speak to (None: as the format says).
    """

    options: Options
    redact: bool = False
    caches: Caches | None = None
    dated: Dated = PACKAGED
    reader: Reader | None = None

    def place(self, recording: Recording) -> Place:
        """Return where the causes of a recording's turns are reported."""
        return Place(recording.shown, reader=reader_of(recording, self.reader))

    def figures(self, first: Turn) -> PairFigures:
        """Return what describes the pairs of a chain, from this turn on."""
        return PairFigures(first, self.options.counter, redact=self.redact)

    def predicted(self, turn: Turn) -> list[results.CachePrediction]:
        """Return what caches would read of the next turn; nothing where that is not asked."""
        return [] if self.caches is None else self.caches.turn(turn)


def compared(left: str, right: str | None, comparison: TurnComparison) -> Iterator[results.DiffResult]:
    """Compare two turns, or every pair of a session."""
    try:
        if right is not None:
            diffs = iter((diff_files(left, right, comparison),))
        elif corpus.parse_name(left).turn is not None:
            diffs = iter((diff_turn(left, comparison),))
        else:
            diffs = diff_session(left, comparison)
        if comparison.redact:
            from lore.report.redacted.results import redacted  # noqa: PLC0415 - most results are shown as they are

            diffs = map(redacted, diffs)
        yield from diffs
    except LoreError as error:
        raise redacted_error(error) if comparison.redact else error from None


def diff_files(left: str, right: str, comparison: TurnComparison) -> results.DiffResult:
    """Compare two named turns; raises LoreError where a name cannot be read or has no such turn.

    Two successive turns of one recording have the verdict that the whole recording gives the later one.
    """
    names = corpus.parse_name(left), corpus.parse_name(right)
    if names[0].path == names[1].path == corpus.STDIN:
        raise LoreError("standard input can be one side only", hint="name a file for the other side")
    file = None
    one_file = corpus.is_same(names[0].path, names[1].path)
    if one_file:  # however it is spelled
        names = names[0], names[1]._replace(path=names[0].path)
    whole = all(name.turn is None for name in names)
    if (whole or not one_file) and not any(
        corpus.is_stream(name.path) or filesystem.is_folder(name.path) for name in names
    ):
        file = results.FileLengths(*corpus.common_length(names[0].path, names[1].path))
    if one_file and (verdict := _in_session(names, comparison)) is not None:
        return verdict
    problems = Problems()
    memos: dict[str, Memo] = {}
    (before, _), left_side = _side(names[0], comparison.options, problems, memos)
    (after, changes), right_side = _side(names[1], comparison.options, problems, memos)
    whole_prompts = {left_side.format, right_side.format} <= {None, "bodies", "assembled"}
    if comparison.options.completion is not None and whole_prompts:
        raise LoreError("neither side is a session log: there is no prompt to complete", hint=HINT_COMPLETE)
    if before is None or after is None:
        return results.DiffResult(
            left=left_side, right=right_side, file=file, prompt=None, relation=None, divergence=None, reuse_ratio=None,
            causes=[], caches=[], billed=None, verdict=None, problems=problems.kept,
        )  # fmt: skip
    same = names[0].path == names[1].path and before.chain == after.chain
    between = tuple(
        change for number, changed in changes.items() if before.number < number <= after.number for change in changed
    )
    after = msgspec.structs.replace(after, changes=between if same else ())
    pairs = ComparedChain(billed=same and after.number == before.number + 1)
    before, after = _not_failed(before), _not_failed(after)
    pairs.advance(before)
    pair = pairs.advance(after)
    assert pair is not None  # a second turn makes a pair
    pair = cacheable(pair, comparison.dated.rules)
    comparison.predicted(before)
    place = Place(names[1].path, reader=comparison.reader or ("user" if after.basis is not None else "author"))
    return comparison.figures(before).describe(
        pair, place, left_side, right_side, file=file, problems=problems.kept, caches=comparison.predicted(after)
    )


def _not_failed(turn: Turn) -> Turn:
    """Return a turn that is compared because it was named, also where its request failed."""
    return msgspec.structs.replace(turn, call=Call()) if turn.failed else turn


def diff_turn(name: str, comparison: TurnComparison) -> results.DiffResult:
    """Compare a named turn with the one that it goes on from; raises LoreError where there is none, or no such turn."""
    parsed = corpus.parse_name(name)
    diff = _in_session((None, parsed), comparison)
    if diff is not None:
        return diff
    recording = comparison.options.open(parsed.path, Problems(), subagents=parsed.chain is not None)
    pick(recording, parsed)  # raises LoreError where there is no such turn
    hint = "it is the first of its conversation, or its request failed; name two turns, or the whole session"
    raise LoreError(f"no turn stands before {name} to be compared with", hint=hint)


def _in_session(names: tuple[Name | None, Name], comparison: TurnComparison) -> results.DiffResult | None:
    """Return the session's own comparison of two successive turns that are named by their numbers; None else.

    Without a left name it is the comparison with whatever turn stands before the right one.
    """
    left, right = names
    if (left is not None and left.turn is None) or right.turn is None:
        return None
    problems = Problems()
    several = right.chain is not None or (left is not None and left.chain is not None)
    try:
        recording = comparison.options.open(right.path, problems, subagents=several)
    except LoreError:
        return None  # said where the names are read one by one
    if comparison.options.completion is not None and not recording.events:
        return None
    place, judge = comparison.place(recording), comparison.dated.judge()
    first, main = "", False
    found: dict[str, tuple[TurnVerdict, list[results.CachePrediction]]] = {}  # of each chain that may be meant
    late: list[Finding] = []
    for verdict, ended in verdicts(recording, judge, place):
        late += ended
        if verdict is None:
            break
        predicted = comparison.predicted(verdict.turn)
        chain = verdict.turn.chain
        first, main = first or chain, main or chain == MAIN
        if verdict.turn.number == right.turn and chain in (right.chain or MAIN, right.chain or first):
            found[chain] = verdict, predicted
    unnamed = MAIN if main else first
    verdict, predicted = found.get(right.chain or unnamed) or (None, [])
    pair = None if verdict is None else verdict.pair
    if pair is None:
        return None
    if left is not None and (pair.left.chain, pair.left.number) != (left.chain or unnamed, left.turn):
        return None
    before = f"{recording.shown}#{pair.left.chain}:{pair.left.number}" if left is None else str(left)
    sides = [
        _described(side, recording, turn, comparison.options)
        for side, turn in ((before, pair.left), (str(right), pair.right))
    ]
    diff = comparison.figures(pair.left).describe(pair, place, *sides, problems=problems.kept, caches=predicted)
    right_turn = pair.right.chain, pair.right.number
    return _with(diff, [finding for finding in late if (finding.chain, finding.turn) == right_turn], comparison)


def _with(
    diff: results.DiffResult, findings: Iterable[results.Finding], comparison: TurnComparison
) -> results.DiffResult:
    """Add to a pair what was found in its whole chain, where that is about its right turn."""
    more = causes_of(findings, redact=comparison.redact)
    return msgspec.structs.replace(diff, causes=[*diff.causes, *more]) if more else diff


def _side(name: Name, options: Options, problems: Problems, memos: dict[str, Memo]) -> tuple[Picked, results.DiffSide]:
    """Read one side; a file that is no recording, or holds no turn, has no prompt."""
    try:
        recording = options.open(name.path, problems, subagents=name.chain is not None, memos=memos)
        picked = pick(recording, name)
    except UnrecognisedError:
        if name.turn is not None:
            raise
        return Picked(None, {}), results.DiffSide(str(name))
    return picked, _described(str(name), recording, picked.turn, options)


def _described(name: str, recording: Recording, turn: Turn | None, options: Options) -> results.DiffSide:
    prompt = None if turn is None else turn.prompt
    if turn is None or prompt is None:
        return results.DiffSide(name, format=recording.reader.name)
    partial = True if prompt.partial else UNSET
    fidelity = "hashed" if turn.fidelity == "hashed" else prompt.fidelity
    lacks = lacks_of(recording.state.format) if turn.basis is not None and options.completion is None else ""
    return results.DiffSide(
        name, recording.reader.name, prompt.dialect, prompt.model, fidelity, partial, lacks or UNSET
    )


def diff_session(name: str, comparison: TurnComparison) -> Iterator[results.DiffResult]:
    """Compare every turn of a session with the one before it in its chain, in the order recorded.

    What holds for whole chains is known when they end: pairs are reported then, except those of a stream, which may
    have no end: at once and without it.
    """
    parsed = corpus.parse_name(name)
    problems = Problems()
    recording = comparison.options.open(parsed.path, problems, subagents=True)
    if comparison.options.completion is not None and not recording.events:
        raise LoreError(f"{recording.shown} holds whole prompts: there is none to complete", hint=HINT_COMPLETE)
    place, judge, figures = comparison.place(recording), comparison.dated.judge(), dict[str, PairFigures]()
    latest: results.DiffResult | None = None  # held back: what is wrong behind the last pair is told with it
    at_once = corpus.is_stream(parsed.path)
    held: list[results.DiffResult] = []
    late: list[results.Finding] = []
    for verdict, ended in verdicts(recording, judge, place):
        late += ended
        if verdict is None:
            break
        turn, pair = verdict.turn, verdict.pair
        predicted = comparison.predicted(turn)
        if pair is None:
            if not turn.failed:
                figures[turn.chain] = comparison.figures(turn)
            continue
        if pair.left.chain != turn.chain:
            figures[turn.chain] = comparison.figures(pair.left)
        sides = [
            _described(f"{recording.shown}#{side.chain}:{side.number}", recording, side, comparison.options)
            for side in (pair.left, turn)
        ]
        if latest is not None and at_once:
            yield latest
        elif latest is not None:
            held.append(latest)
        latest = figures[turn.chain].describe(
            pair, place, *sides, problems=problems.take(), caches=predicted, named=True
        )
    if latest is None:
        raise LoreError(
            f"{recording.shown} holds {judge.turns} turn{'s' * (judge.turns != 1)} and no pair to compare",
            hint="name two files, or a session of several turns",
        )
    held.append(msgspec.structs.replace(latest, problems=[*latest.problems, *problems.take()]))
    about: dict[tuple[str | None, int | None], list[Finding]] = {}
    for finding in late:
        about.setdefault((finding.chain, finding.turn), []).append(finding)
    for diff in held:
        yield _with(diff, about.get((diff.chain, diff.turn), ()), comparison)
