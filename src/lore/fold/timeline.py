"""The timeline in the fold: items are appended, patched, cleared, removed and compacted; inserts move with them.

A function that takes an event changes the chain (a copy that `step.Folding` made) and returns the event's problems. An
unknown id changes nothing. Items are replaced, never changed. An item with a known uuid replaces the earlier one in its
place. A further part of a response of the current turn is put after its other parts, whatever came between.

A compaction keeps the preserved items in their order and puts one divider directly before the first of them, or after
the last (`Chain.divider`). If none of the preserved items is known, nothing is pruned: more history is better than a
broken one. The next request then pins knowledge again, and deltas end; context that was written into the history is
kept or removed with the item after it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable
from itertools import islice
from typing import TypeAlias

from msgspec import Raw
from msgspec.structs import replace

from lore.model import events as e
from lore.model.codes import Code, Problem
from lore.model.fact import count_of
from lore.model.inserts import Insert
from lore.model.items import NULL, AssistantMessage, CompactDivider, Item, ToolCall, is_absent
from lore.model.limits import RESPONSE_ENTRIES
from lore.model.mask import mask
from lore.model.state import Chain, Change, Entry, Index, Stream, with_streamed_text
from lore.model.vector import Vector

Problems: TypeAlias = tuple[Problem, ...]

CLEARED = Raw(b'"[Old tool result content cleared]"')
_FROM_MODEL = (AssistantMessage, ToolCall)


def problem(code: str, message: str) -> Problems:
    """Return a tuple of one problem."""
    return (Problem(code, message),)


def note_change(chain: Chain, cause: str, detail: str) -> None:
    """Add to the chain's `since` why the next prompt may differ; replace an earlier note of the same cause."""
    others = tuple(change for change in chain.since if change.cause != cause)
    chain.since = (*others, Change(cause, detail))


def index_of(chain: Chain) -> Index:
    """Return the chain's index; first set a new one if it belongs to another version of the timeline."""
    index = chain.index
    if index is None or index.owner is not chain.entries:
        index = chain.index = Index(chain.entries)
    return index


def join_stream(chain: Chain) -> None:
    """Join streamed text to its message and clear `stream`; without such text change nothing."""
    if chain.stream is None:
        return
    settled_chain = with_streamed_text(chain)
    if chain.index is not None and chain.index.owner is chain.entries:
        chain.index.owner = settled_chain.entries  # no item moved
    chain.entries, chain.stream = settled_chain.entries, None


def append(chain: Chain, event: e.Append) -> Problems:
    """Add an item at the end, or after the last part of its response if that came during this turn.

    An item with a known uuid replaces the earlier one, and is reported as a duplicate.
    """
    index, item, entries = index_of(chain), event.item, chain.entries
    old_place = index.place(item.uuid)
    if old_place is not None:
        _repeat_item(chain, index, old_place, item)
        return problem(
            Code.DUPLICATE_UUID, f"uuid {item.uuid!r} occurs again: its first position and its last content are used"
        )
    turn = chain.turn.turn if chain.turn is not None else 0
    last, group = entries.last(), 0
    if last is not None and last.turn == turn and (type(item) is AssistantMessage or type(item) is ToolCall):
        if isinstance(last.item, _FROM_MODEL):
            group = last.group if _continues_response(last.item, item, turn) else 0
        elif place := _place_in_response(entries, item, turn):
            join_stream(chain)
            entry = Entry(item, turn, chain.entries[place - 1].group)
            chain.entries = chain.entries.cut(place).append(entry).extend(chain.entries.since(place))
            index.insert(chain.entries, place)
            _move_inserts(chain, lambda at: at + (at >= place))
            return ()
    if not group:
        chain.groups = group = chain.groups + 1
    chain.entries = entries.append(Entry(item, turn, group))
    index.add(item, chain.entries)
    return ()


