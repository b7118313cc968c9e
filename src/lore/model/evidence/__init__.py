"""Evidence from logs, clocks, usage and the provider: one struct for each kind of fact that a verdict rests on.

A struct holds figures and texts; `sentence()` returns the fact in words. Tokens are whole numbers, times are seconds,
None is unknown. Evidence from bytes is in `lore.model.differences`; `lore.model.fact` has the rules for fields, `words`
and `fix_word`.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from lore.model.codes import CODES
from lore.model.deferred import pattern
from lore.model.differences import Difference, RequestFact
from lore.model.evidence.runs import OverBudget, ReadBelowForecast, ReadPlateau, SharedBlock, Unneeded, WritesUnread
from lore.model.fact import (
    Content,
    EvidenceFact,
    JsonPath,
    Model,
    Name,
    Own,
    count_of,
    format_duration,
    format_money,
    join_names,
    list_changes,
)  # fmt: skip
from lore.model.state import SIGNS


class Told(EvidenceFact, frozen=True):
    """A fact that a plug-in's rule or reader reports in its own words."""

    words = "{text}"
    text: Content  # the fact in a sentence


_REFUSED = pattern(r"refused a request \(HTTP (\d+)\)")
_TOPICS = {  # what other refusals are about; Gemini answers 400 to a wrong key
    "401": pattern(r"API[ _]key not valid|API_KEY_INVALID|(?:invalid|incorrect) api[ _-]?key", re.IGNORECASE),
    "filter": pattern(r"content.?(?:management|filter)|ResponsibleAI|safety (?:polic|system)", re.IGNORECASE),
}


class Damage(EvidenceFact, frozen=True):
    """A problem of a recording, at the first place that has it."""

    words = "{message}{more:=0?| (and {more:,} more like it)}"
    message: Content  # the first of these problems, in a sentence
    more: int = 0  # further problems of this kind

    def fix_detail(self) -> str:
        """Return what a refusal is about (its HTTP status, or `filter`), or which problem has a fix of its own."""
        if self.message.endswith("the provider stores its prompt"):
            return "stored"
        if self.message.startswith("a request that is recorded twice"):
            return "twice"
        status = _REFUSED.search(self.message)
        topics = (name for name, words in _TOPICS.items() if words.search(self.message))
        return "" if status is None else next(topics, status[1])


# Facts that the log records


class RecordedChange(EvidenceFact, frozen=True, tag="recorded"):
    """An event of the log after which the next prompt may differ: a compaction, a rewind, a changed session."""

    event: Own  # the finding code of the change
    detail: Content = ""  # what changed, in words; empty: not recorded

    def sentence(self) -> str:
        return self.detail or CODES[self.event].name


class ModelChanged(EvidenceFact, frozen=True):
    """Another model was asked. No model reads the cache of another one."""

    words = (
        "{alias:?the provider moved {alias} from {before} to {after}|the model changed from {before:?{before}|one that "
        "is not named} to {after:?{after}|one that is not named}}"
    )
    fix_word = "{alias:?alias}"
    before: Model | None  # of the previous request; None: it names no model
    after: Model | None  # of this request; None: it names no model
    alias: Model | None = None  # that both requests name, if responses name two dated snapshots of it


