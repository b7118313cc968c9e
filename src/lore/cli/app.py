"""The commands, one thin file each, and what they share."""

from __future__ import annotations

import functools
from collections.abc import Callable

import typer
from typer.main import get_command

from lore.cli import (
    assemble,
    check,
    compact,
    convert,
    diff_prefix,
    explain,
    fold,
    knowledge,
    memory,
    schema,
    simulate,
    store,
)

app = typer.Typer(
    name="lore",
    help="Judge prompt caches offline, and assemble prompts whose prefix does not move.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("assemble")(assemble.run)
app.command("diff-prefix")(diff_prefix.run)
app.command("check")(check.run)
app.command("fold")(fold.run)
app.command("simulate")(simulate.run)
app.command("compact")(compact.run)
app.command("convert")(convert.run)
app.add_typer(knowledge.app, name="knowledge")
app.add_typer(store.app, name="store")
app.add_typer(memory.app, name="memory")
app.command("explain")(explain.run)
app.command("schema")(schema.run)


@app.callback()
def _main(
    version: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True),
) -> None:
    if version:
        from lore import __version__

        print(f"lore {__version__}")
        raise typer.Exit(0)


@functools.cache
def command() -> Callable[..., object]:
    """Return the tree of commands: 80 ms to build, so once a process; it holds nothing of an invocation."""
    return get_command(app)
