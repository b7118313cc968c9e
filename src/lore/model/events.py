"""Events of a session log, version 1: each record changes the state of a session; one struct a kind.

Events are immutable. A field that a log may leave out has a default, and is not written if it has that value. Content
(texts, tools, results) is JSON as it was recorded, in `Raw` slices (see `items`). No event can be part of a reference
cycle, so the garbage collector need not look at them.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.model.canonical import printable
from lore.model.items import NULL, Item, Status

MAIN = "main"
REPLAY = "replay"  # the purpose of a conversation's request that is sent again, with little to generate


class Envelope(
    Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind"
):
    """The fields that every record may have."""

    id: int | str | None = None  # the record's number in a store
    at: str | None = None  # RFC 3339, UTC
    chain: str = MAIN  # the conversation that the record belongs to
    agent_id: str | None = None  # the agent that wrote the record


class SessionStarted(Envelope, frozen=True, kw_only=True, tag="session_started"):
    """The header of a log."""

    session_id: str  # the session's own name
    v: int = 1  # version of the log's format
    origin: str | None = None  # the format that the session was recorded in, if it was converted
    model: str | None = None  # that its requests name; None: unknown
    dialect: str | None = None  # the shape of the session's requests: `anthropic`, `openai-chat`, …
    system: Raw = NULL  # the persisted prompt: a text or a list of texts
    tools: tuple[Raw, ...] | None = None  # definitions in the order in which they are sent
    attachments: tuple[str, ...] = ()  # names
    params: Raw = NULL  # other fields of the request: an object
    user_id: str | None = None  # whose session it is
    project_id: str | None = None  # the project that it belongs to
    parent_session_id: str | None = None  # the session that it was forked from
    provider: str | None = None  # who serves the session, as its client names it
    title: str | None = None  # the name that its agent or its user gave it


class SessionChanged(Envelope, frozen=True, kw_only=True, tag="session_changed"):
    """The model, system prompt, tools, parameters or title changed in mid-session; a field of None leaves its value."""

    model: str | None = None  # that later requests name
    dialect: str | None = None  # the shape of later requests, in logs of tools that use several APIs in one session
    system: Raw = NULL  # the persisted prompt from now on: a text or a list of texts
    tools: tuple[Raw, ...] | None = None  # definitions from now on, in the order in which they are sent
    params: Raw = NULL  # other fields of later requests: an object
    title: str | None = None  # no part of a prompt
    observed: bool = False  # only the recorded requests show the change: it is no reason for a prompt to differ


class Layer(Envelope, frozen=True, kw_only=True, tag="layer"):
    """A named piece of context."""

    name: str  # by which a later layer can replace it
    when: str  # `once_at_start` or `every_turn`
    text: Raw  # a JSON string


class Append(Envelope, frozen=True, kw_only=True, tag="append"):
    """Put an item at the end of the timeline."""

    item: Item  # a message, a call, a divider or an unknown record


class PatchText(Envelope, frozen=True, kw_only=True, tag="patch_text"):
    """Add text to the assistant message of this uuid."""

    uuid: str  # of the message
    delta_text: Raw  # text to add at its end: a JSON string


class PatchToolCall(Envelope, frozen=True, kw_only=True, tag="patch_tool_call"):
    """Set the status or the result of the last call of this id; null fields stay."""

    call_id: str  # the provider's id of the call
    status: Status  # the new one
    output: Raw = NULL  # a JSON string or an array of blocks
    error: Raw = NULL  # a JSON string
    detail: Raw = NULL  # what the client noted of the result, in any shape


class ToolResultCleared(Envelope, frozen=True, kw_only=True, tag="tool_result_cleared"):
    """Replace old results by a placeholder (micro-compaction)."""

    call_ids: tuple[str, ...]  # whose results are replaced
    placeholder: Raw = NULL  # a JSON string; null: lore's own words


class Remove(Envelope, frozen=True, kw_only=True, tag="remove"):
    """Remove items: a rewind, or a recovery from an overflow."""

    uuids: tuple[str, ...]  # of the removed items
    observed: bool = False  # only the recorded requests show it: they lack the items, or have others in their place
    restart: bool = False  # a new conversation begins in the same log; these items are all of the previous one


class CompactStarted(Envelope, frozen=True, kw_only=True, tag="compact_started"):
    """A compaction began; the timeline does not change yet."""

    trigger: str | None = None  # None: some programs name it only when the compaction is applied
    pre_tokens: int | None = None  # tokens of the context before the compaction


class CompactApplied(Envelope, frozen=True, kw_only=True, tag="compact_applied"):
    """Prune the timeline to the preserved items and leave a divider."""

    uuid: str  # of the divider
    trigger: str  # `overflow`, `manual`, `cadence`, `gap` or `auto`; other words are kept as written
    pre_tokens: int | None = None  # tokens of the context before the compaction
    post_tokens: int | None = None  # and after it
    duration_ms: int | float | None = None  # how long the compaction took
    preserved_uuids: tuple[str, ...] | None = None  # None or empty: nothing is preserved
    summary: Raw = NULL  # a text, rendered in place of the pruned items


class Mark(Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """A cache breakpoint that a recorded request set."""

    section: str  # `tools`, `system` or `messages`
    at: int  # index of the tool or of the system text; in messages the number of items up to the end of its message
    value: Raw  # what the request wrote, such as `{"type":"ephemeral"}`
    after: int = 0  # blocks of its message that follow it


class TurnStarted(Envelope, frozen=True, kw_only=True, tag="turn_started"):
    """A model request is sent: its prompt is made of every event up to here."""

    turn: int  # 1, 2, …
    context: Raw = NULL  # the volatile context of the turn: an object
    breakpoints: tuple[Mark, ...] | None = None  # those of a recorded request; None: not known
    call: Call | None = None  # what a recording says about the request, apart from its body
    given_up: str = ""  # the chain from which the request's chain restarted
    continues: int | None = None  # the turn that it continues, if that is not the chain's previous one


_OWN, _FALLBACK = ANSWERING = ("message", "fallback_message")  # kinds of passes that answer; others summarise or advise
RUN = "run"  # kind of a pass: the sum of the requests of a run that records no counts of single ones
THOUGHTS = "thoughts"  # kind of a pass: output that few later prompts hold, counted apart by the client


class RecordedCost(Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """What a log itself says that requests cost. lore's own price is computed from token counts."""

    dollars: float | None = None  # None: the log states another unit
    requests: int | None = None  # how many requests this is the sum of; None: the one that it is recorded with
    premium_requests: float | None = None  # GitHub Copilot's older unit, which no token count determines


