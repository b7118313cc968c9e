"""Events of a session log, version 1: deltas to session state, one struct a kind.

Rules: immutable; fields that the log may leave out have a default; content stays `Raw` (see items); as
with items, none can be part of a cycle.
Every event may carry `id`, `at` (RFC 3339), `chain` and `agent_id`.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.model.canonical import printable
from lore.model.items import NULL, Item, Status

MAIN = "main"


class Envelope(
    Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind"
):
    """What every record may carry."""

    id: int | str | None = None
    at: str | None = None
    chain: str = MAIN
    agent_id: str | None = None


class SessionStarted(Envelope, frozen=True, kw_only=True, tag="session_started"):
    """The header of a log. `origin` names the format that the session was recorded in, where not this one.

    `provider` is who served the session, as its client names it.
    """

    session_id: str
    v: int = 1
    origin: str | None = None
    model: str | None = None
    dialect: str | None = None
    system: Raw = NULL
    tools: tuple[Raw, ...] | None = None
    attachments: tuple[str, ...] = ()
    params: Raw = NULL
    user_id: str | None = None
    project_id: str | None = None
    parent_session_id: str | None = None
    provider: str | None = None


class SessionChanged(Envelope, frozen=True, kw_only=True, tag="session_changed"):
    """The model, the system prompt, the tools or the parameters changed in mid-session.

    `dialect` is the shape of the requests from here on, in logs of tools that speak to several APIs in one session.
    `observed` says that recorded requests show the change: nobody announced it, and it entitles no prompt to differ.
    """

    model: str | None = None
    dialect: str | None = None
    system: Raw = NULL
    tools: tuple[Raw, ...] | None = None
    params: Raw = NULL
    observed: bool = False


class Layer(Envelope, frozen=True, kw_only=True, tag="layer"):
    """A named piece of context; `when` is `once_at_start` or `every_turn`."""

    name: str
    when: str
    text: Raw


class Append(Envelope, frozen=True, kw_only=True, tag="append"):
    """An item at the end of the timeline."""

    item: Item


class PatchText(Envelope, frozen=True, kw_only=True, tag="patch_text"):
    """More text for the most recent assistant message of this uuid."""

    uuid: str
    delta_text: Raw


class PatchToolCall(Envelope, frozen=True, kw_only=True, tag="patch_tool_call"):
    """The state or the result of the most recent call of this id."""

    call_id: str
    status: Status
    output: Raw = NULL
    error: Raw = NULL
    detail: Raw = NULL


class ToolResultCleared(Envelope, frozen=True, kw_only=True, tag="tool_result_cleared"):
    """Old results were replaced by a placeholder (micro-compaction)."""

    call_ids: tuple[str, ...]
    placeholder: Raw = NULL


class Remove(Envelope, frozen=True, kw_only=True, tag="remove"):
    """Items were taken back: a rewind, an overflow recovery.

    `observed` says that a recorded request lacks them, or has others in their place: nobody announced it.
    """

    uuids: tuple[str, ...]
    observed: bool = False


class CompactStarted(Envelope, frozen=True, kw_only=True, tag="compact_started"):
    """A compaction began; the timeline does not change yet. Some programs say its trigger only when it is applied."""

    trigger: str | None = None
    pre_tokens: int | None = None


class CompactApplied(Envelope, frozen=True, kw_only=True, tag="compact_applied"):
    """A compaction prunes the timeline to the preserved items and leaves a divider.

    `duration_ms` is how long it took, in milliseconds.
    """

    uuid: str
    trigger: str
    pre_tokens: int | None = None
    post_tokens: int | None = None
    duration_ms: int | float | None = None
    preserved_uuids: tuple[str, ...] | None = None
    summary: Raw = NULL


class Mark(Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """A cache breakpoint that a recorded request set."""

    section: str
    at: int  # index of the tool or of the system text; in messages the number of items up to the end of its message
    value: Raw
    after: int = 0  # blocks of the message after it


class TurnStarted(Envelope, frozen=True, kw_only=True, tag="turn_started"):
    """A model request goes out: its prompt is made of every event up to here.

    Of a request that was recorded `breakpoints` are those that it set; `call` is what is known of it besides its body;
    `given_up` names the chain that it left to begin its own.
    """

    turn: int
    context: Raw = NULL
    breakpoints: tuple[Mark, ...] | None = None
    call: Call | None = None
    given_up: str = ""


_OWN, _FALLBACK = ANSWERING = ("message", "fallback_message")  # kinds of passes that answer; others summarise or advise


class Usage(Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """Token counts that a provider reports for one response, or for one pass of a model within it. Unknown is None.

    The counts are those of the pass that the next request continues; the other passes are in `iterations`.
    """

    uncached_tokens: int | None = None  # input that was neither read from a cache nor written to one
    read_tokens: int | None = None
    write_tokens: int | None = None  # everything written, whatever its lifetime
    output_tokens: int | None = None
    write_5m_tokens: int | None = None  # the part of `write_tokens` that lives for five minutes
    write_1h_tokens: int | None = None  # the part of `write_tokens` that lives for an hour
    iterations: tuple[Usage, ...] = ()  # other passes of the response, which are billed as well
    kind: str = ""  # of an iteration: what the provider calls it, such as `compaction` or `advisor_message`
    model: str | None = None  # the model that answered, if it is another one than the request names
    speed: str = ""  # what the response says about how it was served; empty: nothing
    service_tier: str = ""
    inference_geo: str = ""
    server_tools: tuple[tuple[str, int], ...] = ()  # how often the provider ran each of its own tools
    client: str = ""  # name and version of the program that noted the counts: some note less than what was billed
    contradiction: str = ""  # why the provider's counts cannot be true; the count in question is None

    @property
    def passes(self) -> tuple[Usage, ...]:
        """Every pass that is billed; the one that the next request continues comes first."""
        return (self, *self.iterations)

    @property
    def first_pass(self) -> Usage:
        """The first pass of the model that gave the final answer: it read what earlier requests cached."""
        if not self.iterations:
            return self
        kind = _OWN if self.model is None else _FALLBACK
        return next((found for found in self.iterations if found.kind == kind), self)

    def with_counts(self, other: Usage) -> Usage:
        """Return this usage with the token counts of another one."""
        return replace(self, **{name: getattr(other, name) for name in COUNTS})


COUNTS = Usage.__struct_fields__[:6]  # names of the token counts
SUMMED_COUNTS = COUNTS[:4]  # without the lifetimes of writes


class ContextEdit(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a provider took out of a prompt by itself: its own word for how, and how many tokens, where it says it."""

    kind: str
    tokens: int | None = None


