"""DeepSeek's disk cache: prefix units, of which only whole ones are read.

In: requests, what was billed for them, and a look-up of dated rules. Out: predictions. Rules: a unit ends where a
request's input ended and where its output did; where two requests began alike, a unit for later ones ends there; and
one ends every `interval` tokens, where that is known (`block_tokens`; 64 before the V4 models). What is read is the
longest unit that the request begins with; a unit can be read once the response of the request that made it began.
Nothing is thrown away: units live for hours to days. So after A+B and A+C, which read nothing, A+D reads A.

Source: DeepSeek's documentation of its context cache.
"""

from __future__ import annotations

import hashlib
import math
from typing import ClassVar, NamedTuple

from lore.cache.base import UNKNOWN, Look, Prediction, Request
from lore.cache.measured import Measured
from lore.cache.recency import Recency
from lore.cache.tree import Path

_WITHIN = 64  # units that end within pieces of one place, the latest ones


class _Part(NamedTuple):
    """A unit that ends within a piece: how many of its bytes, and which."""

    size: int
    digest: bytes
    ready: float


class DeepSeek(Measured):
    """Units by the prefix that they end."""

    name: ClassVar[str] = "deepseek"
    provider: ClassVar[str] = "deepseek"
    options: ClassVar[tuple[str, ...]] = ("interval",)

    def __init__(self, look: Look, *, interval: int | None = None) -> None:
        super().__init__()
        self._look = look
        self._interval = interval
        self._units: dict[int, float] = {}  # since when the unit that ends at a node can be read
        self._parts: dict[int, list[_Part]] = {}  # by the node before the piece
        self._recency = Recency()

    def predict(self, request: Request) -> Prediction:
        """Say which unit would be read, and keep those that the request makes."""
        path = self._lay(request)
        places = self._recency.use(request, path, None)
        if not request.pieces:
            return UNKNOWN
        read, reason = self._unit(request, path)
        steps = self._steps(request, path, places)
        if steps > read:
            read, reason = steps, "a unit at a fixed interval"
        self._keep(request, path)
        return self._predicted(request, min(read, self._total(request)), "rule", reason)

    def _unit(self, request: Request, path: Path) -> tuple[int, str]:
        """Return the end of the longest whole unit that the request begins with, and what it is."""
        at = math.inf if request.at is None else request.at
        for place in range(len(request.pieces) - 1, -1, -1):
            ready = self._units.get(path.nodes[place])
            if ready is not None and ready <= at:
                return self._ruler.position(place), "a unit that an earlier request ended"
            part = self._part(request, path, place, at)
            if part:
                size = len(request.pieces[place].data)
                return self._ruler.inside(place, part, size), "a beginning that two requests had in common"
        return 0, "no whole unit"

    def _part(self, request: Request, path: Path, place: int, at: float) -> int:
        """Return the bytes of the longest unit that ends within a piece; 0: none does."""
        data = request.pieces[place].data
        parts = (one for one in self._parts.get(path.begins[place], ()) if one.size <= len(data) and one.ready <= at)
        return max((one.size for one in parts if _digest(data[: one.size]) == one.digest), default=0)

    def _steps(self, request: Request, path: Path, places: int) -> int:
        step = self._interval or int(self._look("block_tokens", request.model, request.at) or 0)
        if step <= 0:
            return 0
        alike = places == path.new and (request.at is None or self._recency.live(path.like, request.at, None))
        return (self._begun(request, path) if alike else self._ruler.position(places - 1)) // step * step

    def _keep(self, request: Request, path: Path) -> None:
        began = request.answered if request.answered is not None else request.at
        ready = -math.inf if began is None else began
        ends = [path.nodes[-1], *self._tree.beyond(request)[-1:]]
        if path.new < len(path.nodes):
            if self._begun(request, path) > self._ruler.position(path.new - 1):
                parts = self._parts.setdefault(path.begins[path.new], [])
                parts.append(_Part(path.alike, _digest(request.pieces[path.new].data[: path.alike]), ready))
                del parts[:-_WITHIN]
            elif path.new:  # less than one token more than the pieces before
                ends.append(path.nodes[path.new - 1])
        for node in ends:
            self._units[node] = min(ready, self._units.get(node, math.inf))


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
