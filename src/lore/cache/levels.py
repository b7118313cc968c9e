"""What a cache would read of a conversation of which the recording holds neither system prompt nor tools.

In: turns in the order in which they were asked. Out: a `Prediction` each. Rules: `predict` never looks at the
turn's own usage or verdict; `learn` is called after it; what is unknown stays unknown. Positions come from
earlier bills and what lies between from bytes (`lanes`), what may be read from the level that the log shows and from
habits (`forecast`). What a session showed of a habit is shared by all its chains.
Works on transcripts; costs O(what is new in a turn).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lore.cache.base import Prediction
from lore.cache.bills import DROP, ONE_HOUR, POSITIONS, SOON, lifetime, lookback, position, total, unbelievable
from lore.cache.forecast import (
    AGAIN,
    Key,
    Odds,
    ReadLevel,
    Seen,
    Situation,
    Tallies,
    Tally,
    level_of,
    prediction_of,
    whole_of,
)
from lore.cache.lanes import Anchor, ChainLevels, Growth, ModelLane, WaitingText, growth
from lore.cache.rules import DatedRules, idle_lifetime
from lore.cache.served import WITH_BREAKPOINTS, Served, cache_of, is_transcript, served_by
from lore.model.codes import Code
from lore.model.events import Usage
from lore.model.state import Sign
from lore.model.turn import Turn

# caches whose transcripts are predicted by levels
BY_LEVEL = WITH_BREAKPOINTS | {"openai", "openai-breakpoint", "gemini", "deepseek", "kimi", "xai", "qwen-implicit"}
_ANTHROPIC = Served("anthropic", "")
_HOOK, _REASONING = "hook-context", "reasoning"
WAITING = 512  # turns of a recording
_WAITING = (_HOOK, "skill")  # signs of text that may be moved at the next prompt of the user
_BESIDE_RESULTS = "PostToolUse"  # hooks whose text stands beside results


class Predicted(NamedTuple):
    """What was predicted, by which model (empty: none), and why its bill is not believed.

    `situation` is what a level model saw; None where requests were looked at.
    """

    cache: str
    prediction: Prediction
    odd: str = ""
    situation: Situation | None = None


class Levels:
    """A model of prompt caches that knows levels, not prompts.

    `rules` gives the dated rules, of which habits are asked. `tallies` are another model's, which counts for both.
    `where` says whose cache it is, and `breakpoints` whether entries stand at some.
    """

    def __init__(
        self, rules: Callable[[], DatedRules], tallies: Tallies | None = None, where: Served = _ANTHROPIC, *,
        breakpoints: bool = True,
    ) -> None:  # fmt: skip
        self._chains: dict[str, ChainLevels] = {}
        self._rules = rules
        self._where = where
        self._breakpoints = breakpoints
        self._counts = tallies is None
        self.tallies: Tallies = {} if tallies is None else tallies
        self._now: tuple[ChainLevels, ModelLane, Situation] | None = None

    def predict(self, turn: Turn) -> Prediction:
        """Say what the cache would do with a turn."""
        chain, lane, situation = self._look(turn)
        return prediction_of(Odds(self._rules().habits, self.tallies, self._where.provider), chain, lane, situation)

    def _look(self, turn: Turn) -> tuple[ChainLevels, ModelLane, Situation]:
        chain = self._chains.get(turn.chain)
        if chain is None:
            chain = self._chains[turn.chain] = ChainLevels(charges=self._breakpoints)
        if not self._breakpoints:
            chain.lives = idle_lifetime(self._rules(), self._where, turn)
            where = self._where
            block = self._rules().number("block_tokens", where.provider, turn.model, where.platform, turn.at)
            chain.block = int(block or 1)
        self._now = chain, *_situation(chain, turn, breakpoints=self._breakpoints)
        return self._now

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
        dropped = next((seen.size for seen in situation.seen if seen.sign == _REASONING), None)
        if dropped is not None:
            lane.at(dropped)  # what stood behind it is shorter from now on
        if usage is None or odd or usage.read_tokens is None:
            _go_on_blind(chain, lane, situation)
            return odd
        if self._counts:
            _count_habits(self.tallies, situation, usage.first_pass.read_tokens or 0, lane.left_by_falls)
        _learn(chain, lane, situation, usage)
        if self._breakpoints:
            chain.lives = lifetime(turn, chain.lives)
        chain.charges = chain.charges or bool(usage.write_tokens)
        _anchor(chain, lane, situation.same, usage)
        return ""

    def follow(self, turn: Turn) -> None:
        """Take a turn that nobody asks about: what `predict` and `learn` remember of it, for less."""
        chain = self._chains.get(turn.chain)
        if chain is None or not _follow(self.tallies, chain, turn):
            self._look(turn)
            self.learn(turn)


class Transcripts:
    """Predict by levels the turns of one recording that holds neither system prompt nor tools; leave others alone.

    Most turns lose nothing, and nobody asks what levels say of them: turns wait until somebody does, at most `WAITING`
    of them, and are followed in their order. `seen` is what was said of the latest one that somebody asked about.
    """

    def __init__(self, rules: Callable[[], DatedRules]) -> None:
        self._rules = rules
        self._levels: dict[Served, Levels] = {}
        self._waiting: list[Turn] = []
        self.seen: Predicted | None = None

    def take(self, turn: Turn, foreseen: Predicted | None = None) -> None:
        """Take the next turn; `foreseen` is what levels said of it, where somebody followed them already."""
        self.seen = foreseen
        if foreseen is None:
            self._waiting.append(turn)
            if len(self._waiting) > WAITING:
                self._follow()

    def situation(self) -> Situation | None:
        """Return what was known of the turn before its bill; None where levels say nothing of it."""
        if self._waiting:
            self._follow()
        return None if self.seen is None or self.seen.odd else self.seen.situation

    def _follow(self) -> None:
        latest, waiting, self._waiting = self._waiting[-1], self._waiting, []
        for turn in waiting:
            where = served_by(turn)
            name = cache_of(turn, where)
            if turn.failed or name not in BY_LEVEL or not is_transcript(turn):
                continue
            levels = self._levels.get(where)
            if levels is None:
                levels = self._levels[where] = Levels(self._rules, where=where, breakpoints=name in WITH_BREAKPOINTS)
            if turn is latest:
                prediction = levels.predict(turn)
                self.seen = Predicted(name, prediction, levels.learn(turn), levels.situation)
            else:
                levels.follow(turn)


# the situation


def _situation(chain: ChainLevels, turn: Turn, *, breakpoints: bool) -> tuple[ModelLane, Situation]:
    model, at, basis = turn.model, turn.at, turn.basis
    assert basis is not None, "levels are asked about transcripts"
    lane = chain.lanes.get(model)
    new = lane is None
    if lane is None:
        lane = chain.lanes[model] = ModelLane(breakpoints=breakpoints)
    before, entries, rest = lane.entries, basis.entries, basis.head
    size, same = len(before), len(before) if entries.begins_with(before) else before.common(entries)
    moved_head = not new and rest != lane.rest
    if turn.changes and any(change.cause == Code.COMPACTION for change in turn.changes):
        chain.waiting.clear()
    top = lane.before(same)
    base = size if same == size else 0 if top is None else top.size
    grown = growth(entries, base, at)
    lane.entries, lane.rest = entries, rest
    far = 0 if top is None or top.size == base else lane.positions(top, at)
    other_model = chain.begun and chain.model != model
    if not breakpoints and grown.thinking:
        chain.waiting.setdefault(_REASONING, WaitingText(base, (), ""))
    hooks = chain.waiting.get(_HOOK)
    seen = _seen(chain, lane, turn, grown)
    put_back = next((sign.left for sign in seen if sign.sign == _HOOK), None) if grown.prompted else None
    pause = None if lane.used is None or at is None or at < lane.used else at - lane.used
    found = Situation(
        at=at, stood=chain.stood, size=size, same=same, grown=grown, pause=pause,
        lifetime=chain.lives if lane.top is None else lane.top.lifetime,
        changes=turn.changes, signs=turn.signs, model=model, other_model=other_model,
        moved_head=moved_head, reach=far if top is None or not breakpoints or top.size != base else grown.positions,
        earlier=lane.anchors[-2].tokens if len(lane.anchors) > 1 else None,
        waiting=None if hooks is None else hooks.size, put_back=put_back, hooks=() if hooks is None else hooks.names,
        seen=seen, output=chain.output if base == size and not other_model else None,
        level=ReadLevel(None, "first"), whole=0, floor=lane.floor if lane.fresh else None, least=lane.least,
        behind=lane.behind(same), gone=lane.gone(same, pause), implicit=not breakpoints,
    )  # fmt: skip
    if grown.prompted:
        chain.waiting.clear()
    elif turn.signs:
        _note_waiting(chain, turn.signs, size if same == size else None)
    if new and not chain.begun:
        return lane, found
    level = level_of(lane, found)  # first: it lets go of what does not hold any more
    return lane, found._replace(level=level, whole=whole_of(chain, lane, found))


def _seen(chain: ChainLevels, lane: ModelLane, turn: Turn, grown: Growth) -> tuple[Seen, ...]:
    """Return the signs that are weighed: the turn's own, at a prompt of the user those of text that waited for it."""
    found: list[Seen] = []
    if grown.prompted:
        for sign, waiting in chain.waiting.items():
            left = lane.left(waiting.size, turn.at)
            found.append(Seen(sign, first=False, version=waiting.version, left=left, waited=True, size=waiting.size))
    for sign in turn.signs:
        if not (grown.prompted and sign.name in _WAITING):
            found.append(Seen(sign.name, sign.name not in chain.shown, sign.version, None))
        chain.shown.add(sign.name)
    return tuple(found)


