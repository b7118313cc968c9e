"""The beginning of a page: what a command answered, and the list of its sessions, as blocks.

In: results, redacted already where that was asked for; sessions, or what they came to. Out: an `Intro` each, a block.
The sentences are those that a terminal shows, made where those are made; sessions stand in the order of what was paid
again, and are sorted by a click.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from msgspec import UNSET

from lore.model.fact import format_money
from lore.model.results import CheckResult, Finding
from lore.model.results.compact import CompactedSide, DryRunResult, FiredTrigger
from lore.model.results.lint import LintResult
from lore.model.results.overview import Comparison, Overview, Spending
from lore.model.results.page import PageSession
from lore.model.results.simulate import Saving, SimulateResult
from lore.report.compacted import side_in_words, signed
from lore.report.comparison import about_side, cause_in_cells, conclusions, measure_in_words
from lore.report.console import Console
from lore.report.forms import terminal
from lore.report.forms.lint import answer_in_words
from lore.report.html.blocks import Cell, PageBlock, PageLink, PageTable, Strip, Swatch, amount_of, count, strip
from lore.report.html.page import page
from lore.report.html.session import MONEY, causes_block, lead_of, money_block, name_of
from lore.report.measured import measured_view
from lore.report.overview import cost_of, share_read, span_in_words
from lore.report.plain import counted, when
from lore.report.simulation import agreement_lines

Weight: TypeAlias = tuple[float, int, float]
_HEADS = (
    "session", "project", "began", "requests", "cost", "re-billed", "unexplained", "tokens re-billed", "breaks",
    "read", "largest prompt", "",
)  # fmt: skip
_NUMBERS = frozenset(range(2, 11))


class ListedSession(NamedTuple):
    """A session in the list; `href` leads to its page, empty where it has none; `message`: it could not be read on."""

    path: str
    project: str | None = None
    began: float | None = None
    spending: Spending | None = None
    href: str = ""
    message: str = ""
    title: str = ""

    @property
    def weight(self) -> Weight:
        """What it lost, for the order: dollars, tokens, its cost."""
        sums = self.spending
        if sums is None:
            return 0.0, 0, 0.0
        return (
            (sums.paid_again or 0.0) + (sums.unexplained or 0.0), sums.paid_again_tokens + sums.unexplained_tokens,
            sums.dollars or 0.0,
        )  # fmt: skip


def row_of(session: PageSession) -> ListedSession:
    """Return a session's row."""
    return ListedSession(session.path, session.project, session.began, session.spending, message=session.message or "",
                         title=session.title or "")  # fmt: skip


def list_block(rows: Sequence[ListedSession]) -> PageBlock:
    """Show sessions, those that lost most first."""
    ordered = sorted(rows, key=lambda row: row.weight, reverse=True)
    names = [row.title or name_of(row.path) for row in ordered]
    shown = [name if names.count(name) == 1 else row.path for name, row in zip(names, ordered, strict=True)]
    table = PageTable(
        _HEADS, [_row(row, name) for row, name in zip(ordered, shown, strict=True)], _NUMBERS, sortable=True
    )
    return PageBlock(f"Sessions ({len(ordered):,})", table=table)


def _row(row: ListedSession, name: str) -> tuple[Cell, ...]:
    sums, project = row.spending, name_of((row.project or "").replace("\\", "/"))
    session: Cell = PageLink(name, row.href) if row.href else name
    if sums is None:
        return session, project, when(row.began), *("–",) * 8, row.message
    return (
        session, project, when(row.began), count(sums.requests), amount_of(sums.dollars), amount_of(sums.paid_again),
        amount_of(sums.unexplained), count(sums.paid_again_tokens + sums.unexplained_tokens), count(sums.breaks),
        share_read(sums), count(sums.largest_prompt_tokens), row.message,
    )  # fmt: skip


FINDINGS = 200  # that a page lists, the worst first


