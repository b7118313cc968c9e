"""What a compaction is in a session's log: its events.

In: a session, the firing, the texts. Out: events to append and to apply, in order: `compact_started`,
`compact_applied`, the results that an overflow cuts, and outside context as `context_persisted`, directly before the
next real user message. Rules: pure and deterministic: the same session, firing and texts give the same bytes; nothing
of the log is touched; the summary becomes the divider's text, in an overflow without one the marker does.
"""

from __future__ import annotations

import hashlib

from msgspec import Raw
from msgspec.structs import replace

from lore.compaction.activity import is_real, overhead, tokens_of
from lore.compaction.base import Firing
from lore.compaction.cutting import kept, pruned
from lore.compaction.overflow import with_result
from lore.model.canonical import encode
from lore.model.events import (
    MAIN,
    CompactApplied,
    CompactStarted,
    ContextPersisted,
    Event,
    PatchToolCall,
    ToolResultCleared,
)  # fmt: skip
from lore.model.items import NULL, CompactDivider, ToolCall, is_absent
from lore.model.state import Chain, Entry, Session, settled


def compacted(
    session: Session, chain: str, firing: Firing, summary: str, context: str | None = None, *, at: str | None = None
) -> tuple[Event, ...]:
    """Return the events of a compaction. `chain` names the chain that `firing` was judged on, as it is now.

    `context` is outside context, wrapped already; None or empty for none. `at` is the time, RFC 3339. Costs
    O(entries).
    """
    held = settled(session.chain(chain))
    name = MAIN if chain == MAIN else chain
    events = (*_compaction(session, held, firing, summary, name, at), *_cuts(held, firing, name, at))
    if not context:
        return events
    content = Raw(encode([{"role": "user", "text": context}]))
    turn = 1 if held.turn is None else held.turn.turn + 1
    place = _place(held, firing)
    return (*events, ContextPersisted(turn=turn, insert_at=place, content=content, outside=True, chain=name, at=at))


def _compaction(
    session: Session, chain: Chain, firing: Firing, summary: str, name: str, at: str | None
) -> tuple[Event, ...]:
    if not firing.cut.place:
        return ()
    gone, stay = pruned(chain.entries, firing.cut), kept(chain.entries, firing.cut)
    text = Raw(encode(summary or firing.marker)) if summary or firing.marker else NULL
    before = overhead(chain)
    after = before + tokens_of((*_after(stay, firing), Entry(CompactDivider("", firing.trigger, summary=text), 0, 0)))
    made = CompactApplied(
        uuid=_uuid(session, name, gone, stay), trigger=firing.trigger,
        pre_tokens=before + tokens_of(chain.entries), post_tokens=after,
        preserved_uuids=tuple([entry.item.uuid for entry in stay]) or None, summary=text, chain=name, at=at,
    )  # fmt: skip
    return CompactStarted(trigger=firing.trigger, pre_tokens=made.pre_tokens, chain=name, at=at), made


def _uuid(session: Session, name: str, gone: tuple[Entry, ...], stay: tuple[Entry, ...]) -> str:
    """Name a compaction by what it does: what goes holds the divider of the one before it, so no two are alike."""
    parts = [session.id, name, *[one.item.uuid for one in gone], "", *[one.item.uuid for one in stay]]
    digest = hashlib.sha256(b"\0".join(encode(one) for one in parts)).hexdigest()
    return f"compact-{digest[:32]}"


def _after(stay: tuple[Entry, ...], firing: Firing) -> tuple[Entry, ...]:
    """Return what stays with its results cut."""
    latest = {entry.item.call_id: entry.item for entry in stay if isinstance(entry.item, ToolCall)}
    cuts = {id(latest[name]): text for name, text in firing.shortened if name in latest}
    return tuple([_cut(entry, cuts.get(id(entry.item))) for entry in stay])


def _cut(entry: Entry, text: str | None) -> Entry:
    return entry if text is None else replace(entry, item=with_result(_call(entry), text))


def _call(entry: Entry) -> ToolCall:
    assert isinstance(entry.item, ToolCall)
    return entry.item


def _cuts(chain: Chain, firing: Firing, name: str, at: str | None) -> tuple[Event, ...]:
    """Cut results: as cleared ones, which says why the next prompt differs; an error that is read instead as well."""
    wanted = {one.call_id: one.text for one in firing.shortened}
    calls = {entry.item.call_id: entry.item for entry in chain.entries if isinstance(entry.item, ToolCall)}
    events: list[Event] = []
    for call_id, text in wanted.items():
        call, said = calls.get(call_id), Raw(encode(text))
        if call is None:
            continue
        events.append(ToolResultCleared(call_ids=(call_id,), placeholder=said, chain=name, at=at))
        if not is_absent(call.error):
            events.append(PatchToolCall(call_id=call_id, status=call.status, error=said, chain=name, at=at))
    return tuple(events)


def _place(chain: Chain, firing: Firing) -> int:
    """Return the place of the next real user message once this is applied; the end where it has not come yet."""
    if not firing.cut.place:
        first, places = 0, range(len(chain.entries))
    else:
        first, places = 1, (*firing.cut.held, *range(firing.cut.place, len(chain.entries)))
    for new, old in enumerate(places, first):
        if old >= chain.sent and is_real(chain.entries[old].item):
            return new
    return first + len(places)
