"""What a compaction is in a session's log: its events.

In: a session, the firing, the texts. Out: events to append and to apply, in order: `compact_started`,
`compact_applied`, the results that an overflow cuts, and outside context as `context_persisted`, directly before the
next real user message. Rules: pure and deterministic: the same session, firing and texts give the same bytes; nothing
of the log is touched; the summary becomes the divider's text, in an overflow without one the marker does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from msgspec import Raw

from lore.compaction.activity import overhead, tokens_of
from lore.compaction.base import Firing
from lore.compaction.cutting import kept, pruned
from lore.compaction.overflow import latest, with_results
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
from lore.model.items import NULL, CompactDivider, is_absent
from lore.model.state import Chain, Entry, Session, settled
from lore.prompt.speakers import is_real


def compacted(
    session: Session, chain: str, firing: Firing, summary: str, context: str | None = None, *, at: str | None = None
) -> tuple[Event, ...]:
    """Return the events of a compaction. `chain` names the chain that `firing` was judged on, as it is now.

    `context` is outside context, wrapped already; None or empty for none. `at` is the time, RFC 3339. Costs
    O(entries).
    """
    held = settled(session.chain(chain))
    name = MAIN if chain == MAIN else chain
    outside = [*_unheard(held, firing)]
    if context:
        outside.append(Raw(encode([{"role": "user", "text": context}])))
    turn, place = 1 if held.turn is None else held.turn.turn + 1, _place(held, firing)
    return (
        *_compaction(session, held, firing, summary, name, at),
        *_cuts(held, firing, name, at),
        *[
            ContextPersisted(turn=turn, insert_at=place, content=text, outside=True, chain=name, at=at)
            for text in outside
        ],
    )


def _stay(chain: Chain, firing: Firing) -> tuple[Entry, ...]:
    return kept(chain.entries, firing.cut) if firing.cut.place else tuple(chain.entries)


def _compaction(
    session: Session, chain: Chain, firing: Firing, summary: str, name: str, at: str | None
) -> tuple[Event, ...]:
    if not firing.cut.place:
        return ()
    gone, stay = pruned(chain.entries, firing.cut), _stay(chain, firing)
    text = Raw(encode(summary or firing.marker)) if summary or firing.marker else NULL
    divider = Entry(CompactDivider("", firing.trigger, summary=text), 0, 0)
    before = overhead(chain)
    made = CompactApplied(
        uuid=_uuid(session, name, gone, stay), trigger=firing.trigger,
        pre_tokens=before + tokens_of(chain.entries),
        post_tokens=before + tokens_of([divider, *with_results(stay, firing.shortened)]),
        preserved_uuids=tuple([entry.item.uuid for entry in stay]) or None, summary=text, chain=name, at=at,
    )  # fmt: skip
    return CompactStarted(trigger=firing.trigger, pre_tokens=made.pre_tokens, chain=name, at=at), made


def _uuid(session: Session, name: str, gone: tuple[Entry, ...], stay: tuple[Entry, ...]) -> str:
    """Derive a compaction's uuid from what it prunes: that holds the previous divider, so every uuid differs."""
    parts = [session.id, name, *[entry.item.uuid for entry in gone], "", *[entry.item.uuid for entry in stay]]
    digest = hashlib.sha256(b"\0".join(encode(part) for part in parts)).hexdigest()
    return f"compact-{digest[:32]}"


def _cuts(chain: Chain, firing: Firing, name: str, at: str | None) -> tuple[Event, ...]:
    """Cut results: as cleared ones, which says why the next prompt differs; an error that is read instead as well."""
    if not firing.shortened:
        return ()
    calls, events = latest(_stay(chain, firing)), list[Event]()
    for call_id, text in firing.shortened:
        call, result = calls.get(call_id), Raw(encode(text))
        if call is None:
            continue
        events.append(ToolResultCleared(call_ids=(call_id,), placeholder=result, chain=name, at=at))
        if not is_absent(call.error):
            events.append(PatchToolCall(call_id=call_id, status=call.status, error=result, chain=name, at=at))
    return tuple(events)


def _unheard(chain: Chain, firing: Firing) -> Iterator[Raw]:
    """Yield outside context that would be pruned before any request has carried it."""
    if not chain.outside:
        return
    came = max((place for place, entry in enumerate(chain.entries) if is_real(entry.item)), default=-1)
    for context in chain.outside:
        if came < context.place < firing.cut.place and context.place not in firing.cut.held:
            yield context.content


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
