"""Options and arguments of several commands, and the recordings that they choose.

Typer reads them from annotations. Recordings are the paths that are given, else what is found where agents keep logs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import partial
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, get_type_hints

import typer
from msgspec import Struct

from lore.commands.common import surroundings, tell

if TYPE_CHECKING:
    from lore.recording.inputs import Input

T = TypeVar("T")


def takes(options: type[T]) -> Callable[[Callable[[T], int]], Callable[..., int]]:
    """Make a command of a function: its one argument is a dataclass, whose fields are the command's options.

    @takes(CheckOptions)
    def run(options: CheckOptions) -> int: ...
    """
    hints = get_type_hints(options, include_extras=True)
    given = [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            annotation=hints[field.name],
            default=Parameter.empty if field.default is MISSING else field.default,
        )  # fmt: skip
        for field in fields(options)  # pyright: ignore[reportArgumentType] - a dataclass
    ]

    def decorate(command: Callable[[T], int]) -> Callable[..., int]:
        def run(**values: Any) -> int:
            return command(options(**values))

        run.__doc__, run.__module__, run.__name__ = command.__doc__, command.__module__, command.__name__
        run.__annotations__ = {**hints, "return": "int"}
        run.__signature__ = Signature(given)  # read by typer
        return run

    return decorate


Format: TypeAlias = Annotated[
    str | None,
    typer.Option("--format", help="Read the input as this format, whatever it looks like; an unknown word lists all."),
]
Dialect: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--dialect", help="Request shape: bedrock, anthropic, openai-chat, openai-responses, gemini, template."
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
Colour: TypeAlias = Annotated[
    bool | None, typer.Option("--color/--no-color", help="Colour; default: NO_COLOR, FORCE_COLOR, a terminal.")
]
Verbose: TypeAlias = Annotated[
    bool, typer.Option("-v", "--verbose", help="Report files read, files skipped, and decisions.")
]
Config: TypeAlias = Annotated[
    str | None, typer.Option("--config", help="Settings: a lore.toml, or a pyproject.toml with [tool.lore].")
]
Redact: TypeAlias = Annotated[
    bool, typer.Option("--redact", help="Replace content with hashes and lengths; paths stay.")
]
For: TypeAlias = Annotated[
    str | None,
    typer.Option("--for", help="Audience for fixes: author (writes the agent) or user (runs it); default: by format."),
]
Select: TypeAlias = Annotated[
    list[str] | None, typer.Option("--select", help="Report only these codes, prefixes of codes (LORE1) or names.")
]
Ignore: TypeAlias = Annotated[list[str] | None, typer.Option("--ignore", help="Leave these out; see --select.")]
PassOver: TypeAlias = Annotated[
    bool, typer.Option("--pass-over", help="Skip files that are not recordings, also those that are named.")
]
Reports: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--report",
        help="KIND or KIND=FILE, also several: terminal, json, jsonl, markdown, junit, sarif, github; html=FILE.html"
        " (one page) or html=FOLDER (an index, and a page for each session); parquet=FOLDER (tables).",
    ),
]
Page: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--report", help="html=FILE.html writes a page for a browser, html=FOLDER an index and a page for each session."
    ),
]
Open: TypeAlias = Annotated[
    bool,
    typer.Option("--open", help="Open the page in a browser; without --report html=… it lies in your cache folder."),
]
Last: TypeAlias = Annotated[
    bool,
    typer.Option("--last", help="Take the newest session alone, with its subagents; without a path, of this project."),
]
Since: TypeAlias = Annotated[
    str | None, typer.Option("--since", help="Take files written since then: 30m, 2h, 1d, 1w, or a date.")
]
NoCache: TypeAlias = Annotated[bool, typer.Option("--no-cache", help="Read every recording again, and keep nothing.")]
System: TypeAlias = Annotated[
    str | None,
    typer.Option("--system", help="The system prompt of a session that records none: text, or JSON."),
]
Tools: TypeAlias = Annotated[
    str | None, typer.Option("--tools", help="The tools of a session that records none: a JSON array.")
]
Tail: TypeAlias = Annotated[
    str | None, typer.Option("--tail", help="Where volatile context goes: system, user, persist.")
]
TemplateFile: TypeAlias = Annotated[
    str | None, typer.Option("--template", help="A Jinja chat template: write the text that it renders.")
]
Output: TypeAlias = Annotated[
    str | None, typer.Option("--output", "-o", help="Write this file, whole or not at all; default: stdout.")
]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")]
Url: TypeAlias = Annotated[
    str,
    typer.Option(
        "--store",
        help="jsonl:DIR, sqlite:FILE, postgresql://HOST/DATABASE, memory:, or a plug-in's.",
    ),
]
SessionId: TypeAlias = Annotated[str, typer.Argument(metavar="SESSION_ID", help="The id of a stored session.")]


class Chosen(Struct, frozen=True):
    """What to judge: paths, which of their files, and where recordings were looked for (empty: they were named)."""

    paths: list[str]
    wanted: Callable[[Input], bool] | None = None
    looked: tuple[str, ...] = ()


def chosen_inputs(
    paths: list[str], *, last: bool = False, since: str | None = None, format: str | None = None
) -> Chosen:
    """Return which files to judge; if none is named, look for them and say where."""
    if paths and not last and since is None:
        return Chosen(paths)
    from lore.recording.agents.sessions import newest, newest_of_project
    from lore.run import recent

    after = None if since is None else recent.since(since, time.time())
    wanted = None if after is None else partial(recent.is_as_new, since=after)
    looked: tuple[str, ...] = ()
    if last and not paths:
        session = newest_of_project(surroundings(), format)
        if session is None:
            raise recent.no_session_of_project(surroundings())
        tell(f"the newest session of this project is {recent.shown_places([session])}")
        return Chosen([session], wanted, (session,))
    if not paths:
        found = recent.whereabouts(surroundings())
        paths, looked = [*found.paths] or [os.curdir], found.looked
        tell(f"no path is given: judging {recent.shown_places(paths)}")
    if last:
        paths = [newest(paths, format)]
        tell(f"the newest session is {recent.shown_places(paths)}")
    return Chosen(paths, wanted, looked)
