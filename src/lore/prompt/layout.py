"""The layout: what of a session's state goes where in a prompt.

    system[0]   the persisted prompt                     unchanged for the whole session
    system[1]   static context: layers, [session], [attachments]
    system[2]   knowledge as it was known when the chain was pinned
    messages    the timeline, byte-stable
    tail        this turn's context

In: a session, a chain. Out: system texts as JSON strings, units. Rules: what is pinned is rendered in
canonical order, whatever order it came in; a timeline item renders the same in every turn. Sessions
that lore did not assemble (another tool's recording) get no text of lore's: only what they hold. Whose a
user's message is: a user's by its form, and a person's or a scheduler's by what it says (two texts are known
that a scheduler's messages begin with).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Raw

from lore.model.canonical import encode, text_of
from lore.model.inserts import Insert, insert_texts
from lore.model.items import (
    AssistantMessage,
    Block,
    CompactDivider,
    Item,
    OpaqueItem,
    TextBlock,
    ToolCall,
    UserMessage,
    is_absent,
    is_blank,
)  # fmt: skip
from lore.model.jsonslice import elements
from lore.model.state import Chain, Entry, Session
from lore.prompt.base import Role, Unit
from lore.prompt.knowledge import pinned_text, token

ANNOUNCED = (
    "knowledge updates: a message that opens with [knowledge update {}] is put in by this system, not by the user; "
    "it is later than what this prompt says, and needs no answer of its own"
)
INJECTED = "context_injection"  # a user message that a harness put in
TICKS = ("[AUTONOMOUS TICK]", "[SCHEDULED TICK]")


class SystemText(NamedTuple):
    """A block of the system prompt, as a JSON string, and where it comes from."""

    text: bytes
    origin: str


def system_texts(session: Session, chain: Chain) -> tuple[SystemText, ...]:
    """Return the blocks of the system prompt."""
    found = [SystemText(text, "persisted prompt") for text in _persisted(bytes(chain.system))]
    if session.is_own:
        found.append(SystemText(encode(_static(session)), "static context"))
        known = pinned_text(chain.pinned or (), chain.pinned_layers, [one.name for one in session.start_layers])
        if known:
            found.append(SystemText(encode(known), "pinned knowledge"))
    return tuple(found)


def _persisted(system: bytes) -> list[bytes]:
    if system[:1] == b'"':
        return [system] if not is_blank(system) else []
    return [text for text in elements(system) if not is_blank(text)]


def _static(session: Session) -> str:
    parts = [text_of(bytes(layer.text)).strip() for layer in session.start_layers]
    parts.append(f"[session]\nid: {_on_a_line(session.id)}\n{ANNOUNCED.format(token(session.id))}")
    if session.attachments:
        names = "\n".join(f"  - {_on_a_line(name)}" for name in session.attachments)
        parts.append(f"[attachments]\n{names}")
    return "\n\n".join(part for part in parts if part)


def _on_a_line(name: str) -> str:
    """Names that people gave could otherwise pose as another part of the system prompt."""
    return "\\n".join(name.splitlines())


def units(entries: Iterator[Entry]) -> Iterator[tuple[int, tuple[Unit, ...]]]:
    """Group entries into what was said; yields the number of entries taken with their units."""
    group: list[Item] = []
    number = -1
    for entry in entries:
        if entry.group != number and group:
            yield len(group), _units_of(group)
            group = []
        number = entry.group
        group.append(entry.item)
    if group:
        yield len(group), _units_of(group)


def _units_of(group: list[Item]) -> tuple[Unit, ...]:
    match group[0]:
        case AssistantMessage() | ToolCall():
            return _response(group)
        case UserMessage(text=text, blocks=blocks):
            said = (TextBlock(text),) if blocks is None and not is_absent(text) else blocks or ()
            return _said("user", said, group[0].source)
        case CompactDivider(summary=summary):
            return () if is_absent(summary) else _said("user", (TextBlock(summary),), INJECTED)
        case OpaqueItem():
            return ()


def _said(role: Role, blocks: tuple[Block, ...], origin: str) -> tuple[Unit, ...]:
    kept = tuple([one for one in blocks if type(one) is not TextBlock or not is_blank(one.text)])
    return (Unit(role, kept, origin=origin),) if kept else ()


def _response(group: list[Item]) -> tuple[Unit, ...]:
    blocks: list[Block] = []
    calls: list[ToolCall] = []
    for item in group:
        if type(item) is ToolCall:
            calls.append(item)
        elif type(item) is AssistantMessage:
            blocks.extend((TextBlock(item.text),) if not is_absent(item.text) else item.blocks or ())
    said = _said("assistant", tuple(blocks), "assistant") if blocks else ()
    if not calls:
        return said
    made = tuple(calls)
    spoken = said[0].blocks if said else ()
    return (Unit("assistant", spoken, made, origin="assistant"), Unit("results", (), made, origin="tool"))


def inserted(insert: Insert) -> tuple[Unit, ...]:
    """Return what an insert says, as units of their own."""
    what = "delta" if insert.is_delta else "outside context of turn" if insert.outside else "context of turn"
    origin = f"{INJECTED}: {what} {insert.number}"
    return tuple(
        [Unit(role, (TextBlock(Raw(text)),), origin=origin) for role, text in insert_texts(insert.content) or ()]
    )


def is_from_user(item: Item) -> bool:
    """Tell whether an item is a message that came from a user, and says something."""
    if type(item) is not UserMessage or item.source != "user":
        return False
    if item.blocks is None:
        return not is_absent(item.text) and not is_blank(item.text)
    return any(type(block) is not TextBlock or not is_blank(block.text) for block in item.blocks)


def is_real(item: Item) -> bool:
    """Tell whether a person said it."""
    if not is_from_user(item) or not isinstance(item, UserMessage):
        return False
    if item.blocks is None:
        return not begins_as_tick(item.text)
    first = next((block for block in item.blocks if isinstance(block, TextBlock)), None)
    return first is None or not begins_as_tick(first.text)


def begins_as_tick(text: Raw) -> bool:
    """Tell whether a JSON string begins as a scheduler's message does. O(1) for nearly all."""
    start = bytes(memoryview(text)[1:65]).lstrip(b" ")[:1]
    return start in (b"", b"[", b"\\") and text_of(bytes(text)).lstrip().startswith(TICKS)
