"""Compare two turns, or every successive pair of a session: what `lore diff-prefix` answers.

In: names. Out: one result a pair. Rules: a side that holds several turns stands for its last main-chain
turn; two whole files are also compared byte by byte, whatever they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import UNSET

from lore.errors import LoreError
from lore.judge.base import Place
from lore.judge.pairs import Pairs
from lore.judge.verdict import Verdict
from lore.model.codes import Reader
from lore.model.events import MAIN
from lore.model.results import CachePrediction, Diff, FileLengths, Finding, Side
from lore.model.turn import Call, Turn
from lore.prompt.base import Memo
from lore.recording import corpus
from lore.recording.base import Problems, Recording, UnrecognisedError
from lore.recording.corpus import Name
from lore.recording.opening import Options, Picked, pick
from lore.report.redacted import redacted_diff, redacted_error, redacted_finding
from lore.report.sentences import cause_result, worded
from lore.run.diff_metrics import Figures
from lore.run.verdicts import PACKAGED, Dated, reader_of, verdicts

if TYPE_CHECKING:
    from lore.run.diff_caches import Caches  # loaded only where it is asked

HINT_COMPLETE = "leave --system and --tools out"


class Comparison(NamedTuple):
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


def compared(left: str, right: str | None, how: Comparison) -> Iterator[Diff]:
    """Compare two turns, or every pair of a session."""
    try:
        diffs = diff_session(left, how) if right is None else iter((diff_files(left, right, how),))
        for diff in diffs:
            yield redacted_diff(diff) if how.redact else diff
    except LoreError as error:
        raise redacted_error(error) if how.redact else error from None


def diff_files(left: str, right: str, how: Comparison) -> Diff:
    """Compare two named turns; raises LoreError where a name cannot be read or has no such turn.

    Two successive turns of one recording have the verdict that the whole recording gives the later one.
    """
    options = how.options
    names = corpus.parse_name(left), corpus.parse_name(right)
    if names[0].path == names[1].path == corpus.STDIN:
        raise LoreError("standard input can be one side only", hint="name a file for the other side")
    file = None
    one_file = corpus.is_same(names[0].path, names[1].path)
    if one_file:  # however it is spelled
        names = names[0], names[1]._replace(path=names[0].path)
    whole = all(name.turn is None for name in names)
    if (whole or not one_file) and not any(
        corpus.is_stream(name.path) or corpus.is_folder(name.path) for name in names
    ):
        file = FileLengths(*corpus.common_length(names[0].path, names[1].path))
    if one_file and (verdict := _in_session(names, how)) is not None:
        return verdict
    problems = Problems()
    memos: dict[str, Memo] = {}
    (mine, _), left_side = _side(names[0], options, problems, memos)
    (theirs, changes), right_side = _side(names[1], options, problems, memos)
    if options.completion is not None and {left_side.format, right_side.format} <= {None, "bodies", "assembled"}:
        raise LoreError("neither side is a session log: there is no prompt to complete", hint=HINT_COMPLETE)
    if mine is None or theirs is None:
        return Diff(
            left=left_side,
            right=right_side,
            file=file,
            prompt=None,
            relation=None,
            divergence=None,
            reuse_ratio=None,
            causes=[],
            caches=[],
            billed=None,
            verdict=None,
            problems=problems.kept,
        )
    same = names[0].path == names[1].path and mine.chain == theirs.chain
    between = tuple(one for number, some in changes.items() if mine.number < number <= theirs.number for one in some)
    theirs = msgspec.structs.replace(theirs, changes=between if same else ())
    pairs = Pairs(billed=same and theirs.number == mine.number + 1)
    figures = Figures(options.counter)
    mine, theirs = _asked(mine), _asked(theirs)
    pairs.advance(mine)
    figures.first(mine)
    pair = pairs.advance(theirs)
    assert pair is not None  # a second turn makes a pair
    if how.caches is not None:
        how.caches.turn(mine)
    foreseen = [] if how.caches is None else how.caches.turn(theirs)
    place = Place(names[1].path, reader=how.reader or ("user" if theirs.basis is not None else "author"))
    return figures.describe(
        pair, left_side, right_side, file=file, problems=problems.kept, caches=foreseen, place=place, redact=how.redact
    )


def _in_session(names: tuple[Name, Name], how: Comparison) -> Diff | None:
    """Return the session's own comparison of two successive turns that are named by their numbers; None else."""
    left, right = names
    if left.turn is None or right.turn is None:
        return None
    problems = Problems()
    several = left.chain is not None or right.chain is not None
    try:
        recording = how.options.open(right.path, problems, subagents=several)
    except LoreError:
        return None  # said where the names are read one by one
    if how.options.completion is not None and not recording.events:
        return None
    place, judge = how.place(recording), how.dated.judge()
    first, main = "", False
    found: dict[str, tuple[Verdict, list[CachePrediction]]] = {}  # of each chain that may be meant
    late: list[Finding] = []
    for verdict, ended in verdicts(recording, judge, place):
        late += ended
        if verdict is None:
            break
        predicted = [] if how.caches is None else how.caches.turn(verdict.turn)
        chain = verdict.turn.chain
        first, main = first or chain, main or chain == MAIN
        if verdict.turn.number == right.turn and chain in (right.chain or MAIN, right.chain or first):
            found[chain] = verdict, predicted
    unnamed = MAIN if main else first
    verdict, foreseen = found.get(right.chain or unnamed) or (None, [])
    pair = None if verdict is None else verdict.pair
    if pair is None or (pair.left.chain, pair.left.number) != (left.chain or unnamed, left.turn):
        return None
    figures = Figures(how.options.counter)
    figures.first(pair.left)
    sides = [_described(str(name), recording, turn) for name, turn in zip(names, (pair.left, pair.right), strict=True)]
    diff = figures.describe(
        pair, *sides, file=None, problems=problems.kept, caches=foreseen, place=place, redact=how.redact
    )
    return _with(diff, [one for one in late if (one.chain, one.turn) == (pair.right.chain, pair.right.number)], how)


