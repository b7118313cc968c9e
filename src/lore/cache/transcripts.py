"""Predict the cache reads of transcripts: conversations recorded without system prompt and tools.

The usage of earlier turns says how many tokens of the prompt were cached after which entry of the timeline; bytes say
how much was added since. If the log shows a reason for a fall (another model, an expiry, a compaction, changed
history), the last position before it is predicted; otherwise everything that was cached, unless a signal was seen after
which most reads fell (`falls`). A prediction never looks at the turn's own usage.

Sources: measured over 38,782 billed transitions: what a drop falls to, the newest entry that cannot be read at once;
over 559 ends of turns: the hidden request, after which the answer is cached too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from lore.cache.base import UNKNOWN, Prediction
from lore.cache.counts import DROP, ONE_HOUR, SOON, lifetime, position, reason_to_doubt, total
from lore.cache.falls import fall_table, find_fall, version_of
from lore.cache.lookback import POSITIONS, lookback_rule
from lore.cache.rules import DatedRules, idle_lifetime, least_lifetime
from lore.cache.served import WITH_BREAKPOINTS, Served, normal_name
from lore.cache.transcript_history import ChainHistory, Growth, ModelHistory, Position, Signal, add_positions, growth
from lore.model.codes import Code
from lore.model.events import THOUGHTS, Usage
from lore.model.state import HOOKS, Change, Sign
from lore.model.turn import Turn

# caches whose transcripts are predicted
CACHES_OF_TRANSCRIPTS = WITH_BREAKPOINTS | {
    "openai", "openai-breakpoint", "gemini", "deepseek", "kimi", "xai", "qwen-implicit"
}  # fmt: skip
_ANTHROPIC = Served("anthropic", "")
_REASONING, _NO_FIRST_THINKING, _IMAGE, _TEAMMATE = "reasoning", "first-without-thinking", "image", "teammate"
_KEPT_REASONING = "kept-reasoning"  # a key of `ChainHistory.waiting`: reasoning of earlier prompts that seemed to stay
_TEAMMATE_REQUESTS = (1, 2)  # requests before those of a teammate whose reads fall
_EFFECT_AT_PROMPT = (*HOOKS, "skill")  # signals whose text may be moved at the next prompt of the user
_AFTER_RESULTS = "PostToolUse"  # hooks whose text follows tool results; that of others follows a prompt
_RATE_ERROR = 0.05  # the share by which an estimate of tokens from bytes may be wrong
_CONTINUES = ("goes-on", "hidden-request")  # reasons of predictions without a fall
_STAYS = 3  # of the latest 6 reads that repeat the one before: writes are often lost there
_HIDDEN_PAUSE, _HIDDEN_TOKENS = 20.0, 10_000  # a hidden request follows after this pause, if the last one added less


class ReadLevel(Struct, frozen=True):
    """How many tokens can be read from the cache, as far as the log shows."""

    tokens: int | None  # None: unknown
    why: str  # the reason, as predictions report it: `expiry`, `compaction`; `goes-on`: the history was extended
    is_sure: bool = True  # the log itself decides it


class TurnState(Struct):
    """Everything that is known of a turn of a transcript before its usage is read."""

    cached: int | None  # tokens that the previous turn left in the cache: read and written
    entries: int  # of the previous turn's timeline
    unchanged: int  # of those entries
    grown: Growth  # what follows the unchanged entries
    pause: float | None  # seconds since the previous turn; None: the clock says nothing
    lifetime: float | None  # seconds that the entries of the previous turn live
    least_lifetime: float | None  # seconds that they surely live, in a cache without breakpoints
    changes: tuple[Change, ...]  # events since the previous turn that may change the prompt
    model: str | None  # that was asked
    model_changed: bool  # the previous turn asked another model
    head_changed: bool  # tools or system prompt differ, as far as the log shows
    new_positions: int  # between the last known position and the end
    earlier_position: int | None  # tokens at the position before the last known one
    signals: tuple[Signal, ...]  # that may make the read fall
    output: int | None  # tokens of the previous answer
    level: ReadLevel  # the expected read
    expected_tokens: int  # estimated length of the prompt
    shared_head: int | None = None  # read if the head changed; None: the first turn was not a new conversation
    min_read: int | None = None  # the least that is read if only the history changed
    first_position: int | None = None  # tokens at the first known position after the head
    first_expired: int | None = None  # tokens at the first position that has expired
    implicit: bool = False  # the cache has no breakpoints, and requests reach several machines
    at: float | None = None  # when it was asked
    thoughts: int | None = None  # since the user's previous prompt, by usage that counts them apart

    def dropped_reasoning(self, read: int | None) -> Signal | None:
        """Return the place of the reasoning that may be left out of this prompt; None without any.

        If reasoning of earlier prompts seemed to stay, there are two places: then it is the later one if the read
        reaches it. 3 of 3 such reads in Codex ended there.
        """
        places = [signal for signal in self.signals if signal.name == _REASONING]
        reached = [place for place in places[1:] if (read or 0) >= (place.read_if_moved or 0) - DROP]
        return (reached or places or [None])[-1 if reached else 0]


class Predicted(NamedTuple):
    """The prediction of a turn."""

    cache: str  # the model of the cache; empty: none
    prediction: Prediction  # made before the usage was read
    doubt: str = ""  # why the turn's usage is not believed
    state: TurnState | None = None  # of a transcript's turn

    def limited_to(self, usage: Usage | None) -> Prediction:
        """Return the prediction as it is shown: no read is larger than the prompt, by its usage.

        If the prompt became shorter than the predicted read, its whole length is only the most that can be read. The
        size of a request says nothing about the cache, so comparisons with the usage take the original.
        """
        prediction = self.prediction
        size = None if usage is None or self.doubt else total(usage.first_pass)
        if size is None or prediction.read is None or prediction.read <= size:
            return prediction
        hour = None if prediction.write_1h is None else 0
        return replace(prediction, read=size, write=0, uncached=0, write_1h=hour, confidence="ceiling")


class ChangeCounts(Struct):
    """How many turns a what-if changes. Turns that it cannot apply to are not counted.

    A lifetime applies only to Anthropic's caches; it and breakpoints only to turns with breakpoints or writes.
    """

    changed: int = 0  # turns whose breakpoints, usage or model the what-if changes; their prediction may stay equal
    already: int = 0  # turns that were recorded as the what-if asks

    def count(self, *, changed: bool) -> None:
        """Count one turn: in `changed`, or in `already` (recorded like that before the change)."""
        self.changed += changed
        self.already += not changed


class TranscriptCache:
    """Predicts the turns of transcripts of one provider's cache.

    If a what-if asks for a lifetime (`seconds`), entries at breakpoints live that long; other caches offer no choice.
    `change_counts` counts the turns that this changes.
    """

    def __init__(
        self, rules: DatedRules, where: Served = _ANTHROPIC, *, breakpoints: bool = True, seconds: float | None = None,
        change_counts: ChangeCounts | None = None,
    ) -> None:  # fmt: skip
        self._seconds = seconds if breakpoints else None
        self._change_counts = change_counts or ChangeCounts()
        self._recorded: dict[str, float | None] = {}  # by chain: the recorded lifetime, by which entries expired
        self._chains: dict[str, ChainHistory] = {}
        self._rules = rules
        self._where = where
        self._breakpoints = breakpoints
        self._current: tuple[ChainHistory, ModelHistory, TurnState] | None = None
        self.reason = ""  # of the latest prediction

    @property
    def state(self) -> TurnState:
        """The state that the latest prediction was made from."""
        assert self._current is not None, "nothing was predicted yet"
        return self._current[2]

    def observe(self, turn: Turn) -> tuple[ChainHistory, ModelHistory, TurnState]:
        """Return the histories that the next turn belongs to, and its state; `learn` has to follow."""
        chain = self._chains.get(turn.chain)
        if chain is None:
            chain = self._chains[turn.chain] = ChainHistory(charges=self._breakpoints)
        rules, where = self._rules, self._where
        key = where.provider, turn.model, where.platform, turn.at
        if not self._breakpoints:
            chain.lifetime = idle_lifetime(rules, where, turn)
            chain.least_lifetime = least_lifetime(rules, where, turn)
            seen = rules.number("lifetime_seen", *key)
            chain.seen_lifetime = None if seen is None else float(seen)
            chain.block = int(rules.number("block_tokens", *key) or 1)
            chain.reads_output = rules.flag("reads_output", *key)
            chain.reads_returned_answer = rules.flag("reads_returned_answer", *key)
        chain.drops_thinking = not self._breakpoints or rules.flag("drops_thinking", *key)
        self._current = chain, *_state(chain, turn, breakpoints=self._breakpoints)
        return self._current

    def predict(self, turn: Turn) -> Prediction:
        """Observe the next turn, and return what the cache would do with it."""
        chain, history, state = self.observe(turn)
        self.reason = state.level.why
        if state.level.tokens is None:
            return replace(UNKNOWN, reason=state.level.why)
        expected = state.expected_tokens
        tokens, why = self._read(chain, history, state, state.level.tokens)
        self.reason = why
        read = min(tokens, expected) // chain.block * chain.block
        # if writes are not charged, everything that is not read is uncached, although it may be cached from then on
        uncached = min(chain.uncached, expected - read) if chain.charges else expected - read
        write = expected - read - uncached
        hour = write if chain.lifetime == ONE_HOUR else 0 if chain.lifetime is not None else None
        has_signal = any((signal.name, signal.is_delayed) != (_IMAGE, True) for signal in state.signals)
        guessed = state.level.why == "goes-on" and (has_signal or why == "no-sign")
        is_soon = state.pause is not None and state.pause <= SOON  # then an older entry may be served
        sure = state.level.is_sure and not is_soon and not guessed
        return Prediction(read, write, uncached, "rule" if sure else "ceiling", why, hour)

    def learn(self, turn: Turn) -> str:
        """Read the usage of the turn that was predicted last; return why it is not believed, empty if it is."""
        assert self._current is not None, "nothing was predicted yet"
        chain, history, state = self._current
        if self._seconds is not None:
            recorded, recorded_turn = self._recorded.get(turn.chain), turn
            self._recorded[turn.chain] = lifetime(turn, recorded)
            turn = with_lifetime(turn, self._seconds, state, recorded, continues=self.reason in _CONTINUES)
            if recorded_turn.usage is not None and recorded_turn.usage.write_tokens:
                self._change_counts.count(changed=turn is not recorded_turn)
        usage = turn.usage
        doubt = "" if usage is None else reason_to_doubt(usage)
        at = turn.answered_at if turn.answered_at is not None else turn.at
        history.used = history.used if at is None else at
        chain.requests, chain.model = chain.requests + 1, turn.model
        thoughts = [part.output_tokens or 0 for part in (usage.iterations if usage else ()) if part.kind == THOUGHTS]
        if thoughts or chain.thoughts is not None:
            chain.thoughts = sum(thoughts) + (0 if state.grown.prompted else chain.thoughts or 0)
        if usage is not None and usage.client != chain.client:
            chain.client = usage.client
            name, _, version = usage.client.rpartition(" ")
            chain.head_expires = self._rules.flag("head_expires", name, ".".join(map(str, version_of(version))))
        dropped = state.dropped_reasoning(None if usage is None or doubt else usage.first_pass.read_tokens)
        if dropped is not None and usage and not doubt and _has_kept_reasoning(dropped, history, state, usage):
            kept = next(signal for signal in state.signals if signal.name == _REASONING)
            chain.waiting = {_KEPT_REASONING: kept, **chain.waiting}
        elif dropped is not None:
            history.cut(dropped.entries)  # the prompt after it is shorter from now on
        if usage is None or doubt or usage.read_tokens is None:
            _continue_without_usage(chain, history, state)
            return doubt
        _learn(chain, history, state, usage)
        if self._breakpoints:
            chain.lifetime = lifetime(turn, chain.lifetime)
        chain.charges = chain.charges or bool(usage.write_tokens)
        add_positions(chain, history, state.unchanged, usage)
        return ""

    def _read(self, chain: ChainHistory, history: ModelHistory, state: TurnState, level_tokens: int) -> tuple[int, str]:
        """Return the tokens that are read, and why: `level_tokens`, unless a signal or a hidden request changes it.

        The client may have sent a request that is not recorded at the end of the user's turn (2.1.59 and later). Of 513
        prompts it had done so in 208 if the last request had added up to 10,000 tokens, otherwise in 4 of 46.
        """
        if state.level.why != "goes-on":
            return level_tokens, state.level.why
        falls = list(self._falls(chain, history, state))
        if falls and min(falls)[0] < level_tokens:
            return min(falls)
        has_paused = state.pause is not None and state.pause >= _HIDDEN_PAUSE
        may_be_hidden = state.grown.prompted and chain.had_hidden_request and not state.model_changed
        if may_be_hidden and has_paused and chain.added <= _HIDDEN_TOKENS:
            return level_tokens + history.rate.answer_tokens(state.grown, state.output), "hidden-request"
        return level_tokens, "goes-on"

    def _falls(self, chain: ChainHistory, history: ModelHistory, state: TurnState) -> Iterator[tuple[int, str]]:
        """Yield the reads, and their reasons, after signals with which most reads fell, and past the lookback."""
        provider, model, prompted = self._where.provider, normal_name(state.model), state.grown.prompted
        for signal in state.signals:
            fall = find_fall(
                signal.name, at_prompt=prompted, is_first=signal.is_first, version=signal.version, model=model,
                provider=provider,
            )  # fmt: skip
            if fall is not None and fall.unread == "head":
                yield history.shared_head or 0, signal.name
            elif fall is not None:
                remaining = None if fall.unread == "history" else signal.read_if_moved
                yield history.head if remaining is None else remaining, signal.name
        is_far = state.new_positions > POSITIONS and not lookback_rule(state.at).runs  # when each block counts as one
        if is_far and state.unchanged == state.entries:
            yield history.head, "lookback"
        if state.implicit and provider in fall_table().random:
            yield history.head if history.latest_read is None else history.latest_read, "no-sign"
        elif chain.reads_output and sum(chain.stays) >= _STAYS:
            yield history.latest_read or 0, "no-sign"


def _has_kept_reasoning(dropped: Signal, history: ModelHistory, state: TurnState, usage: Usage) -> bool:
    """Return whether usage shows that reasoning stayed in the prompt: it grew by all additions, or more was read.

    A message that was sent into a running task begins no new task, and the provider keeps the reasoning. A prompt that
    shrank does not hold it, nor one whose read fell to what precedes it, whatever the estimate of what was added.
    """
    read, prompt_tokens, moved = usage.first_pass.read_tokens, total(usage.first_pass), dropped.read_if_moved
    previous_total = history.total if state.unchanged == state.entries else None
    if prompt_tokens is not None and previous_total is not None and prompt_tokens < previous_total:
        return False
    if read is not None and moved is not None and read > moved - DROP:
        if read > moved + DROP:
            return True
        if (history.latest_read or 0) > read + DROP:
            return False
    if prompt_tokens is None or previous_total is None:
        return False
    added = history.rate.tokens(state.grown, state.output)
    inputs = added - history.rate.answer_tokens(state.grown, state.output)
    excess = prompt_tokens - previous_total - added
    return inputs * _RATE_ERROR < excess < added  # it cannot be judged if something unrecorded was added


def _state(chain: ChainHistory, turn: Turn, *, breakpoints: bool) -> tuple[ModelHistory, TurnState]:
    model, at, basis = turn.model, turn.at, turn.basis
    assert basis is not None, "only transcripts are predicted here"
    history = chain.models.get(model)
    is_new = history is None
    history = chain.models[model] = history or ModelHistory(breakpoints=breakpoints)
    old_entries, entries = history.entries, basis.entries
    size = len(old_entries)
    unchanged = old_entries.common(entries)
    head_changed = not is_new and basis.head != history.recorded_head
    if any(change.cause == Code.COMPACTION for change in turn.changes):
        chain.waiting.clear()
    last = history.last_within(unchanged)
    base = size if unchanged == size else 0 if last is None else last.entries
    grown = growth(entries, base, at)
    history.entries, history.recorded_head = entries, basis.head
    distance = 0 if last is None or last.entries == base else history.positions_after(last, at)
    model_changed = bool(chain.requests) and chain.model != model
    if chain.drops_thinking and grown.has_thinking:
        chain.waiting.setdefault(_REASONING, Signal(_REASONING, is_delayed=True, entries=base))
    signals = tuple(_signals(chain, history, turn, grown))
    pause = None if history.used is None or at is None or at < history.used else at - history.used
    first = next((place for place in history.positions if place.entries), None)
    state = TurnState(
        cached=chain.cached, entries=size, unchanged=unchanged, grown=grown, pause=pause,
        lifetime=chain.lifetime if history.last is None else history.last.lifetime,
        least_lifetime=chain.least_lifetime, changes=turn.changes, model=model, model_changed=model_changed,
        head_changed=head_changed, signals=signals, level=ReadLevel(None, "first"), expected_tokens=0,
        new_positions=distance if last is None or not breakpoints or last.entries != base else grown.positions,
        earlier_position=history.positions[-2].tokens if len(history.positions) > 1 else None,
        output=chain.output if base == size and not model_changed else None,
        shared_head=history.shared_head if history.is_new else None, min_read=history.min_read,
        first_position=None if first is None or first.entries > unchanged else first.tokens,
        first_expired=history.first_expired(unchanged, pause), implicit=not breakpoints, at=at, thoughts=chain.thoughts,
    )  # fmt: skip
    chain.has_thinking = chain.has_thinking or grown.has_thinking
    if grown.prompted:
        chain.prompts += bool(chain.requests)
        chain.waiting.clear()
        if any(sign.name == _IMAGE for sign in turn.signs):  # the client may replace it at the next prompt
            chain.waiting[_IMAGE] = Signal(_IMAGE, is_delayed=True, entries=base)
    elif turn.signs:
        _note_waiting(chain, turn.signs, size if unchanged == size else None)
    if is_new and not chain.requests:
        return history, state
    state.level = _level(chain, history, state)  # it removes positions that no longer hold
    state.expected_tokens = _expected_tokens(chain, history, state)
    return history, state


def _signals(chain: ChainHistory, history: ModelHistory, turn: Turn, grown: Growth) -> Iterator[Signal]:
    """Yield the turn's signals; at a prompt of the user also those of text that waited for it."""
    is_second_prompt = grown.prompted and not chain.prompts
    begun = {
        _NO_FIRST_THINKING: is_second_prompt and not (chain.has_thinking or grown.has_thinking),
        _TEAMMATE: _TEAMMATE in chain.shown_signals and (is_second_prompt or chain.requests in _TEAMMATE_REQUESTS),
    }
    version, model = chain.client.rpartition(" ")[2], normal_name(turn.model)
    for name in (name for name, applies in begun.items() if applies):
        if find_fall(name, at_prompt=grown.prompted, is_first=True, version=version, model=model) is not None:
            yield Signal(name, version, is_first=True)
    if grown.prompted:
        for signal in chain.waiting.values():
            place = history.last_within(signal.entries)
            yield replace(
                signal, read_if_moved=history.read_within(signal.entries, turn.at),
                tokens_before=None if place is None else place.tokens,
            )  # fmt: skip
    for sign in turn.signs:
        if not (grown.prompted and sign.name in _EFFECT_AT_PROMPT):
            name = "thinking-off" if sign.name == "thinking" and sign.after == "off" else sign.name
            yield Signal(name, sign.version, is_first=sign.name not in chain.shown_signals)
        chain.shown_signals.add(sign.name)


