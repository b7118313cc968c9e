"""Parts of a session that need no state: its dialect, the items of an answer, checks of messages and calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypedDict

from msgspec import Raw
from msgspec.structs import replace

from lore.errors import LoreError, MisuseError, kind_of
from lore.events.strict import JSON, due
from lore.formats.lore_log import LoreLog
from lore.model.canonical import canonical
from lore.model.codes import Problem
from lore.model.events import Event
from lore.model.items import AssistantMessage, TextBlock, ToolCall, UserMessage, is_blank
from lore.model.providers import MODEL_DIALECTS, dialects_for
from lore.model.state import FoldedSession
from lore.model.turn import Prompt
from lore.prompt.base import Dialect
from lore.prompt.dialects import DIALECTS, dialect_names, require_dialect
from lore.sdk.replies import Reply, ToolUse, items_of


class Context(TypedDict, total=False):
    """A turn's volatile context, in the order of the tail."""

    memory_recall: str | Sequence[Mapping[str, JSON]]
    every_turn: str | Sequence[str]
    current_time: str
    working_context: str | Mapping[str, JSON]
    slash_command: str
    overlay: str
    restart_notice: str
    extra: str | Sequence[str]


class AutomaticCompaction(Protocol):
    """When a session is compacted by itself: `lore.CompactionPolicy` is one."""

    def begin(self, followers: list[Follower]) -> Callable[[FoldedSession, str, str | None], Iterable[Event]]:
        """Return a function that is called before each request of one session; it may add followers to the session.

        With the session's state, the chain and the time it returns the events of the compaction that is due.
        """
        ...


class Follower(Protocol):
    """Gets every event of a session."""

    def restart(self) -> None:
        """Forget all events: the session is loaded again."""
        ...

    def add(self, event: Event) -> None:
        """Add the session's next event."""
        ...


class Begun(NamedTuple):
    """The prompt of a turn, and its events in the log, which are applied already."""

    prompt: Prompt
    events: tuple[Event, ...]


def given_dialect(given: Dialect | str | None) -> Dialect | None:
    """Return a dialect that is given by name or as an object."""
    if given is None or (not isinstance(given, str) and hasattr(given, "render")):
        return given
    if not isinstance(given, str):
        raise MisuseError(f"dialect is {kind_of(given)}: give a name", hint=", ".join(dialect_names()))
    return require_dialect(given)


def dialect_of_model(model: str) -> str:
    """Return the dialect of a model by its name; raises LoreError if it has several, or none is known."""
    due(model, str, "model", "its name")
    names = dialects_for(model)
    if len(names) == 1:
        return names[0]
    if names:
        raise LoreError(
            f"requests for {model} are taken in several dialects: {', '.join(names)}",
            hint=f"name the dialect of the SDK: Session({model!r}, dialect={names[0]!r})",
        )
    known = sorted(MODEL_DIALECTS)
    raise LoreError(
        f"the dialect of {model!r} is not known (models that are: {', '.join(known[:8])}, …)",
        hint="give one: " + ", ".join(DIALECTS),
    )


def refuse_open_calls(message: str, calls: Sequence[ToolUse | ToolCall]) -> None:
    """Raise LoreError if there are calls, with their names."""
    if calls:
        names = ", ".join(f"{call.name} ({call.call_id})" for call in calls[:3])
        more = f", and {len(calls) - 3} more" if len(calls) > 3 else ""
        raise LoreError(
            f"{message} no result: {names}{more}",
            hint="`session.result(call_id, output)` for each, or `error=` for those that did not run",
        )


def named_items(reply: Reply, name: str) -> list[AssistantMessage | ToolCall]:
    """Return an answer's items; the first has the name, and the last message why the answer stopped."""
    items = list(items_of(reply.parts, reply.response_id or None))
    items = [replace(item, uuid=f"{name}.{number}" if number > 1 else name) for number, item in enumerate(items, 1)]
    for at in reversed(range(len(items))):
        if isinstance(items[at], AssistantMessage):
            items[at] = replace(items[at], stop_reason=reply.stop_reason)
            break
    return items


def read_log(data: bytes) -> tuple[list[Event], list[Problem]]:
    """Return the events of a log, and its problems."""
    events, problems = list[Event](), list[Problem]()
    for read in LoreLog().read([data]):
        (problems if isinstance(read.value, Problem) else events).append(read.value)  # pyright: ignore[reportArgumentType]
    return events, problems


def sorted_tools(tools: tuple[Raw, ...]) -> list[bytes]:
    """Return tools in a form that does not depend on their order."""
    return sorted(canonical(bytes(tool)) for tool in tools)


def is_empty_message(item: UserMessage) -> bool:
    """Return whether a message has no content: no text, or blank texts alone."""
    if item.blocks is None:
        return is_blank(item.text)
    return all(isinstance(block, TextBlock) and is_blank(block.text) for block in item.blocks)
