"""What turns would have paid otherwise: without a cause, or with a change (`--what-if KEY=VALUE`).

In: turns in order, each with what it paid and what broke its prefix; runs of the same recordings. Out: what each turn
would have read and written; a `Saving` a change, notes on what could not be simulated.

A cause that is taken away: what else broke the prefix of the same turn for sure (beside the cause, or in its `also`)
still breaks it, a change of later bytes from its place on; a weak cause breaks nothing beside another; the provider's
verdict is no cause beside one that it fits; a turn reads no more than it asked, and no more than stood there. What then
stands in the cache goes on to the next turns, so that nothing is saved twice. The unexplained and weak causes are no
fixes, and what is expected is none either.

A change: both plays have the same turns and the same evidence; money is compared over turns that have a price in both;
what is so already saves 0 and says so. Pure; cost O(turns).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from lore.cache.base import Prediction
from lore.cache.counts import BILLS_WRITES, bills_writes, cached, prompt_tokens
from lore.cache.predictor import ChangeCounts, WhatIf
from lore.cache.prices import Price
from lore.cache.registry import options_in
from lore.errors import LoreError
from lore.judge.attribution import fits
from lore.judge.base import CURRENCY, TurnVerdict, summed
from lore.judge.pair import Pair, is_remark, lost_tokens
from lore.judge.policy import Policy, Ruling
from lore.model.cause import Cause, Strength
from lore.model.codes import CODES, UNEXPLAINED, CauseKind, Code, Reader, fix_of
from lore.model.events import Usage
from lore.model.limits import COMBINED_CAUSES
from lore.model.results.simulate import Saving, SimulatedTurn, SimulateResult

BY_VERDICT = Code.CLIENT_CAUSE_UNKNOWN  # the provider's word that something changed, not what: a witness, no fix
_TAIL = Code.TAIL_WITHOUT_BREAKPOINT  # names its own text in `also`: one fault


class Break(NamedTuple):
    """One cause of a turn's loss, and the tokens that it alone loses. `leads`: the loss is counted under it."""

    code: str
    kind: CauseKind
    strength: Strength
    section: str | None
    loses: int
    leads: bool = False


class Played(NamedTuple):
    """A turn as it was paid: `paid` by its bill, else by its prediction; None where neither says.

    `stood` is what may have stood in the cache before it, None where that is not known; `left` what it left there.
    `exact`: both are by what was read and written; where writes are not billed, all that was asked may stand. `reader`
    is whom its fixes speak to; `contradicted`: its bill shows that another body was sent than the one recorded.
    """

    chain: str
    paid: Usage | None
    stood: int | None
    breaks: tuple[Break, ...]
    exact: bool = True
    price: Price | None = None
    reader: Reader = "author"
    contradicted: bool = False

    @property
    def left(self) -> int | None:
        """What may stand in the cache behind it."""
        return None if self.paid is None else cached(self.paid) if self.exact else prompt_tokens(self.paid)


class Otherwise(NamedTuple):
    """A turn that would have paid something else: its number among the turns, and its bill then."""

    number: int
    paid: Usage


def played(verdict: TurnVerdict, prediction: Prediction, stood: int | None) -> Played:
    """Return what a turn paid and what broke its prefix; `stood` is what the turn before it in its chain left."""
    turn, pair = verdict.turn, verdict.pair
    usage = turn.usage
    billed = usage is not None and usage.read_tokens is not None and usage.uncached_tokens is not None
    exact = bills_writes(turn) if billed else turn.dialect in BILLS_WRITES
    if pair is not None and billed and pair.left.usage is not None:
        stood = cached(pair.left.usage) if exact else prompt_tokens(pair.left.usage)
    read, uncached = prediction.read, prediction.uncached
    if not billed:
        known = read is not None and uncached is not None
        usage = Usage(uncached, read, prediction.write, 0, None, prediction.write_1h) if known else None
    return Played(turn.chain, usage, stood, () if pair is None else tuple(_breaks(pair)), exact)


def _breaks(pair: Pair) -> Iterator[Break]:
    """Yield every cause that broke the prefix of a pair, or would have without the others."""
    leading = TurnVerdict(pair.right, pair).leading
    most = pair.lost_bytes
    parted = pair.bytes.previous - pair.left_tail_bytes - pair.bytes.common  # bytes behind where the two part
    behind = max(0, round(parted / pair.bytes_per_token))
    for number, cause in enumerate(pair.causes):
        if is_remark(cause):
            continue
        whole = lost_tokens(pair, number)[0]
        share = pair.lost[number] / most if pair.lost[number] and most else 1.0
        yield _break(cause, round(whole * share), leads=number == leading)
        for other in () if cause.code == _TAIL else cause.also:
            if not is_remark(other) and other.code != cause.code:
                yield _break(other, whole if other.strength != "certain" else min(whole, behind))


def _break(cause: Cause, loses: int, *, leads: bool = False) -> Break:
    return Break(cause.code, cause.kind, cause.strength, cause.section, loses, leads)


