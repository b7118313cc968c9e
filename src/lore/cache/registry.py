"""The table of cache models by name, and how one is made with options.

A model asks its `Look` for the dated rules of its `provider`; where the same maker's models are served elsewhere
(Bedrock), whoever makes the `Look` knows the platform.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from lore.cache.base import CacheModel, Look
from lore.cache.breakpoint_providers import Anthropic, Bedrock, OpenAIBreakpoint, Qwen
from lore.cache.deepseek import DeepSeek
from lore.cache.gemini_explicit import GeminiExplicit
from lore.cache.llama_cpp import LlamaCpp
from lore.cache.lmcache import LMCache
from lore.cache.prefix import XAI, Gemini, Kimi, OpenAI, QwenImplicit
from lore.cache.sglang import SGLang
from lore.cache.vllm import VLLM
from lore.errors import LoreError

Option: TypeAlias = int | float | bool | None

CACHES: dict[str, type[CacheModel]] = {
    one.name: one
    for one in (
        Anthropic, Bedrock, OpenAI, OpenAIBreakpoint, Gemini, GeminiExplicit, DeepSeek, Kimi, XAI, Qwen, QwenImplicit,
        VLLM, SGLang, LlamaCpp, LMCache,
    )
}  # fmt: skip


def cache_named(name: str) -> type[CacheModel]:
    """Return the model of this name; raises LoreError for a name that there is not."""
    found = CACHES.get(name)
    if found is None:
        near = difflib.get_close_matches(name, CACHES, 1)
        hint = f"did you mean {near[0]}?" if near else "caches: " + ", ".join(CACHES)
        raise LoreError(f"there is no cache {name!r}", hint=hint)
    return found


def make(name: str, look: Look, options: Mapping[str, Option] | None = None) -> CacheModel:
    """Make a model; raises LoreError for an option that it has not, or a value that cannot be."""
    model = cache_named(name)
    for option, value in (options or {}).items():
        if option not in model.options:
            known = "options: " + ", ".join(model.options) if model.options else "it has none"
            raise LoreError(f"{name} has no option {option!r}", hint=known)
        wanted = _misfit(option, value)
        if wanted:
            raise LoreError(f"{name}: {option}={value} is not {wanted}", hint=f"{option} is {wanted}")
    return cast("Callable[..., CacheModel]", model)(look, **(options or {}))


_WHOLE = ("block", "cache_reuse", "capacity", "chunk_size", "interval", "page_size", "slots")
_FLAGS = ("decoded", "hybrid")


def _misfit(option: str, value: Option) -> str:
    """Say what an option takes, empty where a value is of that kind; None leaves it to the rules."""
    if value is None:
        return ""
    if option in _WHOLE:
        return "" if isinstance(value, int) and not isinstance(value, bool) else "a whole number"
    if option in _FLAGS:
        return "" if value in (0, 1) else "true or false"
    return "" if math.isfinite(value) else "a number"
