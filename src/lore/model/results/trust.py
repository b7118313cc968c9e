"""Result of `lore trust`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from lore.model.results import CommandResult


class TrustedFile(Struct, frozen=True):
    """A settings file that this user approved."""

    path: str  # of the settings file
    state: Literal["approved", "changed", "missing"]  # now; `changed` since: it has to be approved again
    settings: list[str]  # commands, endpoints and keys, as `NAME: VALUE`; empty if it was changed or is missing


class TrustResult(CommandResult, frozen=True, kw_only=True):
    """`lore trust --json`: the files that were approved or removed, or with --list all that are approved."""

    action: Literal["approved", "removed", "listed"]  # what was done with the files
    files: list[TrustedFile]  # by path
