"""Predict the cache reads of transcripts: conversations recorded without system prompt and tools.

The usage of earlier turns says how many tokens of the prompt were cached after which entry of the timeline; bytes say
how much was added since. If the log shows a reason for a fall (another model, an expiry, a compaction, changed
history), the last position before it is predicted; otherwise everything that was cached, unless a signal was seen after
which most reads fell (`falls`). A prediction never looks at the turn's own usage.

Each turn takes three steps. For example, after a turn that left 12,300 tokens in the cache:
1. `observe`: the log has a pause of 20 s and another tool call. So 12,300 tokens are cached (`TurnState.prefix`) of a
   prompt of about 12,700 (`expected_tokens`).
2. `predict`: no signal of a fall was seen, so the turn reads 12,300 tokens and writes about 400.
3. `learn`: usage has 12,300 read and 380 written. So 12,680 tokens are cached up to the end of the timeline.

Sources: measured over 38,782 billed transitions: what a drop falls to, the newest entry that cannot be read at once;
over 559 ends of turns: the hidden request, after which the answer is cached too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from lore.cache.base import UNKNOWN, Prediction
from lore.cache.counts import DROP, ONE_HOUR, SOON, TOLERANCE_SHARE, cached, lifetime, position, reason_to_doubt, total
from lore.cache.falls import fall_table, find_fall, version_of
from lore.cache.log_branches import LogBranches, without_settings
from lore.cache.lookback import POSITIONS, lookback_rule
from lore.cache.rules import DatedRules, idle_lifetime, least_lifetime
from lore.cache.served import WITH_BREAKPOINTS, Served, normal_name
from lore.cache.transcript_history import CachedPlace, Growth, ModelHistory, growth
from lore.cache.transcript_signals import IMAGE, REASONING, ChainSignals, Signal
from lore.model.codes import Code
from lore.model.events import THOUGHTS, Usage
from lore.model.turn import Turn

# caches whose transcripts are predicted
CACHES_OF_TRANSCRIPTS = WITH_BREAKPOINTS | {
    "openai", "openai-breakpoint", "gemini", "deepseek", "kimi", "xai", "qwen-implicit"
}  # fmt: skip
_ANTHROPIC = Served("anthropic", "")
_RATE_ERROR = 0.05  # the share by which an estimate of tokens from bytes may be wrong
_REPEATS = 3  # of the latest 6 reads that repeat the one before: writes are often lost there
_HIDDEN_PAUSE, _HIDDEN_TOKENS = 20.0, 10_000  # a hidden request follows after this pause, if the last one added less


class CachedPrefix(Struct, frozen=True):
    """How many tokens of the prompt are cached, as far as the log shows."""

    tokens: int | None  # None: unknown
    reason: str  # as predictions report it: `expiry`, `compaction`; `goes-on`: the history was extended
    is_sure: bool = True  # the log itself decides it


class TurnState(Struct):
    """Everything that is known of a turn of a transcript before its usage is read."""

    cached: int | None  # tokens that the previous turn left in the cache: read and written
    entries: int  # of the timeline of the model's previous turn
    unchanged: int  # of those entries
    grown: Growth  # what follows the unchanged entries
    pause: float | None  # seconds since the model's previous turn; None: the clock says nothing
    lifetime: float | None  # seconds that the entries of that turn live
    least_lifetime: float | None  # seconds that they surely live, in a cache without breakpoints
    model_changed: bool  # the chain's previous turn asked another model
    head_changed: bool  # tools or system prompt differ, as far as the log shows
    new_positions: int  # as a lookback counts them, after the last cached place
    earlier_place: int | None  # tokens at the cached place before the last one
    signals: tuple[Signal, ...]  # that may make the read fall
    output: int | None  # tokens of the previous answer
    shared_head: int | None = None  # read if the head changed; None: the first turn was not a new conversation
    min_read: int | None = None  # the least that is read if only the history changed
    first_place: int | None = None  # tokens at the first cached place after the head
    first_expired: int | None = None  # tokens at the first cached place that has expired
    implicit: bool = False  # the cache has no breakpoints, and requests reach several machines
    thoughts: int | None = None  # since the user's previous prompt, by usage that counts them apart
    prefix: CachedPrefix = CachedPrefix(None, "first")  # what can be read
    expected_tokens: int = 0  # estimated length of the prompt

    @property
    def is_extended(self) -> bool:
        """The prompt has all entries of the model's previous turn."""
        return self.unchanged == self.entries

    @property
    def has_paused(self) -> bool:
        """The pause was long enough for a request that the client sends by itself."""
        return self.pause is not None and self.pause >= _HIDDEN_PAUSE

    def dropped_reasoning(self, read: int | None) -> Signal | None:
        """Return the place of the reasoning that may be left out of this prompt; None without any.

        If reasoning of earlier prompts seemed to stay, there are two places: then it is the later one if the read
        reaches it. 3 of 3 such reads in Codex ended there.
        """
        places = [signal for signal in self.signals if signal.name == REASONING]
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