def _with(diff: Diff, findings: Iterable[Finding], how: Comparison) -> Diff:
    """Add to a pair what was found in its whole chain, where that is about its right turn."""
    said = redacted_finding if how.redact else worded
    more = [cause_result(said(one)) for one in findings]
    return msgspec.structs.replace(diff, causes=[*diff.causes, *more]) if more else diff


def _asked(turn: Turn) -> Turn:
    """Return a turn that is compared because it was named, also where its request failed."""
    return msgspec.structs.replace(turn, call=Call()) if turn.failed else turn


def _side(name: Name, options: Options, problems: Problems, memos: dict[str, Memo]) -> tuple[Picked, Side]:
    """Read one side; a file that is no recording, or holds no turn, has no prompt."""
    try:
        recording = options.open(name.path, problems, subagents=name.chain is not None, memos=memos)
        picked = pick(recording, name)
    except UnrecognisedError:
        if name.turn is not None:
            raise
        return Picked(None, {}), Side(str(name))
    return picked, _described(str(name), recording, picked.turn)


def _described(name: str, recording: Recording, turn: Turn | None) -> Side:
    prompt = None if turn is None else turn.prompt
    return Side(
        name,
        format=recording.reader.name,
        dialect=None if prompt is None else prompt.dialect,
        model=None if prompt is None else prompt.model,
        fidelity=None if prompt is None else prompt.fidelity,
        partial=True if prompt is not None and prompt.partial else UNSET,
    )


def diff_session(name: str, how: Comparison) -> Iterator[Diff]:
    """Compare every turn of a session with the one before it in its chain, in the order recorded.

    What holds for whole chains is known when they end: pairs of requests are told then, but those of a stream, which
    may have no end, at once and without it.
    """
    parsed, options = corpus.parse_name(name), how.options
    if parsed.turn is not None:
        raise LoreError("one turn has nothing to be compared with", hint="name a second turn, or the whole session")
    problems = Problems()
    recording = options.open(parsed.path, problems, subagents=True)
    if options.completion is not None and not recording.events:
        raise LoreError(f"{recording.shown} holds whole prompts: there is none to complete", hint=HINT_COMPLETE)
    place, judge, figured = how.place(recording), how.dated.judge(), dict[str, Figures]()
    latest: Diff | None = None  # held back: what is wrong behind the last pair is told with it
    at_once = recording.events or corpus.is_stream(parsed.path)  # chains of a session log have no findings of their own
    held: list[Diff] = []
    late: list[Finding] = []
    for verdict, ended in verdicts(recording, judge, place):
        late += ended
        if verdict is None:
            break
        turn, pair = verdict.turn, verdict.pair
        foreseen = [] if how.caches is None else how.caches.turn(turn)
        if pair is None:
            if not turn.failed:
                figured[turn.chain] = _begun(turn, options)
            continue
        if pair.left.chain != turn.chain:
            figured[turn.chain] = _begun(pair.left, options)
        sides = [_described(f"{recording.shown}#{one.chain}:{one.number}", recording, one) for one in (pair.left, turn)]
        if latest is not None and at_once:
            yield latest
        elif latest is not None:
            held.append(latest)
        latest = figured[turn.chain].describe(
            pair, *sides, file=None, problems=problems.take(), named=True, caches=foreseen, place=place,
            redact=how.redact,
        )  # fmt: skip
    if latest is None:
        raise LoreError(
            f"{recording.shown} holds {judge.turns} turn{'s' * (judge.turns != 1)} and no pair to compare",
            hint="name two files, or a session of several turns",
        )
    held.append(msgspec.structs.replace(latest, problems=[*latest.problems, *problems.take()]))
    about: dict[tuple[str | None, int | None], list[Finding]] = {}
    for one in late:
        about.setdefault((one.chain, one.turn), []).append(one)
    for diff in held:
        yield _with(diff, about.get((diff.chain, diff.turn), ()), how)


def _begun(turn: Turn, options: Options) -> Figures:
    figures = Figures(options.counter)
    figures.first(turn)
    return figures
