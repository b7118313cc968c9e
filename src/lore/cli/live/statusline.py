"""`lore statusline`: one line about the running session, for Claude Code's status line and for tmux.

What is only a line is answered by `statusline_quick.py`, without the command framework.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from lore.cli import flags
from lore.cli.common import dated_rules, found_settings, quiet_pipe, surroundings, write_json

if TYPE_CHECKING:
    pass


@quiet_pipe
def run(
    path: Annotated[
        str | None,
        typer.Argument(help="A recording, or a project's folder, whose newest session it is; default: as stdin says."),
    ] = None,
    parts: Annotated[
        str | None,
        typer.Option("--format", help="Parts: model, prompt, read, again, expires, break, cost, context."),
    ] = None,
    width: Annotated[
        int | None, typer.Option("--width", min=1, help="At most so many columns; default: COLUMNS.")
    ] = None,
    color: Annotated[
        bool | None, typer.Option("--color/--no-color", help="Colour; default: for Claude Code, and on a terminal.")
    ] = None,
    redact: flags.Redact = False,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON, judged to the log's end.")] = False,
    install: Annotated[bool, typer.Option("--install", help="Print settings for Claude Code and tmux.")] = False,
    refresh: Annotated[bool, typer.Option("--refresh", hidden=True)] = False,
    config: flags.Config = None,
) -> int:
    """Print one line about the running session: prompt size, share read, paid again, cache expiry, last break.

    Claude Code hands its session over on standard input (`lore statusline --install` prints the setting); elsewhere it
    is the newest session of the current project. What was read is kept in your cache folder, in numbers and names
    alone, and only what was added is read; where the cache broke, a process in the background judges the log anew, and
    the line says `judging …` until then. Subagents that have logs of their own are not in the sums.
    """
    from lore.cli.live import statusline_quick as quickly
    from lore.errors import LoreError
    from lore.recording import recent
    from lore.recording.opening import Options
    from lore.report.console import wants_colour
    from lore.report.status_line import DEFAULT, PARTS, Shown, status_line
    from lore.run.live import running

    if install:
        sys.stdout.write(_settings())
        return 0
    chosen = DEFAULT if parts is None else quickly.parts_of(parts)
    if chosen is None:
        raise LoreError(f"--format {parts!r}: no such parts", hint="parts: " + ", ".join(PARTS))
    loaded, here = found_settings(config), surroundings()
    options, dated = Options(rules=loaded.settings.assemble), dated_rules(loaded)
    if refresh:
        running.refresh(path or here.folder, quickly.status_folder(), options, dated, here)
        return 0
    given = b"" if path else quickly.standard_input()
    client, name = running.session_named(path, given, here)
    if as_json:
        if name is None:
            raise recent.nothing(recent.whereabouts(here, wide=False).looked)
        from lore.model.results.running import running_session
        from lore.recording import corpus
        from lore.report.redacted.results import redacted_running

        judged = running.judge_running(name, options, dated).running
        write_json(running_session(redacted_running(judged) if redact else judged, corpus.show(name)))
        return 0
    known = None
    with suppress(LoreError):  # a status line shows no errors
        known = None if name is None else running.judge_running(name, options, dated).running
    colour = wants_colour(color, os.environ, terminal=bool(given.strip()) or sys.stdout.isatty())
    shown = Shown(known, client, time.time(), redact=redact)
    sys.stdout.write(status_line(shown, chosen, width=width, colour=colour) + "\n")
    return 0


def _settings() -> str:
    """Return what to put into the settings of Claude Code and of tmux; nothing is written."""
    program = os.path.abspath(sys.argv[0])
    lore = program if os.path.basename(program).startswith("lore") and os.access(program, os.X_OK) else "lore"
    line = {"statusLine": {"type": "command", "command": f"{shlex.quote(lore)} statusline", "refreshInterval": 5}}
    return (
        "Claude Code: put this into ~/.claude/settings.json (all projects) or .claude/settings.json (this one)\n\n"
        f"{json.dumps(line, indent=2)}\n\n"
        "tmux: put this into ~/.tmux.conf\n\n"
        "set -g status-interval 5\n"
        "set -g status-right-length 120\n"
        f"set -g status-right '#({shlex.quote(lore)} statusline #{{q:pane_current_path}})'\n"
    )
