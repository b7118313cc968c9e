"""Parts of a session that need no state: its lock and dialect, answers and results, whose step is next, checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from itertools import groupby
from threading import RLock
from typing import Concatenate, Literal, NamedTuple, ParamSpec, Protocol, TypedDict, TypeVar, cast

from msgspec import Raw
from msgspec.structs import replace

from lore.errors import LoreError, MisuseError, kind_of
from lore.events.items import blocks_from, is_result_block
from lore.events.strict import Members, expect
from lore.fold.timeline import index_of
from lore.formats.lore_log import LoreLog
from lore.formats.registry import reader_of
from lore.model import items as i
from lore.model.canonical import canonical, encode
from lore.model.codes import Code, Problem
from lore.model.events import MAIN, Event
from lore.model.providers import MODEL_DIALECTS, dialects_for
from lore.model.state import Chain, Entry, FoldedSession
from lore.model.turn import Prompt
from lore.model.vector import Vector
from lore.prompt.base import Dialect
from lore.prompt.dialects import DIALECTS, dialect_names, require_dialect
from lore.prompt.layout import is_real
from lore.sdk.objects import GIVEN, RESULT, is_model, plain
from lore.sdk.replies import Reply, ToolUse, items_of


class Context(TypedDict, total=False):
    """A turn's volatile context, in the order of the tail."""

    memory_recall: str | Sequence[Members]
    every_turn: str | Sequence[str]
    current_time: str
    working_context: str | Members
    slash_command: str
    overlay: str
    restart_notice: str
    extra: str | Sequence[str]


class ConversationMessage(NamedTuple):
    """A message of a conversation."""

    role: Literal["user", "assistant", "tool", "summary"]  # a tool call with its result; the summary of a compaction
    text: str  # a call's error or output, "" before it has one
    item: i.Item  # with blocks, the name and input of a call, and ids


_ROLES: dict[type[i.Item], Literal["user", "assistant", "tool", "summary"]] = {
    i.UserMessage: "user", i.AssistantMessage: "assistant", i.ToolCall: "tool", i.CompactDivider: "summary",
}  # fmt: skip


def message_of(item: i.Item) -> ConversationMessage | None:
    """Return an item as a message; None for an opaque item."""
    role = _ROLES.get(type(item))
    return None if role is None else ConversationMessage(role, i.text_in(item), item)