def _note_waiting(chain: ChainHistory, signs: tuple[Sign, ...], entries: int | None) -> None:
    """Remember text that followed that many entries; None: the history changed, so that its place is unknown."""
    for sign in signs:
        waiting, is_hook = chain.waiting.get(sign.name), sign.name in HOOKS
        if sign.name not in _EFFECT_AT_PROMPT or (waiting is None and entries is None):
            continue
        if is_hook and sign.names and not any(name.startswith(_AFTER_RESULTS) for name in sign.names):
            continue
        first = waiting or Signal(sign.name, entries=entries or 0, text=sign.after, line=sign.line)
        chain.waiting[sign.name] = replace(
            first, version=sign.version, is_delayed=True, names=tuple(dict.fromkeys((*first.names, *sign.names))),
            text=(first.text or sign.after) if is_hook else "",
        )  # fmt: skip


def _level(chain: ChainHistory, history: ModelHistory, state: TurnState) -> ReadLevel:
    """Return the level of the first rule that applies; remove the positions that no longer hold."""
    last, pause = history.last, state.pause
    if state.model_changed and last is None:
        return ReadLevel(0, "model", is_sure=False)
    if last is not None and pause is not None and last is not history.expire(pause, chain.seen_lifetime):
        # what lives longer and is within reach remains, or what other sessions keep
        tokens = 0 if chain.head_expires else history.shared_head or 0
        rest = history.cut(state.unchanged) if history.breakpoints else None
        # a breakpoint at the end has to look back to it; tools and system have their own
        is_in_reach = rest and (not rest.entries or history.positions_after(rest, state.at) <= POSITIONS)
        return ReadLevel(max(tokens, rest.tokens) if rest and is_in_reach else tokens, "expiry")
    if state.head_changed:
        history.positions.clear()
        return ReadLevel(history.shared_head or 0, "session-changed")
    if state.unchanged < state.entries:
        history.cut(state.unchanged)
        tokens = history.read_within(state.unchanged, state.at)
        compacted = any(change.cause == Code.COMPACTION for change in state.changes)
        return ReadLevel(tokens, "compaction" if compacted else "shrunk")
    if last is None:
        return ReadLevel(None, "unknown")
    grown, answer = state.grown, 0
    is_returned = not (grown.thinking_as_text or (grown.prompted and grown.has_thinking))
    if chain.reads_output or (chain.reads_returned_answer and is_returned):
        answer = history.rate.answer_tokens(grown, state.output)
    return ReadLevel(last.tokens + answer, "goes-on", not history.estimated)


