"""Engines that keep blocks of tokens: vLLM, SGLang, LMCache.

In: requests, what was billed for them. Out: predictions. Rules: the whole blocks that a request begins with are read,
as far as memory still holds them; those of the request, and with `outputs` those of what was generated, are kept. A
block can be read as soon as it is full, so requests at the same time share it. The last token that is generated is
never computed on. Where every piece has its exact count the prediction is exact; a common beginning inside a piece
counts by its bytes, and where it ends inside a block that block is not read.
"""

from __future__ import annotations

from typing import ClassVar

from lore.cache.base import UNKNOWN, Confidence, Prediction, Request
from lore.cache.block_lru import Held, Residence
from lore.cache.measured import Measured
from lore.cache.tree import Path
from lore.errors import LoreError


class Blocks(Measured):
    """A memory of blocks; `hybrid` says that the model has layers whose state cannot be resumed at any block."""

    name: ClassVar[str]
    recomputed: ClassVar[int] = 1  # tokens at the end of a request that are computed whatever is held

    def __init__(self, unit: int, capacity: int | None, *, hybrid: bool, outputs: bool = True) -> None:
        super().__init__()
        if unit < 1 or (capacity is not None and capacity < 0):
            raise LoreError(
                f"{self.name}: a block holds at least 1 token, and memory at least 0 blocks",
                hint=f"options of {self.name}: " + ", ".join(self.options),
            )
        self._memory = Residence(unit, capacity)
        self._hybrid = hybrid
        self._outputs = outputs

    def predict(self, request: Request) -> Prediction:
        """Say which blocks would be read, and keep the request's."""
        path = self._lay(request)
        if not request.pieces:
            return UNKNOWN
        total, unit = self._total(request), self._memory.unit
        place = self._memory.places(path)
        held = min(self._held(request, path, place), total - self.recomputed)
        read = max(0, held // unit * unit)
        self._keep(request, path, place)
        reason = "blocks that are held" if read else "no block is held"
        return self._predicted(request, read, self._confidence(request, path), reason)

    def _held(self, request: Request, path: Path, place: int) -> int:
        position = self._ruler.position(place - 1)
        if place >= len(request.pieces):
            return position
        end = self._begun(request, path) if place == path.new else self._ruler.position(place)
        return position + self._memory.within(path, place, end - position)

    def _keep(self, request: Request, path: Path, place: int) -> None:
        edges = [self._ruler.position(number) for number in range(place - 1, len(request.pieces))]
        behind = [
            Held(node, max(0, after - before))
            for node, before, after in zip(path.nodes[place:], edges, edges[1:], strict=False)
        ]
        common = 0
        if path.new < len(request.pieces):
            common = max(0, self._begun(request, path) - self._ruler.position(path.new - 1))
        self._memory.keep(path, place, behind + self._generated(request), common)

    def _generated(self, request: Request) -> list[Held]:
        if not self._outputs or not request.output:
            return []
        sizes = [round(self._ruler.size(piece)) for piece in request.output]
        made = [Held(node, size) for node, size in zip(self._tree.beyond(request), sizes, strict=True)]
        last = made[-1]
        return [*made[:-1], Held(last.node, last.tokens - 1, short=True) if last.tokens else last]

    def _confidence(self, request: Request, path: Path) -> Confidence:
        counted = self._counted(request, path)
        if self._hybrid:
            return "ceiling"
        return "exact" if counted else "rule"
