"""The table of cache models by name, and how one is made with options.

A model asks its `RuleLookup` for the dated rules of its `provider`; the lookup knows the platform (Bedrock serves
models of other makers). A plug-in publishes a row under the entry-point group `lore.caches`;
`lore.recording.base.load_plugins` adds it, or the first question for a name that is no row yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

from msgspec import Struct

from lore.cache.base import CacheModel, RuleLookup
from lore.cache.views import PLAIN, VIEWS, View
from lore.errors import LoreError, did_you_mean, lacks_plug_in
from lore.model.providers import ENGINES
from lore.plugins import register_plugins

Option: TypeAlias = int | float | bool | str | None
_LARGEST = 1_000_000_000  # more than any number that an option means


class CacheRow(Struct, frozen=True):
    """A cache model: a row of `CACHES`."""

    name: str  # as `--cache` takes it
    provider: str  # whose rules it follows
    made: Callable[..., CacheModel]  # makes a model of a `RuleLookup` and options by keyword
    options: tuple[str, ...] = ()  # names
    flags: tuple[str, ...] = ()  # options that are true or false
    numbers: tuple[str, ...] = ()  # options that are numbers; the other ones are whole numbers
    words: Mapping[str, tuple[str, ...]] = {}  # options that are one of these words
    view: View | None = None  # how it sees requests; None: as in `VIEWS`


def _make(module: str, name: str, find_rule: RuleLookup, **options: Any) -> CacheModel:
    """Make a model of a class that is imported by its name: judging request bodies makes no model."""
    return getattr(import_module(f"lore.cache.{module}"), name)(find_rule, **options)


_breakpoints = partial(_make, "breakpoints", "Breakpoints")
_implicit = partial(_make, "implicit", "ImplicitCache")
CACHES: dict[str, CacheRow] = {
    cache.name: cache
    for cache in (
        CacheRow("anthropic", "anthropic", _breakpoints),
        CacheRow("bedrock", "anthropic", _breakpoints),
        CacheRow("openai", "openai", _implicit),  # up to GPT-5.5
        CacheRow("openai-breakpoint", "openai", _breakpoints),  # since GPT-5.6
        CacheRow("gemini", "gemini", _implicit),
        CacheRow("gemini-explicit", "gemini", partial(_make, "implicit", "GeminiExplicit")),
        CacheRow("deepseek", "deepseek", _implicit),
        CacheRow("kimi", "moonshot", partial(_implicit, confidence="rule")),
        CacheRow("xai", "xai", _implicit),
        CacheRow("qwen", "qwen", _breakpoints),
        CacheRow("qwen-implicit", "qwen", partial(_implicit, minimum="minimum_implicit", lifetime="lifetime_implicit")),
    )
}
# caches of lore's own plug-ins: the plug-in that brings each
BROUGHT: dict[str, str] = dict.fromkeys(ENGINES, "engines")


def parse_cache(text: str) -> tuple[str, tuple[tuple[str, Option], ...]]:
    """Return name (unchecked) and options of `NAME`, `NAME:` or `NAME:OPTION=VALUE,…`; raise as `options_in` does."""
    name, _, options = text.partition(":")
    hint = "NAME:OPTION=VALUE,OPTION=VALUE, as in llama.cpp:slots=2,window=1024"
    return name, options_in(options, f"--cache {name}:", hint) if options else ()


def options_in(text: str, place: str, hint: str) -> tuple[tuple[str, Option], ...]:
    """Return name and value of each option of `OPTION=VALUE,OPTION=VALUE`, in order, `-` in names as `_`.

    A value is a bool, int or float by its spelling; it is text only if a cache in `CACHES` takes words for it.
    Raises LoreError (`place` and the fault, with `hint`) for any other text or none. `make` checks the names.
    """
    options: list[tuple[str, Option]] = []
    for part in text.split(","):
        option, _, spelled = part.partition("=")
        option, spelled = option.strip().replace("-", "_"), spelled.strip()
        if not spelled:
            raise LoreError(f"{place}{part!r} is not KEY=VALUE", hint=hint)
        value: Option = {"true": True, "false": False}.get(spelled)
        if any(option in row.words for row in CACHES.values()):
            value = spelled
        for kind in (float, int) if value is None else ():
            with suppress(ValueError):
                value = kind(spelled)
        if value is None:
            raise LoreError(f"{place}{option}={spelled}: not a number", hint=hint)
        options.append((option, value))
    return tuple(options)


def cache_named(text: str) -> CacheRow:
    """Return the row of `NAME` or `NAME:…`; LoreError for an unknown name or missing plug-in."""
    name = text.partition(":")[0]
    if name not in CACHES:
        register_plugins("lore.caches", CACHES)
    row = CACHES.get(name)
    if row is None and name in BROUGHT:
        raise lacks_plug_in(BROUGHT[name], f"the cache {name!r}")
    if row is None:
        raise LoreError(f"there is no cache {name!r}", hint=did_you_mean(name, CACHES, "caches"), own=True)
    return row


def takes_breakpoints(name: str) -> bool:
    """Return whether one of lore's own caches keeps entries at a request's breakpoints; False for other names."""
    return name in CACHES and CACHES[name].made is _breakpoints


def view_of(name: str) -> View:
    """Return how the cache of this name (without options) sees requests: by its row, else by `VIEWS`, else `PLAIN`."""
    row = CACHES.get(name)
    return (row and row.view) or VIEWS.get(name, PLAIN)


def make(name: str, find_rule: RuleLookup, options: Mapping[str, Option] | None = None) -> CacheModel:
    """Make a new, empty model of `NAME` or `NAME:OPTION=VALUE,…`; `options` win over those in the name.

    Raises LoreError for an unknown name, a missing plug-in, an unknown option or an impossible value.
    """
    row = cache_named(name)  # whose words for options `parse_cache` needs
    name, named_options = parse_cache(name)
    options = {**dict(named_options), **(options or {})}
    for option, value in options.items():
        if option not in row.options:
            hint = "options: " + ", ".join(row.options) if row.options else "it has none"
            raise LoreError(f"{name} has no option {option!r}", hint=hint)
        is_number = isinstance(value, int | float) and abs(value) < _LARGEST
        if option in row.numbers:
            fits, accepted = is_number, "a number"
        elif option in row.words:
            fits, accepted = value in row.words[option], "one of " + ", ".join(row.words[option])
        elif option in row.flags:
            fits, accepted = value in (0, 1), "true or false"
        else:
            fits, accepted = is_number and type(value) is int, "a whole number"
        if value is not None and not fits:  # None leaves it to the rules
            raise LoreError(f"{name}: {option}={value} is not {accepted}", hint=f"{option} is {accepted}")
    return row.made(find_rule, **options)