class Call(Struct, frozen=True, gc=False, omit_defaults=True):
    """What is known of a request besides its body; empty or None where the recording does not say.

    `endpoint` is host and path without a query; `session` and `agent` name the conversation, `purpose` says
    in the client's own word what the request is for; `previous` names the response that the request
    continues; `betas` are the beta features asked for by header (None: no headers were recorded);
    `account` is a digest of the key it was sent with, never the key; `status` the response's HTTP status.
    `answered_by` is who answered behind a gateway: a provider's name or the host that the gateway asked; `deployment`
    the gateway's own name for what it asked. `edits` are what the provider took out of the prompt before it answered;
    None where it does not say.
    """

    endpoint: str = ""
    session: str = ""
    agent: str = ""
    purpose: str = ""
    previous: str = ""
    betas: tuple[str, ...] | None = None
    account: str = ""
    status: int | None = None
    answered_by: str = ""
    deployment: str = ""
    edits: tuple[ContextEdit, ...] | None = None


class Verdict(Struct, frozen=True, gc=False, omit_defaults=True):
    """What the provider itself says about a miss."""

    reason: str
    missed_tokens: int | None = None
    source: str | None = None


class PromptHashes(Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """A prompt by hash, as a client notes it that keeps no text.

    `tools` and `system` are tools and segments of the system prompt by name, in order, each with its hash; `points` are
    places in the messages, each with a hash of all up to there. An empty list says nothing.
    """

    tools: tuple[tuple[str, str], ...] = ()
    system: tuple[tuple[str, str], ...] = ()
    points: tuple[tuple[int, str], ...] = ()


class TurnCompleted(Envelope, frozen=True, kw_only=True, tag="turn_completed"):
    """The response is whole; `response_id` is the provider's name for it, the same wherever it is copied.

    `hashes` are what the client noted of the request's prompt by hash.
    """

    turn: int
    usage: Usage | None = None
    verdict: Verdict | None = None
    response_id: str | None = None
    hashes: PromptHashes | None = None


class TurnFailed(Envelope, frozen=True, kw_only=True, tag="turn_failed"):
    """The request failed; what the provider billed all the same is kept."""

    turn: int
    usage: Usage | None = None
    verdict: Verdict | None = None
    error: str | None = None


class TurnCanceled(Envelope, frozen=True, kw_only=True, tag="turn_canceled"):
    """The request was given up."""

    turn: int
    usage: Usage | None = None
    verdict: Verdict | None = None
    error: str | None = None


class Knowledge(Envelope, frozen=True, kw_only=True, tag="knowledge"):
    """What a session knows changed; here `id` names the entry. `op`: add (or create), update, remove."""

    op: str
    id: str  # pyright: ignore[reportGeneralTypeIssues]
    category: str | None = None
    title: str | None = None
    content: str | None = None


class PromptDelta(Envelope, frozen=True, kw_only=True, tag="prompt_delta"):
    """A durable prompt delta; selector and content are JSON, kept to the byte. `turn` is the first that sent it.

    Content is a list of `{"role", "text"}` or of a provider's own messages, `{"role", "content"}` with a text or
    blocks: in a prompt of that provider's API these stand as they were written; one object alone is read as well.
    """

    seq: int
    selector: Raw
    content: Raw = NULL
    turn: int | None = None


class ContextPersisted(Envelope, frozen=True, kw_only=True, tag="context_persisted"):
    """A tail that was written into history; `outside` says that it is context from outside instead, which a
    compaction asked for: a turn may have both.
    """

    turn: int
    insert_at: int
    content: Raw
    outside: bool = False


class CacheReset(Envelope, frozen=True, kw_only=True, tag="cache_reset"):
    """The prefix was given up on purpose; `turn` names the turn that lore itself gave it up for."""

    reason: str
    turn: int | None = None


class Observed(Envelope, frozen=True, kw_only=True, tag="observed"):
    """A sign (`model.state` has the names) was seen before the chain's next request.

    `names` are tools, servers, skills, commands or hooks that came or ran, `removed` those that went; `before` and
    `after` are the values of a setting or version; `version` is that of the client that showed it.
    """

    name: str
    names: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    version: str = ""


class Saved(Envelope, frozen=True, kw_only=True, tag="saved"):
    """What a `jsonl:` store notes of one save: a line before the events of the save. It changes no session state."""

    size: int  # bytes of the events of this save, which follow this line
    byte: int = 0  # where this line begins in its file
    after: int = 0  # number of the last event before this save
    base: str = ""  # digest of all events before this save (`lore.store.lines`)
    log: int = 0  # bytes of all events before this save
    digests: tuple[str, ...] = ()  # one for each event of this save
    note: str = ""  # digest of leaf and metadata
    leaf_id: str | None = None
    metadata: Raw = NULL
    project_id: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    turns: int = 0  # turns begun, this save included
    used_at: str | None = None  # time of the last event that carries one


class OpaqueEvent(Envelope, frozen=True, kw_only=True, tag="opaque"):
    """A record that a reader could not model, verbatim."""

    record: Raw


Event: TypeAlias = (
    SessionStarted | SessionChanged | Layer | Append | PatchText | PatchToolCall | ToolResultCleared | Remove
    | CompactStarted | CompactApplied | TurnStarted | TurnCompleted | TurnFailed | TurnCanceled | Knowledge
    | PromptDelta | ContextPersisted | CacheReset | Observed | Saved | OpaqueEvent
)  # fmt: skip

KINDS: dict[str, type[Envelope]] = {str(kind.__struct_config__.tag): kind for kind in Envelope.__subclasses__()}


def encode(event: Event) -> bytes:
    """Write an event as one line of a log, without the line feed; half a character in a name as its escape, shown."""
    try:
        return msgspec.json.encode(event)
    except UnicodeEncodeError:
        return msgspec.json.encode(_shown_halves(event))


def _shown_halves(value: Any) -> Any:
    if isinstance(value, Struct):
        return replace(value, **{name: _shown_halves(getattr(value, name)) for name in value.__struct_fields__})
    if isinstance(value, tuple):
        return tuple(_shown_halves(one) for one in cast("tuple[Any, ...]", value))
    return printable(value) if isinstance(value, str) else value
