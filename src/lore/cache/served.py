"""Which rules a request falls under: whose model it asks for, where, and by what name.

In: endpoint, model, dialect, as recorded. Out: the maker of the model (`provider`), the cloud or gateway that
serves it (`platform`; empty: the maker's own), and one spelling of a model's name for all of them.
Sources: the model lists of Anthropic, Bedrock and Vertex; names as recordings hold them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lore.model.providers import UNKNOWN, provider_of

PLATFORMS = frozenset(("azure", "bedrock", "openrouter", "vertex"))  # those of `provider_of` that make no models
LONGEST = 200  # characters of a name: a longer one is no model's


class Served(NamedTuple):
    """Who made the model that is asked for, and where it is served; empty where that is not known."""

    provider: str
    platform: str


def served(endpoint: str, model: str | None, dialect: str) -> Served:
    """Name provider and platform of a request."""
    host = provider_of(endpoint, model, dialect)
    if host in PLATFORMS:
        return Served(_maker(model, host), host)
    if host == UNKNOWN and not endpoint:  # no host was recorded: the model's name says whose it is
        return Served(provider_of("", normal(model), ""), "")
    return Served(host, "")


def _maker(model: str | None, host: str) -> str:
    made = provider_of("", normal(model), "")
    return made or ("openai" if host == "azure" else UNKNOWN)


_VENDOR = re.compile(
    r"^(?:(?:us|us-gov|eu|apac|jp|au|ca|sa|global)\.)?"
    r"(?:anthropic|openai|deepseek|qwen|moonshot|moonshotai|xai|google|amazon|meta|mistral)\."
)
_DATE = re.compile(r"(?:@(?:\d{8}|latest|default)|-\d{8}|-\d{4}-\d\d-\d\d|-latest)$")
_PLATFORM_VERSION = re.compile(r"-v\d+(?::\w+)*$")
_WINDOW = re.compile(r"\[\d+m\]$")  # Claude Code's sign of a long context window
_NUMBER_FIRST = re.compile(r"^claude-(\d(?:-\d)?)-(opus|sonnet|haiku)(?=$|-)")


def normal(model: str | None) -> str:
    """Spell a model's name as the tables do: lower case, without vendor, region, date and a platform's version.

    Claude's versions are joined by hyphens and stand behind the family (`claude-sonnet-4.6`,
    `us.anthropic.claude-sonnet-4-6-v1:0` and `claude-sonnet-4-6@20260217` are `claude-sonnet-4-6`).
    """
    if not model or len(model) > LONGEST:
        return ""
    name = _VENDOR.sub("", model.strip().lower().rsplit("/", 1)[-1])
    name = _WINDOW.sub("", name)
    if not name.startswith("claude"):
        return _DATE.sub("", name)
    name = _DATE.sub("", _PLATFORM_VERSION.sub("", _DATE.sub("", name)))
    return _NUMBER_FIRST.sub(r"claude-\2-\1", name.replace(".", "-").removesuffix("-thinking"))
