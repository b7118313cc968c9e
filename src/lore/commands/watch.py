"""`lore watch`: the running session on a screen, or as a line of JSON at each change.

Once a second the log is looked at and the clock counted down. A log that takes long to judge is judged less often; an
error is shown, and the log is tried again.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Annotated, NamedTuple, TypeAlias

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lore.commands import common, flags
from lore.commands.statusline import RunningLog, judge_running, newest_session
from lore.errors import LoreError
from lore.model.fact import count_of
from lore.model.ledger import LedgerRow
from lore.model.results.live import running_session
from lore.model.running import LastBreak, RunningTotals
from lore.recording import corpus
from lore.recording.agents.logs import Surroundings
from lore.recording.opening import Options
from lore.recording.titles import title_of
from lore.report.plain import local_time, visible
from lore.report.redacted import redacted
from lore.report.status_line import ClientStatus, LineFacts, clock, percent, short, status_line
from lore.run.rules import Dated
from lore.run.spending.ledgers import states_of_files

LOOKED = 10.0  # seconds between two searches for a newer session
PACE = 4  # judging takes at most this part of the time
BARS = "▁▂▃▄▅▆▇█"
POINTS = 200  # requests in the sparkline
WAITING = "waiting for a session: start an agent, or name a log (lore watch PATH)"
HEADS = ("turn", "at", "prompt", "read", "", "re-billed", "cause")
SOON = 120.0  # seconds before the cache expires in which a user can still do something about it


def run(
    path: Annotated[
        str | None, "PATH", "A recording, or a project's folder; default: this project's newest session, else any."
    ] = None,
    as_json: Annotated[bool, "--json", "No screen: a line of JSON at each change."] = False,
    redact: flags.Redact = False,
    config: flags.Config = None,
) -> int:
    """Show the running session: prompt size, read and re-billed per turn, cache expiry, last break, what to do.

    Follows the log as it grows, and a newer session when one starts; Ctrl-C ends it. Nothing is written, and nothing
    leaves this machine.
    """
    loaded = common.find_settings(config)
    if path is not None:
        corpus.check_followable(path)
        if not os.path.lexists(path) and not corpus.is_in_database(path):
            raise LoreError(f"{corpus.show(path)} does not exist", hint="`lore sessions` lists the sessions here")
    options, dated = Options(rules=loaded.settings.assemble), Dated.of(loaded)
    watch = SessionWatch(path, options, dated, common.surroundings(), time.monotonic)
    while as_json:
        look = watch.look()
        if look is not None and look.log is not None:
            running = redacted(look.log.running) if redact else look.log.running
            common.write_json(running_session(running, corpus.show(look.path)))
            sys.stdout.flush()
        time.sleep(1.0)
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise LoreError("a screen needs a terminal", hint="`lore watch --json` or `lore statusline` needs none")
    WatchScreen(watch, time.time, Console(highlight=False, emoji=False), redact=redact).run()
    return 0


# looking

_Files: TypeAlias = tuple[tuple[str, int, int, int], ...]  # name, number, size, time of each


class WatchLook(NamedTuple):
    """A look at a session."""

    path: str  # of its log; empty: none was found
    log: RunningLog | None
    note: str = ""  # an error
    title: str = ""  # of the session, if it has one


class SessionWatch:
    """Looks at a session repeatedly; only differences of `clock` count. Not safe to share between threads."""

    def __init__(
        self, name: str | None, options: Options, dated: Dated, surroundings: Surroundings, clock: Callable[[], float]
    ) -> None:  # fmt: skip
        self._options, self._dated, self._clock = options, dated, clock
        folder = name if name is not None and os.path.isdir(name) else None
        self._surroundings = surroundings if folder is None else surroundings._replace(folder=os.path.abspath(folder))
        self._project_only = folder is not None  # search no other project
        self._fixed_path = "" if name is None or folder is not None else name
        self._last_look = WatchLook(self._fixed_path, None)
        self._files: _Files | None = None
        self._searched_at: float | None = None
        self._rests_until = 0.0

    def look(self) -> WatchLook | None:
        """Return the session if it changed since the last look, else None."""
        try:
            path = self._search()
            files = _files(path)
            if files == self._files or (path == self._last_look.path and self._clock() < self._rests_until):
                return None
            self._files = files
            self._last_look = self._judge(path)
        except LoreError as error:
            self._last_look = self._last_look._replace(note=error.message)
        return self._last_look

    def _search(self) -> str:
        """Return the log to look at: from time to time a newer one is searched for."""
        now = self._clock()
        if self._fixed_path or (self._searched_at is not None and now < self._searched_at + LOOKED):
            return self._last_look.path
        self._searched_at = now
        return newest_session(self._surroundings, machine=not self._project_only) or self._last_look.path

    def _judge(self, path: str) -> WatchLook:
        if not path:
            return self._last_look
        if path != self._last_look.path:
            self._last_look = WatchLook(path, None)
        began = self._clock()
        try:
            return WatchLook(path, judge_running(path, self._options, self._dated), "", title_of(path) or "")
        finally:
            self._rests_until = self._clock() + PACE * (self._clock() - began)


def _files(path: str) -> _Files:
    """Return the files of a recording; none if they are missing."""
    try:
        states = states_of_files(path) if path else []
    except (OSError, ValueError):
        return ()
    return tuple((name, status.st_ino, status.st_size, status.st_mtime_ns) for name, status in states)


# the screen


class WatchScreen:
    """Show what a watch finds; `clock` gives seconds since the epoch. Texts are safe, and hold no markup."""

    def __init__(self, watch: SessionWatch, clock: Callable[[], float], console: Console, *, redact: bool) -> None:
        self._watch, self._clock, self._console, self._redact = watch, clock, console, redact
        self._latest_look: WatchLook | None = None

    def run(self, every: float = 1.0) -> None:
        """Show the session until Ctrl-C."""
        try:
            with Live(self.drawn(), console=self._console, screen=True, auto_refresh=False) as live:
                while True:
                    self.look()
                    live.update(self.drawn(), refresh=True)
                    time.sleep(every)
        except KeyboardInterrupt:
            return

    def look(self) -> None:
        """Look at the log once."""
        self._latest_look = self._watch.look() or self._latest_look

    def drawn(self) -> RenderableType:
        """Return the screen: figures, a sparkline of prompt sizes, and the latest requests that fit."""
        look = self._latest_look
        if look is None or look.log is None:
            note = "" if look is None else visible(look.note)
            return Text(" ".join(filter(None, (WAITING, note))), "bold")
        log = look.log
        sizes = [row.prompt_tokens or 0 for row in log.rows if row.chain == log.rows[-1].chain]
        sizes = sizes[-min(POINTS, self._console.width) :]
        peak = max(sizes, default=0) or 1
        bars = "".join(BARS[size * (len(BARS) - 1) // peak] for size in sizes)
        now, running = self._clock(), redacted(log.running) if self._redact else log.running
        name = corpus.show(look.path) if self._redact or not look.title else look.title
        status = LineFacts(running, ClientStatus(), now, redact=self._redact)
        parts = (("prompt", "read", "again", "expires"), ("break",)) if running.requests else ()
        lines = [Text.from_ansi(status_line(status, names, colour=True)) for names in parts]
        head = Group(
            Text(session_line(running, name, look.note), "bold"), Text(), *lines, Text(advice(running, now), "green"),
            Text(), Text(bars, "cyan"), Text(),
        )  # fmt: skip
        rows = max(1, self._console.height - len(self._console.render_lines(head)) - 1)
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title in HEADS:
            table.add_column(Text(title), no_wrap=True)
        for number in range(max(0, len(log.rows) - rows), len(log.rows)):
            cells = turn_cells(log.rows[number], log.breaks.get(number), redact=self._redact)
            table.add_row(*map(Text, cells), style="bold yellow" if cells[-1] else "")
        return Group(head, table)


# words: terminal control characters are made visible, times of day are local


def session_line(running: RunningTotals, path: str, note: str) -> str:
    """Return the screen's first line: the session's path or title, its model, and a note on an error."""
    requests = count_of(running.requests, "request") if running.requests else "no request yet"
    return visible("  ·  ".join(filter(None, (note, running.model or "", requests, path))))


def advice(running: RunningTotals, now: float) -> str:
    """Return advice on what to do now; empty before the first request."""
    at, cached = running.expires_at, running.stood or running.prompt_tokens or 0
    if not running.requests:
        return ""
    consequence = f"the next request writes {cached:,} tokens again"
    if at is not None and at <= now:
        return f"do      {consequence}: start a new session if you do not need the old one"
    if at is not None and at - now <= SOON:
        return f"do      continue within {clock(at - now)}, or {consequence}"
    last = running.last_break
    if last is not None and last.kind != "expected" and last.turn == running.turn:
        return f"do      {last.fix}"
    return "do      nothing: the last request read the whole cached prompt"


def turn_cells(row: LedgerRow, cache_break: LastBreak | None, *, redact: bool) -> tuple[str, ...]:
    """Return a request as a row of the table under `HEADS`."""
    size, read = row.prompt_tokens, row.read_tokens
    name = str(row.number) if row.chain == "main" or redact else f"{row.chain[:12]}:{row.number}"
    share = "" if not size or read is None else percent(read / size)
    rebilled = cause = ""
    if cache_break is not None:
        rebilled = f"{cache_break.lost_tokens:,}" + (f" ${cache_break.dollars:,.2f}" if cache_break.dollars else "")
        cause = cache_break.plain if redact else cache_break.says
    tokens = ("?" if count is None else short(count) for count in (size, read))
    cells = (name, local_time(row.at), *tokens, share, rebilled, cause)
    return tuple(map(visible, cells))
