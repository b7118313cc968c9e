"""Results of `lore sessions` and `lore formats`. Times are in UTC."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from lore.model.results import CommandResult
from lore.model.results.overview import Spending, UnreadLogs

Holds: TypeAlias = Literal["yes", "some", "no", "unknown"]


class FoundSession(Struct, frozen=True):
    """A recorded session of an agent."""

    agent: str  # its name, such as `claude-code`; empty if the folder is no known agent's
    path: str  # of its log; a session in a database by the database and its id
    written_at: str | None  # when the log was last written; null if unknown
    bytes: int | None  # with the files of its subagents; null for a session in a database
    project: str | None = None  # the folder that the log names
    format: str | None = None  # name of the format
    session_id: str | None = None  # as the log names it; null if it names none
    title: str | None = None  # the name that its agent gave it, else its first prompt; masked, at most 70 characters
    model: str | None = None  # that its latest request names
    # whether it was read for this answer; if not, only `agent`, `path`, times, `bytes` and `title` are known
    counted: bool = False
    requests: int | None = None  # model requests, those of its subagents included
    billed_requests: int | None = None  # requests whose usage has the number of tokens read
    read_tokens: int | None = None  # tokens read from caches; null if no usage has them
    paid_again_tokens: int | None = None  # re-billed as waste
    paid_again_dollars: float | None = None  # as far as prices are known
    unexplained_tokens: int | None = None  # re-billed without a certain cause
    dollars: float | None = None  # by lore's prices, of the requests whose price is known
    recorded_dollars: float | None = None  # as the log states it
    spending: Spending | None = None  # the sums of its requests and of those of its subagents
    latest_at: str | None = None  # when its latest request was sent; null if unknown
    copied: int = 0  # requests copied from another session: not counted in this one
    problems: int = 0  # places in its files that could not be read or did not fit
    message: str | None = None  # the first problem that makes it unreadable, or why it was not counted


class FoundSessions(CommandResult, frozen=True, kw_only=True):
    """`lore sessions --json`."""

    sessions: list[FoundSession]  # the newest first
    found: int  # sessions on this machine, of those written since `--since`
    bytes: int  # size of all sessions on this machine
    read_bytes: int  # how much of it was read for this answer
    unread: list[UnreadLogs]  # logs of agents whose formats lore does not read
    looked: list[str]  # places of logs that exist
    failed: list[str]  # places that could not be listed, with the reason


class FormatResult(Struct, frozen=True):
    """A format that lore reads, and whether it records certain things."""

    name: str  # as `--format` takes it
    title: str  # in words
    holds: str  # what one file contains
    fidelity: str  # how close its prompts are to the sent bytes
    requests: Holds  # whether single requests can be distinguished
    bills: Holds  # tokens read and written by each request
    system_prompt: Holds  # whether it records the system prompt
    tools: Holds  # schemas of the tools
    compaction: Holds  # whether it records what replaced the history, and when
    lacks: str | None = None  # parts of prompts that are not recorded
    agents: list[str] = []  # names of the agents that write it; empty if it is no agent's own


class UnreadFormat(Struct, frozen=True):
    """Files of an agent that lore recognises and does not judge."""

    agent: str  # title of the agent
    what: str  # the files, in words
    message: str  # the reason


class FormatsResult(CommandResult, frozen=True, kw_only=True):
    """`lore formats --json`."""

    formats: list[FormatResult]  # session logs first, each kind in the order in which its readers are asked
    unread: list[UnreadFormat]  # files that are recognised and refused
