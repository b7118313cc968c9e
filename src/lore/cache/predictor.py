"""Predict the turns of recordings: each by the cache that served it, or by one that the user names.

If it is unknown which cache served a turn, nothing is predicted. A transcript is predicted from its usage alone
(`transcripts`). Models of caches are shared by all recordings of a run: what one wrote another may read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

from msgspec import Struct
from msgspec.structs import replace

from lore.cache.base import UNKNOWN, Breakpoint, CacheModel, Prediction, Request, RuleLookup
from lore.cache.breakpoints import Breakpoints
from lore.cache.counts import FIVE_MINUTES, ONE_HOUR, lifetime, reason_to_doubt
from lore.cache.registry import CACHES, Option, cache_named, make, parse_cache, view_of
from lore.cache.rules import DatedRules
from lore.cache.served import WITH_BREAKPOINTS, Served, cache_of, is_transcript, normal_name, served_by
from lore.cache.transcripts import CACHES_OF_TRANSCRIPTS, Predicted, TranscriptChain, TurnState
from lore.cache.views import Count, Views, careful_breakpoints
from lore.model.events import Usage
from lore.model.providers import ENGINES
from lore.model.turn import Section, Turn

_WAITING = 512  # turns of a recording that wait, at most, until their prediction is asked for


class WhatIf(NamedTuple):
    """A change that `--what-if` asks for. The defaults change nothing."""

    lifetime: float | None = None  # seconds of every breakpoint
    breakpoints: bool = False  # breakpoints where a careful client sets them
    model: str | None = None  # whose rules and prices hold
    options: tuple[tuple[str, Option], ...] = ()  # of the cache that is predicted with, such as slots


NO_CHANGE = WhatIf()


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


class _RequestPredictor(Struct, frozen=True):
    """Predicts one recording's requests with one cache model."""

    model: CacheModel  # predicts reads and writes
    provider: str  # whose rules the model asks for
    views: Views  # how the cache sees the requests
    recording: int  # number of the recording
    change: WhatIf  # the change that is tried on the recording
    change_counts: ChangeCounts  # turns that it changes

    def predict(self, turn: Turn) -> Prediction:
        request = self.views.of(turn)
        recorded, breakpoints = request.breakpoints, self._apply_change(request, turn)
        request = replace(request, chain=f"{self.recording}:{turn.chain}", breakpoints=breakpoints)
        return self.model.predict(request if breakpoints == recorded else replace(request, recorded=recorded))

    def _apply_change(self, request: Request, turn: Turn) -> tuple[Breakpoint, ...]:
        """Return the request's breakpoints with the what-if applied, and count the turn if it can apply."""
        change, breakpoints, usage = self.change, request.breakpoints, turn.usage
        if change.breakpoints:
            breakpoints = careful_breakpoints(request)
        seconds = change.lifetime
        if seconds is not None and self.provider == "anthropic":  # the only one that offers a choice
            is_recorded = usage is not None and bool(usage.write_tokens) and _all_live(usage, seconds)
            if not (is_recorded and seconds >= ONE_HOUR):  # usage is better evidence of a lifetime than the body
                breakpoints = tuple([
                    mark if (mark.lifetime or FIVE_MINUTES) == seconds else replace(mark, lifetime=seconds)
                    for mark in breakpoints
                ])  # fmt: skip
        elif not (change.breakpoints and isinstance(self.model, Breakpoints)):
            return breakpoints
        if breakpoints:
            self.change_counts.count(changed=breakpoints != request.breakpoints)
        return breakpoints

    def learn(self, turn: Turn) -> str:
        """Update the model from the usage; return why the usage is not believed, "" if it is."""
        if turn.usage is not None and turn.usage.uncached_tokens is not None:
            self.views.count = None  # from here on usage says what a token is
        doubt = "" if turn.usage is None else reason_to_doubt(turn.usage)
        return self.model.learn(None if doubt else turn.usage) or doubt


