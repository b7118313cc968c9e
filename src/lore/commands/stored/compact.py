"""`lore compact`: try a policy of continuous compaction on a recording, or compact a session."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lore.commands import flags
from lore.commands.common import (
    answer,
    dated_rules,
    log,
    quiet_pipe,
    refuse,
    refuse_unapproved,
    settings_to_run,
    tell,
    unquoted,
)
from lore.commands.pages import page_target, read_twice, write_pages

if TYPE_CHECKING:
    from lore.cache.rules import DatedRules
    from lore.compaction.settings import Compaction
    from lore.config import Loaded, Settings
    from lore.recording.opening import Options

INCOMPLETE = 3
_SUMMARIZER = "Who sums up: extractive, command, openai; default: what the policy says."


@quiet_pipe
def run(
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION", help="A lore log or URL#ID; with --dry-run any session log, with --watch a store."
        ),
    ],
    policy: Annotated[
        str | None, typer.Option("--policy", help="A TOML file with the keys of [compaction]; default: the settings.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say where each trigger would have fired and what it costs; write nothing."),
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Compact the sessions of a store when it is due, until stopped.")
    ] = False,
    trigger: Annotated[
        str, typer.Option("--trigger", help="Compact only where this is due: cadence, gap, overflow; manual: now.")
    ] = "manual",
    summarizer: Annotated[str | None, typer.Option("--summarizer", help=_SUMMARIZER)] = None,
    window: Annotated[
        int | None,
        typer.Option("--window", min=1_000, help="With --dry-run: compact before a prompt exceeds so many tokens."),
    ] = None,
    interval: Annotated[float, typer.Option("--interval", help="With --watch: seconds between two looks.")] = 10.0,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Write the log with the events to this file; append nothing.")
    ] = None,
    force: flags.Force = False,
    report: flags.Page = None,
    open_page: flags.Open = False,
    redact: flags.Redact = False,
    as_json: flags.AsJson = False,
    format: flags.Format = None,
    config: flags.Config = None,
    color: flags.Colour = None,
    verbose: flags.Verbose = False,
) -> int:
    """Compact a session now, or try a policy on any recording.

    With --dry-run nothing is written, and no source, command or model is asked. Else the summary, and what outside
    sources say, are appended as events: the log is never shortened, and `lore fold --pruned` shows what went. --watch
    ends with SIGTERM or an interrupt. Exit code 3: no summary could be had, and nothing was done.
    """
    from msgspec.structs import replace

    from lore.compaction.settings import TRIED
    from lore.recording.opening import Options
    from lore.run.rules import chosen

    settings = settings_to_run(config)
    wanted = _policy(policy, settings, summarizer)
    if policy is None and not dry_run:
        refuse_unapproved(settings, wanted)
    options = Options(format=format, rules=settings.settings.assemble, log=log(verbose))
    rules = chosen(None, settings)
    refuse(
        (window is not None and not dry_run, "--window is for --dry-run",
         "else it stands in the policy: window = TOKENS"),
        (dry_run and (watch or output is not None or trigger != "manual"),
         "--dry-run writes nothing and asks every trigger", "leave the other options out"),
        (redact and not dry_run, "--redact is about what --dry-run says", "add --dry-run, or leave --redact out"),
    )  # fmt: skip
    if window is not None:
        wanted = replace(wanted or TRIED, window=window)
    page, hint = page_target(report, opens=open_page, name="compact", taken=as_json), "add --dry-run, or leave"
    refuse((page is not None and not dry_run, "a page shows what --dry-run says", f"{hint} --report and --open out"))
    if dry_run:
        from lore.report.compacted import write_dry_run
        from lore.run.stored import compaction

        with unquoted(redact=redact):
            result = compaction.dry_run(session, options, wanted, rules)
        if redact:
            from lore.report.redacted.results import redacted

            result = redacted(result)
        if page is None or page.path:
            answer(result, partial(write_dry_run, verbose=verbose), as_json=as_json, color=color)
        if page is not None:
            from lore.recording.inputs import inputs
            from lore.report.html.intros import of_dry_run, trials_of
            from lore.run.pages import PageRequest

            write_pages(
                page, of_dry_run(result), read_twice(inputs([session])),
                PageRequest(options, dated=dated_rules(settings), redact=redact), trials=trials_of(result),
                verbose=verbose, colour=color,
            )  # fmt: skip
        return 0
    if watch:
        other = output is not None or trigger != "manual" or as_json
        refuse((other, "--watch compacts a store by its triggers", "leave -o, --trigger and --json out"))
        return _watch(session, wanted, rules, settings, interval)
    return _compact(
        session, options, wanted, rules, trigger, output, settings.settings,
        force=force, as_json=as_json, color=color, verbose=verbose,
    )  # fmt: skip


def _policy(name: str | None, settings: Loaded, summarizer: str | None) -> Compaction | None:
    """Return the policy of the file that was named, else that of the settings; None: there is none."""
    from msgspec.structs import replace

    from lore import config
    from lore.errors import LoreError

    found = settings.settings.compaction if name is None else config.policy(name)
    if found is None or summarizer is None:
        return found
    changed = replace(found, summarizer=summarizer)
    if changed.fault():
        raise LoreError(f"--summarizer {summarizer}: {changed.fault()}")
    return changed


def _compact(
    session: str, options: Options, policy: Compaction | None, rules: DatedRules, trigger: str, output: str | None,
    settings: Settings, *, force: bool, as_json: bool, color: bool | None, verbose: bool,
) -> int:  # fmt: skip
    import signal
    import time

    from lore.asking import SummaryError
    from lore.compaction.policy import TRIGGERS
    from lore.errors import LoreError
    from lore.report.compacted import write
    from lore.run.stored.compaction import CompactRequest, compact

    if trigger not in TRIGGERS:
        raise LoreError(f"unknown trigger {trigger!r}", hint="triggers: " + ", ".join(TRIGGERS))
    try:
        with _signals(_end, signal.SIGTERM):
            request = CompactRequest(trigger, output, time.time, tell, settings, force)
            result = compact(session, options, policy, rules, request)
    except SummaryError as error:
        error.message = f"no summary could be had, and nothing was compacted: {error.message}"
        error.exit_code = INCOMPLETE
        raise
    return answer(result, partial(write, verbose=verbose), as_json=as_json, color=color)


@contextmanager
def _signals(handler: Callable[[int, object], None], *signals: int) -> Generator[None]:
    import signal

    before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def _end(number: int, _: object) -> None:
    """End as by an interrupt: sources and summarisers in groups of their own would outlive lore."""
    raise SystemExit(128 + number)


def _watch(url: str, policy: Compaction | None, rules: DatedRules, settings: Loaded, interval: float) -> int:
    import signal

    from lore.compaction.store_watch import Hands, Stopping
    from lore.errors import LoreError
    from lore.report.plain import visible
    from lore.run.stored.compaction import watch

    if not 0 < interval <= 86_400:
        raise LoreError("--interval must be a number of seconds between 0 and a day", hint="the default is 10")
    stopping = Stopping()
    stop = stopping.asked

    def say(text: str) -> None:
        print(visible(text), flush=True)

    with _signals(stopping.hear, signal.SIGTERM, signal.SIGINT):
        hands = Hands(lambda: not stop.wait(interval), say, tell, is_ended=stop.is_set, waiting=stopping.waiting)
        watch(url, policy, rules, hands, settings.settings)
    return 0
