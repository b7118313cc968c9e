"""What a change would have saved: `KEY=VALUE` to a change, and two plays of the same turns side by side.

In: runs of the same recordings. Out: a `Saving` a change, notes on what could not be simulated. Rules: both plays have
the same turns and the same evidence; money is compared over turns that have a price in both; what is so already saves
0 and says so; the unexplained and weak causes are no fixes, and what is expected is none either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import NamedTuple, TypeAlias

from lore.cache.predictor import Touched, WhatIf
from lore.cache.prices import Price
from lore.cache.registry import options_in
from lore.errors import LoreError
from lore.judge.base import CURRENCY, summed
from lore.judge.counterfactual import BY_VERDICT, Break, Played, otherwise
from lore.judge.policy import Policy, Ruling
from lore.model.codes import CODES, UNEXPLAINED, Code, Reader, fix_of
from lore.model.results.simulate import Saving, Simulated, SimulatedTurn

TTL, AUTO = "ttl=1h", "breakpoints=auto"
KEYS = "ttl=5m|1h, breakpoints=auto, model=NAME, cause=CODE[,CODE], or options of the cache that --cache names"
_TTL = {"5m": 300.0, "1h": 3600.0}
_TOGETHER = 8  # sets of causes that are tried together: those that lost most
_LIVING = {"anthropic", "bedrock"}  # caches at which a client can ask for a longer life
_NO_FIX = {
    **dict.fromkeys(UNEXPLAINED, "that nothing explains"),
    BY_VERDICT: "of which only the provider says that the client changed something",
}
_ALREADY = {
    "ttl=1h": "every write of these turns lives an hour",
    "ttl=5m": "every write of these turns lives five minutes",
    "breakpoints=auto": "every breakpoint of these requests stands there",
    "model": "every turn asks for that model",
}
_HOLDS = {
    "ttl": "entries live as long as a client asks at Anthropic and Bedrock alone",
    "breakpoints": "it holds for requests to caches with breakpoints, and transcripts hold no breakpoints",
    "model": "no price is known for both models here (--rules-file can give one)",
}
_Match: TypeAlias = Callable[[Break], bool]


class Paid(NamedTuple):
    """What is kept of a turn to play it again; `reader` is whom its fixes speak to.

    `contradicted`: its bill shows that another body was sent than the one recorded.
    """

    played: Played
    price: Price | None
    reader: Reader
    contradicted: bool = False


class Run(NamedTuple):
    """One play of all recordings: the answer, its turns, and what a change touched of them.

    `transcripts` counts turns that hold no breakpoints, `bodies` those that could.
    """

    result: Simulated
    turns: list[Paid]
    touched: Touched
    transcripts: int
    bodies: int

    @property
    def breaks(self) -> list[Break]:
        """Every cause of every turn."""
        return [found for turn in self.turns for found in turn.played.breaks]

    @property
    def expired(self) -> bool:
        """Whether entries expired where a client can ask for a longer life."""
        caches = {turn.cache for turn in self.result.turns}
        return bool(caches & _LIVING) and any(found.code == Code.CACHE_EXPIRED for found in self.breaks)


class NotedSaving(NamedTuple):
    """What a change saves, and what is to be said of it."""

    saving: Saving
    notes: list[str]


def change_of(text: str, caches: Sequence[str]) -> WhatIf | None:
    """Read `KEY=VALUE`, of options of a cache several with commas; None for a cause: its turns are played already.

    Raises LoreError for what cannot be.
    """
    key, equals, value = text.partition("=")
    key, value = key.strip().replace("-", "_"), value.strip()
    if not equals or not value:
        raise LoreError(f"--what-if {text!r} is not KEY=VALUE", hint=KEYS)
    match key:
        case "cause":
            Policy(select=_codes(value)).known("--what-if cause: ")
            return None
        case "ttl":
            if value not in _TTL:
                raise LoreError(f"--what-if ttl={value}: entries live 5m or 1h", hint="ttl=5m or ttl=1h")
            return WhatIf(lifetime=_TTL[value])
        case "breakpoints":
            if value != "auto":
                hint = "breakpoints=auto: one at the end of each section"
                raise LoreError(f"--what-if breakpoints={value} is not known", hint=hint)
            return WhatIf(breakpoints=True)
        case "model":
            return WhatIf(model=value)
        case _:
            if not caches:
                raise LoreError(f"--what-if {key} is an option of one cache", hint="name it with --cache, or: " + KEYS)
            return WhatIf(options=options_in(text, "--what-if ", KEYS))


def _codes(text: str) -> tuple[str, ...]:
    codes = tuple([code.strip() for code in text.split(",") if code.strip()])
    if not codes:
        raise LoreError(f"--what-if cause={text} names no cause", hint=KEYS)
    return codes


# two runs


def compared(text: str, base: Run, other: Run) -> NotedSaving:
    """Compare two simulations of the same recordings: tokens that are read in the second alone, and money."""
    touched = other.touched
    if touched.already and not touched.changed:
        saving = Saving(change=text, turns=0, tokens=0, currency=CURRENCY, saved=0.0, fix="")
        return NotedSaving(saving, list(_notes(saving, touched)))
    turns = zip(base.turns, base.result.turns, other.result.turns, strict=True)
    pairs = [(left, right) for paid, left, right in turns if not paid.contradicted]
    reads = [(left.predicted.read_tokens, right.predicted.read_tokens) for left, right in pairs]
    more = [now - was for was, now in reads if was is not None and now is not None and was != now]
    costs = [(_predicted_cost(left), _predicted_cost(right)) for left, right in pairs]
    known = [(was, now) for was, now in costs if was is not None and now is not None]
    before, after = summed(was for was, _ in known), summed(now for _, now in known)
    saved = None if before is None or after is None else round(before - after, 6)
    saving = Saving(change=text, turns=len(more), tokens=sum(more), currency=CURRENCY, saved=saved, fix="")
    notes = list(_notes(saving, touched))
    contradicted = len(base.turns) - len(pairs)
    if contradicted:
        whose = "whose bills contradict their bodies"
        notes.append(f"not simulated: {text} in {turns_of(contradicted)} {whose} ({Code.BILL_CONTRADICTS_BODY})")
    return NotedSaving(saving, notes)


def _predicted_cost(turn: SimulatedTurn) -> float | None:
    return None if turn.cost is None else turn.cost.predicted


def _notes(saving: Saving, touched: Touched) -> Iterator[str]:
    """Say of a change how much of it is so already, or why it changes nothing."""
    key, _, value = saving.change.partition("=")
    key = key.strip()
    already = _ALREADY.get(f"{key}={value.strip()}", _ALREADY.get(key, ""))
    if already and touched.already and not touched.changed:
        yield f"{saving.change} is so already: {already}"
    elif already and touched.already:
        both = touched.already + touched.changed
        yield f"{saving.change} is so already in {touched.already:,} of {turns_of(both)}, which stay as they are"
    idle = saving.saved is None if key == "model" else not touched.changed and not saving.turns
    if key in _HOLDS and not touched.already and idle:
        yield f"--what-if {saving.change} changes nothing here: {_HOLDS[key]}"


# a cause that is taken away


def removed(base: Run, text: str) -> NotedSaving:
    """Play the turns again without a cause, or several (`cause=CODE,CODE`); it needs no second look at the files."""
    ruling = Ruling(select=_codes(text.partition("=")[2]))

    def without(cause: Break) -> bool:
        return ruling.wants(cause.code, CODES[cause.code].name if cause.code in CODES else "")

    saving = _without(base, without, text)
    return NotedSaving(saving, list(_notes_of_cause(base, without, saving)))


def _without(base: Run, without: _Match, text: str) -> Saving:
    changed = list(otherwise([turn.played for turn in base.turns], without))
    saved, priced, tokens = Decimal(0), False, 0
    for number, paid in changed:
        before, price = base.turns[number].played.paid, base.turns[number].price
        assert before is not None, "only what was paid can be paid otherwise"
        tokens += (paid.met.read_tokens or 0) - (before.met.read_tokens or 0)
        costs = (None, None) if price is None else (price.of(before), price.of(paid))
        if costs[0] is not None and costs[1] is not None:
            saved, priced = saved + costs[0] - costs[1], True
    fixes = {
        fix_of(cause.code, turn.reader, cause.kind)
        for turn in base.turns
        for cause in turn.played.breaks
        if without(cause) and cause.code in CODES
    }
    return Saving(
        change=text, turns=len(changed), tokens=tokens, currency=CURRENCY,
        saved=float(round(saved, 6)) if priced or not changed else None, fix=" ".join(sorted(fixes)),
    )  # fmt: skip


def _notes_of_cause(base: Run, without: _Match, saving: Saving) -> Iterator[str]:
    """Say why a cause that is taken away saves nothing, or how far it can be believed."""
    found = [cause for cause in base.breaks if without(cause)]
    if not found:
        yield f"{saving.change}: no turn has it"
    elif all(cause.code in UNEXPLAINED for cause in found):
        yield f"{saving.change} cannot be taken away: it says that nothing explains what was lost"
    elif not saving.turns:
        broken = [turn.played.breaks for turn in base.turns if any(without(cause) for cause in turn.played.breaks)]
        beside = {
            cause.code for causes in broken for cause in causes
            if not without(cause) and (cause.leads or cause.strength != "weak") and cause.code not in UNEXPLAINED
        }  # fmt: skip
        why = f"what else broke the same prefixes still breaks them ({', '.join(sorted(beside))})"
        yield f"{saving.change} alone saves nothing: {why if beside else 'nothing was paid again for it'}"
    elif all(cause.strength == "weak" for cause in found):
        yield f"{saving.change}: the evidence for it is weak, so that its turns may have lost for another reason"
    if any(cause.kind == "expected" for cause in found) and saving.turns:
        yield f"{saving.change}: the same prompts are played; a session without what is expected would ask others"


def of_causes(base: Run) -> Iterator[NotedSaving]:
    """Yield what the fix of each cause found would have saved, then causes that save more together than each alone."""
    codes = sorted({cause.code for cause in base.breaks if _has_fix((cause.code,), cause)})
    alone = {code: _without(base, partial(_has_fix, (code,)), f"cause={code}") for code in codes}
    yield from (NotedSaving(saving, []) for saving in alone.values())
    for together in _together(base):
        saving = _without(base, partial(_has_fix, together), f"cause={','.join(together)}")
        more = saving.tokens - sum(alone[code].tokens for code in together)
        if more > 0:
            only = "are saved only where all of these are taken away, for each breaks the same prefixes"
            yield NotedSaving(saving, [f"{saving.change}: {more:,} tokens {only}"])


def _together(base: Run) -> list[tuple[str, ...]]:
    """Return causes that each broke most of what the same turn lost: taken away alone, none of them saves that."""
    lost = Counter[tuple[str, ...]]()
    for turn in base.turns:
        breaks = turn.played.breaks
        most = max((cause.loses for cause in breaks), default=0)
        codes = {cause.code for cause in breaks if 2 * cause.loses > most and _has_fix((cause.code,), cause)}
        if len(codes) > 1:
            lost[tuple(sorted(codes))] += most
    return sorted(lost, key=lambda codes: (-lost[codes], codes))[:_TOGETHER]


def _has_fix(codes: Sequence[str], cause: Break) -> bool:
    """Tell whether it is a cause of one of these codes that a fix would take away."""
    return cause.code in codes and cause.kind != "expected" and cause.strength != "weak" and cause.code not in _NO_FIX


def in_order(savings: Iterable[Saving]) -> list[Saving]:
    """Put what saves most first."""
    return sorted(savings, key=lambda saving: (-(saving.saved or 0.0), -saving.tokens, saving.change))


def left_out(base: Run) -> Iterator[str]:
    """Say what was paid again and cannot be simulated, and why."""
    lost = [(turn, turn.cause) for turn in base.result.turns if turn.cause is not None]
    for code, why in _NO_FIX.items():
        bare = [turn.unexplained_tokens for turn, cause in lost if turn.unexplained_tokens and cause.code == code]
        if bare:
            yield f"not simulated: {sum(bare):,} tokens in {turns_of(len(bare))} {why} ({code})"
    weak = {cause.code for _, cause in lost if cause.strength == "weak" and cause.code not in UNEXPLAINED}
    if weak:
        yield f"not simulated: {', '.join(sorted(weak))}, for which the evidence is weak"
    unpriced = sum(turn.played.paid is not None and turn.price is None for turn in base.turns)
    if unpriced:
        yield f"not simulated in money: {turns_of(unpriced)} without a price"
    if base.transcripts:
        many = turns_of(base.transcripts)
        yield f"not simulated: breakpoints=auto in {many} of transcripts, which hold no breakpoints"


def longer_life(base: Simulated) -> Iterator[str]:
    """Say what to try where entries expired: what that saves is known once it is simulated."""
    lost = [turn.lost_tokens or 0 for turn in base.turns if turn.cause and turn.cause.code == Code.CACHE_EXPIRED]
    paid = base.totals.by_price.keys()
    short = not paid or paid & {"write", "write_5m"}
    if any(lost) and short and {turn.cache for turn in base.turns} & _LIVING:
        yield f"{sum(lost):,} tokens were written again after pauses: --what-if {TTL} says what an hour saves"


def turns_of(count: int) -> str:
    """Return `1 turn`, `2 turns`."""
    return f"{count:,} turn{'' if count == 1 else 's'}"
