"""Typed evidence: one small struct for each kind of fact that a verdict rests on.

In: nothing. Out: values. Rules: a struct holds figures and texts, never a sentence; every text says whether it is
content; tokens are whole numbers, times seconds; None is unknown. The types that say so, and what prompts differ in,
are in `lore.model.differences`; `lore.report.sentences.evidence` has one sentence for each struct, and a test holds
the two together.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from lore.model.differences import Content, Difference, EvidenceFact, JsonPath, Model, Name, Number, Own, RequestFact


class Told(EvidenceFact, frozen=True):
    """What a rule or reader of others says in its own words."""

    text: Content


class Damage(EvidenceFact, frozen=True):
    """A problem of a recording at its first place, and how many more of its kind there are."""

    message: Content
    more: int = 0


# What the log records


class RecordedChange(EvidenceFact, frozen=True, tag="recorded"):
    """An event of the log that entitles the next prompt to differ: a compaction, a rewind, a changed session."""

    event: Own
    detail: Content = ""


class ModelChanged(EvidenceFact, frozen=True):
    """Another model was asked; no model reads what another one cached."""

    before: Model | None
    after: Model | None


class SignSeen(EvidenceFact, frozen=True):
    """A sign of the log (`lore.model.state`) before this turn.

    `names` are the tools, hooks, skills or commands that the log names, `servers` the MCP servers among them;
    `before` and `after` are two values of a setting or version.
    """

    sign: Own
    names: tuple[Name, ...] = ()
    servers: tuple[Name, ...] = ()
    before: Content | None = None
    after: Content | None = None


class ToolsAnnounced(EvidenceFact, frozen=True):
    """The client announced that tools came or went in mid-session, by name and by MCP server."""

    added: tuple[Name, ...] = ()
    removed: tuple[Name, ...] = ()
    servers: tuple[Name, ...] = ()


class HookText(EvidenceFact, frozen=True):
    """Text of a hook stood behind so many entries until a person spoke again.

    `exact`: the bill read exactly what stands before that text.
    """

    entries: int
    hooks: tuple[Name, ...] = ()
    exact: bool = False


class ReasoningDropped(EvidenceFact, frozen=True):
    """Reasoning behind so many entries of the history is left out of the prompt from the next one on.

    `tokens` stand in front of it. `exact`: the bill read no more and no less than these, to within one drop.
    """

    entries: int
    tokens: int
    exact: bool = False


class HistoryShrank(EvidenceFact, frozen=True):
    """The timeline is the same in its first `same` entries only, of `entries` that stood there."""

    same: int
    entries: int


class TotalShrank(EvidenceFact, frozen=True):
    """A prompt was billed for fewer tokens than the one before, of which `cached_tokens` stood in the cache.

    `boundary`: the log says that the client cleared results, and not which. `unsure`: it may have been
    the provider.
    """

    tokens_before: int
    tokens_after: int
    cached_tokens: int
    boundary: bool = False
    unsure: bool = False


# What the clock shows


class Paused(EvidenceFact, frozen=True):
    """Seconds since the previous answer began, and how long what it wrote lives."""

    seconds: float
    lifetime: float | None


class ParallelStart(EvidenceFact, frozen=True):
    """The request was sent so many seconds before the response that writes the entry began."""

    seconds: float


class OlderEntry(EvidenceFact, frozen=True):
    """So many seconds after the request before, exactly the breakpoint before the last one was read."""

    seconds: float
    read_tokens: int


# What the shape of two requests shows


class ChainRestarted(EvidenceFact, frozen=True):
    """All tools were dropped as a new turn of the user began, the system prompt unchanged."""

    tools: int


class MessagesTakenBack(EvidenceFact, frozen=True):
    """So many messages were taken back, and something else was asked from there."""

    messages: int


class SummaryFound(EvidenceFact, frozen=True):
    """A new text stands where answers stood: `says` tells how surely it is a summary."""

    path: JsonPath
    says: Literal["is-summary", "sums-up", "unclear"]
    messages_before: int
    messages_after: int


class EditedByProvider(EvidenceFact, frozen=True):
    """The provider summed up, cleared or cut the prompt itself.

    `item`: a summary of its own that only it can read; `edits`: what its response says it applied, `tokens` that it
    cleared; `cut`: it was asked to shorten what is too long, and billed so many tokens fewer than before.
    """

    what: Literal["item", "edits", "cut"]
    path: JsonPath = ""
    edits: tuple[Name, ...] = ()
    tokens: int | None = None


class ColdCompaction(EvidenceFact, frozen=True):
    """A conversation was sent to be summed up, and read less of its cache than stood there.

    `differs` are the sections that are not the conversation's; "breakpoints" where all are, and its last breakpoint
    stands in front of the conversation's last one; `cached_tokens` stood in the cache, of which a warm request of the
    same length would have read `warm_tokens`. Its prompt cost `dollars`; a warm one had cost `warm_dollars`.
    """

    differs: tuple[Own, ...]
    cached_tokens: int
    read_tokens: int
    warm_tokens: int = 0
    dollars: float | None = None
    warm_dollars: float | None = None


class TailReplaced(EvidenceFact, frozen=True):
    """What ended the request before is not in this one: the conversation went on in its place.

    `holds` names what made it volatile; `repeated`: the same bytes end this request again; `retried`: the request was
    sent again with another end. `dollars_a_day` is what so many tokens cost where every turn sends them anew, at the
    pace of the chain; None where a price or a time is missing, or the chain is too young to have a pace.
    """

    path: JsonPath
    bytes: int
    tokens: int
    role: Own
    holds: tuple[Own, ...] = ()
    repeated: bool = False
    retried: bool = False
    dollars_a_day: float | None = None


class Rerouted(EvidenceFact, frozen=True):
    """The request went to another host, endpoint or account than the one before."""

    host_before: Name | None = None
    host_after: Name | None = None
    endpoint_before: Name | None = None
    endpoint_after: Name | None = None
    account: bool = False


class RoutedElsewhere(EvidenceFact, frozen=True):
    """Another provider or deployment answered behind a router than the one before; None where nobody says it.

    `unreceived` answers stand between the two that this recording never received; `ids` is what the ids of calls begin
    with where they are of several providers.
    """

    provider_before: Name | None = None
    provider_after: Name | None = None
    deployment_before: Name | None = None
    deployment_after: Name | None = None
    unreceived: int = 0
    ids: tuple[Name, ...] = ()


class LookbackExceeded(EvidenceFact, frozen=True):
    """So many positions stand between the last breakpoint before and the next one; `allowed` are looked back."""

    positions: int
    allowed: int
    missed_tokens: int | None = None


# What bills and providers say


class ProviderSaid(EvidenceFact, frozen=True):
    """The provider's verdict: a reason that lore knows, or its own word (`other`), and the tokens that it missed.

    `contradicts`: the codes of causes that were seen, and are about another section than the verdict.
    """

    reason: Own = ""
    other: Content = ""
    missed_tokens: int | None = None
    contradicts: tuple[Own, ...] = ()


class ReadFell(EvidenceFact, frozen=True):
    """A bill that read less than stood in the cache."""

    lost_tokens: int
    cached_tokens: int
    read_tokens: int


class NothingRead(EvidenceFact, frozen=True):
    """A bill that read nothing, though the prompt goes on from one of `tokens`; what of that was kept is not billed."""

    tokens: int


class WithinBlock(EvidenceFact, frozen=True):
    """The end of the prompt that changed is shorter than one block of the cache: nothing of it could be cached."""

    tokens: int
    block_tokens: int


class LifetimeLost(EvidenceFact, frozen=True):
    """All breakpoints ask for an hour, and the bill has so many tokens for five minutes and none for an hour."""

    breakpoints: int
    tokens: int


class BillUnlikeBody(EvidenceFact, frozen=True):
    """A bill that cannot belong to its recorded body."""

    what: Literal["no-breakpoint", "hour-unasked", "five-minutes-unasked", "more-tokens-than-bytes"]
    tokens: int
    bytes: int | None = None


class Disputed(EvidenceFact, frozen=True):
    """How bytes, bill and the provider's verdict contradict one another."""

    what: Literal[
        "unexplained",
        "bill-reads-more",
        "same-model",
        "no-change-in-bytes",
        "nothing-missed",
        "other-section",
        "head-was-read",
    ]
    reason: Own = ""
    tokens: int | None = None
    read_tokens: int | None = None
    section: Own = ""
    path: JsonPath = ""
    model: Model | None = None


