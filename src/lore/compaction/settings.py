"""Settings of continuous compaction: `[compaction]` of lore.toml, or a policy file.

Without a `[compaction]` table nothing is probed, read or spent.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import fields

MOST = 1_000_000_000  # units of any count: no window is larger, no pause longer, and dates stay dates
SUMMARIZERS = ("extractive", "command", "openai")


class ContextSource(Struct, frozen=True, forbid_unknown_fields=True):
    """A source of outside context that is allowed."""

    name: str
    command: tuple[str, ...]  # run without a shell
    prompt: str = ""  # the question to it

    def fault(self) -> str:
        """Return the first fault; empty without one."""
        if not self.name or not self.name.isprintable():
            return "name is empty, or cannot be printed"
        return "" if self.command and self.command[0] else "command is empty"


class Compaction(Struct, frozen=True, forbid_unknown_fields=True):
    """When and how a session is compacted. A trigger whose number is 0 is off."""

    continuous_interval: int = 0  # user exchanges between two compactions
    keep_recent: int = 6  # messages (items of the timeline) that stay
    gap_secs: int = 0  # a pause after which the user's return compacts
    gap_max_lookback_secs: int = 86_400  # sources are asked about at most so long a time
    window: int = 0  # tokens of the model's context window; 0: unknown, and overflow is never judged
    context_token_cap: int = 2_000  # tokens that the sources may add
    context_sources: tuple[ContextSource, ...] = ()
    summarizer: str = "extractive"
    summary_tokens: int = 1_024  # that a summary may have
    summarizer_window: int = 200_000  # tokens that a summariser reads at once; 0: any number
    command: tuple[str, ...] = ()  # of the summariser "command"
    endpoint: str = ""  # of the summariser "openai"
    model: str = ""
    key_env: str = ""  # names the environment variable that holds the endpoint's key
    timeout_secs: float = 60.0  # for each answer of a summariser

    def fault(self) -> str:
        """Return the first fault of these settings; empty without one."""
        for name, count in [(field.name, getattr(self, field.name)) for field in fields(self) if field.type is int]:
            if type(count) is not int:
                return f"{name} is not a whole number"
            if not 0 <= count <= MOST:
                return f"{name} is below 0" if count < 0 else f"{name} is above {MOST:,}"
        names = [source.name for source in self.context_sources]
        faults = {
            "summary_tokens is 0: a summary needs tokens": not self.summary_tokens,
            "timeout_secs is not a number of seconds between 0 and a day": not 0 < self.timeout_secs < 86_400,
            f"summarizer {self.summarizer!r} is unknown: {', '.join(SUMMARIZERS)}": self.summarizer not in SUMMARIZERS,
            'command is missing: summarizer = "command" runs it': self.summarizer == "command" and not self.command,
            'endpoint and model are missing: summarizer = "openai" asks them': (
                self.summarizer == "openai" and not (self.endpoint and self.model)
            ),
            "context_sources: two have the same name": len(set(names)) != len(names),
            **{
                f"context_sources, {source.name!r}: {source.fault()}": source.fault() for source in self.context_sources
            },
        }
        return next((text for text, is_fault in faults.items() if is_fault), "")


def outside_settings(compaction: Compaction, *, sources: bool = True) -> dict[str, str]:
    """Return the settings in use that run a program or send content elsewhere, by name, with their values.

    `sources`: also the context sources, which only a compaction asks.
    """
    settings: dict[str, str] = {}
    if compaction.summarizer == "command":
        settings["compaction.command"] = " ".join(compaction.command)
    if compaction.summarizer == "openai":
        settings["compaction.endpoint"] = compaction.endpoint
        if compaction.key_env:
            settings["compaction.key_env"] = compaction.key_env
    for source in compaction.context_sources if sources else ():
        settings[f"compaction.context_sources {source.name}"] = " ".join(source.command)
    return settings


TRIAL_SETTINGS = Compaction(keep_recent=20)  # what a trial keeps without a policy
