"""Bare `lore` for a person: what was spent, where it went, what was re-billed, and what to do first: one screen."""

from __future__ import annotations

from rich.cells import cell_len

from lore.judge.sums import UNSURE
from lore.model.fact import format_money, join_names
from lore.model.results.overview import GroupBy, Overview, Spending, SpendingCause
from lore.report.commands import OverviewSelection, is_command
from lore.report.console import Console, hang, line, whole
from lore.report.plain import counted, day_of
from lore.report.table import TableColumn, write_table

_LABEL = 17  # columns
_ARROW = "  → "
_CAUSES = 4  # shown
_GROUPS = 30  # shown
_COLUMNS = (
    TableColumn("cost", right=True), TableColumn("requests", right=True, drop=3),
    TableColumn("read", right=True, drop=2), TableColumn("re-billed", right=True),
    TableColumn("unexplained", right=True, drop=1),
)  # fmt: skip
_FURTHER_DAYS = 90
_CENT = 0.005  # dollars: less is not worth a line
_PARTS = (
    ("reading", "reading context"), ("context", "writing new context"), ("output", "output"), ("tools", "tools"),
    ("paid_again", "re-billed"), ("unexplained", "unexplained"), ("expected", "re-billed as expected"),
)  # fmt: skip


def write_overview(result: Overview, out: Console, chosen: OverviewSelection) -> None:
    """Write the overview; every line ends in something to do or to run next."""
    total, span = result.total, span_in_words(result.since, result.until)
    if not total.requests:
        _write_nothing(result, span, out, chosen)
        return
    agents = ", ".join(f"{agent.name} {cost_of(agent)}" for agent in result.agents)
    what = f"{counted(total.sessions, 'session')}, {counted(total.requests, 'request')}"
    out.print(line((f"{span}: {what}, {cost_of(total)}", "bold"), f"  ({agents})" if len(result.agents) > 1 else ""))
    if result.before is not None:
        _write_change(total, result.before, out, chosen)
    _write_parts(total, out, chosen.summing("--by model" if result.by == "session" else "--by session"))
    _write_missing(total, out, chosen)
    if recorded := recorded_costs(result.agents):
        _row(out, "as recorded", recorded)
    _write_size(total, out, chosen.summing("--by agent" if result.by == "project" else "--by project"))
    _write_causes("re-billed", result.causes, total, out, chosen)
    _write_causes("unexplained", result.unexplained, total, out, chosen)
    _write_biggest(result, out)
    if result.by is not None:
        out.print()
        write_groups(result.groups, result.by, out)
    _write_rest(result, out, chosen)


def span_in_words(since: float | None, until: float | None) -> str:
    """Name the time that is summed."""
    if since is None or until is None:
        return "all time"
    days = (until - since) / 86_400
    if days >= 2:  # noqa: PLR2004 - from there on days are what people say
        return f"last {days:.0f} days"
    return f"last {days * 24:.0f} hours" if days * 24 >= 2 else f"last {days * 24 * 60:.0f} minutes"  # noqa: PLR2004


def cost_of(spending: Spending) -> str:
    """Return what requests cost; where no bill has a price, how many tokens were read and written."""
    if spending.dollars is not None:
        return f"{'at least ' if spending.at_least else ''}{format_money(spending.dollars)}"
    tokens = spending.uncached_tokens + spending.read_tokens + spending.write_tokens
    return f"{tokens_of(tokens)} tokens" if tokens else "no bills"


def recorded_costs(agents: list[Spending]) -> str:
    """Return the cost that logs state themselves, by agent; empty if none does."""
    found: list[str] = []
    for agent in agents:
        requests = f" for {counted(agent.recorded_requests, 'request')}" if agent.recorded_requests else ""
        parts = [] if agent.recorded_dollars is None else [f"{format_money(agent.recorded_dollars)}{requests}"]
        parts += [f"premium requests: {agent.premium_requests:,.6g}"] if agent.premium_requests else []
        found += [f"{agent.name} {', '.join(parts)}"] if parts else []
    return "   ".join(found)


def tokens_of(count: int | None) -> str:
    """Return a count of tokens in the unit that keeps it short."""
    if count is None:
        return "unknown"
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}" if count < 10 * size else f"{count / size:.0f}{unit}"
    return str(count)


