"""The layout of a prompt: which part of a session's state goes where.

    system[0]   the persisted prompt                      the same in all sessions of an agent
    system[1]   layers of the start                       the same in all sessions of an agent
    system[2]   [attachments], [session], knowledge       unchanged until a reset pins it again
    messages    the timeline, byte-stable
    tail        this turn's context

Pinned text is rendered in canonical order, and a timeline item renders the same in every turn. A session that another
tool recorded has only the texts that it recorded.

The tail is replaced in the next turn: memory recall, every-turn texts, time, working context, slash command, overlay,
restart notice and extra texts, with blank lines between them; empty parts are left out. If the model takes a system
message there, that message holds only the words of the agent's author (every-turn texts, overlay, restart notice);
what people, tools, documents and the clock say is in the user's message and never has the operator's authority.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Raw, Struct

from lore.model import items as i
from lore.model import labels
from lore.model.canonical import decode, encode, printable, text_of
from lore.model.codes import Code, Problem
from lore.model.inserts import Insert, insert_texts, short_digest
from lore.model.jsonslice import array, raw_members
from lore.model.mask import cut_masked
from lore.model.state import Chain, Entry, FoldedSession
from lore.model.turn import Segment
from lore.prompt.base import AFTER_RESULTS, Rules, Unit
from lore.prompt.knowledge import ANNOUNCED, pinned_text

INJECTED = "context_injection"  # the source of a user message that a program wrote
RECENT_FILES = 10
PERSISTED, LAYERS, SESSION = "persisted prompt", "layers", "session and knowledge"  # origins of system texts
SHARED = (PERSISTED, LAYERS)  # the same in all sessions of an agent
TICKS = ("[AUTONOMOUS TICK]", "[SCHEDULED TICK]")  # how a scheduler's messages begin


class SystemText(NamedTuple):
    """A block of the system prompt."""

    text: bytes  # a JSON string
    origin: str  # what it was made from, such as `LAYERS`


def is_announced(chain: Chain, rules: Rules) -> bool:
    """Return whether the system prompt tells the model with which token lore's later knowledge updates begin.

    It does if the rules ask for it, if knowledge (also removed since) or layers existed at the first turn, or if some
    are pinned.
    """
    return chain.announced or rules.announce_token or bool(chain.pinned or chain.pinned_layers)


def system_texts(session: FoldedSession, chain: Chain, rules: Rules) -> tuple[SystemText, ...]:
    """Return the texts of the system prompt: first those that all sessions share, then this session's own.

    A session that another tool recorded has only the first kind. Blank texts are left out.
    """
    system = bytes(chain.system)
    texts = [system] if system[:1] == b'"' else array(system)
    blocks = [SystemText(plain, PERSISTED) for text in texts for plain in _plain_strings(text)]
    if session.is_own:
        layers = [text_of(bytes(layer.text)).strip() for layer in session.start_layers]
        names = "\n".join(f"  - {_one_line(name)}" for name in session.attachments)
        attachments = f"[attachments]\n{names}" if names else ""
        announced = f"[session]\nid: {_one_line(session.id)}\n{ANNOUNCED.format(short_digest(session.id))}"
        layer_names = [layer.name for layer in session.start_layers]
        knowledge = pinned_text(chain.pinned or (), chain.short_ids, chain.pinned_layers, layer_names)
        session_parts = [attachments, announced if is_announced(chain, rules) else "", knowledge]
        for origin, parts in ((LAYERS, layers), (SESSION, session_parts)):
            text = "\n\n".join(part for part in parts if part)
            if text:
                blocks.append(SystemText(encode(text), origin))
    return tuple(blocks)


def is_shared(segment: Segment) -> bool:
    """Return whether all sessions of an agent share it: a tool or `SHARED` text."""
    return segment.section == "tools" or (segment.origin != "" and set(SHARED).issuperset(segment.origin.split(", ")))


def _plain_strings(text: bytes) -> list[bytes]:
    """Return a persisted text, or each text of a provider's message or block, as JSON strings without blank ones."""
    if text[:1] != b"{":
        return [] if i.is_blank(text) else [text]
    outer, texts = raw_members(text) or {}, list[bytes]()
    inner = outer if "text" in outer else raw_members(next(iter(outer.values()), b"")) or outer
    for key in ("text", "content", "parts"):
        value = inner.get(key, b"")
        blocks = [inner] if key == "text" else [raw_members(block) or {} for block in array(value)]
        strings = [block["text"] for block in blocks if block.get("text", b"")[:1] == b'"']
        texts += [value] if key == "content" and value[:1] == b'"' else strings
    return [string for string in texts if not i.is_blank(string)]