def _place_in_response(entries: Vector[Entry], item: AssistantMessage | ToolCall, turn: int) -> int:
    """Return the place after the last part of an item's response; 0 if the item is to be appended at the end."""
    size = len(entries)
    if turn == 0 or item.response_id is None:
        return 0
    for place in range(size - 1, max(0, size - RESPONSE_ENTRIES), -1):
        before = entries[place - 1]
        if before.turn != turn:
            break
        if isinstance(before.item, _FROM_MODEL):
            return place if before.item.response_id == item.response_id else 0
    return 0


def _continues_response(before: AssistantMessage | ToolCall, item: AssistantMessage | ToolCall, turn: int) -> bool:
    """Return whether an item continues the response of the item before it. Both came during the current turn.

    A part of an earlier turn's response must not move there: that would change what the provider has cached. Without
    turns and response ids, items after a call that has its result belong to another response.
    """
    if before.response_id != item.response_id:
        return False
    if before.response_id is not None or turn > 0:
        return True
    return not (isinstance(before, ToolCall) and before.status != "running")


def _repeat_item(chain: Chain, index: Index, place: int, item: Item) -> None:
    """Replace the item at `place`, which has the same uuid; a call repeated without its outcome keeps the known one."""
    join_stream(chain)
    before = chain.entries[place].item
    if (
        isinstance(before, ToolCall)
        and isinstance(item, ToolCall)
        and item.call_id == before.call_id
        and item.status == "running"
        and all(map(is_absent, (item.output, item.error, item.detail)))
    ):
        item = replace(item, status=before.status, output=before.output, error=before.error, detail=before.detail)
    if item != before:
        _replace_item(chain, index, place, item)


def _replace_item(chain: Chain, index: Index, place: int, item: Item) -> None:
    before = chain.entries[place]
    chain.entries = chain.entries.set(place, Entry(item, before.turn, before.group))
    index.replace(before.item, item, chain.entries)


def patch_text(chain: Chain, event: e.PatchText) -> Problems:
    """Add text to the assistant message of this uuid: it is kept in `stream` until `join_stream`."""
    place = index_of(chain).place(event.uuid)
    if place is None or not isinstance(chain.entries[place].item, AssistantMessage):
        return problem(Code.UNKNOWN_ID, f"text was added to the unknown message {event.uuid!r}")
    if chain.stream is not None and chain.stream.place != place:
        join_stream(chain)
    deltas = chain.stream.deltas if chain.stream is not None else Vector[Raw]()
    chain.stream = Stream(place, deltas.append(event.delta_text))
    return ()


def patch_tool_call(chain: Chain, event: e.PatchToolCall) -> Problems:
    """Set the status of the last call of this id, and its output, error and detail if the event has them."""
    index = index_of(chain)
    place = index.call(event.call_id)
    item = chain.entries[place].item if place is not None else None
    if place is None or not isinstance(item, ToolCall):
        return problem(Code.UNKNOWN_ID, f"a result came for the unknown tool call {event.call_id!r}")
    call = ToolCall(
        item.uuid, item.call_id, item.name, item.input, event.status,
        item.output if event.output == NULL else event.output,
        item.error if event.error == NULL else event.error,
        item.detail if event.detail == NULL else event.detail,
        item.response_id, item.raw,
    )  # fmt: skip
    _replace_item(chain, index, place, call)
    return ()


def clear_results(chain: Chain, event: e.ToolResultCleared) -> Problems:
    """Replace the outputs of these calls by the placeholder (`CLEARED` if the event has none) and note the change."""
    index, unknown_count, call_ids = index_of(chain), 0, dict.fromkeys(event.call_ids)
    placeholder = CLEARED if is_absent(event.placeholder) else event.placeholder
    for call_id in call_ids:
        place = index.call(call_id)
        item = chain.entries[place].item if place is not None else None
        if place is None or not isinstance(item, ToolCall):
            unknown_count += 1
            continue
        _replace_item(chain, index, place, replace(item, output=placeholder))
    cleared_count = len(call_ids) - unknown_count
    if cleared_count:
        note_change(chain, Code.TOOL_RESULT_REWRITTEN, f"the agent cleared {count_of(cleared_count, 'tool result')}")
    if not unknown_count:
        return ()
    return problem(Code.UNKNOWN_ID, f"cleared results of {count_of(unknown_count, 'unknown tool call')}")


