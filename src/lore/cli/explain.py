"""`lore explain`: what a finding code means, who can act, and how to fix it."""

from __future__ import annotations

import sys
from importlib import resources
from typing import Annotated

import typer

from lore.cli import flags
from lore.cli.common import out, quiet_pipe

_PARTS = {"author": "### If you write the agent\n", "user": "### If you run it\n"}


def _codes(beginning: str) -> list[str]:
    from lore.model.codes import CODES

    known = [name for code, row in CODES.items() for name in (str(code), row.name)]
    return [name for name in known if name.startswith(beginning)]


@quiet_pipe
def run(
    code: Annotated[
        str | None,
        typer.Argument(help="A code (LORE101) or a name; without one, all of them.", autocompletion=_codes),
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option(
            "--for", help="Whom the page advises: author (writes the agent) or user (runs it); default: both."
        ),
    ] = None,
    color: flags.Colour = None,
) -> int:
    """Explain a finding code; without one, list them.

    The list has a code, its kind, who can act and its name on each line. On a terminal a page is laid out for its
    width, in a pipe it is Markdown.
    """
    from lore.errors import LoreError, did_you_mean
    from lore.model.codes import CODES

    if reader is not None and reader not in _PARTS:
        raise LoreError(f"unknown reader {reader!r}", hint=f"readers: {', '.join(_PARTS)}")
    if code is None and reader is not None:
        raise LoreError("--for chooses a part of one page", hint=f"lore explain CODE --for {reader}")
    if code is None:
        for known, row in CODES.items():
            sys.stdout.write(f"{known}  {row.kind:<14}  {row.actor:<8}  {row.name}\n")
        return 0
    names = {known: row.name for known, row in CODES.items()}
    wanted = code.upper()
    found = wanted if wanted in names else next((known for known, name in names.items() if name == code.lower()), None)
    if found is None:
        near = did_you_mean(code.lower(), names.values(), "")
        hint = near if near.startswith("did you mean") else "lore explain lists them"
        raise LoreError(f"no finding has the code {code!r}", hint=hint)
    page = resources.files("lore.judge").joinpath("pages", f"{found}.md").read_text("utf-8")
    text = page if reader is None else _page_for(reader, page)
    if sys.stdout.isatty():
        from lore.report.guide import write_page

        write_page(text, out(color))
    else:
        sys.stdout.write(text)
    return 0


def _page_for(reader: str, page: str) -> str:
    """Leave the advice for the other reader out."""
    head, _, parts = page.partition(_PARTS["author"])
    author, _, user = parts.partition(_PARTS["user"])
    return head + _PARTS[reader] + (user if reader == "user" else author.rstrip("\n") + "\n")