class RuledOut(Struct, frozen=True):
    """A reason that was looked at: `out` says that it is ruled out, is not, or (None) cannot be known."""

    reason: Own
    out: bool | None
    seconds: float | None = None
    count: int | None = None
    limit: Number | None = None
    detail: Content = ""


# What is true of a whole chain


class BreakpointsCount(EvidenceFact, frozen=True):
    """Breakpoints in one request, and the most that a provider takes."""

    breakpoints: int
    most: int


class VolatileText(EvidenceFact, frozen=True):
    """Text that is made anew for each request; `on_breakpoint`: a breakpoint stands on it."""

    what: Own
    excerpt: Content = ""
    on_breakpoint: bool = False


class ProgramText(EvidenceFact, frozen=True):
    """A message of the user's role behind a tool's result that no user wrote."""

    excerpt: Content


class OrphanPair(EvidenceFact, frozen=True):
    """A call without its result, or a result without its call."""

    part: Literal["call", "result"]
    name: Name


class BreakpointsMissing(EvidenceFact, frozen=True):
    """About so many tokens without a breakpoint behind them (or only `behind` of them), of a model's minimum."""

    tokens: int
    minimum: int
    behind: int | None = None


class WritesUnread(EvidenceFact, frozen=True):
    """Tokens that so many turns wrote, each followed by another one in time, and that no bill reads."""

    tokens: int
    turns: int


