"""Print a verdict per request while a capture is written (`--live`), from a separate process, to standard error.

The capture is judged by the loop of `lore check`. The process ends when the recorder's end of a pipe is
closed, which also happens if the recorder is killed.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import NamedTuple

from lore.errors import LoreError
from lore.formats import LoreCapture
from lore.judge import RunningSums, TurnVerdict, findings_of
from lore.model import LastBreak, LedgerRow, Place
from lore.recording import INTERVAL, LogTail, Opened, Options, Problems, UnrecognisedError, load_plugins
from lore.report import visible, worded_break
from lore.run import Dated, starting_processes, verdicts
from lore_plugins.record.lines import live_line, live_problem


class LiveVerdict(NamedTuple):
    """A request of this run with its verdict."""

    row: LedgerRow
    broken: LastBreak | None  # the cache break, if any
    verdict: TurnVerdict


def live_verdicts(
    path: str, begin: int, dated: Dated, wait: Callable[[], bool], say: Callable[[str], None]
) -> Iterator[LiveVerdict]:
    """Judge a whole capture, and yield the verdicts from byte `begin` on, until `wait` returns false."""
    load_plugins()
    live = LogTail(path, LoreCapture.name, wait, say)
    while (head := live.head()) is not None:
        problems, sums = Problems(), RunningSums(dated.rules, worded_break)
        data = (piece for piece in live.pieces() if piece is not None)
        recording = Options(format=LoreCapture.name).open(path, problems, opened=Opened(head, data))
        place = Place(recording.shown, reader="author")
        try:
            for verdict, _ in verdicts(recording, dated.judge(), place):
                for problem in problems.take():
                    if (problem.byte or 0) >= begin:
                        say(live_problem(problem))
                if verdict is None:
                    break
                row = sums.take(verdict, "author")
                broken = sums.breaks.popitem()[1] if sums.breaks else None
                if (verdict.turn.byte or 0) >= begin:
                    yield LiveVerdict(row, broken, verdict)
        except UnrecognisedError:  # there is no request yet
            continue


class LiveProcess:
    """The process that prints verdicts; with `content` lines quote requests, otherwise they only name causes."""

    def __init__(self, path: str, begin: int, dated: Dated, *, content: bool) -> None:
        context = multiprocessing.get_context("spawn")
        theirs, self._ours = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_print, args=(theirs, path, begin, dated, content), name="lore-record-live", daemon=True
        )
        with starting_processes():
            self._process.start()
        theirs.close()

    def stop(self) -> None:
        """Let it print the remaining verdicts, and wait for its end."""
        self._ours.close()
        self._process.join()


def _print(ended: Connection, path: str, begin: int, dated: Dated, content: bool) -> None:
    """Print verdicts until the other end of a pipe is closed, then the remaining ones."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    over = False

    def wait() -> bool:
        nonlocal over
        before, over = over, over or ended.poll(INTERVAL)
        return not before

    def say(text: str) -> None:
        sys.stderr.write(visible(text) + "\n")
        sys.stderr.flush()

    try:
        for row, broken, verdict in live_verdicts(
            path, begin, dated, wait, lambda text: say(text) if content else None
        ):
            refused = verdict.turn.call.status if verdict.turn.failed else None
            say(live_line(row, broken, content=content, refused=refused))
            if content and verdict.pair is not None:
                for _, finding in findings_of(verdict.pair, Place(path, reader="author")):
                    say(f"    {finding.message}")
    except LoreError as error:
        say(f"no more verdicts: {error.message}")