def _one_line(name: str) -> str:
    """Return a name without line ends, so that it cannot pass for another part of the system prompt."""
    return "\\n".join(name.splitlines())


def build_units(entries: Iterator[Entry]) -> Iterator[tuple[int, tuple[Unit, ...]]]:
    """Yield for each group of adjacent entries the number of entries and the units to render.

    A response with tool calls has two units, the answer and the results; a group without content has none.
    """
    for _, some in groupby(entries, lambda entry: entry.group):
        group = [entry.item for entry in some]
        yield len(group), _units_of(group)


def _units_of(group: list[i.Item]) -> tuple[Unit, ...]:
    match group[0]:
        case i.AssistantMessage() | i.ToolCall():
            return _response_units(group)
        case i.UserMessage(text=text, blocks=None, source=origin):
            content = [] if i.is_absent(text) else _without_blank((i.TextBlock(text),))
        case i.UserMessage(blocks=blocks, source=origin):
            content = _without_blank(blocks or ())
        case i.CompactDivider(summary=summary):
            content, origin = [] if i.is_absent(summary) else _without_blank((i.TextBlock(summary),)), INJECTED
        case i.OpaqueItem():
            return ()
    return (Unit("user", tuple(content), origin=origin),) if content else ()


def _without_blank(blocks: tuple[i.Block, ...]) -> list[i.Block]:
    return [block for block in blocks if type(block) is not i.TextBlock or not i.is_blank(block.text)]


def _response_units(group: list[i.Item]) -> tuple[Unit, ...]:
    blocks: list[i.Block] = []
    calls: list[i.ToolCall] = []
    before: list[int] = []
    for item in group:
        if type(item) is i.ToolCall:
            calls.append(item)
            before.append(len(blocks))
        elif type(item) is i.AssistantMessage:
            content = (i.TextBlock(item.text),) if not i.is_absent(item.text) else item.blocks or ()
            blocks.extend(_without_blank(content))
    if not calls:
        return (Unit("assistant", tuple(blocks), origin="assistant"),) if blocks else ()
    places = tuple(before) if before[0] < len(blocks) else ()
    answer = Unit("assistant", tuple(blocks), tuple(calls), origin="assistant", before=places)
    return answer, Unit("results", (), answer.calls, origin="tool")


def build_insert_units(insert: Insert, *, after_results: bool = False) -> tuple[Unit, ...]:
    """Return a unit for each text of an insert; with `after_results` they extend the message of the tool results."""
    what = "delta" if insert.is_delta else "outside context of turn" if insert.outside else "context of turn"
    origin = f"{INJECTED}: {what} {insert.number}" + (f" {AFTER_RESULTS}" if after_results else "")
    texts = insert_texts(insert.content) or ()
    return tuple(
        [Unit(text.role, text.blocks, joins=after_results, origin=origin, message=text.message) for text in texts]
    )


def is_from_user(item: i.Item) -> bool:
    """Return whether an item is a message of source `user` with content, which no text inserted by a program is.

    A scheduler's message that is recorded as the user's counts; `is_real` excludes it.
    """
    if type(item) is not i.UserMessage or item.source != "user":
        return False
    if item.blocks is None:
        return not i.is_absent(item.text) and not i.is_blank(item.text)
    return any(type(block) is not i.TextBlock or not i.is_blank(block.text) for block in item.blocks)


def is_real(item: i.Item) -> bool:
    """Return whether an item `is_from_user`, and does not begin as a scheduler's message (`TICKS`)."""
    if not is_from_user(item) or not isinstance(item, i.UserMessage):
        return False
    text = item.text
    if item.blocks is not None:
        text = next((block.text for block in item.blocks if isinstance(block, i.TextBlock)), i.NULL)
    start = bytes(memoryview(text)[1:65]).lstrip(b" ")[:1]  # decides in O(1) for nearly all messages
    return start not in (b"", b"[", b"\\") or not text_of(bytes(text)).lstrip().startswith(TICKS)


class Tail(NamedTuple):
    """The text of a turn's context."""

    text: str  # for the user's message; empty without
    instructions: str  # for a system message after it; empty without
    problems: tuple[Problem, ...]  # of parts that were left out


