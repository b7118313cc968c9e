"""`lore simulate`: all recordings under some paths, once a cache, and again as they might have been.

In: paths, rules, names of caches, changes as `KEY=VALUE`. Out: a `Simulated` a cache. Rules: a change is simulated by
the same models over the same recordings, and what it saves is the difference of the two predictions; a cause that is
removed saves what its turns paid again; nothing asked, the fixes of the causes found are ranked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from lore.cache.predictor import NO_CHANGE, Change, Predictor
from lore.cache.registry import Option
from lore.cache.rules import Rules
from lore.errors import LoreError
from lore.judge.policy import Policy, Ruling
from lore.model.problems import Problem
from lore.model.simulated import Saving, Simulated, SimulatedTurn
from lore.recording import corpus
from lore.recording.base import UnrecognisedError
from lore.recording.inputs import Input, inputs
from lore.recording.options import Options
from lore.recording.problems import Problems
from lore.run.rules import stale
from lore.run.simulating import CURRENCY, Simulation
from lore.run.sums import Sums, money
from lore.run.verdicts import PACKAGED, Dated

RANK = ""  # a change without a value: which fix saves most
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
        base = _run(files, asked, options, rules, cache, NO_CHANGE)
        savings = [
            saving for text, change in changes for saving in _saved(text, change, base, files, asked, options, rules)
        ]
        notes = [*base.notes, *_idle(savings, base)]
        if RANK in asked.changes:
            savings += ranked(base)
            notes += _longer(base)
        yield msgspec.structs.replace(base, what_if=savings, notes=notes)


def _run(
    files: list[Input], asked: Asked, options: Options, rules: Rules, cache: str | None, change: Change
) -> Simulated:  # fmt: skip
    sums, found = Sums(), list[Problem]()
    count = None if options.counter is None else options.counter.count
    simulation = Simulation(Predictor(rules, cache, change, count), dated=asked.dated)
    read = 0
    for file in files:
        problems = Problems()
        read += _file(file, simulation, sums, options, problems)
        found.extend(problems.kept)
    found.extend(simulation.problems.kept)
    if not read:
        raise LoreError(
            f"no recordings in {corpus.show(asked.paths[0])}", hint="lore simulate reads sessions and captures"
        )
    as_of = None if rules.as_of is None else rules.as_of.isoformat()
    return sums.result(cache, as_of, _notes(sums.turns, rules, simulation.copied), found)


def _file(file: Input, simulation: Simulation, sums: Sums, options: Options, problems: Problems) -> bool:
    """Simulate one file; return whether it is a recording."""
    shown = corpus.show(file.path)
    try:
        if file.error is not None:
            raise file.error
        for seen in simulation.recording(options.open(file.path, problems)):
            sums.add(seen)
    except UnrecognisedError:
        if file.named:
            raise
        options.log(f"{shown}: no recording, passed over")
        return False
    except LoreError as error:
        if file.named:
            raise
        problems.add(Problem("LORE215", error.message), shown)
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


_SO_ALREADY = "what is written here lives that long already, or no pause was long enough to matter"
_HOLDS = {
    "ttl": "entries live as long as a client asks at Anthropic and Bedrock alone",
    "breakpoints": "it holds for requests to caches with breakpoints, and transcripts hold no breakpoints",
    "model": "no price is known for both models here (--rules-file can give one)",
}


def _idle(savings: Iterable[Saving], base: Simulated) -> Iterator[str]:
    """Say of changes that change nothing why that is."""
    chosen = {one.cache for one in base.turns} & {"anthropic", "bedrock"}
    for one in savings:
        key = one.change.partition("=")[0].strip()
        why = _SO_ALREADY if key == "ttl" and chosen else _HOLDS.get(key)
        if why is not None and not one.turns and not one.saved:
            yield f"--what-if {one.change} changes nothing here: {why}"


def _longer(base: Simulated) -> Iterator[str]:
    """Say what to try where entries expired: what that saves is known once it is simulated."""
    lost = [one.lost_tokens or 0 for one in base.turns if one.cause is not None and one.cause.code == "LORE128"]
    paid = base.totals.by_price.keys()
    short = not paid or paid & {"write", "write_5m"}
    if any(lost) and short and {one.cache for one in base.turns} & {"anthropic", "bedrock"}:
        yield f"{sum(lost):,} tokens were written again after pauses: --what-if ttl=1h says what an hour saves"


# changes


def _change(text: str, caches: Sequence[str]) -> Change | None:
    """Read `KEY=VALUE`; None for a cause, which changes no prediction. Raises LoreError for what cannot be."""
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


def _saved(
    text: str, change: Change | None, base: Simulated, files: list[Input], asked: Asked, options: Options, rules: Rules
) -> Iterable[Saving]:  # fmt: skip
    if change is None:
        return removed(base, text.partition("=")[2].strip(), text)
    other = _run(files, asked, options, rules, base.cache if _is_named(base) else None, change)
    return (compared(text, base, other),)


def _is_named(base: Simulated) -> bool:
    return base.cache is not None


def compared(text: str, base: Simulated, other: Simulated) -> Saving:
    """Compare two simulations of the same recordings: tokens that are read in the second alone, and money.

    Money is compared over the turns that have a price in both.
    """
    moved = [
        (one.predicted.read_tokens, two.predicted.read_tokens)
        for one, two in zip(base.turns, other.turns, strict=True)
        if one.predicted.read_tokens != two.predicted.read_tokens
    ]
    paid = [
        (before, after)
        for one, two in zip(base.turns, other.turns, strict=True)
        if (before := _predicted_cost(one)) is not None and (after := _predicted_cost(two)) is not None
    ]
    before, after = money(one for one, _ in paid), money(two for _, two in paid)
    tokens = sum((two or 0) - (one or 0) for one, two in moved)
    saved = None if before is None or after is None else round(before - after, 6)
    return Saving(change=text, turns=len(moved), tokens=tokens, currency=CURRENCY, saved=saved, fix="")


def _predicted_cost(turn: SimulatedTurn) -> float | None:
    return None if turn.cost is None else turn.cost.predicted


def removed(base: Simulated, code: str, text: str = "") -> list[Saving]:
    """Say what a cause cost: what would have been saved without it."""
    meant = Ruling(select=(code,))
    found = [one for one in base.turns if one.cause is not None and meant.wants(one.cause.code, one.cause.name)]
    if not found:
        return [Saving(change=text or f"cause={code}", turns=0, tokens=0, currency=CURRENCY, saved=0.0, fix="")]
    fixes = {one.cause.fix for one in found if one.cause is not None}
    return [
        Saving(
            change=text or f"cause={code}", turns=len(found), tokens=sum(one.lost_tokens or 0 for one in found),
            currency=CURRENCY, saved=money(_again(one) for one in found), fix=" ".join(sorted(fixes)),
        )
    ]  # fmt: skip


def _again(turn: SimulatedTurn) -> float | None:
    """Return what a turn paid again without need; what a session without an expected cause costs, nobody knows."""
    if turn.cause is not None and turn.cause.kind == "expected" and turn.lost_tokens:
        return None
    return None if turn.cost is None else turn.cost.waste


def ranked(base: Simulated) -> list[Saving]:
    """Rank the fixes of the causes found by what each would have saved; what is expected or unexplained has none."""
    codes = {one.cause.code for one in base.turns if one.cause is not None and one.cause.kind == "waste"}
    found = [saving for code in sorted(codes) for saving in removed(base, code)]
    return sorted(found, key=lambda one: (-(one.saved or 0.0), -one.tokens, one.change))