class SignSeen(EvidenceFact, frozen=True):
    """A signal in the log between the previous request and this one."""

    sign: Own  # its name in `lore.model.state.SIGNS`
    names: tuple[Name, ...] = ()  # the tools, hooks, skills or commands that the log names
    servers: tuple[Name, ...] = ()  # the MCP servers among them
    before: Content | None = None  # the previous value of a setting or version
    after: Content | None = None  # the new value of it
    line: int | None = None  # the line of the log that shows it; None: it is next to the request
    removed: tuple[Name, ...] = ()  # those of the names that are gone

    @property
    def is_budget(self) -> bool:
        """Whether a value is a budget of tokens, which words of a prompt set."""
        return any(value is not None and value.endswith(" tokens") for value in (self.before, self.after))

    def sentence(self) -> str:
        if self.sign == "instructions-delta" and self.names and self.removed == self.names:
            names = f"MCP server{'s' * (len(self.names) > 1)} {join_names(self.names)}"
            return f"{names} dropped out: the client withdrew the instructions"
        text = SIGNS[self.sign] + ("" if self.line is None else f" (line {self.line:,} of the log)")
        if self.before is not None or self.after is not None:
            text += f" from {self.before or 'nothing'} to {self.after or 'nothing'}"
        if not self.names or self.names == (self.sign,):
            return text
        names = join_names(dict.fromkeys(_LOG_FIELDS.get(name, name) for name in self.names))
        if self.sign == "thinking" and self.is_budget:
            return f'{text}: the prompt {"lacks" if self.after == "off" else "has"} the word "{names}"'
        if self.sign == "thinking" or self.fix_detail() == "command":
            return f"{text} {'after' if self.sign == 'thinking' and self.after != 'off' else 'for'} {names}"
        return f"{text}: {names}"

    def fix_detail(self) -> str:
        """Return the word that selects the fix: the name of a signal that has one of its own; empty: the general fix.

        `idle`: an app's process had ended; `aside`: thinking was switched for a skill, a command or a plan; `word`: by
        a word of a prompt; `command`: a slash command has an effort of its own.
        """
        if self.sign == "restart" and self.names == ("last-prompt",):
            return "idle"
        if self.sign == "thinking" and self.names:
            return "word" if self.is_budget else "aside"
        if self.sign == "effort" and self.before and "/" in "".join(self.names):
            return "command"
        return self.sign if self.sign in ("streaming", "tool-reference", "remote-control", "refusal") else ""


_LOG_FIELDS = {  # meanings of names of fields in Claude Code's log, for `SignSeen`
    "pendingMcpServers": "its tool servers were still connecting", "planContent": "an accepted plan",
    "titleAndMode": "it wrote title and settings again",
    "Continue from where you left off.": "it took up an interrupted session",
    "No response requested.": "it took up an interrupted session", "last-prompt": "its process had ended",
    "<task-notification>": "its process had ended while a task was running",
}  # fmt: skip


class ToolsAnnounced(EvidenceFact, frozen=True):
    """The client announced during the session that tools were added or removed."""

    added: tuple[Name, ...] = ()  # tools that are new
    removed: tuple[Name, ...] = ()  # tools that are not available any more
    servers: tuple[Name, ...] = ()  # the MCP servers of these tools

    def sentence(self) -> str:
        servers = f"MCP server{'s' * (len(self.servers) > 1)} {join_names(self.servers)}"
        changes = list_changes(("added", self.added), ("removed", self.removed))
        if self.servers and self.removed and not self.added:
            return f"{servers} dropped out: the client removed {join_names(self.removed)} from its tools"
        who = servers if self.servers else "the client"
        return f"{who} announced other tools during the session" + (f": {changes}" if changes else "")


class HookText(EvidenceFact, frozen=True):
    """A hook's text that followed an entry of the history is left out from the next user message on."""

    words = (
        "{hooks:?hook {hooks:names}|a hook}{preview:? of the app itself}{verification:? of the app itself} added text "
        '{line:?at line {line:,} of the log|after entry {entries:,} of the history}{text:? ("{text}")}, and the client '
        "left it out from the next user message on{exact:?; usage confirms it}"
        "{unreached:?: {unreached:,} cached tokens came before it, but a request looks for cache entries only 20 "
        "blocks back from its end, and so read only tools and system prompt}"
    )
    fix_word = "{preview:?preview}{verification:?verification}"
    entries: int  # the number of this entry: the entries that precede the text
    hooks: tuple[Name, ...] = ()  # names of the hooks; empty: not recorded
    exact: bool = False  # usage shows a read of exactly what precedes the text
    text: Content = ""  # the beginning of the text; empty: not recorded
    line: int | None = None  # the line of the log that records it; None: unknown
    preview: bool = False  # the client's own preview added it, which no setting disables
    verification: bool = False  # the client itself asks the model to verify an edit in its preview
    unreached: int | None = None  # cached tokens before the text, if the request read only tools and system prompt