def _note_waiting(chain: ChainLevels, signs: tuple[Sign, ...], size: int | None) -> None:
    """Remember text that came behind so many entries; None: history changed, and nobody knows where it stands."""
    for sign in signs:
        before = chain.waiting.get(sign.name)
        if sign.name not in _WAITING or (before is None and size is None):
            continue
        if sign.name == _HOOK and sign.names and not any(name.startswith(_BESIDE_RESULTS) for name in sign.names):
            continue  # hooks of other moments put their text beside a prompt
        names = sign.names if before is None else tuple(dict.fromkeys((*before.names, *sign.names)))
        chain.waiting[sign.name] = WaitingText(before.size if before else size or 0, names, sign.version)


# learning


def _go_on_blind(chain: ChainLevels, lane: ModelLane, situation: Situation) -> None:
    """Go on after a bill that says nothing: where the turn ended is estimated, what the next one finds unknown."""
    level, whole = situation.level, situation.whole
    chain.stood, chain.output = None, None
    lane.at(situation.same)
    if level.tokens is None:
        return
    chain.total = lane.total = whole
    lane.guessed = True
    end = whole - min(chain.uncached, max(0, whole - level.tokens))
    lane.put(Anchor(len(lane.entries), end, chain.lives))


def _learn(chain: ChainLevels, lane: ModelLane, situation: Situation, usage: Usage) -> None:
    """Learn levels and rates from a bill."""
    met = usage.first_pass
    read, whole = met.read_tokens or 0, total(met)
    if lane.first is None:
        lane.first = position(met)
        lane.opening = lane.rate.tokens(situation.grown, None)
        own = max(0, (lane.first or 0) - lane.opening)  # more than tools and system is history that was read again
        lane.floor = read if read <= own + lane.opening // 2 else own
        lane.fresh = not situation.grown.spoken
        lane.least = read if lane.fresh and lane.floor == read else None
    elif situation.stood is not None and not situation.other_model:
        fell, why = read < situation.stood - DROP, situation.level.why
        if fell:
            _learn_head(lane, situation, read)
        if why == "compaction":
            lane.least = read or None  # all of the history is another one: what is read is the head
        elif fell and lane.least is not None and why != "expiry":
            lane.least = min(lane.least, read)
        if situation.same == situation.size and not situation.moved_head:
            _learn_rate(lane, situation.grown, situation.output, whole, read - situation.stood)


