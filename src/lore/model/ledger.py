"""A ledger: of one recording a row a request, in numbers and names alone: what it was, cost, read, and paid again.

What sums over many recordings are made of (the overview, comparisons of two sides), and what is kept of a recording
between two runs. No text of a recording is in it but names: of models, projects, tools, servers, hooks. Tokens are
counts as billed, of every pass of a response; money is in US dollars; what is unknown is None, never 0.
"""

from __future__ import annotations

from msgspec import Struct

from lore.model.codes import CauseKind
from lore.model.results import UnrecordedParts


class CostParts(Struct, frozen=True, array_like=True, gc=False):
    """What a request cost, in US dollars, each part once: their sum is its bill.

    `reading` is what was read from a cache, and what had been read if nothing had been lost; `again` what was paid
    beyond that for tokens that stood in the prompt before; `context` what was new, whether it was written to a cache
    or not; `tools` are requests of tools that the provider ran.
    """

    reading: float
    context: float
    output: float
    tools: float
    again: float

    @property
    def total(self) -> float:
        """The whole bill."""
        return self.reading + self.context + self.output + self.tools + self.again


class Loss(Struct, frozen=True, array_like=True, gc=False):
    """What the next request did not read again, and the leading cause of it.

    `names` are what the evidence names: hooks, servers, tools, models, a field; at most three. `lifetime` is how long
    the cache lives, in seconds, where a pause was longer.
    """

    code: str
    kind: CauseKind
    tokens: int
    names: tuple[str, ...] = ()
    lifetime: float | None = None


class LedgerRow(Struct, frozen=True, array_like=True, gc=False):
    """One request. `at` is when it was sent, `answered` when its response began, in seconds since the epoch.

    `number` and `line` say where the recording holds it; `prompt_tokens` is the size of what was sent; `appended`:
    None where anything but the provider may have moved the prefix, else whether all that stood in the cache was read;
    `compacted`: what was sent before was compacted away. `response_id` is empty where it is not known.
    """

    chain: str
    number: int
    line: int | None
    at: float | None
    model: str | None
    client: str
    gateway: str
    response_id: str
    prompt_tokens: int | None
    uncached_tokens: int | None
    read_tokens: int | None
    write_tokens: int | None
    output_tokens: int | None
    billed: bool
    spent: CostParts | None
    loss: Loss | None
    appended: bool | None
    compacted: bool
    answered: float | None = None


class Ledger(Struct, frozen=True):
    """The rows of one recording, in the order of its turns.

    `session` is its id, `project` the folder that it was about; `written` is when it was written last (seconds since
    the epoch), `bytes` how long it is. `problems` counts what is wrong with it, `message` says the first that makes
    requests of it unreadable; `unseen` is what such logs lack of their prompts.
    """

    path: str
    format: str = ""
    session: str = ""
    project: str | None = None
    written: float | None = None
    bytes: int = 0
    rows: tuple[LedgerRow, ...] = ()
    problems: int = 0
    message: str | None = None
    unseen: UnrecordedParts | None = None
