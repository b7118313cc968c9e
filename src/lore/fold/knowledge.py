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
            name = state.titles.get(_key(event.category or "", event.title or "", event.content or ""), name)
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
    titles = _without(state.titles, base)
    key = _key(fact.category, fact.title, fact.content)
    if key:
        titles.setdefault(key, name)
    knowledge = {**state.knowledge, name: fact}
    return Known(_replace(state, knowledge=knowledge, removed=removed, titles=titles), problems)


def _remove(state: Session, name: str, said: str) -> Known:
    if name not in state.knowledge:
        return Known(state, (Problem("LORE204", f"knowledge {said!r} is removed but not known"),))
    rest, removed = dict(state.knowledge), {**state.removed, name: None}
    fact = rest.pop(name)
    aliases = state.aliases
    if aliases:
        aliases = {one: known for one, known in aliases.items() if known != name}
    titles = _without(state.titles, fact)
    return Known(_replace(state, knowledge=rest, aliases=aliases, removed=removed, titles=titles))


def _without(titles: dict[str, str], fact: Fact) -> dict[str, str]:
    """Return a copy without what identified an entry."""
    rest, key = dict(titles), _key(fact.category, fact.title, fact.content)
    if rest.get(key) == fact.id:
        del rest[key]
    return rest


def _key(category: str, title: str, content: str) -> str:
    """Return what identifies an entry: its category and title, or its content; nothing identifies an empty one."""
    named, said = normalised(title), normalised(content)
    return f"{normalised(category)}\x1f{named}" if named else f"\x1f\x1f{said}" if said else ""
