"""The tools of `lore mcp`. Each answers with the text that a command of lore prints.

A call runs its command in a process of its own: an error does not end the server, only the protocol is written to
standard output, and cancelling a call ends its process.
"""

from __future__ import annotations

import sys
from subprocess import DEVNULL
from typing import Annotated, Literal

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from lore import __version__
from lore.commands import common
from lore.errors import LoreError

MOST_CHARACTERS = 40_000  # of an answer: about 10,000 tokens of the agent that reads it
_ANSWERED = (0, 1, 3)  # exit codes: fine; findings; not everything could be judged
_INSTRUCTIONS = (
    "Cost and prompt-cache behaviour of the sessions that coding agents keep on this machine. For your own session"
    " use spend, why or check without a session: they take this project, and its newest session."
)

Since = Annotated[str, Field(description="30m, 2h, 1d, 1w, or a date such as 2026-01-31")]
Agent = Annotated[str, Field(description="recordings of this agent alone, such as claude-code or codex; empty: all")]
Session = Annotated[
    str, Field(description="path of a session, as `sessions` shows it; empty: the newest session of this project")
]


def make_server(*, redact: bool) -> MCPServer:
    """Return the server with its tools; with `redact`, answers have hashes and lengths for content."""
    server = MCPServer("lore", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING")
    redacted = ["--redact"] if redact else []
    tool = server.tool(
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        structured_output=False,
    )

    async def spend(
        since: Since = "7d",
        by: Literal["day", "week", "month", "session", "model", "project", "agent"] = "session",
        project: Annotated[str, Field(description="folder of a project; empty: all projects")] = ".",
        agent: Agent = "",
    ) -> str:
        """Return cost and tokens, the re-billed part with its causes, and what to change first."""
        filters = [f"--project={project}"] if project else []
        return await run_lore(f"--since={since}", f"--by={by}", *filters, *_agent_option(agent), *redacted)

    async def sessions(
        limit: Annotated[int, Field(ge=1, le=100, description="show at most this many")] = 20,
        since: Since = "",
        agent: Agent = "",
    ) -> str:
        """List the sessions of all projects, newest first: cost, share read from caches, re-billed part, path."""
        filters = [f"--since={since}"] if since else []
        return await run_lore("sessions", f"--limit={limit}", *filters, *_agent_option(agent), *redacted)

    async def why(
        session: Session = "",
        turn: Annotated[int, Field(ge=0, description="compare this turn with the previous one; 0: all turns")] = 0,
    ) -> str:
        """Return the verdicts on a session's turns that lost cached tokens, or on one turn: cause, cost, fix."""
        name = _local(session) or await anyio.to_thread.run_sync(_newest_session)
        return await run_lore("diff-prefix", *redacted, "--", f"{name}#{turn}" if turn else name)

    async def check(session: Session = "") -> str:
        """Judge a session, or all in a folder: findings, re-billed tokens and their cost, fixes."""
        names = ["--", name] if (name := _local(session)) else ["--last"]
        return await run_lore("check", *redacted, *names)

    async def explain(
        code: Annotated[str, Field(description="a finding code such as LORE101, or its name; empty: list all")] = "",
    ) -> str:
        """Explain a finding code: its meaning, an example, the fixes, and how certain it is."""
        return await run_lore("explain", "--", code) if code else await run_lore("explain")

    for function in (spend, sessions, why, check, explain):
        tool(function)
    return server


async def run_lore(*words: str) -> str:
    """Run a command of lore and return what it prints; raises ToolError with its message."""
    command = [sys.executable, "-P", "-m", "lore", *words]
    try:
        process = await anyio.run_process(command, stdin=DEVNULL, check=False)
    except ValueError:  # a null character in an argument
        raise ToolError("a path or word has a null character") from None
    answer, messages = (text.decode(errors="replace").strip() for text in (process.stdout, process.stderr))
    if process.returncode not in _ANSWERED:
        raise ToolError(messages or f"lore ended with exit code {process.returncode}")
    text = "\n".join(filter(None, (answer, messages)))
    if len(text) <= MOST_CHARACTERS:
        return text
    omitted = len(text) - MOST_CHARACTERS
    return f"{text[:MOST_CHARACTERS]}\n… {omitted:,} more characters: ask for one session or turn, or a shorter time"


def _agent_option(name: str) -> list[str]:
    return [f"--agent={name}"] if name else []


def _local(name: str) -> str:
    """Return the name of a recording; raises ToolError for one on another machine."""
    if "://" in name:
        raise ToolError("the tools of lore read recordings on this machine; give a path")
    return name


def _newest_session() -> str:
    try:
        return common.chosen_inputs([], last=True).paths[0]
    except LoreError as error:
        raise ToolError(f"{error.message}; {error.hint}") from None
