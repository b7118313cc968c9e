"""What a cache would read of a conversation of which the recording holds neither system prompt nor tools.

In: turns in the order in which they were asked. Out: a `Prediction` each. Rules: `predict` never looks at the
turn's own usage or verdict; `learn` is called after it; what is unknown stays unknown. Positions come from
earlier bills (`model_state`), what lies between from bytes (`rates`), and the level from the first rule in `_RULES`
that applies. Works on any recording of turns; costs O(what is new in a turn).

Sources: measured over 38,782 billed transitions (`lookback`, `lifetime`, `event_priors` name theirs): what a drop
falls to, the hidden request at a turn's end, the newest entry that cannot be read at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeAlias

from lore.cache.base import UNKNOWN, Prediction
from lore.cache.bills import position, total, unbelievable
from lore.cache.event_priors import CHANCES, LIKELY, Habits
from lore.cache.growth import Growth, growth, runs_collapse, shared, timeline
from lore.cache.lifetime import ONE_HOUR, lifetime
from lore.cache.model_state import Anchor, Lane
from lore.cache.turn_context import DROP, POSITIONS, SOON, Level, Situation
from lore.model.codes import Code
from lore.model.events import Billed
from lore.model.turn import Turn

_FAR = 200  # entries behind a position that are surely more than `POSITIONS`
_HOOK = "hook-context"


class _Chain:
    """What is remembered of one chain."""

    def __init__(self) -> None:
        self.lanes: dict[str | None, Lane] = {}
        self.model: str | None = None
        self.begun = False
        self.stood: int | None = None
        self.total: int | None = None
        self.uncached = 0
        self.output: int | None = None
        self.lives: float | None = None
        self.hidden = False
        self.waiting: int | None = None
        self.hooks: tuple[str, ...] = ()


class Levels:
    """A model of prompt caches that knows levels, not prompts."""

    name: ClassVar[str] = "levels"

    def __init__(self) -> None:
        self._chains: dict[str, _Chain] = {}
        self._habits: dict[str, Habits] = {}
        self._now: tuple[_Chain, Lane, Situation, Prediction] | None = None

    def predict(self, turn: Turn) -> Prediction:
        """Say what the cache would do with a turn."""
        chain = self._chains.get(turn.chain)
        if chain is None:
            chain = self._chains[turn.chain] = _Chain()
        habits = self._habits.setdefault(turn.chain, Habits())
        lane, situation = _situation(chain, habits, turn)
        prediction = _prediction(chain, lane, situation)
        self._now = chain, lane, situation, prediction
        return prediction

    @property
    def situation(self) -> Situation:
        """What the latest prediction was made from."""
        assert self._now is not None, "nothing was predicted yet"
        return self._now[2]

    def learn(self, turn: Turn) -> str:
        """Take the bill of the turn that was predicted last; say why it is not believed, where that is so."""
        assert self._now is not None, "nothing was predicted yet"
        chain, lane, situation, prediction = self._now
        usage = turn.usage
        odd = "" if usage is None else unbelievable(usage)
        at = turn.answered_at if turn.answered_at is not None else turn.at
        lane.used = at if at is not None else lane.used
        chain.begun, chain.model = True, turn.model
        if usage is None or odd or usage.read_tokens is None:
            _go_on_blind(chain, lane, situation, prediction)
            return odd
        _learn(chain, lane, situation, usage, self._habits[turn.chain])
        chain.lives = lifetime(turn, chain.lives)
        _anchor(chain, lane, situation, usage)
        return ""


# the situation


def _situation(chain: _Chain, habits: Habits, turn: Turn) -> tuple[Lane, Situation]:
    model, at = turn.model, turn.at
    lane = chain.lanes.get(model)
    new = lane is None
    if lane is None:
        lane = chain.lanes[model] = Lane()
    entries, rest = timeline(turn)
    size, same = len(lane.entries), shared(lane.entries, entries)
    moved_head = not new and rest != lane.rest
    if any(one.cause == Code.COMPACTION for one in turn.changes):
        chain.waiting = None
    top = lane.before(same)
    base = size if same == size else 0 if top is None else top.size
    grown = growth(entries, base, at)
    waiting, hooks = chain.waiting, chain.hooks
    sign = next((one for one in turn.signs if one.name == _HOOK), None)
    if grown.prompted:
        chain.waiting, chain.hooks = None, ()
    elif sign is not None and (waiting is not None or same == size):
        chain.waiting = size if waiting is None else waiting
        chain.hooks = tuple(dict.fromkeys((*chain.hooks, *sign.names)))
    lane.entries, lane.rest = entries, rest
    found = Situation(
        stood=chain.stood,
        size=size,
        same=same,
        grown=grown,
        pause=_pause(lane, at),
        lifetime=chain.lives if lane.top is None else lane.top.lifetime,
        changes=turn.changes,
        signs=turn.signs,
        models=(chain.model if chain.begun else model, model),
        moved_head=moved_head,
        reach=_reach(lane, top, base, grown, at),
        earlier=lane.anchors[-2].tokens if len(lane.anchors) > 1 else None,
        waiting=waiting,
        put_back=_left(lane, waiting, turn.at) if waiting is not None and grown.prompted else None,
        hooks=hooks,
        level=Level(None, "first"),
    )
    if new and not chain.begun:
        return lane, found
    level = next(level for rule in _RULES if (level := rule(chain, lane, found, habits, at)) is not None)
    return lane, found._replace(level=level)


def _pause(lane: Lane, at: float | None) -> float | None:
    """Return the seconds since the lane was last answered; None where the clocks say nothing or run backwards."""
    if lane.used is None or at is None or at < lane.used:
        return None
    return at - lane.used


def _reach(lane: Lane, top: Anchor | None, base: int, grown: Growth, at: float | None) -> int:
    """Count the positions between the last known position that still holds and the end; measured once with `grown`."""
    if top is None:
        return 0
    near = top.size == base and len(lane.entries) - base <= _FAR
    return grown.positions if near else _positions(lane, top, at)


def _left(lane: Lane, size: int, at: float | None) -> int:
    """Return the position that is left where all behind `size` entries changed: the head where it is out of reach."""
    left = lane.before(size)
    if left is None or _positions(lane, left, at) > POSITIONS:
        return lane.head
    return max(left.tokens, lane.head)


def _positions(lane: Lane, anchor: Anchor, at: float | None) -> int:
    far = len(lane.entries) - anchor.size
    return far if far > _FAR else growth(lane.entries, anchor.size, at).positions


# the rules, the first that applies

_Rule: TypeAlias = Callable[[_Chain, Lane, Situation, Habits, "float | None"], Level | None]


def _other_model(_: _Chain, lane: Lane, situation: Situation, __: Habits, ___: float | None) -> Level | None:
    """A model that the chain has not asked yet has nothing of it."""
    return Level(0, "model", sure=False) if situation.other_model and not lane.anchors else None


def _expired(_: _Chain, lane: Lane, situation: Situation, __: Habits, ___: float | None) -> Level | None:
    """What is older than its lifetime is gone; what lives longer, or others keep, is still there."""
    top = lane.top
    pause = situation.pause
    if top is None or pause is None or top is lane.outlive(pause):
        return None
    left = lane.at(situation.same)
    return Level(max(lane.floor or 0, 0 if left is None else left.tokens), "expiry")


def _head_moved(_: _Chain, lane: Lane, situation: Situation, habits: Habits, ___: float | None) -> Level | None:
    """Other tools or another system prompt leave what others keep."""
    if situation.moved_head:
        lane.anchors.clear()
        return Level(lane.floor or 0, "session-changed")
    for sign in situation.signs:
        if sign.name != _HOOK and sign.name in CHANCES and habits.chance(sign.name) >= LIKELY:
            left = lane.floor or 0 if CHANCES[sign.name].reach == "head" else lane.head
            return Level(left, sign.name, sure=False)
    return None


def _cut_back(_: _Chain, lane: Lane, situation: Situation, __: Habits, at: float | None) -> Level | None:
    """Where history shrank or changed the last position before that holds, if a breakpoint looks back so far."""
    if situation.same == situation.size:
        return None
    lane.at(situation.same)
    why = "compaction" if situation.changed(Code.COMPACTION) else "shrunk"
    return Level(_left(lane, situation.same, at), why)


def _put_back(_: _Chain, __: Lane, situation: Situation, habits: Habits, ___: float | None) -> Level | None:
    """Text of hooks beside results is not there any more once the user has spoken, in sessions where it was so."""
    if situation.put_back is None or habits.chance(_HOOK) < LIKELY:
        return None
    return Level(situation.put_back, _HOOK, sure=False)


def _out_of_reach(_: _Chain, lane: Lane, situation: Situation, __: Habits, at: float | None) -> Level | None:
    """More new positions than a breakpoint looks back, where clients keep one at the end and each block counts."""
    if runs_collapse(at) or situation.reach <= POSITIONS:
        return None
    return Level(lane.head, "lookback", sure=False)


def _goes_on(chain: _Chain, lane: Lane, situation: Situation, _: Habits, __: float | None) -> Level:
    """All that stood there, with the answer where a hidden request followed the session's last turn end."""
    top = lane.top
    if top is None:
        return Level(None, "unknown")
    soon = situation.pause is not None and situation.pause <= SOON
    sure = not (soon or lane.guessed)
    if chain.hidden and situation.grown.prompted and not situation.other_model:
        return Level(top.tokens + lane.rate.said(situation.grown, chain.output), "hidden-request", sure)
    return Level(top.tokens, "goes-on", sure)


