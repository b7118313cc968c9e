"""`lore diff-prefix`: compare two turns, or every successive pair of a session.

If a name stands for several turns, the last turn of the main chain is compared. Two whole files are also compared byte
by byte, whatever they hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from lore.cache.predictor import Predictor
from lore.cache.registry import cache_named
from lore.commands import common, flags
from lore.errors import LoreError
from lore.formats.registry import lacks_of
from lore.judge.base import TurnVerdict
from lore.judge.chains.chain import ComparedChain
from lore.judge.findings import turn_findings
from lore.judge.messages import MASKED
from lore.judge.pairs.corrections import ChainState, add_prices, drop_loss_below_minimum
from lore.judge.pairs.pair import Pair
from lore.judge.totals import list_unjudged
from lore.model import results
from lore.model.cause import Place
from lore.model.codes import Audience, Problem
from lore.model.events import MAIN
from lore.model.fact import count_of, format_share
from lore.model.results import Finding
from lore.model.state import Change
from lore.model.turn import Call, Memo, Turn
from lore.prefix import overlap
from lore.recording import corpus, filesystem
from lore.recording.base import Problems, Recording, UnrecognisedError, load_plugins
from lore.recording.corpus import Name
from lore.recording.opening import Options, pick
from lore.recording.overrides import HINT_COMPLETE
from lore.report.diff import DiffWriter
from lore.report.redacted import CHANGES, causes_of, redacted
from lore.report.sentences import columns_result, describe_missing
from lore.run.arguments import read_completion
from lore.run.checking.verdicts import audience_of, verdicts
from lore.run.rules import PACKAGED, Dated
from lore.tokens.o200k import Counter


class DiffOptions(common.CommonOptions, frozen=True):
    """The options of `lore diff-prefix`."""

    left: Annotated[str, "LEFT", "A recording, a stored session (URL#ID), a turn of one (PATH#N), or `-`."]
    right: Annotated[
        str | None,
        "RIGHT",
        "The later turn; without it every pair of turns of LEFT is compared, or PATH#N with the turn before.",
    ] = None
    fail_under: Annotated[
        float | None, "Exit 1 if a pair reuses less than this share (0 to 1), 3 if nothing is compared."
    ] = None
    every: Annotated[bool, "--all", "Show every pair of a session, also those without a difference."] = False
    tokens: Annotated[bool, "--tokens/--no-tokens", "Count tokens (o200k_base)."] = True
    cache: Annotated[list[str] | None, "Predict this cache instead of the provider's; repeatable."] = None
    as_json: Annotated[bool, "--json", "Answer in JSON; of a session in JSON Lines, one object a pair."] = False
    dialect: flags.Dialect = None
    tail: flags.Tail = None
    system: flags.System = None
    tools: flags.Tools = None
    format: flags.Format = None
    redact: flags.Redact = False
    audience: flags.For = None


class NoPairError(LoreError):
    """A session has no two requests of one conversation."""


@common.takes(DiffOptions)
def run(options: DiffOptions) -> int:
    """Compare two turns: the unchanged prefix, the first difference and its cause.

    With one name, the pairs of a session that differ or lost cached tokens are shown (--all shows every pair); a name
    PATH#N is compared with its previous turn. The provider's cache is predicted for the later turn; with --no-tokens
    only if --cache names one. Exit code 3 if a part of the input cannot be read.
    """
    limit, writer = options.fail_under, None
    if limit is not None and not 0 <= limit <= 1:
        raise LoreError(f"--fail-under {limit} is not a share", hint="give a number from 0 to 1")
    comparison = _comparison(options)
    if not options.as_json:
        writer = DiffWriter(common.out(options.color), every=options.every, verbose=options.verbose)
    lowest_reuse, missing, unread, unjudged = None, set[tuple[str, str]](), list[str](), list[Problem]()
    try:
        for diff in compare_names(options.left, options.right, comparison):
            with common.writing():
                common.write_json(diff) if writer is None else writer.write(diff)
            missing |= {(side.format or "", side.lacks) for side in (diff.left, diff.right) if side.lacks}
            unread += [side.name for side in (diff.left, diff.right) if side.dialect is None]
            unjudged += list_unjudged(diff.problems, 1, has_findings=False)
            lowest_reuse = min((share for share in (lowest_reuse, diff.reuse_ratio) if share is not None), default=None)
    except NoPairError as error:
        if limit is None:
            raise
        common.tell(f"--fail-under cannot be judged: {error.message}")
        return 3
    if writer is not None:
        with common.writing():
            writer.finish()
        for name, what in sorted(missing):
            common.tell(f"note: {describe_missing([name], what)}")
    common.name_unjudged(unjudged, verbose=options.verbose)
    if limit is None or (lowest_reuse is not None and lowest_reuse >= limit):
        return common.exit_code(unjudged)
    if lowest_reuse is None:
        common.tell(f"--fail-under cannot be judged: no prompt in {' and '.join(unread) or 'the earlier turn'}")
        return 3
    common.tell(f"--fail-under {limit:g} is not met: a pair reuses {format_share(lowest_reuse)} of the previous prompt")
    return 1


def _comparison(options: DiffOptions) -> TurnComparison:
    """Return how turns are compared: the settings, and the options that override them."""
    loaded = common.find_settings(options.config)
    rules, counter = loaded.settings.assemble, Counter() if options.tokens else None
    opening = Options(
        format=options.format, dialect=options.dialect, rules=common.with_tail(rules, options.tail), counter=counter,
        completion=read_completion(options.system, options.tools), log=common.log(options.verbose),
    )  # fmt: skip
    names = options.cache or (loaded.settings.simulate.caches if options.tokens else ())
    load_plugins()
    for name in names:
        cache_named(name)  # raises LoreError for an unknown one
    dated, predictors, count = Dated.of(loaded), tuple[Predictor, ...](), None if counter is None else counter.count
    if options.tokens or names:
        predictors = tuple(Predictor(dated.rules(), name, count=count) for name in dict.fromkeys(names or (None,)))
    audience = common.audience_named(options.audience) or loaded.settings.check.reader
    return TurnComparison(opening, options.redact, predictors, dated, audience)


class TurnComparison(NamedTuple):
    """Options of a comparison."""

    options: Options
    redact: bool = False  # no result and no error holds content
    predictors: tuple[Predictor, ...] = ()
    dated: Dated = PACKAGED  # the cache and price rules
    audience: Audience | None = None  # audience for fixes; None: chosen by the format

    def predict(self, turn: Turn) -> list[results.CachePrediction]:
        """Predict from earlier turns what each cache reads of this turn; call it for each turn, in order."""
        rows: list[results.CachePrediction] = []
        for predicted in [predictor.predict(turn) for predictor in self.predictors]:
            limit = predicted.limited_to(turn.usage)
            if predicted.cache and limit.read is not None:
                row = predicted.cache, limit.read, limit.write, limit.uncached, limit.confidence
                rows.append(results.CachePrediction(*row))
        return rows


def compare_names(left: str, right: str | None, comparison: TurnComparison) -> Iterator[results.DiffResult]:
    """Compare two turns, a turn with its previous one, or every pair of a session. Raises LoreError."""
    with common.redact_errors(redact=comparison.redact):
        if right is not None:
            diffs = iter((diff_files(left, right, comparison),))
        elif (name := corpus.parse_name(left)).turn is not None:
            if (diff := _find_in_session(None, name, comparison)) is None:
                recording = comparison.options.open(name.path, Problems(), subagents=name.chain is not None)
                pick(recording, name)  # raises LoreError if there is no such turn
                hint = (
                    "it is the first of its conversation, or its request failed; name two turns, or the whole session"
                )
                raise LoreError(f"{left} has no previous turn", hint=hint)
            diffs = iter((diff,))
        else:
            diffs = diff_session(left, comparison)
        yield from map(redacted, diffs) if comparison.redact else diffs


def diff_files(left: str, right: str, comparison: TurnComparison) -> results.DiffResult:
    """Compare two turns, by the whole recording if they are successive in it. Raises LoreError for a wrong name."""
    names = corpus.parse_name(left), corpus.parse_name(right)
    if names[0].path == names[1].path == corpus.STDIN:
        raise LoreError("standard input can be one side only", hint="name a file for the other side")
    one_file = corpus.is_same(names[0].path, names[1].path)
    if one_file:  # however it is spelled
        names = names[0], names[1]._replace(path=names[0].path)
        if names[0].turn is not None and names[1].turn is not None:
            diff = _find_in_session(*names, comparison)
            if diff is not None:
                return diff
    problems, memos = Problems(), dict[str, Memo]()
    first, _, left_side = _side(names[0], comparison.options, problems, memos)
    second, changes, right_side = _side(names[1], comparison.options, problems, memos)
    whole_prompts = {left_side.format, right_side.format} <= {None, "bodies", "assembled"}
    if comparison.options.completion is not None and whole_prompts:
        raise LoreError("neither side is a session log: there is no prompt to complete", hint=HINT_COMPLETE)
    paths, file = (names[0].path, names[1].path), None
    is_of_turns = one_file and any(name.turn is not None for name in names)
    if not is_of_turns and not any(corpus.is_stream(path) or filesystem.is_folder(path) for path in paths):
        file = results.FileLengths(*corpus.common_length(*paths))
    if first is None or second is None:
        return results.DiffResult(
            left=left_side, right=right_side, file=file, prompt=None, relation=None, divergence=None, reuse_ratio=None,
            causes=[], caches=[], billed=None, verdict=None, problems=problems.kept,
        )  # fmt: skip
    same_chain = paths[0] == paths[1] and first.chain == second.chain
    numbers = [number for number in changes if same_chain and first.number < number <= second.number]
    second = replace(second, changes=tuple(change for number in numbers for change in changes[number]))
    # Turns that are named are compared even if their requests failed.
    first, second = [replace(turn, call=Call()) if turn.failed else turn for turn in (first, second)]
    follows = whole_prompts or (same_chain and second.number == first.number + 1)
    chain = ComparedChain(comparison.dated.rules, comparable=follows)
    chain.compare_next(first)
    pair, state = chain.compare_next(second), ChainState(comparison.dated.rules)
    assert pair is not None, "a second turn makes a pair"
    pair = add_prices(drop_loss_below_minimum(pair, state), state)
    comparison.predict(pair.previous)
    place = Place(paths[1], audience=comparison.audience or ("user" if second.basis is not None else "author"))
    diff = PairFigures(pair.previous, comparison).describe(
        pair, place, left_side, right_side, file=file, problems=problems.kept, caches=comparison.predict(pair.current)
    )
    is_of_logs = not one_file and None not in (first.basis, second.basis)
    if is_of_logs and first.prompt.messages.common(second.prompt.messages) < 2:  # at most the role of a message
        return replace(diff, causes=[], caches=[])  # two sessions: the second could read no message of the first
    return diff


def _find_in_session(expected: Name | None, name: Name, comparison: TurnComparison) -> results.DiffResult | None:
    """Return the comparison of a turn with the previous one in its session.

    None if the previous turn is not `expected`, if no such pair exists, or if the file is not a readable session:
    then the caller reads the names one by one, and reports the error.
    """
    has_subagents = name.chain is not None or (expected is not None and expected.chain is not None)
    try:
        recording = comparison.options.open(name.path, Problems(), subagents=has_subagents)
    except LoreError:
        return None  # raised again when each name is read
    if comparison.options.completion is not None and not recording.events:
        return None
    pairs = _SessionPairs(recording, comparison)
    chains, diff_by_chain = dict[str, None](), dict[str, tuple[TurnVerdict, results.DiffResult | None]]()
    for verdict, diff in pairs:
        chains[verdict.turn.chain] = None
        if verdict.turn.number == name.turn:
            diff_by_chain[verdict.turn.chain] = verdict, diff
    default_chain = MAIN if MAIN in chains else next(iter(chains), MAIN)
    verdict, diff = diff_by_chain.get(name.chain or default_chain, (None, None))
    if verdict is None or verdict.pair is None or diff is None:
        return None
    previous = verdict.pair.previous
    if expected is not None and (previous.chain, previous.number) != (expected.chain or default_chain, expected.turn):
        return None
    left_label = diff.left.name if expected is None else str(expected)
    return replace(
        pairs.with_late_causes(diff), left=replace(diff.left, name=left_label),
        right=replace(diff.right, name=str(name)), chain=None, turn=None,
        problems=recording.problems.kept,
    )  # fmt: skip


def _side(
    name: Name, options: Options, problems: Problems, memos: dict[str, Memo]
) -> tuple[Turn | None, dict[int, tuple[Change, ...]], results.DiffSide]:
    """Return a side's turn and changes as `pick` does, and its description; a file of unknown format has no turn."""
    try:
        recording = options.open(name.path, problems, subagents=name.chain is not None, memos=memos)
        turn, changes = pick(recording, name)
    except UnrecognisedError:
        if name.turn is not None:
            raise
        return None, {}, results.DiffSide(str(name))
    return turn, changes, _describe(str(name), recording, turn, options)


