"""`lore simulate`: all recordings under some paths, once a cache, and again as they might have been.

In: paths, rules, names of caches, changes as `KEY=VALUE`. Out: a `Simulated` a cache. Rules: a change is simulated by
the same models over the same recordings, and what it saves is the difference of the two plays; nothing asked, the
causes found are ranked from the one look at the files; a bare `--what-if` plays every fix that can be simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import msgspec

from lore.cache.predictor import NO_CHANGE, Change, Predictor
from lore.cache.registry import Option
from lore.cache.rules import Rules
from lore.errors import LoreError
from lore.judge.policy import Policy
from lore.model.codes import Code, Problem
from lore.model.results_simulate import Saving, Simulated, SimulatedTurn
from lore.recording import corpus
from lore.recording.base import Problems, UnrecognisedError
from lore.recording.inputs import Input, inputs
from lore.recording.opening import Options
from lore.run.rules import stale
from lore.run.savings import Paid, Run, compared, expired, in_order, left_out, ranked, removed, told, told_of_cause
from lore.run.simulating import Simulation
from lore.run.sums import Sums
from lore.run.verdicts import PACKAGED, Dated

RANK = ""  # a change without a value: which fix saves most
TTL, AUTO = "ttl=1h", "breakpoints=auto"
KEYS = "ttl=5m|1h, breakpoints=auto, model=NAME, cause=CODE, or an option of the cache that --cache names"
_TTL = {"5m": 300.0, "1h": 3600.0}


class Asked(NamedTuple):
    """What to simulate: `caches` (none: whoever served a turn), `changes` as `KEY=VALUE` or `RANK`.

    `dated` says by which rules verdicts are made.
    """

    paths: list[str]
    caches: Sequence[str] = ()
    changes: Sequence[str] = ()
    dated: Dated = PACKAGED


def simulate(asked: Asked, options: Options, rules: Rules) -> Iterator[Simulated]:
    """Yield a result for each cache. Raises LoreError for what was named and is no recording."""
    files = inputs(asked.paths)
    once = any(file.stream for file in files)
    if once and (len(asked.caches) > 1 or any(change != RANK for change in asked.changes)):
        hint = "save it to a file: several caches and changes need more than one look"
        raise LoreError("standard input and pipes can be read once only", hint=hint)
    changes = [(text, _change(text, asked.caches)) for text in asked.changes if text != RANK]
    for cache in asked.caches or (None,):
        played = partial(_run, files, asked, options, rules, cache)
        base = played(NO_CHANGE)
        savings, notes = list[Saving](), list(base.result.notes)
        for text, change in changes:
            saving, said = _saved(text, change, base, played)
            savings.append(saving)
            notes += said
        if RANK in asked.changes:
            more, said = _every_fix(base, played, once=once)
            savings += more
            notes += said
        elif not asked.changes:
            savings += ranked(base)
        if once or not asked.changes:
            notes += _longer(base.result)
        yield msgspec.structs.replace(base.result, what_if=savings, notes=notes)


_Play: TypeAlias = Callable[[Change], Run]


def _saved(text: str, change: Change | None, base: Run, played: _Play) -> tuple[Saving, list[str]]:
    """Return what one change saves, and what is to be said of it; a cause needs no second look at the files."""
    if change is None:
        code = text.partition("=")[2].strip()
        saving = removed(base, code, text)
        return saving, list(told_of_cause(base, code, saving))
    other = played(change)
    saving = compared(text, base, other)
    return saving, list(told(saving, other))


def _every_fix(base: Run, played: _Play, *, once: bool) -> tuple[list[Saving], list[str]]:
    """Rank every fix that can be simulated, and say what cannot."""
    found, notes = ranked(base), list(left_out(base))
    wanted = [(TTL, expired(base)), (AUTO, bool(base.marked))]
    for text, change in ((text, _change(text, ())) for text, there in wanted if there):
        if once:
            notes.append(f"not simulated: {text}, since standard input and pipes can be read once only")
        else:
            saving, said = _saved(text, change, base, played)
            found += [saving] if saving.turns or saving.saved else []
            notes += said
    return in_order(found), notes


def _run(
    files: list[Input], asked: Asked, options: Options, rules: Rules, cache: str | None, change: Change
) -> Run:  # fmt: skip
    sums, found, turns = Sums(), list[Problem](), list[Paid]()
    predictor = Predictor(rules, cache, change, None if options.counter is None else options.counter.count)
    simulation = Simulation(predictor, dated=asked.dated)
    read = 0
    for file in files:
        problems = Problems()
        read += _file(file, simulation, sums, turns, options, problems)
        found.extend(problems.kept)
    found.extend(simulation.problems.kept)
    if not read:
        raise LoreError(
            f"no recordings in {corpus.show(asked.paths[0])}", hint="lore simulate reads sessions and captures"
        )
    as_of = None if rules.as_of is None else rules.as_of.isoformat()
    result = sums.result(cache, as_of, _notes(sums.turns, rules, simulation.copied), found)
    return Run(result, turns, predictor.touched, simulation.transcripts, simulation.marked)


def _file(
    file: Input, simulation: Simulation, sums: Sums, turns: list[Paid], options: Options, problems: Problems
) -> bool:  # fmt: skip
    """Simulate one file; return whether it is a recording."""
    shown = corpus.show(file.path)
    try:
        if file.error is not None:
            raise file.error
        for seen in simulation.recording(options.open(file.path, problems)):
            sums.add(seen)
            turns.append(Paid.of(seen))
    except UnrecognisedError:
        if file.named:
            raise
        options.log(f"{shown}: no recording, passed over")
        return False
    except LoreError as error:
        if file.named:
            raise
        problems.add(Problem(Code.UNREADABLE_FILE, error.message), shown)
    return True


def _notes(turns: Sequence[SimulatedTurn], rules: Rules, copied: int) -> Iterator[str]:
    latest = max((one.at for one in turns if one.at is not None), default=None)
    old = stale(rules, latest)
    if old is not None:
        yield old
    billed = {one.path for one in turns if one.billed is not None}
    bare = sum(one.path not in billed and one.predicted.read_tokens is not None for one in turns)
    if bare:
        yield f"{bare:,} turns without a bill are counted with o200k_base: other tokenizers differ by up to 35 %"
    unknown = sum(one.cache is None for one in turns)
    if unknown:
        yield f"{unknown:,} turns are not predicted: nothing says which cache served them (--cache NAME does)"
    unpriced = sorted({one.model or "without a name" for one in turns if one.cost is None})
    if unpriced:
        yield f"no price is known for {', '.join(unpriced[:5])}: a file of --rules-file can give one"
    if copied:
        yield f"{copied:,} turns are copies of others and counted once"


def _longer(base: Simulated) -> Iterator[str]:
    """Say what to try where entries expired: what that saves is known once it is simulated."""
    lost = [
        one.lost_tokens or 0 for one in base.turns if one.cause is not None and one.cause.code == Code.CACHE_EXPIRED
    ]
    paid = base.totals.by_price.keys()
    short = not paid or paid & {"write", "write_5m"}
    if any(lost) and short and {one.cache for one in base.turns} & {"anthropic", "bedrock"}:
        yield f"{sum(lost):,} tokens were written again after pauses: --what-if ttl=1h says what an hour saves"


# changes


def _change(text: str, caches: Sequence[str]) -> Change | None:
    """Read `KEY=VALUE`; None for a cause: the turns are played already. Raises LoreError for what cannot be."""
    key, equals, value = text.partition("=")
    key, value = key.strip().replace("-", "_"), value.strip()
    if not equals or not value:
        raise LoreError(f"--what-if {text!r} is not KEY=VALUE", hint=KEYS)
    if key == "cause":
        Policy(select=(value,)).known("--what-if cause: ")
        return None
    if key == "ttl":
        if value not in _TTL:
            raise LoreError(f"--what-if ttl={value}: entries live 5m or 1h", hint="ttl=5m or ttl=1h")
        return Change(lifetime=_TTL[value])
    if key == "breakpoints":
        if value != "auto":
            raise LoreError(
                f"--what-if breakpoints={value} is not known", hint="breakpoints=auto: one at the end of each section"
            )
        return Change(breakpoints=True)
    if key == "model":
        return Change(model=value)
    if not caches:
        raise LoreError(f"--what-if {key} is an option of one cache", hint="name it with --cache, or: " + KEYS)
    return Change(options=((key, _number(key, value)),))


def _number(key: str, value: str) -> Option:
    if value in ("true", "false"):
        return value == "true"
    try:
        return int(value)
    except ValueError:
        pass
    try:
        return float(value)
    except ValueError:
        raise LoreError(f"--what-if {key}={value}: not a number", hint=KEYS) from None