class BelowMinimum(EvidenceFact, frozen=True):
    """A prefix of so many tokens, fewer than the model caches. `counted`: from the bill, not from bytes.

    `marked`: it ends at a breakpoint, else it is all of the prompt. `turns` is 0 where one request alone was looked at.
    """

    tokens: int
    minimum: int
    model: Model | None
    counted: bool
    turns: int = 1
    marked: bool = True


class ReadBelowForecast(EvidenceFact, frozen=True):
    """A bill that read less than was foreseen from another turn's prompt."""

    expected_tokens: int
    read_tokens: int
    exact: bool
    cache: Own
    reason: Own
    turn: int
    chain: Name | None
    seconds: float
    model: Model | None


class OverBudget(EvidenceFact, frozen=True):
    """A figure beyond its limit; `of` names the entry of `per_path` that the sums are of."""

    what: Literal["reuse", "breaks", "lost-tokens"]
    value: Number
    limit: Number
    of: Name = ""


class Unneeded(EvidenceFact, frozen=True):
    """An exemption or entry of a baseline that excuses nothing any more."""

    what: Literal["exemption", "baseline"]
    code: Own
    where: JsonPath = ""
    reason: Content = ""
    entries: int = 0
    left: int = 0


Evidence: TypeAlias = (
    Told | Damage | RecordedChange | ModelChanged | SignSeen | ToolsAnnounced | HookText | ReasoningDropped
    | HistoryShrank | TotalShrank | Paused | ParallelStart | OlderEntry | ChainRestarted | MessagesTakenBack
    | SummaryFound | ColdCompaction | EditedByProvider | TailReplaced | Rerouted | RoutedElsewhere
    | LookbackExceeded | ProviderSaid | ReadFell | NothingRead | WithinBlock | LifetimeLost | BillUnlikeBody
    | Disputed | BreakpointsCount | VolatileText | ProgramText | OrphanPair | BreakpointsMissing | WritesUnread
    | BelowMinimum | ReadBelowForecast | OverBudget | Unneeded | Difference | RequestFact
)  # fmt: skip