def _name_of(recording: Recording, turn: Turn) -> str:
    chain = "" if turn.chain == MAIN else f"{turn.chain}:"
    return f"{recording.shown}#{chain}{turn.number}"


def _describe(name: str, recording: Recording, turn: Turn | None, options: Options) -> results.DiffSide:
    if turn is None:
        return results.DiffSide(name, format=recording.reader.name)
    prompt = turn.prompt
    partial = True if prompt.partial else UNSET
    fidelity = "hashed" if turn.fidelity == "hashed" else prompt.fidelity
    is_complete = turn.basis is None or options.completion is not None
    lacks = "" if is_complete else lacks_of(recording.state.format, turn.basis)
    return results.DiffSide(
        name, recording.reader.name, prompt.dialect, prompt.model, fidelity, partial, lacks or UNSET
    )


def diff_session(name: str, comparison: TurnComparison) -> Iterator[results.DiffResult]:
    """Compare every turn of a session with the previous one in its chain, in the order recorded.

    Findings about a whole chain are known only when the recording ends, so all pairs are yielded then. A stream may
    never end: each of its pairs is yielded when the next one arrives, without these findings; only the last pair has
    them.
    """
    parsed = corpus.parse_name(name)
    recording = comparison.options.open(parsed.path, Problems(), subagents=True)
    if comparison.options.completion is not None and not recording.events:
        raise LoreError(f"{recording.shown} holds whole prompts: nothing is missing", hint=HINT_COMPLETE)
    pairs, diffs, turns = _SessionPairs(recording, comparison), list[results.DiffResult](), list[str]()
    for verdict, diff in pairs:
        turns.append(_name_of(recording, verdict.turn))
        if diff is None:
            continue
        if diffs and corpus.is_stream(parsed.path):
            yield diffs.pop()
        diffs.append(diff)
    if not diffs:
        reason = f"each is a conversation of its own; name two, such as {' '.join(turns[:2])}"
        hint = reason if len(turns) > 1 else "name two files, or a session of several turns"
        turns_held = count_of(len(turns), "turn")
        raise NoPairError(f"{recording.shown} holds {turns_held} and no pair to compare", hint=hint, own=True)
    late_problems = recording.problems.take()
    diffs[-1] = replace(diffs[-1], problems=[*diffs[-1].problems, *late_problems])
    yield from map(pairs.with_late_causes, diffs)