class Usage(Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """Token counts that a provider reports for one response, or for one pass of a model within it. None: unknown.

    The counts are those of the pass that the next request continues; the other passes are in `iterations`.
    """

    uncached_tokens: int | None = None  # input that was neither read from a cache nor written to one
    read_tokens: int | None = None  # input that was read from a cache
    write_tokens: int | None = None  # everything written, whatever its lifetime
    output_tokens: int | None = None  # with thinking, if the provider counts it so
    write_5m_tokens: int | None = None  # the part of `write_tokens` that lives for five minutes
    write_1h_tokens: int | None = None  # the part of `write_tokens` that lives for an hour
    iterations: tuple[Usage, ...] = ()  # other passes of the response, which are billed as well
    kind: str = ""  # of an iteration: what the provider calls it, such as `compaction` or `advisor_message`
    model: str | None = None  # the model that answered, if it is another one than the request names
    speed: str = ""  # what the response says about how it was served; empty: nothing
    service_tier: str = ""  # as the response names it, such as `priority`
    inference_geo: str = ""  # where it was served, as the response names it
    server_tools: tuple[tuple[str, int], ...] = ()  # how often the provider ran each of its own tools
    client: str = ""  # name and version of the program that noted the counts: some note fewer than were billed
    contradiction: str = ""  # why the provider's counts cannot be true; the wrong count becomes None
    recorded: RecordedCost | None = None  # the cost that the log states

    @property
    def passes(self) -> tuple[Usage, ...]:
        """Every pass that is billed; the one that the next request continues comes first."""
        return (self, *self.iterations)

    @property
    def first_pass(self) -> Usage:
        """The first pass that the answering model made: it read what earlier requests had cached.

        It is the first of `iterations` of kind `message` (`fallback_message` if `model` is set); else this usage
        itself.
        """
        if not self.iterations:
            return self
        kind = _OWN if self.model is None else _FALLBACK
        return next((iteration for iteration in self.iterations if iteration.kind == kind), self)

    def with_counts(self, other: Usage) -> Usage:
        """Return this usage with the six counts (`COUNTS`) of another one, unknown ones (None) included."""
        return replace(self, **{name: getattr(other, name) for name in COUNTS})

    def without_unfinished_counts(self) -> Usage | None:
        """Return the usage without counts that only begin a stream: of input that is not divided yet, and no output.

        Gateways to MiniMax and MiMo send them (10 of 11 sessions of Claude Code); a log that has no later record of an
        answer keeps them. The input counts as uncached, and what was read or written is unknown. None without input.
        """
        if self.output_tokens != 0 or self.read_tokens or self.write_tokens or self.iterations or self.recorded:
            return self
        if not self.uncached_tokens:
            return None
        return replace(self, read_tokens=None, write_tokens=None, output_tokens=None)

    @property
    def has_input(self) -> bool:
        """Whether uncached, read or write tokens of this pass are known, even as 0; output alone does not count."""
        return self.uncached_tokens is not None or self.read_tokens is not None or self.write_tokens is not None

    @property
    def is_sum(self) -> bool:
        """Whether `iterations` are the sum of several requests: what a run cost, but no prompt's tokens."""
        return any(iteration.kind == RUN for iteration in self.iterations)

    @property
    def is_billed(self) -> bool:
        """Whether input tokens are known: of this pass, or of the run that it ends."""
        return self.has_input or self.is_sum

    @property
    def recorded_dollars(self) -> float | None:
        """The cost that the log states; None if it states none."""
        return None if self.recorded is None else self.recorded.dollars

    @property
    def is_empty(self) -> bool:
        """Whether the response cost nothing: no pass counts a token, and no tool of the provider ran.

        Unknown counts are treated as 0: check `has_input` first.
        """
        tools = any(count for _, count in self.server_tools)
        return not tools and not any(getattr(usage, name) for usage in self.passes for name in SUMMED_COUNTS)


COUNTS = Usage.__struct_fields__[:6]  # names of the token counts
SUMMED_COUNTS = COUNTS[:4]  # without the lifetimes of writes


class ContextEdit(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a provider removed from a prompt by itself."""

    kind: str  # the provider's word
    tokens: int | None = None  # None: the provider does not say how many


class Call(Struct, frozen=True, gc=False, omit_defaults=True):
    """Facts about a request apart from its body; empty or None if they are not recorded."""

    endpoint: str = ""  # host and path, without a query
    session: str = ""  # the conversation, as the client names it
    agent: str = ""  # the agent within the conversation
    purpose: str = ""  # what the request is for, in the client's word
    previous: str = ""  # the response that the request continues
    betas: tuple[str, ...] | None = None  # beta features that a header asks for; None: no headers were recorded
    account: str = ""  # a digest of the key that the request was sent with, never the key
    status: int | None = None  # HTTP status of the response
    failure: str = ""  # why there was no answer; empty if there may be one
    answered_by: str = ""  # who answered through a gateway: a provider's name or a host
    deployment: str = ""  # the gateway's own name for the model that it asked
    region: str = ""  # of Azure's resource that answered; several may be behind one endpoint
    edits: tuple[ContextEdit, ...] | None = None  # what the provider removed from the prompt; None: not recorded
    inherited_from: str = ""  # the session that sent the request, if the log of a fork begins with a copy of it
    model: str = ""  # the model that the response names; empty if body or endpoint name it in the same words
    route: str = ""  # `name: value` of the header that selects the machine

    @property
    def answerer(self) -> tuple[str, str, str]:
        """Who answered behind the endpoint: provider, deployment and region; each has a cache of its own."""
        return self.answered_by, self.deployment, self.region


class Verdict(Struct, frozen=True, gc=False, omit_defaults=True):
    """What the provider itself says about a cache miss."""

    reason: str  # in the provider's word
    missed_tokens: int | None = None  # that could have been read
    source: str | None = None  # the field of the response that says it


class PromptHashes(Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """Hashes of a prompt, noted by a client that keeps no text. An empty list means that nothing was noted."""

    tools: tuple[tuple[str, str], ...] = ()  # name and hash of each tool, in order
    system: tuple[tuple[str, str], ...] = ()  # name and hash of each segment of the system prompt, in order
    points: tuple[tuple[int, str], ...] = ()  # places in the messages, each with the hash of everything up to there


class TurnCompleted(Envelope, frozen=True, kw_only=True, tag="turn_completed"):
    """The response is complete."""

    turn: int  # its number in the chain
    usage: Usage | None = None  # None: not recorded
    verdict: Verdict | None = None  # what the provider says about a cache miss; None: nothing
    response_id: str | None = None  # the provider's id of the response, the same in every copy of it
    hashes: PromptHashes | None = None  # of the request's prompt


class TurnFailed(Envelope, frozen=True, kw_only=True, tag="turn_failed"):
    """The request failed; it may have been billed."""

    turn: int  # its number in the chain
    usage: Usage | None = None  # None: not recorded
    verdict: Verdict | None = None  # what the provider says about a cache miss; None: nothing
    error: str | None = None  # what went wrong, as recorded


class TurnCanceled(Envelope, frozen=True, kw_only=True, tag="turn_canceled"):
    """The client gave the request up; it may have been billed."""

    turn: int  # its number in the chain
    usage: Usage | None = None  # None: not recorded
    verdict: Verdict | None = None  # what the provider says about a cache miss; None: nothing
    error: str | None = None  # why it was given up, as recorded


class Knowledge(Envelope, frozen=True, kw_only=True, tag="knowledge"):
    """Add, update or remove an entry of the session's knowledge; a field of None leaves its value."""

    op: str  # `add` (or `create`), `update` or `remove`
    id: str  # pyright: ignore[reportGeneralTypeIssues] - here it names the entry
    category: str | None = None  # the heading that it is listed under
    title: str | None = None  # in one line
    content: str | None = None  # its text


class PromptDelta(Envelope, frozen=True, kw_only=True, tag="prompt_delta"):
    """Put a text durably between the items; every later prompt repeats its bytes."""

    seq: int  # number of the delta; a later record of the same number may replace the selector, never the content
    selector: Raw  # `{"target": "messages", "insert_at": n, …}`, kept byte for byte
    # a list of `{"role", "text"}`, or of messages of the session's API, sent as written; or one such object
    content: Raw = NULL
    turn: int | None = None  # the first turn that sent it


class ContextPersisted(Envelope, frozen=True, kw_only=True, tag="context_persisted"):
    """Write the context of a turn into the history; every later prompt repeats it."""

    turn: int  # the turn whose context it is
    insert_at: int  # number of items before it
    content: Raw  # a JSON string, or messages as in `PromptDelta`
    outside: bool = False  # context that a compaction asked other programs for, not the turn's own


class CacheReset(Envelope, frozen=True, kw_only=True, tag="cache_reset"):
    """Abandon the cached prefix on purpose: knowledge is pinned again, deltas end."""

    reason: str  # in the user's or the program's words
    turn: int | None = None  # the turn that lore itself gave it up for


class Observed(Envelope, frozen=True, kw_only=True, tag="observed"):
    """A recording shows something that may move the prefix of the chain's next request."""

    name: str  # one of `state.SIGNS`
    names: tuple[str, ...] = ()  # tools, servers, skills, commands or hooks that were added or ran
    removed: tuple[str, ...] = ()  # those that were removed
    before: str = ""  # the old value of a setting or version
    after: str = ""  # its new value; of a hook the beginning of its text
    version: str = ""  # version of the client that showed it


class Saved(Envelope, frozen=True, kw_only=True, tag="saved"):
    """A line that a `jsonl:` store writes before the events of one save. It changes no session state."""

    size: int  # bytes of the events of this save, which follow this line
    after: int = 0  # number of the last event before this save
    base: str = ""  # digest of all events before this save (`lore.store.lines`)
    log: int = 0  # bytes of all events before this save
    digest: str = ""  # of all events, this save included
    note: str = ""  # digest of leaf and metadata
    leaf_id: str | None = None  # uuid of the main chain's last item, after this save
    metadata: Raw = NULL  # of the session: an object
    project_id: str | None = None  # the project that the session belongs to
    created_at: str | None = None  # when the session was first saved
    updated_at: str | None = None  # when this save was made
    turns: int = 0  # turns begun, this save included
    used_at: str | None = None  # time of the last event that carries one


class OpaqueEvent(Envelope, frozen=True, kw_only=True, tag="opaque"):
    """A record that a reader does not understand, verbatim."""

    record: Raw  # JSON as it was read


Event: TypeAlias = (
    SessionStarted | SessionChanged | Layer | Append | PatchText | PatchToolCall | ToolResultCleared | Remove
    | CompactStarted | CompactApplied | TurnStarted | TurnCompleted | TurnFailed | TurnCanceled | Knowledge
    | PromptDelta | ContextPersisted | CacheReset | Observed | Saved | OpaqueEvent
)  # fmt: skip

KINDS: dict[str, type[Envelope]] = {str(kind.__struct_config__.tag): kind for kind in Envelope.__subclasses__()}


def encode(event: Event) -> bytes:
    """Return an event as a line of a log, without line feed; a lone surrogate in a name becomes a visible escape."""
    try:
        return msgspec.json.encode(event)
    except UnicodeEncodeError:
        return msgspec.json.encode(_printable(event))


def _printable(value: Any) -> Any:
    if isinstance(value, Struct):
        return replace(value, **{name: _printable(getattr(value, name)) for name in value.__struct_fields__})
    if isinstance(value, tuple):
        return tuple(_printable(element) for element in cast("tuple[Any, ...]", value))
    return printable(value) if isinstance(value, str) else value
