"""What a cache would read of a conversation of which the recording holds neither system prompt nor tools.

In: turns in the order in which they were asked. Out: a `Prediction` each. Rules: `predict` never looks at the
turn's own usage or verdict; `learn` is called after it; what is unknown stays unknown. Positions come from
earlier bills and what lies between from bytes (`lanes`), the level from the first rule in `_RULES` that applies.
Works on transcripts; costs O(what is new in a turn).

Sources: measured over 38,782 billed transitions: what a drop falls to, the hidden request at a turn's end, the newest
entry that cannot be read at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from lore.cache.base import UNKNOWN, Prediction
from lore.cache.bills import DROP, ONE_HOUR, POSITIONS, SOON, lifetime, lookback, position, total, unbelievable
from lore.cache.lanes import CHANCES, Anchor, ChainLevels, Growth, Lane, growth
from lore.cache.rules import Served, cache_of, is_transcript, served_by
from lore.model.codes import Code
from lore.model.events import Billed
from lore.model.state import Change, Sign
from lore.model.turn import Turn

BY_LEVEL = frozenset(("anthropic", "bedrock"))  # caches whose transcripts are predicted by levels
_FAR = 200  # entries behind a position that are surely more than `POSITIONS`
_HOOK = "hook-context"
_CHANGED = ("expiry", "session-changed")  # then what is read is what others keep
_KNOWN_DROPS = (*_CHANGED, "compaction", "shrunk")  # they say nothing of signs


class Level(NamedTuple):
    """Up to where the cache would be read, and why; `sure` is False where that is a guess. None: not known."""

    tokens: int | None
    why: str
    sure: bool = True


class Situation(NamedTuple):
    """What is known about a turn, asked at `at`, before its bill is read: it and the one before it.

    `stood` is what the turn before left (read + write); `size` its entries, `same` how many of them are
    unchanged, `grown` what came behind them; `reach` the positions between the last known position and the
    end. `pause` in seconds, None where the clock says nothing; `lifetime` of what the turn before wrote.
    `earlier` is the position before the last one. `waiting` is the number of entries before text that a hook put in
    since the last message of the user, `put_back` the position that is left where it is taken out, `hooks` the
    names of those hooks. `floor` is what is read where the head changed, `least` what is read at least where history
    alone did; None where the first turn was none of a new conversation.
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
    other_model: bool
    moved_head: bool
    reach: int
    earlier: int | None
    waiting: int | None
    put_back: int | None
    hooks: tuple[str, ...]
    level: Level
    floor: int | None = None
    least: int | None = None


class Predicted(NamedTuple):
    """What was predicted, by which model (empty: none), and why its bill is not believed.

    `situation` is what a level model saw; None where requests were looked at.
    """

    cache: str
    prediction: Prediction
    odd: str = ""
    situation: Situation | None = None


class Levels:
    """A model of prompt caches that knows levels, not prompts."""

    def __init__(self) -> None:
        self._chains: dict[str, ChainLevels] = {}
        self._now: tuple[ChainLevels, Lane, Situation] | None = None

    def predict(self, turn: Turn) -> Prediction:
        """Say what the cache would do with a turn."""
        chain = self._chains.get(turn.chain)
        if chain is None:
            chain = self._chains[turn.chain] = ChainLevels()
        lane, situation = _situation(chain, turn)
        self._now = chain, lane, situation
        return _prediction(chain, lane, situation)

    @property
    def situation(self) -> Situation:
        """What the latest prediction was made from."""
        assert self._now is not None, "nothing was predicted yet"
        return self._now[2]

    def learn(self, turn: Turn) -> str:
        """Take the bill of the turn that was predicted last; say why it is not believed, where that is so."""
        assert self._now is not None, "nothing was predicted yet"
        chain, lane, situation = self._now
        usage = turn.usage
        odd = "" if usage is None else unbelievable(usage)
        lane.used = _used(lane, turn)
        chain.begun, chain.model = True, turn.model
        if usage is None or odd or usage.read_tokens is None:
            _go_on_blind(chain, lane, situation)
            return odd
        _learn(chain, lane, situation, usage)
        chain.lives = lifetime(turn, chain.lives)
        _anchor(chain, lane, situation.same, usage)
        return ""

    def follow(self, turn: Turn) -> None:
        """Take a turn that nobody asks about: what `predict` and `learn` remember of it, for less."""
        chain = self._chains.get(turn.chain)
        if chain is None or not _follow(chain, turn):
            self.predict(turn)
            self.learn(turn)


