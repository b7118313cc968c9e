"""What a turn of a transcript may read: from what is known of it before its bill to outcomes with their chances.

In: a lane and a `Situation`, habits (`habits.py`) and what this session showed of them. Out: a level, a `Prediction`.
Rules: what the log says for sure is the level (the first that applies: another model, an expiry, another
system prompt, a history that was cut back, else all that stood there); signs, clocks and counts add ways to fall below
it, by one rule for all (`habits.outcomes`); where nothing was seen the base rate is one. What is predicted is the
likeliest outcome. A read is never more than the request can hold: read + write + uncached is its estimated total.

Sources: measured over 38,782 billed transitions: what a drop falls to, the hidden request at a turn's end, the newest
entry that cannot be read at once. After an expiry only what other sessions keep is read, and what lives longer, where a
breakpoint looks back so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from lore.cache.base import UNKNOWN, Outcome, Prediction
from lore.cache.bills import DROP, ONE_HOUR, POSITIONS, SOON, lookback
from lore.cache.habits import UNSIGNED, Habit, Habits
from lore.cache.lanes import ChainLevels, Growth, ModelLane
from lore.cache.served import normal_name
from lore.model.codes import Code
from lore.model.state import Change, Sign

PRIOR = 0.5
WEIGHT = 4.0  # occurrences: what one session does it does again, so that few of its own turns outweigh other sessions
SURE = 0.9  # a probability from here on is near 1


class Tally(NamedTuple):
    """How often a session showed something, and a fall followed."""

    seen: int = 0
    fell: int = 0

    def plus(self, *, fell: bool) -> Tally:
        """Return it with one more."""
        return Tally(self.seen + 1, self.fell + fell)


def chance(habit: Habit, tally: Tally) -> float:
    """Return how likely a fall is, by the packaged counts and what this session showed."""
    seen = habit.seen + 2 * PRIOR
    weight = min(WEIGHT, seen)
    return ((habit.fell + PRIOR) / seen * weight + tally.fell) / (weight + tally.seen)


_HALF = 0.5  # more than that is the likeliest in any case


def outcomes(read: int, why: str, falls: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """Return what may be read, the likeliest first: `read` where nothing falls. Probabilities sum to 1.

    Falls are outcomes that read less, each as likely as by itself: they are independent, and the deepest that happens
    decides; those to the same place are one outcome. What lies within `DROP` tokens of an outcome speaks for it: a
    hidden request or none, a prompt then stands there all the same.
    """
    if not falls:
        return (Outcome(read, 1.0, why),)
    left, found = 1.0, dict[int, Outcome]()
    for fall in sorted(falls, key=lambda fall: (fall.read, -fall.probability)):
        if fall.read >= read:
            continue
        probability = left * fall.probability
        left -= probability
        known = found.get(fall.read, Outcome(fall.read, 0.0, fall.why))
        found[fall.read] = known._replace(probability=known.probability + probability)
    every = [Outcome(read, left, why), *found.values()]
    every.sort(key=lambda outcome: (-outcome.probability, -outcome.read))
    if every[0].probability <= _HALF:
        near = [sum([o.probability for o in every if abs(o.read - outcome.read) <= DROP]) for outcome in every]
        every.insert(0, every.pop(near.index(max(near))))
    return tuple(every)


Key: TypeAlias = tuple[str, bool, bool]  # a habit's sign; whether at a new prompt, and for the first time in the chain
Tallies: TypeAlias = dict[Key, Tally]
AGAIN: Key = ("again", False, False)  # of falls without a sign: how many read what was read before them


class ReadLevel(NamedTuple):
    """Up to where the cache would be read, and why; `sure` is False where that is a guess. None: not known.

    `sign` names the habit by whose chance it is so; `otherwise` is what is read where it is not.
    """

    tokens: int | None
    why: str
    sure: bool = True
    sign: str = ""
    otherwise: int = 0

    @property
    def is_certain(self) -> bool:
        """Whether the log says for sure why it is so: no habit is learned of it then."""
        return not self.sign and self.why in ("session-changed", "compaction", "shrunk", "model")


class Seen(NamedTuple):
    """A sign that a request shows, or that `waited` for this prompt; `left` is what is read where its text is moved.

    None: all history is. `size` is the number of entries before that text.
    """

    sign: str
    first: bool
    version: str
    left: int | None = None
    waited: bool = False
    size: int = 0


class Situation(NamedTuple):
    """What is known about a turn, asked at `at`, before its bill is read: it and the one before it.

    `stood` is what the turn before left (read + write); `size` its entries, `same` how many of them are
    unchanged, `grown` what came behind them; `reach` the positions between the last known position and the
    end. `pause` in seconds, None where the clock says nothing; `lifetime` of what the turn before wrote.
    `earlier` is the position before the last one. `waiting` is the number of entries before text that a hook put in
    since the last message of the user, `put_back` the position that is left where it is taken out, `hooks` the
    names of those hooks. `seen` are the signs that are weighed, `whole` how long the request is, estimated.
    `floor` is what is read where the head changed, `least` what is read at least where history alone did; None where
    the first turn was none of a new conversation. `behind` is the first known position behind the head, `gone` the
    first that was too old to be read. `implicit`: the cache has no breakpoints, and requests reach several machines.
    """

    at: float | None
    stood: int | None
    size: int
    same: int
    grown: Growth
    pause: float | None
    lifetime: float | None
    changes: tuple[Change, ...]
    signs: tuple[Sign, ...]
    model: str | None
    other_model: bool
    moved_head: bool
    reach: int
    earlier: int | None
    waiting: int | None
    put_back: int | None
    hooks: tuple[str, ...]
    seen: tuple[Seen, ...]
    output: int | None
    level: ReadLevel
    whole: int
    floor: int | None = None
    least: int | None = None
    behind: int | None = None
    gone: int | None = None
    implicit: bool = False

    @property
    def soon(self) -> bool:
        """Whether an older entry may be served, since the answer before is seconds old."""
        return self.pause is not None and self.pause <= SOON

    @property
    def far(self) -> bool:
        """Whether more came than a breakpoint looks back, where clients keep one at the end and each block counts."""
        return self.same == self.size and self.reach > POSITIONS and not lookback(self.at).runs


# the level: what the log says for sure


def level_of(lane: ModelLane, situation: Situation) -> ReadLevel:
    """Return the level of the first rule that applies; what does not hold any more is let go of.

    A model that the chain has not asked yet has nothing of it; another system prompt or other tools leave what others
    keep; where history goes on, all that stood there is read.
    """
    if situation.other_model and not lane.anchors:
        return ReadLevel(0, "model", sure=False)
    expired = _expired(lane, situation)
    if expired is not None:
        return expired
    if situation.moved_head:
        lane.anchors.clear()
        return ReadLevel(lane.floor or 0, "session-changed")
    if situation.same < situation.size:
        return _cut_back(lane, situation)
    top = lane.top
    return ReadLevel(None, "unknown") if top is None else ReadLevel(top.tokens, "goes-on", not lane.guessed)


def _expired(lane: ModelLane, situation: Situation) -> ReadLevel | None:
    """What is older than it lives is gone; what lives longer is read as far as is looked back, or what others keep."""
    top, pause = lane.top, situation.pause
    if top is None or pause is None or top is lane.outlive(pause):
        return None
    left, tokens = lane.at(situation.same), lane.floor or 0
    # a breakpoint at the end has to look back to it; tools and system have their own
    if left is not None and (not left.size or lane.positions(left, situation.at) <= POSITIONS):
        tokens = max(tokens, left.tokens)
    if situation.same < situation.size or situation.moved_head:
        return ReadLevel(tokens, "expiry")
    sign = "expiry-1h" if top.lifetime == ONE_HOUR else "expiry"
    return ReadLevel(tokens, "expiry", sign=sign, otherwise=top.tokens)


def _cut_back(lane: ModelLane, situation: Situation) -> ReadLevel:
    """Where history shrank or changed the last position before that holds, if a breakpoint looks back so far."""
    top = lane.top
    lane.at(situation.same)
    left = lane.left(situation.same, situation.at)
    codes = [change.cause for change in situation.changes]
    if Code.COMPACTION in codes:
        return ReadLevel(left, "compaction")
    if Code.TOOL_RESULT_REWRITTEN in codes and top is not None:
        return ReadLevel(left, "shrunk", sign="cleared", otherwise=top.tokens)
    return ReadLevel(left, "shrunk")


def whole_of(chain: ChainLevels, lane: ModelLane, situation: Situation) -> int:
    """Estimate how long a request is, by the last bill of its model and what came since."""
    grown = lane.rate.tokens(situation.grown, situation.output)
    if lane.first is None:
        return max(chain.total or 0, grown)
    if situation.same == situation.size:
        return (lane.total or 0) + grown
    return (lane.head if lane.top is None else lane.top.tokens) + grown


# outcomes: what habits make of it


class Odds(NamedTuple):
    """Habits of a provider's caches and of clients, and what this session showed of them."""

    habits: Habits
    tallies: Tallies
    provider: str = "anthropic"

    def weighed(self, seen: Seen, situation: Situation) -> tuple[Habit, float] | None:
        """Return the row that holds for a sign, and how likely a fall is; None where no row holds."""
        prompted = situation.grown.prompted
        habit = self.habits.find(
            seen.sign, prompted=prompted, first=seen.first, version=seen.version, model=normal_name(situation.model),
            waited=seen.waited, provider=self.provider,
        )  # fmt: skip
        if habit is None:
            return None
        tally = self.tallies.get((seen.sign, prompted, seen.first), _NOTHING)
        other = None if habit.first is not None else self.tallies.get((seen.sign, prompted, not seen.first))
        return habit, chance(habit, tally if other is None else Tally(tally.seen + other.seen, tally.fell + other.fell))

    def of(self, sign: str, situation: Situation) -> float:
        """Return how likely it is what no sign of the log shows; 0 where no row holds."""
        weighed = self.weighed(_UNSIGNED[sign], situation)
        return 0.0 if weighed is None else weighed[1]


