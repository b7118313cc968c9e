"""What cache models without breakpoints share: a tree of prefixes, positions in tokens, and totals learned from bills.

In: a request. Out: its path, its size, a prediction from how much of it is read. Rules: all that is not read is
uncached, unless bills have shown that this cache charges for writing; a bill without all its counts teaches nothing.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from lore.cache.base import Confidence, Prediction, Request
from lore.cache.token_estimator import Ruler
from lore.cache.tree import Path, Tree
from lore.model.events import Billed


class _Asked(NamedTuple):
    """A request that waits for its bill: its last place, its model, whether it was long enough to be cached."""

    last: int
    model: str | None


class Measured:
    """The part of a cache model that knows prefixes and sizes."""

    options: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self._tree = Tree()
        self._ruler = Ruler()
        self._asked: _Asked | None = None
        self._loose: dict[str, int] = {}  # by chain, the first place whose tokens are not counted
        self._charging: set[str | None] = set()  # models whose bills have held writes

    def _lay(self, request: Request) -> Path:
        """Walk and measure a request; it is the one that the next bill is for."""
        path = self._tree.path(request)
        self._ruler.lay(request.chain, path, request.pieces, request.model)
        self._asked = _Asked(len(request.pieces) - 1, request.model)
        return path

    def _total(self, request: Request) -> int:
        return self._ruler.position(len(request.pieces) - 1)

    def _begun(self, request: Request, path: Path) -> int:
        """Return the position up to which the first new piece begins like one that stood in its place."""
        if path.new >= len(request.pieces):
            return self._total(request)
        return self._ruler.inside(path.new, path.alike, len(request.pieces[path.new].data))

    def _counted(self, request: Request, path: Path) -> bool:
        """Tell whether every piece has its exact count. Cost O(pieces that the chain's path before did not have)."""
        loose = self._loose.get(request.chain)
        if loose is None or loose >= path.kept:
            places = range(path.kept, len(request.pieces))
            loose = next((place for place in places if request.pieces[place].tokens is None), None)
            if loose is None:
                self._loose.pop(request.chain, None)
                return True
            self._loose[request.chain] = loose
        return False

    def _predicted(
        self, request: Request, read: int, confidence: Confidence, reason: str, written: int = 0
    ) -> Prediction:
        """Predict from what is read; `written` is the position up to which is written where that is charged."""
        write = max(0, written - read) if request.model in self._charging else 0
        return Prediction(read, write, self._total(request) - read - write, confidence, reason)

    def learn(self, usage: Billed | None) -> str:
        """Take a bill; return how it contradicts the request, empty where it does not."""
        asked, self._asked = self._asked, None
        if asked is None or usage is None or asked.last < 0:
            return ""
        counts = (usage.uncached_tokens, usage.read_tokens, usage.write_tokens)
        if any(count is not None and count < 0 for count in counts) or usage.uncached_tokens is None:
            return ""
        if usage.read_tokens is None and usage.write_tokens is None:
            return ""
        if usage.write_tokens:
            self._charging.add(asked.model)
        return self._ruler.learn(asked.last, sum(count or 0 for count in counts))
