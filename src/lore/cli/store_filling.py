"""`lore store import|export|append`: sessions into a store, and out of it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lore.cli.common import (
    AsJson,
    Colour,
    Force,
    Format,
    Output,
    System,
    Tools,
    Verbose,
    completion,
    log,
    quiet_pipe,
    tell,
)
from lore.cli.progress import progress
from lore.cli.storing import SessionId, Url, answer, opened


@quiet_pipe
def import_(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Sessions, folders, patterns, stores or URL#SESSION_ID; `-`.")
    ],
    store: Url,
    session_id: Annotated[
        str | None,
        typer.Option("--id", help="Store the session under this id; default: its own, else its file's name."),
    ] = None,
    project: Annotated[str | None, typer.Option("--project", help="Make the sessions this project's.")] = None,
    system: System = None,
    tools: Tools = None,
    as_json: AsJson = False,
    format: Format = None,
    color: Colour = None,
    verbose: Verbose = False,
) -> int:
    """Store sessions, or what is new of them.

    lore's own logs are stored to the byte, others are converted. What was interrupted is gone on with by the same
    command. A session that is stored with other content is a conflict: exit 3 where it is one of several inputs.
    """
    from lore.recording.opening import Options
    from lore.report.stored import write_imported
    from lore.run.storing.importing import ImportRequest, import_sessions

    options = Options(format=format, completion=completion(system, tools, strict=False), log=log(verbose))
    with opened(store, new=True) as one, progress(wanted=not verbose, colour=color, what="importing") as told:
        result = import_sessions(one, ImportRequest(paths, session_id, project), options, progress=told)
    answer(result, write_imported, as_json=as_json, color=color)
    return 3 if any(one.message is not None for one in result.sessions) else 0


@quiet_pipe
def export(
    session_id: SessionId,
    store: Url,
    output: Output = None,
    force: Force = False,
    salvage: Annotated[
        bool, typer.Option("--salvage", help="Of a damaged session: only the events that are surely as written.")
    ] = False,
) -> int:
    """Write a stored session's log, one event a line.

    Content is written as it was stored: credentials are not masked.
    """
    from lore.recording import corpus
    from lore.run.storing.sessions import exported, left
    from lore.run.writing import written

    with opened(store) as one:
        lines = left(one, session_id, tell) if salvage else exported(one, session_id)
    if output in (None, corpus.STDIN):
        for line in lines:
            sys.stdout.buffer.write(line)
    else:
        with written(output, force=force, inputs=(store,)) as file:
            file.writelines(lines)
    return 0


@quiet_pipe
def append(session_id: SessionId, store: Url) -> int:
    """Append events from standard input, one JSON object a line, each saved by itself.

    Each is answered by one line, {"session_id": …, "id": N}, when it is durable: N is the event's number. The first
    session_started begins the session. A line may carry the number that it expects, as `id` (an integer), a
    `knowledge` event as `number`, since its `id` is its entry's name: where that event is stored already it is
    acknowledged again, so that a writer that was killed sends again what was not answered; where another event is
    stored under it, that is a conflict (exit 2), as is a number further on than the next. The number is not stored.
    A line without a number goes to the end.
    """
    from lore.recording import corpus
    from lore.report.json_report import render
    from lore.run.storing.appending import append_lines

    with opened(store, new=True) as one:
        for said in append_lines(one, session_id, corpus.pieces(corpus.STDIN), tell):
            sys.stdout.write(render(said) + "\n")
            sys.stdout.flush()
    return 0
