"""Knowledge in the fold: entries are added, updated and removed, each under its own id.

Adding a known id updates its entry. Entries of the same title or the same words under different ids stay different
entries. The ids of removed entries are remembered, so that a prompt can say that they no longer hold.
"""

from __future__ import annotations

from lore.fold.timeline import Problems, problem
from lore.model.codes import Code
from lore.model.events import Knowledge
from lore.model.state import Fact, FoldedSession


class KnowledgeChanges:
    """The knowledge of a session while it is folded: copies of its tables, so that many events copy them once."""

    __slots__ = ("facts", "removed")

    def __init__(self, session: FoldedSession) -> None:
        self.facts = dict(session.knowledge)
        self.removed = dict(session.removed)

    def apply(self, event: Knowledge) -> Problems:
        """Apply one event."""
        if event.op == "remove":
            if self.facts.pop(event.id, None) is None:
                return problem(Code.UNKNOWN_ID, f"knowledge {event.id!r} is removed but not known")
            self.removed[event.id] = None
            return ()
        if event.op not in ("add", "create", "update"):
            return problem(Code.MALFORMED_RECORD, f"knowledge has unknown op {event.op!r}")
        fact = self.facts.get(event.id)
        self.facts[event.id] = update_fact(fact or Fact(event.id), event.category, event.title, event.content)
        self.removed.pop(event.id, None)
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