class ReasoningDropped(EvidenceFact, frozen=True):
    """From the user's next prompt on, the provider omits the reasoning after an entry of the history."""

    words = (
        "from the user's next prompt on, the provider omits the reasoning after entry {entries:,} of the history: "
        "about {tokens:,} tokens before it can be read{exact:?, as usage shows}"
        "{after:?; the {after:,} cached tokens after it were not readable either way: expected, not counted here}"
    )
    entries: int  # the number of this entry: the entries that precede the reasoning
    tokens: int  # before the reasoning: those that can still be read
    exact: bool = False  # usage shows a read of these tokens, to within one cache drop
    after: int | None = None  # cached tokens after it, if another cause leads: they are not among that one's re-billed


class FirstImage(EvidenceFact, frozen=True):
    """The first image of a conversation came in. Messages with images have cache entries of their own."""

    words = "the first image was added: the provider caches the messages of prompts with images separately"
    fix_word = "first"


class FirstWithoutThinking(EvidenceFact, frozen=True):
    """No answer to the first prompt holds thinking; with some versions and models the next read then falls."""

    words = (
        "no answer to the first prompt contains thinking: with this client version and model the next read is smaller"
    )
    fix_word = "version"


class ThinkingOmitted(EvidenceFact, frozen=True):
    """The model ignores the thinking that precedes the user's latest prompt, unlike later models."""

    words = (
        "from the user's new prompt on, the model does not read the thinking after entry {entries:,} of the history"
        "{tokens_before:?{tokens_after:?, and the prompt shrank from {tokens_before:,} to {tokens_after:,} tokens}}"
    )
    entries: int  # entries of the history before the first omitted thinking
    tokens_before: int | None = None  # of the previous prompt, if the prompt shrank
    tokens_after: int | None = None  # of this prompt, if the prompt shrank


class HistoryShrank(EvidenceFact, frozen=True):
    """Only the beginning of the previous timeline is in this one."""

    words = "only the first {same:,} of {entries:,} entries of the history are the same"
    same: int  # entries that are the same
    entries: int  # entries of the previous timeline


class TotalShrank(EvidenceFact, frozen=True):
    """A prompt was billed for fewer tokens than the previous one."""

    words = (
        "the whole prompt shrank from {tokens_before:,} to {tokens_after:,} tokens: the client{unsure:? or the "
        "provider} {image:?removed or replaced an image: the read ends exactly before the prompt that brought it"
        "|removed something, and the log does not record {boundary:?which tool results|what}}; "
        "{cached_tokens:,} tokens were cached"
    )
    tokens_before: int  # of the previous prompt
    tokens_after: int  # of this prompt
    cached_tokens: int  # of the previous prompt
    boundary: bool = False  # the log records that the client cleared tool results, but not which
    unsure: bool = False  # the provider, not the client, may have shortened the prompt
    image: bool = False  # the read ends exactly before the user's last prompt with an image


# Facts from times


class Paused(EvidenceFact, frozen=True):
    """A pause since the previous request."""

    seconds: float  # from the previous request (its answer, if errors followed it) to this one
    lifetime: float | None  # of the cache entries that the previous request wrote; None: not recorded
    most: float | None = None  # the longest possible lifetime, if it is not recorded; None: unknown
    unbilled: int = 0  # requests without usage in it, which may have read the entries, so that they live longer
    model: Model | None = None  # whose latest request that was, if another model answered since

    def sentence(self) -> str:
        previous = "the previous request" if self.model is None else f"the latest request of {self.model}"
        pause = f"{format_duration(self.seconds)} since {previous}"
        if self.lifetime is None:
            most = "" if self.most is None else f": {format_duration(self.most)} at most"
            return f"{pause}; the cache lifetime is not recorded{most}"
        live = " and had not expired" if self.seconds <= self.lifetime else ""
        if self.unbilled:
            live = f", but {count_of(self.unbilled, 'request')} without usage in between may have kept it alive"
        return f"{pause}; the cache lives {format_duration(self.lifetime)}{live}"


