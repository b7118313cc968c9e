"""Verdicts of a capture while it is being written, in a process of their own: a line a request, on standard error.

In: the path of a capture, where this run begins in it. Out: lines. It is judged by the loop of `lore check --follow`.
The process ends when the recorder does, however that ends: then its end of a pipe is closed.
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
from lore.recording import INTERVAL, Live, Opened, Options, Problems, UnrecognisedError, load_plugins
from lore.report import visible, worded, worded_break
from lore.run import Dated, starting_processes, verdicts
from lore_plugins.record.lines import live_line, live_problem


class LiveVerdict(NamedTuple):
    """A request of this run: its row, what it did not read again (None: nothing), and its verdict."""

    row: LedgerRow
    broken: LastBreak | None
    verdict: TurnVerdict


def live_verdicts(
    path: str, begin: int, dated: Dated, wait: Callable[[], bool], say: Callable[[str], None]
) -> Iterator[LiveVerdict]:
    """Yield the verdicts of a capture from byte `begin` on, until waiting ends; what stands before is judged, too."""
    load_plugins()
    live = Live(path, LoreCapture.name, wait, say)
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
        except UnrecognisedError:  # no request came
            continue


class LiveProcess:
    """What prints verdicts beside a recorder. With `content` lines quote what requests say; else they name causes."""

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
        """Let it say what is left, and wait for its end."""
        self._ours.close()
        self._process.join()


def _print(ended: Connection, path: str, begin: int, dated: Dated, content: bool) -> None:
    """Print verdicts until the other end of a pipe is closed, and then what is left."""
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
                    say(f"    {worded(finding).message}")
    except LoreError as error:
        say(f"verdicts are no longer shown: {error.message}")
