"""How prompts are simulated: the settings of `[simulate]` in `lore.toml`. Money is in US dollars, always."""

from __future__ import annotations

from msgspec import Struct


class Simulate(Struct, frozen=True, forbid_unknown_fields=True):
    """Which rules and cache models hold, and how near a prediction has to come.

    `rules`: a file of rows that are put over the packaged ones; a relative path begins at the settings file.
    `caches`: names of cache models; empty: chosen from provider and model. `tolerance`: by what share of the
    prompt a billed read may fall short of its prediction.
    """

    rules: str | None = None
    caches: tuple[str, ...] = ()
    tolerance: float = 0.02

    def fault(self) -> str:
        """Say what is wrong with these settings; empty where nothing is."""
        if self.rules is not None and not self.rules.strip():
            return "rules is empty: name a file"
        if any(not name.strip() for name in self.caches):
            return "caches holds an empty name"
        if not 0 <= self.tolerance < 1:
            return f"tolerance is {self.tolerance}, and not a share from 0 to below 1"
        return ""
