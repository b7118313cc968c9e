"""Caches that read the longest beginning that any earlier request had: OpenAI's up to GPT-5.5, Gemini's implicit one,
Kimi's, xAI's, Qwen's implicit one.

In: requests, what was billed for them, and a look-up of dated rules. Out: predictions. Rules: what is read is rounded
down to whole blocks and is nothing below a minimum; a use renews; a request cannot read what another one is still
computing. Where a request is routed and what is thrown away early is not known: a prediction is the best case.
Rules that are looked up: `block_tokens`, `minimum_tokens` (or `minimum_implicit`), `lifetime`; what is not
known is not applied.

Source: the providers' documentation; Kimi's chunks and xAI's blocks were measured (see the rows of `data/`).
"""

from __future__ import annotations

from typing import ClassVar

from lore.cache.base import UNKNOWN, Confidence, Look, Prediction, Request
from lore.cache.measured import Measured
from lore.cache.recency import Recency
from lore.cache.tree import Path


class Prefix(Measured):
    """A cache of everything that was asked before."""

    minimum: ClassVar[str] = "minimum_tokens"  # the rule that says how short a prefix is not cached
    confidence: ClassVar[Confidence] = "ceiling"

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self._recency = Recency()

    def predict(self, request: Request) -> Prediction:
        """Say what would be read, and keep the request."""
        path = self._lay(request)
        lifetime = self._look("lifetime", request.model, request.at)
        places = self._recency.use(request, path, lifetime)
        if not request.pieces:
            return UNKNOWN
        found = self._found(request, path, places, lifetime)
        block = max(1, int(self._look("block_tokens", request.model, request.at) or 1))
        least = self._look(self.minimum, request.model, request.at) or 0
        read = found // block * block
        reason = "longest beginning of an earlier request" if read else "nothing like it was asked before"
        if read < least:
            read, reason = 0, f"below the minimum of {int(least):,} tokens" if found else reason
        whole = self._total(request) // block * block
        return self._predicted(request, read, self.confidence, reason, whole if whole >= least else 0)

    def _found(self, request: Request, path: Path, places: int, lifetime: float | None) -> int:
        """Return the position up to which something that is kept begins alike."""
        found = self._ruler.position(places - 1)
        open_ = places == path.new < len(request.pieces) and path.alike > 0
        if open_ and self._recency.live(path.like, request.at, lifetime):
            found = max(found, self._begun(request, path))
        return min(found, self._total(request))


class OpenAI(Prefix):
    """OpenAI's automatic cache, up to GPT-5.5."""

    name: ClassVar[str] = "openai"
    provider: ClassVar[str] = "openai"


class Gemini(Prefix):
    """Gemini's implicit cache."""

    name: ClassVar[str] = "gemini"
    provider: ClassVar[str] = "gemini"


class Kimi(Prefix):
    """Moonshot's cache of the Kimi models, in whole chunks."""

    name: ClassVar[str] = "kimi"
    provider: ClassVar[str] = "moonshot"
    confidence: ClassVar[Confidence] = "rule"


class XAI(Prefix):
    """xAI's cache of the Grok models, one for each server."""

    name: ClassVar[str] = "xai"
    provider: ClassVar[str] = "xai"


class QwenImplicit(Prefix):
    """Qwen's cache of requests without breakpoints."""

    name: ClassVar[str] = "qwen-implicit"
    provider: ClassVar[str] = "qwen"
    minimum: ClassVar[str] = "minimum_implicit"
