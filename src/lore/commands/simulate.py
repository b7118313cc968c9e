"""`lore simulate`: predict reads and writes of a prompt cache, next to the billed ones."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import typer

from lore.cache.rules import FOR_READING, DatedRules
from lore.cache.served import normal_name
from lore.commands import common, flags
from lore.errors import LoreError
from lore.judge.totals import list_unjudged
from lore.model.patterns import matches_shell
from lore.model.results import copy_fields
from lore.model.results.simulate import RuleResult, RulesResult, SimulateResult
from lore.recording.corpus import is_stream
from lore.recording.inputs import Input, inputs
from lore.recording.opening import Options
from lore.report.sentences import describe_interruption
from lore.report.simulation import write_reliability, write_rules, write_simulated
from lore.run.checking.check import CheckRun
from lore.run.checking.verdicts import CheckContext
from lore.run.rules import Dated
from lore.run.simulation import simulate
from lore.tokens.o200k import Counter


class SimulateOptions(common.CommonOptions, frozen=True):
    """The options of `lore simulate`."""

    paths: flags.Paths = None
    last: flags.Last = False
    since: flags.Since = None
    until: flags.Until = None
    cache: Annotated[
        list[str] | None, "Simulate this cache (NAME, NAME:OPTION=VALUE,…), whoever served it; repeatable."
    ] = None
    what_if: Annotated[list[str] | None, "Simulate a change (ttl=1h, cause=CODE, …); without a value: every fix."] = (
        None
    )
    rules: Annotated[bool, "Print the dated rules and prices instead."] = False
    rules_file: Annotated[str | None, "A TOML file of rules that override lore's own."] = None
    model: Annotated[str | None, "With --rules: those that hold for this model."] = None
    by: Annotated[str | None, "reliability: how often everything cached was read, by model, hour, gateway."] = None
    measured: Annotated[
        list[str] | None,
        typer.Option(
            "--measured",
            metavar="LOG",
            help="Log of the engine that served the requests (vLLM, SGLang, llama-server), or scrapes of its /metrics: "
            "print measured reads next to predicted ones; repeatable.",
        ),
    ] = None
    every: Annotated[bool, "--all", "Show every turn; default: those that lost tokens."] = False
    report: flags.Page = None
    open_page: flags.Open = False
    redact: flags.Redact = False
    as_json: Annotated[bool, "--json", "Answer in JSON; of several caches in JSON Lines, one object a cache."] = False
    format: flags.Format = None
    dialect: flags.Dialect = None
    audience: flags.For = None


@common.takes(SimulateOptions)
def run(options: SimulateOptions) -> int:
    """Predict what a cache reads, writes and costs.

    Each turn that lost tokens has a row; of more than 20, those that lost most (-v: all, --all: every turn). A row has
    its time in UTC, the tokens predicted to be read, those billed, and the cause of the loss. A prediction is made
    before the usage of its turn is read.

    Exit code 2 if no input is a recording, 3 if some input, or a part of it, could not be read.
    """
    common.refuse(
        (options.by not in (None, "reliability"), f"--by {options.by} is not known", "--by reliability"),
        (bool(options.measured) and options.by is not None, "--by shows no measured reads",
         "leave it out with --measured"),
        (options.model is not None and not options.rules, "--model chooses among --rules",
         "or try --what-if model=NAME"),
        (options.rules and bool(options.cache), "--rules lists the rules of all caches",
         "leave out --cache; --model NAME lists those of one model"),
    )  # fmt: skip
    settings = common.find_settings(options.config)
    dated = Dated.of(settings, options.rules_file or "")
    if options.rules:
        answer = list_rules(dated.rules(), options.model)
        return common.answer(answer, write_rules, as_json=options.as_json, color=options.color)
    context = CheckContext(
        options=Options(
            format=options.format, dialect=options.dialect, rules=settings.settings.assemble, counter=Counter(),
            log=common.log(options.verbose),
        ),
        dated=dated, redact=options.redact,
        audience=common.audience_named(options.audience) or settings.settings.check.reader,
    )  # fmt: skip
    caches = tuple(options.cache or settings.settings.simulate.caches)
    page = common.page_target(options.report, opens=options.open_page, name="simulate", in_use=options.as_json)
    common.refuse((page is not None and len(caches) > 1, "a page shows one cache", "give --cache once"))
    selection = common.chosen_inputs(
        options.paths or [], last=options.last, since=options.since, until=options.until, format=options.format,
        command="simulate",
    )  # fmt: skip
    page_files = [] if page is None else common.require_rereadable(inputs(selection.paths, selection.accepts))
    with (
        common.progress(is_on=not options.verbose, colour=options.color, what="simulating") as progress,
        common.interruptible(is_on=not any(map(is_stream, selection.paths))) as interrupted,
        common.redact_errors(redact=options.redact),
    ):
        job = CheckRun(
            accepts=selection.accepts, looked=selection.looked, pass_over=bool(selection.looked), progress=progress,
            interrupted=interrupted,
        )  # fmt: skip
        answer = simulate(
            selection.paths, context, job, caches=caches, changes=options.what_if or (), measured=options.measured or ()
        )
        results = [common.redacted_if(options.redact, result) for result in answer]
    return _answer(results, options, page, page_files, context)


def _answer(
    results: list[SimulateResult], options: SimulateOptions, page: common.PageTarget | None, page_files: list[Input],
    context: CheckContext,
) -> int:  # fmt: skip
    """Write the results, and the page of each; return the exit code."""
    for result in results:
        if result.interrupted and not result.turns:
            break
        if page is not None and not page.path:  # the page is the answer
            pass
        elif options.as_json:
            common.write_json(result)
        elif options.by:
            write_reliability(result, common.out(options.color))
        else:
            only = bool(options.what_if) and not (options.every or options.verbose)
            out = common.out(options.color)
            write_simulated(result, out, every=options.every, verbose=options.verbose, changes_only=only)
        if result.interrupted and (options.as_json or options.by):
            common.tell(describe_interruption(result.interrupted))
        if page is not None and not result.interrupted:
            from lore.commands.pages import write_pages
            from lore.report.html.page import introduce_simulation

            write_pages(
                page, introduce_simulation(result), page_files, context, verbose=options.verbose, colour=options.color,
                cache=result.cache,
            )  # fmt: skip
    if any(result.interrupted for result in results):
        return common.INTERRUPTED
    problems = results[0].problems if results else []
    with_turns = {turn.path for result in results[:1] for turn in result.turns}
    unjudged = [fault for fault in problems if list_unjudged([fault], fault.file in with_turns, has_findings=False)]
    common.name_unjudged(unjudged, verbose=options.verbose)
    return common.exit_code(unjudged, judged=sum(len(result.turns) for result in results))


def list_rules(rules: DatedRules, model: str | None = None) -> RulesResult:
    """Return all rows, or those that hold for a model at its providers; raises LoreError for an unknown model."""
    rows = rules.rows
    if model is not None:
        rows = [row for row in rows if matches_shell(row.model, normal_name(model))]
        providers = {row.provider for row in rows if row.model != "*"}
        if not providers:
            raise LoreError(f"no rule names the model {model}", hint="lore simulate --rules lists all rules")
        rows = [row for row in rows if row.provider in {*providers, "*"}]
    results: list[RuleResult] = []
    for row in rows:
        value = row.value
        if isinstance(value, Decimal):
            value = int(value) if value == int(value) else float(value)
        fields = {"value": value, "valid_from": row.valid_from.isoformat(), "used": row.rule not in FOR_READING}
        results.append(copy_fields(RuleResult, row, **fields))
    return RulesResult(as_of=None if rules.as_of is None else rules.as_of.isoformat(), rules=results)
