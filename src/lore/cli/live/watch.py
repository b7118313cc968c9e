"""`lore watch`: the running session on a screen."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from lore.cli import flags
from lore.cli.common import dated_rules, found_settings, quiet_pipe, surroundings, write_json

if TYPE_CHECKING:
    from lore.run.live.watch import SessionWatch

HINT = "pip install 'lore-cache[watch]'; `lore statusline` and `lore watch --json` work without it"


@quiet_pipe
def run(
    path: Annotated[
        str | None,
        typer.Argument(help="A recording, or a project's folder; default: this project's newest session, else any."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="No screen: a line of JSON at each change.")] = False,
    redact: flags.Redact = False,
    config: flags.Config = None,
) -> int:
    """Show the running session: prompt size, read and paid again per turn, cache expiry, last break, what to do.

    Follows the log as it grows, and a newer session when one starts. The screen needs the extra
    `lore-cache[watch]` (Textual); q ends it. Nothing is written, and nothing leaves this machine.
    """
    from lore.errors import LoreError
    from lore.recording import corpus
    from lore.recording.opening import Options
    from lore.recording.tailing import check_followable
    from lore.run.live.watch import SessionWatch

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
    try:
        from lore.cli.live.watch_screen import WatchScreen
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise LoreError("the screen of `lore watch` needs Textual, which is not installed", hint=HINT) from None
    screen = WatchScreen(watch, time.time, redact=redact)
    screen.run()
    return screen.return_code or 0


def _lines(watch: SessionWatch, *, redact: bool, every: float = 1.0) -> int:
    """Write a line at each change, until it is interrupted."""
    from lore.model.results.running import running_session
    from lore.report.redacted.results import redacted_running

    while True:
        found = watch.look()
        if found is not None and found.log is not None:
            running = redacted_running(found.log.running) if redact else found.log.running
            write_json(running_session(running, found.shown))
            sys.stdout.flush()
        time.sleep(every)
