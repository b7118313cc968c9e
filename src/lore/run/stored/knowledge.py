"""What a session knows: list it, add to it, change it, take away from it.

In: a log, words of the user. Out: `knowledge` records behind the log's own, or the list. Rules: an entry
is named by its id or a prefix of at least 5 characters that no other id has; what is not known is an
error and nothing is written; what would change nothing is not written either. No time is invented.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from lore.errors import LoreError
from lore.fold.knowledge import Fields, chosen_id, derived_id, find, identity, refuse_bad_text, updated
from lore.model.events import Event, Knowledge
from lore.model.inserts import SHORTEST_ID, signature
from lore.model.results.store import KnowledgeEntry, KnowledgeResult, KnowledgeWritten
from lore.model.state import Chain, Fact, FoldedSession
from lore.prompt.base import Rules
from lore.prompt.planning import Planner
from lore.recording import corpus
from lore.recording.base import Problems, Recording
from lore.recording.events import session_log
from lore.recording.opening import Options
from lore.recording.writing import HINT_CONVERT, appending
from lore.store.base import ConflictError

ATTEMPTS = 100  # times that a stored session is read again after another writer's event


class WrittenKnowledge(NamedTuple):
    """The answer, what was wrong with the log, and whether its last line was torn."""

    result: KnowledgeWritten
    problems: Problems
    torn: bool


def add(path: str, options: Options, name: str | None, fields: Fields) -> WrittenKnowledge:
    """Add an entry; without a name its id is derived from what it says. An `add` of a known entry updates it."""
    refuse_bad_text(fields)
    if not any(fields):
        raise LoreError("an entry without words", hint="say what is known with --content or --title")
    chosen = derived_id(fields) if name is None else chosen_id(name)

    def known_as(state: FoldedSession) -> str:
        if chosen in state.knowledge:
            return chosen
        same = state.titles.get(identity(*(value or "" for value in fields)))
        return state.aliases.get(chosen, chosen) if same is None else same

    def events(state: FoldedSession) -> list[Event]:
        known = state.knowledge.get(known_as(state))
        if known is not None and updated(known, fields) == known:
            return []
        return [Knowledge(op="add", id=known_as(state), **fields._asdict())]

    return _write(path, options, "add", events, lambda state: [known_as(state)])


def update(path: str, options: Options, name: str, fields: Fields) -> WrittenKnowledge:
    """Change the fields of a known entry that are given."""
    refuse_bad_text(fields)
    if all(value is None for value in fields):
        raise LoreError("nothing to update", hint="give --category, --title or --content")

    def events(state: FoldedSession) -> list[Event]:
        known = state.knowledge[find(state, name, SHORTEST_ID)]
        return [] if updated(known, fields) == known else [Knowledge(op="update", id=known.id, **fields._asdict())]

    return _write(path, options, "update", events, lambda state: [find(state, name, SHORTEST_ID)])


def remove(path: str, options: Options, names: Sequence[str]) -> WrittenKnowledge:
    """Take known entries away: all that are named, or none."""

    def ids(state: FoldedSession) -> list[str]:
        return list(dict.fromkeys(find(state, name, SHORTEST_ID) for name in names))

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
    for _ in range(ATTEMPTS - 1):
        with suppress(ConflictError):  # another writer of the stored session was faster: decide again what to write
            return _write_once(path, options, op, events, ids)
    return _write_once(path, options, op, events, ids)


def _write_once(
    path: str,
    options: Options,
    op: str,
    events: Callable[[FoldedSession], list[Event]],
    ids: Callable[[FoldedSession], list[str]],
) -> WrittenKnowledge:
    problems = Problems()
    with appending(path) as appender:
        state = _folded(options.open(path, problems))
        named, made = ids(state), events(state)
        torn = appender.append(made)
    return WrittenKnowledge(KnowledgeWritten(op=op, ids=named, written=len(made)), problems, torn)


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
    stated = Planner(Rules()).stated(main).changed
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