class TranscriptChain:
    """Predicts the turns of one chain of a transcript: `predict` or `observe` each turn, then `learn` it.

    Every model that the chain asks has a cache, and so a history, of its own.
    """

    state: TurnState  # of the turn that was observed last
    _turn: Turn  # that turn
    _key: tuple[str, str | None, str, float | None]  # whose dated rules hold for it
    _history: ModelHistory  # of its model
    _branch: Turn | None  # the earlier turn that it continues, if that is not the previous one

    def __init__(self, rules: DatedRules, where: Served = _ANTHROPIC, *, breakpoints: bool = True) -> None:
        self._rules, self._where, self._breakpoints = rules, where, breakpoints
        self._histories: dict[str | None, ModelHistory] = {}  # by model
        self._signals, self._branches = ChainSignals(), LogBranches()
        self._model: str | None = None  # of the previous turn
        self._requests = 0
        # by the latest usage
        self._cached: int | None = None  # tokens that the turn left in the cache
        self._total: int | None = None  # tokens of its prompt
        self._uncached = 0
        self._added = 0  # tokens that had not been cached: input, writes, output
        self._output: int | None = None
        self._lifetime: float | None = None  # seconds that the latest entries live
        self._thoughts: int | None = None  # tokens since the latest prompt of the user, if usage counts them apart
        self._client = ""  # name and version of the program that noted the usage
        # by all usage so far
        self._head_expires = False  # with this client tools and system prompt expire with the conversation
        self._bills_writes = breakpoints  # usage reports writes
        # whether the client sends requests that are not recorded, at the end of the user's turns; None: not seen yet
        self._sends_hidden: bool | None = None
        self._may_send_hidden = False  # clients of this version mostly do
        self._repeats: deque[bool] = deque(maxlen=6)  # whether the latest reads repeat the read before them
        self._stepwise: deque[bool] = deque(maxlen=6)  # whether they are whole steps of the prompt, not that read

    def observe(self, turn: Turn) -> None:
        """Derive the state of the next turn without its usage; forget places that it cannot read."""
        basis, at, model = turn.basis, turn.at, turn.model
        assert basis is not None, "only transcripts are predicted here"
        is_new = model not in self._histories
        if is_new:
            self._histories[model] = ModelHistory(breakpoints=self._breakpoints)
        history, where = self._histories[model], self._where
        self._branch = self._branches.predict(turn)
        turn = turn if self._branch is None else without_settings(turn)
        self._turn, self._history, self._key = turn, history, (where.provider, model, where.platform, at)
        if not self._breakpoints:
            self._lifetime = idle_lifetime(self._rules, where, turn)
        size, unchanged = len(history.entries), history.entries.common(basis.entries)
        head_changed = not is_new and basis.head != history.recorded_head
        model_changed = bool(self._requests) and self._model != model
        history.entries, history.recorded_head = basis.entries, basis.head
        last = history.last_within(unchanged)
        is_extended = unchanged == size
        start = size if is_extended else 0 if last is None else last.entries
        grown = growth(basis.entries, start, at)
        new_positions = 0
        if last is not None and self._breakpoints:
            new_positions = grown.positions if last.entries == start else history.positions_after(last, at)
        row = self._rules.find("drops_thinking", *self._key)  # without one, caches that have no breakpoints do
        drops_thinking = grown.has_thinking and (not self._breakpoints if row is None else bool(row.value))
        signals = self._signals.observe(
            turn, history, grown, start, version=self._client.rpartition(" ")[2], is_extended=is_extended,
            drops_thinking=drops_thinking,
        )  # fmt: skip
        pause = None if history.used is None or at is None or at < history.used else at - history.used
        first = next((place for place in history.places if place.entries), None)
        self.state = TurnState(
            cached=self._cached if self._branch is None else cached(self._branch.usage),
            entries=size, unchanged=unchanged, grown=grown, pause=pause,
            lifetime=self._lifetime if history.last is None else history.last.lifetime,
            least_lifetime=None if self._breakpoints else least_lifetime(self._rules, where, turn),
            model_changed=model_changed, head_changed=head_changed, new_positions=new_positions, signals=signals,
            earlier_place=history.places[-2].tokens if len(history.places) > 1 else None,
            output=self._output if is_extended and not model_changed else None,
            shared_head=history.shared_head if history.is_new else None, min_read=history.min_read,
            first_place=None if first is None or first.entries > unchanged else first.tokens,
            first_expired=history.first_expired(unchanged, pause), implicit=not self._breakpoints,
            thoughts=self._thoughts,
        )  # fmt: skip
        if self._requests:
            self.state.prefix = self._find_cached_prefix()
            self.state.expected_tokens = self._expected_tokens()

    def _flag(self, rule: str) -> bool:
        """Return whether a dated rule about caches without breakpoints holds for the latest turn."""
        return not self._breakpoints and self._rules.flag(rule, *self._key)

    def _number(self, rule: str) -> float | None:
        """Return the number of a dated rule about caches without breakpoints; None without one."""
        number = None if self._breakpoints else self._rules.number(rule, *self._key)
        return None if number is None else float(number)

    def _find_cached_prefix(self) -> CachedPrefix:
        """Return the cached prefix, by the first reason that applies, after forgetting places that cannot be read."""
        state, history = self.state, self._history
        last = history.last
        if self._branch is not None:
            return CachedPrefix(state.cached, "goes-on")
        if state.model_changed and last is None:
            return CachedPrefix(0, "model", is_sure=False)
        if history.expire(state.pause, self._number("lifetime_seen")) is not last:
            return CachedPrefix(self._read_after_expiry(), "expiry")
        if state.head_changed:
            history.places.clear()
            return CachedPrefix(history.shared_head or 0, "session-changed")
        if not state.is_extended:
            history.cut(state.unchanged)
            is_compacted = any(change.cause == Code.COMPACTION for change in self._turn.changes)
            tokens = history.read_within(state.unchanged, self._turn.at)
            return CachedPrefix(tokens, "compaction" if is_compacted else "shrunk")
        if last is None:
            return CachedPrefix(None, "unknown")
        grown = state.grown
        is_returned = not (grown.thinking_as_text or (grown.prompted and grown.has_thinking))
        reads_answer = self._flag("reads_output") or (is_returned and self._flag("reads_returned_answer"))
        answer = history.rate.answer_tokens(grown, state.output) if reads_answer else 0
        return CachedPrefix(last.tokens + answer, "goes-on", not history.is_estimated)

    def _read_after_expiry(self) -> int:
        """Return the tokens read after an expiry: entries that live longer and are within reach, or other sessions'."""
        history = self._history
        shared = 0 if self._head_expires else history.shared_head or 0
        rest = history.cut(self.state.unchanged) if self._breakpoints else None
        if rest is None:
            return shared
        # a breakpoint at the end has to look back to it; tools and system have their own
        is_in_reach = not rest.entries or history.positions_after(rest, self._turn.at) <= POSITIONS
        return max(shared, rest.tokens) if is_in_reach else shared

    def _expected_tokens(self) -> int:
        """Estimate how long the prompt is, from the latest usage of its model and the content added since."""
        state, history = self.state, self._history
        grown = history.rate.tokens(state.grown, state.output)
        if self._branch is not None:
            return (state.cached or 0) + grown
        if history.first is None:
            return max(self._total or 0, grown)
        if state.is_extended:
            return (history.total or 0) + grown
        return (history.head if history.last is None else history.last.tokens) + grown

    # the prediction

    def predict(self, turn: Turn) -> Prediction:
        """Observe the next turn, and return what the cache would do with it."""
        self.observe(turn)
        state, expected = self.state, self.state.expected_tokens
        prefix = state.prefix
        if prefix.tokens is None:
            return replace(UNKNOWN, reason=prefix.reason)
        tokens, reason = self._expected_read(prefix.tokens)
        read = min(tokens, expected)
        read = read if reason == "no-sign" else self._whole_steps(read)
        # if writes are not charged, everything that is not read is uncached, although it may be cached from then on
        uncached = min(self._uncached, expected - read) if self._bills_writes else expected - read
        write = expected - read - uncached
        hour = write if self._lifetime == ONE_HOUR else 0 if self._lifetime is not None else None
        has_signal = any((signal.name, signal.is_delayed) != (IMAGE, True) for signal in state.signals)
        is_guessed = prefix.reason == "goes-on" and (has_signal or reason == "no-sign")
        is_soon = state.pause is not None and state.pause <= SOON  # then an older entry may be served
        is_sure = prefix.is_sure and not is_soon and not is_guessed
        return Prediction(read, write, uncached, "rule" if is_sure else "ceiling", reason, hour)

    def _whole_steps(self, tokens: int) -> int:
        """Return the most tokens, at most `tokens`, that are read in whole steps or blocks.

        Clients differ in the place of the first step, which the latest read shows, except in caches with random reads:
        with GPT-5.5 in Codex all 4,196 reads were 384 tokens and whole steps of 512, in pi all 760 reads whole steps.
        """
        step, block = int(self._number("read_step") or 0), int(self._number("block_tokens") or 1)
        is_random = self._where.provider in fall_table().random
        first = (self._history.latest_read or 0) % step if step and not is_random else 0
        return max(0, (tokens - first) // (step or block) * (step or block) + first)

    def _expected_read(self, cached: int) -> tuple[int, str]:
        """Return the tokens that are read, and why: `cached`, unless a signal or a hidden request changes it.

        The client may have sent a request that is not recorded at the end of the user's turn. Of 513 prompts it had
        done so in 208 if the last request had added up to 10,000 tokens, otherwise in 4 of 46; a session shows it at
        its first prompt after a pause, before that most versions do or do not (rule `hidden_request`).
        """
        state = self.state
        if state.prefix.reason != "goes-on":
            return cached, state.prefix.reason
        lowest = min(self._falls(), default=(cached, ""))
        if lowest[0] < cached:
            return lowest
        sends_hidden = self._may_send_hidden if self._sends_hidden is None else self._sends_hidden
        may_be_hidden = state.grown.prompted and sends_hidden and not state.model_changed
        if may_be_hidden and state.has_paused and self._added <= _HIDDEN_TOKENS:
            return cached + self._history.rate.answer_tokens(state.grown, state.output), "hidden-request"
        return cached, "goes-on"

    def _falls(self) -> Iterator[tuple[int, str]]:
        """Yield the reads, and their reasons, after signals with which most reads fell, and past the lookback."""
        state, history, provider = self.state, self._history, self._where.provider
        model = normal_name(self._turn.model)
        for signal in state.signals:
            fall = find_fall(
                signal.name, at_prompt=state.grown.prompted, is_first=signal.is_first, version=signal.version,
                model=model, provider=provider,
            )  # fmt: skip
            if fall is not None and fall.unread == "head":
                yield history.shared_head or 0, signal.name
            elif fall is not None:
                remaining = None if fall.unread == "history" else signal.read_if_moved
                yield history.head if remaining is None else remaining, signal.name
        is_far = state.new_positions > POSITIONS and state.is_extended
        if is_far and not lookback_rule(self._turn.at).runs:  # each block counts
            yield history.head, "lookback"
        never_read = state.implicit and history.latest_read is None
        if state.implicit and provider in fall_table().random:
            latest = history.head if history.latest_read is None else history.latest_read
            is_stepwise = self._number("read_step") and 2 * sum(self._stepwise) >= len(self._stepwise)
            yield max(latest, self._whole_steps(state.prefix.tokens or 0) if is_stepwise else 0), "no-sign"
        elif sum(self._repeats) >= _REPEATS and (never_read or self._flag("reads_output")):  # or writes are lost
            yield history.latest_read or 0, "no-sign"

    # the usage

    def learn(self, turn: Turn) -> str:
        """Learn from the usage of the turn that was observed last; return why it is not believed, empty if it is."""
        state, history, usage = self.state, self._history, turn.usage
        self._branches.find(turn)
        self._branches.add(turn)
        doubt = "" if usage is None else reason_to_doubt(usage)
        at = turn.answered_at if turn.answered_at is not None else turn.at
        history.used = history.used if at is None else at
        self._requests, self._model = self._requests + 1, turn.model
        thoughts = [part.output_tokens or 0 for part in (usage.iterations if usage else ()) if part.kind == THOUGHTS]
        if thoughts or self._thoughts is not None:
            self._thoughts = sum(thoughts) + (0 if state.grown.prompted else self._thoughts or 0)
        if usage is not None and usage.client != self._client:
            self._client = usage.client
            name, _, version = usage.client.rpartition(" ")
            number = ".".join(map(str, version_of(version)))
            self._head_expires = self._rules.flag("head_expires", name, number)
            self._may_send_hidden = self._rules.flag("hidden_request", name, number)
        believed = None if doubt else usage
        self._learn_reasoning(believed)
        if believed is None or believed.read_tokens is None:
            self._estimate_end()
            return doubt
        self._learn_read(believed)
        if self._breakpoints:
            self._lifetime = lifetime(turn, self._lifetime)
        history.learn_places(believed, state.unchanged, self._lifetime)
        self._cached, self._total, self._output = position(believed), total(believed), believed.output_tokens
        self._bills_writes = self._bills_writes or bool(believed.write_tokens)
        uncached, written = believed.uncached_tokens, believed.write_tokens
        self._added = (uncached or 0) + (written or 0) + (believed.output_tokens or 0)
        self._uncached = self._uncached if uncached is None else uncached
        return ""

    def _learn_reasoning(self, usage: Usage | None) -> None:
        """Expect the omission of reasoning again if usage shows that it stayed; else forget all that follows it."""
        dropped = self.state.dropped_reasoning(None if usage is None else usage.first_pass.read_tokens)
        if dropped is not None and usage is not None and self._has_kept(dropped, usage):
            self._signals.keep_reasoning(next(signal for signal in self.state.signals if signal.name == REASONING))
        elif dropped is not None:
            self._history.cut(dropped.entries)  # the prompt after it is shorter from now on

    def _has_kept(self, dropped: Signal, usage: Usage) -> bool:
        """Return whether usage shows that reasoning stayed in the prompt: it grew by all additions, or more was read.

        A message that was sent into a running task begins no new task, and the provider keeps the reasoning. A prompt
        that shrank does not hold it, nor one whose read fell to what precedes it, whatever the estimate of what was
        added.
        """
        state, history = self.state, self._history
        read, prompt_tokens, before = usage.first_pass.read_tokens, total(usage.first_pass), dropped.read_if_moved
        previous_total = history.total if state.is_extended else None
        if prompt_tokens is not None and previous_total is not None and prompt_tokens < previous_total:
            return False
        if read is not None and before is not None and read > before - DROP:
            if read > before + DROP:
                return True
            if (history.latest_read or 0) > read + DROP:
                return False
        if prompt_tokens is None or previous_total is None:
            return False
        added = history.rate.tokens(state.grown, state.output)
        inputs = added - history.rate.answer_tokens(state.grown, state.output)
        excess = prompt_tokens - previous_total - added
        return inputs * _RATE_ERROR < excess < added  # it cannot be judged if something unrecorded was added

    def _learn_read(self, usage: Usage) -> None:
        """Learn the head, the rate, and how often reads fell, from a usage."""
        state, history, first_pass = self.state, self._history, usage.first_pass
        read, prompt_tokens = first_pass.read_tokens or 0, total(first_pass)
        if history.first is None:
            history.learn_first(first_pass, state.grown)
            return
        latest, steps = history.latest_read or 0, self._whole_steps(state.prefix.tokens or 0)
        self._repeats.append(read == latest)
        if read and self._number("read_step") and steps > latest + DROP:
            self._stepwise.append(abs(steps - read) <= TOLERANCE_SHARE * read < abs(latest - read))
        if state.cached is None or state.model_changed:
            return
        fell, reason = read < state.cached - DROP, state.prefix.reason
        history.learn_fall(reason, read, fell=fell)
        if state.grown.prompted and not fell and reason == "goes-on":
            if read > state.cached:
                self._sends_hidden = True
            elif self._sends_hidden is None and state.has_paused:
                self._sends_hidden = False
        is_extended = state.is_extended and not state.head_changed and self._branch is None
        if is_extended and prompt_tokens is not None and history.total is not None:
            history.rate.learn(state.grown, state.output, prompt_tokens - history.total)

    def _estimate_end(self) -> None:
        """Estimate where the turn ended, as its usage does not say it."""
        state, history = self.state, self._history
        self._cached, self._output = None, None
        history.cut(state.unchanged)
        if state.prefix.tokens is None:
            return
        expected = self._total = history.total = state.expected_tokens
        history.is_estimated = True
        end = expected - min(self._uncached, max(0, expected - state.prefix.tokens))
        history.add(CachedPlace(len(history.entries), end, self._lifetime))
