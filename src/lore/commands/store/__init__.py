"""`lore store …`: keep sessions in a store, and list, check, move and delete them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from typing import Annotated, TypeAlias

from msgspec import Raw

from lore.commands import common, flags
from lore.errors import LoreError
from lore.model.events import MAIN, PromptDelta
from lore.model.fact import count_of
from lore.model.results import copy_fields
from lore.model.results import store as results
from lore.model.times import parse_timestamp
from lore.recording import corpus
from lore.recording.opening import Options
from lore.report.console import Console, line
from lore.report.timeline import write_problems
from lore.run import arguments
from lore.store.base import DamagedError, SessionSummary, Store, StoreError, UnknownSessionError, Verified
from lore.store.deltas import DeltaStore
from lore.store.lines import check_id
from lore.store.registry import address_of, load_notes, mask_url, may_exist, open_existing, open_store, scheme_of
from lore.store.reserved import DEFAULT_USER, drop_reserved

app = common.branch(
    "Keep sessions in a store, saved by delta.\n\nEveryone who may read its files or tables can read all sessions."
)
ClientKey: TypeAlias = Annotated[str, "CLIENT_KEY", "What identifies a client."]
SessionIds: TypeAlias = Annotated[list[str], "SESSION_ID...", "The ids of stored sessions."]


@contextmanager
def use_store(url: str, *, new: bool = False) -> Generator[Store]:
    """Open the store for one command (`new`: create a missing one); its messages go to standard error."""
    address = address_of(url)
    if address is not None and not os.path.lexists(url.partition(":")[2]) and may_exist(address.url):
        hint = f"--store {mask_url(address.url)}, and the session's id as an argument"
        raise StoreError(f"{mask_url(url)} names a session, not a store", hint=hint)

    def tell(text: str) -> None:
        common.tell(text if text.startswith("note: ") else f"note: {text}")

    with closing(open_store(url, tell) if new else open_existing(url, tell)) as store:
        if scheme_of(url) == "memory":
            common.tell("note: `memory:` is gone when this command ends")
        yield store


@app.command("import")
def import_(
    store: flags.Url,
    paths: Annotated[
        list[str] | None,
        "PATH...",
        "Sessions, captures, folders, patterns, stores, URL#SESSION_ID, `-`; default: where agents keep logs.",
    ] = None,
    session_id: Annotated[
        str | None, "--id", "Store the session under this id; default: its own, else its file's name."
    ] = None,
    project: Annotated[str | None, "Make the sessions this project's."] = None,
    system: flags.System = None, tools: flags.Tools = None, as_json: flags.AsJson = False, format: flags.Format = None,
    color: flags.Colour = None, verbose: flags.Verbose = False,
) -> int:  # fmt: skip
    """Store sessions, or their new events.

    lore's own logs are stored byte for byte, others are converted, recorded requests as the session that they make. The
    same command continues an interrupted import, and adds the new events of sessions that have grown. A session that is
    stored with other content is a conflict: exit 3 if it is one of several inputs.
    """
    from lore.commands.store.writing import import_sessions
    from lore.run.arguments import read_completion

    options = Options(format=format, completion=read_completion(system, tools, strict=False), log=common.log(verbose))
    surroundings, sources = common.surroundings(), list(paths or [])
    if not sources or any(surroundings.home and corpus.is_same(path, surroundings.home) for path in sources):
        sources = [*arguments.find_agent_logs(surroundings), *sources]
    if not sources:
        raise LoreError("no agent that lore reads keeps logs here", hint="name the sessions to import")
    bar = common.progress(is_on=not verbose, colour=color, what="importing")
    with use_store(store, new=True) as session_store, bar as progress:
        result = import_sessions(
            session_store, sources, options, session_id=session_id, project_id=project, progress=progress
        )
    common.answer(result, write_imported, as_json=as_json, color=color)
    return common.exit_code([session for session in result.sessions if session.message is not None])


@app.command("export")
def export(
    session_id: flags.SessionId, store: flags.Url, output: flags.Output = None, force: flags.Force = False
) -> int:
    """Write a stored session's log, one event a line; of a damaged one the events before the damage (exit code 3).

    Content is written as it was stored: credentials are not masked.
    """
    damage: DamagedError | None = None
    with use_store(store) as session_store:
        try:
            events = session_store.load(session_id).events
        except DamagedError as error:
            if not isinstance(session_store, DeltaStore) or not (events := session_store.intact_events(session_id)):
                raise
            damage = error
    with common.destination(output, force=force, inputs=(store,)) as file:
        file.writelines(event + b"\n" for event in events)
    if damage is None:
        return 0
    place = "" if damage.where is None else f" ({damage.where})"
    common.tell(f"error: {damage.message}{place}: {count_of(len(events), 'event')} before that are written, no others")
    return 3


@app.command("append")
def append(session_id: flags.SessionId, store: flags.Url) -> int:
    """Append events from standard input, a line each.

    Each, a JSON object, is answered by one line, {"session_id": …, "id": N}, when it is durable: N is the event's
    number. The first session_started begins the session. A line without a number is appended.

    To make repeats safe, a line may have the number that it expects, as `id` (an integer), in a `knowledge` event as
    `number`. If that event is stored already, it is acknowledged again, so a writer that was killed can send all
    unanswered lines again. Another event under this number, or a number after the next one, is a conflict (exit 2). The
    number itself is not stored.
    """
    from lore.commands.store.writing import SessionAppender
    from lore.formats.lines import read_lines

    with use_store(store, new=True) as session_store:
        appender = SessionAppender(session_store, session_id, common.tell)
        for line in read_lines(corpus.pieces(corpus.STDIN)):
            common.write_json(appender.append(line))
            sys.stdout.flush()
    return 0


@app.command("list")
def list_(
    store: flags.Url,
    project: Annotated[str | None, "List the sessions of this project only."] = None,
    user: Annotated[str | None, "List the sessions of this user only; `default`: also those that name none."] = None,
    agent: Annotated[str | None, "List the sessions of this agent only; `main`: also those that name none."] = None,
    since: Annotated[str | None, "List sessions used since then: 30m, 2h, 1d, 1w, or a date."] = None,
    memory: Annotated[bool, "Include the sessions in which lore keeps memory."] = False,
    as_json: flags.AsJson = False, color: flags.Colour = None,
) -> int:  # fmt: skip
    """List the sessions: size, whose, when last used.

    The last use is the last time in an event, else the time of the last save.
    """
    begin = None if since is None else arguments.parse_since(since, time.time())
    with use_store(store) as session_store:
        all_summaries = session_store.list(project)
        summaries = [
            summary for summary in (all_summaries if memory else drop_reserved(all_summaries))
            if user in (None, summary.user_id or DEFAULT_USER) and agent in (None, summary.agent_id or MAIN)
        ]  # fmt: skip
        if begin is not None:
            times = [parse_timestamp(summary.last_used_at) for summary in summaries]
            if untimed := times.count(None):
                says = "1 session says" if untimed == 1 else f"{untimed:,} sessions say"
                common.tell(f"note: {says} no time of use, and cannot be chosen by --since")
            dated_summaries = zip(summaries, times, strict=True)
            summaries = [summary for summary, at in dated_summaries if at is not None and at >= begin]
        result = results.StoreList(store=session_store.url, sessions=[_row(summary) for summary in summaries])
        return common.answer(result, write_list, as_json=as_json, color=color)


def _row(summary: SessionSummary) -> results.SessionRow:
    return copy_fields(
        results.SessionRow, summary, events=summary.head.number, bytes=summary.size, used_at=summary.last_used_at,
        head=results.StoredHead(*summary.head),
    )  # fmt: skip


@app.command("show")
def show(
    session_id: flags.SessionId, store: flags.Url, as_json: flags.AsJson = False, color: flags.Colour = None
) -> int:
    """Show a session: its head, project, forks, deltas."""
    from lore.session import Session
    from lore.store.deltas import session_with_forks

    with use_store(store) as session_store:
        summaries = {summary.session_id: summary for summary in session_store.list()}
        if session_id not in summaries:
            session_store.load(session_id)  # raises DamagedError: a damaged session is not listed
            raise UnknownSessionError(session_id, session_store.url)
        summary, events = summaries[session_id], Session.events_of(session_store.load(session_id).log)
        parents = {name: entry.parent_session_id for name, entry in summaries.items()}
        result = results.StoreShown(
            store=session_store.url, session=_row(summary), metadata=Raw(summary.metadata),
            prompt_deltas=len({event.seq for event in events if isinstance(event, PromptDelta)}),
            forks=sorted(set(session_with_forks(session_id, parents)) - {session_id}),
        )  # fmt: skip
    return common.answer(result, write_shown, as_json=as_json, color=color)


@app.command("delete")
def delete(
    session_ids: SessionIds, store: flags.Url,
    dry_run: Annotated[bool, "Say what would be deleted, and delete nothing."] = False,
    as_json: flags.AsJson = False, color: flags.Colour = None,
) -> int:  # fmt: skip
    """Delete sessions, with their deltas and forks.

    Nothing is deleted if one of them is unknown; --dry-run says beforehand which sessions would go.
    """
    from lore.store.deltas import session_with_forks

    with use_store(store) as session_store:
        parents = {summary.session_id: summary.parent_session_id for summary in session_store.list()}
        for session_id in session_ids:
            with suppress(DamagedError):  # a damaged session is not listed
                if session_id not in parents and load_notes(session_store, session_id) is None:
                    raise UnknownSessionError(session_id, session_store.url)
        deleted_ids: dict[str, None] = {}
        for session_id in session_ids:
            if session_id not in deleted_ids:  # it may be deleted already, as a fork of another one
                deleted = session_with_forks(session_id, parents) if dry_run else session_store.delete(session_id)
                deleted_ids.update(dict.fromkeys(deleted))
    result = results.StoreWritten(store=session_store.url, op="delete", session_ids=list(deleted_ids), dry_run=dry_run)
    return common.answer(result, write_written, as_json=as_json, color=color)


@app.command("move")
def move(
    session_ids: SessionIds, project_id: Annotated[str, "PROJECT", "The project that they are moved to."],
    store: flags.Url, as_json: flags.AsJson = False, color: flags.Colour = None,
) -> int:  # fmt: skip
    """Move sessions, and their prompt deltas, to another project.

    Nothing is moved if one of them is unknown.
    """
    check_id(project_id, "project id")
    names = list(dict.fromkeys(session_ids))
    with use_store(store) as session_store:
        for name in names:
            if load_notes(session_store, name) is None:
                raise UnknownSessionError(name, session_store.url)
        for name in names:
            session_store.move(name, project_id)
    result = results.StoreWritten(store=session_store.url, op="move", session_ids=names, project_id=project_id)
    return common.answer(result, write_written, as_json=as_json, color=color)


@app.command("bind")
def bind(
    client_key: ClientKey, session_id: flags.SessionId, store: flags.Url,
    replace: Annotated[bool, "Overwrite an existing binding."] = False,
    as_json: flags.AsJson = False, color: flags.Colour = None,
) -> int:  # fmt: skip
    """Bind a client key to a session."""
    with use_store(store) as session_store:
        session_store.bind(client_key, session_id, replace=replace)
    result = results.StoreWritten(store=session_store.url, op="bind", session_ids=[session_id], client_key=client_key)
    return common.answer(result, write_written, as_json=as_json, color=color)


@app.command("resolve")
def resolve(client_key: ClientKey, store: flags.Url, as_json: flags.AsJson = False) -> int:
    """Print the id of the session that is bound to a client key."""
    with use_store(store) as session_store:
        session_id = session_store.resolve(client_key)
    if session_id is None:
        hint = "`lore store bind CLIENT_KEY SESSION_ID`"
        raise LoreError(f"no session is bound to client {client_key!r}", hint=hint)
    result = results.StoreResolved(store=session_store.url, client_key=client_key, session_id=session_id)
    return common.answer(result, lambda it, console: console.print(line(it.session_id)), as_json=as_json, color=None)


@app.command("verify")
def verify(
    store: flags.Url,
    session_ids: Annotated[list[str] | None, "SESSION_ID", "The ids of stored sessions; default: all."] = None,
    as_json: flags.AsJson = False, color: flags.Colour = None,
) -> int:  # fmt: skip
    """Recompute digests, and name damaged places, with the commands that recover what is left.

    Exit 1 if damage is found. Nothing is changed.
    """
    with use_store(store) as session_store:
        names = dict.fromkeys(session_ids or [])
        report = Verified.of(map(session_store.verify, names)) if names else session_store.verify()
    result = results.StoreVerified(
        store=session_store.url, sessions=report.sessions, events=report.events, damage=[*report.damage],
        notes=list(dict.fromkeys(report.notes)),
    )  # fmt: skip
    common.answer(result, write_verified, as_json=as_json, color=color)
    return 1 if result.damage else 0


@app.command("vacuum")
def vacuum(store: flags.Url, as_json: flags.AsJson = False) -> int:
    """Free unused space."""
    with use_store(store) as session_store:
        result = results.StoreVacuumed(store=session_store.url, freed_bytes=session_store.vacuum())
    return common.answer(
        result, lambda it, console: console.print(line(f"{count_of(it.freed_bytes, 'byte')} freed in {it.store}")),
        as_json=as_json, color=None,
    )  # fmt: skip


_STYLES = {"created": "green", "extended": "cyan", "conflict": "red", "failed": "red"}
_DONE = {"delete": "deleted", "move": "moved", "bind": "bound"}


def write_list(result: results.StoreList, out: Console) -> None:
    """Write one line a session, and how many there are."""
    width = max((len(session.session_id) for session in result.sessions), default=0)
    for session in result.sessions:
        parts = [f", {what} {value}" for what, value in _owners(session).items() if value is not None]
        out.print(line((f"{session.session_id:<{width}}", "bold"), f"  {_size(session)}", *parts))
    events, size = (sum(getattr(session, name) for session in result.sessions) for name in ("events", "bytes"))
    sums = f"{count_of(len(result.sessions), 'session')}, {count_of(events, 'event')}, {count_of(size, 'byte')}"
    out.print(line(f"{sums} in {result.store}"))


def _size(session: results.SessionRow) -> str:
    turns = "" if session.turns is None else f"{count_of(session.turns, 'turn')}, "
    return f"{turns}{count_of(session.events, 'event')}, {count_of(session.bytes, 'byte')}"


def _owners(session: results.SessionRow) -> dict[str, str | None]:
    return {
        "user": session.user_id, "agent": session.agent_id, "project": session.project_id,
        "forked from": session.parent_session_id, "last used": session.used_at,
    }  # fmt: skip


def write_shown(result: results.StoreShown, out: Console) -> None:
    """Write the fields of a session, one a line."""
    session = result.session
    fields = {
        "session": session.session_id,
        "log": _size(session),
        "head": f"event {session.head.number}, digest {session.head.digest}",
        **_owners(session),
        "forks": ", ".join(result.forks) or None,
        "leaf": session.leaf_id,
        "created": session.created_at,
        "updated": session.updated_at,
        "deltas": f"{result.prompt_deltas:,}" if result.prompt_deltas else None,
        "metadata": count_of(len(bytes(result.metadata)), "byte") if bytes(result.metadata) != b"{}" else None,
    }
    for what, value in fields.items():
        if value is not None:
            out.print(line((f"{what:<12}", "bold"), value))


def write_imported(result: results.StoreImported, out: Console) -> None:
    """Write one line an input, and the sums."""
    for session in result.sessions:
        outcome = count_of(session.events or 0, "event")
        if session.message is not None:
            outcome = session.message
        elif session.state == "extended":
            outcome = f"{count_of(session.new_events or 0, 'new event')} of {session.events:,}"
        state = (f"{session.state:<9}", _STYLES.get(session.state, ""))
        out.print(line(state, f" {session.session_id or '-'}: {outcome}  {session.path}"))
    new_count = sum(session.new_events or 0 for session in result.sessions)
    sums = f"{count_of(len(result.sessions), 'session')}, {count_of(new_count, 'new event')} in {result.store}"
    counts = (
        (result.joined, "subagent file", "read with their sessions"),
        (result.requests, "file", "of prompts passed over"),
        (result.skipped, "file", "skipped: not recordings"),
    )
    out.print(line(sums, *(f", {count_of(number, what)} {action}" for number, what, action in counts if number)))
    write_problems(result.problems, out)


def write_written(result: results.StoreWritten, out: Console) -> None:
    """Write the sessions that were deleted, moved or bound."""
    verb = "would delete" if result.dry_run else _DONE[result.op]
    target = f" to project {result.project_id}" if result.project_id is not None else ""
    client = f" client {result.client_key} to" if result.client_key is not None else ""
    for session_id in result.session_ids:
        out.print(line((f"{verb}{client} ", "bold"), f"{session_id}{target}"))


def write_verified(result: results.StoreVerified, out: Console) -> None:
    """Write what is damaged, and what can be recovered of it."""
    for damage in result.damage:
        number = "" if damage.number is None else f", event {damage.number}"
        who = "the store" if damage.session_id is None else f"session {damage.session_id}{number}"
        out.print(line(("damaged ", "bold red"), f"{who}: {damage.message} ({damage.place})"))
        out.print(line(f"        can be recovered: {damage.recoverable}"))
        for command in damage.commands:
            out.print(line(f"          {command}"))
    for note in result.notes:
        out.print(line((f"note: {note}", "yellow")))
    sums = f"{count_of(result.sessions, 'session')}, {count_of(result.events, 'event')}"
    verdict = f"{count_of(len(result.damage), 'damaged place')}" if result.damage else "nothing is damaged"
    out.print(line(f"{sums} checked in {result.store}: {verdict}"))
