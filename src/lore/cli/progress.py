"""A progress bar on standard error, for a person who waits.

Rules: only where standard error is a terminal that can move its cursor and there is enough to wait for;
it is gone before anything else is written; no thread redraws it, since one must not be there when
processes fork.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

LEAST = 16 * 1024 * 1024  # bytes: what is done in less than half a second needs no bar
REDRAW_SECONDS = 0.1

Progress = Callable[[int, int], None]


@contextmanager
def progress(*, wanted: bool, colour: bool | None = None, what: str = "judging") -> Generator[Progress | None]:
    """Give what is told about progress (bytes done, bytes in all); None where nothing is to be shown.

    `what` is being done stands before the bar.
    """
    if not wanted or not sys.stderr.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        yield None
        return
    bar = _Bar(colour, what)
    try:
        yield bar.tell
    finally:
        bar.stop()


class _Bar:
    def __init__(self, colour: bool | None, what: str) -> None:
        self._what = what
        self._plain = None if colour is None else not colour
        self._stop: Callable[[], None] | None = None
        self._draw: Callable[[int], None] | None = None
        self._next = 0.0

    def tell(self, done: int, total: int) -> None:
        now = time.monotonic()
        if total < LEAST or now < self._next:
            return
        self._next = now + REDRAW_SECONDS
        if self._draw is None:
            self._start(total)
        if self._draw is not None:
            self._draw(done)

    def _start(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        shown = Progress(
            TextColumn(self._what), BarColumn(), DownloadColumn(), TimeRemainingColumn(),
            console=Console(file=sys.stderr, no_color=self._plain), auto_refresh=False, transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        task = shown.add_task("", total=total)
        shown.start()

        def draw(done: int) -> None:
            shown.update(task, completed=done)
            shown.refresh()

        self._stop, self._draw = shown.stop, draw

    def stop(self) -> None:
        if self._stop is not None:
            self._stop()