def _expected_tokens(chain: ChainHistory, history: ModelHistory, state: TurnState) -> int:
    """Estimate how long a prompt is, from the latest usage of its model and the content added since."""
    grown = history.rate.tokens(state.grown, state.output)
    if history.first is None:
        return max(chain.total or 0, grown)
    if state.unchanged == state.entries:
        return (history.total or 0) + grown
    return (history.head if history.last is None else history.last.tokens) + grown


def _continue_without_usage(chain: ChainHistory, history: ModelHistory, state: TurnState) -> None:
    """Estimate where the turn ended."""
    level, expected = state.level, state.expected_tokens
    chain.cached, chain.output = None, None
    history.cut(state.unchanged)
    if level.tokens is None:
        return
    chain.total = history.total = expected
    history.estimated = True
    end = expected - min(chain.uncached, max(0, expected - level.tokens))
    history.add(Position(len(history.entries), end, chain.lifetime))


def _learn(chain: ChainHistory, history: ModelHistory, state: TurnState, usage: Usage) -> None:
    """Learn the head, the rate, and how often reads fell, from a usage."""
    first_pass = usage.first_pass
    read, prompt_tokens = first_pass.read_tokens or 0, total(first_pass)
    if history.first is None:
        history.first = position(first_pass)
        history.opening = history.rate.tokens(state.grown, None)
        head = max(0, (history.first or 0) - history.opening)  # more than tools and system is history read again
        history.shared_head = read if read <= head + history.opening // 2 else head
        # a recording without any history begins in the middle: its first read was more than the head
        history.is_new = bool(history.entries) and not state.grown.answer_bytes
        history.min_read = read if history.is_new and history.shared_head == read else None
        return
    chain.stays.append(read == (history.latest_read or 0))
    if state.cached is None or state.model_changed:
        return
    fell, why = read < state.cached - DROP, state.level.why
    if fell:
        _learn_head(history, why, read)
    if why == "compaction":
        history.min_read = read or None  # all of the history is new, so the head alone is read
    elif fell and history.min_read is not None and why != "expiry":
        history.min_read = min(history.min_read, read)
    if state.grown.prompted and not fell and why == "goes-on":
        chain.had_hidden_request = chain.had_hidden_request or read > state.cached
    is_extended = state.unchanged == state.entries and not state.head_changed
    if is_extended and prompt_tokens is not None and history.total is not None:
        history.rate.learn(state.grown, state.output, prompt_tokens - history.total)


