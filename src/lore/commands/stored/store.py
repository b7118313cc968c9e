"""`lore store …`: keep sessions in a store, and look at what it holds; the options and answers of its commands."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from lore.commands import common, flags

if TYPE_CHECKING:
    from lore.store.base import Store

app = common.branch(
    "Keep sessions in a store, saved by delta.\n\nWhoever may read its files or tables reads all of them."
)
ClientKey: TypeAlias = Annotated[str, typer.Argument(metavar="CLIENT_KEY", help="What a client is known by.")]
Project: TypeAlias = Annotated[str | None, typer.Option("--project", help="The sessions of this project alone.")]


@contextmanager
def opened(url: str, *, new: bool = False) -> Generator[Store]:
    """Open the store for one command, and close it; only a `new` one need not be there. Raises StoreError.

    What it tells goes to standard error.
    """
    from lore.store.base import StoreError
    from lore.store.registry import address_of, mask_url, may_exist, open_existing, open_store, scheme_of

    named = address_of(url)
    if named is not None and not os.path.lexists(url.partition(":")[2]) and may_exist(named.url):
        hint = f"--store {mask_url(named.url)}, and the session's id apart"
        raise StoreError(f"{mask_url(url)} names a session, not a store", hint=hint)

    def say(text: str) -> None:
        common.tell(text if text.startswith("note: ") else f"note: {text}")

    with closing(open_store(url, say) if new else open_existing(url, say)) as store:
        if scheme_of(url) == "memory":
            common.tell("note: `memory:` is gone when this command ends")
        yield store


@app.command("import")
@common.quiet_pipe
def import_(
    store: flags.Url,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH...",
            help="Sessions, captures, folders, patterns, stores, URL#SESSION_ID, `-`; default: where agents keep logs.",
        ),
    ] = None,
    session_id: Annotated[
        str | None,
        typer.Option("--id", help="Store the session under this id; default: its own, else its file's name."),
    ] = None,
    project: Annotated[str | None, typer.Option("--project", help="Make the sessions this project's.")] = None,
    system: flags.System = None,
    tools: flags.Tools = None,
    as_json: flags.AsJson = False,
    format: flags.Format = None,
    color: flags.Colour = None,
    verbose: flags.Verbose = False,
) -> int:
    """Store sessions, or what is new of them.

    lore's own logs are stored to the byte, others are converted, recorded requests as the session that they make. What
    was interrupted, and what has grown, is gone on with by the same command. A session that is stored with other
    content is a conflict: exit 3 where it is one of several inputs.
    """
    from lore.errors import LoreError
    from lore.recording.corpus import is_same
    from lore.recording.opening import Options
    from lore.report.stored import write_imported
    from lore.run.recent import kept_by_agents
    from lore.run.stored.importing import ImportRequest, import_sessions

    options = Options(format=format, completion=common.completion(system, tools, strict=False), log=common.log(verbose))
    here, sources = common.surroundings(), list(paths or [])
    if not sources or any(here.home and is_same(path, here.home) for path in sources):
        sources = [*kept_by_agents(here), *sources]
    if not sources:
        raise LoreError("no agent that lore reads keeps logs here", hint="name what is to be imported")
    with opened(store, new=True) as kept, common.progress(wanted=not verbose, colour=color, what="importing") as show:
        result = import_sessions(kept, ImportRequest(sources, session_id, project), options, progress=show)
    common.answer(result, write_imported, as_json=as_json, color=color)
    return 3 if any(session.message is not None for session in result.sessions) else 0


@app.command("export")
@common.quiet_pipe
def export(
    session_id: flags.SessionId,
    store: flags.Url,
    output: flags.Output = None,
    force: flags.Force = False,
) -> int:
    """Write a stored session's log, one event a line.

    Content is written as it was stored: credentials are not masked.
    """
    from lore.run.stored.sessions import exported

    with opened(store) as kept:
        lines = exported(kept, session_id)
    with common.destination(output, force=force, inputs=(store,)) as file:
        file.writelines(lines)
    return 0


@app.command("append")
@common.quiet_pipe
def append(session_id: flags.SessionId, store: flags.Url) -> int:
    """Append events from standard input, a line each.

    Each, a JSON object, is answered by one line, {"session_id": …, "id": N}, when it is durable: N is the event's
    number. The first session_started begins the session. A line may carry the number that it expects, as `id` (an
    integer), a `knowledge` event as `number`, since its `id` is its entry's name: where that event is stored
    already it is acknowledged again, so that a writer that was killed sends again what was not answered; where
    another event is stored under it, that is a conflict (exit 2), as is a number further on than the next. The
    number is not stored. A line without a number goes to the end.
    """
    from lore.recording import corpus
    from lore.run.stored.sessions import append_lines

    with opened(store, new=True) as kept:
        for appended in append_lines(kept, session_id, corpus.pieces(corpus.STDIN), common.tell):
            common.write_json(appended)
            sys.stdout.flush()
    return 0


@app.command("list")
@common.quiet_pipe
def list_(
    store: flags.Url,
    project: Project = None,
    user: Annotated[
        str | None,
        typer.Option("--user", help="The sessions of this user alone; `default`: also those that name none."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="The sessions of this agent alone; `main`: also those that name none.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Sessions used since then: 30m, 2h, 1d, 1w, or a date.")
    ] = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="List the sessions in which lore keeps memory, too.")
    ] = False,
    as_json: flags.AsJson = False,
    color: flags.Colour = None,
) -> int:
    """List the sessions: size, whose, when last used.

    The last use is the last time that an event carries, where none does that of the last save.
    """
    from lore.report.stored import write_list
    from lore.run import recent
    from lore.run.stored.sessions import SessionFilter, listed

    after = None if since is None else recent.since(since, time.time())
    with opened(store) as kept:
        found = listed(kept, SessionFilter(project, user, agent, after, memory), common.tell)
        return common.answer(found, write_list, as_json=as_json, color=color)


@app.command("show")
@common.quiet_pipe
def show(
    session_id: flags.SessionId, store: flags.Url, as_json: flags.AsJson = False, color: flags.Colour = None
) -> int:
    """Show a session: its head, project, forks, deltas."""
    from lore.report.stored import write_shown
    from lore.run.stored.sessions import shown

    with opened(store) as kept:
        return common.answer(shown(kept, session_id), write_shown, as_json=as_json, color=color)


@app.command("delete")
@common.quiet_pipe
def delete(
    session_ids: Annotated[list[str], typer.Argument(metavar="SESSION_ID...", help="The ids of stored sessions.")],
    store: flags.Url,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be deleted, and delete nothing.")] = False,
    as_json: flags.AsJson = False,
    color: flags.Colour = None,
) -> int:
    """Delete sessions, with deltas and what was forked.

    It is done at once; --dry-run says beforehand which sessions would go.
    """
    from lore.report.stored import write_written
    from lore.run.stored.sessions import deleted

    with opened(store) as kept:
        return common.answer(deleted(kept, session_ids, dry_run=dry_run), write_written, as_json=as_json, color=color)


@app.command("move")
@common.quiet_pipe
def move(
    session_ids: Annotated[list[str], typer.Argument(metavar="SESSION_ID...", help="The ids of stored sessions.")],
    project_id: Annotated[str, typer.Argument(metavar="PROJECT", help="The project that they belong to from now on.")],
    store: flags.Url,
    as_json: flags.AsJson = False,
    color: flags.Colour = None,
) -> int:
    """Make sessions, and their prompt deltas, another project's.

    Nothing is moved where one of them is unknown.
    """
    from lore.report.stored import write_written
    from lore.run.stored.sessions import moved

    with opened(store) as kept:
        return common.answer(moved(kept, session_ids, project_id), write_written, as_json=as_json, color=color)


@app.command("bind")
@common.quiet_pipe
def bind(
    client_key: ClientKey,
    session_id: flags.SessionId,
    store: flags.Url,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite an existing binding.")] = False,
    as_json: flags.AsJson = False,
    color: flags.Colour = None,
) -> int:
    """Remember which session a client means."""
    from lore.model.results.store import StoreWritten
    from lore.report.stored import write_written

    with opened(store) as kept:
        kept.bind(client_key, session_id, replace=replace)
    result = StoreWritten(store=kept.url, op="bind", session_ids=[session_id], client_key=client_key)
    return common.answer(result, write_written, as_json=as_json, color=color)


@app.command("resolve")
@common.quiet_pipe
def resolve(
    client_key: ClientKey,
    store: flags.Url,
    as_json: flags.AsJson = False,
) -> int:
    """Print the id of the session that a client means."""
    from lore.report.console import line
    from lore.run.stored.sessions import resolved

    with opened(store) as kept:
        found = resolved(kept, client_key)
    return common.answer(found, lambda it, console: console.print(line(it.session_id)), as_json=as_json, color=None)


@app.command("verify")
@common.quiet_pipe
def verify(
    store: flags.Url,
    session_ids: Annotated[
        list[str] | None, typer.Argument(metavar="SESSION_ID", help="The ids of stored sessions; default: all.")
    ] = None,
    as_json: flags.AsJson = False,
    color: flags.Colour = None,
) -> int:
    """Derive digests anew: what is damaged, and where.

    Exit 1 where damage is found. Nothing is changed.
    """
    from lore.report.stored import write_verified
    from lore.run.stored.sessions import verified

    with opened(store) as kept:
        found = verified(kept, session_ids or [])
    common.answer(found, write_verified, as_json=as_json, color=color)
    return 1 if found.damage else 0


@app.command("vacuum")
@common.quiet_pipe
def vacuum(store: flags.Url, as_json: flags.AsJson = False) -> int:
    """Give back space that is not needed any more."""
    from lore.model.results.store import StoreVacuumed
    from lore.report.console import line
    from lore.report.plain import counted

    with opened(store) as kept:
        found = StoreVacuumed(store=kept.url, freed_bytes=kept.vacuum())
    common.answer(
        found, lambda it, console: console.print(line(f"{counted(it.freed_bytes, 'byte')} freed in {it.store}")),
        as_json=as_json, color=None,
    )  # fmt: skip
    return 0
