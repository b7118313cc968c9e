"""`lore store list|show|delete|move|bind|resolve|verify|vacuum`."""

from __future__ import annotations

from typing import Annotated

import typer

from lore.cli.common import AsJson, Colour, quiet_pipe
from lore.cli.storing import Project, SessionId, Url, answer, opened


@quiet_pipe
def list_(
    store: Url,
    project: Project = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="List the sessions in which lore keeps memory, too.")
    ] = False,
    as_json: AsJson = False,
    color: Colour = None,
) -> int:
    """List the stored sessions by their ids."""
    from lore.report.stored import write_list
    from lore.run.storing.sessions import listed

    with opened(store) as one:
        answer(listed(one, project, memory=memory), write_list, as_json=as_json, color=color)
    return 0


@quiet_pipe
def show(session_id: SessionId, store: Url, as_json: AsJson = False, color: Colour = None) -> int:
    """Show what is stored of a session: its head, project, forks, deltas."""
    from lore.report.stored import write_shown
    from lore.run.storing.sessions import shown

    with opened(store) as one:
        answer(shown(one, session_id), write_shown, as_json=as_json, color=color)
    return 0


@quiet_pipe
def delete(
    session_ids: Annotated[list[str], typer.Argument(metavar="SESSION_ID...", help="The ids of stored sessions.")],
    store: Url,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be deleted, and delete nothing.")] = False,
    as_json: AsJson = False,
    color: Colour = None,
) -> int:
    """Delete sessions, with their prompt deltas, and the sessions forked from them.

    It is done at once; --dry-run says beforehand which sessions would go.
    """
    from lore.report.stored import write_written
    from lore.run.storing.sessions import deleted

    with opened(store) as one:
        answer(deleted(one, session_ids, dry_run=dry_run), write_written, as_json=as_json, color=color)
    return 0


@quiet_pipe
def move(
    session_id: SessionId,
    project_id: Annotated[str, typer.Argument(metavar="PROJECT", help="The project that it belongs to from now on.")],
    store: Url,
    as_json: AsJson = False,
    color: Colour = None,
) -> int:
    """Make a session, and its prompt deltas, another project's."""
    from lore.report.stored import write_written
    from lore.run.storing.sessions import moved

    with opened(store) as one:
        answer(moved(one, session_id, project_id), write_written, as_json=as_json, color=color)
    return 0


@quiet_pipe
def bind(
    client_key: Annotated[str, typer.Argument(metavar="CLIENT_KEY", help="What a client is known by.")],
    session_id: SessionId,
    store: Url,
    replace: Annotated[bool, typer.Option("--replace", help="Also where the client means another session.")] = False,
    as_json: AsJson = False,
    color: Colour = None,
) -> int:
    """Remember which session a client means."""
    from lore.report.stored import write_written
    from lore.run.storing.sessions import bound

    with opened(store) as one:
        answer(bound(one, client_key, session_id, replace=replace), write_written, as_json=as_json, color=color)
    return 0


@quiet_pipe
def resolve(
    client_key: Annotated[str, typer.Argument(metavar="CLIENT_KEY", help="What a client is known by.")],
    store: Url,
    as_json: AsJson = False,
) -> int:
    """Print the id of the session that a client means."""
    from lore.report.console import line
    from lore.run.storing.sessions import resolved

    with opened(store) as one:
        found = resolved(one, client_key)
    answer(found, lambda it, console: console.print(line(it.session_id)), as_json=as_json, color=None)
    return 0


@quiet_pipe
def verify(
    store: Url,
    session_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[SESSION_ID]...", help="The ids of stored sessions; default: all.")
    ] = None,
    as_json: AsJson = False,
    color: Colour = None,
) -> int:
    """Derive every digest anew: what is damaged, where, and what can be recovered.

    Exit 1 where damage is found. Nothing is changed.
    """
    from lore.report.stored import write_verified
    from lore.run.storing.sessions import verified

    with opened(store) as one:
        found = verified(one, session_ids or [])
    answer(found, write_verified, as_json=as_json, color=color)
    return 1 if found.damage else 0


@quiet_pipe
def vacuum(store: Url, as_json: AsJson = False) -> int:
    """Give back space that is not needed any more."""
    from lore.report.console import line
    from lore.report.terminal import counted
    from lore.run.storing.sessions import vacuumed

    with opened(store) as one:
        found = vacuumed(one)
    answer(
        found, lambda it, console: console.print(line(f"{counted(it.freed_bytes, 'byte')} freed in {it.store}")),
        as_json=as_json, color=None,
    )  # fmt: skip
    return 0
