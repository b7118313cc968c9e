"""The screen of `lore watch`: a session's figures, its prompt sizes as a sparkline, a row for each request.

Once a second it looks at the log and counts the clock down. Texts are safe before they come here, and no markup is read
in them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lore.model.running import RunningTotals
from lore.report.plain import visible
from lore.report.redacted.results import redacted
from lore.report.sentences import running as words
from lore.run.live.running import RunningLog, SessionWatch, WatchLook

BARS = "▁▂▃▄▅▆▇█"
POINTS = 200  # requests in the sparkline
HEADER = 1  # rows of the table that hold no request


class WatchScreen:
    """Show what a watch finds; `clock` gives seconds since the epoch."""

    def __init__(self, watch: SessionWatch, clock: Callable[[], float], console: Console, *, redact: bool) -> None:
        self._watch, self._clock, self._console, self._redact = watch, clock, console, redact
        self._found: WatchLook | None = None

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
        self._found = self._watch.look() or self._found

    def drawn(self) -> RenderableType:
        """Return the screen, with the latest requests that fit."""
        found = self._found
        if found is None or found.log is None:
            note = "" if found is None else visible(found.note)
            return Text(" ".join(filter(None, (words.WAITING, note))), "bold")
        log = found.log
        sizes = [row.prompt_tokens or 0 for row in log.rows if row.chain == log.rows[-1].chain]
        bars = Text(_bars(sizes[-min(POINTS, self._console.width) :]), "cyan")
        head = Group(*self._lines(found, log.running), Text(), bars, Text())
        used = len(self._console.render_lines(head))
        return Group(head, self._table(log, max(1, self._console.height - used - HEADER)))

    def _lines(self, found: WatchLook, log_running: RunningTotals) -> list[Text]:
        now, running = self._clock(), redacted(log_running) if self._redact else log_running
        name = found.shown if self._redact else found.title or found.shown
        left = None if running.expires_at is None else running.expires_at - now
        return [
            Text(words.session_line(running, name, found.note), "bold"),
            Text(),
            Text(words.figures_line(running)),
            Text(words.expiry_line(running, now), "" if left is None or left > words.SOON else "bold yellow"),
            Text(words.break_line(running, now, redact=self._redact)),
            Text(words.advice(running, now), "green"),
        ]

    def _table(self, log: RunningLog, rows: int) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for head in words.HEADS:
            table.add_column(Text(head), no_wrap=True)
        for number in range(max(0, len(log.rows) - rows), len(log.rows)):
            cells = words.turn_cells(log.rows[number], log.breaks.get(number), redact=self._redact)
            table.add_row(*map(Text, cells), style="bold yellow" if cells[-1] else "")
        return table


def _bars(sizes: Sequence[int]) -> str:
    """Return sizes as a sparkline."""
    most = max(sizes, default=0) or 1
    return "".join(BARS[size * (len(BARS) - 1) // most] for size in sizes)
