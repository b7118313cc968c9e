"""`lore simulate` in the terminal: turns, sums, costs and savings; the rules in force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from lore.model.codes import CODES, Code
from lore.model.fact import format_money
from lore.model.results import UsageResult
from lore.model.results import simulate as results
from lore.model.results.measured import MeasuredResult
from lore.report.console import Console, line
from lore.report.measured import measured_view
from lore.report.plain import counted
from lore.report.sentences.findings import describe_interruption, format_prices
from lore.report.simulated_turns import count_of, write_chart, write_turns
from lore.report.table import Cell, TableColumn, write_table

_GROUPS_SHOWN = _CHANGES_SHOWN = 9  # without -v
_DAYS_SHOWN = 31  # the last ones
_FEW_APPENDS = 20  # too few for a reliable share
_REASONS_SHOWN = 5
_HEADER = ("provider", "model", "rule", "value", "unit", "from", "", "source")


def write(result: results.SimulateResult, out: Console, *, every: bool = False, verbose: bool = False) -> None:
    """Write a result; `every` shows each turn, else those that lost something."""
    if isinstance(result.measured, MeasuredResult) and not result.turns:
        _measured(result.measured, out, every=every)
        _problems(result, out, verbose=verbose)
        return
    cache = f"cache: {result.cache or 'as served'}"
    out.print(line((cache, "bold"), f", rules as of {result.rules.as_of or 'unknown'}"))
    write_turns(result.turns, out, every=every, verbose=verbose)
    write_chart(result.turns, out)
    if result.interrupted:
        out.print(line((describe_interruption(result.interrupted), "bold yellow")))
    _money(result, out)
    _tokens(result, out)
    for text in agreement_lines(result.agreement):
        out.print(line(text))
    _reliability(result.reliability[:1], out)
    _groups(result.groups, out, verbose=verbose)
    _changes(result.what_if, out, verbose=verbose)
    for note in result.notes:
        out.print(line((f"note: {note}", "dim")))
    if isinstance(result.measured, MeasuredResult):
        _measured(result.measured, out, every=every)
    _problems(result, out, verbose=verbose)


write_simulated = write  # the public name


def _measured(result: MeasuredResult, out: Console, *, every: bool) -> None:
    for text in measured_view().lines(result, every=every):
        out.print(line(text))


def _problems(result: results.SimulateResult, out: Console, *, verbose: bool) -> None:
    """Write the number of problems, and with -v each; without it only those that make measured sums wrong."""
    shown = [problem for problem in result.problems if verbose or problem.code == Code.ENGINES_MIXED]
    if result.problems:
        hidden = "" if len(shown) == len(result.problems) else ", shown with -v"
        out.print(line(f"{counted(len(result.problems), 'problem')} in the recordings{hidden}"))
    for problem in shown:
        out.print(line(f"  {problem.code} {problem.file}:{problem.line or 0}: {problem.message}"))


def _money(result: results.SimulateResult, out: Console) -> None:
    totals, cost, of = result.totals, result.totals.cost, _predicted_turns(result)
    if cost.billed is not None or cost.predicted is not None:
        prices = format_prices(totals.by_price, totals.billed)
        left = f"; {counted(totals.unpriced, 'turn')} without a price or a bill" if totals.unpriced else ""
        prices = f" ({prices})" if prices else ""
        billed = f"{'at least ' if cost.at_least else ''}{format_money(cost.billed)}"
        out.print(line(f"cost: billed {billed}{prices}, predicted {_predicted(result, of)}{left}"))
    if isinstance(cost.recorded, float):
        out.print(line(f"cost as recorded: {format_money(cost.recorded)}"))
    again = f", {format_money(cost.waste)} more than reading them" if cost.waste else ""
    style = "bold red" if totals.waste_tokens else "bold green"
    out.print(line((f"re-billed as waste: {totals.waste_tokens:,} tokens{again}", style)))
    unexplained = [turn for turn in result.turns if turn.unexplained_tokens]
    if unexplained:
        paid = "" if cost.unexplained is None else f", {format_money(cost.unexplained)}"
        reasons = (reason for turn in unexplained if turn.cause is not None for reason in turn.cause.ruled_out)
        counts = Counter(reason.reason for reason in reasons if reason.out)
        most = ", ".join(text for text, _ in counts.most_common(_REASONS_SHOWN))
        found = f"{totals.unexplained_tokens:,} tokens in {counted(len(unexplained), 'turn')}{paid}"
        out.print(line((f"unexplained: {found}{f'; ruled out: {most}' if most else ''}", "yellow")))


def _tokens(result: results.SimulateResult, out: Console) -> None:
    totals, turns = result.totals, counted(result.totals.turns, "turn")
    out.print(line(f"{turns}; predicted: {_counts(totals.predicted)}{_predicted_turns(result)}"))
    out.print(line(f"{'':>{len(turns)}}  billed:    {_counts(totals.billed)}"))
    if isinstance(totals.other_passes, UsageResult):
        several = sum(isinstance(turn.other_passes, UsageResult) for turn in result.turns)
        passes = f"other passes of {counted(several, 'response')}: {_counts(totals.other_passes)}"
        out.print(line(f"{'':>{len(turns)}}  besides:   {passes}"))


def _predicted_turns(result: results.SimulateResult) -> str:
    """Return the number of predicted turns if it is not all of them: sums of different turns look comparable."""
    known = sum(turn.predicted.read_tokens is not None for turn in result.turns)
    return f" (in {known:,} of {counted(result.totals.turns, 'turn')})" if 0 < known < result.totals.turns else ""


def _predicted(result: results.SimulateResult, of: str) -> str:
    """Return the predicted cost; if usage covers other turns, also both costs of the turns that have both."""
    predicted, billed = result.totals.cost.predicted, result.totals.cost.billed
    costs = [(turn.cost.billed, turn.cost.predicted) for turn in result.turns if turn.cost is not None]
    both = [(paid, foreseen) for paid, foreseen in costs if paid is not None and foreseen is not None]
    if predicted is None or billed is None or not both or len(both) == result.totals.turns:
        return f"{format_money(predicted)}{of}"
    sums = [sum(amounts) for amounts in zip(*both, strict=True)]
    turns = f"the {counted(len(both), 'turn')} that {'has' if len(both) == 1 else 'have'} both"
    return (
        f"{format_money(predicted)}{of}; in {turns}: billed {format_money(sums[0])}, predicted {format_money(sums[1])}"
    )


def _counts(found: UsageResult) -> str:
    names = (("read", found.read_tokens), ("write", found.write_tokens), ("uncached", found.uncached_tokens))
    return ", ".join(f"{name} {count_of(count)}" for name, count in names)


def agreement_lines(found: results.AgreementResult) -> Iterator[str]:
    """Yield how far predictions were from usage."""
    if not found.turns:
        yield "predictions cannot be compared with usage: no two successive turns have usage"
        return
    share, near = found.exact / found.turns, found.within_2_percent / found.turns
    off, naive = found.mean_absolute_error_tokens, found.naive_mean_absolute_error_tokens
    agreed = f"predictions in {counted(found.turns, 'turn')} with usage: {share:.1%} exact, {near:.1%} within 2 %"
    yield f"{agreed}; average error {off:,.0f} tokens ({naive:,.0f} if everything cached were read)"
    if found.drops or found.false_drops:
        drops = f"{counted(found.drops, 'drop')} of over 1,000 tokens: {found.drops_predicted} predicted"
        yield f"{drops}, {counted(found.false_drops, 'false alarm')}"
    if found.prompts:
        share = found.prompts_within_2_percent / found.prompts
        yield f"after a new prompt of the user: {share:.1%} within 2 %, in {counted(found.prompts, 'turn')}"


def write_reliability(result: results.SimulateResult, out: Console) -> None:
    """Write how often the whole cached prefix was read if only the provider could lose it: overall, by model, hour …"""
    if not result.reliability:
        out.print(line("reliability: unknown, since no billed turn only appends to the previous one"))
    _reliability(result.reliability, out)
    for problem in result.problems[:1]:
        out.print(line(f"{counted(len(result.problems), 'problem')} in the recordings; the first: {problem.message}"))


def _reliability(rows: Sequence[results.ReliabilityResult], out: Console) -> None:
    before = ""
    for row in rows:
        if row.by == "all":
            turns = f"{counted(row.appends, 'turn')} that only appended"
            read = f"of {turns}, {row.read:,} read the whole cached prefix, within 2 %"
            others = "; the provider lost the others" if row.read < row.appends else ""
            out.print(line(("reliability: ", "bold"), f"{row.share:.1%} ({read}{others})"))
            continue
        if row.by != before:
            out.print(line((f"by {row.by}:", "bold")))
        before = row.by
        few = "  too few to say" if row.appends < _FEW_APPENDS else ""
        out.print(line(f"  {row.name}: {row.share:.1%} ({row.read:,} of {row.appends:,}){few}"))


def _groups(groups: Sequence[results.GroupResult], out: Console, *, verbose: bool) -> None:
    for by in dict.fromkeys(group.by for group in groups):
        rows = [group for group in groups if group.by == by]
        if by != "cause" and len(rows) < 2 and not verbose:
            continue
        out.print(line((f"by {by}:", "bold")))
        for group in rows if verbose else rows[-_DAYS_SHOWN:] if by == "day" else rows[:_GROUPS_SHOWN]:
            name = f"{group.name} {CODES[group.name].name}" if group.name in CODES else group.name
            paid = f", billed {format_money(group.billed)}" if group.billed is not None else ""
            again = f", {format_money(group.waste)} re-billed as waste" if group.waste else ""
            if group.unexplained:
                again += f", {format_money(group.unexplained)} unexplained"
            lost = f", {group.lost_tokens:,} tokens lost" if group.lost_tokens else ""
            out.print(line(f"  {name}: {counted(group.turns, 'turn')}{lost}{paid}{again}"))


def _changes(changes: Iterable[results.Saving], out: Console, *, verbose: bool) -> None:
    every = list(changes)
    shown = [change for change in every if change.saves]
    for number, change in enumerate(shown if verbose else shown[:_CHANGES_SHOWN]):
        if not number:
            out.print(line(("what would have saved most:", "bold")))
        saved = "" if change.saved is None else f", {format_money(change.saved)}"
        out.print(line(f"  {change.change}: {change.tokens:,} tokens in {counted(change.turns, 'turn')}{saved}"))
        if change.fix:
            out.print(line("     fix: ", (change.fix, "green")))
    rest = [change for change in every if not change.saves]
    unknown = [change for change in rest if change.saved is None and not change.turns]
    idle = [
        change.change
        + ("" if change.saved is None or change.saved >= 0 else f" (costs {format_money(-change.saved)} more)")
        for change in rest
        if change not in unknown
    ]
    if idle:
        out.print(line((f"simulated, no saving: {', '.join(idle)}", "dim")))
    if unknown:
        out.print(line((f"saving unknown: {', '.join(change.change for change in unknown)}", "dim")))


# the rules in force


def write_rules(result: results.RulesResult, out: Console) -> None:
    """Write the rows of the rules, then their sources by number, and the day on which they were checked."""
    sources = {text: number for number, text in enumerate(dict.fromkeys(row.source for row in result.rules), 1)}
    rows = [_rule(row, sources[row.source]) for row in result.rules]
    write_table([TableColumn(head, right=head == "value") for head in _HEADER], rows, out)
    for text, number in sources.items():
        out.print(line(f"[{number}] {text}"))
    out.print(line("evidence: P the vendor's own page, M measured, S second-hand, ? inferred"))
    own = sum(row.own for row in result.rules)
    owned = f", {own:,} of them your own" if own else ""
    checked = "" if result.as_of is None else f", as of {result.as_of}"
    out.print(line((counted(len(result.rules), "row") + owned + checked, "bold")))


def _rule(row: results.RuleResult, source: int) -> tuple[Cell, ...]:
    place = f"{row.provider} on {row.platform}" if row.platform else row.provider
    above = "" if row.above_tokens is None else f" above {row.above_tokens:,} tokens"
    note = (f"  {row.note}" if row.note else "") + ("" if row.used else "  (for information: no prediction uses it)")
    value = str(row.value)
    match row.value:
        case None:
            value = "unknown"
        case bool():
            value = "yes" if row.value else "no"
        case int():
            value = f"{row.value:,}"
        case _:
            pass
    cells = (place, row.model, row.rule + above, value, row.unit.replace("_", " "), row.valid_from, row.evidence,
             f"[{source}]{note}")  # fmt: skip
    return tuple([(cell, "cyan") for cell in cells]) if row.own else cells
