"""`lore compact`: try a policy of continuous compaction on a recording, compact a session, or watch a store.

Only lore's own logs and stores are written to. A log that gets new events is locked, or the stored head read, before
the session is read; everything is decided and made before the first byte is written, so that an error anywhere changes
nothing. Pruned messages of a stored session are remembered first, if `[memory]` says so, by the plug-in that is
published under the entry-point group `lore.memories`; a log has no memory.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from functools import lru_cache, partial
from types import FrameType
from typing import Annotated

import typer
from msgspec.structs import replace

from lore import config
from lore.asking import SummaryError
from lore.cache.rules import DatedRules
from lore.commands import common, flags
from lore.compaction.activity import UNTIMED, SessionActivity
from lore.compaction.base import CompactionOutcome, SessionMemory, StoreMemory, Trigger
from lore.compaction.costs import PromptSizes, billed_lifetime, cache_costs, compaction_cost, summary_price
from lore.compaction.entries import TimelineSizes, tokens_of
from lore.compaction.executor import Compactor, token_scale
from lore.compaction.policy import TRIGGERS
from lore.compaction.settings import TRIAL_SETTINGS, Compaction
from lore.compaction.store_watch import Watch, WatchCallbacks
from lore.compaction.summarizers import dependencies_of, refuse_nested
from lore.config import Loaded, Settings
from lore.errors import LoreError, lacks_plug_in
from lore.fold.step import Folding
from lore.formats.lore_log import LoreLog
from lore.model.codes import Problem
from lore.model.events import CompactApplied, ContextPersisted, Event, encode
from lore.model.results.compact import CompactResult, FiredTrigger
from lore.model.times import parse_timestamp
from lore.plugins import entry_points
from lore.recording import corpus
from lore.recording.base import Problems
from lore.recording.events import session_log
from lore.recording.opening import Options
from lore.report.compacted import describe_unconfigured, write_compactions, write_dry_run
from lore.report.plain import visible
from lore.run.checking.verdicts import CheckContext
from lore.run.compaction import dry_run
from lore.run.outputs import HINT_CONVERT, Append, appending, open_output
from lore.run.rules import Dated
from lore.store.locks import trylock
from lore.store.registry import address_of, mask_url, open_existing, scheme_of

INCOMPLETE = 3  # exit code
_DEFAULTS = Settings()  # without memory
_MOST_TOLD = 1_024  # messages that a watch prints once each


class CompactOptions(common.CommonOptions, frozen=True):
    """The options of `lore compact`."""

    session: Annotated[str, "SESSION", "A lore log or URL#ID; with --dry-run any session log, with --watch a store."]
    policy: Annotated[str | None, "A TOML file with the keys of [compaction]; default: the settings."] = None
    dry_run: Annotated[bool, "List where each trigger would have fired, with its cost; write nothing."] = False
    watch: Annotated[bool, "Compact the sessions of a store when it is due, until stopped."] = False
    trigger: Annotated[str, "Compact only if this is due: cadence, gap, overflow; manual: now."] = "manual"
    window: Annotated[
        int | None,
        typer.Option("--window", min=1_000, help="With --dry-run: the window in tokens; compact above 70 % of it."),
    ] = None
    interval: Annotated[float, "With --watch: seconds between two checks of the store."] = 10.0
    output: Annotated[str | None, "--output", "-o", "Write the log with the events to this file; append nothing."] = (
        None
    )
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
    policy = settings.settings.compaction if options.policy is None else config.policy(options.policy)
    if options.policy is None and not options.dry_run:
        common.refuse_unapproved_policy(settings, policy)
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
    return answer(options, policy, settings)


def _dry_run(options: CompactOptions, policy: Compaction | None, settings: Loaded) -> int:
    page = common.page_target(options.report, opens=options.open_page, name="compact", in_use=options.as_json)
    if options.window is not None:
        policy = replace(policy or TRIAL_SETTINGS, window=options.window)
    opening = Options(format=options.format, rules=settings.settings.assemble, log=common.log(options.verbose))
    dated, explain = Dated.of(settings), common.tell if options.verbose else None
    with common.redact_errors(redact=options.redact):
        result = dry_run(options.session, opening, policy, dated.rules(), explain=explain)
    result = common.redacted_if(options.redact, result)
    if page is None or page.path:
        show = partial(write_dry_run, verbose=options.verbose)
        common.answer(result, show, as_json=options.as_json, color=options.color)
    if page is not None:
        from lore.commands.pages import write_pages
        from lore.recording.inputs import inputs
        from lore.report.html.page import introduce_dry_run

        files, intro = common.require_rereadable(inputs([options.session])), introduce_dry_run(result)
        context = CheckContext(options=opening, dated=dated, redact=options.redact)
        write_pages(page, intro, files, context, verbose=options.verbose, colour=options.color)
    return 0


def _end(number: int, _: object) -> None:
    """End as after an interrupt: sources and summarisers have process groups of their own, and would outlive lore."""
    raise SystemExit(128 + number)


def _watch(options: CompactOptions, policy: Compaction | None, settings: Loaded) -> int:
    if not 0 < options.interval <= 86_400:
        raise LoreError("--interval must be a number of seconds between 0 and a day", hint="the default is 10")

    def wait() -> bool:
        time.sleep(options.interval)
        return True

    def report(text: str) -> None:
        print(visible(text), flush=True)

    callbacks = WatchCallbacks(wait, report, common.tell, explain=common.tell if options.verbose else None)
    with suppress(KeyboardInterrupt), _signals(signal.default_int_handler, signal.SIGTERM, signal.SIGINT):
        watch(options.session, policy, callbacks, settings.settings)
    return 0


@contextmanager
def _signals(handler: Callable[[int, FrameType | None], None], *signals: int) -> Generator[None]:
    old_handlers = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, old_handler in old_handlers.items():
            signal.signal(number, old_handler)


def memory_maker(settings: Settings) -> Callable[..., StoreMemory] | None:
    """Return the plug-in's maker of memories, None if `[memory]` is off; raises LoreError if no plug-in has one.

    It is published under `lore.memories`, and makes the memory of a store's sessions: `(store, settings, compaction,
    tell=, clock=)`; `compaction` names who is asked.
    """
    if not settings.memory.is_on:
        return None
    points = entry_points("lore.memories")
    if not points:
        raise lacks_plug_in("memory", '[memory] system = "structured" in the settings')
    return points[0].load()


class SessionCompaction:
    """A compaction. Creating it reads the session (raises LoreError). Call `locked`, `make`, `result` in this order."""

    def __init__(self, path: str, options: Options, policy: Compaction, rules: DatedRules) -> None:
        self._path, self._policy, self._rules, self._log = path, policy, rules, options.log
        self._problems, self._activity = Problems(), SessionActivity()
        opened = options.open(path, self._problems)
        recording = session_log(opened, "events: there is no session to compact", hint=HINT_CONVERT)
        for read in recording.reads():
            event: Event = read.value  # pyright: ignore[reportAssignmentType]
            recording.apply(read, event)
            self._activity.add(event)
        self._session, self._chain = recording.state, recording.state.main()

    @contextmanager
    def locked(self, settings: Settings) -> Generator[SessionMemory | None]:
        """Hold the lock of the session's agent and user in its store, or of the log; do not wait for it.

        Yields the memory that a stored session belongs to; None for a log, or if nothing of it is remembered. Raises
        LoreError if another compaction holds the lock.
        """
        address, header = address_of(self._path), self._activity.header
        with ExitStack() as stack:
            store = None
            if address is not None:
                store = stack.enter_context(closing(open_existing(address.url, common.tell)))
            if not stack.enter_context(trylock(store or f"jsonl:{self._path}", *self._activity.owner)):
                label = corpus.show(self._path)
                message = f"another compaction is at work on {label}, or on another session of this user there"
                raise LoreError(message, hint="nothing was done: run the command again later")
            make = None if store is None or header is None else memory_maker(settings)
            if make is None or store is None or header is None:
                yield None
            else:
                yield make(store, settings, self._policy, tell=common.tell, clock=time.time).of_session(header)

    def make(self, trigger: Trigger, memory: SessionMemory | None) -> CompactionOutcome | str:
        """Return the outcome with the events to write, or the reason for writing nothing; raises SummaryError."""
        chain, activity, policy, now = self._chain, self._activity, self._policy, time.time()
        dependencies = dependencies_of(policy, common.tell, self._session.id, *activity.owner)
        compactor = Compactor(policy, dependencies._replace(memory=memory), activity, explain=self._log)
        firing = compactor.due(chain, (trigger,), now)
        few = f"Nothing was compacted: there are no messages except the last {policy.keep_recent}, which stay"
        if firing is None:
            if trigger == "gap" and policy.gap_secs and not activity.chain(chain.id).is_timed:
                return f"Nothing was compacted: {UNTIMED}."
            return f"{few}." if trigger == "manual" else f"Nothing was compacted: no {trigger} is due."
        outcome = compactor.compact(self._session, chain.id, firing, now)
        if outcome.events:
            return outcome
        reason = f"Nothing was compacted: {outcome.refused}" if outcome.refused else few
        return f"{reason}, and no source had anything to say." if firing.window is not None else f"{reason}."

    def result(self, outcome: CompactionOutcome | str, place: str) -> CompactResult:
        """Return the answer: the events were written to `place`, or nothing was."""
        answer = _result(self._path, problems=list(self._problems.kept))
        if isinstance(outcome, str):
            return replace(answer, answer=outcome)
        verb = "appended to" if place == self._path else "written after the log, in"
        count, written = len(outcome.events), corpus.show(mask_url(place))
        events = "1 event was" if count == 1 else f"{count:,} events were"
        notes = [f"nothing was pruned: {outcome.refused}"] if outcome.refused else []
        for event in outcome.events:
            if isinstance(event, CompactApplied) and event.pre_tokens is not None and event.post_tokens is not None:
                sizes = f"{event.pre_tokens:,} tokens before, {event.post_tokens:,} after"
                notes.append(f"the log has {sizes}: estimated from the text alone, and not from the recorded usage")
        return replace(
            answer, triggers=[self._describe(outcome)], events=count, written=written, notes=notes,
            answer=f"{events} {verb} {written}.",
        )  # fmt: skip

    def _describe(self, outcome: CompactionOutcome) -> FiredTrigger:
        """Return the figures of a compaction, with its cost if the prices of the chain's model are known."""
        session, chain, now = self._session, self._chain, time.time()
        folding, scale = Folding(session), token_scale(self._activity, chain, TimelineSizes())
        for event in outcome.events:
            folding.apply(event)
        size, new_size = (scale.prompt(tokens_of(version.entries)) for version in (chain, folding.chain(chain.id)))
        only_adds = all(isinstance(event, ContextPersisted) for event in outcome.events)  # then all of it is read again
        sizes = PromptSizes(size, new_size + outcome.context_tokens, size if only_adds else scale.head)
        usage = None if chain.last is None else chain.last.usage
        cache = cache_costs(
            self._rules, chain.model or session.model, now, size, session.dialect or "", usage=usage,
            params=chain.params, lifetime=billed_lifetime(usage),
        )  # fmt: skip
        summary_input = max(0, size - scale.head) if outcome.pruned else 0
        end = None if chain.last is None else parse_timestamp(chain.last.at)
        is_warm = cache.is_warm(None if end is None else now - end)
        price = summary_price(self._rules, self._policy, summary_input, now)
        cost = compaction_cost(sizes, cache, price, warm=is_warm)
        return FiredTrigger(
            trigger=outcome.trigger, turn=0 if chain.turn is None else chain.turn.turn, at=now, kept=outcome.kept,
            pruned=outcome.pruned, context_tokens=outcome.context_tokens, before_tokens=size,
            after_tokens=sizes.after, cost=cost,
        )  # fmt: skip


def _compact(options: CompactOptions, policy: Compaction | None, loaded: Loaded) -> int:
    """Compact a session if the trigger is due; raises SummaryError without a summary, LoreError for all else."""
    path, trigger, settings, rules = options.session, options.trigger, loaded.settings, Dated.of(loaded).rules()
    if trigger not in TRIGGERS:
        raise LoreError(f"unknown trigger {trigger!r}", hint="triggers: " + ", ".join(TRIGGERS))
    if corpus.parse_name(path).turn is not None and address_of(path) is None:
        raise LoreError(f"{path} is one turn: a session is compacted as a whole", hint="leave #TURN out")
    if options.format not in (None, "lore"):
        raise LoreError(f"lore logs are compacted, not {options.format!r}", hint=HINT_CONVERT)
    refuse_nested()  # before the log's lock is waited for: the program that runs this may hold it
    result = _result(path, describe_unconfigured(mask_url(path)), configured=False)
    if policy is not None:
        opening = Options(format=options.format, rules=settings.assemble, log=common.log(options.verbose))
        if options.output is None:
            writing = appending(path, patience=0)  # another compaction holds the lock for long: do not wait
        else:
            writing, settings = nullcontext(_copying(path, options.output, force=options.force)), _DEFAULTS
        try:
            with _signals(_end, signal.SIGTERM), writing as append:
                compaction = SessionCompaction(path, opening, policy, rules)
                with compaction.locked(settings) as memory:
                    outcome = compaction.make(trigger, memory)
                    if isinstance(outcome, CompactionOutcome):
                        append(outcome.events)
        except SummaryError as error:
            error.message = f"no summary could be made, and nothing was compacted: {error.message}"
            error.exit_code = INCOMPLETE
            raise
        result = compaction.result(outcome, options.output or path)
    show = partial(write_compactions, verbose=options.verbose)
    return common.answer(result, show, as_json=options.as_json, color=options.color)


def _copying(path: str, output: str, *, force: bool) -> Append:
    """Return a function that writes the log and new events to another file; the log is neither locked nor changed."""
    if output == corpus.STDIN or scheme_of(output) is not None:
        raise LoreError(f"--output names a file, and {corpus.show(mask_url(output))} is none", hint="name another one")
    data = b"".join(corpus.pieces(path))
    if not LoreLog.recognises(data[: corpus.HEAD]):
        raise LoreError(f"{corpus.show(path)} is not a lore log", hint=HINT_CONVERT)

    def write_copy(events: Iterable[Event]) -> None:
        inputs = () if address_of(path) is not None else (path,)
        with open_output(output, force=force, inputs=inputs) as file:
            file.write(data if data.endswith(b"\n") or not data else data + b"\n")
            file.writelines(encode(event) + b"\n" for event in events)

    return write_copy


def _result(
    path: str, answer: str = "", *, configured: bool = True, problems: list[Problem] | None = None
) -> CompactResult:  # fmt: skip
    return CompactResult(
        session=corpus.show(mask_url(path)), configured=configured, triggers=[], events=0, written=None, answer=answer,
        notes=[], problems=problems or [],
    )  # fmt: skip


def watch(url: str, policy: Compaction | None, callbacks: WatchCallbacks, settings: Settings = _DEFAULTS) -> int:
    """Watch a store, folding and remembering its sessions; raises LoreError if it is missing, or no trigger is on."""
    refuse_nested()
    remembers = settings.memory.is_on and settings.sessions.gap_secs > 0
    if policy is not None:
        if not (policy.continuous_interval or policy.gap_secs or policy.window or remembers):
            hint = "set continuous_interval, gap_secs or window"
            raise LoreError("the policy switches no trigger on", hint=hint)
        dependencies_of(policy, callbacks.tell, "")  # raises LoreError for missing ones before anything is read
    elif not remembers:
        raise LoreError("nothing is configured: no session would ever be compacted", hint="give --policy FILE")
    make = memory_maker(settings)
    with closing(open_existing(url, lru_cache(_MOST_TOLD)(callbacks.tell))) as store:  # each message once
        callbacks.tell(f"watching {mask_url(url)}")
        memory = None if make is None else make(store, settings, policy, tell=callbacks.tell, clock=callbacks.clock)
        return Watch(store, policy, callbacks, memory, divider=settings.assemble.divider).run()
