"""`lore assemble`: the request body of a turn."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lore.cli.common import (
    Config,
    Dialect,
    Format,
    System,
    Tail,
    Tools,
    Verbose,
    completion,
    log,
    quiet_pipe,
    say_problems,
    settings,
    tail_policy,
)


@quiet_pipe
def run(
    session: Annotated[str, typer.Argument(help="A session log, or `-`; PATH#N names a turn.")],
    turn: Annotated[int | None, typer.Option("--turn", help="Which turn of the main chain; default: the last.")] = None,
    dialect: Dialect = None,
    tail: Tail = None,
    system: System = None,
    tools: Tools = None,
    format: Format = None,
    config: Config = None,
    verbose: Verbose = False,
) -> int:
    """Write the request body of a turn (default: the last)."""
    from lore import corpus
    from lore.errors import LoreError
    from lore.report.plain import visible
    from lore.run.assembling import assemble
    from lore.run.options import Options

    say = log(verbose)
    policy = tail_policy(tail, settings(config).assemble.tail)
    name = corpus.parse_name(session)
    if turn is not None:
        if name.turn is not None and name.turn != turn:
            raise LoreError(f"the name says turn {name.turn}, --turn says {turn}", hint="say it once")
        name = name._replace(turn=turn)
    options = Options(format=format, dialect=dialect, policy=policy, completion=completion(system, tools), log=say)
    made = assemble(name, options)
    sys.stdout.buffer.write(made.body + b"\n")
    say_problems(made.problems)
    for note in made.notes:
        print(visible(f"note: {note}"), file=sys.stderr)
    say(f"{len(made.prompt)} segments, {len(made.body):,} bytes, dialect {made.prompt.dialect}, tail {policy}")
    return 0
