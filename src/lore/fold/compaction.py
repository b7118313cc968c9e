"""Compaction in the fold: prune to what was preserved, leave one divider, let the state shrink.

Rules: what is kept keeps its order; the divider stands directly before the first kept item, or at the
end when nothing is kept; a list of which nothing is found prunes nothing (more history beats a broken
one) and says so; knowledge is pinned anew, durable deltas end, persisted context stays with its item.
"""

from __future__ import annotations

from bisect import bisect_left

from lore.fold.places import end, move
from lore.fold.timeline import Problems, index_of, note, settle
from lore.model.codes import Code, Problem
from lore.model.events import CompactApplied
from lore.model.items import CompactDivider
from lore.model.state import Chain, Entry, Index
from lore.model.vector import Vector


def compact(chain: Chain, event: CompactApplied) -> Problems:
    """Apply a compaction. Costs O(items kept and pruned), O(1) where nothing is pruned."""
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
        index.note(divider.item, before)
        index.owner = chain.entries
    else:
        held = [place for place, entry in enumerate(chain.entries) if entry.item.uuid in wanted]
        entries = [chain.entries[place] for place in held]
        kept = len(entries)
        _follow(chain, held, before)
        divider = Entry(_divider(event, before - kept), turn, chain.groups)
        chain.entries = Vector([divider, *entries])
        chain.index = Index(chain.entries)
    end(chain)
    note(chain, Code.COMPACTION, f"{event.trigger} compaction pruned {before - kept} items and kept {kept}")
    return _problems(list(wanted), lost)


def _follow(chain: Chain, held: list[int], before: int) -> None:
    """Let persisted context stay with the items that it stands before, or go with them; what waits, waits."""
    new = {place: number for number, place in enumerate(held, 1)}
    new[before] = len(held) + 1
    move(chain, new.get)
    chain.sent = 1 + bisect_left(held, chain.sent) if chain.sent else 0
    chain.sent_before = 0


def _problems(wanted: list[str], lost: list[str]) -> Problems:
    if not lost:
        return ()
    if len(lost) == len(wanted):
        said = f"none of {len(wanted)} preserved items is known ({lost[0][:80]!r}): nothing was pruned"
    else:
        said = f"{len(lost)} of {len(wanted)} preserved items are unknown"
    return (Problem(Code.PRESERVED_ITEMS_MISSING, said),)


def _divider(event: CompactApplied, pruned: int) -> CompactDivider:
    return CompactDivider(
        uuid=event.uuid,
        trigger="overflow" if event.trigger == "auto" else event.trigger,
        pre_tokens=event.pre_tokens,
        post_tokens=event.post_tokens,
        summary=event.summary,
        pruned=pruned,
    )
