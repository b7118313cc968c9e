"""`lore simulate`: predict reads and writes of a prompt cache, next to the billed ones."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from lore.commands import common, flags
from lore.commands.pages import page_target, read_twice, write_pages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lore.commands.pages import PageTarget
    from lore.model.results.simulate import SimulateResult
    from lore.recording.inputs import Input
    from lore.run.pages import PageRequest

Form: TypeAlias = Literal["json", "csv", "markdown", "reliability", "turns"]


@common.quiet_pipe
def run(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Sessions, captures, folders, patterns ('logs/**/*.jsonl'), or `-`; default: where agents keep logs."
        ),
    ] = None,
    last: flags.Last = False,
    since: flags.Since = None,
    cache: Annotated[
        list[str] | None,
        typer.Option("--cache", help="Simulate this cache (NAME, NAME:OPTION=VALUE,…), whoever served it; repeatable."),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option("--what-if", help="Simulate a change (ttl=1h, cause=CODE, …); without a value: every fix."),
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", help="Print the dated rules and prices instead.")] = False,
    rules_file: Annotated[
        str | None, typer.Option("--rules-file", help="A TOML file of rules that override lore's own.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="With --rules: those that hold for this model.")] = None,
    provider: Annotated[str | None, typer.Option("--provider", help="With --rules: those of this provider.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Answer in CSV, a line a turn.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Answer in Markdown: sums and costliest turns.")] = False,
    by: Annotated[
        str | None,
        typer.Option("--by", help="reliability: how often everything cached was read, by model, hour, gateway."),
    ] = None,
    measured: Annotated[
        list[str] | None,
        typer.Option(
            "--measured",
            metavar="LOG",
            help="Log of the engine that served the requests (vLLM, SGLang, llama-server), or scrapes of its /metrics: "
            "print measured reads next to predicted ones; repeatable.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show every turn; default: those that lost tokens.")] = False,
    report: flags.Page = None,
    open_page: flags.Open = False,
    redact: flags.Redact = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Answer in JSON; of several caches in JSON Lines, one object a cache.")
    ] = False,
    format: flags.Format = None,
    dialect: flags.Dialect = None,
    reader: flags.For = None,
    config: flags.Config = None,
    color: flags.Colour = None,
    verbose: flags.Verbose = False,
) -> int:
    """Predict what a cache reads, writes and costs.

    Each turn that lost tokens has a row (--all: every turn): its time in UTC, the tokens predicted to be read, those
    billed, and the cause of the loss. A prediction is made before the usage of its turn is read.

    Exit code 2 if a name cannot be read, 3 if a recording could be read only in part.
    """
    from lore.judge.totals import is_unjudged
    from lore.recording.corpus import is_stream
    from lore.recording.inputs import inputs
    from lore.recording.opening import Options
    from lore.run.pages import PageRequest
    from lore.run.rules import chosen
    from lore.run.simulate import SimulateRequest, simulate
    from lore.tokens.o200k import Counter

    common.refuse(
        (csv + as_json + markdown > 1, "--csv, --json and --markdown: two answers at once", "choose one"),
        (by not in (None, "reliability"), f"--by {by} is not known", "--by reliability"),
        (bool(measured) and by is not None, "--by shows no measured reads", "leave it out with --measured"),
        (not rules and (model is not None or provider is not None), "--model and --provider choose among --rules",
         "or try --what-if model=NAME"),
    )  # fmt: skip
    settings = common.found_settings(config)
    table = chosen(rules_file, settings)
    if rules:
        from lore.report.simulation import write_rules
        from lore.run.rules import listed

        return common.answer(listed(table, provider=provider, model=model), write_rules, as_json=as_json, color=color)
    options = Options(
        format=format, dialect=dialect, rules=settings.settings.assemble, counter=Counter(), log=common.log(verbose)
    )
    dated = common.dated_rules(settings)
    if rules_file is not None:
        dated = dated._replace(path=rules_file)
    caches = tuple(cache or settings.settings.simulate.caches)
    who = common.reader_named(reader) or settings.settings.check.reader
    page = page_target(report, opens=open_page, name="simulate", taken=csv or as_json or markdown)
    common.refuse((page is not None and len(caches) > 1, "a page shows one cache", "give --cache once"))
    which = flags.chosen_inputs(paths or [], last=last, since=since, format=format)
    drawn = [] if page is None else read_twice(inputs(which.paths, which.wanted))
    form: Form = "json" if as_json else "csv" if csv else "markdown" if markdown else "reliability" if by else "turns"
    with (
        common.progress(wanted=not verbose, colour=color, what="simulating") as progress,
        common.interruptible(wanted=not any(map(is_stream, which.paths))) as interrupted,
    ):
        request = SimulateRequest(
            which.paths, caches, tuple(what_if or ()), dated, who, which.looked, redact, which.wanted, progress,
            interrupted, tuple(measured or ()),
        )  # fmt: skip
        results = list(_results(simulate(request, options, table), redact=redact))
    shown_as = PageRequest(options, caches[0] if caches else None, dated, redact, who)
    writer = _Writer(form, every, verbose, color, page, drawn, shown_as)
    for result in results:
        if result.interrupted and not result.turns:
            break
        writer.write(result)
    if any(result.interrupted for result in results):
        return common.INTERRUPTED
    return 3 if any(is_unjudged(problem) for result in results for problem in result.problems) else 0


def _results(results: Iterator[SimulateResult], *, redact: bool) -> Iterator[SimulateResult]:
    with common.unquoted(redact=redact):
        if not redact:
            yield from results
            return
        from lore.report.redacted.results import redacted

        yield from map(redacted, results)


@dataclass(slots=True)
class _Writer:
    """Writes results on standard output in one form, and as pages."""

    form: Form
    every: bool  # show every turn
    verbose: bool
    colour: bool | None
    page: PageTarget | None
    drawn: list[Input]  # the recordings that the page shows
    shown_as: PageRequest
    written: int = 0  # results

    def write(self, result: SimulateResult) -> None:
        """Write a result, and its page unless it was interrupted."""
        if self.page is None or self.page.path:  # else the page is the answer
            self._write_form(result)
            self.written += 1
        if result.interrupted and self.form != "turns":
            from lore.report.sentences.findings import describe_interruption

            common.tell(describe_interruption(result.interrupted))
        if self.page is not None and not result.interrupted:
            from lore.report.html.intros import of_simulation

            intro = of_simulation(result)
            write_pages(self.page, intro, self.drawn, self.shown_as, verbose=self.verbose, colour=self.colour)

    def _write_form(self, result: SimulateResult) -> None:
        match self.form:
            case "json":
                common.write_json(result)
            case "csv":
                from lore.report.simulated_turns import write_csv

                write_csv(result, sys.stdout, header=not self.written)
            case "markdown":
                from lore.report.forms.markdown import simulated_lines

                sys.stdout.writelines(f"{text}\n" for text in simulated_lines(result))
            case "reliability":
                from lore.report.simulation import write_reliability

                write_reliability(result, common.out(self.colour))
            case "turns":
                from lore.report.simulation import write

                write(result, common.out(self.colour), every=self.every, verbose=self.verbose)