class ParallelStart(EvidenceFact, frozen=True):
    """The request was sent before the previous response, which writes the cache entry, began."""

    words = "sent {seconds:duration} before the response that writes the cache entry began: nothing could be read yet"
    seconds: float  # from this request to the beginning of the previous response


class OlderEntry(EvidenceFact, frozen=True):
    """The request read exactly the cache entry before the newest one."""

    words = (
        "sent {seconds:duration} after the previous answer began; {read_tokens:,} tokens were read: exactly the second "
        "newest cache entry"
    )
    seconds: float  # from the previous answer, or its request if no answer is recorded, to this request
    read_tokens: int  # tokens of that entry


# Facts from two requests


class ChainRestarted(EvidenceFact, frozen=True):
    """The client dropped all tools when a new turn of the user began; the system prompt is unchanged."""

    words = (
        "the client dropped {tools:=1?its only tool|all {tools} tools} when a new user turn began, with the same "
        "system prompt"
    )
    fix_word = "dropped"
    tools: int  # how many tools were dropped


class MessagesTakenBack(EvidenceFact, frozen=True):
    """Other messages are in the place of some: a user went back, another branch begins, or examples differ."""

    words = (
        "other messages are in the place of {messages:,}{examples:?, among them answers that no recorded request "
        "received: examples that a program changes, or a conversation that was taken back|: they were taken back, or "
        "another branch of the conversation begins}"
    )
    fix_word = "{examples:?examples}"
    messages: int  # how many messages were removed
    examples: bool = False  # answers of the model are among them, and no recorded request received one


class SummaryFound(EvidenceFact, frozen=True):
    """A new text replaced earlier messages."""

    words = (
        "{path} {says:=is-summary?is a summary}{says:=sums-up?is new and sums up earlier messages}"
        "{says:=unclear?is new: its words do not show whether it is a summary of the removed messages or an unrelated "
        "text}; {messages_before} messages became {messages_after}"
    )
    path: JsonPath  # of the new text, in this request
    says: Literal["is-summary", "sums-up", "unclear"]  # how surely it is a summary
    messages_before: int  # messages of the previous prompt
    messages_after: int  # messages of this prompt


class EditedByProvider(EvidenceFact, frozen=True):
    """The provider itself summarised, cleared or shortened the prompt."""

    words = (
        "{what:=item?the provider summarised the conversation: {path} is a summary that only it can read}"
        "{what:=cut?the provider was allowed to shorten a prompt that is too long, and billed {tokens:,} tokens fewer}"
        "{what:=edits?the provider edited the context itself ({edits:and}){tokens:?, and cleared {tokens:,} tokens}}"
    )
    # item: a summary that only the provider can read; edits: its response lists them; cut: it was allowed to shorten
    what: Literal["item", "edits", "cut"]
    path: JsonPath = ""  # of the summary, for `item`; else empty
    edits: tuple[Name, ...] = ()  # kinds of edits that the response lists, for `edits`; else empty
    tokens: int | None = None  # cleared, or fewer than before


class ColdCompaction(EvidenceFact, frozen=True):
    """A conversation was sent to be summarised, and read less of its cache than it could."""

    # sections that differ from the conversation's; only "breakpoints": the sections are equal, the last breakpoint is
    # earlier; empty: the log does not hold them
    differs: tuple[Own, ...]
    cached_tokens: int  # tokens that the conversation's last request left in the cache
    read_tokens: int  # cached tokens that the request for the summary read
    warm_tokens: int = 0  # tokens that it would have read with the conversation's prompt
    dollars: float | None = None  # cost of its prompt; None: unknown
    warm_dollars: float | None = None  # cost of its prompt if it had read `warm_tokens`; None: unknown

    def sentence(self) -> str:
        if self.differs == ("breakpoints",):
            how = " with its last breakpoint at an earlier place"
        elif not self.differs:
            how = ""
        else:
            how = " after " + " and ".join(_OTHER_SECTIONS.get(part, part) for part in self.differs)
        length = " of this length" if self.warm_tokens < self.cached_tokens else ""
        text = (
            f"the conversation was sent to be summarised{how}: of {self.cached_tokens:,} cached tokens "
            f"{self.read_tokens:,} were read; a warm request{length} would have read {self.warm_tokens:,}"
        )
        if self.dollars is None or self.warm_dollars is None:
            return text
        return f"{text}, for {format_money(self.warm_dollars)} instead of {format_money(self.dollars)}"


