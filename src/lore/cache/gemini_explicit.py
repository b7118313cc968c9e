"""Gemini's explicit cache: a request names an object that holds the beginning of its prompt.

In: requests with `cached`, the object's name. Out: predictions. Rules: the whole object is read, and what stands
behind it falls under the implicit cache; how large the object is, only bills say: before the first one nothing is
said. An object that has expired makes the request fail, so one that was answered names a living object.

Source: the Gemini API's documentation of `cachedContents`.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from lore.cache.base import UNKNOWN, Look, Prediction, Request
from lore.cache.prefix import Gemini
from lore.model.events import Billed

_MANY = 4096  # objects whose size is remembered


class GeminiExplicit:
    """Objects by name, and the implicit cache behind each."""

    name: ClassVar[str] = "gemini-explicit"
    provider: ClassVar[str] = "gemini"
    options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, look: Look) -> None:
        self._behind = Gemini(look)
        self._sizes: dict[bytes, int] = {}
        self._asked: bytes = b""

    def predict(self, request: Request) -> Prediction:
        """Say what would be read: the object, and behind it what an earlier request with it had."""
        self._asked = request.cached
        space = b"%b cached %b" % (request.space, request.cached) if request.cached else request.space
        behind = self._behind.predict(request._replace(space=space))
        if not request.cached:
            return behind
        size = self._sizes.get(request.cached)
        if size is None:
            return UNKNOWN._replace(reason="no bill has told the size of the cached object")
        if behind.read is None:
            return Prediction(size, 0, 0, "ceiling", "the cached object alone")
        return behind._replace(read=behind.read + size, reason="the cached object, and " + behind.reason)

    def learn(self, usage: Billed | None) -> str:
        """Take a bill; the least that was ever read with an object is its size."""
        asked, self._asked = self._asked, b""
        if not asked or usage is None or not usage.read_tokens or usage.read_tokens < 0:
            return self._behind.learn(None if asked else usage)
        known = self._sizes.pop(asked, usage.read_tokens)
        size = self._sizes[asked] = min(known, usage.read_tokens)
        while len(self._sizes) > _MANY:
            del self._sizes[next(iter(self._sizes))]
        rest = msgspec.structs.replace(usage, read_tokens=usage.read_tokens - size)
        return self._behind.learn(rest)
