"""A ledger: one row for each request of a recording, with its tokens, its cost and its loss.

Sums over many recordings are made from ledgers (the overview, comparisons), and ledgers are kept between runs. They
hold numbers and names (of models, projects, tools, servers, hooks), no text of a recording. Tokens are counts of the
usage, over all passes of a response; money is in US dollars; times are seconds since the epoch; unknown values are
None, never 0.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from lore.model.codes import CauseKind
from lore.model.events import RecordedCost
from lore.model.results import UnrecordedParts


class CostParts(Struct, frozen=True, array_like=True, gc=False):
    """The cost of a request in parts that add up to the whole."""

    reading: float  # tokens read from a cache, and lost ones as if they had been read
    context: float  # new input, written to a cache or not
    output: float  # what the model wrote
    tools: float  # tools that the provider ran
    again: float  # what re-billed tokens cost beyond the price of reading

    @property
    def total(self) -> float:
        """The cost of the request."""
        return self.reading + self.context + self.output + self.tools + self.again


class Loss(Struct, frozen=True, array_like=True, gc=False):
    """A cache break: cached tokens that a request did not read, and the leading cause."""

    code: str  # of the cause
    kind: CauseKind  # of the cause
    tokens: int  # 0 if no usage counts them
    names: tuple[str, ...] = ()  # at most three that the evidence names: hooks, servers, tools, models, a field
    lifetime: float | None = None  # seconds that the cache lives, if the pause was longer
    detail: str = ""  # what selects a more precise fix of the user


class MissedRead(Struct, frozen=True, array_like=True, gc=False):
    """Tokens that were not re-billed, and that this request and later ones could have read from a cache."""

    code: str  # of the finding
    kind: CauseKind  # of the finding
    requests: int  # that could have read them
    tokens: int  # summed over these requests
    dollars: float | None  # what they cost beyond the price of reading them; None if no price is known
    detail: str = ""  # what selects a more precise fix


class UnloggedWork(Struct, frozen=True, array_like=True, gc=False):
    """Requests that a recording mentions and does not hold."""

    kind: Literal["subagent", "compaction"]  # a subagent's requests, or the one for a summary
    name: str  # id of the subagent, or of the compaction's record
    tokens: int  # that the recording states for it; 0: none


UnknownPart: TypeAlias = Literal["output", "writes", "prompt", "price"]


class LedgerRow(Struct, frozen=True, array_like=True, gc=False):
    """One request."""

    chain: str  # the conversation that it belongs to
    number: int  # in its chain, from 1
    line: int | None  # where the recording holds it
    at: float | None  # when it was sent
    model: str | None  # that answered
    client: str  # name and version; empty if unknown
    gateway: str  # the host that was asked; empty if unknown
    response_id: str  # empty if unknown
    prompt_tokens: int | None  # all input
    uncached_tokens: int | None  # None: not recorded
    read_tokens: int | None  # as above
    write_tokens: int | None  # as above
    output_tokens: int | None  # as above
    billed: bool  # whether any count of the prompt is known
    spent: CostParts | None  # by lore's prices
    loss: Loss | None  # what had to be paid for again; None: nothing
    appended: bool | None  # whether everything cached was read; None if more than the provider may have lost the prefix
    compacted: bool  # a compaction removed earlier messages
    answered: float | None = None  # when the response began
    is_inherited: bool = False  # another session sent it, and this session is a fork of that one
    unknown: tuple[UnknownPart, ...] = ()  # what `spent` leaves out
    recorded: RecordedCost | None = None  # the cost that the log states
    missed: MissedRead | None = None  # what breakpoints did not cover, reported at its first request
    # why it cost more than the list price (fast mode, …), and by how many dollars; negative: less
    surcharge: tuple[str, float] | None = None
    unlogged: tuple[UnloggedWork, ...] = ()  # what the recording mentions after this request


class CompactionTrial(Struct, frozen=True, array_like=True):
    """What earlier compactions would have saved in a session; a session that they do not fit has no saving."""

    compactions: int = 0
    saved_dollars: float | None = None
    cost_dollars: float = 0.0  # of the whole log as it was


class Ledger(Struct, frozen=True):
    """The rows of one recording, in the order of its turns."""

    path: str  # of the recording
    format: str = ""  # name of its reader
    session: str = ""  # its id
    project: str | None = None  # the folder that it is about
    written: float | None = None  # when it was last written
    bytes: int = 0  # of the file, when it was listed
    rows: tuple[LedgerRow, ...] = ()  # one for each request
    problems: int = 0  # how many there were
    message: str | None = None  # the first problem that makes requests unreadable
    unseen: UnrecordedParts | None = None  # parts of prompts that the format does not record
    origin: str = ""  # the session whose requests a fork's log begins with: its id or path
