"""Compaction in the fold: prune to what was preserved, leave one divider, let the state shrink.

Rules: what is kept keeps its order; the divider stands directly before the first kept item, or at the
end when nothing is kept; a list of which nothing is found prunes nothing (more history beats a broken
one) and says so; knowledge is pinned anew and durable deltas end.
"""

from __future__ import annotations

from lore.fold.timeline import Problems, index_of, note, settle
from lore.model.events import CompactApplied
from lore.model.items import CompactDivider
from lore.model.problems import Problem
from lore.model.state import Chain, Entry, Index
from lore.model.vector import Vector


def compact(chain: Chain, event: CompactApplied) -> Problems:
    """Apply a compaction. Costs O(items kept and pruned)."""
    settle(chain)
    index = index_of(chain)
    wanted = dict.fromkeys(event.preserved_uuids or ())
    lost = [uuid for uuid in wanted if uuid not in index.uuids]
    nothing_found = bool(wanted) and len(lost) == len(wanted)
    if nothing_found:
        kept, pruned = list(chain.entries), 0
    else:
        kept = [entry for entry in chain.entries if entry.item.uuid in wanted]
        pruned = len(chain.entries) - len(kept)
    chain.groups += 1
    divider = Entry(_divider(event, pruned), chain.turn.turn if chain.turn else 0, chain.groups)
    chain.entries = Vector([*kept, divider] if nothing_found else [divider, *kept])
    chain.index = Index(chain.entries)
    chain.pinned, chain.deltas, chain.persisted = None, {}, ()
    note(chain, "LORE125", f"{event.trigger} compaction pruned {pruned} items and kept {len(kept)}")
    return _problems(list(wanted), lost)


def _problems(wanted: list[str], lost: list[str]) -> Problems:
    if not lost:
        return ()
    if len(lost) == len(wanted):
        said = f"none of {len(wanted)} preserved items is known ({lost[0][:80]!r}): nothing was pruned"
    else:
        said = f"{len(lost)} of {len(wanted)} preserved items are unknown"
    return (Problem("LORE208", said),)


def _divider(event: CompactApplied, pruned: int) -> CompactDivider:
    return CompactDivider(
        uuid=event.uuid,
        trigger="overflow" if event.trigger == "auto" else event.trigger,
        pre_tokens=event.pre_tokens,
        post_tokens=event.post_tokens,
        summary=event.summary,
        pruned=pruned,
    )