def remaining(breaks: Iterable[Break], without: Callable[[Break], bool]) -> int | None:
    """Return the tokens that are lost all the same without some causes; None where none of them is there."""
    every = list(breaks)
    gone = [cause for cause in every if without(cause) and cause.code not in UNEXPLAINED]
    if not gone:
        return None
    left = [cause for cause in every if cause not in gone and (cause.leads or cause.strength != "weak")]
    sure = [cause for cause in gone if cause.strength != "weak"]
    return max((
        cause.loses for cause in left
        if cause.code != BY_VERDICT or not any(fits(other.code, other.section, cause.section) for other in sure)
    ), default=0)  # fmt: skip


def otherwise(turns: Iterable[Played], without: Callable[[Break], bool]) -> Iterator[Otherwise]:
    """Yield the turns that would have paid something else without some causes."""
    more: dict[str, int] = {}  # by chain: tokens that stand in the cache beyond what stood there
    for number, turn in enumerate(turns):
        paid = turn.paid
        if paid is None:
            more.pop(turn.chain, None)
            continue
        back = _back(turn, paid, more.get(turn.chain, 0), without)
        other = reading(paid, back)
        stays = (cached(other) or 0) - (cached(paid) or 0) if turn.exact else 0
        more[turn.chain] = max(0, stays)
        if back:
            yield Otherwise(number, other)


def _back(turn: Played, paid: Usage, more: int, without: Callable[[Break], bool]) -> int:
    """Return how many tokens a turn would have read beyond what it read."""
    met = paid.first_pass
    read = met.read_tokens or 0
    lost = max((cause.loses for cause in turn.breaks), default=0)
    left = remaining(turn.breaks, without)
    if left is None:
        found = 0 if lost else more  # what broke the prefix before breaks it still
    else:
        found = max(0, lost - left) + (0 if left else more)
    if turn.stood is not None:
        found = min(found, max(0, turn.stood + more - read))
    marked = turn.exact and cached(met)  # then what stands behind the last breakpoint is never read
    return min(found, met.write_tokens or 0 if marked else max(0, prompt_tokens(met) - read))


def reading(paid: Usage, back: int) -> Usage:
    """Return a bill of which so many tokens more were read by the pass that met what stood in the cache."""
    met = paid.first_pass
    if not back or met is paid:
        return _reading(paid, back) if back else paid
    passes = [_reading(iteration, back) if iteration is met else iteration for iteration in paid.iterations]
    return replace(paid, iterations=tuple(passes))


def _reading(paid: Usage, back: int) -> Usage:
    """Return counts of which so many tokens more were read: not written (for an hour first), else not uncached."""
    write = paid.write_tokens or 0
    hour, short = paid.write_1h_tokens or 0, paid.write_5m_tokens or 0
    less = min(back, write)
    of_hour = min(less, hour)
    of_short = min(less - of_hour, short)
    return replace(
        paid, read_tokens=(paid.read_tokens or 0) + back,
        write_tokens=None if paid.write_tokens is None else write - less,
        write_1h_tokens=None if paid.write_1h_tokens is None else hour - of_hour,
        write_5m_tokens=None if paid.write_5m_tokens is None else short - of_short,
        uncached_tokens=max(0, (paid.uncached_tokens or 0) - (back - less)),
    )  # fmt: skip


# two plays of the same turns, side by side


TTL, AUTO = "ttl=1h", "breakpoints=auto"
KEYS = "ttl=5m|1h, breakpoints=auto, model=NAME, cause=CODE[,CODE], or options of the cache that --cache names"
_TTL = {"5m": 300.0, "1h": 3600.0}
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


class Run(NamedTuple):
    """One play of all recordings: the answer, its turns, and how many of them a what-if changed.

    `transcripts` counts turns that hold no breakpoints, `bodies` those that could.
    """

    result: SimulateResult
    turns: list[Played]
    change_counts: ChangeCounts
    transcripts: int
    bodies: int

    @property
    def breaks(self) -> list[Break]:
        """Every cause of every turn."""
        return [found for turn in self.turns for found in turn.breaks]

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
    counts = other.change_counts
    if counts.already and not counts.changed:
        saving = Saving(change=text, turns=0, tokens=0, currency=CURRENCY, saved=0.0, fix="")
        return NotedSaving(saving, list(_notes(saving, counts)))
    turns = zip(base.turns, base.result.turns, other.result.turns, strict=True)
    pairs = [(left, right) for paid, left, right in turns if not paid.contradicted]
    reads = [(left.predicted.read_tokens, right.predicted.read_tokens) for left, right in pairs]
    more = [now - was for was, now in reads if was is not None and now is not None and was != now]
    costs = [(_predicted_cost(left), _predicted_cost(right)) for left, right in pairs]
    known = [(was, now) for was, now in costs if was is not None and now is not None]
    before, after = summed(was for was, _ in known), summed(now for _, now in known)
    saved = None if before is None or after is None else round(before - after, 6)
    saving = Saving(change=text, turns=len(more), tokens=sum(more), currency=CURRENCY, saved=saved, fix="")
    notes = list(_notes(saving, counts))
    contradicted = len(base.turns) - len(pairs)
    if contradicted:
        whose = "whose bills contradict their bodies"
        notes.append(f"not simulated: {text} in {turns_of(contradicted)} {whose} ({Code.BILL_CONTRADICTS_BODY})")
    return NotedSaving(saving, notes)