_RULES: tuple[_Rule, ...] = (_other_model, _expired, _head_moved, _cut_back, _put_back, _out_of_reach, _goes_on)


def _prediction(chain: _Chain, lane: Lane, situation: Situation) -> Prediction:
    level = situation.level
    if level.tokens is None:
        return UNKNOWN._replace(reason=level.why)
    grown = lane.rate.tokens(situation.grown, chain.output)
    if situation.same < situation.size:
        top = lane.top
        whole = (lane.head if top is None else top.tokens) + grown
    else:
        whole = (chain.total or 0) + grown
    whole = max(whole, level.tokens)
    uncached = min(chain.uncached, whole - level.tokens)
    write = whole - level.tokens - uncached
    hour = write if chain.lives == ONE_HOUR else 0 if chain.lives is not None else None
    return Prediction(level.tokens, write, uncached, "rule" if level.sure else "ceiling", level.why, hour)


# learning


def _go_on_blind(chain: _Chain, lane: Lane, situation: Situation, prediction: Prediction) -> None:
    """Go on after a bill that says nothing: where the turn ended is estimated, what the next one finds unknown."""
    chain.stood, chain.output = None, None
    lane.at(situation.same)
    if prediction.total is None or prediction.uncached is None:
        return
    chain.total = prediction.total
    lane.guessed = True
    lane.put(Anchor(len(lane.entries), prediction.total - prediction.uncached, chain.lives))