def _write_nothing(result: Overview, span: str, out: Console, chosen: OverviewSelection) -> None:
    if result.looked:
        what = "".join(f" of {name}" for name in (chosen.agent, chosen.project and f"project {chosen.project}") if name)
        out.print(line((f"{span}: no requests{what}", "bold")))
        days = None if result.since is None or result.until is None else (result.until - result.since) / 86_400
        advice = ["what there is: lore sessions"]
        if chosen.agent or chosen.project:
            advice = ["what there is: " + chosen.elsewhere()]
        elif days is not None and days < _FURTHER_DAYS:
            advice.insert(0, f"further back: lore --since {_FURTHER_DAYS}d")
    else:
        out.print(line(("no recordings of agents that lore reads are on this machine", "bold")))
        advice = ["recordings anywhere: lore check PATH", "what can be read: lore formats"]
    for text in advice:
        out.print(line(f"{_ARROW}{text}"))
    _write_rest(result, out, chosen)


def _write_change(now: Spending, before: Spending, out: Console, chosen: OverviewSelection) -> None:
    if not before.requests:
        _row(out, "before that", "no requests in the same length of time before")
        return
    parts = [f"{cost_of(before)} in {counted(before.requests, 'request')}"]
    if now.dollars is not None and before.dollars:
        parts.append(f"cost {now.dollars / before.dollars - 1:+.0%}")
        parts.append(f"a request {now.dollars / now.requests / (before.dollars / before.requests) - 1:+.0%}")
    parts.append(f"read {share_read(before)} of the prompts, now {share_read(now)}")
    advice = chosen.before()
    _row(out, "before that", ", ".join(parts), advice and f"more than chance? {advice}")


def _write_parts(total: Spending, out: Console, command: str) -> None:
    if total.dollars:
        shares = sorted(((getattr(total, name) or 0.0, words) for name, words in _PARTS), key=lambda part: -part[0])
        shown = [
            f"{words} {dollars / total.dollars:.0%}" + (f" ({format_money(dollars)})" if words in _AGAIN else "")
            for dollars, words in shares
            if dollars >= _CENT
        ]
        _row(out, "where it went", "   ".join(shown), command)
    elif total.requests > total.unbilled:
        _row(out, "where it went", f"{share_read(total)} of the prompts were read from a cache")


def _write_missing(total: Spending, out: Console, chosen: OverviewSelection) -> None:
    missing = (
        (total.unbilled, "without a bill", "which logs hold bills: lore formats"),
        (total.unpriced, "without a known price", f"which models: {chosen.summing('--by model')}"),
        (total.at_least, "in part: a count or price is unknown", f"which models: {chosen.summing('--by model')}"),
    )
    there = [(f"{counted(count, 'request')} {what}", advice) for count, what, advice in missing if count]
    for number, (words, advice) in enumerate(there):
        _row(out, "" if number else "not in it", words, advice)


_AGAIN = ("re-billed", "unexplained", "re-billed as expected")


def _write_size(total: Spending, out: Console, command: str) -> None:
    parts: list[str] = []
    if total.median_prompt_tokens is not None:
        size, most = tokens_of(total.median_prompt_tokens), tokens_of(total.largest_prompt_tokens)
        parts.append(f"prompts of {size} tokens (median; largest {most})")
    if total.subagent_requests:
        share = f" {total.subagent_dollars / total.dollars:.0%}" if total.subagent_dollars and total.dollars else ""
        parts.append(f"subagents{share} ({counted(total.subagent_requests, 'request')})")
    if total.compactions:
        parts.append(counted(total.compactions, "compaction"))
    if parts:
        _row(out, "made of", "   ".join(parts), command)


