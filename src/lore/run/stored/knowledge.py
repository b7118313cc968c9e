"""What a session knows: list it, add to it, change it, take away from it.

In: a log, words of the user. Out: `knowledge` records behind the log's own, or the list. Rules: an entry
is named by its id or a prefix of at least 5 characters that no other id has; what is not known is an
error and nothing is written; what would change nothing is not written either. No time is invented.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lore.errors import LoreError
from lore.fold.knowledge import update_fact
from lore.model.events import Event, Knowledge
from lore.model.inserts import SHORTEST_ID, signature
from lore.model.mask import mask
from lore.model.results.store import KnowledgeEntry, KnowledgeResult, KnowledgeWritten
from lore.model.state import Chain, Fact, FoldedSession
from lore.prompt.base import Rules
from lore.prompt.planning import Planner
from lore.recording import corpus
from lore.recording.base import Problems, Recording
from lore.recording.events import session_log
from lore.recording.opening import Options
from lore.run.stored.appending import HINT_CONVERT, appending
from lore.store.base import ConflictError

ATTEMPTS = 100  # times that a stored session is read again after another writer's event
DERIVED_ID = 12  # hex digits of an id that is derived from an entry's words
LONGEST_ID = 200  # characters of an entry's id: it is written with each change of the entry
SIMILAR = 0.6  # share of a name that an id must have in common with it to be proposed


class Fields(NamedTuple):
    """The fields of an entry that a user gave; None leaves a field as it is."""

    category: str | None = None
    title: str | None = None
    content: str | None = None


class WrittenKnowledge(NamedTuple):
    """The answer, what was wrong with the log, and whether its last line was torn."""

    result: KnowledgeWritten
    problems: Problems
    torn: bool


def add(path: str, options: Options, name: str | None, fields: Fields) -> WrittenKnowledge:
    """Add an entry; without a name its id is derived from what it says. Adding a known id updates its entry."""
    _refuse_bad_text(fields)
    if not any(fields):
        raise LoreError("an entry without words", hint="say what is known with --content or --title")
    entry_id = _derived_id(fields) if name is None else _chosen_id(name)

    def events(state: FoldedSession) -> list[Event]:
        known = state.knowledge.get(entry_id)
        if known is not None and update_fact(known, *fields) == known:
            return []
        return [Knowledge(op="add", id=entry_id, **fields._asdict())]

    return _write(path, options, "add", events, lambda _: [entry_id])


def update(path: str, options: Options, name: str, fields: Fields) -> WrittenKnowledge:
    """Change the fields of a known entry that are given."""
    _refuse_bad_text(fields)
    if all(value is None for value in fields):
        raise LoreError("nothing to update", hint="give --category, --title or --content")

    def events(state: FoldedSession) -> list[Event]:
        known = state.knowledge[_find(state, name)]
        return [] if update_fact(known, *fields) == known else [Knowledge(op="update", id=known.id, **fields._asdict())]

    return _write(path, options, "update", events, lambda state: [_find(state, name)])


def remove(path: str, options: Options, names: Sequence[str]) -> WrittenKnowledge:
    """Take known entries away: all that are named, or none."""

    def ids(state: FoldedSession) -> list[str]:
        return list(dict.fromkeys(_find(state, name) for name in names))

    def events(state: FoldedSession) -> list[Event]:
        return [Knowledge(op="remove", id=fact_id) for fact_id in ids(state)]

    return _write(path, options, "remove", events, ids)


def _write(
    path: str,
    options: Options,
    op: str,
    events: Callable[[FoldedSession], list[Event]],
    ids: Callable[[FoldedSession], list[str]],
) -> WrittenKnowledge:
    _refuse_a_turn(path)
    if options.format not in (None, "lore"):
        raise LoreError(f"knowledge is added to lore logs, not to {options.format!r}", hint=HINT_CONVERT)
    for attempt in range(1, ATTEMPTS + 1):
        problems = Problems()
        try:
            with appending(path) as appender:
                state = _folded(options.open(path, problems))
                named, made = ids(state), events(state)
                torn = appender.append(made)
        except ConflictError:  # another writer of the stored session was faster: decide again what to write
            if attempt == ATTEMPTS:
                raise
        else:
            return WrittenKnowledge(KnowledgeWritten(op=op, ids=named, written=len(made)), problems, torn)
    raise AssertionError("the last attempt returns or raises")


def _folded(recording: Recording) -> FoldedSession:
    log = session_log(recording, "events: nothing in it is known", hint="name a session log")
    for read in log.reads():
        event: Event = read.value  # pyright: ignore[reportAssignmentType]
        log.apply(read, event)
    return log.state


def _refuse_a_turn(path: str) -> None:
    name = corpus.parse_name(path)
    if name.turn is not None:
        raise LoreError(f"{name} is one turn: knowledge belongs to a session", hint="leave #TURN out")


# the list


def listed(path: str, options: Options) -> KnowledgeResult:
    """List what a session knows, in the order in which prompts show it."""
    _refuse_a_turn(path)
    problems = Problems()
    recording = options.open(path, problems)
    state = _folded(recording)
    main = state.main()
    stated = Planner(Rules()).signatures_in_prompt(main).changed
    facts = sorted(state.knowledge.values(), key=lambda fact: (fact.category, fact.title, fact.content, fact.id))
    found = [
        KnowledgeEntry(fact.id, fact.category, fact.title, fact.content, _state(state, main, fact, stated))
        for fact in facts
    ]
    return KnowledgeResult(session=state.id, knowledge=found, problems=problems.kept)


def _state(session: FoldedSession, chain: Chain, fact: Fact, stated: dict[str, str]) -> str | None:
    """Say how the prompt holds an entry as it is now, by meaning: pinned, told by a delta, or not yet."""
    if not session.is_own or chain.pinned is None:
        return None if not session.is_own else "waiting"
    sign = signature(fact.title, fact.content)
    if stated.get(fact.id) != sign:
        return "waiting"
    return (
        "pinned"
        if any(pinned.id == fact.id and signature(pinned.title, pinned.content) == sign for pinned in chain.pinned)
        else "delta"
    )


# entries as users name them


def _find(state: FoldedSession, name: str) -> str:
    """Return the id that a user means: the id, the short form that prompts show, or a prefix that no other id has."""
    known = list(state.knowledge)
    if name in known:
        return name
    for shown_id, form in state.main().shown.items():
        if form == name and shown_id in known:
            return shown_id
        if form == name:
            raise LoreError(f"{name!r} was the entry {shown_id}, which was removed", hint=_nearest(name, known))
    begun = sorted(known_id for known_id in known if name and known_id.startswith(name))
    if len(begun) == 1 and len(name) >= SHORTEST_ID:
        return begun[0]
    if begun and len(name) >= SHORTEST_ID:
        listed = ", ".join(begun[:5]) + (", …" if len(begun) > 5 else "")
        raise LoreError(f"{name!r} is the beginning of {len(begun)} ids", hint=f"give more of it: {listed}")
    if begun:
        message = f"{name!r} is too short: give at least {SHORTEST_ID} characters of an id, or all of it"
        raise LoreError(message, hint=_nearest(name, known))
    raise LoreError(f"the session knows no entry {name!r}", hint=_nearest(name, known))


def _nearest(name: str, known: list[str]) -> str:
    if not known:
        return "it knows nothing yet: `lore knowledge add`"
    listing = "`lore knowledge list` shows all"
    begun = sorted(known_id for known_id in known if name and known_id.startswith(name))
    near = begun or difflib.get_close_matches(name[:LONGEST_ID], known, n=1, cutoff=SIMILAR)
    return f"the nearest id is {near[0]}; {listing}" if near else listing


def _derived_id(fields: Fields) -> str:
    """Return the id of an entry that was given none: the same words always have the same id."""
    words = "\0".join(value or "" for value in fields)
    return hashlib.sha256(words.encode()).hexdigest()[:DERIVED_ID]


def _chosen_id(name: str) -> str:
    _refuse_bad_text(Fields(title=name))
    if not name or len(name) > LONGEST_ID or not name.isprintable() or " " in name:
        raise LoreError(f"{mask(name)[:60]!r} is no id", hint=f"1 to {LONGEST_ID} characters without white space")
    return name


def _refuse_bad_text(fields: Fields) -> None:
    for field, value in fields._asdict().items():
        try:
            (value or "").encode("utf-8")
        except UnicodeEncodeError:
            raise LoreError(f"the {field} is not UTF-8 text", hint="give text") from None