class _LifetimeChain(TranscriptChain):
    """A chain of a transcript with breakpoints, in the what-if that its entries live `seconds`."""

    def __init__(self, rules: DatedRules, where: Served, seconds: float, change_counts: ChangeCounts) -> None:
        super().__init__(rules, where)
        self._seconds, self._change_counts = seconds, change_counts
        self._recorded: float | None = None  # the recorded lifetime, by which entries expired
        self._continues = False  # no fall was predicted

    def predict(self, turn: Turn) -> Prediction:
        prediction = super().predict(turn)
        self._continues = prediction.reason in ("goes-on", "hidden-request")
        return prediction

    def learn(self, turn: Turn) -> str:
        recorded, self._recorded = self._recorded, lifetime(turn, self._recorded)
        changed = with_lifetime(turn, self._seconds, self.state, recorded, continues=self._continues)
        if turn.usage is not None and turn.usage.write_tokens:
            self._change_counts.count(changed=changed is not turn)
        return super().learn(changed)


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
    if not more and _all_live(usage, seconds):
        return turn
    write -= more
    hour = write if seconds >= ONE_HOUR else 0
    changed = replace(
        usage, read_tokens=None if read is None else read + more, write_tokens=write, write_1h_tokens=hour,
        write_5m_tokens=write - hour,
    )  # fmt: skip
    return replace(turn, usage=changed)


def _all_live(usage: Usage, seconds: float) -> bool:
    """Return whether all writes of a usage live that long; writes that it does not split have the default."""
    hour = usage.write_1h_tokens or 0
    return hour >= (usage.write_tokens or 0) if seconds >= ONE_HOUR else not hour


class Predictor:
    """Predicts the turns of recordings, one after the other.

    Args:
        rules: dated rules of caches.
        cache: the cache to predict with, as `NAME` or `NAME:OPTION=VALUE`; None: the one that served each turn.
        change: the what-if to apply; `change_counts` counts the turns that it changes.
        count: counts the tokens of a text until a recording's first usage shows how many bytes a token has.

    Raises LoreError for an unknown cache or option.
    """

    def __init__(
        self, rules: DatedRules, cache: str | None = None, change: WhatIf = NO_CHANGE, count: Count | None = None
    ) -> None:
        self.rules = rules
        self.model = change.model
        self.change_counts = ChangeCounts()
        self._count = count
        self._cache, options = (None, ()) if cache is None else parse_cache(cache)
        self._change = change = change._replace(options=(*options, *change.options))
        self._models: dict[tuple[str, str, str], CacheModel] = {}
        self._transcripts: dict[tuple[str, str, str], TranscriptChain] = {}  # of the recording; by cache and chain
        self._requests: dict[tuple[str, str, str], _RequestPredictor] = {}  # of the recording; by cache
        self._recording = 0
        self._by_response: dict[str, Predicted] = {}
        if self._cache is not None:  # an unknown cache or option is an error before anything is read
            make(self._cache, _rule_lookup(rules, self._cache, ""), dict(change.options))

    def begin_recording(self) -> None:
        """Forget the chains of the previous recording; cache entries and predictions by response id remain."""
        self._recording += 1
        self._transcripts.clear()
        self._requests.clear()

    def predict(self, turn: Turn) -> Predicted:
        """Return a turn's prediction (`UNKNOWN` if it failed or its cache is unknown), and learn from its usage.

        A recorded request with the response id of an earlier one, in any recording, is a copy: it gets that prediction.
        """
        response_id = "" if is_transcript(turn) else turn.response_id
        if response_id and response_id in self._by_response:
            return self._by_response[response_id]
        name, predictor = self._predictor_for(turn)
        predicted = Predicted(name, UNKNOWN)
        if predictor is not None:
            if self.model is not None:
                self.change_counts.count(changed=normal_name(turn.model) != normal_name(self.model))
            prediction = predictor.predict(turn).fitted()
            state = predictor.state if isinstance(predictor, TranscriptChain) else None
            predicted = Predicted(name, prediction, predictor.learn(turn), state)
        if response_id:
            self._by_response[response_id] = predicted
        return predicted

    def learn(self, turn: Turn) -> None:
        """Learn from the usage of a transcript's turn whose prediction is not needed."""
        _, predictor = self._predictor_for(turn)
        if isinstance(predictor, TranscriptChain):
            predictor.observe(turn)
            predictor.learn(turn)

    def _predictor_for(self, turn: Turn) -> tuple[str, _RequestPredictor | TranscriptChain | None]:
        """Return the cache that served a turn and the recording's predictor for it; None for a failed turn."""
        where = served_by(turn)
        name = self._cache or cache_of(turn, where)
        if name not in CACHES or turn.failed:
            return name, None
        if name in CACHES_OF_TRANSCRIPTS and is_transcript(turn):
            place, seconds = (where.provider, where.platform, turn.chain), self._change.lifetime
            chain = self._transcripts.get(place)
            if chain is None and seconds is not None and name in WITH_BREAKPOINTS:
                chain = _LifetimeChain(self.rules, where, seconds, self.change_counts)
            elif chain is None:
                chain = TranscriptChain(self.rules, where, breakpoints=name in WITH_BREAKPOINTS)
            self._transcripts[place] = chain
            return name, chain
        provider, platform = name if name in ENGINES else where.provider, where.platform
        key = name, provider, platform
        predictor = self._requests.get(key)
        if predictor is None:
            if key not in self._models:
                self._models[key] = make(name, _rule_lookup(self.rules, provider, platform), dict(self._change.options))
            view, place = view_of(name), (provider, self.model or turn.model, platform, turn.at)
            order, most = self.rules.text("order", *place), self.rules.number("max_breakpoints", *place)
            sections = cast("tuple[Section, ...]", tuple(order.split(","))) if order else view.order
            view = replace(view, order=sections, most=view.most if most is None else int(most))
            predictor = self._requests[key] = _RequestPredictor(
                self._models[key], cache_named(name).provider, Views(view, self._count, self.model), self._recording,
                self._change, self.change_counts,
            )  # fmt: skip
        return name, predictor