class _SessionPairs:
    """Iterates over the turns of a recording, with the comparison of each with its previous turn."""

    def __init__(self, recording: Recording, comparison: TurnComparison) -> None:
        self._recording, self._comparison = recording, comparison
        self._late = defaultdict[tuple[str | None, int | None], list[Finding]](list)  # about whole chains, by turn

    def __iter__(self) -> Iterator[tuple[TurnVerdict, results.DiffResult | None]]:
        recording, comparison = self._recording, self._comparison
        place = Place(recording.shown, audience=audience_of(recording, comparison.audience))
        figures: dict[str, PairFigures] = {}
        for verdict, chain_findings in verdicts(recording, comparison.dated.judge(), place):
            for finding in chain_findings:
                self._late[finding.chain, finding.turn].append(finding)
            if verdict is None:
                return
            turn, pair, predicted = verdict.turn, verdict.pair, comparison.predict(verdict.turn)
            if pair is None:
                if not turn.failed:
                    figures[turn.chain] = PairFigures(turn, comparison)
                yield verdict, None
                continue
            if pair.previous.chain != turn.chain:
                figures[turn.chain] = PairFigures(pair.previous, comparison)
            sides = [
                _describe(_name_of(recording, side), recording, side, comparison.options)
                for side in (pair.previous, turn)
            ]
            diff = figures[turn.chain].describe(
                pair, place, *sides, problems=recording.problems.take(), caches=predicted, with_turn=True
            )
            yield verdict, diff

    def with_late_causes(self, diff: results.DiffResult) -> results.DiffResult:
        """Add the findings about a whole chain to the turn that they name."""
        late_causes = causes_of(self._late.get((diff.chain, diff.turn), ()), redact=self._comparison.redact)
        return replace(diff, causes=[*diff.causes, *late_causes]) if late_causes else diff


