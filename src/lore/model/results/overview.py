"""Results of bare `lore` and of `lore compare`: spending in US dollars. Unknown values are null, never 0."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from lore.model.codes import Actor, CauseKind
from lore.model.ledger import UnknownPart
from lore.model.results import CommandResult, Surcharge

GroupBy: TypeAlias = Literal["day", "week", "month", "session", "model", "project", "agent"]


class Spending(Struct, frozen=True, kw_only=True):
    """Tokens and cost of a group of requests."""

    name: str  # a day, a week (2026-W05), a month, a model, an agent, a project, or the path of a session
    sessions: int  # with at least one of the requests
    requests: int  # model requests
    unbilled: int  # requests without usage, or with output tokens alone
    unpriced: int  # requests with usage and without a known price; neither is in the amounts
    at_least: int  # requests with an unknown count or price: the amounts hold the rest of their cost
    # input neither read from a cache nor written to one; like the next three of all passes of responses
    billed_requests: int  # requests whose usage has the number of tokens read: counts of input are theirs
    uncached_tokens: int
    read_tokens: int  # input that was read from a cache
    write_tokens: int  # input that was written to a cache
    output_tokens: int  # with thinking, if the usage includes it
    paid_again_tokens: int  # re-billed without need
    unexplained_tokens: int  # re-billed, without a certain cause
    expected_tokens: int  # re-billed, as expected: after a compaction, a pause, another model
    dollars: float | None  # sum of the seven amounts that follow; null if no request has a price
    reading: float | None  # tokens read from a cache, and lost ones as if they had been read
    context: float | None  # new input
    output: float | None  # output tokens
    tools: float | None  # tools that the provider ran
    paid_again: float | None  # what `paid_again_tokens` cost beyond the price of reading
    unexplained: float | None  # what `unexplained_tokens` cost beyond the price of reading
    expected: float | None  # what `expected_tokens` cost beyond the price of reading
    breaks: int  # requests that lost cached tokens, for any cause
    compactions: int  # requests before which the history was compacted
    median_prompt_tokens: int | None  # median over single requests; null: unknown
    largest_prompt_tokens: int | None  # of a single request; null: unknown
    subagent_requests: int  # in chains other than the main one
    subagent_dollars: float | None  # the part of `dollars` that these cost
    appends: int  # requests whose prefix only the provider could lose
    appends_read: int  # how many of them were read
    recorded_dollars: float | None = None  # the cost that the logs themselves state, not lore's prices
    recorded_requests: int = 0  # how many requests that is the cost of, as the logs count them
    premium_requests: float | None = None  # GitHub Copilot's older unit, as the logs count them
    title: str | None = None  # of a session: the name that its agent gave it, else its first prompt
    unpriced_tokens: int = 0  # re-billed by requests without a known price: their cost is in no amount
    unknown_parts: dict[UnknownPart, int] = {}  # what the cost leaves out of the `at_least` requests: in how many
    surcharges: list[Surcharge] = []  # what of the cost is due to prices other than the list price, by reason
    absent_subagents: int = 0  # subagents whose logs are not among the recordings: no sum holds their requests
    absent_subagent_tokens: int = 0  # that the sessions which called them state
    absent_compactions: int = 0  # compactions whose request the log does not hold: no sum does
    absent_compaction_tokens: int = 0  # tokens that the history had before them


class InheritedRequests(Struct, frozen=True, kw_only=True):
    """Requests at the beginning of forks whose parents' logs are not among the recordings: no sum holds them."""

    requests: int
    sessions: int  # that sent them
    dollars: float | None  # by lore's prices; null if no price is known
    recorded_dollars: float | None  # as the forks' logs state it; null: they do not


class CauseSession(Struct, frozen=True):
    """The session in which a cause cost most."""

    path: str  # of its log
    project: str | None  # the folder that the log names
    dollars: float  # what the cause cost in it; 0 if no price is known
    turns: int  # requests in which it occurred there