def _write_causes(
    label: str, causes: list[SpendingCause], total: Spending, out: Console, chosen: OverviewSelection
) -> None:  # fmt: skip
    """Write the causes that cost most, and what the others come to."""
    worth = [cause for cause in causes if total.dollars is None or (cause.dollars or 0.0) >= _CENT]
    width = max((len(_amount(cause)) for cause in worth[:_CAUSES]), default=0)
    for place, cause in enumerate(worth[:_CAUSES]):
        where = counted(cause.sessions, "session") if cause.sessions > 1 else counted(cause.turns, "turn")
        text = f"{_amount(cause):>{width}}  {cause.says}, in {where}"
        _row(out, label if place == 0 else "", text, chosen.advice(cause.fix), indent=width + 2)
    rest = worth[_CAUSES:]
    if rest:
        money = [cause.dollars for cause in rest if cause.dollars is not None]
        amount = format_money(sum(money)) if money else f"{tokens_of(sum(cause.tokens for cause in rest))} tokens"
        command = "lore check" if all(cause.kind == UNSURE for cause in rest) else "lore check -v"
        _row(out, "", f"{amount:>{width}}  {counted(len(rest), 'other cause')}", chosen.advice(command))
    if not worth and label == "re-billed" and total.requests > total.unbilled:
        _row(out, label, "nothing worth a line", "keep it so in CI: lore guide ci")


def _amount(cause: SpendingCause) -> str:
    return format_money(cause.dollars) if cause.dollars is not None else f"{tokens_of(cause.tokens)} tokens"


def _write_biggest(result: Overview, out: Console) -> None:
    biggest = result.biggest
    if biggest is None or not biggest.dollars:
        return
    project = (biggest.project or "").replace("\\", "/").rstrip("/").rpartition("/")[2]
    size = tokens_of(biggest.largest_prompt_tokens)
    parts = [biggest.title or "", project, day_of(biggest.at), format_money(biggest.dollars), f"prompt {size}"]
    if biggest.saving:
        parts.append(
            f"about {format_money(biggest.saving)} less with {counted(biggest.compactions or 0, 'compaction')}"
        )
    _row(out, "biggest session", " · ".join(filter(None, parts)), biggest.command)


def write_groups(groups: list[Spending], by: GroupBy, out: Console) -> None:
    """Write a line a group: what it cost, how much of its prompts was read, what was re-billed."""
    shown = groups if by == "day" else groups[:_GROUPS]
    rows = [
        (cost_of(group), f"{group.requests:,}", share_read(group), _lost(group.paid_again, group.paid_again_tokens),
         _lost(group.unexplained, group.unexplained_tokens), group.title or group.name)
        for group in shown
    ]  # fmt: skip
    write_table((*_COLUMNS, TableColumn(by)), rows, out)
    if len(groups) > len(shown):
        out.print(line((f"{len(groups) - len(shown):,} more: --json has them all", "dim")))


def _lost(dollars: float | None, tokens: int) -> str:
    return "-" if not tokens else format_money(dollars) if dollars is not None else tokens_of(tokens)


def share_read(spending: Spending) -> str:
    """Return the share of all prompts that was read from a cache; a dash where no bill says it."""
    tokens = spending.uncached_tokens + spending.read_tokens + spending.write_tokens
    return f"{spending.read_tokens / tokens:.0%}" if tokens else "-"


def _write_rest(result: Overview, out: Console, chosen: OverviewSelection) -> None:
    if result.failed:
        out.print(line((f"not read: {join_names(result.failed, 2)}", "yellow")))
    if result.problems:
        _row(out, "damaged", f"{counted(result.problems, 'problem')} in what was read", chosen.advice("lore check"))
    for logs in result.unread:
        out.print(line((f"not read: {logs.title}, {counted(logs.files, 'file')}: {logs.message}", "yellow")))
    for note in result.notes:
        out.print(line((note, "dim")))


def _row(out: Console, label: str, text: str, advice: str = "", *, indent: int = 2) -> None:
    """Write a row: its label, what is so, what to do about it; that on a line of its own where the row is too long."""
    row = line((f"{label:<{_LABEL}}", "bold"), text)
    if advice and cell_len(row.plain) + cell_len(advice) + len(_ARROW) <= out.width:
        row.extend(line((f"{_ARROW}{advice}", "cyan")))
        advice = ""
    hang(out, row, _LABEL + indent, width=out.width)
    if advice:
        below = line((f"{'':<{_LABEL}}{_ARROW}{advice}", "cyan"))
        if is_command(advice):  # it is copied from one line
            whole(out, below)
        else:
            hang(out, below, _LABEL + len(_ARROW), width=out.width)