class Html:
    """What `lore check` and `lore lint` found as one page for a browser; sessions are added by `run.html_report`."""

    mixes = False

    def write(self, result: terminal.Reported, out: Console, *, verbose: bool) -> None:
        intro = of_report(result, verbose=verbose)
        out.file.write(page(intro.title, heading=intro.heading, lead=intro.lead, blocks=intro.blocks))


class Intro(NamedTuple):
    """A page's title, heading and first sentence; blocks before its sessions, and `closing` ones behind them."""

    title: str
    heading: str
    lead: str
    blocks: tuple[PageBlock, ...] = ()
    closing: tuple[PageBlock, ...] = ()


def of_report(result: terminal.Reported, *, verbose: bool = False) -> Intro:
    """Introduce what `lore check` or `lore lint` found."""
    return of_check(result, verbose=verbose) if isinstance(result, CheckResult) else _of_lint(result, verbose=verbose)


def _of_lint(result: LintResult, *, verbose: bool) -> Intro:
    found = terminal.worst_first(terminal.shown(result.findings, verbose=verbose))
    rows: list[tuple[Cell, ...]] = [
        (request.path, count(request.turn), request.dialect, request.model or "", answer_in_words(request)[1])
        for request in result.requests[:FINDINGS]
    ]
    heads = ("request", "turn", "dialect", "model", "what a cache would keep")
    block = PageBlock(
        f"Requests ({len(result.requests):,})", table=PageTable(heads, rows, frozenset((1,)), sortable=True)
    )
    lead = f"{counted(len(found), 'finding')} in {counted(len(result.requests), 'request')}."
    return Intro("lore lint", "lore lint", lead, (_findings(found, folded=False), block))


def of_check(result: CheckResult, *, verbose: bool = False) -> Intro:
    """Introduce the recordings that `lore check` judged; `verbose` lists notes, too."""
    found = terminal.worst_first(terminal.shown(result.findings, verbose=verbose))
    found = found if verbose else terminal.once_a_file(found)
    lead, *rest = terminal.sums_lines(result.summary)
    lines = (*rest, *terminal.unseen_lines(result))
    return Intro("lore check", "lore check", lead, (PageBlock(lines=lines), _top(result), _findings(found)))


def _top(result: CheckResult) -> PageBlock:
    if not result.top:
        return PageBlock()
    rows: list[tuple[Cell, ...]] = [
        (amount_of(cause.lost_dollars), count(cause.lost_tokens),
         count(cause.breaks), f"{cause.code} {cause.name}", cause.kind, cause.fix)
        for cause in result.top
    ]  # fmt: skip
    heads = ("cost", "tokens", "breaks", "cause", "kind", "what to do")
    return PageBlock("The costliest causes", table=PageTable(heads, rows, frozenset((0, 1, 2))))


def _findings(found: Sequence[Finding], *, folded: bool = True) -> PageBlock:
    if not found:
        return PageBlock("Findings", ("None that is worse than a note.",))
    rows: list[tuple[Cell, ...]] = [
        (finding.severity, f"{finding.code} {finding.name}", count(finding.lost_tokens),
         terminal.describe_place([finding]), finding.message, finding.fix)
        for finding in found[:FINDINGS]
    ]  # fmt: skip
    heads = ("severity", "code", "tokens", "where", "what was found", "what to do")
    more = (f"{counted(len(found) - FINDINGS, 'finding')} more: --report json has them all",)
    lines = more if len(found) > FINDINGS else ()
    table = PageTable(heads, rows, frozenset((2,)), sortable=True)
    return PageBlock(f"Findings ({len(found):,})", lines, table=table, folded=folded)


