"""`lore help`: the help of a command, as its `--help` prints it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lore.cli.common import quiet_pipe


def _commands(beginning: str) -> list[str]:
    from lore.cli.commands import COMMANDS

    return [name for name in COMMANDS if name.startswith(beginning)]


@quiet_pipe
def run(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND]...", help="A command, or several words of one.", autocompletion=_commands),
    ] = None,
) -> int:
    """Show the help of a command, as its --help does; without one, of lore."""
    from lore.cli.tree import Branch, unknown

    found: Any = context.find_root()
    for word in words or ():
        group = found.command
        made = group.get_command(found, word) if isinstance(group, Branch) else None
        if made is None:
            unknown(found.command_path, word, group.list_commands(found) if isinstance(group, Branch) else ())
        found = context.__class__(made, parent=found, info_name=word)
    typer.echo(found.get_help(), color=found.color)
    return 0
