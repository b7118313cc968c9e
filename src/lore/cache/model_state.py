"""What a level model remembers of one model's part of a conversation: positions that bills told, and its head.

A lane is what one model was sent on one chain. Its anchors are known positions: after so many entries of the
timeline stand so many tokens, kept for so long. Rules: anchors ascend in entries and tokens; what is popped
was changed, has expired or was shown not to be there, and never comes back, so that all work is O(turns).

The head (tools and system, which a transcript does not hold) has two sizes: `floor`, what is read where the
lane's own entries are of no use (expired, other tools), since other sessions keep it; and `head`, what is
read where only history changed. Both are learned from the lane's first turn and its drops.
"""

from __future__ import annotations

from typing import NamedTuple

from lore.cache.growth import History
from lore.cache.lifetime import GRACE
from lore.cache.rates import Rate
from lore.model.vector import Vector


class Anchor(NamedTuple):
    """A known position: `tokens` stand after `size` entries; `lifetime` in seconds, None where not known."""

    size: int
    tokens: int
    lifetime: float | None = None


class Lane:
    """One model's part of a chain."""

    def __init__(self) -> None:
        self.anchors: list[Anchor] = []
        self.entries: History = Vector()
        self.rest: tuple[object, ...] = ()
        self.used: float | None = None
        self.floor: int | None = None
        self.known_head: int | None = None
        self.first: int | None = None
        self.opening = 0
        self.guessed = False
        self.rate = Rate()

    @property
    def top(self) -> Anchor | None:
        """The last position that is known."""
        return self.anchors[-1] if self.anchors else None

    @property
    def head(self) -> int:
        """What is read where all history changed: as learned, else what was there at first, else a guess."""
        if self.known_head is not None:
            return self.known_head
        return self.floor or max(0, (self.first or 0) - self.opening)

    def at(self, size: int) -> Anchor | None:
        """Return the last known position within the first `size` entries, and forget those behind it."""
        while self.anchors and self.anchors[-1].size > size:
            self.anchors.pop()
        return self.top

    def before(self, size: int) -> Anchor | None:
        """Return the last known position within the first `size` entries, where a later one may hold again."""
        place = len(self.anchors) - 1
        while place >= 0 and self.anchors[place].size > size:
            place -= 1
        return self.anchors[place] if place >= 0 else None

    def outlive(self, pause: float) -> Anchor | None:
        """Return the last position that is still kept after a pause, and forget what died behind it."""
        while self.anchors and not lives(self.anchors[-1], pause):
            self.anchors.pop()
        return self.top

    def put(self, anchor: Anchor) -> None:
        """Add a position at the end; what it contradicts goes."""
        while self.anchors and (self.anchors[-1].size >= anchor.size or self.anchors[-1].tokens > anchor.tokens):
            self.anchors.pop()
        self.anchors.append(anchor)

    def shown(self, read: int) -> None:
        """Take that no more than this was read: what stands behind it is not there."""
        while self.anchors and self.anchors[-1].tokens > read:
            self.anchors.pop()


def lives(anchor: Anchor, pause: float) -> bool:
    """Tell whether an entry is kept after a pause; where its lifetime is not known, nothing says that it died."""
    return anchor.lifetime is None or pause <= anchor.lifetime * GRACE
