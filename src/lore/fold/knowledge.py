"""What a session knows: entries that are added, updated, taken back.

Rules: an `add` of a known id is an update; so is one of a known entry under another id, which is then
known under both (an entry is its category and title, or its content where it has no title). An id that was
taken back is remembered: only that says that something is gone.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from lore.fold.timeline import Problems
from lore.model.events import Knowledge
from lore.model.materiality import normalised
from lore.model.problems import Problem
from lore.model.state import Fact, Session

_replace = msgspec.structs.replace


class Known(NamedTuple):
    """The session after a change of what it knows, and what was wrong with the change."""

    state: Session
    problems: Problems = ()


def change(state: Session, event: Knowledge) -> Known:
    """Apply one change. Costs O(entries)."""
    name = state.aliases.get(event.id, event.id)
    if event.op == "remove":
        return _remove(state, name, event.id)
    if event.op not in ("add", "create", "update"):
        return Known(state, (Problem("LORE207", f"knowledge has unknown op {event.op!r}"),))
    problems: Problems = ()
    if name not in state.knowledge:
        if event.op == "update":
            problems = (Problem("LORE204", f"knowledge {event.id!r} is updated but not known; added"),)
        else:
            name = _same_entry(state, event) or name
    if name != event.id and event.id not in state.aliases:
        state = _replace(state, aliases={**state.aliases, event.id: name})
    base = state.knowledge.get(name) or Fact(name)
    fact = Fact(
        name,
        base.category if event.category is None else event.category,
        base.title if event.title is None else event.title,
        base.content if event.content is None else event.content,
    )
    removed = state.removed
    if name in removed:
        removed = {one: None for one in removed if one != name}
    return Known(_replace(state, knowledge={**state.knowledge, name: fact}, removed=removed), problems)


def _remove(state: Session, name: str, said: str) -> Known:
    if name not in state.knowledge:
        return Known(state, (Problem("LORE204", f"knowledge {said!r} is removed but not known"),))
    rest = {one: fact for one, fact in state.knowledge.items() if one != name}
    aliases = {one: known for one, known in state.aliases.items() if known != name}
    return Known(_replace(state, knowledge=rest, aliases=aliases, removed={**state.removed, name: None}))


def _same_entry(state: Session, event: Knowledge) -> str | None:
    """Return the id under which an entry is known already; None where it is new."""
    wanted = _key(event.category or "", event.title or "", event.content or "")
    if not any(wanted):
        return None
    known = state.knowledge.values()
    return next((fact.id for fact in known if _key(fact.category, fact.title, fact.content) == wanted), None)


def _key(category: str, title: str, content: str) -> tuple[str, str]:
    named = normalised(title)
    return (f"{normalised(category)}\x1f{named}", "") if named else ("", normalised(content))
