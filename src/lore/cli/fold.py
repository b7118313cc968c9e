"""`lore fold`: the timeline of a session."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lore.cli.common import AsJson, Colour, Format, Verbose, log, out, quiet_pipe


@quiet_pipe
def run(
    session: Annotated[str, typer.Argument(help="A session log, or `-`.")],
    at: Annotated[int | None, typer.Option("--at", help="Stop where this turn's request goes out.")] = None,
    pruned: Annotated[bool, typer.Option("--pruned", help="Show what compactions pruned instead.")] = False,
    unpruned: Annotated[
        bool, typer.Option("--unpruned", help="Show everything, compactions as dividers only.")
    ] = False,
    as_json: AsJson = False,
    format: Format = None,
    color: Colour = None,
    verbose: Verbose = False,
) -> int:
    """Fold a session's events into its timeline."""
    from lore.errors import LoreError
    from lore.run.folding import fold
    from lore.run.options import Options

    if pruned and unpruned:
        raise LoreError("--pruned and --unpruned are two different views", hint="choose one")
    folded = fold(session, Options(format=format, log=log(verbose)), at=at, unpruned=unpruned, only_pruned=pruned)
    if as_json:
        from lore.report.json_report import render

        sys.stdout.write(render(folded.result) + "\n")
        return 0
    from lore.report.timeline import write

    write(folded.result, folded.shown, out(color), title="pruned by compaction" if pruned else "")
    return 0