_NOTHING = Tally()
_UNSIGNED = {sign: Seen(sign, first=False, version="") for sign in UNSIGNED}


def _outcomes(odds: Odds, lane: ModelLane, situation: Situation) -> tuple[Outcome, ...]:
    level, whole = situation.level, situation.whole
    assert level.tokens is not None, "asked of a level that is known"
    read, why = min(level.tokens, whole), level.why
    falls = list(_falls(odds, lane, situation))
    if level.sign:
        falls.append(Outcome(read, odds.of(level.sign, situation), why))
        read, why = min(level.otherwise, whole), "goes-on"
    elif why == "goes-on" and not situation.other_model and (rises := odds.of("hidden-request", situation)):
        risen = min(read + lane.answer_tokens(situation.grown, situation.output), whole)
        falls.append(Outcome(read, 1.0 - rises, why))
        if risen > read:
            read, why = risen, "hidden-request"
    return _with_deeper(odds, lane, situation, outcomes(read, why, falls))


def _with_deeper(odds: Odds, lane: ModelLane, situation: Situation, found: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    """Tell a fall without a sign to what was read last from one that is deeper, where a cache lets go of the head, too.

    The next fall is foreseen where the last read ended, or at the head; its chance is that share of falls alone, as far
    as this session showed it, half of them before that. Deeper ones leave what others keep of the head.
    """
    latest, floor = lane.left_by_falls, min(lane.floor or 0, situation.whole)
    weighed = odds.weighed(_UNSIGNED["no-sign"], situation) if situation.implicit else None
    if weighed is None or weighed[0].moves != "head" or floor >= latest - DROP:
        return found
    tally = odds.tallies.get(AGAIN, _NOTHING)
    deeper, every = (tally.seen - tally.fell + WEIGHT / 2) / (tally.seen + WEIGHT), list[Outcome]()
    below = 0.0
    for outcome in found:
        falls = outcome.why == "no-sign" and outcome.read == min(latest, situation.whole)
        gone = outcome.probability * deeper if falls else outcome.probability if outcome.read == floor else 0.0
        below += gone
        every += [outcome._replace(probability=outcome.probability - gone)] if gone < outcome.probability else []
    place = next((n for n, outcome in enumerate(every) if n and outcome.probability < below), len(every))
    every.insert(place, Outcome(floor, below, "no-sign"))
    return tuple(every) if below else found


def _falls(odds: Odds, lane: ModelLane, situation: Situation) -> Iterator[Outcome]:
    """Yield the ways to fall that signs and clocks show, else the base rate."""
    level, whole, alone = situation.level, situation.whole, not situation.level.sign
    for seen in situation.seen:
        weighed = odds.weighed(seen, situation)
        if weighed is not None:
            alone = False
            yield Outcome(min(_left(weighed[0], seen, lane), whole), weighed[1], seen.sign)
    if level.why != "goes-on":
        return
    if situation.earlier is not None and situation.soon and (older := odds.of("older-entry", situation)):
        alone = False
        yield Outcome(min(situation.earlier, whole), older, "older-entry")
    if situation.far:
        alone = False
        yield Outcome(min(lane.head, whole), odds.of("lookback", situation), "lookback")
    if alone:
        left = lane.left_by_falls if situation.implicit else lane.head
        yield Outcome(min(left, whole), odds.of("no-sign", situation), "no-sign")


def _left(habit: Habit, seen: Seen, lane: ModelLane) -> int:
    if habit.moves == "head":
        return lane.floor or 0
    return lane.head if habit.moves == "history" or seen.left is None else seen.left


def prediction_of(odds: Odds, chain: ChainLevels, lane: ModelLane, situation: Situation) -> Prediction:
    """Return what is predicted: the likeliest outcome, and what is then written and left uncached.

    Where a cache reads whole blocks, of the beginning of the prompt, outcomes are rounded down to them.
    """
    level, whole = situation.level, situation.whole
    if level.tokens is None:
        return UNKNOWN._replace(reason=level.why)
    found = _outcomes(odds, lane, situation)
    if chain.block > 1:
        found = tuple([outcome._replace(read=outcome.read // chain.block * chain.block) for outcome in found])
    read, _, why = found[0]
    # where no write is charged, what is not read is uncached, though it may stand in the cache from then on
    uncached = min(chain.uncached, whole - read) if chain.charges else whole - read
    write = whole - read - uncached
    hour = write if chain.lives == ONE_HOUR else 0 if chain.lives is not None else None
    prediction = Prediction(read, write, uncached, "ceiling", why, hour, found)
    sure = level.sure and not situation.soon and prediction.probability >= SURE
    return prediction._replace(confidence="rule") if sure else prediction
