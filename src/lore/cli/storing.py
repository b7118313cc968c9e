"""What the commands of `lore store` share: their options, an open store, answers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer
from msgspec import Struct

from lore.cli.common import out, tell

if TYPE_CHECKING:
    from rich.console import Console

    from lore.store.base import Store

Url: TypeAlias = Annotated[
    str, typer.Option("--store", help="jsonl:DIR, sqlite:FILE, postgresql://HOST/DATABASE, memory:, or a plug-in's.")
]
SessionId: TypeAlias = Annotated[str, typer.Argument(metavar="SESSION_ID", help="The id of a stored session.")]
Project: TypeAlias = Annotated[str | None, typer.Option("--project", help="The sessions of this project alone.")]

T = TypeVar("T", bound=Struct)


@contextmanager
def opened(url: str, *, new: bool = False) -> Generator[Store]:
    """Open the store for one command; what it tells goes to standard error. Only a `new` one need not be there."""
    from lore.run.storing.sessions import opened as open_

    def say(text: str) -> None:
        tell(text if text.startswith("note: ") else f"note: {text}")

    with open_(url, say, new=new) as store:
        yield store


def answer(result: T, write: Callable[[T, Console], None], *, as_json: bool, color: bool | None) -> None:
    """Write a result as JSON, or for a person."""
    if as_json:
        from lore.report.json_report import render

        sys.stdout.write(render(result) + "\n")
    else:
        write(result, out(color))