def remove(chain: Chain, event: e.Remove) -> Problems:
    """Remove items from the timeline, and context that was inserted directly before them.

    If any of them came in an earlier turn, so that it was sent, note a new conversation (`restart` is set) or a rewind
    (neither `restart` nor `observed` is). Costs O(items from the first removed one on).
    """
    index = index_of(chain)
    indexes = [index.place(uuid) for uuid in event.uuids]
    removed = sorted({place for place in indexes if place is not None})
    unknown_count = indexes.count(None)
    problems = problem(Code.UNKNOWN_ID, f"{unknown_count} unknown items were removed") if unknown_count else ()
    if not removed:
        return problems
    join_stream(chain)
    before = chain.entries
    remaining = before.cut(removed[0])
    for place, following in zip(removed, [*removed[1:], len(before)], strict=True):
        remaining = remaining.extend(islice(before.since(place + 1), following - place - 1))
    chain.entries = remaining
    index.remove([before[place].item for place in removed], remaining)
    places = frozenset(removed)  # context before these items is removed with them
    _change_contexts(chain, lambda inserts: [insert for insert in inserts if insert.place not in places])
    _move_inserts(chain, lambda at: at - bisect_left(removed, at))
    chain.sent_entries -= bisect_left(removed, chain.sent_entries)
    chain.sent_before -= bisect_left(removed, chain.sent_before)
    turn = chain.turn.turn if chain.turn is not None else 0
    was_sent = any(before[place].turn != turn for place in removed)  # items of this turn were never sent
    if was_sent and event.restart:
        note_change(chain, Code.CHAIN_RESTARTED, f"a new conversation began without the {len(removed)} earlier items")
    elif was_sent and not event.observed:
        note_change(chain, Code.REWIND, f"{len(removed)} items taken back")
    return problems


def compact(chain: Chain, event: e.CompactApplied) -> Problems:
    """Apply a compaction and note it. Costs O(items), O(1) if none of the preserved items is known.

    Deltas move before the kept items while they are short; longer ones end, and the next request pins all knowledge.
    """
    join_stream(chain)
    index = index_of(chain)
    uuids = dict.fromkeys(event.preserved_uuids or ())
    unknown = [uuid for uuid in uuids if uuid not in index.numbers]
    before = len(chain.entries)
    chain.groups += 1
    if uuids and len(unknown) == len(uuids):
        divider = _make_divider(chain, event, 0)
        chain.entries = chain.entries.append(divider)
        index.add(divider.item, chain.entries)
    else:
        _prune_to(chain, event, uuids)
    size = len(chain.entries) - 1
    if not _has_short_deltas(chain):
        chain.pinned, chain.deltas = None, {}  # the next request states all knowledge in the system prompt
    done = f"pruned {before - size} items and kept {size}" if size else f"replaced a history of {before} items"
    note_change(chain, Code.COMPACTION, f"{event.trigger} compaction {done}")
    if not unknown:
        return ()
    message = f"{len(unknown)} of {len(uuids)} preserved items are unknown"
    if len(unknown) == len(uuids):
        message = f"none of {len(uuids)} preserved items is known ({mask(unknown[0])[:80]!r}): nothing was pruned"
        if not before:
            message = "nothing precedes the compaction in this log, so the items that it kept are missing"
    return problem(Code.PRESERVED_ITEMS_MISSING, message)


