"""What a session knows: entries that are added, updated, taken back.

Rules: an `add` of a known id is an update; so is one of a known entry under another id, which is then
known under both (an entry is its category and title, or its content where it has no title). An id that was
taken back is remembered: only that says that something is gone.
"""

from __future__ import annotations

import msgspec

from lore.fold.timeline import Problems, problem
from lore.model.codes import Code
from lore.model.events import Knowledge
from lore.model.inserts import normalised
from lore.model.state import Fact, Session


class Learned:
    """What a session knows while it is folded: tables of its own, so that many changes in a row copy them once."""

    __slots__ = ("_aliases", "_facts", "_removed", "_titles")

    def __init__(self, state: Session) -> None:
        self._facts = dict(state.knowledge)
        self._aliases = dict(state.aliases)
        self._titles = dict(state.titles)
        self._removed = dict(state.removed)

    def into(self, state: Session) -> Session:
        """Return the state with what was learned; nothing may be changed here from then on."""
        return msgspec.structs.replace(
            state, knowledge=self._facts, aliases=self._aliases, titles=self._titles, removed=self._removed
        )

    def change(self, event: Knowledge) -> Problems:
        """Apply one change."""
        name = event.id if event.id in self._facts else self._aliases.get(event.id, event.id)
        if name not in self._facts:
            name = event.id
        if event.op == "remove":
            return self._remove(name, event.id)
        if event.op not in ("add", "create", "update"):
            return problem(Code.MALFORMED_RECORD, f"knowledge has unknown op {event.op!r}")
        problems: Problems = ()
        if name not in self._facts:
            if event.op == "update":
                problems = problem(Code.UNKNOWN_ID, f"knowledge {event.id!r} is updated but not known; added")
            else:
                key = identity(event.category or "", event.title or "", event.content or "")
                name = self._titles.get(key, name)
        if name != event.id:
            self._aliases[event.id] = name
        self._put(name, event)
        return problems

    def _put(self, name: str, event: Knowledge) -> None:
        base = self._facts.get(name) or Fact(name)
        self._forget_title(base)
        fact = Fact(
            name,
            base.category if event.category is None else event.category,
            base.title if event.title is None else event.title,
            base.content if event.content is None else event.content,
        )
        key = identity(fact.category, fact.title, fact.content)
        if key:
            self._titles.setdefault(key, name)
        self._facts[name] = fact
        self._removed.pop(name, None)

    def _remove(self, name: str, shown: str) -> Problems:
        fact = self._facts.pop(name, None)
        if fact is None:
            return problem(Code.UNKNOWN_ID, f"knowledge {shown!r} is removed but not known")
        self._forget_title(fact)
        self._removed[name] = None
        return ()

    def _forget_title(self, fact: Fact) -> None:
        key = identity(fact.category, fact.title, fact.content)
        if self._titles.get(key) == fact.id:
            del self._titles[key]


def identity(category: str, title: str, content: str) -> str:
    """Return what identifies an entry: its category and title, or its content; nothing identifies an empty one."""
    heading, text = normalised(title), normalised(content)
    return f"{normalised(category)}\x1f{heading}" if heading else f"\x1f\x1f{text}" if text else ""