def _predicted_cost(turn: SimulatedTurn) -> float | None:
    return None if turn.cost is None else turn.cost.predicted


def _notes(saving: Saving, counts: ChangeCounts) -> Iterator[str]:
    """Say of a change how much of it is so already, or why it changes nothing."""
    key, _, value = saving.change.partition("=")
    key = key.strip()
    already = _ALREADY.get(f"{key}={value.strip()}", _ALREADY.get(key, ""))
    if already and counts.already and not counts.changed:
        yield f"{saving.change} is so already: {already}"
    elif already and counts.already:
        both = counts.already + counts.changed
        yield f"{saving.change} is so already in {counts.already:,} of {turns_of(both)}, which stay as they are"
    idle = saving.saved is None if key == "model" else not counts.changed and not saving.turns
    if key in _HOLDS and not counts.already and idle:
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
    changed = list(otherwise(base.turns, without))
    saved, priced, tokens = Decimal(0), False, 0
    for number, paid in changed:
        before, price = base.turns[number].paid, base.turns[number].price
        assert before is not None, "only what was paid can be paid otherwise"
        tokens += (paid.first_pass.read_tokens or 0) - (before.first_pass.read_tokens or 0)
        costs = (None, None) if price is None else (price.of(before), price.of(paid))
        if costs[0] is not None and costs[1] is not None:
            saved, priced = saved + costs[0] - costs[1], True
    fixes = {
        fix_of(cause.code, turn.reader, cause.kind)
        for turn in base.turns
        for cause in turn.breaks
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
        broken = [turn.breaks for turn in base.turns if any(without(cause) for cause in turn.breaks)]
        beside = {
            cause.code for causes in broken for cause in causes
            if not without(cause) and (cause.leads or cause.strength != "weak") and cause.code not in UNEXPLAINED
        }  # fmt: skip
        why = f"what else broke the same prefixes still breaks them ({', '.join(sorted(beside))})"
        yield f"{saving.change} alone saves nothing: {why if beside else 'nothing was re-billed for it'}"
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
        breaks = turn.breaks
        most = max((cause.loses for cause in breaks), default=0)
        codes = {cause.code for cause in breaks if 2 * cause.loses > most and _has_fix((cause.code,), cause)}
        if len(codes) > 1:
            lost[tuple(sorted(codes))] += most
    return sorted(lost, key=lambda codes: (-lost[codes], codes))[:COMBINED_CAUSES]


def _has_fix(codes: Sequence[str], cause: Break) -> bool:
    """Tell whether it is a cause of one of these codes that a fix would take away."""
    return cause.code in codes and cause.kind != "expected" and cause.strength != "weak" and cause.code not in _NO_FIX


def in_order(savings: Iterable[Saving]) -> list[Saving]:
    """Put what saves most first."""
    return sorted(savings, key=lambda saving: (-(saving.saved or 0.0), -saving.tokens, saving.change))


def left_out(base: Run) -> Iterator[str]:
    """Say what was re-billed and cannot be simulated, and why."""
    lost = [(turn, turn.cause) for turn in base.result.turns if turn.cause is not None]
    for code, why in _NO_FIX.items():
        bare = [turn.unexplained_tokens for turn, cause in lost if turn.unexplained_tokens and cause.code == code]
        if bare:
            yield f"not simulated: {sum(bare):,} tokens in {turns_of(len(bare))} {why} ({code})"
    weak = {cause.code for _, cause in lost if cause.strength == "weak" and cause.code not in UNEXPLAINED}
    if weak:
        yield f"not simulated: {', '.join(sorted(weak))}, for which the evidence is weak"
    unpriced = sum(turn.paid is not None and turn.price is None for turn in base.turns)
    if unpriced:
        yield f"not simulated in money: {turns_of(unpriced)} without a price"
    if base.transcripts:
        many = turns_of(base.transcripts)
        yield f"not simulated: breakpoints=auto in {many} of transcripts, which hold no breakpoints"


def longer_life(base: SimulateResult) -> Iterator[str]:
    """Say what to try where entries expired: what that saves is known once it is simulated."""
    lost = [turn.lost_tokens or 0 for turn in base.turns if turn.cause and turn.cause.code == Code.CACHE_EXPIRED]
    paid = base.totals.by_price.keys()
    short = not paid or paid & {"write", "write_5m"}
    if any(lost) and short and {turn.cache for turn in base.turns} & _LIVING:
        yield f"{sum(lost):,} tokens were written again after pauses: --what-if {TTL} says what an hour saves"


def turns_of(count: int) -> str:
    """Return `1 turn`, `2 turns`."""
    return f"{count:,} turn{'' if count == 1 else 's'}"