def _learn_rate(lane: ModelLane, grown: Growth, output: int | None, whole: int | None, risen: int) -> None:
    """Learn from by how much a prompt grew; one that grew by less than the answer does not hold all of it.

    `risen` is what was read beyond what stood: at a new prompt of the user the answer, if a hidden request read it.
    """
    if grown.prompted and risen > 0:
        lane.rate.learn_answer(grown.spoken if lane.whole_answers else grown.spoken - grown.thought, risen)
    if whole is None or lane.total is None:
        return
    lane.rate.learn(grown, output, whole - lane.total)
    if grown.prompted and output is not None:
        lane.whole_answers = whole - lane.total >= output


def _follow(tallies: Tallies, chain: ChainLevels, turn: Turn) -> bool:
    """Take a turn that plainly goes on, as its bill shows; False, with nothing done, where it is not so plain."""
    lane, basis, usage, stood = chain.lanes.get(chain.model), turn.basis, turn.usage, chain.stood
    if lane is None or not lane.anchors or lane.first is None or chain.model != turn.model or stood is None:
        return False
    if turn.changes or turn.signs or chain.waiting or usage is None or basis is None:
        return False
    slack = 0 if lane.breakpoints else DROP  # elsewhere the last block of what stands is not read
    met = usage.first_pass
    read, at, before = met.read_tokens, turn.at, lane.entries
    if read is None or read < stood - slack or unbelievable(usage) or basis.head != lane.rest:
        return False
    pause = None if at is None or lane.used is None else at - lane.used
    top = lane.anchors[-1]
    if (pause is not None and top.died(pause)) or top.size != len(before) or not basis.entries.begins_with(before):
        return False
    grown = growth(basis.entries, len(before), at)
    if lane.breakpoints and grown.positions > POSITIONS and not lookback(at).runs:
        return False
    if grown.thinking and not lane.breakpoints:
        return False
    if pause is not None and 0 <= pause <= SOON:
        _count(tallies, ("older-entry", grown.prompted, False), fell=False)
    else:
        _count(tallies, ("no-sign", grown.prompted, False), fell=False)
    if grown.prompted:
        _count(tallies, ("hidden-request", True, False), fell=read > stood)
    _learn_rate(lane, grown, chain.output, total(met), read - stood)
    lane.entries, lane.used = basis.entries, _used(lane, turn)
    chain.lives = lifetime(turn, chain.lives) if lane.breakpoints else chain.lives
    _anchor(chain, lane, len(before), usage)
    return True


