"""Predict turns: each by the model of the cache that served it, or by the one that was asked for.

In: turns with their bills, rules. Out: predictions. Rules: who serves a turn is known by its host, its model, its
shape; where nobody knows, nothing is predicted. A transcript that holds neither system prompt nor tools is predicted
by levels. Models are shared by all recordings of a run: what one wrote another may read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from msgspec import structs

from lore.cache.base import UNKNOWN, Breakpoint, CacheModel, Look, Prediction, Request
from lore.cache.bills import FIVE_MINUTES, ONE_HOUR, unbelievable
from lore.cache.breakpoints import Breakpoints
from lore.cache.forecast import Situation, Tally, chance
from lore.cache.levels import BY_LEVEL, Levels, Predicted
from lore.cache.registry import Option, cache_named, configured, is_known, make, view_of
from lore.cache.rules import DatedRules
from lore.cache.served import WITH_BREAKPOINTS, Served, cache_of, is_transcript, normal_name, served_by
from lore.cache.views import PLAIN, Count, Views, automatic
from lore.model.events import Usage
from lore.model.providers import ENGINES
from lore.model.turn import Section, Turn

_GOES_ON = ("goes-on", "hidden-request")  # why a level is where it is, if nothing fell


class WhatIf(NamedTuple):
    """What is asked to be otherwise than recorded: `--what-if`.

    `lifetime` in seconds of every breakpoint; `breakpoints`: where the provider would set them by itself; `model`:
    whose rules and prices hold; `options` of a cache's model.
    """

    lifetime: float | None = None
    breakpoints: bool = False
    model: str | None = None
    options: tuple[tuple[str, Option], ...] = ()


NO_CHANGE = WhatIf()


@dataclass(slots=True)
class Touched:
    """Count the turns that a change changes (`changed`), and those that are so already (`already`).

    What a change cannot be about (another provider's requests, a turn that wrote nothing) is neither.
    """

    changed: int = 0
    already: int = 0

    def take(self, *, changed: bool) -> None:
        """Count a turn."""
        self.changed += changed
        self.already += not changed


@dataclass(slots=True, frozen=True)
class _Requests:
    """Turns of one recording for a model that looks at requests; `provider` is whose rules the model asks for."""

    model: CacheModel
    provider: str
    views: Views
    recording: int
    change: WhatIf
    touched: Touched

    def predict(self, turn: Turn) -> Prediction:
        request = self.views.of(turn)
        recorded, breakpoints = request.breakpoints, self._changed(request, turn)
        request = request._replace(chain=f"{self.recording}:{turn.chain}", breakpoints=breakpoints)
        return self.model.predict(request if breakpoints == recorded else request._replace(recorded=recorded))

    def _changed(self, request: Request, turn: Turn) -> tuple[Breakpoint, ...]:
        """Return the breakpoints as they are asked to be; what is so already stays as it is."""
        change, breakpoints, usage = self.change, request.breakpoints, turn.usage
        if change.breakpoints:
            breakpoints = automatic(request)
        lives = change.lifetime
        if lives is not None and self.provider == "anthropic":  # nobody else offers the choice
            held = usage is not None and bool(usage.write_tokens) and _all_live(usage, lives)
            if not (held and lives >= ONE_HOUR):  # a bill knows better than the body for how long it was kept
                breakpoints = tuple([
                    mark if (mark.lifetime or FIVE_MINUTES) == lives else mark._replace(lifetime=lives)
                    for mark in breakpoints
                ])  # fmt: skip
        elif not (change.breakpoints and isinstance(self.model, Breakpoints)):
            return breakpoints
        if breakpoints:
            self.touched.take(changed=breakpoints != request.breakpoints)
        return breakpoints

    def learn(self, turn: Turn) -> str:
        if turn.usage is not None and turn.usage.uncached_tokens is not None:
            self.views.count = None  # from here on bills say what a token is
        odd = "" if turn.usage is None else unbelievable(turn.usage)
        return self.model.learn(None if odd else turn.usage) or odd


class _LivingLevels(Levels):
    """Levels of which every entry lives as long as is asked for, if that is asked.

    The recorded levels are followed beside: they know what had expired and what was lost for another reason, and what
    they count of habits holds for both, so that a habit makes no difference between them.
    """

    def __init__(
        self, rules: DatedRules, lives: float | None, touched: Touched, where: Served, *, breakpoints: bool
    ) -> None:
        lives = lives if breakpoints else None  # nobody else offers the choice
        self._recorded = Levels(lambda: rules, None, where, breakpoints=breakpoints)
        tallies = None if lives is None else self._recorded.tallies
        super().__init__(lambda: rules, tallies, where, breakpoints=breakpoints)
        self._lives = lives
        self._touched = touched
        self._why = ""

    def predict(self, turn: Turn) -> Prediction:
        if self._lives is not None:
            self._recorded.predict(turn)
        prediction = super().predict(turn)
        self._why = prediction.reason
        return prediction

    def learn(self, turn: Turn) -> str:
        if self._lives is None:
            return super().learn(turn)
        before = self._recorded.situation
        self._recorded.learn(turn)
        other = living(turn, self._lives, self.situation.stood, before, goes_on=self._why in _GOES_ON)
        if turn.usage is not None and turn.usage.write_tokens:
            self._touched.take(changed=other is not turn)
        return super().learn(other)


class Predictor:
    """Predict the turns of recordings, one after the other; `cache` overrides who serves them.

    `count` counts tokens until a recording's first bill says what a token is.
    """

    def __init__(
        self, rules: DatedRules, cache: str | None = None, change: WhatIf = NO_CHANGE, count: Count | None = None
    ) -> None:  # fmt: skip
        self.rules = rules
        self._count = count
        self.model = change.model
        name, given = (None, ()) if cache is None else configured(cache)
        self._change = change = change._replace(options=(*given, *change.options))
        self._cache = name
        self._models: dict[tuple[str, str, str], CacheModel] = {}
        self._turns: dict[tuple[str, str, str], _Requests | _LivingLevels] = {}  # of this recording
        self._recording = 0
        self._requests_seen: dict[str, Predicted] = {}  # by what a copy of a request is known by
        self.touched = Touched()
        if name is not None:  # what cannot be made is said before anything is read
            make(name, _bound(rules, name, ""), dict(change.options))

    def begin(self) -> None:
        """Begin another recording: its chains are its own, what it wrote to a cache is not."""
        self._recording += 1
        self._turns.clear()

    def turn(self, turn: Turn) -> Predicted:
        """Predict a turn, then take its bill; a copy of a recorded request is what that was, and writes nothing."""
        if is_transcript(turn) or not turn.response_id:
            return self._predicted(turn)
        known = self._requests_seen.get(turn.response_id)
        if known is None:
            known = self._requests_seen[turn.response_id] = self._predicted(turn)
        return known

    def _predicted(self, turn: Turn) -> Predicted:
        where = served_by(turn)
        name = self._cache or cache_of(turn, where)
        if not is_known(name) or turn.failed:  # nobody knows which it is, or the plug-in that models it is missing
            return Predicted(name, UNKNOWN)
        if self.model is not None:
            self.touched.take(changed=normal_name(turn.model) != normal_name(self.model))
        key = (name, name if name in ENGINES else where.provider, where.platform)
        if name in BY_LEVEL and is_transcript(turn):
            key = ("levels", where.provider, where.platform)
        turns = self._turns.get(key)
        if turns is None:
            lives, marked = self._change.lifetime, name in WITH_BREAKPOINTS
            turns = self._turns[key] = (
                _LivingLevels(self.rules, lives, self.touched, where, breakpoints=marked)
                if key[0] == "levels" else self._requests(key, turn)
            )  # fmt: skip
        prediction = turns.predict(turn).fitted()
        situation = turns.situation if isinstance(turns, _LivingLevels) else None
        return Predicted(name, prediction, turns.learn(turn), situation)

    def _requests(self, key: tuple[str, str, str], turn: Turn) -> _Requests:
        """Return the turns of a cache: it looks at requests as its rules say, where they say it."""
        name, provider, platform = key
        if key not in self._models:
            self._models[key] = make(name, _bound(self.rules, provider, platform), dict(self._change.options))
        view, model = view_of(name), self.model or turn.model
        order = sections(self.rules.text("order", provider, model, platform, turn.at))
        most = self.rules.number("max_breakpoints", provider, model, platform, turn.at)
        view = view._replace(order=order or view.order, most=view.most if most is None else int(most))
        views = Views(view, self._count, self.model)
        return _Requests(
            self._models[key], cache_named(name).provider, views, self._recording, self._change, self.touched
        )


def _bound(rules: DatedRules, provider: str, platform: str) -> Look:
    """Return the rules of one provider on one platform, as models look them up; chances of habits by their sign."""

    def look(rule: str, model: str | None, at: float | None) -> float | None:
        if rule.startswith("habit:"):
            sign = rule.removeprefix("habit:")
            habit = rules.habits.find(sign, prompted=False, model=normal_name(model), provider=provider)
            return None if habit is None else chance(habit, Tally())
        row = rules.find(rule, provider, model, platform, at)
        return None if row is None or row.value is None or isinstance(row.value, str) else float(row.value)

    return look


def living(turn: Turn, seconds: float, stood: int | None, recorded: Situation, *, goes_on: bool) -> Turn:
    """Return a turn as if all that was written lived so long (five minutes, or an hour); itself where it does.

    What the bill lost over a pause that this life would have outlived and the `recorded` one did not counts as read:
    nothing is to be learned from a drop that would not have been. Any other drop stays: it has another reason.
    """
    usage, pause, lives = turn.usage, recorded.pause, recorded.lifetime
    if usage is None or usage.write_tokens is None:
        return turn
    read, write = usage.read_tokens, usage.write_tokens
    outlived = pause is not None and lives is not None and lives < pause <= seconds and goes_on
    back = min(stood - read, write) if outlived and read is not None and stood is not None and read < stood else 0
    if not back and _all_live(usage, seconds):
        return turn
    write -= back
    hour = write if seconds >= ONE_HOUR else 0
    changed = structs.replace(
        usage, read_tokens=None if read is None else read + back, write_tokens=write, write_1h_tokens=hour,
        write_5m_tokens=write - hour,
    )  # fmt: skip
    return structs.replace(turn, usage=changed)


def _all_live(usage: Usage, seconds: float) -> bool:
    """Tell whether a bill shows that all it wrote lives that long; what it does not split had the default."""
    hour = usage.write_1h_tokens or 0
    return hour >= (usage.write_tokens or 0) if seconds >= ONE_HOUR else not hour


def sections(order: str) -> tuple[Section, ...]:
    """Read a render order; empty where it does not name each section once."""
    names = [name.strip() for name in order.split(",")]
    known: dict[str, Section] = {section: section for section in PLAIN.order}
    return tuple([known[name] for name in names]) if sorted(names) == sorted(known) else ()
