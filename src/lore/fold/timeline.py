"""What changes a timeline: append, patches, cleared results, tombstones, compaction; and the places of inserts.

In: a chain of the fold's own (a copy that no state holds yet) and an event. The chain is changed; out
comes what was wrong with the event. Rules: an id that is not there is a no-op with a problem; items are
replaced, never changed; of a duplicated uuid the first position and the last content hold; an item of a
response that is not sent yet joins its response, whatever came in between; inserts follow the entries that they stand
before.

A compaction prunes to what was preserved and leaves one divider, directly before the first kept item (where it is set
so, behind the last one), or at the end when nothing is kept; what is kept keeps its order; a list of which nothing is
found prunes nothing (more history beats a broken one) and says so; knowledge is pinned anew, durable deltas end,
persisted context stays with its item.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable
from itertools import islice
from typing import TypeAlias

import msgspec
from msgspec import Raw

from lore.model import events as e
from lore.model.codes import Code, Problem
from lore.model.inserts import Insert
from lore.model.items import NULL, AssistantMessage, CompactDivider, Item, ToolCall, is_absent
from lore.model.limits import RESPONSE_ENTRIES
from lore.model.mask import mask
from lore.model.state import Chain, Change, Entry, Index, Stream, settled
from lore.model.vector import Vector

Problems: TypeAlias = tuple[Problem, ...]

CLEARED = Raw(b'"[Old tool result content cleared]"')
_SPOKEN = (AssistantMessage, ToolCall)


def index_of(chain: Chain) -> Index:
    """Return the positions of this very version, built anew if the index belongs to another."""
    index = chain.index
    if index is None or index.owner is not chain.entries:
        index = chain.index = Index(chain.entries)
    return index


def settle(chain: Chain) -> None:
    """Join streamed text; the index follows, since joining moves no item."""
    if chain.stream is None:
        return
    joined = settled(chain)
    if chain.index is not None and chain.index.owner is chain.entries:
        chain.index.owner = joined.entries
    chain.entries, chain.stream = joined.entries, None


def append(chain: Chain, event: e.Append) -> Problems:
    """Put an item at the end, or in the place of the item that already has its uuid."""
    index, item, entries = index_of(chain), event.item, chain.entries
    known = index.place(item.uuid)
    if known is not None:
        settle(chain)
        item = _with_outcome(chain.entries[known].item, item)
        if chain.entries[known].item != item:
            _put(chain, index, known, item)
        return problem(Code.DUPLICATE_UUID, f"uuid {item.uuid!r} came before; its first place and last content hold")
    turn = chain.turn.turn if chain.turn is not None else 0
    last, group = entries.last(), 0
    if last is not None and last.turn == turn and isinstance(item, _SPOKEN):
        if isinstance(last.item, _SPOKEN):
            group = last.group if _joins(last.item, item, turn) else 0
        elif place := _place(entries, item, turn):
            settle(chain)
            before, entry = chain.entries, Entry(item, turn, entries[place - 1].group)
            chain.entries = before.cut(place).append(entry).extend(before.since(place))
            index.insert(chain.entries, place)
            move_inserts(chain, lambda at: at + (at >= place))
            return ()
    if not group:
        chain.groups = group = chain.groups + 1
    chain.entries = index.owner = entries.append(Entry(item, turn, group))
    if type(item) is ToolCall:
        index.add(item, chain.entries)
    else:
        index.uuids[item.uuid] = len(entries) + len(index.gone)
    return ()


def _place(entries: Vector[Entry], item: AssistantMessage | ToolCall, turn: int) -> int:
    """Return the place behind an item's response where something else stands there; 0 where it is not near."""
    size = len(entries)
    if turn == 0 or item.response_id is None:
        return 0
    for place in range(size - 1, max(0, size - RESPONSE_ENTRIES), -1):
        before = entries[place - 1]
        if before.turn != turn:
            break
        if isinstance(before.item, _SPOKEN):
            return place if before.item.response_id == item.response_id else 0
    return 0


def _joins(before: AssistantMessage | ToolCall, item: AssistantMessage | ToolCall, turn: int) -> bool:
    """Tell whether an item continues the response that the entry before it, of the same turn, belongs to.

    Only within one turn: a call that joined a response after it was sent would be inserted before
    its results, in the middle of what the provider has cached. Without turns and response ids, a
    call whose result is known cannot be parallel to what comes after it.
    """
    if before.response_id != item.response_id:
        return False
    if before.response_id is not None or turn > 0:
        return True
    return not (isinstance(before, ToolCall) and before.status != "running")