def _used(lane: ModelLane, turn: Turn) -> float | None:
    """Return when a lane was last used, now that it was by this turn."""
    at = turn.answered_at if turn.answered_at is not None else turn.at
    return lane.used if at is None else at


def _learn_head(lane: ModelLane, situation: Situation, read: int) -> None:
    """Learn what a drop fell to: what others keep from a drop whose cause is certain, the head where history changed.

    The head is nothing that stood behind the lane's first turn, and no less than what others keep.
    """
    why, floor = situation.level.why, lane.floor or 0
    if why == "session-changed" or (why == "expiry" and not lane.anchors):
        lane.floor = read
        return
    if why == "compaction" and read < floor:
        lane.floor = read
    behind = lane.first is None or read > lane.first
    if why != "expiry" and read > floor and not behind and all(anchor.tokens != read for anchor in lane.anchors[:4]):
        # what falls lower by a cause that is not certain moved the head itself
        lane.known_head = read if why == "compaction" else max(read, lane.known_head or 0)


def _count_habits(tallies: Tallies, situation: Situation, read: int, foreseen: int) -> None:
    """Count what followed the habits that a turn showed; where the log says for sure why it fell, nothing did.

    `foreseen` is where a fall without a sign would have ended, in tokens.
    """
    level, stood, prompted = situation.level, situation.stood, situation.grown.prompted
    if level.is_certain or stood is None or level.tokens is None or situation.other_model or level.why == "first":
        return
    fell = read < stood - DROP
    if level.sign:
        _count(tallies, (level.sign, prompted, False), fell=fell)
        return
    if level.why != "goes-on":
        return
    for seen in situation.seen:
        _count(tallies, (seen.sign, prompted, seen.first), fell=fell)
    if situation.soon:
        _count(tallies, ("older-entry", prompted, False), fell=read == situation.earlier)
    if situation.far:
        _count(tallies, ("lookback", prompted, False), fell=fell)
    if not (situation.seen or situation.soon or situation.far):
        _count(tallies, ("no-sign", prompted, False), fell=fell)
        if fell and situation.implicit:
            _count(tallies, AGAIN, fell=abs(read - foreseen) <= DROP)
    if prompted and not fell:
        _count(tallies, ("hidden-request", True, False), fell=read > stood)


def _count(tallies: Tallies, key: Key, *, fell: bool) -> None:
    tallies[key] = tallies.get(key, _NONE).plus(fell=fell)


_NONE = Tally()


def _anchor(chain: ChainLevels, lane: ModelLane, same: int, usage: Usage) -> None:
    """Remember where this turn's breakpoints stand, of which the first `same` entries are unchanged."""
    read, end, size = usage.read_tokens or 0, position(usage), len(lane.entries)
    lane.at(same)
    lane.shown(usage.first_pass.read_tokens or 0)
    lane.latest = usage.first_pass.read_tokens or lane.latest
    hour, short = usage.write_1h_tokens or 0, usage.write_5m_tokens or 0
    if hour and short:
        top = lane.top
        lane.put(Anchor((0 if top is None else top.size + 1), read + hour, ONE_HOUR))
    if end is not None:
        lane.put(Anchor(size, end, None if chain.lives is None else (300.0 if short else chain.lives)))
    lane.guessed = False
    chain.stood, chain.output = end, usage.output_tokens
    chain.total = lane.total = total(usage)
    chain.uncached = usage.uncached_tokens if usage.uncached_tokens is not None else chain.uncached
