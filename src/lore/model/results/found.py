"""Results of `lore sessions` and `lore formats`.

Unknown is None, never 0; times are in UTC.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from lore.model.results import CommandResult

Holds: TypeAlias = Literal["yes", "some", "no", "unknown"]


class FoundSession(Struct, frozen=True):
    """A session of an agent: where it is, when it was last written, its size with its subagents' files (None: it lies
    in a database, and was not read).

    `counted`: it was read for this answer; else its counts are None. `billed_requests` say what they read; of them
    `read_tokens` were billed as read from a cache, `paid_again_tokens` were paid again without need,
    `unexplained_tokens` paid again for no reason that is sure; `paid_again_dollars` as far as prices are known.
    `problems` counts what is wrong with it, `message` says the first that makes it unreadable, or why it was not
    counted.
    """

    agent: str
    path: str
    written_at: str | None
    bytes: int | None
    project: str | None = None
    format: str | None = None
    session_id: str | None = None
    model: str | None = None
    counted: bool = False
    requests: int | None = None
    billed_requests: int | None = None
    read_tokens: int | None = None
    paid_again_tokens: int | None = None
    paid_again_dollars: float | None = None
    unexplained_tokens: int | None = None
    problems: int = 0
    message: str | None = None


class UnreadLogs(Struct, frozen=True):
    """Logs of an agent that lore does not read: where they are, how many files, and why."""

    agent: str
    title: str
    path: str
    files: int
    message: str


class FoundSessions(CommandResult, frozen=True, kw_only=True):
    """`lore sessions --json`: the newest first.

    `found` are all sessions that there are, `bytes` their size; `read_bytes` were read for this answer. `looked` are
    the places of logs that lore reads and that are there; `failed` those that could not be listed, and why.
    """

    sessions: list[FoundSession]
    found: int
    bytes: int
    read_bytes: int
    unread: list[UnreadLogs]
    looked: list[str]
    failed: list[str]


class FormatResult(Struct, frozen=True):
    """A format that lore reads: whose it is, what one file of it holds, how near its prompts are to what was sent.

    `requests` each request can be told, `bills` what each read and wrote, `system_prompt`, `tools` (their schemas) and
    `compaction` (what replaced the history, and when): whether the format records them. `lacks` says what is missing.
    """

    name: str
    title: str
    holds: str
    fidelity: str
    requests: Holds
    bills: Holds
    system_prompt: Holds
    tools: Holds
    compaction: Holds
    lacks: str | None = None
    agents: list[str] = []


class UnreadFormat(Struct, frozen=True):
    """Files of an agent that lore names and does not judge, and why."""

    agent: str
    what: str
    message: str


class FormatsResult(CommandResult, frozen=True, kw_only=True):
    """`lore formats --json`: what lore reads, those of plug-ins last; what it only names."""

    formats: list[FormatResult]
    unread: list[UnreadFormat]