class AutomaticCompaction(Protocol):
    """When a session is compacted by itself: `lore.CompactionPolicy` is one."""

    def begin(self, followers: list[Follower]) -> Callable[[FoldedSession, str, str | None], Iterable[Event | Problem]]:
        """Return a function that is called before each request of one session; it may add followers to the session.

        With the session's state, the chain and the time it returns the events of the compaction that is due, or a
        problem if that cannot be made.
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


class _Locked(Protocol):
    lock: RLock  # held while a method runs


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=_Locked)


def with_lock(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Return a session's method that holds the session's lock while it runs."""

    @wraps(method)
    def locked(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.lock:
            return method(self, *args, **kwargs)

    return locked


def choose_kept(entries: Vector[Entry], keep: int) -> tuple[list[str], int]:
    """Return the uuids that a compaction to the last `keep` messages leaves, and how many messages it removes.

    No response is divided. What the model has not read yet remains, and in a tool loop the user's latest question.
    Dividers and opaque items are not counted.
    """
    places = [
        place for place, entry in enumerate(entries) if not isinstance(entry.item, i.CompactDivider | i.OpaqueItem)
    ]
    place = places[-keep] if keep < len(places) else 0
    while place and (
        entries[place].group == entries[place - 1].group
        or all(isinstance(entries[at].item, i.UserMessage) for at in range(place - 1, len(entries)))
    ):
        place -= 1
    kept_places = set(range(place, len(entries)))
    if entries and isinstance(entries[len(entries) - 1].item, i.ToolCall):
        kept_places.update([at for at in range(place) if is_real(entries[at].item)][-1:])
    return [entries[at].item.uuid for at in sorted(kept_places)], len([at for at in places if at not in kept_places])


def fresh_uuid(state: Chain, letter: str, chain: str) -> str:
    """Return a uuid that a chain does not have: a letter and a number, after the chain's name unless it is `main`."""
    numbers, prefix = index_of(state).numbers, "" if chain == MAIN else f"{chain}-"
    number = state.groups + 1
    while f"{prefix}{letter}{number}" in numbers:
        number += 1
    return f"{prefix}{letter}{number}"


class Begun(NamedTuple):
    """The prompt of a turn, and its events in the log, which are applied already."""

    prompt: Prompt
    events: tuple[Event, ...]


def resolve_dialect(dialect: Dialect | str | None) -> Dialect | None:
    """Return the dialect of a name; an object or None unchanged."""
    if dialect is None or (not isinstance(dialect, str) and hasattr(dialect, "render")):
        return dialect
    if not isinstance(dialect, str):
        raise MisuseError(f"dialect is {kind_of(dialect)}: give a name", hint=", ".join(dialect_names()))
    return require_dialect(dialect)


def dialect_of_model(model: str) -> str:
    """Return the dialect of a model by its name; raises LoreError if it has several, or none is known."""
    expect(model, str, "model", "its name")
    names = dialects_for(model)
    if len(names) == 1:
        return names[0]
    if names:
        raise LoreError(
            f"{model} is served in several dialects: {', '.join(names)}",
            hint=f"name the dialect of the SDK: Session({model!r}, dialect={names[0]!r})",
        )
    models = sorted(MODEL_DIALECTS)
    raise LoreError(
        f"the dialect of {model!r} is not known (models that are: {', '.join(models[:8])}, …)",
        hint="give one: " + ", ".join(DIALECTS),
    )


def open_turn(chain: Chain) -> int | None:
    """Return the number of a turn that has begun and not ended; None without one."""
    if chain.turn is None or (chain.last is not None and chain.last.turn == chain.turn.turn):
        return None
    return chain.turn.turn


def describe_omissions(omitted: Iterable[str], reported_kinds: set[str], dialect: str) -> list[Problem]:
    """Return a problem for each kind of part that a dialect cannot express; add the kinds to `reported_kinds`."""
    kinds = [kind for kind in dict.fromkeys(omitted) if kind not in reported_kinds]
    reported_kinds.update(kinds)
    message = f"requests in the dialect {dialect} are sent without what it cannot express"
    return [Problem(Code.CONTEXT_LEFT_OUT, f"{message}: {kind}") for kind in kinds]


def refuse_open_calls(message: str, calls: Sequence[ToolUse | i.ToolCall]) -> None:
    """Raise LoreError if there are calls, with their names."""
    if calls:
        names = ", ".join(f"{call.name} ({call.call_id})" for call in calls[:3])
        more = f", and {len(calls) - 3} more" if len(calls) > 3 else ""
        raise LoreError(
            f"{message} no result: {names}{more}",
            hint="`session.result(call_id, output)` for each, or `error=` for those that did not run",
        )


def name_items(reply: Reply, name: str) -> list[i.AssistantMessage | i.ToolCall]:
    """Return an answer's items with uuids from `name`; the last message has the reason why the answer stopped."""
    items = list(items_of(reply.parts, reply.response_id or None))
    items = [replace(item, uuid=f"{name}.{number}" if number > 1 else name) for number, item in enumerate(items, 1)]
    for at in reversed(range(len(items))):
        if isinstance(items[at], i.AssistantMessage):
            items[at] = replace(items[at], stop_reason=reply.stop_reason)
            break
    return items


def read_log(data: bytes) -> tuple[list[Event], list[Problem]]:
    """Return the events of a log, and its problems."""
    events, problems = list[Event](), list[Problem]()
    for read in LoreLog().read([data]):
        (problems if isinstance(read.value, Problem) else events).append(read.value)  # pyright: ignore[reportArgumentType]
    return events, problems


def refuse_other_format(data: bytes, problem: Problem) -> None:
    """Raise LoreError for data that is not a log of lore; `problem` is what a reader of logs finds in it."""
    name = reader.name if (reader := reader_of(data[: 256 * 1024])) is not None else ""
    if name != LoreLog.name:
        reason = f", but a recording in the format {name}" if name else f": {problem.message}"
        hint = "`lore convert FILE --to lore` makes a session log of it" if name else "session.log() returns one"
        raise LoreError(f"not a session log{reason}", hint=hint)


def sorted_tools(tools: tuple[Raw, ...]) -> list[bytes]:
    """Return tools in a form that does not depend on their order."""
    return sorted(canonical(bytes(tool)) for tool in tools)


def is_empty_message(item: i.UserMessage) -> bool:
    """Return whether a message has no content: no text, or blank texts alone."""
    if item.blocks is None:
        return i.is_blank(item.text)
    return all(isinstance(block, i.TextBlock) and i.is_blank(block.text) for block in item.blocks)


def is_users_step(chain: Chain) -> bool:
    """Return whether the model has answered the latest message, perhaps without content, in a chain without open calls.

    True without any message. False after an answer that Anthropic's API paused: it continues if it is sent back.
    """
    has_answered = chain.last is not None and chain.last.state == "completed"
    if has_answered and len(chain.entries) == chain.sent_entries:
        return True
    kinds = i.UserMessage | i.AssistantMessage | i.ToolCall
    spoken = (entry for entry in reversed(chain.entries) if isinstance(entry.item, kinds))
    _, latest = next(groupby(spoken, key=lambda entry: entry.group), (0, ()))
    return all(
        isinstance(entry.item, i.AssistantMessage) and entry.item.stop_reason != "pause_turn" for entry in latest
    )


def result_body(
    output: object, error: str | BaseException | bool | None, dialect: str
) -> tuple[str | tuple[i.Block, ...] | None, str | None]:
    """Return the output and the error of a result; an error's text follows an output, and then is part of it.

    A failed call without output has an error: Anthropic's API refuses an empty one.
    """
    reason = error if isinstance(error, str) else ""
    if isinstance(error, BaseException):
        reason = f"{type(error).__name__}: {error}".removesuffix(": ")
    is_empty = output is None or (isinstance(output, str) and not output)
    if is_empty and error not in (None, False):
        return None, reason or "error"
    body = _output_body(output, dialect)
    if reason:
        body = f"{body}\n{reason}" if isinstance(body, str) else (*body, i.TextBlock(Raw(encode(reason))))
    return body, None


def _output_body(output: object, dialect: str) -> str | tuple[i.Block, ...]:
    """Return a tool's output as a text or blocks; another JSON value as the text of its JSON, None as empty text."""
    if output is None or isinstance(output, str):
        return output or ""
    values = cast("Sequence[object]", output) if isinstance(output, list | tuple) else ()
    parts = [plain(value, GIVEN) if is_model(value) else value for value in values]
    if parts and all(is_result_block(part, dialect) for part in parts):
        return blocks_from(parts, dialect, "output")
    if isinstance(output, bytes | bytearray | memoryview):
        raise MisuseError("output is bytes: it is a text, blocks, or a JSON value", hint="output.decode()")
    return encode(plain(cast("object", output), RESULT)).decode("utf-8")
