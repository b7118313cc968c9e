"""The session that runs: `lore watch`, `lore statusline`.

What is only a status line is answered by `run/live/statusline.py`, without the command framework.
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

from lore.commands import flags
from lore.commands.common import dated_rules, found_settings, quiet_pipe, surroundings, write_json

if TYPE_CHECKING:
    from lore.run.live.running import SessionWatch


@quiet_pipe
def watch(
    path: Annotated[
        str | None,
        typer.Argument(help="A recording, or a project's folder; default: this project's newest session, else any."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="No screen: a line of JSON at each change.")] = False,
    redact: flags.Redact = False,
    config: flags.Config = None,
) -> int:
    """Show the running session: prompt size, read and re-billed per turn, cache expiry, last break, what to do.

    Follows the log as it grows, and a newer session when one starts; Ctrl-C ends it. Nothing is written, and nothing
    leaves this machine.
    """
    from lore.errors import LoreError
    from lore.recording import corpus
    from lore.recording.opening import Options
    from lore.recording.tailing import check_followable
    from lore.run.live.running import SessionWatch

    loaded = found_settings(config)
    if path is not None:
        check_followable(path)
        if not os.path.lexists(path) and not corpus.is_in_database(path):
            raise LoreError(f"{corpus.show(path)} does not exist", hint="`lore sessions` lists what is here")
    watch = SessionWatch(path, Options(rules=loaded.settings.assemble), dated_rules(loaded), surroundings(),
                         time.monotonic)  # fmt: skip
    if as_json:
        return _lines(watch, redact=redact)
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise LoreError("a screen needs a terminal", hint="`lore watch --json` or `lore statusline` needs none")
    from rich.console import Console

    from lore.commands.watch_screen import WatchScreen

    WatchScreen(watch, time.time, Console(highlight=False, emoji=False), redact=redact).run()
    return 0


def _lines(watch: SessionWatch, *, redact: bool, every: float = 1.0) -> int:
    from lore.model.results.live import running_session
    from lore.report.redacted.results import redacted

    while True:
        found = watch.look()
        if found is not None and found.log is not None:
            running = redacted(found.log.running) if redact else found.log.running
            write_json(running_session(running, found.shown))
            sys.stdout.flush()
        time.sleep(every)


@quiet_pipe
def statusline(
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
    """Print one line about the running session: prompt size, share read, re-billed, cache expiry, last break.

    Claude Code hands its session over on standard input (`lore statusline --install` prints the setting); elsewhere it
    is the newest session of the current project. What was read is kept in your cache folder, in numbers and names
    alone; when the log has grown, a background process judges it again, and the line says `judging …` until then.
    Subagents that have logs of their own are not in the sums.
    """
    from lore.errors import LoreError
    from lore.recording.opening import Options
    from lore.report.console import wants_colour
    from lore.report.status_line import DEFAULT, PARTS, Shown, parts_of, status_line
    from lore.run.live import running
    from lore.run.live.statusline import standard_input, status_folder
    from lore.run.recent import no_session_of_project

    if install:
        sys.stdout.write(_settings())
        return 0
    chosen = DEFAULT if parts is None else parts_of(parts)
    if chosen is None:
        raise LoreError(f"--format {parts!r}: no such parts", hint="parts: " + ", ".join(PARTS))
    loaded, here = found_settings(config), surroundings()
    options, dated = Options(rules=loaded.settings.assemble), dated_rules(loaded)
    if refresh:
        running.refresh(path or here.folder, status_folder(), options, dated, here)
        return 0
    given = b"" if path else standard_input()
    client, name = running.session_named(path, given, here)
    if as_json:
        if name is None:
            raise no_session_of_project(here)
        from lore.model.results.live import running_session
        from lore.recording import corpus
        from lore.report.redacted.results import redacted

        judged = running.judge_running(name, options, dated).running
        write_json(running_session(redacted(judged) if redact else judged, corpus.show(name)))
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
