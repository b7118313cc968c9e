"""`lore knowledge add|update|remove|list`: what a session knows; changes are `knowledge` records, appended to its log.

An entry is named by its id or a prefix of at least 5 characters that no other id has. If an entry is unknown, nothing
is written; a record that would change nothing is not written either. Records carry no time.
"""

from __future__ import annotations

import difflib
import hashlib
import sys
from collections.abc import Callable
from typing import Annotated, NamedTuple, TypeAlias

from lore.commands import flags
from lore.commands.common import answer, branch, log, say_problems, tell, write_json
from lore.errors import LoreError
from lore.fold.knowledge import update_fact
from lore.model.events import Event, Knowledge
from lore.model.inserts import SHORTEST_ID, signature
from lore.model.mask import mask
from lore.model.results.store import KnowledgeEntry, KnowledgeResult, KnowledgeWritten
from lore.model.state import FoldedSession
from lore.prompt.base import Rules
from lore.prompt.planning import Planner
from lore.recording import corpus
from lore.recording.base import Problems
from lore.recording.events import session_log
from lore.recording.opening import Options
from lore.report.plain import visible
from lore.report.timeline import write_knowledge
from lore.run.outputs import HINT_CONVERT, appending
from lore.store.base import ConflictError

app = branch("List and change what a session knows.\n\nChanges become durable deltas of its prompts.")

LONGEST = 16 * 1024 * 1024  # bytes of an entry's content: far more than any prompt holds
ATTEMPTS = 100  # times that a stored session is read again after another writer's event
DERIVED_ID = 12  # hex digits of an id that is derived from an entry's text
LONGEST_ID = 200  # characters of an entry's id: it is written with each change of the entry
SIMILAR = 0.6  # share of a name that an id must have in common with it to be proposed

Log: TypeAlias = Annotated[str, "SESSION", "A lore log, or a stored session (URL#ID)."]
Category: TypeAlias = Annotated[str | None, "--category", "Its subject."]
Title: TypeAlias = Annotated[str | None, "--title", "Its name."]
Content: TypeAlias = Annotated[str | None, "--content", "Its text; `-`: standard input."]


class Fields(NamedTuple):
    """The fields of an entry that a user gave; None leaves a field as it is."""

    category: str | None = None
    title: str | None = None
    content: str | None = None


# session -> ids of the changed entries, and the events to append
Plan: TypeAlias = Callable[[FoldedSession], tuple[list[str], list[Event]]]


@app.command("add")
def add(
    session: Log,
    name: Annotated[str | None, "ID", "Its id; default: derived from its text."] = None,
    category: Category = None, title: Title = None, content: Content = None,
    as_json: flags.AsJson = False, format: flags.Format = None, verbose: flags.Verbose = False,
) -> int:  # fmt: skip
    """Add an entry and print its id."""
    fields = _read_fields(category, title, content)
    if not any(fields):
        raise LoreError("the entry has no text", hint="give --content or --title")
    digest = hashlib.sha256("\0".join(value or "" for value in fields).encode()).hexdigest()
    entry_id = digest[:DERIVED_ID] if name is None else name
    if name is not None:
        _check_text(Fields(title=name))
        if not name or len(name) > LONGEST_ID or not name.isprintable() or " " in name:
            hint = f"1 to {LONGEST_ID} characters without white space"
            raise LoreError(f"{mask(name)[:60]!r} is not a valid id", hint=hint)

    def plan(state: FoldedSession) -> tuple[list[str], list[Event]]:
        return _plan_change(state, "add", entry_id, fields)

    return _append_planned(session, Options(format=format, log=log(verbose)), "add", plan, as_json=as_json)


@app.command("update")
def update(
    session: Log,
    name: Annotated[str, "ID", "Its id, or 5 characters or more of its beginning."],
    category: Category = None, title: Title = None, content: Content = None,
    as_json: flags.AsJson = False, format: flags.Format = None, verbose: flags.Verbose = False,
) -> int:  # fmt: skip
    """Change the given fields of a known entry, and print its id."""
    fields = _read_fields(category, title, content)
    if all(value is None for value in fields):
        raise LoreError("nothing to update", hint="give --category, --title or --content")

    def plan(state: FoldedSession) -> tuple[list[str], list[Event]]:
        return _plan_change(state, "update", _find_id(state, name), fields)

    return _append_planned(session, Options(format=format, log=log(verbose)), "update", plan, as_json=as_json)


@app.command("remove")
def remove(
    session: Log,
    names: Annotated[list[str], "ID...", "Ids, or 5 characters or more of each."],
    as_json: flags.AsJson = False, format: flags.Format = None, verbose: flags.Verbose = False,
) -> int:  # fmt: skip
    """Remove entries, all named or none, and print their ids."""

    def plan(state: FoldedSession) -> tuple[list[str], list[Event]]:
        ids = list(dict.fromkeys(_find_id(state, name) for name in names))
        return ids, [Knowledge(op="remove", id=entry_id) for entry_id in ids]

    return _append_planned(session, Options(format=format, log=log(verbose)), "remove", plan, as_json=as_json)