_OTHER_SECTIONS = {"tools": "other tools", "system": "another system prompt", "messages": "other messages"}


class TailReplaced(EvidenceFact, frozen=True):
    """The end of the previous request is not in this one: the conversation or another end takes its place."""

    words = (
        "{path}{role:? of the {role} role} ended the previous request{holds:? (it holds {holds:and})} and "
        "{retried:?another end replaces it|the conversation continues in its place}{repeated:?; the same text ends "
        "this request again}: it costs about {tokens:,} tokens a turn{dollars_a_day:?, {dollars_a_day:money} a day at "
        "this pace}"
    )
    path: JsonPath  # of the first segment of that end, in the previous request
    bytes: int  # size of that end
    tokens: int  # of that end, estimated
    role: Own  # of its message; empty: a role that lore does not know
    holds: tuple[Own, ...] = ()  # the kinds of volatile text in it
    repeated: bool = False  # the same bytes end this request again
    retried: bool = False  # the request was sent again with another end
    # daily cost of these tokens if every turn sends them, at the pace of the chain; None: price or pace unknown
    dollars_a_day: float | None = None


class Rerouted(EvidenceFact, frozen=True):
    """The request was sent to another host or endpoint than the previous one, or with another key."""

    host_before: Name | None = None  # host of the previous request; None: hosts are equal or not recorded
    host_after: Name | None = None  # host of this request; None as `host_before` is
    # path or API of the previous request, at the same host; None: equal or not recorded
    endpoint_before: Name | None = None
    endpoint_after: Name | None = None  # path or API of this request; None as `endpoint_before` is
    account: bool = False  # another key or organisation was used

    def sentence(self) -> str:
        parts: list[str] = []
        if self.host_before is not None:
            parts.append(f"host {self.host_before} became {self.host_after}")
        elif self.endpoint_before is not None:
            parts.append(f"endpoint {self.endpoint_before} became {self.endpoint_after}")
        if self.account:
            parts.append("another key or organisation was used")
        return "; ".join(parts) + ": it has a separate cache"


class RoutedElsewhere(EvidenceFact, frozen=True):
    """A router sent the request to another provider, deployment or region than the previous one.

    Shown by the providers, else by deployments, else by regions, else by answers that this recording did not receive.
    """

    provider_before: Name | None = None  # that answered the previous request; None: not recorded
    provider_after: Name | None = None  # that answered this request; None: not recorded
    deployment_before: Name | None = None  # that answered the previous request; None: not recorded
    deployment_after: Name | None = None  # that answered this request; None: not recorded
    region_before: Name | None = None  # of Azure, that answered the previous request; None: not recorded
    region_after: Name | None = None  # of Azure, that answered this request; None: not recorded
    unreceived: int = 0  # answers between the two requests that this recording did not receive
    ids: tuple[Name, ...] = ()  # beginnings of call ids, if they come from several providers

    def sentence(self) -> str:
        if self.provider_before is not None:
            who = f"the router chose {self.provider_after}, and {self.provider_before} for the previous request"
        elif self.deployment_before is not None:
            deployments = f"{self.deployment_after}, and {self.deployment_before} for the previous request"
            who = f"the router chose deployment {deployments}"
        elif self.region_before is not None:
            who = f"region {self.region_after} answered, and {self.region_before} the previous request"
        else:
            verb = "was" if self.unreceived == 1 else "were"
            who = f"{count_of(self.unreceived, 'answer')} between the two {verb} not received in this recording"
            if self.ids:
                who += f", and call ids begin with {' and '.join(self.ids)}, so another provider issued them"
        return f"{who}; each has its own cache"


