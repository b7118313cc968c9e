"""The first part of a page: the text that the command writes to a terminal, and costs as bars.

Results are redacted before they come here, if at all.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter

from msgspec import UNSET

from lore.judge.sums import is_part, rebilled_dollars
from lore.model.results.compact import DryRunResult
from lore.model.results.lint import LintResult
from lore.model.results.overview import Comparison, Overview, Spending, SpendingCause
from lore.model.results.simulate import SimulateResult
from lore.report import compacted, overview, simulation
from lore.report.commands import OverviewSelection, shorten_path
from lore.report.comparison import conclusions, write_comparison
from lore.report.console import Console
from lore.report.forms.lint import LintTerminal
from lore.report.forms.terminal import Reported, Terminal
from lore.report.html.blocks import SHOWN_BARS, BarPart, Intro, PageBar, PageBlock, table_of
from lore.report.measured import engine_measures
from lore.report.plain import counted
from lore.report.sentences.findings import describe_rebilled, describe_surcharges, in_dollars
from lore.report.sentences.spending import label_of
from lore.report.status_line import percent

_LITTLE = 0.01  # of the cost of all causes
SHOWN_LINES = 2_000  # of a terminal
SHOWN_FINDINGS = 20  # more are folded
_STYLES = {"reading": "read", "context": "written", "paid_again": "waste"}  # of parts of a cost, if not their name


def describe_spending(spending: Spending) -> str:
    """Return what requests cost and how much of that was re-billed: a sentence a line."""
    what = counted(spending.requests, "request")
    if spending.subagent_requests:
        what += f", {spending.subagent_requests:,} of them of subagents"
    recorded = f"cost as recorded: {overview.money(spending.recorded_dollars)}" if spending.recorded_dollars else ""
    parts = (
        f"{overview.cost_of(spending)} for {what}", overview.unpriced_parts(spending),
        overview.describe_rebilled_part(spending), *describe_surcharges(spending.surcharges), recorded,
    )  # fmt: skip
    return "\n".join(f"{text[:1].upper()}{text[1:]}." for text in parts if text)


_AS_READ = "Re-billed is what these tokens cost more than reading them; that price is part of reading cached context."


def money_block(spending: Spending) -> PageBlock:
    """Show the parts of a cost as one bar; nothing if no price is known."""
    if not spending.dollars:
        return PageBlock()
    parts = tuple([
        BarPart(style, size, f"{words} {overview.money(size)} ({percent(size / spending.dollars)})")
        for style, size, words in _money_parts([spending])
    ])  # fmt: skip
    return PageBlock("Where the money went", (_AS_READ,) if rebilled_dollars(spending) else (), (PageBar("", parts),))


def _money_parts(spending: Sequence[Spending]) -> tuple[BarPart, ...]:
    parts = list[BarPart]()
    for name, words in overview.COST_PARTS.items():
        size = sum(getattr(entry, name) or 0.0 for entry in spending)
        parts += [BarPart(_STYLES.get(name, name), size, words)] if size > 0 else []
    return tuple(parts)


def causes_block(causes: Sequence[SpendingCause], title: str = "Re-billed, by cause") -> PageBlock:
    """Show tokens by cause, the costliest first, with the fix of each; several of less than 1 % are one row."""
    least = _LITTLE * sum(cause.dollars or 0.0 for cause in causes)
    small = [cause for cause in causes if cause.dollars is not None and cause.dollars < least]
    small = small if len(small) > 1 else []
    rows = [
        ("–" if cause.dollars is None else overview.money(cause.dollars), f"{cause.tokens:,}", f"{cause.turns:,}",
         cause.says + label_of(cause), cause.fix, cause.code)
        for cause in sorted(causes, key=lambda cause: (-(cause.dollars or 0.0), -cause.tokens)) if cause not in small
    ]  # fmt: skip
    if small:
        amounts = [sum(getattr(cause, name) or 0 for cause in small) for name in ("dollars", "tokens", "turns")]
        cost, tokens, turns = overview.money(amounts[0]), f"{amounts[1]:,}", f"{amounts[2]:,}"
        rows.append((cost, tokens, turns, f"{len(small):,} other causes, each less than 1 %", "lore -v shows them", ""))
    heads = ("cost", "tokens", "turns", "cause", "fix", "code")
    return PageBlock(title, table=table_of([heads, *rows])) if rows else PageBlock()


def period_blocks(days: Sequence[Spending]) -> Iterator[PageBlock]:
    """Yield the cost by day, week and month as bars; the finest that fits on a screen is open."""
    is_open = False
    for name, limit, key in (
        ("day", 31, str),
        ("week", 26, overview.week_of),
        ("month", SHOWN_BARS, itemgetter(slice(7))),
    ):
        groups = defaultdict[str, list[Spending]](list)
        for day in days:
            groups[key(day.name)].append(day)
        if not any(day.dollars for day in days) or len(groups) == 1:
            continue
        bars = list[PageBar]()
        for group, group_days in list(groups.items())[-SHOWN_BARS:]:
            amounts = [day.dollars for day in group_days if day.dollars is not None]
            cost = overview.money(sum(amounts), is_part=any(map(is_part, group_days))) if amounts else "no known price"
            bars.append(PageBar(f"{group}: {cost}", _money_parts(group_days)))
        folded = is_open or len(groups) > limit
        is_open |= not folded
        lines = (f"the last {SHOWN_BARS} of {len(groups):,}",) if len(groups) > SHOWN_BARS else ()
        yield PageBlock(f"By {name}", lines, tuple(bars), folded=folded)


def introduce_overview(result: Overview, days: Sequence[Spending]) -> Intro:
    """Introduce what agents spent on this machine."""
    is_one = result.total.sessions == 1  # its own part of the page has cost and causes
    causes = causes_block([*result.causes, *result.unexplained])
    missed = causes_block(result.missed, "Not re-billed, but could have been read from a cache")
    blocks = [*(() if is_one else (money_block(result.total), causes)), missed, *period_blocks(days)]
    if len(result.agents) > 1:
        blocks += capture(partial(overview.write_groups, result.agents, "agent"), "By agent")
    if result.by in ("model", "project"):
        blocks += capture(partial(overview.write_groups, result.groups, result.by), f"By {result.by}")
    lines = [f"not read: {failure}" for failure in result.failed[:5]]
    if result.inherited is not None:
        lines.append(f"not in the cost: {overview.describe_inherited(result.inherited)}")
    lines += [f"not read: {logs.title}, {counted(logs.files, 'file')}: {logs.message}" for logs in result.unread]
    heading = f"What agents spent, {overview.span_in_words(result.since, result.until)}"
    actions = zip(("Do first", "Then"), overview.actions_of(result, OverviewSelection()), strict=False)
    first = [f"{when}: {action.fix} ({action.reasons[0]})." for when, action in actions]
    parts = (*first, describe_spending(result.total), *(f"{note}." for note in result.notes))
    lead = "" if is_one else "\n".join(filter(None, parts))
    return Intro("lore", heading, lead, (*blocks, PageBlock(lines=tuple(lines))))


def introduce_report(result: Reported, *, verbose: bool = False) -> Intro:
    """Introduce what `lore check` or `lore lint` found; `verbose` lists notes, too."""
    if isinstance(result, LintResult):
        blocks = capture(partial(LintTerminal().write, result, verbose=verbose))
        summary = f"{counted(len(result.findings), 'finding')} in {counted(len(result.requests), 'request')}"
        return Intro("lore lint", "lore lint", summary, blocks)
    sums = describe_rebilled(result.summary, has_grounds=False)
    lead = "\n".join(f"{text[:1].upper()}{text[1:]}" for text, _ in sums)
    is_one = result.summary.files == 1  # its own part of the page has the same sums, causes and fixes
    folded = is_one or len(result.findings) > SHOWN_FINDINGS
    blocks = capture(partial(Terminal().write, result, verbose=verbose), "Findings and sums", folded=folded)
    return Intro("lore check", "lore check", "" if is_one else lead, blocks)


def introduce_simulation(result: SimulateResult) -> Intro:
    """Introduce the prediction of a cache, and how it compares with the usage."""
    totals = result.totals
    lead = f"{totals.waste_tokens:,} tokens re-billed as waste{in_dollars(totals.cost.waste)}."
    if totals.unexplained_tokens:
        unexplained = in_dollars(totals.cost.unexplained)
        lead += f" {totals.unexplained_tokens:,} tokens re-billed, no certain cause{unexplained}."
    blocks = capture(partial(simulation.write_simulated, result, turns=False), "Predicted and billed")
    if result.measured is not UNSET and (view := engine_measures()) is not None:
        blocks = (view.block(result.measured), *blocks)
    return Intro("lore simulate", f"lore simulate, cache: {result.cache or 'as served'}", lead, blocks)


def introduce_dry_run(result: DryRunResult) -> Intro:
    """Introduce what a policy of compaction would have done to a session."""
    blocks = capture(partial(compacted.write_dry_run, result))
    return Intro("lore compact --dry-run", "Compacting this session", result.answer, blocks)


def introduce_comparison(result: Comparison) -> Intro:
    """Introduce two sides, and what differs between them beyond chance."""
    heading = f"{shorten_path(result.left.name)} and {shorten_path(result.right.name)}"
    lead = "\n".join(conclusions(result)[:1])
    return Intro("lore compare", heading, lead, capture(partial(write_comparison, result)))


def capture(write: Callable[[Console], object], title: str = "", *, folded: bool = False) -> tuple[PageBlock, ...]:
    """Return what a report writes to a terminal as blocks: its tables, and the lines between them."""
    text, blocks = io.StringIO(), list[PageBlock]()
    out = Console(text, colour=False, terminal=False)

    def end_lines() -> None:
        lines = text.getvalue().strip("\n").split("\n")
        omitted = [f"{len(lines) - SHOWN_LINES:,} lines more"] if len(lines) > SHOWN_LINES else []
        if lines != [""]:
            blocks.append(PageBlock(lines=(*lines[:SHOWN_LINES], *omitted)))
        text.seek(0)
        text.truncate()

    def on_table(cells: Sequence[tuple[str, ...]]) -> None:
        end_lines()
        blocks.append(PageBlock(table=table_of(cells)))

    out.on_table = on_table
    write(out)
    end_lines()
    return tuple([block._replace(title="" if number else title, folded=folded) for number, block in enumerate(blocks)])
