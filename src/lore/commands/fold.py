"""`lore fold`: the timeline of a session."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from msgspec import Struct

from lore.commands import flags
from lore.commands.common import found_settings, log, out, refuse, takes, tell, unquoted, write_json
from lore.model.codes import Problem
from lore.recording.opening import Options
from lore.report.timeline import write, write_note, write_problems, write_row
from lore.run.folding import fold
from lore.run.following import Note, cursor_of, follow_events, follow_timeline


class FoldOptions(Struct, frozen=True):
    """The options of `lore fold`."""

    session: Annotated[str, typer.Argument(help="A session log, a stored session (URL#ID), or `-`.")]
    at: Annotated[int | None, typer.Option("--at", help="Stop where this turn's request goes out.")] = None
    pruned: Annotated[bool, typer.Option("--pruned", help="Show what compactions pruned instead.")] = False
    unpruned: Annotated[bool, typer.Option("--unpruned", help="Show everything, compactions as dividers only.")] = False
    follow: Annotated[bool, typer.Option("--follow", help="Show new items until interrupted.")] = False
    since: Annotated[
        str | None, typer.Option("--since", help="With --follow --json: only events after this cursor (EPOCH:N).")
    ] = None
    redact: flags.Redact = False
    as_json: flags.AsJson = False
    format: flags.Format = None
    config: flags.Config = None
    color: flags.Colour = None
    verbose: flags.Verbose = False


@takes(FoldOptions)
def run(options: FoldOptions) -> int:
    """Fold a session's events into its timeline.

    With --follow, a log that is being written is shown as it grows.
    """
    read = Options(
        format=options.format, rules=found_settings(options.config).settings.assemble, log=log(options.verbose)
    )
    view = options.at is not None or options.pruned or options.unpruned
    refuse(
        (options.pruned and options.unpruned, "--pruned and --unpruned are two different views", "choose one"),
        (options.since is not None and not (options.follow and options.as_json),
         "--since asks for events as they come", "use it with --follow --json"),
        (options.redact and options.follow, "--follow shows a log as it grows",
         "leave --redact out, or fold without --follow"),
        (options.follow and view, "--follow shows a log as it grows, from its beginning",
         "leave --at, --pruned and --unpruned out"),
    )  # fmt: skip
    if options.follow and options.as_json:
        return _follow_json(options.session, read, options.since)
    if options.follow:
        return _follow_text(options.session, read, options.color)
    with unquoted(redact=options.redact):
        folded = fold(options.session, read, at=options.at, unpruned=options.unpruned, only_pruned=options.pruned)
    result, shown = folded.result, folded.shown
    if options.redact:
        from lore.report.redacted import redacted_fold

        result, shown = redacted_fold(result, shown)
    if options.as_json:
        write_json(result)
    else:
        write(result, shown, out(options.color), title="pruned by compaction" if options.pruned else "")
    return 0


def _follow_text(session: str, options: Options, color: bool | None) -> int:
    console = out(color)
    for shown in follow_timeline(session, options, tell):
        match shown:
            case None:
                sys.stdout.flush()
            case Problem():
                write_problems([shown], console)
            case Note():
                write_note(shown.text, console)
            case _:
                write_row(shown, console)
    return 0


def _follow_json(session: str, options: Options, since: str | None) -> int:
    cursor = None if since is None else cursor_of(since)
    for event in follow_events(session, options, tell, since=cursor):
        if event is None:
            sys.stdout.flush()
        elif isinstance(event, Problem):
            tell(f"{event.code} {event.file}:{event.line} {event.message}")
        else:
            write_json(event)
    return 0