class LookbackExceeded(EvidenceFact, frozen=True):
    """More positions are between the previous request's last breakpoint and the next one than the cache looks back."""

    words = (
        "{positions} new positions precede the next breakpoint; {allowed:=0?at that time only an entry at a breakpoint "
        "was read|the cache looks back {allowed}}{missed_tokens:?; {missed_tokens:,} cached tokens were not read}"
    )
    positions: int  # between the two breakpoints
    allowed: int  # positions that the cache looks back; 0: at that time it read only an entry at a breakpoint
    missed_tokens: int | None = None  # cached tokens that were not read; None: unknown


class BreakpointsDropped(EvidenceFact, frozen=True):
    """The last breakpoint of this request precedes that of the previous one, or it has none."""

    words = (
        "{now:=0?this request has no cache breakpoint (the previous request: {before})|the last of {now} cache "
        "breakpoints precedes what the previous request cached up to the last of its {before}}"
    )
    before: int  # breakpoints of the previous request
    now: int  # breakpoints of this request


# Facts from usage and the provider's verdict


class ProviderSaid(EvidenceFact, frozen=True):
    """The provider's verdict on a cache miss."""

    words = (
        "the provider reports {reason:?{reason}|{other}}{missed_tokens:? ({missed_tokens:,} tokens by its estimate)}"
    )
    reason: Own = ""  # the provider's word, if lore knows it
    other: Content = ""  # the provider's word, if lore does not know it
    missed_tokens: int | None = None  # tokens that could have been read; None: not in the verdict
    contradicts: tuple[Own, ...] = ()  # codes of causes in another section than the verdict's
    unread: int | None = None  # tokens of this request that were not read, if `missed_tokens` is more


class ReadFell(EvidenceFact, frozen=True):
    """Usage shows a smaller read than was cached."""

    words = (
        "{lost_tokens:,} of {cached_tokens:,} cached tokens were not read again ({read_tokens:,} were); the recording "
        "shows no cause{lacks_key:?, but without a cache key the beginning of the prompt alone decides which machine "
        "is asked}{no_guarantee:?, and Gemini's implicit cache gives no guarantee}"
        "{at_prompt:?, but a user message had come (a prompt, or a notice of a background task): within "
        "a tool loop such falls are rare, so the client probably changed the prompt|{at_begin:?, but the conversation "
        "had just begun: later such falls are rare, so the client probably changed the prompt}}"
    )
    fix_word = "{lacks_key:?no-cache-key}{no_guarantee:?no-guarantee}{at_prompt:?by-client|{at_begin:?by-client}}"
    lost_tokens: int  # cached tokens that were not read again
    cached_tokens: int  # tokens of the previous prompt that could be read
    read_tokens: int  # tokens that this request read
    at_prompt: bool = False  # the request has a new prompt of the user, in a log of a cache with breakpoints
    at_begin: bool = False  # else: it is the second to fourth request of a chain in such a log
    lacks_key: bool = False  # a recorded request has none of the keys by which its provider selects the machine
    no_guarantee: bool = False  # a recorded request to Gemini, whose implicit cache is best effort


class NothingRead(EvidenceFact, frozen=True):
    """Nothing was read though the prompt continues the previous one; usage does not show how much of it was cached."""

    words = (
        "nothing was read, though the conversation continues a prompt of {tokens:,} tokens; usage does not show how "
        "much of it was cached"
    )
    tokens: int  # of the previous prompt


class WithinBlock(EvidenceFact, frozen=True):
    """The part of the prompt that changed is shorter than one block of the cache, so it could not be cached."""

    words = (
        "about {tokens:,} tokens at the end changed: less than one cache block ({block_tokens}), so nothing of it "
        "could be cached"
    )
    tokens: int  # of the changed part, estimated
    block_tokens: int  # size of a block