class Transcripts:
    """Predict by levels the turns of one recording that holds neither system prompt nor tools; leave others alone."""

    def __init__(self) -> None:
        self._levels: dict[Served, Levels] = {}

    def turn(self, turn: Turn) -> Predicted | None:
        """Predict a turn, then take its bill; None for a turn that levels say nothing of."""
        name, levels = self._levels_of(turn)
        if levels is None:
            return None
        prediction = levels.predict(turn)
        return Predicted(name, prediction, levels.learn(turn), levels.situation)

    def follow(self, turn: Turn) -> None:
        """Take a turn that nobody asks about."""
        _, levels = self._levels_of(turn)
        if levels is not None:
            levels.follow(turn)

    def _levels_of(self, turn: Turn) -> tuple[str, Levels | None]:
        if not is_transcript(turn) or turn.failed:
            return "", None
        where = served_by(turn)
        name = cache_of(turn, where)
        if name not in BY_LEVEL:
            return name, None
        levels = self._levels.get(where)
        if levels is None:
            levels = self._levels[where] = Levels()
        return name, levels


# the situation


def _situation(chain: ChainLevels, turn: Turn) -> tuple[Lane, Situation]:
    model, at, basis = turn.model, turn.at, turn.basis
    assert basis is not None, "levels are asked about transcripts"
    lane = chain.lanes.get(model)
    new = lane is None
    if lane is None:
        lane = chain.lanes[model] = Lane()
    before, entries, rest = lane.entries, basis.entries, basis.rest[1:]
    size, same = len(before), len(before) if entries.begins_with(before) else before.common(entries)
    moved_head = not new and rest != lane.rest
    if turn.changes and any(change.cause == Code.COMPACTION for change in turn.changes):
        chain.waiting = None
    top = lane.before(same)
    base = size if same == size else 0 if top is None else top.size
    grown = growth(entries, base, at)
    waiting, hooks = chain.waiting, chain.hooks
    if grown.prompted:
        chain.waiting, chain.hooks = None, ()
    elif turn.signs and (waiting is not None or same == size):
        _note_hooks(chain, turn.signs, size if waiting is None else waiting)
    lane.entries, lane.rest = entries, rest
    found = Situation(
        at=at, stood=chain.stood, size=size, same=same, grown=grown,
        pause=None if lane.used is None or at is None or at < lane.used else at - lane.used,
        lifetime=chain.lives if lane.top is None else lane.top.lifetime,
        changes=turn.changes, signs=turn.signs, other_model=chain.begun and chain.model != model,
        moved_head=moved_head, reach=_reach(lane, top, base, grown, at),
        earlier=lane.anchors[-2].tokens if len(lane.anchors) > 1 else None, waiting=waiting,
        put_back=_left(lane, waiting, at) if waiting is not None and grown.prompted else None,
        hooks=hooks, level=Level(None, "first"), floor=lane.floor if lane.fresh else None, least=lane.least,
    )  # fmt: skip
    if new and not chain.begun:
        return lane, found
    level = next(level for rule in _RULES if (level := rule(chain, lane, found)) is not None)
    return lane, found._replace(level=level)


def _note_hooks(chain: ChainLevels, signs: tuple[Sign, ...], size: int) -> None:
    """Remember text that a hook put in behind so many entries."""
    sign = next((sign for sign in signs if sign.name == _HOOK), None)
    if sign is not None:
        chain.waiting = size
        chain.hooks = tuple(dict.fromkeys((*chain.hooks, *sign.names)))


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

_Rule: TypeAlias = Callable[[ChainLevels, Lane, Situation], Level | None]