class SpendingCause(Struct, frozen=True, kw_only=True):
    """The cost of one cause."""

    code: str  # such as `LORE104`
    name: str  # of the code, in words joined by hyphens
    kind: CauseKind  # expected, waste or unattributable
    actor: Actor  # who can fix it
    names: list[str]  # what the evidence names: hooks, servers, tools, models
    lifetime: float | None  # seconds that the cache lives, if pauses were longer
    sessions: int  # in which it occurred
    turns: int  # requests with a cache break by it
    tokens: int  # re-billed in these requests
    dollars: float | None  # what these tokens cost beyond the price of reading; null if no price is known
    says: str  # the cause in words
    fix: str  # what `actor` can do about it
    command: str  # the command that shows it
    unpriced_tokens: int = 0  # of `tokens`, by requests without a known price: `dollars` omits them
    most: CauseSession | None = None  # the costliest session; null: not summed by session


class SpendingSession(Struct, frozen=True, kw_only=True):
    """The session that cost most."""

    path: str  # of its log
    agent: str  # title of the agent, such as `Claude Code`
    project: str | None  # the folder that the log names
    at: float | None  # when its first request was sent, in seconds since the epoch; else when its log was last written
    requests: int  # those of its subagents included
    dollars: float | None  # null if no request has a price
    largest_prompt_tokens: int | None  # of a single request; null: unknown
    paid_again: float | None  # what tokens re-billed without need cost beyond the price of reading
    command: str  # the command that shows its compactions, else its turns
    saving: float | None = None  # what earlier compactions would have saved in a trial, an estimate
    compactions: int | None = None  # how many these are
    window: int | None = None  # tokens; each fires at 70 %: the largest window that saves a tenth of the cost
    title: str | None = None  # the name that its agent gave it, else its first prompt
    at_least: bool = False  # `dollars` leaves out a part of what it cost
    latest_at: float | None = None  # when its latest request was sent; null: unknown


class UnreadLogs(Struct, frozen=True):
    """Logs of an agent in a format that lore does not read."""

    agent: str  # its name, such as `cursor`
    title: str  # the agent's name as its users write it
    path: str  # the folder of the logs
    files: int  # how many there are
    message: str  # the reason


class PlanLimit(Struct, frozen=True, kw_only=True):
    """A window of a subscription plan that has not reset yet, and the requests sent in it."""

    agent: str  # title of the agent, such as `Codex CLI`
    minutes: int  # length of the window: 300 is a five-hour block, 10,080 a week
    used_percent: float  # as the newest log says
    resets_at: float  # seconds since the epoch
    requests: int | None  # sent in the window so far; null if it began before the sums
    tokens: int | None  # input and output of these requests
    dollars: float | None  # their cost


class CostChange(Struct, frozen=True, kw_only=True):
    """Why the cost of requests changed: parts in US dollars that add up to the difference.

    They are of the requests with recorded tokens and a known price. Tokens are those of prompts. If some requests are
    priced in part (`at_least`), `output` is the difference of all recorded output, and `requests` is without output.
    """

    dollars: float  # the difference
    requests: float  # more requests at the earlier cost of one
    models: float  # other models, at what their tokens cost before
    prompts: float  # longer prompts
    tokens: float  # dearer input of the same models: a smaller share read, or other prices
    output: float  # more output in each request, and tools that the provider ran
    surcharges: float  # more in fast mode, at a service tier, in a region or of long prompts
    rebilled: float  # more that was re-billed in each request