def _with_outcome(before: Item, item: Item) -> Item:
    """Leave a call the outcome that it has, where what comes again under its uuid is the call as it was made."""
    if not (isinstance(before, ToolCall) and isinstance(item, ToolCall) and item.call_id == before.call_id):
        return item
    if item.status != "running" or not all(map(is_absent, (item.output, item.error, item.detail))):
        return item
    return msgspec.structs.replace(
        item, status=before.status, output=before.output, error=before.error, detail=before.detail
    )


def _put(chain: Chain, index: Index, place: int, item: Item) -> None:
    before = chain.entries[place]
    chain.entries = chain.entries.set(place, Entry(item, before.turn, before.group))
    index.put(before.item, item, chain.entries)


def patch_text(chain: Chain, event: e.PatchText) -> Problems:
    """Add text to the assistant message of this uuid, in front of nothing and behind all it has."""
    place = index_of(chain).place(event.uuid)
    item = chain.entries[place].item if place is not None else None
    if place is None or not isinstance(item, AssistantMessage):
        return problem(Code.UNKNOWN_ID, f"patch_text names unknown message {event.uuid!r}")
    if chain.stream is not None and chain.stream.place != place:
        settle(chain)
    deltas = chain.stream.deltas if chain.stream is not None else Vector[Raw]()
    chain.stream = Stream(place, deltas.append(event.delta_text))
    return ()


def patch_tool_call(chain: Chain, event: e.PatchToolCall) -> Problems:
    """Set a call's status, and whatever of output, error and detail the event carries."""
    index = index_of(chain)
    place = index.call(event.call_id)
    item = chain.entries[place].item if place is not None else None
    if place is None or not isinstance(item, ToolCall):
        return problem(Code.UNKNOWN_ID, f"patch_tool_call names unknown call {event.call_id!r}")
    changed = ToolCall(
        item.uuid, item.call_id, item.name, item.input, event.status,
        item.output if event.output == NULL else event.output,
        item.error if event.error == NULL else event.error,
        item.detail if event.detail == NULL else event.detail,
        item.response_id, item.raw,
    )  # fmt: skip
    _put(chain, index, place, changed)
    return ()


def clear_results(chain: Chain, event: e.ToolResultCleared) -> Problems:
    """Replace the outputs of these calls by the placeholder."""
    index, unknown = index_of(chain), 0
    placeholder = CLEARED if is_absent(event.placeholder) else event.placeholder
    for call_id in event.call_ids:
        place = index.call(call_id)
        item = chain.entries[place].item if place is not None else None
        if place is None or not isinstance(item, ToolCall):
            unknown += 1
            continue
        _put(chain, index, place, msgspec.structs.replace(item, output=placeholder))
    cleared = len(event.call_ids) - unknown
    if cleared:
        note(chain, Code.TOOL_RESULT_REWRITTEN, f"{cleared} tool results cleared")
    return problem(Code.UNKNOWN_ID, f"tool_result_cleared names {unknown} unknown calls") if unknown else ()


def remove(chain: Chain, event: e.Remove) -> Problems:
    """Take items back; costs a copy of the pointers to the items from the first one removed, and little else."""
    index = index_of(chain)
    found = [index.place(uuid) for uuid in event.uuids]
    places = {place for place in found if place is not None}
    missing = found.count(None)
    if places:
        settle(chain)
        gone, before = sorted(places), chain.entries
        kept = before.cut(gone[0])
        for place, after in zip(gone, [*gone[1:], len(before)], strict=True):
            kept = kept.extend(islice(before.since(place + 1), after - place - 1))
        chain.entries = kept
        index.remove([before[place].item for place in gone], kept)
        drop_inserts(chain, places)
        move_inserts(chain, lambda at: at - bisect_left(gone, at))
        chain.sent -= bisect_left(gone, chain.sent)
        chain.sent_before -= bisect_left(gone, chain.sent_before)
        turn = chain.turn.turn if chain.turn is not None else 0
        if not event.observed and any(
            before[place].turn != turn for place in places
        ):  # what came since the last request was never sent
            note(chain, Code.REWIND, f"{len(places)} items taken back")
    return problem(Code.UNKNOWN_ID, f"remove names {missing} unknown items") if missing else ()


