"""`lore convert`: a session as lore's own log; recorded requests as lines of bodies."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from lore.commands import flags
from lore.commands.common import completion, destination, log, refuse, say_problems, takes, tell
from lore.recording.base import Problems
from lore.recording.corpus import parse_name
from lore.recording.opening import Options
from lore.run.converting import convert

if TYPE_CHECKING:
    from lore.commands.convert.gateway import DeltaReplay

FORMATS = ("lore", "bodies")


class ConvertOptions(Struct, frozen=True):
    """The options of `lore convert`."""

    session: Annotated[str, typer.Argument(help="A session log, a stored session (URL#ID), recorded requests, or `-`.")]
    to: Annotated[
        str | None, typer.Option("--to", help="What to write: lore (a session's log), bodies (requests, one a line).")
    ] = None
    deltas: Annotated[
        str | None,
        typer.Option(
            "--deltas",
            metavar="ROWS",
            help="Rows of a gateway's session_prompt_deltas to replay in the requests: JSON, JSON Lines, or the "
            "SQLite file; ROWS#SESSION: those of one session.",
        ),
    ] = None
    save_deltas: Annotated[
        str | None,
        typer.Option(
            "--save-deltas", metavar="FILE", help="Write the rows, with the new places of those that had to move."
        ),
    ] = None
    output: flags.Output = None
    force: flags.Force = False
    system: flags.System = None
    tools: flags.Tools = None
    format: flags.Format = None
    verbose: flags.Verbose = False


@takes(ConvertOptions)
def run(options: ConvertOptions) -> int:
    """Write a session as lore's own log, or requests as bodies.

    Subagents in separate files become chains of the one log; recorded requests become the session that they make, with
    messages, tools and usage in order. Content is written as it was recorded: credentials are not masked. With
    --deltas, requests that a gateway received are written as it sent them on, with each row at its place, byte for
    byte.
    """
    from lore.commands.convert.gateway import DeltaReplay, convert_requests, read_rows

    to = options.to or ("lore" if options.deltas is None else "bodies")
    replays = options.deltas is not None or options.save_deltas is not None
    refuse(
        (to not in FORMATS, f"lore does not write {to!r}", "formats: " + ", ".join(FORMATS)),
        (to == "lore" and replays, "--deltas are replayed in recorded requests",
         "leave --to out, or give --to bodies"),
        (replays and options.deltas is None, "--save-deltas writes the rows of --deltas", "give --deltas ROWS"),
    )  # fmt: skip
    name, problems = parse_name(options.session), Problems()
    completed = completion(options.system, options.tools)
    opening = Options(format=options.format, completion=completed, log=log(options.verbose))
    replay = DeltaReplay(read_rows(options.deltas, problems) if options.deltas is not None else [])
    convert_all = convert if to == "lore" else partial(convert_requests, replay=replay)
    made = convert_all(name, opening, problems)
    inputs = (*made.inputs, *(() if options.deltas is None else (options.deltas, options.deltas.rpartition("#")[0])))
    with destination(options.output, force=options.force, inputs=inputs) as file:
        file.writelines(made.lines)
    _report_unused(replay)
    if options.save_deltas is not None:
        with destination(options.save_deltas, force=options.force, inputs=inputs) as file:
            file.writelines(row.line() for row in replay.rows)
    say_problems(problems)
    return 0


def _report_unused(replay: DeltaReplay) -> None:
    """Report the rows of a gateway that are in no request."""
    for row in replay.unused():
        tell(
            f"note: row {row.seq} of session {row.session!r} is in no request: none of its conversation, except "
            f"utility calls (titles, probes), has more than {row.place} messages"
        )