def _learn(chain: _Chain, lane: Lane, situation: Situation, usage: Billed, habits: Habits) -> None:
    """Learn levels, rates and habits from a bill."""
    read, whole = usage.read_tokens or 0, total(usage)
    if lane.first is None:
        lane.first, lane.floor = position(usage), read
        lane.opening = lane.rate.tokens(situation.grown, None)
    elif situation.stood is not None and not situation.other_model:
        fell = read < situation.stood - DROP
        if fell:
            _learn_head(lane, situation, read)
        _learn_habits(chain, situation, habits, read, fell=fell)
        if (
            whole is not None
            and chain.total is not None
            and situation.same == situation.size
            and not situation.moved_head
        ):
            lane.rate.learn(situation.grown, chain.output, whole - chain.total)


def _learn_head(lane: Lane, situation: Situation, read: int) -> None:
    """Learn what a drop fell to, where that is the head: nothing that stood behind the lane's first turn."""
    why = situation.level.why
    if why in _FLOORS or any(one.name in CHANCES and CHANCES[one.name].reach == "head" for one in situation.signs):
        if why != "expiry" or not lane.anchors:
            lane.floor = read
    elif (
        read != lane.floor
        and lane.first is not None
        and read <= lane.first
        and all(one.tokens != read for one in lane.anchors[:4])
    ):
        lane.known_head = read


_FLOORS = ("expiry", "session-changed")


def _learn_habits(chain: _Chain, situation: Situation, habits: Habits, read: int, *, fell: bool) -> None:
    if situation.level.why in ("expiry", "compaction", "session-changed", "shrunk"):
        return
    for sign in situation.signs:
        if sign.name != _HOOK:
            habits.learn(sign.name, fell=fell)
    if not situation.grown.prompted:
        return
    if situation.waiting is not None:
        habits.learn(_HOOK, fell=fell)
    if not fell and situation.stood is not None:
        chain.hidden = read > situation.stood


def _anchor(chain: _Chain, lane: Lane, situation: Situation, usage: Billed) -> None:
    """Remember where this turn's breakpoints stand."""
    read, end, size = usage.read_tokens or 0, position(usage), len(lane.entries)
    lane.at(situation.same)
    lane.shown(read)
    hour, short = usage.write_1h_tokens or 0, usage.write_5m_tokens or 0
    if hour and short:
        top = lane.top
        lane.put(Anchor((0 if top is None else top.size + 1), read + hour, ONE_HOUR))
    if end is not None:
        lane.put(Anchor(size, end, None if chain.lives is None else (300.0 if short else chain.lives)))
    lane.guessed = False
    chain.stood, chain.total, chain.output = end, total(usage), usage.output_tokens
    chain.uncached = usage.uncached_tokens if usage.uncached_tokens is not None else chain.uncached
