"""`lore statusline`, one line about the running session, and the judging of a running session, also for `lore watch`.

The line is made in `run/status_file.py`, which a call without options runs alone; this module has the options, JSON,
and judging in the background.

A log is judged whole each time that it changed, like any other recording, so that these commands and `lore check`
agree, also after a rotation. A last line that is still being written is a problem of the recording, and changes
nothing. Cost: O(bytes of the log), 30 MB a second.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Annotated, NamedTuple

import typer

from lore.commands import common, flags
from lore.errors import LoreError
from lore.judge.sums import RunningSums
from lore.model.cause import Place
from lore.model.jsonslice import is_json
from lore.model.ledger import LedgerRow
from lore.model.results.live import running_session
from lore.model.running import LastBreak, RunningTotals
from lore.recording import corpus
from lore.recording.agents.logs import Surroundings
from lore.recording.agents.sessions import newest_of_agents, newest_of_project
from lore.recording.base import Problems, collected_seldom, load_plugins
from lore.recording.opening import Options
from lore.report.sentences import worded_break
from lore.report.status_line import DEFAULT, PARTS, client_and_path, parts_of
from lore.run import status_file
from lore.run.arguments import no_session_of_project
from lore.run.checking.verdicts import verdicts
from lore.run.rules import Dated


class RunningLog(NamedTuple):
    """A log that was judged."""

    running: RunningTotals
    rows: tuple[LedgerRow, ...] = ()
    breaks: Mapping[int, LastBreak] = MappingProxyType({})  # cache breaks, by the place of their row


def judge_running(path: str, options: Options, dated: Dated) -> RunningLog:
    """Judge the whole log; without a complete line the totals are empty. Raises LoreError for an unreadable one."""
    load_plugins()
    with collected_seldom():
        opened = corpus.open_head(path)
        head = opened.head
        if not head.strip() or (b"\n" not in head and head.startswith(b"{") and not is_json(head)):  # part of a line
            return RunningLog(RunningTotals(""))
        recording = options.open(path, Problems(), opened=opened)
        sums = RunningSums(dated.rules, worded_break)
        steps = verdicts(recording, dated.judge(quick=True), Place(recording.shown, audience="user"))
        rows = tuple([sums.take(verdict, "user") for verdict, _ in steps if verdict is not None])
        return RunningLog(sums.result(recording.reader.name, recording.state.id or ""), rows, sums.breaks)


def newest_session(surroundings: Surroundings, *, machine: bool) -> str | None:
    """Return the newest session of the current project, else (`machine`) of all; None without sessions."""
    log = newest_of_project(surroundings) or (newest_of_agents(surroundings) if machine else None)
    return None if log is None else log.file.path


def run(
    path: Annotated[
        str | None,
        "PATH",
        "A recording, or a project's folder (its newest session); default: the session that stdin names.",
    ] = None,
    parts: Annotated[
        str | None, "--format", "Parts: model, prompt, read, again, expires, break, cost, context."
    ] = None,
    width: Annotated[
        int | None, typer.Option("--width", min=1, help="Columns of the line at most; default: COLUMNS.")
    ] = None,
    color: Annotated[bool | None, "--color/--no-color", "Colour; default: for Claude Code, and on a terminal."] = None,
    redact: flags.Redact = False,
    as_json: Annotated[bool, "--json", "Answer in JSON, judged to the log's end."] = False,
    install: Annotated[bool, "Print settings for Claude Code and tmux."] = False,
    refresh: Annotated[bool, typer.Option("--refresh", hidden=True)] = False,
    config: flags.Config = None,
) -> int:
    """Print one line about the running session: prompt size, share read, re-billed, cache expiry, last break.

    Claude Code names its session on standard input (`lore statusline --install` prints the setting); elsewhere the
    session is the newest of the current project. Results are kept in your cache folder, in numbers and names
    alone; when the log has grown, a background process judges it again, and the line says `judging …` until then.
    Subagents that have logs of their own are not in the sums.
    """
    if install:
        sys.stdout.write(_settings())
        return 0
    part_names = DEFAULT if parts is None else parts_of(parts)
    if part_names is None:
        raise LoreError(f"--format {parts!r}: no such parts", hint="parts: " + ", ".join(PARTS))
    if not (as_json or refresh):
        sys.stdout.write(status_file.line(path or "", part_names, width=width, colour=color, redact=redact))
        return 0

    loaded, surroundings = common.find_settings(config), common.surroundings()
    options, dated = Options(rules=loaded.settings.assemble), Dated.of(loaded)
    if refresh:
        refresh_status(path or surroundings.folder, status_file.status_folder(), options, dated, surroundings)
        return 0
    name = _log_of(path or client_and_path(status_file.standard_input())[1] or surroundings.folder, surroundings)
    if name is None:
        raise no_session_of_project(surroundings)
    running = judge_running(name, options, dated).running
    common.write_json(running_session(common.redacted_if(redact, running), corpus.show(name)))
    return 0


def _log_of(name: str, surroundings: Surroundings) -> str | None:
    """Return a log; of a folder the newest session of its project."""

    if os.path.isdir(name):
        return newest_session(surroundings._replace(folder=os.path.abspath(name)), machine=False)
    return name


def refresh_status(name: str, folder: str, options: Options, dated: Dated, surroundings: Surroundings) -> None:
    """Judge a log, or the newest session of a project's folder, and keep the result for later lines."""
    began, path = time.time(), _log_of(name, surroundings) or ""
    if path:
        keep_status(folder, path, options, dated)
    if path != name:
        status_file.write_state(folder, name, {"newest": path, "at": began})
    with suppress(OSError):  # the folder cannot be written
        for entry in os.scandir(folder):
            if entry.stat().st_mtime < began - status_file.UNUSED:
                os.unlink(entry.path)


def keep_status(folder: str, path: str, options: Options, dated: Dated) -> status_file.KeptStatus:
    """Judge a log and write the result to the status folder; for a log that cannot be judged, one without figures."""

    began, (size, written) = time.time(), status_file.stamp_of(path) or (0, 0)
    try:
        corpus.check_followable(path)
        running = judge_running(path, options, dated).running
    except LoreError as error:
        options.log(error.message)
        running = RunningTotals("")
    status = status_file.KeptStatus(running, size, written, began, time.time() - began)
    last = running.last_break
    fields = {**running._asdict(), "last_break": None if last is None else last._asdict()}
    status_file.write_state(folder, path, {**status._asdict(), "running": fields})
    return status


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