def _has_short_deltas(chain: Chain) -> bool:
    """Return whether the deltas have at most a quarter of the pinned knowledge's text.

    To pin again writes the pinned text at 1.25 times the price of input instead of reading it at 0.1. To keep deltas
    writes them, and each later request reads them: with a quarter that is cheaper for 33 requests.
    """
    pinned = sum(len(fact.title) + len(fact.content) for fact in chain.pinned or ())
    pinned += sum(len(layer.text) for layer in chain.pinned_layers)
    return bool(pinned) and 4 * sum(len(delta.content) for delta in chain.deltas.values()) <= pinned


def report_removed_calls(chain: Chain, event: e.CompactApplied) -> Problems:
    """Return a problem if the compaction will remove calls whose results are still to come. Changes nothing."""
    uuids, numbers = frozenset(event.preserved_uuids or ()), index_of(chain).numbers
    if uuids and not any(uuid in numbers for uuid in uuids):
        return ()  # nothing is pruned
    items = (entry.item for entry in chain.entries if entry.item.uuid not in uuids)
    names = [mask(item.call_id)[:80] for item in items if isinstance(item, ToolCall) and item.status == "running"]
    if not names:
        return ()
    which = "a call" if len(names) == 1 else f"{len(names)} calls"
    message = f"the compaction removed {which} without a result ({names[0]!r}): a later result will fit no call"
    return problem(Code.PRESERVED_ITEMS_MISSING, message)


def _prune_to(chain: Chain, event: e.CompactApplied, uuids: Container[str]) -> None:
    """Prune the timeline to these items and a divider; move inserts and the numbers of sent entries with them.

    A divider before kept items counts as sent if any entry was sent; one after the kept items does not.
    """
    before = len(chain.entries)
    places = [at for at, entry in enumerate(chain.entries) if entry.item.uuid in uuids]
    kept_entries = [chain.entries[at] for at in places]
    first = int(chain.divider == "before")  # the new place of the first kept item
    new_places = {at: number for number, at in enumerate(places, first)}
    new_places[before] = len(kept_entries) + 1  # inserts at the end remain at the end
    start = places[0] if places else before
    chain.deltas = {
        number: delta if delta.place in new_places else replace(delta, place=start, after_results=False)
        for number, delta in chain.deltas.items()
    }
    _move_inserts(chain, new_places.get)
    chain.sent_entries = first + bisect_left(places, chain.sent_entries) if chain.sent_entries else 0
    chain.sent_before = 0
    divider = _make_divider(chain, event, before - len(kept_entries))
    chain.entries = Vector([divider, *kept_entries] if first else [*kept_entries, divider])
    chain.index = Index(chain.entries)


def _make_divider(chain: Chain, event: e.CompactApplied, pruned: int) -> Entry:
    item = CompactDivider(
        event.uuid, event.trigger, event.pre_tokens, event.post_tokens, event.summary, pruned, event.duration_ms
    )
    return Entry(item, chain.turn.turn if chain.turn else 0, chain.groups)


# The places of inserts


def _move_inserts(chain: Chain, place_of: Callable[[int], int | None]) -> None:
    """Move each insert to `place_of` its place; remove those for which it returns None."""

    def move_all(inserts: Iterable[Insert]) -> list[Insert]:
        places = ((insert, place_of(insert.place)) for insert in inserts)
        return [insert if at == insert.place else replace(insert, place=at) for insert, at in places if at is not None]

    if chain.deltas:
        chain.deltas = {insert.number: insert for insert in move_all(chain.deltas.values())}
    _change_contexts(chain, move_all)


def _change_contexts(chain: Chain, change: Callable[[Iterable[Insert]], list[Insert]]) -> None:
    """Replace `outside` and `persisted` by `change` of them; the vectors share the beginning that is equal."""
    for field in ("outside", "persisted"):
        before: Vector[Insert] = getattr(chain, field)
        inserts = change(before) if before else []
        pairs = enumerate(zip(before, inserts, strict=False))
        same_count = next((at for at, (insert, other) in pairs if insert is not other), min(len(before), len(inserts)))
        if not same_count == len(before) == len(inserts):
            setattr(chain, field, before.cut(same_count).extend(inserts[same_count:]))
