"""Predict turns: each by the model of the cache that served it, or by the one that was asked for.

In: turns with their bills, rules. Out: predictions. Rules: who serves a turn is known by its host, its model, its
shape; where nobody knows, nothing is predicted. A transcript that holds neither system prompt nor tools is predicted
by levels. Models are shared by all recordings of a run: what one wrote another may read.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from msgspec import structs

from lore.cache.base import UNKNOWN, Breakpoint, CacheModel, Prediction, Request
from lore.cache.bills import unbelievable
from lore.cache.breakpoints import HOUR, Breakpoints
from lore.cache.levels import Levels
from lore.cache.lifetime import FIVE_MINUTES
from lore.cache.registry import Option, make
from lore.cache.rules import Rules
from lore.cache.served import Served, normal, served
from lore.cache.turn_context import Situation
from lore.cache.views import (
    ANTHROPIC,
    EXPLICIT,
    OPENAI,
    OPENAI_BREAKPOINT,
    PLAIN,
    SYSTEM_FIRST,
    Count,
    View,
    Views,
    automatic,
)
from lore.model.events import Billed
from lore.model.prompt import Section
from lore.model.providers import has_exact_breakpoints
from lore.model.turn import Turn

LEVELS = "levels"
_BY_PROVIDER = {"anthropic": "anthropic", "gemini": "gemini", "deepseek": "deepseek", "moonshot": "kimi", "xai": "xai",
                "qwen": "qwen-implicit"}  # fmt: skip
_VIEWS: dict[str, View] = {
    "anthropic": ANTHROPIC, "bedrock": EXPLICIT, "openai": OPENAI, "openai-breakpoint": OPENAI_BREAKPOINT,
    "qwen": EXPLICIT,
}  # fmt: skip
_BY_LEVEL = frozenset(("anthropic", "bedrock"))
_ENGINES = frozenset(("vllm", "sglang", "llama.cpp", "lmcache"))


class Predicted(NamedTuple):
    """What was predicted, by which model (empty: none), and why its bill is not believed.

    `situation` is what a level model saw; None where requests were looked at.
    """

    cache: str
    prediction: Prediction
    odd: str = ""
    situation: Situation | None = None


class Change(NamedTuple):
    """What is asked to be otherwise than recorded: `--what-if`.

    `lifetime` in seconds of every breakpoint; `breakpoints`: where the provider would set them by itself; `model`:
    whose rules and prices hold; `options` of a cache's model.
    """

    lifetime: float | None = None
    breakpoints: bool = False
    model: str | None = None
    options: tuple[tuple[str, Option], ...] = ()


NO_CHANGE = Change()


class Touched:
    """Count the turns that a change changes (`changed`), and those that are so already (`already`).

    What a change cannot be about (another provider's requests, a turn that wrote nothing) is neither.
    """

    def __init__(self) -> None:
        self.changed = self.already = 0

    def take(self, *, changed: bool) -> None:
        """Count a turn."""
        self.changed += changed
        self.already += not changed


class _Bound:
    """Rules of one provider on one platform, as models look them up."""

    def __init__(self, rules: Rules, provider: str, platform: str) -> None:
        self._rules = rules
        self._where = provider, platform

    def __call__(self, rule: str, model: str | None, at: float | None) -> float | None:
        provider, platform = self._where
        row = self._rules.find(rule, provider, model, platform, at)
        return None if row is None or row.value is None or isinstance(row.value, str) else float(row.value)


class _Asking(Protocol):
    def predict(self, turn: Turn) -> Prediction: ...

    def learn(self, turn: Turn) -> str: ...


class _Requests:
    """Turns of one recording for a model that looks at requests."""

    def __init__(
        self, model: CacheModel, views: Views, recording: int, change: Change, touched: Touched
    ) -> None:  # fmt: skip
        self._model = model
        self._views = views
        self._recording = recording
        self._change = change
        self._touched = touched

    def predict(self, turn: Turn) -> Prediction:
        request = self._views.of(turn)
        recorded, breakpoints = request.breakpoints, self._changed(request, turn)
        request = request._replace(chain=f"{self._recording}:{turn.chain}", breakpoints=breakpoints)
        return self._model.predict(request if breakpoints == recorded else request._replace(recorded=recorded))

    def _changed(self, request: Request, turn: Turn) -> tuple[Breakpoint, ...]:
        """Return the breakpoints as they are asked to be; what is so already stays as it is."""
        change, breakpoints = self._change, request.breakpoints
        if change.breakpoints:
            breakpoints = automatic(request)
        lives = change.lifetime
        if lives is not None and self._model.provider == "anthropic":  # nobody else offers the choice
            held = turn.usage is not None and bool(turn.usage.write_tokens) and all_live(turn.usage, lives)
            if not (held and lives >= HOUR):  # a bill knows better than the body for how long it was kept
                breakpoints = tuple([_living(breakpoint, lives) for breakpoint in breakpoints])
        elif not (change.breakpoints and isinstance(self._model, Breakpoints)):
            return breakpoints
        if breakpoints:
            self._touched.take(changed=breakpoints != request.breakpoints)
        return breakpoints

    def learn(self, turn: Turn) -> str:
        if turn.usage is not None and turn.usage.uncached_tokens is not None:
            self._views.count = None  # from here on bills say what a token is
        odd = "" if turn.usage is None else unbelievable(turn.usage)
        return self._model.learn(None if odd else turn.usage) or odd


def _living(breakpoint: Breakpoint, lives: float) -> Breakpoint:
    """Return a breakpoint that asks for a lifetime; the provider's default is five minutes."""
    return breakpoint if (breakpoint.lifetime or FIVE_MINUTES) == lives else breakpoint._replace(lifetime=lives)


class _Levels(Levels):
    """Levels of which every entry lives as long as is asked for, if that is asked.

    The recorded levels are followed beside: they know what had expired and what was lost for another reason.
    """

    def __init__(self, lives: float | None, touched: Touched) -> None:
        super().__init__()
        self._lives = lives
        self._touched = touched
        self._recorded = None if lives is None else Levels()

    def predict(self, turn: Turn) -> Prediction:
        if self._recorded is not None:
            self._recorded.predict(turn)
        return super().predict(turn)

    def learn(self, turn: Turn) -> str:
        if self._recorded is None or self._lives is None:
            return super().learn(turn)
        before = self._recorded.situation
        self._recorded.learn(turn)
        other = living(turn, self._lives, self.situation, before)
        if turn.usage is not None and turn.usage.write_tokens:
            self._touched.take(changed=other is not turn)
        return super().learn(other)


class Transcripts:
    """Predict by levels the turns of one recording that holds neither system prompt nor tools; leave others alone."""

    def __init__(self) -> None:
        self._levels: dict[Served, Levels] = {}

    def turn(self, turn: Turn) -> Predicted | None:
        """Predict a turn, then take its bill; None for a turn that levels say nothing of."""
        if not is_transcript(turn) or turn.failed:
            return None
        where = served_by(turn)
        name = cache_of(turn, where)
        if name not in _BY_LEVEL:
            return None
        levels = self._levels.get(where)
        if levels is None:
            levels = self._levels[where] = Levels()
        prediction = levels.predict(turn)
        return Predicted(name, prediction, levels.learn(turn), levels.situation)


class Predictor:
    """Predict the turns of recordings, one after the other; `cache` overrides who serves them.

    `count` counts tokens until a recording's first bill says what a token is.
    """

    def __init__(
        self, rules: Rules, cache: str | None = None, change: Change = NO_CHANGE, count: Count | None = None
    ) -> None:  # fmt: skip
        self.rules = rules
        self._count = count
        self.model = change.model
        self._change = change
        self._cache = cache
        self._models: dict[tuple[str, str, str], CacheModel] = {}
        self._asking: dict[tuple[str, str, str], _Asking] = {}
        self._recording = 0
        self.touched = Touched()
        if cache is not None:  # what cannot be made is said before anything is read
            make(cache, _Bound(rules, cache, ""), dict(change.options))

    def begin(self) -> None:
        """Begin another recording: its chains are its own, what it wrote to a cache is not."""
        self._recording += 1
        self._asking.clear()

    def turn(self, turn: Turn) -> Predicted:
        """Predict a turn, then take its bill."""
        where = served_by(turn)
        name = self._cache or cache_of(turn, where)
        if not name or turn.failed:
            return Predicted(name, UNKNOWN)
        if self.model is not None:
            self.touched.take(changed=normal(turn.model) != normal(self.model))
        by_level = name in _BY_LEVEL and is_transcript(turn)
        asking = self._for(LEVELS if by_level else name, where, turn)
        prediction = asking.predict(turn)
        situation = asking.situation if isinstance(asking, _Levels) else None
        return Predicted(name, prediction, asking.learn(turn), situation)

    def _for(self, name: str, where: Served, turn: Turn) -> _Asking:
        key = (name, name if name in _ENGINES else where.provider, where.platform)
        if key not in self._asking:
            self._asking[key] = (
                _Levels(self._change.lifetime, self.touched)
                if name == LEVELS
                else _Requests(
                    self._model(key), self._views(name, key, turn), self._recording, self._change, self.touched
                )
            )
        return self._asking[key]

    def _views(self, name: str, key: tuple[str, str, str], turn: Turn) -> Views:
        """Return how a cache looks at requests: as its rules say, where they say it."""
        view, model = view_of(name), self.model or turn.model
        order = sections(self.rules.text("order", key[1], model, key[2], turn.at) or "")
        most = self.rules.whole("max_breakpoints", key[1], model, key[2], turn.at)
        view = view._replace(order=order or view.order, most=view.most if most is None else most)
        return Views(view, self._count, self.model)

    def _model(self, key: tuple[str, str, str]) -> CacheModel:
        if key not in self._models:
            self._models[key] = make(key[0], _Bound(self.rules, *key[1:]), dict(self._change.options))
        return self._models[key]


def minimum_tokens(rules: Rules, turn: Turn) -> int | None:
    """Return the fewest tokens that the turn's model caches; None where nobody knows."""
    where = served_by(turn)
    return rules.whole("minimum_tokens", where.provider, turn.model, where.platform, turn.at)


def living(turn: Turn, seconds: float, situation: Situation, recorded: Situation) -> Turn:
    """Return a turn as if all that was written lived so long (five minutes, or an hour); itself where it does.

    What the bill lost over a pause that this life would have outlived and the `recorded` one did not counts as read:
    nothing is to be learned from a drop that would not have been. Any other drop stays: it has another reason.
    """
    usage, pause, lives, stood = turn.usage, recorded.pause, recorded.lifetime, situation.stood
    if usage is None or usage.write_tokens is None:
        return turn
    read, write = usage.read_tokens, usage.write_tokens
    outlived = pause is not None and lives is not None and lives < pause <= seconds and situation.level.why in _GOES_ON
    back = min(stood - read, write) if outlived and read is not None and stood is not None and read < stood else 0
    if not back and all_live(usage, seconds):
        return turn
    write -= back
    hour = write if seconds >= HOUR else 0
    changed = structs.replace(
        usage, read_tokens=None if read is None else read + back, write_tokens=write, write_1h_tokens=hour,
        write_5m_tokens=write - hour,
    )  # fmt: skip
    return structs.replace(turn, usage=changed)


def all_live(usage: Billed, seconds: float) -> bool:
    """Tell whether a bill shows that all it wrote lives that long; what it does not split had the default."""
    hour = usage.write_1h_tokens or 0
    return hour >= (usage.write_tokens or 0) if seconds >= HOUR else not hour


_GOES_ON = ("goes-on", "hidden-request")  # why a level is where it is, if nothing fell


def sections(order: str) -> tuple[Section, ...]:
    """Read a render order; empty where it does not name each section once."""
    names = [name.strip() for name in order.split(",")]
    known: dict[str, Section] = {section: section for section in PLAIN.order}
    return tuple([known[name] for name in names]) if sorted(names) == sorted(known) else ()


def served_by(turn: Turn) -> Served:
    """Return who made and who serves the model of a turn; the prompt need not be made for it."""
    return served(turn.call.endpoint, turn.model, turn.dialect)


def cache_of(turn: Turn, where: Served) -> str:
    """Name the cache that a turn was served by; empty where that is not known."""
    if where.platform == "bedrock":
        return "bedrock"
    if where.provider == "openai":
        return "openai-breakpoint" if has_exact_breakpoints(turn.model) else "openai"
    if where.provider == "gemini" and names_object(turn):
        return "gemini-explicit"
    return _BY_PROVIDER.get(where.provider, "")


def names_object(turn: Turn) -> bool:
    """Tell whether a request names an object at the provider that holds the beginning of its prompt."""
    params = {} if is_transcript(turn) else turn.prompt.params
    return bool(params.get("cachedContent") or params.get("cached_content"))


def is_transcript(turn: Turn) -> bool:
    """Tell whether a turn is known by its history alone: its recording holds neither system prompt nor tools."""
    return turn.basis is not None


def view_of(name: str) -> View:
    """Return how a cache looks at requests."""
    return SYSTEM_FIRST if name == "deepseek" else _VIEWS.get(name, PLAIN)