class Overview(CommandResult, frozen=True, kw_only=True):
    """`lore --json`: spending and re-billed tokens in a span of time."""

    since: float | None  # begin of the span, in seconds since the epoch; null: none
    until: float | None  # end of the span, in seconds since the epoch; null: none
    total: Spending  # all requests in the span
    agents: list[Spending]  # the costliest first
    causes: list[SpendingCause]  # of waste and of expected losses
    unexplained: list[SpendingCause]  # cache breaks without a certain cause
    biggest: SpendingSession | None  # the session that cost most; null without requests
    by: GroupBy | None  # what `groups` are; null: requests are not grouped
    groups: list[Spending]  # days, weeks and months in their order, others by cost
    before: Spending | None  # the span of the same length before `since`; null: not compared
    change: CostChange | None  # why the cost changed since then; null: not compared, or no cost is known
    before_causes: list[SpendingCause]  # causes of waste and of expected losses in that span
    files: int  # files read
    kept: int  # files whose figures were kept from an earlier run
    copied: int  # requests that several files hold; they count once
    problems: int  # places in the recordings that could not be read or did not fit
    failed: list[str]  # files and places that could not be read to their end, with the reason
    unread: list[UnreadLogs]  # logs of agents whose formats lore does not read
    looked: list[str]  # places where recordings were looked for
    notes: list[str]  # remarks on the figures, in sentences
    limits: list[PlanLimit] = []  # windows of subscription plans that have not reset yet
    missed: list[SpendingCause] = []  # causes of tokens that could have been read from a cache; none was re-billed
    inherited: InheritedRequests | None = None  # what no sum holds since the log of a fork's parent is absent
    compacted_sessions: int = 0  # of the costliest, those of which earlier compactions would have saved a tenth
    compaction_saving: float = 0.0  # what these would have saved in a trial, an estimate
    newest: float | None = None  # when the newest request was sent, if the span has none; null: unknown


Outcome: TypeAlias = Literal["higher", "lower", "no-difference", "too-few", "unknown"]


class Interval(Struct, frozen=True):
    """A 95 % confidence interval."""

    low: float  # its lower end, in the unit of the value
    high: float  # its upper end
    over: Literal["sessions", "requests"]  # the sample; requests if there are few sessions


class MeasureSide(Struct, frozen=True):
    """A ratio on one side of a comparison."""

    value: float | None  # events per trial; null without trials
    events: float  # the numerator: requests, tokens or dollars, by the measure
    trials: int  # the denominator: requests or tokens, by the measure
    sessions: int  # in which both are known
    interval: Interval | None  # of the value; null if the sample is too small, or all sessions are equal
    at_least: bool = False  # the value is a lower bound: some requests have a part that is unknown


class Measure(Struct, frozen=True, kw_only=True):
    """One measure of both sides."""

    # `share_read`: tokens read of all prompt tokens; `breaks`: billed requests that lost something; `reliability`:
    # appends that were read; `prompt`, `output`: tokens, `money`, `paid_again`: dollars of a billed request.
    name: str
    unit: str  # share (0 to 1), tokens or dollars
    left: MeasureSide  # of the left side
    right: MeasureSide  # of the right side
    difference: float | None  # right value minus left value
    interval: Interval | None  # of the difference
    outcome: Outcome  # what the right side is


class ComparedCause(Struct, frozen=True, kw_only=True):
    """How often a cause occurred on each side, of the billed requests, and its cost."""

    code: str  # such as `LORE104`
    name: str  # of the code, in words joined by hyphens
    kind: CauseKind  # expected, waste or unattributable
    says: str  # the cause in words
    fix: str  # what the user can do about it
    left: MeasureSide  # share of billed requests that lost tokens by it, on the left side
    right: MeasureSide  # the same on the right side
    # its cost beyond the price of reading; null if it did not occur, or no price is known
    left_dollars: float | None
    right_dollars: float | None  # the same on the right side
    outcome: Outcome  # what the right share is


class ComparedSide(Struct, frozen=True, kw_only=True):
    """One side of a comparison."""

    name: str  # as it was asked for
    first: float | None  # when its first request was sent, in seconds since the epoch; null if no request has a time
    last: float | None  # when its last request was sent
    clients: list[str]  # names and versions of clients, the most frequent first
    models: list[str]  # names of models, the most frequent first
    spending: Spending  # of all requests of this side


class Comparison(CommandResult, frozen=True, kw_only=True):
    """`lore compare --json`."""

    left: ComparedSide  # the first of the two sides
    right: ComparedSide  # the second of the two sides
    change: CostChange | None  # why the right side cost more or less; null if a side has no known cost
    measures: list[Measure]  # the ratios that are compared
    causes: list[ComparedCause]  # the largest difference in money first
    files: int  # files read
    kept: int  # files whose figures were kept from an earlier run
    copied: int  # requests that several files of a side hold; they count once
    problems: int  # places in the recordings that could not be read or did not fit
    failed: list[str]  # files and places that could not be read to their end, with the reason
    looked: list[str]  # places where recordings were looked for
    notes: list[str]  # remarks on the sides, in sentences
