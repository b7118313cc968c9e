"""Knowledge in the fold: entries are added, updated and removed, each under its own id.

Adding a known id updates its entry. Entries of the same title or the same words under different ids stay different
entries. The ids of removed entries are remembered, so that a prompt can say that they no longer hold.
"""

from __future__ import annotations

from lore.fold.timeline import Problems, problem
from lore.model.codes import Code
from lore.model.events import Knowledge
from lore.model.state import Fact


def change_knowledge(facts: dict[str, Fact], removed: dict[str, None], event: Knowledge) -> Problems:
    """Apply an event to a session's entries and to the ids of its removed entries."""
    if event.op == "remove":
        if facts.pop(event.id, None) is None:
            return problem(Code.UNKNOWN_ID, f"knowledge {event.id!r} is removed but not known")
        removed[event.id] = None
        return ()
    if event.op not in ("add", "create", "update"):
        return problem(Code.MALFORMED_RECORD, f"knowledge has unknown op {event.op!r}")
    fact = facts.get(event.id)
    facts[event.id] = update_fact(fact or Fact(event.id), event.category, event.title, event.content)
    removed.pop(event.id, None)
    if fact is None and event.op == "update":
        return problem(Code.UNKNOWN_ID, f"knowledge {event.id!r} is updated but not known; added")
    return ()


def update_fact(fact: Fact, category: str | None, title: str | None, content: str | None) -> Fact:
    """Return an entry with the given fields; None leaves a field as it is."""
    return Fact(
        fact.id,
        fact.category if category is None else category,
        fact.title if title is None else title,
        fact.content if content is None else content,
    )
