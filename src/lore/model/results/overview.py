"""Results of bare `lore` and of `lore compare`: spending in US dollars. Unknown values are null, never 0."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from lore.model.codes import Actor, CauseKind
from lore.model.results import CommandResult

GroupBy: TypeAlias = Literal["day", "week", "month", "session", "model", "project", "agent"]


class Spending(Struct, frozen=True, kw_only=True):
    """Tokens and cost of a group of requests. `dollars` is the sum of the seven amounts that follow it."""

    name: str  # a day, a week (2026-W05), a month, a model, an agent, a project, or the path of a session
    sessions: int
    requests: int
    unbilled: int  # requests without usage, or with output tokens alone
    unpriced: int  # requests with usage and without a known price; neither is in the amounts
    at_least: int  # requests of which a count or a price is unknown: the amounts hold the rest of their cost
    uncached_tokens: int  # tokens of all passes of all responses
    read_tokens: int
    write_tokens: int
    output_tokens: int
    paid_again_tokens: int  # re-billed without need
    unexplained_tokens: int  # re-billed, without a certain cause
    expected_tokens: int  # re-billed, as expected: after a compaction, a pause, another model
    dollars: float | None
    reading: float | None  # tokens read from a cache, and lost ones as if they had been read
    context: float | None  # new input
    output: float | None
    tools: float | None  # tools that the provider ran
    paid_again: float | None  # what `paid_again_tokens` cost beyond the price of reading
    unexplained: float | None  # what `unexplained_tokens` cost beyond the price of reading
    expected: float | None  # what `expected_tokens` cost beyond the price of reading
    breaks: int
    compactions: int
    median_prompt_tokens: int | None  # of single requests
    largest_prompt_tokens: int | None
    subagent_requests: int  # in chains other than the main one
    subagent_dollars: float | None
    appends: int  # requests whose prefix only the provider could lose
    appends_read: int  # how many of them were read
    recorded_dollars: float | None = None  # the cost that the logs themselves state, not lore's prices
    recorded_requests: int = 0  # how many requests that is the cost of, as the logs count them
    premium_requests: float | None = None  # GitHub Copilot's older unit, as the logs count them
    title: str | None = None  # of a session: the name that its agent gave it, else its first prompt


class SpendingCause(Struct, frozen=True, kw_only=True):
    """The cost of one cause."""

    code: str
    name: str
    kind: CauseKind
    actor: Actor
    names: list[str]  # what the evidence names: hooks, servers, tools, models
    lifetime: float | None  # seconds that the cache lives, if pauses were longer
    sessions: int
    turns: int
    tokens: int
    dollars: float | None
    says: str  # the cause in words
    fix: str
    command: str  # the command that shows it


class SpendingSession(Struct, frozen=True, kw_only=True):
    """The session that cost most."""

    path: str
    agent: str
    project: str | None
    at: float | None
    requests: int
    dollars: float | None
    largest_prompt_tokens: int | None
    paid_again: float | None
    command: str  # the command that shows its compactions, else its turns
    saving: float | None = None  # what earlier compactions would have saved in a trial, an estimate
    compactions: int | None = None  # how many these are
    title: str | None = None  # the name that its agent gave it, else its first prompt


class UnreadLogs(Struct, frozen=True):
    """Logs of an agent in a format that lore does not read."""

    agent: str
    title: str
    path: str
    files: int
    message: str  # the reason


class PlanLimit(Struct, frozen=True, kw_only=True):
    """A window of a subscription plan that has not reset yet, and what was sent in it."""

    agent: str
    minutes: int  # length of the window: 300 is a five-hour block, 10,080 a week
    used_percent: float  # as the newest log says
    resets_at: float  # seconds since the epoch
    requests: int | None  # sent in the window so far; null if it began before the sums
    tokens: int | None  # input and output of these requests
    dollars: float | None  # their cost


class Overview(CommandResult, frozen=True, kw_only=True):
    """`lore --json`: spending and re-billed tokens in a span of time."""

    since: float | None  # seconds since the epoch
    until: float | None
    total: Spending
    agents: list[Spending]  # the costliest first
    causes: list[SpendingCause]  # of waste and of expected losses
    unexplained: list[SpendingCause]
    biggest: SpendingSession | None
    by: GroupBy | None  # what `groups` are
    groups: list[Spending]  # days, weeks and months in their order, others by cost
    before: Spending | None  # the span of the same length before `since`
    before_causes: list[SpendingCause]
    files: int  # files read
    kept: int  # files whose figures were kept from an earlier run
    copied: int  # requests that several files hold; they count once
    problems: int
    failed: list[str]
    unread: list[UnreadLogs]
    looked: list[str]  # places where recordings were looked for
    notes: list[str]
    limits: list[PlanLimit] = []


Outcome: TypeAlias = Literal["higher", "lower", "no-difference", "too-few", "unknown"]


class Interval(Struct, frozen=True):
    """A 95 % confidence interval."""

    low: float
    high: float
    over: Literal["sessions", "requests"]  # the sample; requests if there are few sessions


class MeasureSide(Struct, frozen=True):
    """A ratio on one side of a comparison."""

    value: float | None
    events: float
    trials: int
    sessions: int  # in which both are known
    interval: Interval | None


class Measure(Struct, frozen=True, kw_only=True):
    """One measure of both sides."""

    # `share_read`: tokens read of all prompt tokens; `breaks`: billed requests that lost something; `reliability`:
    # appends that were read; `prompt`, `output`: tokens, `money`, `paid_again`: dollars of a billed request.
    name: str
    unit: str
    left: MeasureSide
    right: MeasureSide
    difference: float | None  # right value minus left value
    interval: Interval | None  # of the difference
    outcome: Outcome  # what the right side is


class ComparedCause(Struct, frozen=True, kw_only=True):
    """How often a cause occurred on each side, of the billed requests, and its cost."""

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
    """One side of a comparison."""

    name: str  # as it was asked for
    first: float | None  # when its first and last request were sent, in seconds since the epoch
    last: float | None
    clients: list[str]
    models: list[str]
    spending: Spending


class Comparison(CommandResult, frozen=True, kw_only=True):
    """`lore compare --json`."""

    left: ComparedSide
    right: ComparedSide
    measures: list[Measure]
    causes: list[ComparedCause]  # the largest difference in money first
    files: int
    kept: int
    copied: int
    problems: int
    failed: list[str]
    looked: list[str]
    notes: list[str]
