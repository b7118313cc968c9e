"""`lore guide`: the manual, a page a subject, laid out for a terminal, as Markdown anywhere else."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Annotated

import typer

from lore.cli import flags
from lore.cli.common import out, quiet_pipe


def _topics(beginning: str) -> list[str]:
    from lore.report.guide import topics

    return [topic for topic in topics() if topic.startswith(beginning)]


@quiet_pipe
def run(
    topic: Annotated[
        str | None, typer.Argument(help="A page, or a command; without one, the list of pages.", autocompletion=_topics)
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Markdown as it is written, also on a terminal.")] = False,
    pager: Annotated[
        bool, typer.Option("--pager/--no-pager", help="Show what is longer than the terminal in your pager ($PAGER).")
    ] = True,
    color: flags.Colour = None,
) -> int:
    """Read the manual: a page a subject.

    On a terminal a page is laid out for its width, and shown in your pager where it is longer than the terminal (not
    with --no-pager, nor where PAGER is empty or `cat`); in a pipe it is Markdown.
    """
    from lore.cli.commands import COMMANDS
    from lore.report.guide import page, write_page

    row = COMMANDS.get(topic or "")
    text = page(topic if row is None else row.page)
    terminal = sys.stdout.isatty()
    if terminal and not plain:
        console = out(color)
        with console.capture() as laid_out:
            write_page(text, console)
        text = laid_out.get()
    if pager and terminal and text.count("\n") >= shutil.get_terminal_size().lines:
        _paged(text)
    else:
        sys.stdout.write(text)
    return 0


def _paged(text: str) -> None:
    """Show text in the user's pager, if there is one; `less` passes colours on, and leaves the text where it was."""
    import pydoc

    command = (os.environ.get("MANPAGER") or os.environ.get("PAGER", "less")).split()
    if command in ([], ["cat"]) or shutil.which(command[0]) is None:
        sys.stdout.write(text)
        return
    os.environ.setdefault("LESS", "-FRX")
    pydoc.pager(text)