class PairFigures:
    """Describes the successive pairs of one chain, from its first turn on; each segment is measured once."""

    def __init__(self, first: Turn, comparison: TurnComparison) -> None:
        self._counter, self._redact = comparison.options.counter, comparison.redact
        self._canonical = overlap.ChainSums(lambda segment: len(overlap.canonical_of(segment)))
        counter = self._counter
        self._tokens = None if counter is None else overlap.ChainSums(lambda segment: counter.count(segment.data))
        self._latest = first
        for sums in filter(None, (self._canonical, self._tokens)):
            sums.advance(first.prompt, 0)

    def describe(
        self, pair: Pair, place: Place, left: results.DiffSide, right: results.DiffSide, *,
        file: results.FileLengths | None = None,
        problems: Sequence[Problem] = (), caches: Sequence[results.CachePrediction] = (), with_turn: bool = False,
    ) -> results.DiffResult:  # fmt: skip
        """Return the result for the next pair; `with_turn` adds the chain and turn of its right side."""
        usage, verdict = pair.current.usage, pair.current.verdict
        prompts = pair.previous.prompt, pair.current.prompt
        return results.DiffResult(
            left=left, right=right, file=file, prompt=self._lengths(pair),
            relation=overlap.name_relation(*prompts, pair.overlap),
            divergence=overlap.find_divergence(*prompts, pair.overlap, pair.bytes.common),
            reuse_ratio=None if pair.reuse is None else round(pair.reuse, 6),
            causes=causes_of(turn_findings(pair, place), redact=self._redact),
            caches=list(caches), billed=None if usage is None else results.UsageResult.of(usage),
            verdict=None if verdict is None else results.copy_fields(results.VerdictResult, verdict),
            problems=list(problems), chain=pair.current.chain if with_turn else None,
            turn=pair.current.number if with_turn else None,
            columns=columns_result(pair, CHANGES if self._redact else MASKED),
        )  # fmt: skip

    def _lengths(self, pair: Pair) -> results.PromptLengths:
        previous = pair.previous
        if (previous.chain, previous.number) != (self._latest.chain, self._latest.number):
            # A request may continue any earlier request: measure from that one.
            shared = overlap.count_shared_segments(self._latest.prompt, previous.prompt)
            for sums in filter(None, (self._canonical, self._tokens)):
                sums.advance(previous.prompt, shared)
        self._latest = pair.current
        canonical = overlap.count_canonical_bytes(self._canonical, previous.prompt, pair.current.prompt, pair.overlap)
        self._canonical.advance(pair.current.prompt, pair.overlap.common)
        tokens = None
        if self._tokens is not None and self._counter is not None:
            tokens, place = self._tokens.advance(pair.current.prompt, pair.overlap.common), pair.overlap.common
            segments = previous.prompt.segment_at(place), pair.current.prompt.segment_at(place)
            if pair.overlap.common_bytes and segments[0] is not None and segments[1] is not None:
                common_count = self._counter.count_common(segments[0].data, segments[1].data)
                tokens = replace(tokens, common=tokens.common + common_count)
        return results.PromptLengths(
            left_bytes=pair.bytes.previous, right_bytes=pair.bytes.current, left_tail_bytes=pair.tail_bytes,
            common_prefix_bytes=pair.bytes.common + pair.overlap.common_bytes,
            common_prefix_segments=pair.overlap.common, canonical_common_prefix_bytes=canonical,
            left_tokens=None if tokens is None else tokens.previous,
            right_tokens=None if tokens is None else tokens.current,
            common_prefix_tokens=None if tokens is None else tokens.common,
            tokenizer=None if self._counter is None else self._counter.name,
        )  # fmt: skip
