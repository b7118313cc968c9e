"""`lore convert`: a session as lore's own log."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lore.cli.common import Force, Format, Output, System, Tools, Verbose, completion, log, quiet_pipe, say_problems

FORMATS = ("lore",)


@quiet_pipe
def run(
    session: Annotated[str, typer.Argument(help="A session log, a stored session (URL#ID), or `-`.")],
    to: Annotated[str, typer.Option("--to", help="The format to write: lore.")] = "lore",
    output: Output = None,
    force: Force = False,
    system: System = None,
    tools: Tools = None,
    format: Format = None,
    verbose: Verbose = False,
) -> int:
    """Write a session as lore's own log.

    Subagents that lie in files of their own become chains of the one log. Content is written as it was
    recorded: credentials are not masked.
    """
    from lore.errors import LoreError
    from lore.recording import corpus
    from lore.recording.base import Problems
    from lore.recording.converting import convert
    from lore.recording.opening import Options
    from lore.recording.writing import written

    if to not in FORMATS:
        raise LoreError(f"lore does not write {to!r}", hint="formats: " + ", ".join(FORMATS))
    problems = Problems()
    options = Options(format=format, completion=completion(system, tools), log=log(verbose))
    made = convert(corpus.parse_name(session), options, problems)
    if output in (None, corpus.STDIN):
        for line in made.lines:
            sys.stdout.buffer.write(line)
    else:
        with written(output, force=force, inputs=made.inputs) as file:
            file.writelines(made.lines)
    say_problems(problems)
    return 0
