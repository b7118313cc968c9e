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
from lore.fold.knowledge import identity
from lore.model.events import Event, Knowledge
from lore.model.inserts import signature
from lore.model.results import KnowledgeResult, KnowledgeWritten, KnownFact
from lore.model.state import Chain, Fact, Session
from lore.prompt.knowledge import SHORTEST_ID
from lore.prompt.planning import Planner
from lore.prompt.settings import Rules
from lore.recording import corpus
from lore.recording.base import Problems, Recording
from lore.recording.events import session_log
from lore.recording.opening import Options
from lore.run.writing import HINT_CONVERT, appending

DERIVED = 12  # hex digits of an id that lore derives
LONGEST_ID = 200
ALIKE = 0.6  # how much of a name another one has to share to be called near


class Fields(NamedTuple):
    """What an entry says; None leaves it as it is."""

    category: str | None = None
    title: str | None = None
    content: str | None = None


class Written(NamedTuple):
    """The answer, what was wrong with the log, and whether its last line was torn."""

    result: KnowledgeWritten
    problems: Problems
    torn: bool


def add(path: str, options: Options, name: str | None, fields: Fields) -> Written:
    """Add an entry; without a name its id is derived from what it says. An `add` of a known entry updates it."""
    _refuse_bad_text(fields)
    if not any(fields):
        raise LoreError("an entry without words", hint="say what is known with --content or --title")
    chosen = derived_id(fields) if name is None else _good_id(name)

    def known_as(state: Session) -> str:
        if chosen in state.knowledge:
            return chosen
        same = state.titles.get(identity(*(value or "" for value in fields)))
        return state.aliases.get(chosen, chosen) if same is None else same

    def events(state: Session) -> list[Event]:
        known = state.knowledge.get(known_as(state))
        if known is not None and _updated(known, fields) == known:
            return []
        return [Knowledge(op="add", id=known_as(state), **fields._asdict())]

    return _write(path, options, "add", events, lambda state: [known_as(state)])


def update(path: str, options: Options, name: str, fields: Fields) -> Written:
    """Change the fields of a known entry that are given."""
    _refuse_bad_text(fields)
    if all(value is None for value in fields):
        raise LoreError("nothing to update", hint="give --category, --title or --content")

    def events(state: Session) -> list[Event]:
        known = state.knowledge[find(state, name)]
        return [] if _updated(known, fields) == known else [Knowledge(op="update", id=known.id, **fields._asdict())]

    return _write(path, options, "update", events, lambda state: [find(state, name)])


def remove(path: str, options: Options, names: Sequence[str]) -> Written:
    """Take known entries away: all that are named, or none."""

    def ids(state: Session) -> list[str]:
        return list(dict.fromkeys(find(state, name) for name in names))

    def events(state: Session) -> list[Event]:
        return [Knowledge(op="remove", id=one) for one in ids(state)]

    return _write(path, options, "remove", events, ids)


def _write(
    path: str,
    options: Options,
    op: str,
    events: Callable[[Session], list[Event]],
    ids: Callable[[Session], list[str]],
) -> Written:
    _refuse_a_turn(path)
    if options.format not in (None, "lore"):
        raise LoreError(f"knowledge is added to lore logs, not to {options.format!r}", hint=HINT_CONVERT)
    problems = Problems()
    with appending(path) as appender:
        state = _folded(options.open(path, problems))
        named, made = ids(state), events(state)
        torn = appender.append(made)
    return Written(KnowledgeWritten(op=op, ids=named, written=len(made)), problems, torn)


def _folded(recording: Recording) -> Session:
    log = session_log(recording, "events: nothing in it is known", hint="name a session log")
    for read in log.reads():
        event: Event = read.value  # pyright: ignore[reportAssignmentType]
        log.apply(read, event)
    return log.state


def _refuse_a_turn(path: str) -> None:
    name = corpus.parse_name(path)
    if name.turn is not None:
        raise LoreError(f"{name} is one turn: knowledge belongs to a session", hint="leave #TURN out")


def find(state: Session, name: str) -> str:
    """Return the id that is meant: the very id, or a prefix that is long enough and no other id's."""
    known = state.knowledge
    name = name if name in known else state.aliases.get(name, name)
    if name in known:
        return name
    alike = [one for one in known if one.startswith(name)] if len(name) >= SHORTEST_ID else []
    if len(alike) == 1:
        return alike[0]
    if alike:
        listed = ", ".join(sorted(alike)[:5]) + (", …" if len(alike) > 5 else "")
        raise LoreError(f"{name!r} is the beginning of {len(alike)} ids", hint=f"say more of it: {listed}")
    if name and any(one.startswith(name) for one in known):
        raise LoreError(
            f"{name!r} is too little of an id: at least {SHORTEST_ID} characters are needed, or all of it",
            hint=_nearest(name, list(known)),
        )
    raise LoreError(f"the session knows no entry {name!r}", hint=_nearest(name, list(known)))


def _nearest(name: str, known: list[str]) -> str:
    """Return the hint for a name that no entry has: an id that is like it, where one is."""
    if not known:
        return "it knows nothing yet: `lore knowledge add`"
    every = "`lore knowledge list` shows all"
    starts = sorted(one for one in known if name and one.startswith(name))
    near = starts or difflib.get_close_matches(name[:LONGEST_ID], known, n=1, cutoff=ALIKE)
    return f"the nearest id is {near[0]}; {every}" if near else every


def derived_id(fields: Fields) -> str:
    """Return the id of an entry that was given none: the same words always have the same."""
    said = "\0".join(value or "" for value in fields)
    return hashlib.sha256(said.encode()).hexdigest()[:DERIVED]


def _good_id(name: str) -> str:
    _refuse_bad_text(Fields(title=name))
    if not name or len(name) > LONGEST_ID or not name.isprintable() or " " in name:
        raise LoreError(f"{name[:60]!r} is no id", hint=f"1 to {LONGEST_ID} characters without white space")
    return name


def _refuse_bad_text(fields: Fields) -> None:
    for field, value in fields._asdict().items():
        try:
            (value or "").encode("utf-8")
        except UnicodeEncodeError:
            raise LoreError(f"the {field} is not UTF-8 text", hint="give text") from None


def _updated(known: Fact, fields: Fields) -> Fact:
    said = {field: value for field, value in fields._asdict().items() if value is not None}
    return Fact(known.id, **{"category": known.category, "title": known.title, "content": known.content, **said})


# the list


def listed(path: str, options: Options) -> KnowledgeResult:
    """List what a session knows, in the order in which prompts show it."""
    _refuse_a_turn(path)
    problems = Problems()
    recording = options.open(path, problems)
    state = _folded(recording)
    main = state.main()
    told = Planner(Rules()).stated(main).changed
    facts = sorted(state.knowledge.values(), key=lambda one: (one.category, one.title, one.content, one.id))
    found = [KnownFact(one.id, one.category, one.title, one.content, _state(state, main, one, told)) for one in facts]
    return KnowledgeResult(session=state.id, knowledge=found, problems=problems.kept)


def _state(session: Session, chain: Chain, fact: Fact, told: dict[str, str]) -> str | None:
    """Say how the prompt holds an entry as it is now, by meaning: pinned, told by a delta, or not yet."""
    if not session.is_own or chain.pinned is None:
        return None if not session.is_own else "waiting"
    sign = signature(fact.title, fact.content)
    if told.get(fact.id) != sign:
        return "waiting"
    return (
        "pinned"
        if any(one.id == fact.id and signature(one.title, one.content) == sign for one in chain.pinned)
        else "delta"
    )
