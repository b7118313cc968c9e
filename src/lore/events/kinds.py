"""Events of a session log: a typed function for each kind that a program applies to a session.

Turns and deltas are written by the session itself. All raise MisuseError for a wrong name, word or type. An argument
None leaves the field out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, Unpack, get_args

from lore.errors import MisuseError
from lore.events.items import Content, output_json
from lore.events.strict import (
    JSON,
    STATUSES,
    Common,
    JsonObject,
    Tools,
    expect,
    id_list,
    object_json,
    optional_json,
    require_word,
    strict,
    system_json,
    text_json,
    tools_json,
)
from lore.model import events as e
from lore.model import items as i

Trigger: TypeAlias = Literal["overflow", "manual", "cadence", "gap", "auto"]
When: TypeAlias = Literal["once_at_start", "every_turn"]
Op: TypeAlias = Literal["add", "create", "update", "remove"]
TRIGGERS: tuple[str, ...] = get_args(Trigger)
WHENS: tuple[str, ...] = get_args(When)
OPS: tuple[str, ...] = get_args(Op)


@strict
def session_started(
    session_id: str, *, model: str | None = None, dialect: str | None = None, system: str | Sequence[str] | None = None,
    tools: Tools | None = None, attachments: Sequence[str] = (), params: JsonObject | None = None,
    user_id: str | None = None, project_id: str | None = None, parent_session_id: str | None = None,
    **common: Unpack[Common],
) -> e.SessionStarted:  # fmt: skip
    """Return the header of a log: its first event. Tools in a mapping are ordered by name.

    >>> session_started("s1", model="claude-opus-5", system="Be brief.").session_id
    's1'
    """
    return e.SessionStarted(
        session_id=session_id, model=model, dialect=dialect, system=system_json(system), tools=tools_json(tools),
        attachments=tuple(attachments), params=i.NULL if params is None else object_json(params, "params"),
        user_id=user_id, project_id=project_id, parent_session_id=parent_session_id, **common,
    )  # fmt: skip


@strict
def session_changed(
    *, model: str | None = None, dialect: str | None = None, system: str | Sequence[str] | None = None,
    tools: Tools | None = None, params: JsonObject | None = None, **common: Unpack[Common],
) -> e.SessionChanged:  # fmt: skip
    """Return the event that changes values of the header during the session; None leaves a value as it is.

    >>> session_changed(model="claude-sonnet-5").model
    'claude-sonnet-5'
    """
    return e.SessionChanged(
        model=model, dialect=dialect, system=system_json(system), tools=tools_json(tools),
        params=i.NULL if params is None else object_json(params, "params"), **common,
    )  # fmt: skip


@strict
def layer(name: str, when: When, text: str, **common: Unpack[Common]) -> e.Layer:
    """Return the event that adds context to the system prompt (`once_at_start`), or to the tail of every turn.

    >>> layer("project", "once_at_start", "The project is a parser.").when
    'once_at_start'
    """
    return e.Layer(name=name, when=require_word(when, WHENS, "when"), text=text_json(text, "text"), **common)


@strict
def append(item: i.Item, **common: Unpack[Common]) -> e.Append:
    """Return the event that adds an item at the end of the timeline.

    >>> append(user_message("u1", "hi")).item.uuid
    'u1'
    """
    expect(item, i.Item, "item", "lore.events.user_message, assistant_message or tool_call")
    return e.Append(item=item, **common)


@strict
def patch_tool_call(
    call_id: str, status: i.Status = "completed", *, output: Content | None = None, error: str | None = None,
    detail: JSON = None, **common: Unpack[Common],
) -> e.PatchToolCall:  # fmt: skip
    """Return the event that sets a call's status and result: output (text or blocks), error, other details.

    >>> patch_tool_call("toolu_1", output="60 lines").status
    'completed'
    """
    return e.PatchToolCall(
        call_id=call_id, status=require_word(status, STATUSES, "status"), output=output_json(output),
        error=optional_json(error, "error"), detail=optional_json(detail, "detail"), **common,
    )  # fmt: skip


@strict
def tool_result_cleared(
    call_ids: Sequence[str], *, placeholder: str | None = None, **common: Unpack[Common]
) -> e.ToolResultCleared:
    """Return the event that replaces the outputs of calls by a placeholder; None: lore's own.

    >>> tool_result_cleared(["toolu_1"]).call_ids
    ('toolu_1',)
    """
    return e.ToolResultCleared(
        call_ids=id_list(call_ids, "call_ids"), placeholder=optional_json(placeholder, "placeholder"), **common
    )


@strict
def remove(uuids: Sequence[str], **common: Unpack[Common]) -> e.Remove:
    """Return the event that removes items from the timeline, such as a rewind.

    >>> remove(["u2", "a2"]).uuids
    ('u2', 'a2')
    """
    return e.Remove(uuids=id_list(uuids, "uuids"), **common)


@strict
def compact_started(trigger: Trigger, *, pre_tokens: int | None = None, **common: Unpack[Common]) -> e.CompactStarted:
    """Return the event that a compaction began; it changes nothing.

    >>> compact_started("manual", pre_tokens=120_000).trigger
    'manual'
    """
    return e.CompactStarted(trigger=require_word(trigger, TRIGGERS, "trigger"), pre_tokens=pre_tokens, **common)


@strict
def compact_applied(
    uuid: str, trigger: Trigger, *, summary: str | None = None, preserved_uuids: Sequence[str] | None = None,
    pre_tokens: int | None = None, post_tokens: int | None = None, **common: Unpack[Common],
) -> e.CompactApplied:  # fmt: skip
    """Return the event that prunes the timeline to the preserved items (None: no items) and a divider.

    `uuid` is that of the divider, which holds the summary of the others.

    >>> compact_applied("d1", "manual", summary="So far: …", preserved_uuids=["u9"]).preserved_uuids
    ('u9',)
    """
    return e.CompactApplied(
        uuid=uuid, trigger=require_word(trigger, TRIGGERS, "trigger"), pre_tokens=pre_tokens, post_tokens=post_tokens,
        preserved_uuids=None if preserved_uuids is None else id_list(preserved_uuids, "preserved_uuids"),
        summary=optional_json(summary, "summary"), **common,
    )  # fmt: skip


@strict
def knowledge(
    op: Op, id: str, *, category: str | None = None, title: str | None = None, content: str | None = None,
    at: str | None = None,
) -> e.Knowledge:  # fmt: skip
    """Return the event that adds, updates or removes an entry of the session's knowledge, which every chain shows.

    An entry has a title, a content or both.

    >>> knowledge("add", "release-1", title="Release", content="1.0 is out.").id
    'release-1'
    """
    if op in ("add", "create") and not (title or content):
        raise MisuseError(f"the entry {id!r} has no text", hint="give content or title")
    if op == "update" and (category, title, content) == (None, None, None):
        raise MisuseError(f"nothing to update in the entry {id!r}", hint="give category, title or content")
    return e.Knowledge(op=require_word(op, OPS, "op"), id=id, category=category, title=title, content=content, at=at)


@strict
def cache_reset(reason: str, **common: Unpack[Common]) -> e.CacheReset:
    """Return the event that gives up the cached prefix: deltas end, and the next turn pins knowledge again.

    >>> cache_reset("the cache has expired").reason
    'the cache has expired'
    """
    return e.CacheReset(reason=reason, **common)
