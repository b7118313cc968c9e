"""`lore guide`: the manual, a page a subject, laid out for a terminal, as Markdown anywhere else."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lore.cli.common import Colour, out, quiet_pipe


def _topics(beginning: str) -> list[str]:
    from lore.report.guide import topics

    return [topic for topic in topics() if topic.startswith(beginning)]


@quiet_pipe
def run(
    topic: Annotated[
        str | None, typer.Argument(help="A page, or a command; without one, the list of pages.", autocompletion=_topics)
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Markdown as it is written, also on a terminal.")] = False,
    color: Colour = None,
) -> int:
    """Read the manual: a page a subject.

    On a terminal a page is laid out for its width; in a pipe it is Markdown.
    """
    from lore.cli.commands import COMMANDS
    from lore.report.guide import page, write_page

    row = COMMANDS.get(topic or "")
    text = page(topic if row is None else row.page)
    if plain or not sys.stdout.isatty():
        sys.stdout.write(text)
    else:
        write_page(text, out(color))
    return 0
