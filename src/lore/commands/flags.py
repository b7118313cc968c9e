"""Options and arguments of several commands: their names, if they differ from the parameter's, and their help."""

from __future__ import annotations

from typing import Annotated, TypeAlias

Format: TypeAlias = Annotated[
    str | None, "Read the input as this format, whatever it looks like; an unknown word lists all."
]
Dialect: TypeAlias = Annotated[
    str | None, "Request shape: bedrock, anthropic, openai-chat, openai-responses, gemini, template."
]
Paths: TypeAlias = Annotated[
    list[str] | None,
    "PATH...",
    "Sessions, captures, folders, patterns ('logs/**/*.jsonl'), or `-`; default: this project's logs or all.",
]
AsJson: TypeAlias = Annotated[bool, "--json", "Answer in JSON."]
Colour: TypeAlias = Annotated[bool | None, "--color/--no-color", "Colour; default: NO_COLOR, FORCE_COLOR, a terminal."]
Verbose: TypeAlias = Annotated[
    bool, "-v", "--verbose", "Show more, and report files read, files skipped and decisions."
]
Quiet: TypeAlias = Annotated[bool, "-q", "--quiet", "Print findings only."]
Config: TypeAlias = Annotated[str | None, "Settings: a lore.toml, or a pyproject.toml with [tool.lore]."]
Redact: TypeAlias = Annotated[bool, "Replace content with hashes and lengths; paths stay."]
For: TypeAlias = Annotated[
    str | None, "--for", "Show the fixes for author (who writes the agent) or user (who runs it); default: by format."
]
Select: TypeAlias = Annotated[list[str] | None, "Report only these codes, prefixes of codes (LORE1) or names."]
Ignore: TypeAlias = Annotated[list[str] | None, "Leave these out; see --select."]
PassOver: TypeAlias = Annotated[bool, "Skip files that are not recordings, also those that are named."]
Reports: TypeAlias = Annotated[
    list[str] | None,
    "KIND or KIND=FILE, also several: terminal, json, jsonl, markdown, junit, sarif, github; html=FILE.html"
    " (one page) or html=FOLDER (an index, and a page for each session).",
]
Page: TypeAlias = Annotated[
    list[str] | None, "html=FILE.html writes a page for a browser, html=FOLDER an index and a page for each session."
]
Open: TypeAlias = Annotated[
    bool, "--open", "Open the page in a browser; if you name no file, it is in your cache folder."
]
Last: TypeAlias = Annotated[bool, "Take the newest session alone, with its subagents; without a path, of this project."]
Since: TypeAlias = Annotated[str | None, "Recordings with a request since then: 30m, 2h, 1d, 1w, or a date."]
Until: TypeAlias = Annotated[str | None, "Recordings that began before then; a date: until its end."]
Agent: TypeAlias = Annotated[str | None, "Sessions of this agent alone; an unknown word lists them."]
Project: TypeAlias = Annotated[str | None, "Sessions of this project alone: its folder, or the end of its path."]
NoCache: TypeAlias = Annotated[bool, "Read every recording again, and keep nothing."]
System: TypeAlias = Annotated[str | None, "The system prompt of a session that records none: text, or JSON."]
Tools: TypeAlias = Annotated[str | None, "The tools of a session that records none: a JSON array."]
Tail: TypeAlias = Annotated[str | None, "Where volatile context goes: system, user, persist."]
TemplateFile: TypeAlias = Annotated[str | None, "A Jinja chat template: write the text that it renders."]
Output: TypeAlias = Annotated[str | None, "--output", "-o", "Write to this file instead of standard output."]
Force: TypeAlias = Annotated[bool, "Overwrite the file if it exists."]
Url: TypeAlias = Annotated[str, "jsonl:DIR, sqlite:FILE, postgresql://HOST/DATABASE, memory:, or a plug-in's."]
SessionId: TypeAlias = Annotated[str, "SESSION_ID", "The id of a stored session."]
