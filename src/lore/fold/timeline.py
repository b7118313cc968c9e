"""The events that change a timeline: append, patches, cleared results, tombstones.

In: a chain and an event. Out: the chain after it, and what was wrong with the event. Rules: an id that
is not there is a no-op with a problem; items are replaced, never changed; of a duplicated uuid the
first position and the last content hold.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Raw

from lore.model.events import Append, PatchText, PatchToolCall, Remove, ToolResultCleared
from lore.model.items import AssistantMessage, Item, ToolCall, is_absent
from lore.model.problems import Problem
from lore.model.state import Chain, Change, Entry, Index, Stream, settled
from lore.model.vector import Vector

CLEARED = Raw(b'"[Old tool result content cleared]"')


class Folded(NamedTuple):
    """A chain after one event, and the problems of that event."""

    chain: Chain
    problems: tuple[Problem, ...] = ()


def index_of(chain: Chain) -> Index:
    """Return the positions of this very version, built anew if the index belongs to another."""
    index = chain.index
    return index if index is not None and index.owner is chain.entries else Index(chain.entries)


def settle(chain: Chain) -> Chain:
    """Join streamed text and go on from there: the index follows, since joining moves no item."""
    joined = settled(chain)
    if chain.index is not None and chain.index.owner is chain.entries:
        chain.index.owner = joined.entries
    return joined


def append(chain: Chain, event: Append) -> Folded:
    """Put an item at the end, or in the place of the item that already has its uuid."""
    index, item = index_of(chain), event.item
    known = index.uuids.get(item.uuid)
    if known is not None:
        return _replace_duplicate(settle(chain), index, known, item)
    turn = chain.turn.turn if chain.turn is not None else 0
    last = chain.entries[-1] if len(chain.entries) else None
    joins = last is not None and _joins(last, item, turn)
    groups = chain.groups if joins else chain.groups + 1
    entries = chain.entries.append(Entry(item, turn, last.group if last is not None and joins else groups))
    index.note(item, len(entries) - 1)
    index.owner = entries
    return Folded(msgspec.structs.replace(chain, entries=entries, groups=groups, index=index))


def _joins(last: Entry, item: Item, turn: int) -> bool:
    """Tell whether an item continues the response that the last entry belongs to.

    Only within one turn: a call that joined a response after it was sent would be inserted before
    its results, in the middle of what the provider has cached. Without turns and response ids, a
    call whose result is known cannot be parallel to what comes after it.
    """
    if last.turn != turn:
        return False
    match last.item, item:
        case (AssistantMessage() | ToolCall()) as before, (AssistantMessage() | ToolCall()):
            if before.response_id != item.response_id:
                return False
            if before.response_id is not None or turn > 0:
                return True
            return not (isinstance(before, ToolCall) and before.status != "running")
        case _:
            return False


def _replace_duplicate(chain: Chain, index: Index, place: int, item: Item) -> Folded:
    entry = chain.entries[place]
    problem = Problem("LORE205", f"uuid {item.uuid!r} came before; its first place and last content hold")
    if entry.item == item:
        return Folded(chain, (problem,))
    return Folded(_put(chain, index, place, item), (problem,))


def _put(chain: Chain, index: Index, place: int, item: Item) -> Chain:
    before = chain.entries[place]
    entries = chain.entries.set(place, msgspec.structs.replace(before, item=item))
    index.put(before.item, item, place, entries)
    return msgspec.structs.replace(chain, entries=entries, index=index)


def patch_text(chain: Chain, event: PatchText) -> Folded:
    """Add text to the assistant message of this uuid, in front of nothing and behind all it has."""
    index = index_of(chain)
    place = index.uuids.get(event.uuid)
    item = chain.entries[place].item if place is not None else None
    if place is None or not isinstance(item, AssistantMessage):
        return Folded(chain, (Problem("LORE204", f"patch_text names unknown message {event.uuid!r}"),))
    if chain.stream is not None and chain.stream.place != place:
        chain = settle(chain)
    deltas = chain.stream.deltas if chain.stream is not None else Vector[Raw]()
    return Folded(msgspec.structs.replace(chain, stream=Stream(place, deltas.append(event.delta_text)), index=index))


def patch_tool_call(chain: Chain, event: PatchToolCall) -> Folded:
    """Set a call's status, and whatever of output, error and detail the event carries."""
    index = index_of(chain)
    place = index.calls.get(event.call_id)
    item = chain.entries[place].item if place is not None else None
    if place is None or not isinstance(item, ToolCall):
        return Folded(chain, (Problem("LORE204", f"patch_tool_call names unknown call {event.call_id!r}"),))
    changed = ToolCall(
        uuid=item.uuid,
        call_id=item.call_id,
        name=item.name,
        input=item.input,
        status=event.status,
        output=item.output if is_absent(event.output) else event.output,
        error=item.error if is_absent(event.error) else event.error,
        detail=item.detail if is_absent(event.detail) else event.detail,
        response_id=item.response_id,
    )
    return Folded(_put(chain, index, place, changed))


def clear_results(chain: Chain, event: ToolResultCleared) -> Folded:
    """Replace the outputs of these calls by the placeholder."""
    index, unknown = index_of(chain), 0
    placeholder = CLEARED if is_absent(event.placeholder) else event.placeholder
    for call_id in event.call_ids:
        place = index.calls.get(call_id)
        item = chain.entries[place].item if place is not None else None
        if place is None or not isinstance(item, ToolCall):
            unknown += 1
            continue
        chain = _put(chain, index, place, msgspec.structs.replace(item, output=placeholder))
    cleared = len(event.call_ids) - unknown
    if cleared:
        chain = changed(chain, "LORE117", f"{cleared} tool results cleared")
    if not unknown:
        return Folded(chain)
    return Folded(chain, (Problem("LORE204", f"tool_result_cleared names {unknown} unknown calls"),))


def remove(chain: Chain, event: Remove) -> Folded:
    """Take items back; costs O(items from the first one removed)."""
    index = index_of(chain)
    places = {index.uuids[uuid] for uuid in event.uuids if uuid in index.uuids}
    missing = sum(1 for uuid in event.uuids if uuid not in index.uuids)
    problems = (Problem("LORE204", f"remove names {missing} unknown items"),) if missing else ()
    if not places:
        return Folded(chain, problems)
    chain = settle(chain)
    first = min(places)
    kept = [entry for place, entry in enumerate(chain.entries.since(first), first) if place not in places]
    entries = chain.entries.cut(first).extend(kept)
    index.renumber(chain.entries, entries, first)
    chain = msgspec.structs.replace(chain, entries=entries, index=index)
    return Folded(changed(chain, "LORE143", f"{len(places)} items taken back"), problems)


def with_entries(chain: Chain, entries: Vector[Entry]) -> Chain:
    """Return the chain with another timeline and the index of it."""
    return msgspec.structs.replace(chain, entries=entries, index=Index(entries))


def changed(chain: Chain, cause: str, detail: str) -> Chain:
    """Note an event that entitles the next prompt to differ; a cause is noted once a turn."""
    kept = tuple(change for change in chain.since if change.cause != cause)
    return msgspec.structs.replace(chain, since=(*kept, Change(cause, detail)))
