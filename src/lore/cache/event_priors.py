"""How likely a sign is to move the prefix: measured before, and learned within the session.

Rules: the chance that was measured over many sessions counts as much as `WEIGHT` occurrences; what this
session's own turns showed is added to it. A drop is foreseen where the sum is `LIKELY`, so that few are false.

Source: chances of a drop given the evidence and within the lifetime, over 38,782 transitions of 769 sessions.
Text of hooks beside results was not counted there: its chance is unknown (a half) until the session shows it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

WEIGHT = 2.0
LIKELY = 0.75

Reach: TypeAlias = Literal["head", "history"]


class Chance(NamedTuple):
    """How often a drop followed, and what it moved: the `head` (tools and system) or the `history` behind it."""

    share: float
    reach: Reach


CHANCES: dict[str, Chance] = {
    "client-version": Chance(1.0, "head"),
    "effort": Chance(1.0, "history"),
    "resume": Chance(0.67, "history"),
    "api-error": Chance(0.51, "history"),
    "hook-context": Chance(0.5, "history"),
    "slash-command": Chance(0.44, "history"),
    "tool-reference": Chance(0.33, "head"),
    "micro-compaction": Chance(0.33, "history"),
    "permission-mode": Chance(0.25, "history"),
    "interrupt": Chance(0.19, "history"),
    "tools-delta": Chance(0.15, "head"),
    "instructions-delta": Chance(0.15, "head"),
    "skill": Chance(0.14, "history"),
    "image": Chance(0.08, "history"),
}


class Habits:
    """What followed each sign in one session."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}

    def chance(self, name: str) -> float:
        """Return how likely a drop is where this sign was seen."""
        known = CHANCES.get(name)
        if known is None:
            return 0.0
        seen, fell = self._seen.get(name, (0, 0))
        return (known.share * WEIGHT + fell) / (WEIGHT + seen)

    def learn(self, name: str, *, fell: bool) -> None:
        """Take what followed a sign."""
        if name in CHANCES:
            seen, before = self._seen.get(name, (0, 0))
            self._seen[name] = seen + 1, before + fell