class LifetimeLost(EvidenceFact, frozen=True):
    """All breakpoints ask for one hour, and usage has tokens written for five minutes and none for one hour."""

    words = (
        "all {breakpoints} breakpoints ask for 1 hour; {tokens:,} tokens are billed as written for 5 minutes, none for "
        "1 hour"
    )
    breakpoints: int  # in the request
    tokens: int  # that were written for five minutes


class BillUnlikeBody(EvidenceFact, frozen=True):
    """Usage contradicts the recorded body."""

    words = (
        "{tokens:,} tokens are billed {what:=no-breakpoint?as written, though the body has no cache breakpoint}"
        "{what:=hour-unasked?as written for 1 hour, though no breakpoint asks for that}"
        "{what:=five-minutes-unasked?as written for 5 minutes, though every breakpoint asks for 1 hour}"
        "{what:=more-tokens-than-bytes?for a prompt of {bytes:,} bytes: no token is shorter than a byte}"
    )
    # the kind of contradiction
    what: Literal["no-breakpoint", "hour-unasked", "five-minutes-unasked", "more-tokens-than-bytes"]
    tokens: int  # the count that contradicts the body
    bytes: int | None = None  # size of the prompt, for `more-tokens-than-bytes`; else None


class Disputed(EvidenceFact, frozen=True):
    """How bytes, usage and the provider's verdict contradict one another."""

    words = (
        "{what:=unexplained?no recorded byte changed, yet {tokens:,} cached tokens were not read again}"
        "{what:=bill-reads-more?the bytes share about {tokens:,} tokens, yet {read_tokens:,} were read: the provider "
        "ignores this change, or another request had sent the same beginning before}"
        "{what:=same-model?the provider reports {reason}, yet both requests ask for {model}}"
        "{what:=no-change-in-bytes?the provider reports {reason}, yet nothing that was to be cached changed in the "
        "bytes}{what:=nothing-missed?the provider reports {tokens:,} missed tokens, yet everything that was cached was "
        "read}{what:=other-section?the provider reports {reason}, yet the bytes first differ in {section}, at {path}}"
        "{what:=head-was-read?the provider reports {reason}, yet {read_tokens:,} tokens were read: a breakpoint of the "
        "history is at {tokens:,}, so tools and system prompt were unchanged}"
    )
    what: Literal[
        "unexplained", "bill-reads-more", "same-model", "no-change-in-bytes", "nothing-missed", "other-section",
        "head-was-read",
    ]  # fmt: skip
    reason: Own = ""  # the provider's
    tokens: int | None = None  # lost, shared, missed, or before a breakpoint, as the words state; None: `what` has none
    read_tokens: int | None = None  # tokens that were read, for `bill-reads-more` and `head-was-read`; else None
    section: Own = ""  # where the bytes first differ, for `other-section`; else empty
    path: JsonPath = ""  # the first place where the bytes differ, for `other-section`; else empty
    model: Model | None = None  # the model that both requests ask for, for `same-model`; else None


Evidence: TypeAlias = (
    Told | Damage | RecordedChange | ModelChanged | SignSeen | ToolsAnnounced | HookText | ReasoningDropped
    | ThinkingOmitted | FirstWithoutThinking | FirstImage
    | HistoryShrank | TotalShrank | Paused | ParallelStart | OlderEntry | ChainRestarted | MessagesTakenBack
    | SummaryFound | ColdCompaction | EditedByProvider | TailReplaced | Rerouted | RoutedElsewhere | LookbackExceeded
    | BreakpointsDropped
    | ProviderSaid | ReadFell | NothingRead | WithinBlock | LifetimeLost | BillUnlikeBody | Disputed | WritesUnread
    | SharedBlock | ReadPlateau | ReadBelowForecast | OverBudget | Unneeded | Difference | RequestFact
)  # fmt: skip
