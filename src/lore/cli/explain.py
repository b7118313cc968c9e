"""`lore explain`: what a finding code means and how to fix it."""

from __future__ import annotations

import sys
from importlib import resources
from typing import Annotated

import typer

from lore.cli.common import quiet_pipe


@quiet_pipe
def run(
    code: Annotated[str | None, typer.Argument(help="A code (LORE101) or a name; without one, all of them.")] = None,
) -> int:
    """Explain a finding code; without one, list them."""
    from lore.errors import LoreError
    from lore.model.codes import CODES, NOT_SHOWN

    if code is None:
        for known, row in CODES.items():
            sys.stdout.write(f"{known}  {row.kind:<14}  {row.name}\n")
        return 0
    names = {known: row.name for known, row in CODES.items()} | NOT_SHOWN
    wanted = code.upper()
    found = wanted if wanted in names else next((known for known, name in names.items() if name == code.lower()), None)
    if found is None:
        raise LoreError(f"no finding has the code {code!r}", hint="lore explain lists them")
    page = resources.files("lore.judge").joinpath("pages", f"{found}.md").read_text("utf-8")
    sys.stdout.write(page)
    return 0
