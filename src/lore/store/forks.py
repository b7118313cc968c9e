"""Which sessions go with one that is deleted: those forked from it, and from these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping


def with_forks(session_id: str, parents: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return a session behind all that were forked from it, the latest forks first.

    `parents` has the parent of each session. One that is its own ancestor is met once. Costs O(sessions).
    """
    children: dict[str, list[str]] = defaultdict(list)
    for name, parent in sorted(parents.items()):
        if parent is not None:
            children[parent].append(name)
    found = {session_id: None}
    waiting = [session_id]
    while waiting:
        new = [child for child in children[waiting.pop()] if child not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return tuple(reversed(found))
