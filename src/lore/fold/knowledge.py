"""What a session knows: entries that are added, updated, taken back.

Rules: an `add` of a known id is an update; so is one of a known entry under another id, which is then
known under both (an entry is its category and title, or its content where it has no title). An id that was
taken back is remembered: only that says that something is gone.
"""

from __future__ import annotations

import difflib
import hashlib
from typing import NamedTuple

import msgspec

from lore.errors import LoreError
from lore.fold.timeline import Problems, problem
from lore.model.codes import Code
from lore.model.events import Knowledge
from lore.model.inserts import normalised
from lore.model.mask import mask
from lore.model.state import Fact, FoldedSession

DERIVED = 12  # hex digits of an id that lore derives
LONGEST_ID = 200  # characters of an entry's id: it is written with each change of the entry
ALIKE = 0.6  # how much of a name another one has to share to be called near


class Learned:
    """What a session knows while it is folded: tables of its own, so that many changes in a row copy them once."""

    __slots__ = ("_aliases", "_facts", "_removed", "_titles")

    def __init__(self, state: FoldedSession) -> None:
        self._facts = dict(state.knowledge)
        self._aliases = dict(state.aliases)
        self._titles = dict(state.titles)
        self._removed = dict(state.removed)

    def into(self, state: FoldedSession) -> FoldedSession:
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


# entries by the words of a user


class Fields(NamedTuple):
    """What an entry says; None leaves it as it is."""

    category: str | None = None
    title: str | None = None
    content: str | None = None


def find(state: FoldedSession, name: str, shortest: int) -> str:
    """Return the id that is meant: the very id, the short form that the main chain's prompt shows, or a prefix.

    A prefix has at least `shortest` characters, and no other id has it.
    """
    known = state.knowledge
    name = name if name in known else state.aliases.get(name, name)
    if name in known:
        return name
    for shown_id, form in state.main().shown.items():
        if form == name and shown_id in known:
            return shown_id
        if form == name:
            raise LoreError(
                f"{name!r} was the entry {shown_id}, which was taken back", hint=_nearest(name, list(known))
            )
    alike = [known_id for known_id in known if known_id.startswith(name)] if len(name) >= shortest else []
    if len(alike) == 1:
        return alike[0]
    if alike:
        listed = ", ".join(sorted(alike)[:5]) + (", …" if len(alike) > 5 else "")
        raise LoreError(f"{name!r} is the beginning of {len(alike)} ids", hint=f"say more of it: {listed}")
    if name and any(known_id.startswith(name) for known_id in known):
        raise LoreError(
            f"{name!r} is too little of an id: at least {shortest} characters are needed, or all of it",
            hint=_nearest(name, list(known)),
        )
    raise LoreError(f"the session knows no entry {name!r}", hint=_nearest(name, list(known)))


def _nearest(name: str, known: list[str]) -> str:
    """Return the hint for a name that no entry has: an id that is like it, where one is."""
    if not known:
        return "it knows nothing yet: `lore knowledge add`"
    every = "`lore knowledge list` shows all"
    starts = sorted(known_id for known_id in known if name and known_id.startswith(name))
    near = starts or difflib.get_close_matches(name[:LONGEST_ID], known, n=1, cutoff=ALIKE)
    return f"the nearest id is {near[0]}; {every}" if near else every


def derived_id(fields: Fields) -> str:
    """Return the id of an entry that was given none: the same words always have the same."""
    words = "\0".join(value or "" for value in fields)
    return hashlib.sha256(words.encode()).hexdigest()[:DERIVED]


def chosen_id(name: str) -> str:
    """Return an id that was chosen; raises LoreError for what cannot be one."""
    refuse_bad_text(Fields(title=name))
    if not name or len(name) > LONGEST_ID or not name.isprintable() or " " in name:
        raise LoreError(f"{mask(name)[:60]!r} is no id", hint=f"1 to {LONGEST_ID} characters without white space")
    return name


def refuse_bad_text(fields: Fields) -> None:
    """Raise LoreError for text that UTF-8 cannot hold."""
    for field, value in fields._asdict().items():
        try:
            (value or "").encode("utf-8")
        except UnicodeEncodeError:
            raise LoreError(f"the {field} is not UTF-8 text", hint="give text") from None


def updated(known: Fact, fields: Fields) -> Fact:
    """Return an entry with the fields that are given."""
    given = {field: value for field, value in fields._asdict().items() if value is not None}
    return Fact(known.id, **{"category": known.category, "title": known.title, "content": known.content, **given})
