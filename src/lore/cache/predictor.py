"""Predict turns: each by the model of the cache that served it, or by the one that was asked for.

In: turns with their bills, rules. Out: predictions. Rules: who serves a turn is known by its host, its model, its
shape; where nobody knows, nothing is predicted. A transcript that holds neither system prompt nor tools is predicted
by levels. Models are shared by all recordings of a run: what one wrote another may read.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from msgspec import structs

from lore.cache.base import UNKNOWN, CacheModel, Prediction
from lore.cache.bills import unbelievable
from lore.cache.breakpoints import HOUR
from lore.cache.levels import Levels
from lore.cache.lifetime import FIVE_MINUTES
from lore.cache.registry import Option, make
from lore.cache.rules import Rules
from lore.cache.served import Served, served
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

    def __init__(self, model: CacheModel, views: Views, recording: int, change: Change) -> None:
        self._model = model
        self._views = views
        self._recording = recording
        self._change = change

    def predict(self, turn: Turn) -> Prediction:
        request = self._views.of(turn)
        change = self._change
        breakpoints = automatic(request) if change.breakpoints else request.breakpoints
        if change.lifetime is not None and self._model.provider == "anthropic":  # nobody else offers the choice
            breakpoints = tuple([breakpoint._replace(lifetime=change.lifetime) for breakpoint in breakpoints])
        chain = f"{self._recording}:{turn.chain}"
        return self._model.predict(request._replace(chain=chain, breakpoints=breakpoints))

    def learn(self, turn: Turn) -> str:
        if turn.usage is not None and turn.usage.uncached_tokens is not None:
            self._views.count = None  # from here on bills say what a token is
        odd = "" if turn.usage is None else unbelievable(turn.usage)
        return self._model.learn(None if odd else turn.usage) or odd


class _Levels(Levels):
    """Levels of which every entry lives as long as is asked for, if that is asked."""

    def __init__(self, lives: float | None) -> None:
        super().__init__()
        self._lives = lives

    def learn(self, turn: Turn) -> str:
        return super().learn(turn if self._lives is None else living(turn, self._lives, self.situation))


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
        by_level = name in _BY_LEVEL and is_transcript(turn)
        asking = self._for(LEVELS if by_level else name, where, turn)
        prediction = asking.predict(turn)
        situation = asking.situation if isinstance(asking, _Levels) else None
        return Predicted(name, prediction, asking.learn(turn), situation)

    def _for(self, name: str, where: Served, turn: Turn) -> _Asking:
        key = (name, name if name in _ENGINES else where.provider, where.platform)
        if key not in self._asking:
            self._asking[key] = (
                _Levels(self._change.lifetime)
                if name == LEVELS
                else _Requests(self._model(key), self._views(name, key, turn), self._recording, self._change)
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


def living(turn: Turn, seconds: float, situation: Situation) -> Turn:
    """Return a turn as if all that was written lived so long: five minutes, or an hour.

    What the bill lost over a pause that the longer life would have outlived counts as read: nothing is to be
    learned from a drop that would not have been.
    """
    usage, pause, stood = turn.usage, situation.pause, situation.stood
    if usage is None or usage.write_tokens is None:
        return turn
    read, write = usage.read_tokens, usage.write_tokens
    outlived = pause is not None and FIVE_MINUTES < pause <= seconds and situation.level.why in _GOES_ON
    if outlived and read is not None and stood is not None and read < stood:
        back = min(stood - read, write)
        read, write = read + back, write - back
    hour = write if seconds >= HOUR else 0
    changed = structs.replace(
        usage, read_tokens=read, write_tokens=write, write_1h_tokens=hour, write_5m_tokens=write - hour
    )
    return structs.replace(turn, usage=changed)


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