def _other_model(_: ChainLevels, lane: Lane, situation: Situation) -> Level | None:
    """A model that the chain has not asked yet has nothing of it."""
    return Level(0, "model", sure=False) if situation.other_model and not lane.anchors else None


def _expired(_: ChainLevels, lane: Lane, situation: Situation) -> Level | None:
    """What is older than its lifetime is gone; what lives longer, or others keep, is still there."""
    top = lane.top
    pause = situation.pause
    if top is None or pause is None or top is lane.outlive(pause):
        return None
    left = lane.at(situation.same)
    return Level(max(lane.floor or 0, 0 if left is None else left.tokens), "expiry")


def _head_moved(chain: ChainLevels, lane: Lane, situation: Situation) -> Level | None:
    """Other tools or another system prompt leave what others keep."""
    if situation.moved_head:
        lane.anchors.clear()
        return Level(lane.floor or 0, "session-changed")
    for sign in situation.signs:
        if sign.name != _HOOK and sign.name in CHANCES and chain.is_likely(sign.name):
            left = lane.floor or 0 if CHANCES[sign.name].reach == "head" else lane.head
            return Level(left, sign.name, sure=False)
    return None


def _cut_back(_: ChainLevels, lane: Lane, situation: Situation) -> Level | None:
    """Where history shrank or changed the last position before that holds, if a breakpoint looks back so far."""
    if situation.same == situation.size:
        return None
    lane.at(situation.same)
    compacted = any(change.cause == Code.COMPACTION for change in situation.changes)
    return Level(_left(lane, situation.same, situation.at), "compaction" if compacted else "shrunk")


def _put_back(chain: ChainLevels, _: Lane, situation: Situation) -> Level | None:
    """Text of hooks beside results is not there any more once the user has spoken, in sessions where it was so."""
    if situation.put_back is None or not chain.is_likely(_HOOK):
        return None
    return Level(situation.put_back, _HOOK, sure=False)


def _out_of_reach(_: ChainLevels, lane: Lane, situation: Situation) -> Level | None:
    """More new positions than a breakpoint looks back, where clients keep one at the end and each block counts."""
    if lookback(situation.at).runs or situation.reach <= POSITIONS:
        return None
    return Level(lane.head, "lookback", sure=False)


def _goes_on(chain: ChainLevels, lane: Lane, situation: Situation) -> Level:
    """All that stood there, with the answer where a hidden request followed the session's last turn end."""
    top = lane.top
    if top is None:
        return Level(None, "unknown")
    soon = situation.pause is not None and situation.pause <= SOON
    sure = not (soon or lane.guessed)
    if chain.hidden and situation.grown.prompted and not situation.other_model:
        return Level(top.tokens + lane.rate.answer_tokens(situation.grown, chain.output), "hidden-request", sure)
    return Level(top.tokens, "goes-on", sure)


_RULES: tuple[_Rule, ...] = (_other_model, _expired, _head_moved, _cut_back, _put_back, _out_of_reach, _goes_on)


def _prediction(chain: ChainLevels, lane: Lane, situation: Situation) -> Prediction:
    level = situation.level
    if level.tokens is None:
        return UNKNOWN._replace(reason=level.why)
    before = chain.total or 0
    if situation.same < situation.size:
        before = lane.head if lane.top is None else lane.top.tokens
    whole = max(before + lane.rate.tokens(situation.grown, chain.output), level.tokens)
    uncached = min(chain.uncached, whole - level.tokens)
    write = whole - level.tokens - uncached
    hour = write if chain.lives == ONE_HOUR else 0 if chain.lives is not None else None
    return Prediction(level.tokens, write, uncached, "rule" if level.sure else "ceiling", level.why, hour)


# learning


def _go_on_blind(chain: ChainLevels, lane: Lane, situation: Situation) -> None:
    """Go on after a bill that says nothing: where the turn ended is estimated, what the next one finds unknown."""
    prediction = _prediction(chain, lane, situation)
    chain.stood, chain.output = None, None
    lane.at(situation.same)
    if prediction.total is None or prediction.uncached is None:
        return
    chain.total = prediction.total
    lane.guessed = True
    lane.put(Anchor(len(lane.entries), prediction.total - prediction.uncached, chain.lives))


