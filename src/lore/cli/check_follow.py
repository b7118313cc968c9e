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
    from lore.judge.policy import Budgets
    from lore.model.results import Finding
    from lore.recording.opening import Options
    from lore.run.check import CheckContext
    from lore.run.reporting import Target

INTERRUPTED = 130


def refuse(
    *, jobs: int | None, baseline: str | None, since: str | None, last: bool, pass_over: bool, asked: list[Target]
) -> None:  # fmt: skip
    """Raise LoreError for options that mean nothing while one recording grows."""
    from lore.errors import LoreError
    from lore.run.reporting import at_once

    if jobs is not None:
        raise LoreError("--follow judges one recording, in this process", hint="leave --jobs out")
    if since is not None or last:
        raise LoreError("--follow takes one recording", hint="name the file, and leave --since and --last out")
    if pass_over:
        raise LoreError("--follow judges the recording that is named", hint="leave --pass-over out")
    if baseline is not None:
        raise LoreError("--follow says findings as they come", hint="leave --baseline out")
    if kinds := at_once(asked):
        raise LoreError(f"--follow writes no {kinds[0]} report", hint="leave --report out, or use --json")


def follow_one(
    paths: list[str], budgets: Budgets, options: Options, against: CheckContext, *, as_json: bool, color: bool | None,
    verbose: bool,
) -> int:  # fmt: skip
    """Write findings as soon as their turn is whole, and the sums when interrupted."""
    from lore.errors import LoreError
    from lore.model.results import Checked
    from lore.recording.tailing import every
    from lore.report.json_report import render
    from lore.report.redacted import redacted, redacted_finding
    from lore.report.registry import REPORTS
    from lore.report.terminal import write_finding
    from lore.run.check_watch import follow_check

    if len(paths) != 1 or os.path.isdir(paths[0]):
        raise LoreError("--follow takes one recording", hint="name the file that is being written")

    def shown(one: Checked | Finding) -> Checked | Finding:
        return redacted(one) if isinstance(one, Checked) else redacted_finding(one)

    console = out(color)
    with _interruptible() as interrupted:
        following = follow_check(
            paths[0], budgets, options, tell, wait=lambda: every() and not interrupted(), policy=against.policy,
            root=against.root, dated=against.dated, reader=against.reader,
        )  # fmt: skip
        for said in following:
            one = shown(said) if against.redact and said is not None else said
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
