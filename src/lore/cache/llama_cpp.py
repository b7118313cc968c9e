"""llama.cpp's server: slots, each with what it computed last.

In: requests, what was billed for them. Out: predictions. Rules: a request goes to the slot whose content it shares
the most with, where that is more than a tenth of the request (`-sps`), else to the one that was used least recently;
what stands there and begins alike is read, at least one token is computed, and the slot holds this request from then
on, with what was generated but for its last token. With `cache_reuse` chunks of that many tokens further back in the
slot are shifted to where the request has them. Slots that are busy and the copies of slots in main memory
(`--cache-ram`) are not modelled. Cost O(slots x log pieces), and O(pieces that differ) with `cache_reuse`.

Source: the server's slot selection and its reuse of chunks, in its source; its README.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lore.cache.base import UNKNOWN, Look, Piece, Prediction, Request
from lore.cache.measured import MeasuredCache
from lore.cache.tree import Path, common_nodes, key_of
from lore.errors import LoreError

SIMILARITY = 0.1
SLOTS = 1


class _Chunk(NamedTuple):
    """What stands at a node, wherever it stands elsewhere."""

    key: bytes
    tokens: int


class _Slot:
    """What a slot holds: the nodes of its pieces, and when it was used last."""

    def __init__(self) -> None:
        self.nodes: list[int] = []
        self.generated = False
        self.used = 0


class LlamaCpp(MeasuredCache):
    """Slots of one server."""

    def __init__(
        self, look: Look, *, slots: int = SLOTS, similarity: float | None = None, cache_reuse: int | None = None,
        hybrid: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if slots < 1:
            raise LoreError("llama.cpp: a server has at least 1 slot", hint="--what-if slots=1")
        self._slots = [_Slot() for _ in range(slots)]
        share = similarity if similarity is not None else look("slot_similarity", None, None)
        self._similarity = SIMILARITY if share is None else share
        self._reuse = cache_reuse if cache_reuse is not None else int(look("cache_reuse", None, None) or 0)
        self._hybrid = hybrid
        self._clock = 0
        self._known: dict[int, _Chunk] = {}

    def predict(self, request: Request) -> Prediction:
        """Say what the chosen slot still holds of the request, and put the request there."""
        path = self._lay(request)
        counted = self._counted(request, path)
        if not request.pieces:
            return UNKNOWN
        total = self._total(request)
        slot, found, reason = self._chosen(request, path, total)
        self._note(path.nodes[path.kept :], request.pieces[path.kept :])
        if self._reuse > 0:
            found += self._shifted(slot, path.nodes)
        self._put(slot, request, path)
        confidence = "ceiling" if self._hybrid else "exact" if counted else "rule"
        return self._predicted(request, max(0, min(found, total - 1)), confidence, reason)

    def _chosen(self, request: Request, path: Path, total: int) -> tuple[_Slot, int, str]:
        """Return the slot that a request goes to, and how many tokens at its beginning it shares with it."""
        alike = [self._common(slot, request, path) for slot in self._slots]
        best = max(range(len(alike)), key=lambda number: alike[number])
        if alike[best] > self._similarity * total:
            return self._slots[best], alike[best], "the slot that is most alike"
        oldest = min(range(len(alike)), key=lambda number: self._slots[number].used)
        return self._slots[oldest], alike[oldest], "the slot used least recently: none is alike enough"

    def _common(self, slot: _Slot, request: Request, path: Path) -> int:
        """Return the tokens at a request's beginning that a slot holds."""
        place = common_nodes(slot.nodes, path.nodes)
        position = self._ruler.position(place - 1)
        if place == len(slot.nodes):
            return position - 1 if slot.generated and place else position
        if place == len(request.pieces):
            return position
        piece = request.pieces[place]
        begun = self._tree.common(slot.nodes[place], path.begins[place], piece)
        return max(position, self._ruler.inside(place, begun, len(piece.data)) if begun else 0)

    def _shifted(self, slot: _Slot, nodes: list[int]) -> int:
        """Return the tokens of chunks behind the common beginning that are shifted, each to the next open place."""
        place = common_nodes(slot.nodes, nodes)
        held, wanted = self._chunks(slot.nodes[place:]), self._chunks(nodes[place:])
        at = begin = shifted = 0
        while at < len(held) and begin < len(wanted):
            count = tokens = 0
            while at + count < len(held) and begin + count < len(wanted) and held[at + count] == wanted[begin + count]:
                tokens += held[at + count].tokens
                count += 1
            if count and tokens >= self._reuse:
                at, begin, shifted = at + count, begin + count, shifted + tokens
            else:
                at += 1
        return shifted

    def _chunks(self, nodes: Sequence[int]) -> list[_Chunk]:
        """Return what stands at nodes, but for what has no tokens: it would match without end."""
        return [chunk for node in nodes if (chunk := self._known[node]).tokens]

    def _put(self, slot: _Slot, request: Request, path: Path) -> None:
        self._clock += 1
        made = self._tree.beyond(request)
        self._note(made, request.output)
        slot.nodes = [*path.nodes, *made]
        slot.generated = bool(made)
        slot.used = self._clock

    def _note(self, nodes: Sequence[int], pieces: Sequence[Piece]) -> None:
        """Remember what stands at nodes, where chunks are looked for."""
        if self._reuse > 0:
            for node, piece in zip(nodes, pieces, strict=True):
                self._known[node] = _Chunk(key_of(piece), round(self._ruler.size(piece)))
