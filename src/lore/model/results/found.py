"""Results of `lore sessions` and `lore formats`. Times are in UTC."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from lore.model.results import CommandResult
from lore.model.results.overview import Spending, UnreadLogs

Holds: TypeAlias = Literal["yes", "some", "no", "unknown"]


class FoundSession(Struct, frozen=True):
    """A recorded session of an agent. The counts are null unless it is `counted`."""

    agent: str
    path: str
    written_at: str | None
    bytes: int | None  # with the files of its subagents; null for a session in a database
    project: str | None = None
    format: str | None = None
    session_id: str | None = None
    title: str | None = None  # the name that its agent gave it, else its first prompt; masked, at most 70 characters
    model: str | None = None
    counted: bool = False  # whether it was read for this answer
    requests: int | None = None
    billed_requests: int | None = None  # requests whose usage has the number of tokens read
    read_tokens: int | None = None
    paid_again_tokens: int | None = None  # re-billed as waste
    paid_again_dollars: float | None = None  # as far as prices are known
    unexplained_tokens: int | None = None  # re-billed without a certain cause
    dollars: float | None = None  # by lore's prices, of the requests whose price is known
    recorded_dollars: float | None = None  # as the log states it
    spending: Spending | None = None  # the sums of its requests and of those of its subagents
    problems: int = 0
    message: str | None = None  # the first problem that makes it unreadable, or why it was not counted


class FoundSessions(CommandResult, frozen=True, kw_only=True):
    """`lore sessions --json`."""

    sessions: list[FoundSession]  # the newest first
    found: int  # sessions on this machine
    bytes: int  # their size
    read_bytes: int  # how much of it was read for this answer
    unread: list[UnreadLogs]
    looked: list[str]  # places of logs that exist
    failed: list[str]  # places that could not be listed, with the reason


class FormatResult(Struct, frozen=True):
    """A format that lore reads, and whether it records certain things."""

    name: str
    title: str
    holds: str  # what one file contains
    fidelity: str
    requests: Holds  # whether single requests can be distinguished
    bills: Holds  # tokens read and written by each request
    system_prompt: Holds
    tools: Holds  # schemas of the tools
    compaction: Holds  # what replaced the history, and when
    lacks: str | None = None  # parts of prompts that are not recorded
    agents: list[str] = []


class UnreadFormat(Struct, frozen=True):
    """Files of an agent that lore recognises and does not judge."""

    agent: str
    what: str
    message: str  # the reason


class FormatsResult(CommandResult, frozen=True, kw_only=True):
    """`lore formats --json`."""

    formats: list[FormatResult]  # those of plug-ins last
    unread: list[UnreadFormat]
