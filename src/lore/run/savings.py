"""What a change would have saved: two plays of the same turns, side by side.

In: runs of the same recordings. Out: a `Saving` a change, notes on what could not be simulated. Rules: both plays have
the same turns and the same evidence; money is compared over turns that have a price in both; what is so already saves
0 and says so; the unexplained and weak causes are no fixes, and what is expected is none either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import partial
from typing import NamedTuple

from lore.cache.bills import Price
from lore.cache.predictor import Touched
from lore.judge.counterfactual import SAID, Break, Played, otherwise
from lore.judge.policy import Ruling
from lore.judge.tally import UNEXPLAINED
from lore.model.codes import CODES, Code, Reader, fix_of
from lore.model.results_simulate import Saving, Simulated, SimulatedTurn
from lore.run.simulating import CURRENCY, Seen
from lore.run.sums import money


class Paid(NamedTuple):
    """What is kept of a turn to play it again."""

    played: Played
    price: Price | None
    reader: Reader

    @classmethod
    def of(cls, seen: Seen) -> Paid:
        """Keep a turn."""
        return cls(seen.played, seen.price, seen.reader)


class Run(NamedTuple):
    """One play of all recordings: the answer, its turns, and what a change touched of them.

    `transcripts` counts turns that hold no breakpoints, `marked` those that do.
    """

    result: Simulated
    turns: list[Paid]
    touched: Touched
    transcripts: int
    marked: int


# two runs


def compared(text: str, base: Run, other: Run) -> Saving:
    """Compare two simulations of the same recordings: tokens that are read in the second alone, and money."""
    if other.touched.already and not other.touched.changed:
        return _nothing(text)
    pairs = list(zip(base.result.turns, other.result.turns, strict=True))
    moved = [
        after - before
        for one, two in pairs
        if (before := one.predicted.read_tokens) is not None
        and (after := two.predicted.read_tokens) is not None
        and before != after
    ]
    paid = [
        (before, after)
        for one, two in pairs
        if (before := _predicted_cost(one)) is not None and (after := _predicted_cost(two)) is not None
    ]
    before, after = money(one for one, _ in paid), money(two for _, two in paid)
    saved = None if before is None or after is None else round(before - after, 6)
    return Saving(change=text, turns=len(moved), tokens=sum(moved), currency=CURRENCY, saved=saved, fix="")


def _nothing(text: str) -> Saving:
    return Saving(change=text, turns=0, tokens=0, currency=CURRENCY, saved=0.0, fix="")


def _predicted_cost(turn: SimulatedTurn) -> float | None:
    return None if turn.cost is None else turn.cost.predicted


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


def told(saving: Saving, other: Run) -> Iterator[str]:
    """Say of a change how much of it is so already, or why it changes nothing."""
    key, _, value = saving.change.partition("=")
    key, touched = key.strip(), other.touched
    already = _ALREADY.get(f"{key}={value.strip()}", _ALREADY.get(key, ""))
    if already and touched.already and not touched.changed:
        yield f"{saving.change} is so already: {already}"
    elif already and touched.already:
        both = touched.already + touched.changed
        yield f"{saving.change} is so already in {touched.already:,} of {_turns(both)}, which stay as they are"
    idle = saving.saved is None if key == "model" else not touched.changed and not saving.turns
    if key in _HOLDS and not touched.already and idle:
        yield f"--what-if {saving.change} changes nothing here: {_HOLDS[key]}"


# a cause that is taken away


def removed(base: Run, code: str, text: str = "") -> Saving:
    """Play the turns again without a cause."""
    return _without(base, _meant(code), text or f"cause={code}")


def _meant(code: str) -> Callable[[Break], bool]:
    wanted = Ruling(select=(code,))
    return lambda one: wanted.wants(one.code, CODES[one.code].name if one.code in CODES else "")


def _without(base: Run, without: Callable[[Break], bool], text: str) -> Saving:
    changed = list(otherwise([one.played for one in base.turns], without))
    saved, priced, tokens = Decimal(0), False, 0
    for number, paid in changed:
        before, price = base.turns[number].played.paid, base.turns[number].price
        assert before is not None, "only what was paid can be paid otherwise"
        tokens += (paid.read_tokens or 0) - (before.read_tokens or 0)
        costs = (None, None) if price is None else (price.of(before), price.of(paid))
        if costs[0] is not None and costs[1] is not None:
            saved, priced = saved + costs[0] - costs[1], True
    fixes = {
        fix_of(found.code, one.reader)
        for one in base.turns
        for found in one.played.breaks
        if without(found) and found.code in CODES
    }
    return Saving(
        change=text, turns=len(changed), tokens=tokens, currency=CURRENCY,
        saved=float(round(saved, 6)) if priced or not changed else None, fix=" ".join(sorted(fixes)),
    )  # fmt: skip


def told_of_cause(base: Run, code: str, saving: Saving) -> Iterator[str]:
    """Say why a cause that is taken away saves nothing, or how far it can be believed."""
    without = _meant(code)
    found = [one for one in _breaks(base) if without(one)]
    if not found:
        yield f"{saving.change}: no turn has it"
    elif all(one.code == UNEXPLAINED for one in found):
        yield f"{saving.change} cannot be taken away: it says that nothing explains what was lost"
    elif not saving.turns:
        beside = Counter(
            one.code for turn in base.turns for one in _beside(turn.played.breaks, without) if one.code != UNEXPLAINED
        )
        why = f"what else broke the same prefixes still breaks them ({', '.join(sorted(beside))})"
        yield f"{saving.change} alone saves nothing: {why if beside else 'nothing was paid again for it'}"
    elif all(one.strength == "weak" for one in found):
        yield f"{saving.change}: the evidence for it is weak, so that its turns may have lost for another reason"
    if any(one.kind == "expected" for one in found) and saving.turns:
        yield f"{saving.change}: the same prompts are played; a session without what is expected would ask others"


def _beside(breaks: tuple[Break, ...], without: Callable[[Break], bool]) -> list[Break]:
    if not any(without(one) for one in breaks):
        return []
    return [one for one in breaks if not without(one) and (one.leads or one.strength != "weak")]


def _breaks(base: Run) -> Iterator[Break]:
    return (found for one in base.turns for found in one.played.breaks)


def ranked(base: Run) -> list[Saving]:
    """Rank the causes found by what their fixes would have saved; those that would have saved nothing are none."""
    codes = {one.code for one in _breaks(base) if _has_fix(one)}
    found = [_without(base, partial(_is_sure, code), f"cause={code}") for code in sorted(codes)]
    return in_order(one for one in found if one.turns)


def _has_fix(one: Break) -> bool:
    return one.kind != "expected" and one.strength != "weak" and one.code not in _NO_FIX


def _is_sure(code: str, one: Break) -> bool:
    return one.code == code and _has_fix(one)


def in_order(savings: Iterable[Saving]) -> list[Saving]:
    """Put what saves most first."""
    return sorted(savings, key=lambda one: (-(one.saved or 0.0), -one.tokens, one.change))


def left_out(base: Run) -> Iterator[str]:
    """Say what was paid again and cannot be simulated, and why."""
    turns = base.result.turns
    for code, why in _NO_FIX.items():
        bare = [one.unexplained_tokens for one in turns if one.unexplained_tokens and _leads(one, code)]
        if bare:
            yield f"not simulated: {sum(bare):,} tokens in {_turns(len(bare))} {why} ({code})"
    weak = Counter(
        one.cause.code
        for one in turns
        if one.cause is not None and one.cause.strength == "weak" and one.cause.code != UNEXPLAINED
    )
    if weak:
        yield f"not simulated: {', '.join(sorted(weak))}, for which the evidence is weak"
    unpriced = sum(one.played.paid is not None and one.price is None for one in base.turns)
    if unpriced:
        yield f"not simulated in money: {_turns(unpriced)} without a price"
    if base.transcripts:
        yield f"not simulated: breakpoints=auto in {_turns(base.transcripts)} of transcripts, which hold no breakpoints"


_NO_FIX = {
    UNEXPLAINED: "that nothing explains",
    SAID: "of which only the provider says that the client changed something",
}


def _turns(count: int) -> str:
    return f"{count:,} turn{'' if count == 1 else 's'}"


def _leads(turn: SimulatedTurn, code: str) -> bool:
    return turn.cause is not None and turn.cause.code == code


def expired(base: Run) -> bool:
    """Tell whether entries expired where a client can ask for a longer life."""
    return any(one.code == Code.CACHE_EXPIRED for one in _breaks(base)) and bool(
        {one.cache for one in base.result.turns} & {"anthropic", "bedrock"}
    )
