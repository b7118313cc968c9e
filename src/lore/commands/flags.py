"""Options and arguments of several commands, as Typer reads them from annotations."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

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
Paths: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        help="Sessions, captures, folders, patterns ('logs/**/*.jsonl'), or `-`; default: this project's logs or all."
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
Colour: TypeAlias = Annotated[
    bool | None, typer.Option("--color/--no-color", help="Colour; default: NO_COLOR, FORCE_COLOR, a terminal.")
]
Verbose: TypeAlias = Annotated[
    bool, typer.Option("-v", "--verbose", help="Show more, and report files read, files skipped and decisions.")
]
Quiet: TypeAlias = Annotated[bool, typer.Option("-q", "--quiet", help="Print findings only.")]
Config: TypeAlias = Annotated[
    str | None, typer.Option("--config", help="Settings: a lore.toml, or a pyproject.toml with [tool.lore].")
]
Redact: TypeAlias = Annotated[
    bool, typer.Option("--redact", help="Replace content with hashes and lengths; paths stay.")
]
For: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--for", help="Show the fixes for author (who writes the agent) or user (who runs it); default: by format."
    ),
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
    bool, typer.Option("--open", help="Open the page in a browser; if you name no file, it is in your cache folder.")
]
Last: TypeAlias = Annotated[
    bool,
    typer.Option("--last", help="Take the newest session alone, with its subagents; without a path, of this project."),
]
Since: TypeAlias = Annotated[
    str | None, typer.Option("--since", help="Recordings with a request since then: 30m, 2h, 1d, 1w, or a date.")
]
Until: TypeAlias = Annotated[
    str | None, typer.Option("--until", help="Recordings that began before then; a date: until its end.")
]
Agent: TypeAlias = Annotated[
    str | None, typer.Option("--agent", help="Sessions of this agent alone; an unknown word lists them.")
]
Project: TypeAlias = Annotated[
    str | None, typer.Option("--project", help="Sessions of this project alone: its folder, or the end of its path.")
]
NoCache: TypeAlias = Annotated[bool, typer.Option("--no-cache", help="Read every recording again, and keep nothing.")]
System: TypeAlias = Annotated[
    str | None, typer.Option("--system", help="The system prompt of a session that records none: text, or JSON.")
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
    str | None, typer.Option("--output", "-o", help="Write to this file instead of standard output.")
]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")]
Url: TypeAlias = Annotated[
    str, typer.Option("--store", help="jsonl:DIR, sqlite:FILE, postgresql://HOST/DATABASE, memory:, or a plug-in's.")
]
SessionId: TypeAlias = Annotated[str, typer.Argument(metavar="SESSION_ID", help="The id of a stored session.")]
