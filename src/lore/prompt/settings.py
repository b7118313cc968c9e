"""How prompts are assembled: the settings of `[assemble]` in `lore.toml`, the same for the library."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Policy: TypeAlias = Literal["system", "user", "persist"]
POLICIES: tuple[Policy, ...] = ("system", "user", "persist")
BreakpointSource: TypeAlias = Literal["lore", "recorded", "none"]
Ttl: TypeAlias = Literal["5m", "1h"]


class Rules(Struct, frozen=True, forbid_unknown_fields=True):
    """Where volatile context goes, how much a delta may say, which cache breakpoints are set.

    `tail`: a system message where the model takes one (`system`), the user's last message (`user`), or
    written into history (`persist`). `knowledge_tokens` is the budget of a delta's entries, estimated;
    `removals` says that a change which only takes entries back gives a delta too. `breakpoints`: lore's own, the
    recorded ones, or none; `head_ttl` is the lifetime asked for tools and system prompt, `ttl` for the rest.
    `bos_token` and `eos_token` are what chat templates get under these names.
    """

    tail: Policy = "system"
    knowledge_tokens: int = 400
    removals: bool = True
    breakpoints: BreakpointSource = "lore"
    head_ttl: Ttl = "5m"
    ttl: Ttl = "5m"
    bos_token: str = ""
    eos_token: str = ""

    def fault(self) -> str | None:
        """Say what cannot be; None where all can."""
        for name, known in _KNOWN.items():
            if getattr(self, name) not in known:
                return f"{name} {getattr(self, name)!r} is none of {', '.join(known)}"
        if self.knowledge_tokens < 1:
            return "knowledge_tokens must be at least 1"
        if (self.head_ttl, self.ttl) == ("5m", "1h"):
            return "head_ttl must not be shorter than ttl: a longer-lived breakpoint comes first"
        return None


_KNOWN: dict[str, tuple[str, ...]] = {
    "tail": POLICIES, "breakpoints": ("lore", "recorded", "none"), "head_ttl": ("5m", "1h"), "ttl": ("5m", "1h"),
}  # fmt: skip