def _learn(chain: ChainLevels, lane: Lane, situation: Situation, usage: Billed) -> None:
    """Learn levels, rates and what followed signs from a bill."""
    read, whole = usage.read_tokens or 0, total(usage)
    if lane.first is None:
        lane.first, lane.floor = position(usage), read
        lane.opening = lane.rate.tokens(situation.grown, None)
        lane.fresh = not situation.grown.spoken
        lane.least = read if lane.fresh else None
    elif situation.stood is not None and not situation.other_model:
        fell = read < situation.stood - DROP
        if fell:
            _learn_head(lane, situation, read)
            if lane.least is not None and situation.level.why != "expiry":
                lane.least = min(lane.least, read)
        _learn_signs(chain, situation, situation.stood, read, fell=fell)
        goes_on = situation.same == situation.size and not situation.moved_head
        if whole is not None and chain.total is not None and goes_on:
            lane.rate.learn(situation.grown, chain.output, whole - chain.total)


def _follow(chain: ChainLevels, turn: Turn) -> bool:
    """Take a turn that plainly goes on, as its bill shows; False, with nothing done, where it is not so plain."""
    lane, basis, usage, stood = chain.lanes.get(turn.model), turn.basis, turn.usage, chain.stood
    if lane is None or not lane.anchors or lane.first is None or chain.model != turn.model or stood is None:
        return False
    if turn.changes or turn.signs or chain.waiting is not None or usage is None or basis is None:
        return False
    read, at, before = usage.read_tokens, turn.at, lane.entries
    if read is None or read < stood - DROP or unbelievable(usage) or basis.rest[1:] != lane.rest:
        return False
    if at is not None and lane.used is not None and lane.anchors[-1].died(at - lane.used):
        return False
    if not basis.entries.begins_with(before):
        return False
    grown = growth(basis.entries, len(before), at)
    whole = total(usage)
    if whole is not None and chain.total is not None:
        lane.rate.learn(grown, chain.output, whole - chain.total)
    if grown.prompted:
        chain.hooks, chain.hidden = (), read > stood
    lane.entries, lane.used = basis.entries, _used(lane, turn)
    chain.lives = lifetime(turn, chain.lives)
    _anchor(chain, lane, len(before), usage)
    return True


def _used(lane: Lane, turn: Turn) -> float | None:
    """Return when a lane was last used, now that it was by this turn."""
    at = turn.answered_at if turn.answered_at is not None else turn.at
    return lane.used if at is None else at


def _learn_head(lane: Lane, situation: Situation, read: int) -> None:
    """Learn what a drop fell to, where that is the head: nothing that stood behind the lane's first turn."""
    why = situation.level.why
    signs = [sign.name for sign in situation.signs]
    if why in _CHANGED or any(name in CHANCES and CHANCES[name].reach == "head" for name in signs):
        if why != "expiry" or not lane.anchors:
            lane.floor = read
        return
    behind = lane.first is None or read > lane.first
    if read != lane.floor and not behind and all(anchor.tokens != read for anchor in lane.anchors[:4]):
        lane.known_head = read


def _learn_signs(chain: ChainLevels, situation: Situation, stood: int, read: int, *, fell: bool) -> None:
    if situation.level.why in _KNOWN_DROPS:
        return
    for sign in situation.signs:
        if sign.name != _HOOK and sign.name in CHANCES:
            chain.learn(sign.name, fell=fell)
    if not situation.grown.prompted:
        return
    if situation.waiting is not None:
        chain.learn(_HOOK, fell=fell)
    if not fell:
        chain.hidden = read > stood


def _anchor(chain: ChainLevels, lane: Lane, same: int, usage: Billed) -> None:
    """Remember where this turn's breakpoints stand, of which the first `same` entries are unchanged."""
    read, end, size = usage.read_tokens or 0, position(usage), len(lane.entries)
    lane.at(same)
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