class LazyTranscriptPredictor:
    """Queues a recording's transcript turns, and predicts only when `state()` is called: most turns lose nothing."""

    def __init__(self, rules: Callable[[], DatedRules]) -> None:
        self._rules = rules
        self._predictor: Predictor | None = None
        self._waiting: list[Turn] = []
        self.latest: Predicted | None = None  # the prediction of the latest turn that was asked for

    def take(self, turn: Turn, predicted: Predicted | None = None) -> None:
        """Add the next turn, in order of sending; `predicted` is its prediction, if the caller has made it."""
        if predicted is None:
            self._waiting.append(turn)
        self.latest = None
        if predicted is not None or len(self._waiting) > _WAITING:
            self._catch_up()
        self.latest = predicted or self.latest

    def state(self) -> TurnState | None:
        """Return the latest turn's state before its usage; None if its cache is not predicted or its usage is odd."""
        self._catch_up()
        return None if self.latest is None or self.latest.doubt else self.latest.state

    def _catch_up(self) -> None:
        if not self._waiting:
            return
        predictor = self._predictor = self._predictor or Predictor(self._rules())
        (*earlier, latest), self._waiting = self._waiting, []
        for turn in earlier:
            predictor.learn(turn)
        is_predicted = cache_of(latest, served_by(latest)) in CACHES_OF_TRANSCRIPTS
        self.latest = predictor.predict(latest) if is_predicted else None


def _rule_lookup(rules: DatedRules, provider: str, platform: str) -> RuleLookup:
    """Return the rules of one provider on one platform as models ask for them: numbers."""

    def find_rule(rule: str, model: str | None, at: float | None) -> float | None:
        row = rules.find(rule, provider, model, platform, at)
        return None if row is None or row.value is None or isinstance(row.value, str) else float(row.value)

    return find_rule
