"""`lore diff-prefix`: two turns, or the pairs of a session that differ."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import Struct

from lore.commands import common, flags
from lore.recording.opening import Options
from lore.report.diff import DiffWriter
from lore.report.sentences.findings import describe_missing
from lore.run.diff import TurnComparison, compared, make_predictors
from lore.tokens.o200k import Counter


class DiffOptions(Struct, frozen=True):
    """The options of `lore diff-prefix`."""

    left: Annotated[str, typer.Argument(help="A recording, a stored session (URL#ID), a turn of one (PATH#N), or `-`.")]
    right: Annotated[
        str | None,
        typer.Argument(help="The later turn; without it LEFT's pairs of turns, or PATH#N with its previous turn."),
    ] = None
    fail_under: Annotated[
        float | None, typer.Option("--fail-under", help="Exit 1 if a pair reuses less than this share (0 to 1).")
    ] = None
    every: Annotated[
        bool, typer.Option("--all", help="Show every pair of a session, also those without a difference.")
    ] = False
    tokens: Annotated[bool, typer.Option("--tokens/--no-tokens", help="Count tokens (o200k_base).")] = True
    cache: Annotated[
        list[str] | None,
        typer.Option("--cache", help="Predict this cache instead of the provider's; repeatable."),
    ] = None
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Answer in JSON; of a session in JSON Lines, one object a pair."),
    ] = False
    dialect: flags.Dialect = None
    tail: flags.Tail = None
    system: flags.System = None
    tools: flags.Tools = None
    format: flags.Format = None
    redact: flags.Redact = False
    reader: flags.For = None
    config: flags.Config = None
    color: flags.Colour = None
    verbose: flags.Verbose = False


@common.takes(DiffOptions)
def run(options: DiffOptions) -> int:
    """Compare two turns: the unchanged prefix, the first difference and its cause.

    With one name, the pairs of a session that differ or lost cached tokens are shown (--all shows every pair); a name
    PATH#N is compared with its previous turn. The provider's cache is predicted for the later turn; with --no-tokens
    only if --cache names one.
    """
    limit = options.fail_under
    no_share = limit is not None and not 0 <= limit <= 1
    common.refuse((no_share, f"--fail-under {limit} is not a share", "give a number from 0 to 1"))
    comparison = _comparison(options)
    writer = None
    if not options.as_json:
        writer = DiffWriter(common.out(options.color), every=options.every, verbose=options.verbose)
    failed, missing = False, set[tuple[str, str]]()
    for diff in compared(options.left, options.right, comparison):
        with common.writing():
            common.write_json(diff) if writer is None else writer.write(diff)
        missing |= {(side.format or "", side.lacks) for side in (diff.left, diff.right) if side.lacks}
        failed = failed or (limit is not None and diff.reuse_ratio is not None and diff.reuse_ratio < limit)
    if writer is not None:
        with common.writing():
            writer.finish()
        for name, what in sorted(missing):
            common.tell(f"note: {describe_missing([name], what)}")
    return 1 if failed else 0


def _comparison(options: DiffOptions) -> TurnComparison:
    """Return how turns are compared: the settings, and the options that override them."""
    loaded = common.found_settings(options.config)
    rules = loaded.settings.assemble
    read = Options(
        format=options.format, dialect=options.dialect, rules=rules,
        policy=common.tail_policy(options.tail, rules.tail), counter=Counter() if options.tokens else None,
        completion=common.completion(options.system, options.tools), log=common.log(options.verbose),
    )  # fmt: skip
    names = options.cache or (loaded.settings.simulate.caches if options.tokens else ())
    dated = common.dated_rules(loaded)
    predictors = make_predictors(dated.rules(), names) if options.tokens or names else ()
    who = common.reader_named(options.reader) or loaded.settings.check.reader
    return TurnComparison(read, options.redact, predictors, dated, who)
