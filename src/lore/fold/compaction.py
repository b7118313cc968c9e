"""Compaction in the fold: prune to what was preserved, leave one divider, let the state shrink.

Rules: what is kept keeps its order; the divider stands directly before the first kept item, or at the
end when nothing is kept; a list of which nothing is found prunes nothing (more history beats a broken
one) and says so; knowledge is pinned anew and durable deltas end.
"""

from __future__ import annotations

import msgspec

from lore.fold.timeline import Folded, changed, index_of, settle, with_entries
from lore.model.events import CompactApplied
from lore.model.items import CompactDivider
from lore.model.problems import Problem
from lore.model.state import Chain, Entry
from lore.model.vector import Vector


def compact(chain: Chain, event: CompactApplied) -> Folded:
    """Apply a compaction. Costs O(items kept and pruned)."""
    chain = settle(chain)
    index = index_of(chain)
    wanted = dict.fromkeys(event.preserved_uuids or ())
    found = {uuid for uuid in wanted if uuid in index.uuids}
    problems: tuple[Problem, ...] = ()
    if wanted and not found:
        problems = (Problem("LORE208", f"none of {len(wanted)} preserved items is known: nothing was pruned"),)
        kept, pruned = list(chain.entries), 0
    else:
        kept = [entry for entry in chain.entries if entry.item.uuid in found]
        pruned = len(chain.entries) - len(kept)
        if len(found) < len(wanted):
            lost = len(wanted) - len(found)
            problems = (Problem("LORE208", f"{lost} of {len(wanted)} preserved items are unknown"),)
    divider = Entry(_divider(event, pruned), chain.turn.turn if chain.turn else 0, chain.groups + 1)
    entries = Vector([*kept, divider] if problems and not found else [divider, *kept])
    chain = with_entries(chain, entries)
    chain = msgspec.structs.replace(chain, groups=chain.groups + 1, pinned=None, deltas={}, persisted=())
    detail = f"{event.trigger} compaction pruned {pruned} items and kept {len(kept)}"
    return Folded(changed(chain, "LORE125", detail), problems)


def _divider(event: CompactApplied, pruned: int) -> CompactDivider:
    return CompactDivider(
        uuid=event.uuid,
        trigger="overflow" if event.trigger == "auto" else event.trigger,
        pre_tokens=event.pre_tokens,
        post_tokens=event.post_tokens,
        summary=event.summary,
        pruned=pruned,
    )
