"""Settings of memory: `[memory]` and `[sessions]` of lore.toml."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

MOST_SECS = 1_000_000_000  # seconds: no pause is longer, and dates stay dates


class Sessions(Struct, frozen=True, forbid_unknown_fields=True):
    """`[sessions]`: `gap_secs` of silence after which what was said is dreamt over; 0 is off."""

    gap_secs: int = 300

    def fault(self) -> str:
        """Say what is wrong; empty where nothing is."""
        return (
            "gap_secs is below 0"
            if self.gap_secs < 0
            else f"gap_secs is above {MOST_SECS:,}" * (self.gap_secs > MOST_SECS)
        )


class MemorySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """`[memory]`: `system = "structured"` remembers, for the agents that are listed (empty: the main one).

    Those in `share` are opted in as well, and have one memory of a user together: each learns into it, and is told it.
    `"summarization"`, openfang's word for summaries alone, is the same as nothing: nothing is remembered.
    """

    system: Literal["", "structured", "summarization"] = ""
    agents: tuple[str, ...] = ()
    share: tuple[str, ...] = ()

    def fault(self) -> str:
        """Say what is wrong; empty where nothing is."""
        for key, names in (("agents", self.agents), ("share", self.share)):
            if not all(name.isprintable() and name for name in names):
                return f"{key}: a name cannot be printed"
        return "share: list the agents by name" if "*" in self.share else ""