def _learn_head(history: ModelHistory, why: str, read: int) -> None:
    """Learn the read after a fall: `shared_head` from a certain cause, `known_head` if the history changed."""
    shared = history.shared_head or 0
    if why == "session-changed" or (why == "expiry" and not (history.positions and history.breakpoints)):
        history.shared_head = read
        return
    if why == "compaction" and read < shared:
        history.shared_head = read
    beyond = history.first is None or read > history.first
    if why != "expiry" and read > shared and not beyond and all(spot.tokens != read for spot in history.positions[:4]):
        # a fall below it whose cause is uncertain changed the head itself
        history.known_head = read if why == "compaction" else max(read, history.known_head or 0)


def with_lifetime(turn: Turn, seconds: float, state: TurnState, recorded: float | None, *, continues: bool) -> Turn:
    """Return a transcript's turn with the usage that it would have if writes lived `seconds` (300, or 3,600).

    All its writes get that lifetime. If the pause before the turn was longer than the `recorded` lifetime (in seconds;
    None: unknown) but not than `seconds`, what expired counts as read instead of written: the tokens cached before the
    turn (`state.cached`) and not read, at most the turn's writes. Nothing is moved if the pause, `recorded` or
    `state.cached` is unknown, or if the log shows another cause of a loss (`continues` is False). Returns `turn` itself
    if nothing changes or no writes are recorded. A shorter lifetime adds no losses here.
    """
    usage, pause, cached = turn.usage, state.pause, state.cached
    if usage is None or usage.write_tokens is None:
        return turn
    read, write = usage.read_tokens, usage.write_tokens
    outlived = pause is not None and recorded is not None and recorded < pause <= seconds and continues
    more = min(cached - read, write) if outlived and read is not None and cached is not None and read < cached else 0
    if not more and all_live(usage, seconds):
        return turn
    write -= more
    hour = write if seconds >= ONE_HOUR else 0
    changed = replace(
        usage, read_tokens=None if read is None else read + more, write_tokens=write, write_1h_tokens=hour,
        write_5m_tokens=write - hour,
    )  # fmt: skip
    return replace(turn, usage=changed)


def all_live(usage: Usage, seconds: float) -> bool:
    """Return whether all writes of a usage live that long; writes that it does not split have the default."""
    hour = usage.write_1h_tokens or 0
    return hour >= (usage.write_tokens or 0) if seconds >= ONE_HOUR else not hour