@app.command("list")
def list_(
    session: Annotated[str, "SESSION", "A session log, a stored session (URL#ID), or `-`."],
    as_json: flags.AsJson = False, format: flags.Format = None, color: flags.Colour = None,
    verbose: flags.Verbose = False,
) -> int:  # fmt: skip
    """List what a session knows, and whether its prompt holds it yet."""
    _refuse_turn(session)
    problems = Problems()
    state = _fold_session(session, Options(format=format, log=log(verbose)), problems)
    main, entries = state.main(), list[KnowledgeEntry]()
    signatures = Planner(Rules()).signatures_in_prompt(main).changed
    pinned_meanings = {entry.id: signature(entry.title, entry.content) for entry in main.pinned or ()}
    for fact in sorted(state.knowledge.values(), key=lambda fact: (fact.category, fact.title, fact.content, fact.id)):
        meaning, place = signature(fact.title, fact.content), None
        if state.is_own:  # how the prompt holds the entry with its meaning now
            is_held = main.pinned is not None and signatures.get(fact.id) == meaning
            place = "waiting" if not is_held else "pinned" if pinned_meanings.get(fact.id) == meaning else "delta"
        entries.append(KnowledgeEntry(fact.id, fact.category, fact.title, fact.content, place))
    result = KnowledgeResult(session=state.id, knowledge=entries, problems=problems.kept)
    return answer(result, write_knowledge, as_json=as_json, color=color)


def _read_fields(category: str | None, title: str | None, content: str | None) -> Fields:
    """Return the fields that were given; content may be read from standard input, less one line end at its end."""
    if content == corpus.STDIN:
        data = b""
        for piece in corpus.pieces(corpus.STDIN):
            data += piece
            if len(data) > LONGEST:
                raise LoreError(f"standard input holds more than {LONGEST >> 20} MiB", hint="give less")
        try:
            content = data.decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise LoreError("standard input is not UTF-8 text", hint="give text") from None
    fields = Fields(category, title, content)
    _check_text(fields)
    return fields


def _plan_change(state: FoldedSession, op: str, entry_id: str, fields: Fields) -> tuple[list[str], list[Event]]:
    """Return the id, and the event if it changes something."""
    fact = state.knowledge.get(entry_id)
    if fact is not None and update_fact(fact, *fields) == fact:
        return [entry_id], []
    return [entry_id], [Knowledge(op=op, id=entry_id, **fields._asdict())]


def _append_planned(path: str, options: Options, op: str, plan: Plan, *, as_json: bool) -> int:
    """Append the events that `plan` returns, and print the ids and the problems of the log."""
    _refuse_turn(path)
    if options.format not in (None, "lore"):
        raise LoreError(f"knowledge is added to lore logs, not to {options.format!r}", hint=HINT_CONVERT)
    ids, events, problems = list[str](), list[Event](), Problems()
    for attempt in range(1, ATTEMPTS + 1):
        problems = Problems()
        try:
            with appending(path) as append:
                ids, events = plan(_fold_session(path, options, problems))
                append(events)
        except ConflictError:  # another writer of the stored session was faster: plan again
            if attempt == ATTEMPTS:
                raise
        else:
            break
    if as_json:
        write_json(KnowledgeWritten(op=op, ids=ids, written=len(events)))
    else:
        sys.stdout.write("".join(f"{visible(entry_id)}\n" for entry_id in ids))
    if not events:
        tell("note: the session knows that already; nothing was written")
    say_problems(problems)
    return 0


def _fold_session(path: str, options: Options, problems: Problems) -> FoldedSession:
    log = session_log(options.open(path, problems), "events: nothing in it is known", hint="name a session log")
    for read in log.reads():
        event: Event = read.value  # pyright: ignore[reportAssignmentType]
        log.apply(read, event)
    return log.state


def _refuse_turn(path: str) -> None:
    name = corpus.parse_name(path)
    if name.turn is not None:
        raise LoreError(f"{name} is one turn: knowledge belongs to a session", hint="leave #TURN out")


def _find_id(state: FoldedSession, name: str) -> str:
    """Return the id that a user means: the id, the short form that prompts show, or a prefix that no other id has."""
    known_ids = list(state.knowledge)
    if name in known_ids:
        return name
    shown_id = next((entry_id for entry_id, form in state.main().short_ids.items() if form == name), None)
    if shown_id in known_ids:
        return shown_id
    if shown_id is not None:
        raise LoreError(f"{name!r} was the entry {shown_id}, which was removed", hint=_hint_of_nearest(name, known_ids))
    matches = _ids_beginning_with(name, known_ids)
    if matches and len(name) < SHORTEST_ID:
        message = f"{name!r} is too short: give at least {SHORTEST_ID} characters of an id, or all of it"
        raise LoreError(message, hint=_hint_of_nearest(name, known_ids))
    if len(matches) > 1:
        ids = ", ".join(matches[:5]) + (", …" if len(matches) > 5 else "")
        raise LoreError(f"{name!r} is the beginning of {len(matches)} ids", hint=f"give more of it: {ids}")
    if not matches:
        raise LoreError(f"the session knows no entry {name!r}", hint=_hint_of_nearest(name, known_ids))
    return matches[0]


def _ids_beginning_with(name: str, ids: list[str]) -> list[str]:
    return sorted(known_id for known_id in ids if name and known_id.startswith(name))


def _hint_of_nearest(name: str, ids: list[str]) -> str:
    if not ids:
        return "it knows nothing yet: `lore knowledge add`"
    similar = _ids_beginning_with(name, ids) or difflib.get_close_matches(name[:LONGEST_ID], ids, n=1, cutoff=SIMILAR)
    listing = "`lore knowledge list` shows all"
    return f"the nearest id is {similar[0]}; {listing}" if similar else listing


def _check_text(fields: Fields) -> None:
    for field, value in fields._asdict().items():
        try:
            (value or "").encode("utf-8")
        except UnicodeEncodeError:
            raise LoreError(f"the {field} is not UTF-8 text", hint="give text") from None