def of_simulation(result: SimulateResult) -> Intro:
    """Introduce what a cache would have done, beside what was billed."""
    totals = result.totals
    cache = f"lore simulate, cache: {result.cache or 'as served'}"
    again = f", {format_money(totals.cost.waste)} more than reading them" if totals.cost.waste else ""
    lead = f"{totals.waste_tokens:,} tokens were re-billed as waste{again}."
    if totals.unexplained_tokens:
        lead += f" {totals.unexplained_tokens:,} tokens were re-billed, and no cause is sure."
    rows: list[tuple[Cell, ...]] = [
        (name, count(side.read_tokens), count(side.write_tokens), count(side.uncached_tokens), format_money(cost))
        for name, side, cost in (
            ("predicted", totals.predicted, totals.cost.predicted), ("billed", totals.billed, totals.cost.billed))
    ]  # fmt: skip
    table = PageTable(("", "read", "written", "uncached", "cost"), rows, frozenset((1, 2, 3, 4)))
    lines = (f"{counted(totals.turns, 'turn')}, rules as of {result.rules.as_of or 'unknown'}",)
    lines += tuple(agreement_lines(result.agreement))
    closing = (PageBlock("Predicted and billed", lines, table=table), PageBlock(lines=tuple(result.notes)))
    measured = () if result.measured is UNSET else (measured_view().block(result.measured),)
    return Intro("lore simulate", cache, lead, (*measured, _savings(result.what_if)), closing)


def _savings(changes: Sequence[Saving]) -> PageBlock:
    rows: list[tuple[Cell, ...]] = [
        (amount_of(change.saved), count(change.tokens), count(change.turns),
         change.change, change.fix)
        for change in changes
        if change.saves
    ]  # fmt: skip
    if not rows:
        return PageBlock()
    heads = ("saved", "tokens", "turns", "change", "what to do")
    return PageBlock("What would have saved most", table=PageTable(heads, rows, frozenset((0, 1, 2))))


def of_overview(result: Overview, days: Sequence[Spending]) -> Intro:
    """Introduce what agents spent on this machine."""
    total = result.total
    heading = f"What agents spent, {span_in_words(result.since, result.until)}"
    agents: list[tuple[Cell, ...]] = [_spending_row(agent) for agent in result.agents]
    blocks = [money_block(total), causes_block(result.causes, result.unexplained), _by_day(days)]
    if len(agents) > 1:
        blocks.append(PageBlock("By agent", table=PageTable(("agent", *_SPENDING), agents, _FIGURES)))
    if result.by is not None and result.by not in ("session", "agent", "day"):
        rows: list[tuple[Cell, ...]] = [_spending_row(group) for group in result.groups]
        blocks.append(
            PageBlock(f"By {result.by}", table=PageTable((result.by, *_SPENDING), rows, _FIGURES, sortable=True))
        )
    lines = [f"not read: {each}" for each in result.failed[:5]]
    lines += [f"not read: {logs.title}, {counted(logs.files, 'file')}: {logs.message}" for logs in result.unread]
    return Intro("lore", heading, lead_of(total), (*blocks, PageBlock(lines=(*lines, *result.notes))))


_SPENDING = ("cost", "requests", "read", "re-billed", "unexplained")
_FIGURES = frozenset((1, 2, 3, 4, 5))


def _spending_row(group: Spending) -> tuple[Cell, ...]:
    again = amount_of(group.paid_again), amount_of(group.unexplained)
    return group.name, cost_of(group), count(group.requests), share_read(group), *again


def _by_day(days: Sequence[Spending]) -> PageBlock:
    """Show a bar a day on one scale, and the same as a table."""
    most = max((day.dollars or 0.0 for day in days), default=0.0)
    if not most or len(days) < 2:  # noqa: PLR2004 - one day is the whole
        return PageBlock()
    strips = [
        strip(day.name, [(style, getattr(day, name) or 0.0, words) for name, style, words in MONEY], most, cost_of(day))
        for day in days
    ]
    table = PageTable(("day", *_SPENDING), [_spending_row(day) for day in days], _FIGURES, sortable=True)
    return PageBlock("By day", strips=tuple(strips), table=table, folded_table=True, compact=True)


