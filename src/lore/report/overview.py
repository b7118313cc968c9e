"""Bare `lore` on a terminal: spending, the re-billed part of it, and the first thing to change."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from lore.judge.sums import UNSURE, is_part, reads_nothing, rebilled_dollars, rebilled_tokens
from lore.model.codes import SEVERITY, CauseKind, Code
from lore.model.events import SUMMED_COUNTS
from lore.model.fact import count_of, format_duration, format_money, join_names
from lore.model.ledger import UnknownPart
from lore.model.results import overview as results
from lore.report.commands import OverviewSelection, in_shell, shorten_path
from lore.report.console import Cell, Console, TableColumn, line, write_table
from lore.report.plain import day_of, local_time, project_name
from lore.report.sentences import FAST, FAST_FIX, describe_change, describe_surcharges, label_of
from lore.report.status_line import percent, short

_CAUSES = 4  # shown without -v
_ACTIONS = 2  # shown
_GROUPS = 30  # shown
_LONG_SPAN = 92  # days
_LITTLE = 0.01  # of the cost: a cause that costs less is not the first thing to change
_CENT = 0.005  # dollars: a cause that cost less is shown with -v only
_IN_TIME = ("day", "week", "month")
# How much of its cost the fix of a cause is expected to save, against the others: waste is avoided as a whole.
_SAVES = {"waste": 3.0, "expected": 1.0, UNSURE: 0.5}
_SAVES_BY_AUTHOR = 0.1  # of that, if the user can only report it
_SUMS = (
    TableColumn("cost", right=True), TableColumn("requests", right=True, drop=2),
    TableColumn("uncached", right=True, drop=4), TableColumn("cached read", right=True, drop=3),
    TableColumn("written", right=True, drop=5), TableColumn("output", right=True, drop=1),
    TableColumn("share read", right=True), TableColumn("re-billed", right=True),
)  # fmt: skip
_CAUSE_COLUMNS = (
    TableColumn("cost", right=True), TableColumn("tokens", right=True, drop=1), TableColumn("cause", wraps=True),
    TableColumn("what to do"),
)  # fmt: skip
_KINDS = {"paid_again": "waste (avoidable)", "expected": "expected", "unexplained": "no certain cause"}  # as above
_UNKNOWN_PARTS: dict[UnknownPart, str] = {
    "output": "output that the logs omit", "writes": "cache writes that the logs omit",
    "prompt": "input that the logs omit", "price": "tokens or tools without a known price",
}  # fmt: skip
_IF_CACHED = "if the endpoint caches at all, and reports true counts"  # no log shows that it does
_SAME = "if the agent had behaved the same"
_WINDOWS = {300: "the five-hour block", 10_080: "the week"}
COST_PARTS = {  # fields of `Spending`
    "reading": "reading cached context", "context": "new context", "output": "output",
    "tools": "tools of the provider", "paid_again": "re-billed as waste", "expected": "re-billed as expected",
    "unexplained": "re-billed, no certain cause",
}  # fmt: skip


def write_overview(result: results.Overview, out: Console, choice: OverviewSelection, *, verbose: bool = False) -> None:
    """Write the overview; `verbose` adds all causes, the parts of the cost and the sizes of prompts."""
    total = result.total
    span = span_in_words(result.since, result.until)
    if choice.until:
        span = f"{day_of(result.since)} to {day_of((result.until or 0.0) - 1)}"
    if not total.requests:
        _write_no_requests(result, span, out, choice)
        return
    what = f"{count_of(total.sessions, 'session')}, {count_of(total.requests, 'request')}"
    out.print(line((f"{span}: {cost_of(total)}", "bold"), f"; {what}"))
    if parts := describe_missing_cost(total):
        out.print(parts)
    if total.unpriced and result.by != "model":
        out.print("models without a known price:")
        write_command(choice.summing("--by model"), out)
    if result.inherited is not None:
        out.print(f"not in the cost{', either' if parts else ''}: {describe_inherited(result.inherited)}")
    for text in (*result.notes, *_describe_totals(result, verbose=verbose), *_compare_with_previous(result)):
        out.print(text)
    if result.before is not None and result.before.requests and (command := choice.comparison_command()):
        write_command(command, out)
    out.print()
    several = len(result.agents) > 1
    write_groups([*result.agents, replace(total, name="all agents")] if several else result.agents, "agent", out)
    if result.by not in (None, "agent"):
        out.print()
        write_groups(result.groups, result.by, out, home=choice.home)
    out.print()
    _write_rebilled(result, out, choice, verbose=verbose)
    for cause in result.missed:  # sent at the full price although a cache could have held them
        cost, tokens = _sum_amounts([cause])
        if not verbose and _is_little([cause], total):
            continue
        size = f"{'' if cost == '-' else f'{_limit_of(cause)}{cost}, '}{tokens} tokens"
        out.print(line((f"not re-billed, but could have been read from a cache: {size}", "bold")))
        out.print(f"  {cause.says}, {_count_places(cause)}; {choice.advice(cause.fix)}")
    _write_actions(result, out, choice)
    _write_notes(result, out, choice)


def span_in_words(since: float | None, until: float | None) -> str:
    """Return the span of time in words, such as `last 7 days`."""
    if since is None or until is None:
        return "as recorded"
    days = (until - since) / 86_400
    if days > _LONG_SPAN:
        return f"since {day_of(since)}"
    if days >= 2:  # noqa: PLR2004 - from there on days are what people say
        return f"last {days:.0f} days"
    hours = round(days * 24)
    return f"last {hours} hours" if hours > 1 else f"last {count_of(max(1, round(days * 24 * 60)), 'minute')}"


def describe_missing_cost(*groups: results.Spending) -> str:
    """Return what the cost of groups lacks: requests without price or tokens, logs not read; empty if nothing."""

    def total(name: str) -> int:
        return sum(getattr(group, name) for group in groups)

    reasons = (("unpriced", "a known price"), ("unbilled", "recorded tokens"))
    parts = [f"{count_of(count, 'request')} without {reason}" for name, reason in reasons if (count := total(name))]
    unknown_parts = Counter[UnknownPart]()
    for group in groups:
        unknown_parts.update(group.unknown_parts)
    parts += [f"{_UNKNOWN_PARTS[name]} (in {count_of(count, 'request')})" for name, count in unknown_parts.items()]
    for what, where in (("subagent", "whose logs were not read"), ("compaction", "whose requests no log holds")):
        count, tokens = total(f"absent_{what}s"), total(f"absent_{what}_tokens")
        size = f" ({tokens_of(tokens)} tokens)" if tokens else ""
        parts += [f"{count_of(count, what)} {where}{size}"] if count else []
    return f"not in the cost: {', '.join(parts)}" if parts else ""


def describe_inherited(inherited: results.InheritedRequests) -> str:
    """Return how many requests forks inherited from sessions without a log, and what these cost."""
    is_one = inherited.sessions == 1
    sessions = "a session whose log is" if is_one else f"{inherited.sessions:,} sessions whose logs are"
    cost = ""
    if inherited.recorded_dollars is not None:
        cost = f", {money(inherited.recorded_dollars)} as recorded"
    elif inherited.dollars is not None:
        cost = f", about {money(inherited.dollars)}"
    return f"{count_of(inherited.requests, 'request')} inherited from {sessions} not here{cost}"


def money(dollars: float, *, is_part: object = False) -> str:
    """Return an amount in dollars and cents; `is_part`: some of it is not known."""
    if is_part:
        return f"at least {format_money(dollars) if 0 < dollars < _CENT else f'${dollars:,.2f}'}"
    return "<$0.01" if 0 < dollars < _CENT else f"${dollars:,.2f}"


def cost_of(spending: results.Spending) -> str:
    """Return what requests cost; if no price is known, how many tokens they sent."""
    if spending.dollars is not None:
        return money(spending.dollars, is_part=is_part(spending))
    tokens = spending.uncached_tokens + spending.read_tokens + spending.write_tokens
    return f"{tokens_of(tokens)} tokens" if tokens else "not recorded"


def few_counted(spending: results.Spending) -> str:
    """Return how many requests have recorded input tokens, if fewer than half of them do; else an empty text."""
    billed = spending.billed_requests
    is_few = 0 < 2 * billed < spending.requests
    return f"{billed:,} of {spending.requests:,} requests have recorded input tokens" if is_few else ""


def tokens_of(count: int | None) -> str:
    """Return a count of tokens in the unit that keeps it short."""
    return "unknown" if count is None else short(count)


def share_read(spending: results.Spending) -> str:
    """Return the share of all prompts that was read from a cache; a dash if no usage says it."""
    tokens = spending.uncached_tokens + spending.read_tokens + spending.write_tokens
    return percent(spending.read_tokens / tokens) if tokens else "-"


def rebilled_of(spending: results.Spending) -> str:
    """Return the re-billed part: money if a price is known, else a count of tokens; a dash for nothing."""
    tokens, dollars = rebilled_tokens(spending), rebilled_dollars(spending)
    if dollars:
        return money(dollars, is_part=spending.unpriced_tokens)
    return f"{tokens_of(tokens)} tokens" if tokens else "-"


def is_rebilled_unknown(spending: results.Spending) -> bool:
    """Return whether fewer than half of the requests record what they read from a cache, and none re-billed tokens."""
    is_few = 2 * spending.billed_requests < spending.requests
    return is_few and spending.requests > spending.unbilled and not rebilled_tokens(spending)


def describe_rebilled_part(spending: results.Spending) -> str:
    """Return how much of the cost was re-billed; empty if no request has tokens."""
    tokens, dollars = rebilled_tokens(spending), rebilled_dollars(spending)
    if tokens:
        share = (
            f" of {cost_of(spending)} ({percent(dollars / spending.dollars)})" if dollars and spending.dollars else ""
        )
        cost = f"{rebilled_of(spending)}{share}, " if share else ""
        return f"re-billed: {cost}{tokens_of(tokens)} tokens that were cached and had to be paid for again"
    if is_rebilled_unknown(spending):
        unknown = spending.requests - spending.billed_requests
        return f"re-billed: unknown ({unknown:,} of {spending.requests:,} requests record no cache usage)"
    if reads_nothing(spending):
        return "re-billed: nothing, but no prompt was read from a cache, either"
    return "re-billed: nothing" if spending.requests > spending.unbilled else ""


def write_groups(
    groups: Sequence[results.Spending], by: results.GroupBy | None, out: Console, *, home: str = ""
) -> None:
    """Write a table with one line for each group: cost, tokens, the cached share of its prompts, the re-billed part."""
    visible_groups = groups if by in _IN_TIME or out.is_page else groups[:_GROUPS]
    rows = list[tuple[str, ...]]()
    for group in visible_groups:
        few, recorded = few_counted(group), group.recorded_dollars or 0.0  # if lore's own cost is far too low
        is_partial = bool(few or group.at_least or group.unbilled) or group.dollars is None
        is_more = is_partial and recorded > (group.dollars or 0.0)
        remark = "; ".join(filter(None, (few, f"{money(recorded)} as recorded" if is_more else "")))
        name = group.title or (week_of(group.name) if by == "week" else shorten_path(group.name, home, 40))
        counts = (getattr(group, name) for name in SUMMED_COUNTS)
        tokens = [short(count) if count or group.requests > group.unbilled else "-" for count in counts]
        rows.append((
            cost_of(group), f"{group.requests:,}", *tokens, share_read(group), rebilled_of(group),
            f"{name} ({remark})" if remark else name,
        ))  # fmt: skip
    head = f"{by}, local time" if by in _IN_TIME else by or ""
    paths = [[f"    {in_shell(group.name, home) or group.name}"] for group in visible_groups] if by == "session" else ()
    write_table((*_SUMS, TableColumn(head)), rows, out, notes=paths)
    if len(groups) > len(visible_groups):
        out.hint(f"{len(groups) - len(visible_groups):,} more", "--json has all")


def week_of(text: str) -> str:
    """Return the week of a day, or of a week such as 2026-W30, by its first day; another text unchanged."""
    try:
        day = date.fromisoformat(text)  # 2026-W30 is its first day
    except ValueError:
        return text
    return f"week of {day - timedelta(day.weekday())}"


def _describe_totals(result: results.Overview, *, verbose: bool) -> Iterator[str]:
    """Yield facts about all requests in sentences."""
    total = result.total
    for agent in result.agents:
        requests = f" for {count_of(agent.recorded_requests, 'request')}" if agent.recorded_requests else ""
        recorded, near = agent.recorded_dollars, _LITTLE * (agent.dollars or 0.0)  # a cost that agrees is left out
        differs = recorded is not None and abs(recorded - (agent.dollars or 0.0)) > near
        parts = [f"{money(recorded or 0.0)}{requests}"] if differs else []
        parts += [f"{agent.premium_requests:,.6g} premium requests"] if agent.premium_requests else []
        ours = "" if agent.dollars is None else f" (at lore's prices {cost_of(agent)})"
        if parts:
            yield f"recorded by {agent.name} itself: {', '.join(parts)}{ours}"
    yield from describe_surcharges(total.surcharges)
    for limit in result.limits:
        window = _WINDOWS.get(limit.minutes, f"{limit.minutes / 60:g} hours")
        wait_seconds = limit.resets_at - (result.until or 0.0)
        is_soon = wait_seconds < 86_400  # noqa: PLR2004 - seconds of a day
        resets = local_time(limit.resets_at, "%H:%M" if is_soon else "%Y-%m-%d %H:%M")
        wait = f" (in {format_duration(wait_seconds)})" if is_soon else ""
        cost = "" if limit.dollars is None else f", {money(limit.dollars)}"
        usage = "" if limit.tokens is None else f"; {tokens_of(limit.tokens)} tokens{cost} so far"
        left = f"{max(0.0, 100 - limit.used_percent):.0f} % of {window} left"
        yield f"{limit.agent}: {left}, resets {resets}{wait}{usage}"
    if total.dollars:
        sizes = {words: getattr(total, name) or 0.0 for name, words in COST_PARTS.items() if name not in _KINDS}
        sizes["re-billed"] = rebilled_dollars(total) or 0.0
        yield "where it went: " + ", ".join(f"{words} {money(size)}" for words, size in sizes.items() if size >= _CENT)
    if not verbose:
        return
    if total.median_prompt_tokens is not None:
        most = tokens_of(total.largest_prompt_tokens)
        yield f"prompts of {tokens_of(total.median_prompt_tokens)} tokens (median), at most {most}"
    if total.subagent_requests:
        cost = "" if total.subagent_dollars is None else f", {money(total.subagent_dollars)}"
        yield f"subagents: {count_of(total.subagent_requests, 'request')}{cost}"
    if total.compactions:
        yield f"{count_of(total.compactions, 'compaction')} that a request followed"


def _compare_with_previous(result: results.Overview) -> Iterator[str]:
    """Yield what requests cost in the same length of time before, and why the cost changed."""
    previous = result.before
    if previous is None:
        return
    if not previous.requests:
        yield "before that: no requests in the same length of time"
        return
    costs = [
        f"{'at least ' if side.at_least else ''}{format_money(side.dollars / priced_requests)}"
        for side in (previous, result.total)
        if side.dollars is not None and (priced_requests := side.requests - side.unbilled - side.unpriced)
    ]
    request_costs = f", {costs[0]} for each with a known cost (now {costs[1]})" if len(costs) > 1 else ""
    yield f"before that: {cost_of(previous)} in {count_of(previous.requests, 'request')}{request_costs}"
    if result.change is not None:
        yield from describe_change("now", result.change, previous, result.total)


def _write_rebilled(result: results.Overview, out: Console, choice: OverviewSelection, *, verbose: bool) -> None:
    """Write re-billed tokens by cause, the costliest first; those without a cause have a line of their own."""
    total, dollars = result.total, rebilled_dollars(result.total)
    if text := describe_rebilled_part(total):
        is_good = not (rebilled_tokens(total) or is_rebilled_unknown(total) or reads_nothing(total))
        out.print(line((text, "bold"), "; to keep it so in CI: lore guide ci" if is_good else ""))
    if not rebilled_tokens(total):
        if reads_nothing(total) and not result.missed:
            write_command(choice.advice("lore check", result.biggest.path if result.biggest else ""), out)
        return
    if dollars:
        parts = {words: getattr(total, name) or 0.0 for name, words in _KINDS.items()}
        out.print("  " + ", ".join(f"{words} {money(part)}" for words, part in parts.items() if part))
    rows, other_causes = list[tuple[Cell, ...]](), list[results.SpendingCause]()
    for cause in result.causes:
        if verbose or (len(rows) < _CAUSES and not 0 < (cause.dollars or 0.0) < _CENT):
            says = f"{cause.says}{label_of(cause)}, {_count_places(cause)}"
            rows.append((*_sum_amounts([cause]), says, choice.advice(cause.fix)))
        else:
            other_causes.append(cause)
    if other_causes:
        says = f"{count_of(len(other_causes), 'other cause')}: {join_names([cause.says for cause in other_causes], 2)}"
        rows.append((*_sum_amounts(other_causes), says, "-v shows all"))
    if unexplained := result.unexplained:
        turns = count_of(sum(cause.turns for cause in unexplained), "turn")
        says = f"no certain cause, in {turns}", "yellow"
        rows.append((*_sum_amounts(unexplained), says, "-v shows it by cause"))
        for cause in unexplained if verbose else ():
            says = f"  {cause.says}, {_count_places(cause)}"
            rows.append((*_sum_amounts([cause]), says, choice.advice(cause.fix, cause.most.path if cause.most else "")))
    columns = slice(0 if dollars is not None else 1, None)
    write_table(_CAUSE_COLUMNS[columns], [row[columns] for row in rows], out)
    if unexplained and (most := unexplained[0].most) is not None:
        costliest, (cost, tokens) = unexplained[0], _sum_amounts(unexplained[:1])
        amount = f"{tokens} tokens" if cost == "-" else cost
        says = f"{costliest.says}, {amount} {_count_places(costliest, most)}"
        out.print(line((f"costliest without a certain cause: {says}", "yellow")))
        out.print(f"  {choice.advice(costliest.fix, most.path)}")
        write_command(_check_command(costliest, choice), out)


def _count_places(cause: results.SpendingCause, most: results.CauseSession | None = None) -> str:
    """Return in how many sessions or turns a cause occurred; `most`: also where it cost most."""
    project = project_name(most.project or "") if most is not None else ""
    if cause.sessions < 2:  # noqa: PLR2004 - one session
        return f"in {count_of(cause.turns, 'turn')}" + (f" of {project}" if project else "")
    facts = ", ".join(filter(None, (money(most.dollars) if most is not None and most.dollars else "", project)))
    return f"in {cause.sessions:,} sessions" + (f" (the costliest: {facts})" if facts else "")


def _limit_of(cause: results.SpendingCause) -> str:
    """Return `up to ` for a cause whose sum is the most that another cache could save; else an empty text."""
    return "up to " if cause.code == Code.READ_PLATEAU else ""


def _check_command(cause: results.SpendingCause, choice: OverviewSelection) -> str:
    """Return the command that shows a cause in its costliest session, or its page if the path cannot be typed."""
    quoted_path = "" if cause.most is None else in_shell(cause.most.path, choice.home)
    shows_notes = " -v" if SEVERITY[cause.kind] == "note" else ""
    return f"lore check {quoted_path} --select {cause.code}{shows_notes}" if quoted_path else cause.command


def _sum_amounts(causes: Sequence[results.SpendingCause]) -> tuple[str, str]:
    """Return the cost and the tokens of causes."""
    amounts = [cause.dollars for cause in causes if cause.dollars is not None]
    is_part = any(cause.unpriced_tokens for cause in causes)
    return money(sum(amounts), is_part=is_part) if amounts else "-", tokens_of(sum(cause.tokens for cause in causes))


class Action(NamedTuple):
    """What to change, and what that saves."""

    fix: str
    reasons: tuple[str, ...]  # lines
    command: str  # that shows it; empty: none
    weight: tuple[float, float]  # dollars and tokens that it is expected to save, against other actions


def actions_of(result: results.Overview, choice: OverviewSelection) -> list[Action]:
    """Return what to change, the action that is expected to save most first; those that save little are left out."""
    groups: dict[tuple[str, CauseKind], list[results.SpendingCause]] = {}  # causes that one action removes
    for cause in (*result.causes, *result.missed):
        if not cause.fix.startswith("nothing"):
            groups.setdefault((cause.fix, cause.kind), []).append(cause)
    actions = list[Action]()
    for causes in groups.values():
        if _is_little(causes, result.total):
            continue
        first, (cost, tokens) = causes[0], _sum_amounts(causes)
        amount = f"{tokens} tokens" if cost == "-" else cost
        what = f"re-billed as {first.kind}" if first.kind != UNSURE else "re-billed, no certain cause"
        if first not in result.causes:
            amount = f"{_limit_of(first)}{amount}"
            what = "could have been read from a cache" + (f", {_IF_CACHED}" if _limit_of(first) else "")
        share = _SAVES[first.kind] * (_SAVES_BY_AUTHOR if first.actor == "author" else 1.0)
        where = "" if len(causes) > 1 else f", {_count_places(first, first.most)}"
        weight = sum(cause.dollars or 0.0 for cause in causes) * share, sum(cause.tokens for cause in causes) * share
        reason = f"{amount} {what}: {join_names([cause.says for cause in causes], 2)}{where}"
        actions.append(Action(first.fix, (reason,), _check_command(first, choice), weight))
    for extra in result.total.surcharges:
        if extra.name == FAST and extra.dollars >= _LITTLE * (result.total.dollars or 0.0):
            reason = f"{count_of(extra.requests, 'request')} cost {money(extra.dollars)} more than at the list price"
            actions.append(Action(FAST_FIX, (reason,), "", (extra.dollars, 0.0)))
    if result.biggest is not None and result.biggest.saving:
        saving, window = result.biggest.saving, result.biggest.window
        where = count_of(result.biggest.compactions or 0, "compaction")
        where += "" if window is None else f" in a window of {tokens_of(window)} tokens"
        if result.compacted_sessions > 1:
            saving, count = result.compaction_saving, f"{result.compacted_sessions:,} of the costliest sessions"
            where = f"earlier compactions in {count}"
        reason = f"about {money(saving)} less with {where}, {_SAME}"
        reasons = reason, f"costliest session: {_describe_biggest(result.biggest)}"
        actions.append(Action("compact long sessions earlier", reasons, result.biggest.command, (saving, 0.0)))
    return sorted(actions, key=lambda action: action.weight, reverse=True)


def _is_little(causes: Iterable[results.SpendingCause], total: results.Spending) -> bool:
    """Return whether causes cost something, and less than 1 % of all."""
    return 0 < sum(cause.dollars or 0.0 for cause in causes) < _LITTLE * (total.dollars or 0.0)


def _write_actions(result: results.Overview, out: Console, choice: OverviewSelection) -> None:
    """Write the first two things to change, and the session that cost most."""
    actions, biggest = actions_of(result, choice)[:_ACTIONS], result.biggest
    out.print()
    for number, action in enumerate(actions):
        out.print(line(("then: " if number else "do first: ", "bold"), action.fix))
        for reason in action.reasons:
            out.print(f"  {reason}")
        if action.command:
            write_command(action.command, out)
    if biggest is not None and biggest.dollars and not any(action.command == biggest.command for action in actions):
        out.print(line(("costliest session: ", "bold"), _describe_biggest(biggest)))
        if biggest.saving:
            out.print(f"  about {money(biggest.saving)} less with earlier compactions, {_SAME}")
        if biggest.command:
            write_command(biggest.command, out)
    is_whole = not (choice.agent or choice.project or choice.until)  # else `lore simulate` would take more requests
    if is_whole and result.total.write_tokens and result.total.dollars:
        out.print("savings of other changes, such as another lifetime of the cache:")
        write_command(choice.advice("lore simulate --what-if"), out)


def _describe_biggest(biggest: results.SpendingSession) -> str:
    """Return the title of the session that cost most, its project, days and cost, and the size of its prompts."""
    cost = money(biggest.dollars or 0.0, is_part=biggest.at_least)
    most = biggest.largest_prompt_tokens
    size = "" if most is None else f"prompts up to {tokens_of(most)} tokens"
    days = " to ".join(dict.fromkeys(map(day_of, (biggest.at, biggest.latest_at or biggest.at))))
    facts = ", ".join(filter(None, (project_name(biggest.project or ""), days, cost, size)))
    return f"{biggest.title or 'without a title'} ({facts})"


def _write_no_requests(result: results.Overview, span: str, out: Console, choice: OverviewSelection) -> None:
    """Write that there are no requests, and where to look for some."""
    if not result.looked:
        write_no_sessions(out)
    else:
        what = "".join(f" of {name}" for name in (choice.agent, choice.project and f"project {choice.project}") if name)
        out.print(line((f"{span}: no requests{what}", "bold")))
        if result.newest is not None:
            day = day_of(result.newest)
            out.print(f"the newest request was sent on {day}; the 7 days up to it:")
            week_ago = day_of(result.newest - 6 * 86_400)
            command = choice._replace(since=week_ago, until="").summing("").rstrip()
        elif choice.agent or choice.project:  # look in all of them
            command = f"lore --since {shlex.quote(choice.since)} --by {'project' if choice.project else 'agent'}"
        else:
            out.print("no earlier one was found; list the sessions here, or name a recording:")
            write_command("lore sessions", out)
            command = "lore check PATH"
        write_command(command, out)
    _write_notes(result, out, choice)


def write_no_sessions(out: Console) -> None:
    """Write that no agent keeps a session here, where lore looked, and what to try."""
    where = "in their usual folders on this machine, such as ~/.claude/projects and ~/.codex/sessions"
    out.print(line(("no sessions of agents that lore reads", "bold"), f" {where}"))
    out.print("name a recording, try those of a clone of lore, or list the formats that lore reads:")
    for command in ("lore check PATH", "lore check fixtures/recordings", "lore formats"):
        write_command(command, out)


def write_command(command: str, out: Console) -> None:
    """Write a command on a line of its own, from which it can be copied."""
    out.print_whole(line((f"  {command}", "cyan")))


def _write_notes(result: results.Overview, out: Console, choice: OverviewSelection) -> None:
    """Write recordings that could not be read, problems, and logs that lore does not read."""
    if result.failed:
        out.print(line((f"not read: {join_names(result.failed, 2)}", "yellow")))
    if result.problems:
        out.print(f"{count_of(result.problems, 'problem')} in these recordings{'' if choice.until else ':'}")
        if not choice.until:  # else `lore check` would read more of them
            write_command(f"{choice.advice('lore check')} --select LORE2 -v", out)
    for logs in result.unread:
        out.print(line((f"not read: {logs.title}, {count_of(logs.files, 'file')}: {logs.message}", "yellow")))
