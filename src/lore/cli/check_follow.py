"""`lore check --follow`: judge a recording that is being written."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lore.cli.common import out, tell

if TYPE_CHECKING:
    from lore.check.budgets import Budgets
    from lore.run.options import Options

INTERRUPTED = 130


def follow_one(
    paths: list[str], budgets: Budgets, options: Options, *, as_json: bool, color: bool | None, verbose: bool
) -> int:
    """Write findings as soon as their turn is whole, and the sums when interrupted."""
    from lore.errors import LoreError
    from lore.model.results import Checked
    from lore.report.json_report import render
    from lore.report.registry import REPORTS
    from lore.report.terminal import write_finding
    from lore.run.following_check import follow_check
    from lore.run.live import every

    if len(paths) != 1 or os.path.isdir(paths[0]):
        raise LoreError("--follow takes one recording", hint="name the file that is being written")

    console = out(color)
    with _interruptible() as interrupted:
        for one in follow_check(paths[0], budgets, options, tell, wait=lambda: every() and not interrupted()):
            if one is None:
                sys.stdout.flush()
            elif as_json:
                sys.stdout.write(render(one) + "\n")
            elif isinstance(one, Checked):
                REPORTS["terminal"].write(one, console, verbose=True)
            elif verbose or one.severity != "note":
                write_finding(one, console)
    return INTERRUPTED


@contextmanager
def _interruptible() -> Generator[Callable[[], bool]]:
    """Note an interrupt instead of stopping wherever it comes, so that the sums can be said; the second stops."""
    seen: list[int] = []

    def note(number: int, _: object) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)

    before = signal.getsignal(signal.SIGINT)
    ours = before is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(seen)
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)
