"""`lore compact`: try a policy of continuous compaction on a recording, or compact a session."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Annotated

import typer
from msgspec.structs import replace

from lore import config
from lore.asking import SummaryError
from lore.commands import common, flags
from lore.compaction.settings import TRIED, Compaction
from lore.config import Loaded
from lore.errors import LoreError
from lore.recording.opening import Options
from lore.report.compacted import write, write_dry_run
from lore.report.plain import visible
from lore.run.checking.verdicts import CheckContext
from lore.run.compaction import dry_run
from lore.run.rules import Dated

INCOMPLETE = 3


class CompactOptions(common.CommonOptions, frozen=True):
    """The options of `lore compact`."""

    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION", help="A lore log or URL#ID; with --dry-run any session log, with --watch a store."
        ),
    ]
    policy: Annotated[
        str | None, typer.Option("--policy", help="A TOML file with the keys of [compaction]; default: the settings.")
    ] = None
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="List where each trigger would have fired, with its cost; write nothing."),
    ] = False
    watch: Annotated[
        bool, typer.Option("--watch", help="Compact the sessions of a store when it is due, until stopped.")
    ] = False
    trigger: Annotated[
        str, typer.Option("--trigger", help="Compact only if this is due: cadence, gap, overflow; manual: now.")
    ] = "manual"
    window: Annotated[
        int | None,
        typer.Option("--window", min=1_000, help="With --dry-run: the window in tokens; compact above 70 % of it."),
    ] = None
    interval: Annotated[
        float, typer.Option("--interval", help="With --watch: seconds between two checks of the store.")
    ] = 10.0
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Write the log with the events to this file; append nothing.")
    ] = None
    force: flags.Force = False
    report: flags.Page = None
    open_page: flags.Open = False
    redact: flags.Redact = False
    as_json: flags.AsJson = False
    format: flags.Format = None


@common.takes(CompactOptions)
def run(options: CompactOptions) -> int:
    """Compact a session now, or try a policy on any recording.

    With --dry-run nothing is written, and no source, command or model is asked. Otherwise the summary, and what outside
    sources say, are appended as events: the log is never shortened, and `lore fold --pruned` shows pruned messages.
    --watch ends with SIGTERM or an interrupt. Exit code 3: no summary could be made, and nothing was done.
    """
    settings = common.settings_to_run(options.config)
    chosen = _policy(options, settings)
    common.refuse(
        (options.window is not None and not options.dry_run, "--window is for --dry-run",
         "otherwise set it in the policy: window = TOKENS"),
        (options.dry_run and (options.watch or options.output is not None or options.trigger != "manual"),
         "--dry-run writes nothing and asks every trigger", "leave the other options out"),
        (options.redact and not options.dry_run, "--redact changes the answer of --dry-run",
         "add --dry-run, or leave --redact out"),
        ((bool(options.report) or options.open_page) and not options.dry_run, "a page shows what --dry-run says",
         "add --dry-run, or leave --report and --open out"),
        (options.watch and (options.output is not None or options.trigger != "manual" or options.as_json),
         "--watch compacts a store by its triggers", "leave -o, --trigger and --json out"),
    )  # fmt: skip
    answer = _dry_run if options.dry_run else _watch if options.watch else _compact
    return answer(options, chosen, settings)


def _policy(options: CompactOptions, settings: Loaded) -> Compaction | None:
    """Return the policy of the file that was named, else that of the settings; None without either."""
    found = settings.settings.compaction if options.policy is None else config.policy(options.policy)
    if options.policy is None and not options.dry_run:
        common.refuse_unapproved(settings, found)
    return found


def _dry_run(options: CompactOptions, policy: Compaction | None, settings: Loaded) -> int:
    from lore.commands.pages import page_target, read_twice, write_pages

    page = page_target(options.report, opens=options.open_page, name="compact", taken=options.as_json)
    if options.window is not None:
        policy = replace(policy or TRIED, window=options.window)
    opening = Options(format=options.format, rules=settings.settings.assemble, log=common.log(options.verbose))
    dated, explain = Dated.of(settings), common.tell if options.verbose else None
    with common.unquoted(redact=options.redact):
        result = dry_run(options.session, opening, policy, dated.rules(), explain=explain)
    result = common.redacted_if(options.redact, result)
    if page is None or page.path:
        write = partial(write_dry_run, verbose=options.verbose)
        common.answer(result, write, as_json=options.as_json, color=options.color)
    if page is not None:
        from lore.recording.inputs import inputs
        from lore.report.html.answers import introduce_dry_run

        files = read_twice(inputs([options.session]))
        context = CheckContext(options=opening, dated=dated, redact=options.redact)
        write_pages(
            page, introduce_dry_run(result), files, context, verbose=options.verbose, colour=options.color
        )  # fmt: skip
    return 0


def _compact(options: CompactOptions, policy: Compaction | None, settings: Loaded) -> int:
    from lore.commands.compact.compaction import compact

    try:
        with _signals(_end, signal.SIGTERM):
            result = compact(options, policy, Dated.of(settings).rules(), settings.settings)
    except SummaryError as error:
        error.message = f"no summary could be made, and nothing was compacted: {error.message}"
        error.exit_code = INCOMPLETE
        raise
    show = partial(write, verbose=options.verbose)
    return common.answer(result, show, as_json=options.as_json, color=options.color)


def _end(number: int, _: object) -> None:
    """End as after an interrupt: sources and summarisers have process groups of their own, and would outlive lore."""
    raise SystemExit(128 + number)


def _watch(options: CompactOptions, policy: Compaction | None, settings: Loaded) -> int:
    from lore.commands.compact.compaction import watch
    from lore.compaction.store_watch import Hands

    if not 0 < options.interval <= 86_400:
        raise LoreError("--interval must be a number of seconds between 0 and a day", hint="the default is 10")

    def wait() -> bool:
        time.sleep(options.interval)
        return True

    def say(text: str) -> None:
        print(visible(text), flush=True)

    hands = Hands(wait, say, common.tell, explain=common.tell if options.verbose else None)
    with suppress(KeyboardInterrupt), _signals(signal.default_int_handler, signal.SIGTERM, signal.SIGINT):
        watch(options.session, policy, Dated.of(settings).rules(), hands, settings.settings)
    return 0


@contextmanager
def _signals(handler: Callable[[int, FrameType | None], None], *signals: int) -> Generator[None]:
    before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