def compact(chain: Chain, event: e.CompactApplied) -> Problems:
    """Apply a compaction. Costs O(items kept and pruned), O(1) where nothing is pruned.

    A divider behind the kept items was not sent yet, whatever of them was; one before them counts as sent with them.
    """
    settle(chain)
    index = index_of(chain)
    wanted = dict.fromkeys(event.preserved_uuids or ())
    lost = [uuid for uuid in wanted if uuid not in index.uuids]
    nothing_found = bool(wanted) and len(lost) == len(wanted)
    before, turn = len(chain.entries), chain.turn.turn if chain.turn else 0
    chain.groups += 1
    if nothing_found:
        kept = before
        divider = Entry(_divider(event, 0), turn, chain.groups)
        chain.entries = chain.entries.append(divider)
        index.add(divider.item, chain.entries)
    else:
        held = [at for at, entry in enumerate(chain.entries) if entry.item.uuid in wanted]
        entries = [chain.entries[at] for at in held]
        kept = len(entries)
        first = int(chain.divider == "before")  # of the kept items
        new = {at: number for number, at in enumerate(held, first)}
        new[before] = kept + 1
        move_inserts(chain, new.get)  # with the items that they stand before, or away; what waits, waits
        chain.sent = first + bisect_left(held, chain.sent) if chain.sent else 0
        chain.sent_before = 0
        divider = Entry(_divider(event, before - kept), turn, chain.groups)
        chain.entries = Vector([divider, *entries] if first else [*entries, divider])
        chain.index = Index(chain.entries)
    end_deltas(chain)
    note(chain, Code.COMPACTION, f"{event.trigger} compaction pruned {before - kept} items and kept {kept}")
    if nothing_found:
        message = f"none of {len(wanted)} preserved items is known ({mask(lost[0])[:80]!r}): nothing was pruned"
        return problem(Code.PRESERVED_ITEMS_MISSING, message)
    message = f"{len(lost)} of {len(wanted)} preserved items are unknown"
    return problem(Code.PRESERVED_ITEMS_MISSING, message) if lost else ()


def _divider(event: e.CompactApplied, pruned: int) -> CompactDivider:
    return CompactDivider(
        event.uuid, event.trigger, event.pre_tokens, event.post_tokens, event.summary, pruned, event.duration_ms
    )


def problem(code: Code, message: str) -> Problems:
    """Return one problem, as what was wrong with an event."""
    return (Problem(code, message),)


def note(chain: Chain, cause: str, detail: str) -> None:
    """Note an event that entitles the next prompt to differ; a cause is noted once a turn."""
    kept = tuple(change for change in chain.since if change.cause != cause)
    chain.since = (*kept, Change(cause, detail))


# The places of inserts


def end_deltas(chain: Chain) -> None:
    """End all deltas, and what is pinned."""
    chain.pinned, chain.deltas = None, {}
    chain.unsaved = tuple([event for event in chain.unsaved if not isinstance(event, e.PromptDelta)])


def move_inserts(chain: Chain, place_of: Callable[[int], int | None]) -> None:
    """Give every insert its new place, after entries came, went or moved; one without a place goes."""

    def moved(inserts: Iterable[Insert]) -> list[Insert]:
        places = ((insert, place_of(insert.place)) for insert in inserts)
        return [
            insert if at == insert.place else msgspec.structs.replace(insert, place=at)
            for insert, at in places
            if at is not None
        ]

    if chain.outside:
        chain.outside = _sharing(chain.outside, moved(chain.outside))
    if chain.deltas:
        chain.deltas = {insert.number: insert for insert in moved(chain.deltas.values())}
    if chain.persisted:
        _keep_persisted(chain, moved(chain.persisted))


def drop_inserts(chain: Chain, gone: Container[int]) -> None:
    """Let the context that was persisted before these entries go with them."""
    if chain.outside:
        chain.outside = _sharing(chain.outside, [insert for insert in chain.outside if insert.place not in gone])
    if chain.persisted:
        _keep_persisted(chain, [insert for insert in chain.persisted if insert.place not in gone])


def _keep_persisted(chain: Chain, persisted: list[Insert]) -> None:
    before = chain.persisted
    chain.persisted = _sharing(before, persisted)
    if chain.persisted is not before and any(isinstance(event, e.ContextPersisted) for event in chain.unsaved):
        held = {insert.number for insert in persisted}
        chain.unsaved = tuple(
            [event for event in chain.unsaved if not isinstance(event, e.ContextPersisted) or event.turn in held]
        )


def _sharing(before: Vector[Insert], inserts: list[Insert]) -> Vector[Insert]:
    """Return a vector of these that shares what it can with the one before, which it is where nothing differs."""
    pairs = enumerate(zip(before, inserts, strict=False))
    same = next((at for at, (insert, other) in pairs if insert is not other), min(len(before), len(inserts)))
    return before if same == len(before) == len(inserts) else before.cut(same).extend(inserts[same:])
