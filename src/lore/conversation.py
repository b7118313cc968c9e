"""Parts of a session that need no state: its header, its dialect, the items of an answer."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from lore.errors import LoreError, MisuseError, kind_of
from lore.events.kinds import event as event
from lore.events.kinds import (
    session_started,
)
from lore.events.strict import JSON, due
from lore.formats.lore_log import LoreLog
from lore.model.codes import Problem
from lore.model.events import Event, encode
from lore.model.items import (
    AssistantMessage,
    Block,
    ToolCall,
)
from lore.model.providers import MODEL_DIALECTS, dialects_for
from lore.prompt.base import Dialect
from lore.prompt.dialects import DIALECTS, dialect_named, dialect_names
from lore.sdk.objects import params_of
from lore.sdk.replies import Reply, ToolUse


def header_of(
    model: str, *, system: str | Sequence[str] | None = None, tools: Sequence[JSON] | Mapping[str, JSON] | None = None,
    params: Mapping[str, JSON] | None = None, dialect: Dialect | None = None, session_id: str | None = None,
    attachments: Sequence[str] = (), user_id: str | None = None, project_id: str | None = None, at: str | None = None,
) -> Event:  # fmt: skip
    """Return the header of a session that begins; raises LoreError if its dialect is unknown."""
    name = dialect_name(model) if dialect is None else dialect.name
    given = params_of({} if params is None else params, name) or None
    fields: dict[str, Any] = {
        "model": model, "dialect": name, "system": system, "tools": tools,
        "params": given, "attachments": attachments, "user_id": user_id,
        "project_id": project_id, "at": at,
    }  # fmt: skip
    if session_id is None:
        digest = hashlib.sha256(encode(session_started("", **fields))).hexdigest()
        session_id = f"session-{digest[:12]}"
    return session_started(session_id, **fields)


def dialect_name(model: str) -> str:
    """Return the dialect of a model by its name; raises LoreError if it has several, or none is known."""
    due(model, str, "model", "its name")
    names = dialects_for(model)
    if len(names) == 1:
        return names[0]
    if names:
        raise LoreError(
            f"requests for {model} are taken in several dialects: {', '.join(names)}",
            hint=f"say which SDK is called: Session({model!r}, dialect={names[0]!r})",
        )
    known = sorted({row.model for row in MODEL_DIALECTS})
    raise LoreError(
        f"the dialect of {model!r} is not known (models that are: {', '.join(known[:8])}, …)",
        hint="give one: " + ", ".join(DIALECTS),
    )


def dialect_from(given: Dialect | str | None) -> Dialect | None:
    """Return a dialect that is given by name or as an object."""
    if given is None or (not isinstance(given, str) and hasattr(given, "render")):
        return given
    if not isinstance(given, str):
        raise MisuseError(f"dialect is {kind_of(given)}: give a name", hint=", ".join(dialect_names()))
    dialect = dialect_named(given)
    if dialect is None:
        raise LoreError(f"unknown dialect {given!r}", hint="dialects: " + ", ".join(dialect_names()))
    return dialect


def refuse_open_calls(message: str, calls: Sequence[ToolUse | ToolCall]) -> None:
    """Raise LoreError if there are calls, with their names."""
    if calls:
        names = ", ".join(f"{call.name} ({call.call_id})" for call in calls[:3])
        more = f", and {len(calls) - 3} more" if len(calls) > 3 else ""
        raise LoreError(
            f"{message} no result: {names}{more}",
            hint="`session.result(call_id, output)` for each, or `error=` for those that did not run",
        )


def items_of(reply: Reply, name: str) -> list[AssistantMessage | ToolCall]:
    """Return an answer's items: one for each call, and one for the text between two calls; the first has the name."""
    found: list[AssistantMessage | ToolCall] = []
    blocks: list[Block] = []
    response = reply.response_id or None

    def close() -> None:
        if blocks:
            found.append(AssistantMessage(named(), blocks=tuple(blocks), response_id=response))
            blocks.clear()

    def named() -> str:
        return name if not found else f"{name}.{len(found) + 1}"

    for part in reply.parts:
        if isinstance(part, ToolCall):
            close()
            found.append(replace(part, uuid=named(), response_id=response))
        else:
            blocks.append(part)
    close()
    said = next((at for at in range(len(found) - 1, -1, -1) if isinstance(found[at], AssistantMessage)), None)
    if said is not None:
        found[said] = replace(found[said], stop_reason=reply.stop_reason)
    return found


def read_events(data: bytes) -> tuple[list[Event], list[Problem]]:
    """Return the events of a log, and its problems."""
    reader, events, problems = LoreLog(), list[Event](), list[Problem]()
    for read in reader.read([data]):
        (problems if isinstance(read.value, Problem) else events).append(read.value)  # pyright: ignore[reportArgumentType]
    return events, problems