def of_dry_run(result: DryRunResult) -> Intro:
    """Introduce what a policy of compaction would have done to a session."""
    heads = ("turn", "when", "trigger", "pruned", "kept", "before", "after", "next turn, warm", "cold", "saved")
    fired = PageTable(heads, [_fired(each) for each in result.triggers], frozenset((0, 3, 4, 5, 6, 7, 8, 9)))
    blocks = [PageBlock("Where it would have compacted", table=fired)] if result.triggers else []
    totals = result.totals
    if totals is not None and totals.fired:
        sides = (("as recorded", totals.without), ("with the policy", totals.compacted))
        most = float(max(side.prompt_tokens for _, side in sides))
        strips = tuple([_side(name, side, most) for name, side in sides])
        blocks.append(PageBlock("Prompts in all, and what they cost", strips=strips))
    blocks.append(PageBlock(lines=tuple(result.notes)))
    return Intro("lore compact --dry-run", "Compacting this session", result.answer, tuple(blocks))


def _side(name: str, side: CompactedSide, most: float) -> Strip:
    bill = side.billed
    parts = (("read", bill.read_tokens), ("written", bill.write_tokens), ("uncached", bill.uncached_tokens))
    shown = [(style, float(size), f"{style}: {size:,} tokens") for style, size in parts if size]
    whole = [*shown] or [("uncached", float(side.prompt_tokens), f"{side.prompt_tokens:,} tokens")]
    return strip(name, whole, max(most, sum(size for _, size, _ in whole)), side_in_words(side))


def _fired(each: FiredTrigger) -> tuple[Cell, ...]:
    cost = each.cost
    saved = "–" if cost.turns is None else format_money(cost.saved)
    return (
        count(each.turn), when(each.at), each.trigger, count(each.pruned), count(each.kept), count(each.before_tokens),
        count(each.after_tokens), signed(cost.next_warm), signed(cost.next_cold), saved,
    )  # fmt: skip


def of_comparison(result: Comparison) -> Intro:
    """Introduce two sides, what differs between them, and what does not surely."""
    sides = (("A", result.left), ("B", result.right))
    first, *others = conclusions(result)
    most = max((side.spending.dollars or 0.0 for _, side in sides), default=0.0)
    strips = tuple([
        strip(f"{label}: {side.name}", [(style, getattr(side.spending, name) or 0.0, words) for name, style, words in
                                        MONEY], most, f"{cost_of(side.spending)}. {about_side(side)}")
        for label, side in sides
    ])  # fmt: skip
    keys = ("sessions", "requests", "compactions")
    counts = [(name, *(count(getattr(side.spending, name)) for _, side in sides), "") for name in keys]
    measures = [*counts, *map(measure_in_words, result.measures)]
    blocks = [
        PageBlock(lines=tuple(others)),
        PageBlock("Both sides", strips=strips, table=_parts_of_both(result)),
        PageBlock("Measures", table=PageTable(("", "A", "B", "B against A"), list[tuple[Cell, ...]](measures))),
    ]
    if result.causes:
        rows = list[tuple[Cell, ...]](map(cause_in_cells, result.causes))
        table = PageTable(("what happened", "A", "B", "B against A"), rows)
        blocks.append(PageBlock("Cache breaks by cause, of the billed requests", table=table))
    lines = (*result.notes, *(f"not read: {each}" for each in result.failed[:5]))
    heading, lead = f"{result.left.name} and {result.right.name}", first
    return Intro("lore compare", heading, lead, (*blocks, PageBlock(lines=lines)))


def _parts_of_both(result: Comparison) -> PageTable | None:
    """Return what both sides were billed for, in the colours of their bars; None where nothing has a price."""
    rows: list[tuple[Cell, ...]] = []
    for name, style, words in MONEY:
        dollars = [getattr(side.spending, name) or 0.0 for side in (result.left, result.right)]
        if any(dollars):
            rows.append((Swatch(words, style), *map(format_money, dollars)))
    return PageTable(("part", "A", "B"), rows, frozenset((1, 2))) if rows else None


def trials_of(result: DryRunResult) -> tuple[tuple[int, str], ...]:
    """Return the turns behind which a policy would have compacted, with what it would have done there."""
    return tuple([
        (each.turn, f"{each.trigger} would compact {each.before_tokens:,} tokens to {each.after_tokens:,}")
        for each in result.triggers
    ])  # fmt: skip
