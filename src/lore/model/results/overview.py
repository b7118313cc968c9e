"""What was spent: what bare `lore` and `lore compare` answer. Money is in US dollars; unknown is None, never 0."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from lore.model.codes import Actor, CauseKind
from lore.model.results import CommandResult
from lore.model.results.found import UnreadLogs

GroupBy: TypeAlias = Literal["day", "session", "model", "project", "agent"]


class Spending(Struct, frozen=True, kw_only=True):
    """What requests came to. `name` says which: a day, a model, an agent, the path of a session.

    `requests` of `sessions`; of them `unbilled` have no bill, and of those with one `unpriced` have no known price:
    neither is in the sums of money. Tokens are those of every pass. `dollars` is the sum of its parts: `reading` from
    a cache (what was lost counted as read), `context` that was new, `output`, `tools` that the provider ran,
    `paid_again` for tokens that stood in the prompt before, and `unexplained`, paid again where nothing surely says
    why. `median_prompt_tokens` and `largest_prompt_tokens` are of single requests; `subagent_dollars` is what chains
    beside the main one cost; `appends` and `appends_read` say how reliably the provider read what only it could lose.
    """

    name: str
    sessions: int
    requests: int
    unbilled: int
    unpriced: int
    uncached_tokens: int
    read_tokens: int
    write_tokens: int
    output_tokens: int
    paid_again_tokens: int
    unexplained_tokens: int
    dollars: float | None
    reading: float | None
    context: float | None
    output: float | None
    tools: float | None
    paid_again: float | None
    unexplained: float | None
    breaks: int
    compactions: int
    median_prompt_tokens: int | None
    largest_prompt_tokens: int | None
    subagent_requests: int
    subagent_dollars: float | None
    appends: int
    appends_read: int


class SpendingCause(Struct, frozen=True, kw_only=True):
    """What one cause cost: of one code, and what it names (`names`; `lifetime` in seconds, where pauses were longer).

    `says` is the cause in words, `fix` what to do, `command` what to run next to see it.
    """

    code: str
    name: str
    kind: CauseKind
    actor: Actor
    names: list[str]
    lifetime: float | None
    sessions: int
    turns: int
    tokens: int
    dollars: float | None
    says: str
    fix: str
    command: str


class SpendingSession(Struct, frozen=True, kw_only=True):
    """The session that cost most. `saving` is what `compactions` of a trial would have saved of it, an estimate;
    `command` shows them, else its turns."""

    path: str
    agent: str
    project: str | None
    at: float | None
    requests: int
    dollars: float | None
    largest_prompt_tokens: int | None
    paid_again: float | None
    command: str
    saving: float | None = None
    compactions: int | None = None


class Overview(CommandResult, frozen=True, kw_only=True):
    """`lore --json`: what was spent between two times, in seconds since the epoch, and what was paid again.

    `agents` and `groups` (by `by`) stand in the order of what they cost, days in theirs; `causes` are those whose loss
    is waste or expected, `unexplained` the others; `before` is the same length of time before that. `looked` are the
    places where recordings were looked for; `files` were read, or `kept` since the last time; `copied` requests stand
    in several files and count once.
    """

    since: float | None
    until: float | None
    total: Spending
    agents: list[Spending]
    causes: list[SpendingCause]
    unexplained: list[SpendingCause]
    biggest: SpendingSession | None
    by: GroupBy | None
    groups: list[Spending]
    before: Spending | None
    before_causes: list[SpendingCause]
    files: int
    kept: int
    copied: int
    problems: int
    failed: list[str]
    unread: list[UnreadLogs]
    looked: list[str]
    notes: list[str]


Outcome: TypeAlias = Literal["higher", "lower", "no-difference", "too-few", "unknown"]


class Interval(Struct, frozen=True):
    """Where a value lies with 95 % confidence, by what was counted `over`: sessions, or requests of few sessions."""

    low: float
    high: float
    over: Literal["sessions", "requests"]


class MeasureSide(Struct, frozen=True):
    """A ratio of one side: `events` of `trials`, in `sessions` of which both are known; None: nothing is known."""

    value: float | None
    events: float
    trials: int
    sessions: int
    interval: Interval | None


class Measure(Struct, frozen=True, kw_only=True):
    """A measure of both sides. `difference` is the right one's value less the left's, `interval` where that lies.

    `share_read`: of all tokens of prompts, those read from a cache; `breaks`: of billed requests, those that lost
    something; `reliability`: of appends that only the provider could lose, those that were read; `prompt`, `output`
    (tokens), `money`, `paid_again` (dollars, what is unexplained included): a billed request. `outcome` says what the
    right side is; `too-few`: the counts are too small to say.
    """

    name: str
    unit: str
    left: MeasureSide
    right: MeasureSide
    difference: float | None
    interval: Interval | None
    outcome: Outcome


class ComparedCause(Struct, frozen=True, kw_only=True):
    """How often a cause was met on each side, of the billed requests, and what it cost."""

    code: str
    name: str
    kind: CauseKind
    says: str
    fix: str
    left: MeasureSide
    right: MeasureSide
    left_dollars: float | None
    right_dollars: float | None
    outcome: Outcome


class ComparedSide(Struct, frozen=True, kw_only=True):
    """One side: as it was asked for, when its requests were sent (seconds since the epoch), what they came to."""

    name: str
    first: float | None
    last: float | None
    clients: list[str]
    models: list[str]
    spending: Spending


class Comparison(CommandResult, frozen=True, kw_only=True):
    """`lore compare --json`: two sides, measures of both, and causes, those first that differ most in money."""

    left: ComparedSide
    right: ComparedSide
    measures: list[Measure]
    causes: list[ComparedCause]
    files: int
    kept: int
    copied: int
    problems: int
    failed: list[str]
    looked: list[str]
    notes: list[str]
