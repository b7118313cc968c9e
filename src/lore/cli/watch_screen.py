"""The screen of `lore watch`, on Textual: a session's figures, a line of its prompt sizes, a row a request.

A thread looks at the log once a second; the clock is counted down beside it. Texts are safe before they come here, and
no markup is read in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, cast

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import DataTable, Footer, Sparkline, Static

from lore.model.running import Running
from lore.report.plain import visible
from lore.report.redacted.results import redacted
from lore.report.sentences import running as words
from lore.run.live.running import SessionWatch, WatchLook

ROWS = 500  # of the latest requests
POINTS = 200  # of the line of prompt sizes
_LINES = ("session", "figures", "expiry", "break", "advice")


class WatchScreen(App[None]):
    """Show what a watch finds; `clock` gives seconds since the epoch. With `every` None nothing looks by itself."""

    CSS = """
    #session { text-style: bold; }
    #figures { margin-top: 1; }
    #expiry.soon, #expiry.gone { color: $warning; text-style: bold; }
    #advice { color: $success; }
    Sparkline { height: 3; margin: 1 0; }
    DataTable { height: 1fr; }
    """
    TITLE = "lore watch"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [("q", "quit", "Quit"), ("r", "look", "Look now")]

    def __init__(
        self, watch: SessionWatch, clock: Callable[[], float], *, redact: bool = False, every: float | None = 1.0
    ) -> None:  # fmt: skip
        super().__init__()
        self._watch, self._clock_of, self._every, self._redact = watch, clock, every, redact
        self._session = Running("")
        self._rows: list[tuple[str, ...]] = []

    def compose(self) -> ComposeResult:
        """Lay the screen out."""
        with Vertical():
            for name in _LINES:
                yield Static(words.WAITING if name == "session" else "", id=name, markup=False)
            yield Sparkline([], id="sizes")
            yield DataTable[Text](cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to look."""
        table = self._table
        for head in words.HEADS:
            table.add_column(Text(head))
        table.focus()
        if self._every is not None:
            self.action_look()
            self.set_interval(self._every, self.action_look)
            self.set_interval(min(self._every, 1.0), self.count_down)

    @property
    def _table(self) -> DataTable[Text]:
        return cast("DataTable[Text]", self.query_one(DataTable))

    def action_look(self) -> None:
        """Look at the log in a thread, unless one is looking."""
        if not any(worker.group == "look" and worker.is_running for worker in self.workers):
            self.run_worker(self._look, thread=True, group="look", exit_on_error=True)

    def _look(self) -> None:
        found = self._watch.look()
        if found is not None:
            self.call_from_thread(self.show, found)

    def show(self, found: WatchLook) -> None:
        """Show a look."""
        if found.log is None:
            self._say("session", " ".join(filter(None, (words.WAITING, visible(found.note)))))
            return
        running, rows, breaks = found.log.running, found.log.rows, found.log.breaks
        self._session = redacted(running) if self._redact else running
        self._say("session", words.session_line(self._session, found.shown, found.note))
        self._say("figures", words.figures_line(running))
        begin = max(0, len(rows) - ROWS)
        cells = [words.turn_cells(rows[number], breaks.get(number), redact=self._redact)
                 for number in range(begin, len(rows))]  # fmt: skip
        self._fill(cells)
        sizes = [row.prompt_tokens or 0 for row in rows if row.chain == rows[-1].chain]
        self.query_one(Sparkline).data = sizes[-POINTS:]
        self.count_down()

    def _fill(self, cells: list[tuple[str, ...]]) -> None:
        """Put the rows into the table: what is new behind what stands there, where that is as it was."""
        table, before = self._table, self._rows
        if cells[: len(before)] != before:
            table.clear()
            before = []
        for row in cells[len(before) :]:
            table.add_row(*(Text(cell, style="bold yellow" if row[-1] else "") for cell in row))
        if len(cells) != len(before):
            table.move_cursor(row=len(cells) - 1)
        self._rows = cells

    def count_down(self) -> None:
        """Say what depends on the time."""
        now, running = self._clock_of(), self._session
        self._say("expiry", words.expiry_line(running, now))
        self._say("break", words.break_line(running, now, redact=self._redact))
        self._say("advice", words.advice(running, now))
        left = None if running.expires_at is None else running.expires_at - now
        expiry = self.query_one("#expiry", Static)
        expiry.set_class(left is not None and 0 < left <= words.SOON, "soon")
        expiry.set_class(left is not None and left <= 0, "gone")

    def _say(self, name: str, text: str) -> None:
        self.query_one(f"#{name}", Static).update(Text(text))
