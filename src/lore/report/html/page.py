"""Pages: their blocks (paragraphs, bars, tables), the answer of a command, sessions with their timelines.

Rows become HTML by the one template `page.html`. Every text passes `visible` (no control characters, no direction
marks, no credentials) and is escaped. The policy in the page allows its own style and script by their digests, and no
request. Results are redacted before they come here, if at all.

A column of a timeline is one turn. In a chain of more than `COLUMNS` turns it is a group of turns and shows the turn
that read the smallest share of its prompt, so that no break is lost; marks of one kind in one column become one mark.
So the size of a drawing does not depend on the length of the session.

Source: Content Security Policy Level 3 (W3C): digests of inline content, delivery in `meta` (2026).
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from operator import itemgetter
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup
from msgspec import UNSET
from msgspec.structs import replace

import lore
from lore.judge.sums import is_part, rebilled_dollars
from lore.model.codes import kind_in_words
from lore.model.fact import count_of, format_duration, format_money
from lore.model.results import CauseResult
from lore.model.results.compact import DryRunResult
from lore.model.results.lint import LintResult
from lore.model.results.overview import Comparison, Overview, Spending, SpendingCause
from lore.model.results.page import PageSession, PageTurn
from lore.model.results.simulate import SimulateResult
from lore.report import compacted, overview, sentences, simulation
from lore.report.commands import OverviewSelection, shorten_path
from lore.report.comparison import conclusions, write_comparison
from lore.report.console import Console, TableColumn
from lore.report.forms.base import TextReport
from lore.report.forms.lint import LintTerminal
from lore.report.forms.terminal import Reported, Terminal
from lore.report.overview import cost_of, rebilled_of, share_read, tokens_of
from lore.report.plain import format_count, last_part, project_name, visible, when
from lore.report.simulation import engine_measures
from lore.report.status_line import percent

SHOWN_BARS = 60  # of a block
SHOWN_ROWS = 1_000  # of a table
_DROPPED = 3  # columns that a terminal leaves out before others (`TableColumn.drop`) are not on narrow screens


class BarPart(NamedTuple):
    """A part of a bar; parts of one style have the same words in all bars of a block."""

    style: str
    size: float
    words: str


class PageBar(NamedTuple):
    """A bar. All bars of a block have one scale."""

    label: str
    parts: tuple[BarPart, ...]

    @property
    def size(self) -> float:
        """The sum of its parts."""
        return sum(part.size for part in self.parts)


class PageTable(NamedTuple):
    """A table, with the columns that it has on a terminal."""

    columns: Sequence[TableColumn]
    rows: Sequence[tuple[str, ...]]

    @property
    def styles(self) -> list[str]:
        """The style of each column: n for figures, s for short texts; w: it is left out on a narrow screen."""
        last, wide = self.columns[-1], ("", " w")
        kinds = ["n" if one.right else "" if one.wraps or one is last else "s" for one in self.columns]
        return [kind + wide[one.drop >= _DROPPED] for kind, one in zip(kinds, self.columns, strict=True)]


class PageBlock(NamedTuple):
    """A part of a page: a heading, paragraphs, bars and a table."""

    title: str = ""
    lines: tuple[str, ...] = ()  # indents are kept
    bars: tuple[PageBar, ...] = ()
    table: PageTable | None = None
    folded: bool = False  # it is closed until it is clicked


class Intro(NamedTuple):
    """The beginning of a page: the answer of a command, before its sessions."""

    title: str
    heading: str
    lead: str
    blocks: tuple[PageBlock, ...] = ()


def key_of(bars: Sequence[PageBar]) -> dict[str, str]:
    """Return the styles in bars with their words."""
    return {part.style: part.words for bar in bars for part in bar.parts if part.words}


_LITTLE = 0.01  # of the cost of all causes
SHOWN_LINES = 2_000  # of a terminal
SHOWN_FINDINGS = 20  # more are folded
_STYLES = {"reading": "read", "context": "written", "paid_again": "waste"}  # of parts of a cost, if not their name


def describe_spending(spending: Spending, *, has_limits: bool = True) -> str:
    """Return what requests cost and how much of that was re-billed: a sentence a line.

    `has_limits`: also what is not in the cost.
    """
    what = count_of(spending.requests, "request")
    if spending.subagent_requests:
        what += f", {spending.subagent_requests:,} of them of subagents"
    recorded = spending.recorded_dollars
    parts = (
        f"{overview.cost_of(spending)} for {what}", overview.describe_rebilled_part(spending),
        *sentences.describe_surcharges(spending.surcharges),
        f"recorded by the agent itself: {overview.money(recorded)}" if recorded else "",
        overview.describe_missing_cost(spending) if has_limits else "",
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


_CAUSE_COLUMNS = (
    *(TableColumn(head, right=True) for head in ("cost", "tokens", "turns")), TableColumn("cause", wraps=True),
    TableColumn("fix", wraps=True), TableColumn("code"),
)  # fmt: skip


def causes_block(causes: Sequence[SpendingCause], title: str = "Re-billed, by cause") -> PageBlock:
    """Show tokens by cause, the costliest first, with the fix of each; several of less than 1 % are one row."""
    least = _LITTLE * sum(cause.dollars or 0.0 for cause in causes)
    small = [cause for cause in causes if cause.dollars is not None and cause.dollars < least]
    small = small if len(small) > 1 else []
    rows = [
        ("–" if cause.dollars is None else overview.money(cause.dollars), f"{cause.tokens:,}", f"{cause.turns:,}",
         cause.says + sentences.label_of(cause), cause.fix, cause.code)
        for cause in sorted(causes, key=lambda cause: (-(cause.dollars or 0.0), -cause.tokens)) if cause not in small
    ]  # fmt: skip
    if small:
        amounts = [sum(getattr(cause, name) or 0 for cause in small) for name in ("dollars", "tokens", "turns")]
        cost, tokens, turns = overview.money(amounts[0]), f"{amounts[1]:,}", f"{amounts[2]:,}"
        rows.append((cost, tokens, turns, f"{len(small):,} other causes, each less than 1 %", "lore -v shows them", ""))
    return PageBlock(title, table=PageTable(_CAUSE_COLUMNS, rows)) if rows else PageBlock()


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
        blocks += capture(
            partial(overview.write_groups, result.groups, result.by), f"By {result.by} ({len(result.groups):,})"
        )
    lines = [f"not read: {failure}" for failure in result.failed[:5]]
    limits = (overview.describe_missing_cost(result.total), *result.notes)
    if result.inherited is not None:
        lines.append(f"not in the cost: {overview.describe_inherited(result.inherited)}")
    lines += [f"not read: {logs.title}, {count_of(logs.files, 'file')}: {logs.message}" for logs in result.unread]
    heading = f"What agents spent, {overview.span_in_words(result.since, result.until)}"
    actions = zip(("Do first", "Then"), overview.actions_of(result, OverviewSelection()), strict=False)
    first = [f"{when}: {action.fix} ({action.reasons[0]})." for when, action in actions]
    lead = "" if is_one else "\n".join([*first, describe_spending(result.total, has_limits=False)])
    head = PageBlock(lines=() if is_one else tuple(filter(None, limits)))
    return Intro("lore", heading, lead, (head, *blocks, PageBlock(lines=tuple(lines))))


def introduce_report(result: Reported, counted: int | None = None, *, verbose: bool = False) -> Intro:
    """Introduce what `lore check` (`counted` as in `Terminal`) or `lore lint` found; `verbose` lists notes, too."""
    if isinstance(result, LintResult):
        blocks = capture(partial(LintTerminal().write, result, verbose=verbose))
        summary = f"{count_of(len(result.findings), 'finding')} in {count_of(len(result.requests), 'request')}"
        return Intro("lore lint", "lore lint", summary, blocks)
    sums = sentences.describe_rebilled(result.summary, counted, has_grounds=False)
    lead = "\n".join(f"{text[:1].upper()}{text[1:]}" for text, _ in sums)
    is_one = result.summary.files == 1  # its own part of the page has the same sums, causes and fixes
    shown = sum(verbose or finding.severity != "note" for finding in result.findings)
    folded = is_one or shown > SHOWN_FINDINGS
    blocks = capture(partial(Terminal(counted).write, result, verbose=verbose), "Findings and sums", folded=folded)
    return Intro("lore check", "lore check", "" if is_one else lead, blocks)


def introduce_simulation(result: SimulateResult) -> Intro:
    """Introduce the prediction of a cache, and how it compares with the usage."""
    totals = result.totals
    lead = f"{totals.waste_tokens:,} tokens re-billed as waste{sentences.in_dollars(totals.cost.waste)}."
    if totals.unexplained_tokens:
        unexplained = sentences.in_dollars(totals.cost.unexplained)
        lead += f" {totals.unexplained_tokens:,} tokens re-billed, no certain cause{unexplained}."
    blocks = capture(partial(simulation.write_simulated, result, turns=False), "Predicted and billed")
    if result.measured is not UNSET and (view := engine_measures()) is not None:
        blocks = (*capture(partial(view.write, result.measured, every=True), "Measured by the engine"), *blocks)
    return Intro("lore simulate", f"lore simulate, cache: {result.cache or 'as served'}", lead, blocks)


def introduce_dry_run(result: DryRunResult) -> Intro:
    """Introduce what a policy of compaction would have done to a session."""
    blocks = capture(partial(compacted.write_dry_run, replace(result, answer="")))  # the answer is the lead
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

    def on_table(columns: Sequence[TableColumn], rows: Sequence[tuple[str, ...]]) -> None:
        end_lines()
        blocks.append(PageBlock(table=PageTable(columns, rows[:SHOWN_ROWS]) if rows else None))

    out.on_table = on_table
    write(out)
    end_lines()
    return tuple([block._replace(title="" if number else title, folded=folded) for number, block in enumerate(blocks)])


SHOWN_BREAKS = 150  # of a session: the costliest
COLUMNS = 240
HEIGHT = 100
KINDS = {  # of marks, with their explanation
    "waste": "waste", "unexplained": "break, no certain cause", "expected": "expected break",
    "compaction": "compaction", "pause": "pause", "model": "model changed",
}  # fmt: skip


class TimelineMark(NamedTuple):
    """Something that happened at a turn."""

    kind: str
    text: str
    weight: int = 0  # the heaviest of a column is shown
    turn: int = 0  # its index in the chain
    place: float = 0.0  # percent of the width


class Timeline(NamedTuple):
    """The drawing of a chain."""

    columns: int
    grouped: int  # turns in a column
    most: int  # tokens of the largest prompt
    areas: list[tuple[str, str]]  # style and SVG path, from back to front
    marks: list[TimelineMark]


def draw_timeline(turns: Sequence[PageTurn]) -> Timeline:
    """Return the drawing of a chain's turns."""
    counts: list[list[int]] = []  # tokens read, written and left uncached; 0 if they are neither billed nor predicted
    for turn in turns:
        source = turn.simulated.billed
        if source is None or (source.read_tokens is None and source.uncached_tokens is None):
            source = turn.simulated.predicted
        prompt = source.read_tokens, source.write_tokens, source.uncached_tokens
        counts.append([max(0, count or 0) for count in prompt])
    shares_read = [prompt[0] / sum(prompt) if sum(prompt) else 1.0 for prompt in counts]
    grouped = max(1, -(-len(counts) // COLUMNS))
    groups = [range(at, min(at + grouped, len(counts))) for at in range(0, len(counts), grouped)]
    columns = [min(group, key=shares_read.__getitem__) for group in groups]
    most = max(map(sum, counts), default=0)
    areas = {  # from back to front; of areas with the same outline only the front one is drawn
        _outline([sum(counts[at][:parts]) for at in columns], most): style
        for parts, style in ((3, "uncached"), (2, "written"), (1, "read"))
    }
    layers = [(style, f"M0 {HEIGHT}{path}V{HEIGHT}Z") for path, style in areas.items()]
    predicted = [turns[at].simulated.predicted.read_tokens for at in columns]
    if any(turn.simulated.billed for turn in turns) and any(tokens is not None for tokens in predicted):
        predicted = [tokens or 0 for tokens in predicted]
        layers.append(("predicted", f"M0 {_height(predicted[0], most)}{_outline(predicted, most)}"))
    return Timeline(len(columns), grouped, most, layers, _merge_marks(turns, grouped))


def kind_of(cause: CauseResult) -> str:
    """Return the style of a cause."""
    return "unexplained" if cause.kind == "unattributable" else cause.kind


def list_marks(turn: PageTurn) -> Iterator[TimelineMark]:
    """Yield what happened at a turn."""
    played, cause = turn.simulated, turn.simulated.cause
    if cause is not None:
        tokens = f": {played.lost_tokens:,} tokens re-billed" if played.lost_tokens else ""
        name, cost = sentences.short_of(cause.code, cause.name, cause.kind), sentences.in_dollars(cause.lost_dollars)
        yield TimelineMark(kind_of(cause), f"{name}{tokens}{cost}", played.lost_tokens or 0)
    if turn.compacted:
        yield TimelineMark("compaction", "compaction")
    if turn.pause is not None:
        yield TimelineMark("pause", f"pause {format_duration(turn.pause)}", round(turn.pause))
    if turn.model_before is not None:
        yield TimelineMark("model", f"model {played.model}, {turn.model_before} before")


def _merge_marks(turns: Sequence[PageTurn], grouped: int) -> list[TimelineMark]:
    """Return one mark for each kind and column, by kind: that of the turn that weighs most."""
    groups: dict[tuple[str, int], list[TimelineMark]] = {}
    for index, turn in enumerate(turns):
        for mark in list_marks(turn):
            text, place = f"turn {turn.simulated.turn}: {mark.text}", round((index + 0.5) / len(turns) * 100, 2)
            placed_mark = mark._replace(text=text, turn=index, place=place)
            groups.setdefault((mark.kind, index // grouped), []).append(placed_mark)
    merged: list[TimelineMark] = []
    for marks in groups.values():
        heaviest = max(marks, key=lambda mark: mark.weight)
        suffix = f" (and {count_of(len(marks) - 1, 'other')} beside it)" if len(marks) > 1 else ""
        merged.append(heaviest._replace(text=heaviest.text + suffix))
    return sorted(merged, key=lambda mark: (list(KINDS).index(mark.kind), mark.turn))


def _height(tokens: int, most: int) -> int:
    return HEIGHT - round(HEIGHT * min(tokens, most) / most) if most else HEIGHT


def _outline(values: Sequence[int], most: int) -> str:
    """Return the upper edge of columns, each one unit wide."""
    return "".join(f"V{_height(value, most)}h1" for value in values)


class SessionView(NamedTuple):
    """A session with the drawings of its chains."""

    key: str  # tells its ids apart from those of other sessions in the page
    session: PageSession
    listed: PageSession  # its row in the list of sessions: without copied requests and those outside the period
    chains: list[tuple[str, list[PageTurn], Timeline]]  # name, turns, drawing
    breaks: dict[str, PageTurn]  # by id, the costliest first
    hidden_breaks: int


def view_session(session: PageSession, listed: PageSession | None, key: str = "") -> SessionView:
    """Return a session with its drawings; `listed` is its row in a list of sessions that has sums of its own."""
    breaks = [
        (cause.lost_dollars or 0.0, turn.simulated.lost_tokens or 0, f"b{key}-{number}-{index}", turn)
        for number, turns in enumerate(session.chains.values())
        for index, turn in enumerate(turns)
        if turn.compared is not None and (cause := turn.simulated.cause) is not None
    ]
    breaks.sort(key=itemgetter(0, 1), reverse=True)
    visible_breaks = {name: turn for _, _, name, turn in breaks[:SHOWN_BREAKS]}
    chains = [(name, turns, draw_timeline(turns)) for name, turns in session.chains.items()]
    return SessionView(key, session, listed or session, chains, visible_breaks, len(breaks) - len(visible_breaks))


def shared_beginning(turn: PageTurn) -> int:
    """Return the number of characters with which both texts of a break begin."""
    return len(os.path.commonprefix((turn.text_before, turn.text_after)))


GENERATOR = f"lore {lore.__version__}"


class PageContent(NamedTuple):
    """The values of the template."""

    title: str
    intro: Intro | None = None
    listed: Sequence[PageSession] = ()
    places: Mapping[str, str] = {}  # path of a listed session -> the address of its details
    views: Sequence[SessionView] = ()
    left_out: int = 0  # listed sessions that have no details
    back: str = ""  # the address of the page that lists all sessions


def render_page(page: PageContent) -> str:
    """Return a page as HTML."""
    return _template().render(page=page)


def policy_digest(text: str) -> str:
    """Return what allows a text in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("lore.report", "html"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_make_visible,
    )  # fmt: skip
    functions = (
        causes_block, describe_spending, money_block, key_of,
        cost_of, count_of, kind_in_words, rebilled_of, shared_beginning, share_read, sentences.short_of,
        kind_of, list_marks, when,
    )  # fmt: skip
    filters: dict[str, Any] = {function.__name__: function for function in functions} | {
        "count": format_count, "digest": policy_digest, "fix": sentences.format_fix,
        "loss": sentences.format_loss, "money": format_money, "name": last_part, "path": shorten_path,
        "project": project_name,
        "tokens": tokens_of, "usage": sentences.format_usage,
    }  # fmt: skip
    environment.filters.update(filters)
    return environment.get_template("page.html", globals={"generator": GENERATOR, "KINDS": KINDS})


def _make_visible(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _page(result: Reported, verbose: bool) -> list[str]:  # noqa: FBT001 - of `TextReport`
    intro = introduce_report(result, verbose=verbose)
    return [render_page(PageContent(intro.title, intro)).removesuffix("\n")]


HTML = TextReport(_page)  # of findings alone; `lore check` and `lore lint` write it with the pages of its sessions