def tail_of(session: FoldedSession, context: Raw, *, separate: bool) -> Tail:
    """Return the text of a turn's context and of `every_turn` layers.

    With `separate` the words of the agent's author are `instructions`; otherwise these are empty.
    """
    parts: list[str] = []
    instructions: list[str] = []
    problems: list[Problem] = []
    members = _parts_of(context, problems)
    for name, (kind, render) in _PARTS.items():
        member = members.get(name)
        try:
            value = None if member is None else msgspec.convert(member, kind)
        except ValueError as error:
            problems.append(Problem(Code.MALFORMED_RECORD, f"context {name}: {error}"))
            continue
        text = render(value).strip("\n") if value else ""
        text = text if text.strip() else ""
        if name == "every_turn":
            layers = [text_of(bytes(layer.text)).strip() for layer in session.turn_layers]
            text = "\n\n".join(part for part in [*layers, text] if part)
        if text:
            (instructions if separate and name in _INSTRUCTIONS else parts).append(text)
    unknown = [key for key in members if key not in _PARTS]
    if unknown:
        names = printable(cut_masked(", ".join(sorted(unknown)), 80))
        problems.append(Problem(Code.UNKNOWN_RECORD, f"context has unknown parts: {names}"))
    return Tail("\n\n".join(parts), "\n\n".join(instructions), tuple(problems))


def _parts_of(context: Raw, problems: list[Problem]) -> dict[str, Any]:
    if i.is_absent(context):
        return {}
    try:
        value = decode(bytes(context))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        problems.append(Problem(Code.MALFORMED_RECORD, "context is not an object"))
        return {}
    return cast("dict[str, Any]", value)


class _Recalled(Struct):
    """An entry that memory recalled."""

    id: str | None = None  # by which memory knows it
    title: str | None = None  # in one line
    content: str | None = None  # its text
    score: float | None = None  # how well it fits


class _Working(Struct):
    """What the agent works on."""

    project_dir: str | None = None  # the project's folder
    recent_files: list[str | None] = []  # the latest first


def _label(label: str, text: str) -> str:
    return f"{label}\n{text}" if text.strip() else ""


def _join(value: str | list[str | None]) -> str:
    return value if isinstance(value, str) else "\n\n".join(text for text in value if text)


def _render_recall(value: str | list[_Recalled]) -> str:
    if isinstance(value, str):
        return _label(labels.MEMORY_RECALL, value)
    rendered: list[str] = []
    for entry in value:
        title, name = (" ".join((text or "").splitlines()) for text in (entry.title, entry.id))
        parts = [title, f"[{name}]" if name else "", "" if entry.score is None else f"score={entry.score:.2f}"]
        line = " ".join(part for part in parts if part)  # without line ends, with which it could pass for another part
        content = (entry.content or "").replace("\n", "\n  ")
        rendered.append("- " + "\n  ".join(part for part in (line, content) if part))
    return _label(labels.MEMORY_RECALL, "\n".join(rendered))


def _render_working(value: str | _Working) -> str:
    if isinstance(value, str):
        return _label(labels.WORKING_CONTEXT, value)
    directory, *files = [  # a path with line ends or the like could pass for another part
        path if path and not any(char in path for char in "\r\n\0") and printable(path) == path else ""
        for path in (value.project_dir, *value.recent_files)
    ]
    lines = [f"project_dir: {directory}"] if directory else []
    if names := [*dict.fromkeys(filter(None, files))][:RECENT_FILES]:
        lines += ["recent_files:", *(f"  - {name}" for name in names)]
    return _label(labels.WORKING_CONTEXT, "\n".join(lines))


# The type of each part of a context, and how it is rendered.
_PARTS: dict[str, tuple[Any, Callable[[Any], str]]] = {
    "memory_recall": (str | list[_Recalled], _render_recall),
    "every_turn": (str | list[str | None], _join),
    "current_time": (str, partial(_label, labels.CURRENT_TIME)),
    "working_context": (str | _Working, _render_working),
    "slash_command": (str, partial(_label, labels.SLASH_COMMAND)),
    "overlay": (str, partial(_label, labels.OVERLAY)),
    "restart_notice": (str, partial(_label, labels.RESTART_NOTICE)),
    "extra": (str | list[str | None], _join),
}
_INSTRUCTIONS = ("every_turn", "overlay", "restart_notice")  # parts that the agent's author words
CONTEXT = tuple(_PARTS)
