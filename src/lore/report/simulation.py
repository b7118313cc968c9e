"""`lore simulate` in the terminal: turns as a table and a chart, measured reads, sums, costs, savings, rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from msgspec.structs import replace

from lore.errors import LoreError
from lore.judge import what_if
from lore.judge.messages import describe_ruled_out
from lore.judge.prices import sum_known
from lore.judge.totals import count_losses
from lore.model.codes import CODES, Code, kind_in_words
from lore.model.fact import count_of, format_money
from lore.model.results import Summary, UsageResult
from lore.model.results import simulate as results
from lore.model.results.measured import MeasuredResult
from lore.plugins import entry_points
from lore.report import sentences
from lore.report.console import WIDTH, Cell, Console, TableColumn, line, write_table
from lore.report.plain import format_count, place_of, when
from lore.report.timeline import write_problems

_CHANGES_SHOWN, _BREAKS_SHOWN, _CAUSES_SHOWN = 9, 20, 12  # without -v
# By the beginning of notes: the words for several of them.
_ALIKE_NOTES = {
    "cause=": "{} notes on changes that overlap (-v shows them)",
    "not recorded in ": "parts of the prompts are not recorded in {} kinds of logs (-v names them)",
    "not simulated: ": "{} causes are not simulated, as they are not certain (-v names them)",
    "ttl=": "{} lifetimes were in force in a part of the turns (-v: in how many)",
}
_FEW_APPENDS = 20  # too few for a reliable share
_RULE_COLUMNS = (
    TableColumn("model"), TableColumn("rule"), TableColumn("value", wraps=True), TableColumn("from", drop=1),
    TableColumn("source", drop=2),
)  # fmt: skip
_UNITS = {
    "sections": "{}", "multiple": "{} times", "usd_per_mtok": "${} per million tokens",
    "usd_per_mtok_hour": "${} per million tokens and hour", "usd_per_thousand_requests": "${} per 1,000 requests",
}  # fmt: skip
_LITTLE = 0.001  # of the cost: a smaller saving has no line of its own
CHART_COLUMNS = 72
_BARS = " ▁▂▃▄▅▆▇█"
_STYLES = {"waste": "bold red", "unattributable": "yellow", "expected": "cyan"}
_NAME_LENGTH = 14
_WRITE_PRICES = "a 5-minute write costs 1.25 times the input price, a 1-hour write 2 times"  # if a provider has both
_TURN_COLUMNS = (
    TableColumn("turn", right=True), TableColumn("time (UTC)", right=True, drop=1),
    TableColumn("predicted read", right=True, drop=2), TableColumn("billed read", right=True, drop=3),
    TableColumn("difference", right=True, drop=4), TableColumn("re-billed", right=True),
    TableColumn("cost", right=True), TableColumn("cause"),
)  # fmt: skip


def write_simulated(
    result: results.SimulateResult, out: Console, *, every: bool = False, verbose: bool = False, turns: bool = True,
    changes_only: bool = False,
) -> None:  # fmt: skip
    """Write turns (`every` one, or those that lost tokens), measured reads, sums, savings and notes.

    `verbose` adds statistics and groups; without `turns`, neither turns nor measured reads are written; with
    `changes_only` only the cost, the savings and the notes.
    """
    turns = turns and not changes_only
    measured = result.measured if turns and isinstance(result.measured, MeasuredResult) else None
    if result.turns or measured is None:
        cache = f"cache: {result.cache or 'as served'}"
        out.print(line((cache, "bold"), f", rules as of {result.rules.as_of or 'unknown'}"))
        if turns:
            write_turns(result.turns, out, every=every, every_break=verbose)
            predicted = [turn.predicted.read_tokens or 0 for turn in result.turns]
            draw([("predicted", predicted, "cyan"), ("billed", billed_reads(result.turns), "green")], out)
        if result.interrupted:
            out.print(line((sentences.describe_interruption(result.interrupted), "bold yellow")))
        _write_cost(result, out)
        if not result.turns:
            out.print("no request is recorded: nothing can be predicted")
        elif not changes_only:
            _write_sums(result, out)
            agreement = result.agreement
            is_predicted = any(turn.predicted.read_tokens is not None for turn in result.turns)
            reason = "no two successive turns have usage" if is_predicted else "none was made"
            text = f" cannot be compared with usage: {reason}"
            if agreement.turns:
                share = _percent(agreement.within_2_percent / agreement.turns)
                text = (
                    f": within 2 % of the usage in {share} of {count_of(agreement.turns, 'turn')} that can be compared"
                )
            out.print(f"predictions{text}")
            if verbose:
                _write_shares_read(result.reliability[:1], out)
            _write_groups(result.groups, out, verbose=verbose)
        for note in result.notes if verbose or out.is_page else count_notes(result.notes):
            out.print(line((f"note: {note}", "dim")))
    if measured is not None and (view := engine_measures()) is not None:
        view.write(measured, out, every=every)
    # without -v only the problems that make measured sums wrong
    visible_problems = [problem for problem in result.problems if verbose or problem.code == Code.ENGINES_MIXED]
    extent = f"{count_of(result.totals.problems, 'problem')} in the recordings"
    if len(visible_problems) < len(result.problems):
        out.hint(extent, "-v shows them")
    elif visible_problems:
        out.print(extent)
    write_problems(visible_problems, out)
    _write_changes(result, out, verbose=verbose or out.is_page)  # last, as what to do first
    if not changes_only and result.what_if and all(change.change.startswith("cause=") for change in result.what_if):
        out.hint("other changes, such as another lifetime of the cache", "--what-if tries them")


def write_turns(
    turns: Sequence[results.SimulatedTurn], out: Console, *, every: bool, every_break: bool = False
) -> None:  # fmt: skip
    """Write a row for every turn, or for cache breaks: all of them, or those that lost most.

    The first row of a cause has its evidence; with `every` or `every_break` each row has it.
    """
    known = (turn.cause or turn.predicted.read_tokens is not None or _billed_read(turn) is not None for turn in turns)
    if len(turns) > 1 and not any(known):
        out.print(f"{count_of(len(turns), 'turn')} without usage: nothing can be predicted")
        return
    breaks = [turn for turn in turns if turn.cause is not None]
    visible_turns = turns if every else breaks
    if not (every or every_break) and len(breaks) > _BREAKS_SHOWN:
        least = sorted((turn.lost_tokens or 0 for turn in breaks), reverse=True)[_BREAKS_SHOWN - 1]
        visible_turns = [turn for turn in breaks if (turn.lost_tokens or 0) >= least][:_BREAKS_SHOWN]
    if visible_turns:
        out.print(line(("tokens predicted (~: at best), billed, and re-billed (~: estimated)", "dim")))
        if len({turn.path for turn in turns}) > 1:
            out.print(line((place_of(visible_turns[0].path, None), "dim")))
        notes, explained_codes = list[list[str]](), set[str]()
        for turn, following in zip(visible_turns, [*visible_turns[1:], visible_turns[-1]], strict=True):
            cause, lines = turn.cause, list[str]()
            if cause is not None and (every or every_break or cause.code not in explained_codes):
                explained_codes.add(cause.code)
                evidence = "" if cause.evidence is None else cause.evidence.sentence()
                lines = [f"      {text}" for text in (evidence or cause.message, *describe_ruled_out(cause.ruled_out))]
            notes.append([*lines, *([place_of(following.path, None)] if following.path != turn.path else [])])
        write_table(_TURN_COLUMNS, list(map(_format_turn, visible_turns)), out, notes=notes)
    extent = f"{len(breaks) or 'none'} of {count_of(len(turns), 'turn')} with a cache break"
    if len(visible_turns) < len(breaks):
        out.hint(
            f"{extent}, shown are the {len(visible_turns)} with the largest loss", "-v shows all, --all every turn"
        )
    elif len(visible_turns) < len(turns):
        out.hint(extent, "--all shows every turn")


def _format_turn(turn: results.SimulatedTurn) -> list[Cell]:
    name = f"{turn.turn}" if turn.chain == "main" else f"{turn.chain}:{turn.turn}"
    predicted, billed, cause = turn.predicted.read_tokens, _billed_read(turn), turn.cause
    gap = "" if predicted is None or billed is None else f"{billed - predicted:+,}" if billed != predicted else "="
    mark = "~" if turn.predicted.confidence == "ceiling" and predicted is not None else ""
    cells = [name[-_NAME_LENGTH:], when(turn.at), mark + format_count(predicted), format_count(billed), gap]
    if cause is None:
        return [*cells, "", "", ""]
    lost = f"{'~' if cause.tokens == 'estimated' else ''}{turn.lost_tokens:,}" if turn.lost_tokens else ""
    cost = "" if cause.lost_dollars is None else format_money(cause.lost_dollars)
    return [(cell, _STYLES[cause.kind]) for cell in (*cells, lost, cost, sentences.name_cause(cause))]


def _billed_read(turn: results.SimulatedTurn) -> int | None:
    return None if turn.billed is None else turn.billed.read_tokens


def billed_reads(turns: Sequence[results.SimulatedTurn]) -> list[int]:
    """Return the tokens that each turn read, by its usage; 0 if unknown."""
    return [_billed_read(turn) or 0 for turn in turns]


def draw(rows: Sequence[tuple[str, list[int], str]], out: Console) -> None:
    """Draw a line for each row (name, tokens by turn, colour); a column is one turn, or the smallest of several."""
    peak = max((value for _, values, _ in rows for value in values), default=0)
    count = min((len(values) for _, values, _ in rows), default=0)
    size = max((len(name) for name, *_ in rows), default=0)
    if count < 3 or not peak:
        return
    width = min(CHART_COLUMNS, count, (out.room or WIDTH) - size - 3)
    out.print(line((f"tokens read, turn by turn (full height {peak:,})", "bold")))
    for name, values, colour in rows:
        groups = [values[count * at // width : max(count * (at + 1) // width, 1)] for at in range(width)]
        bars = "".join(_BARS[-(-min(group) * (len(_BARS) - 1) // peak)] for group in groups)
        out.print(line(f"  {name:<{size}} ", (bars, colour)))


def _write_cost(result: results.SimulateResult, out: Console) -> None:
    totals, cost = result.totals, result.totals.cost
    if cost.billed is not None or cost.predicted is not None:
        missing = f"; {count_of(totals.unpriced, 'turn')} without price or usage" if totals.unpriced else ""
        billed = f"{'at least ' if cost.at_least else ''}{format_money(cost.billed)} billed"
        priced = [turn.cost for turn in result.turns if turn.cost is not None and turn.cost.predicted is not None]
        billed_of_priced = format_money(sum_known(entry.billed for entry in priced))
        predicted = f"{format_money(cost.predicted)} predicted{_of_turns(result, len(priced), billed_of_priced)}"
        out.print(f"cost: {billed}{missing}; {predicted}")
        if prices := sentences.format_prices(totals.by_price, totals.billed):
            out.print(f"  billed for {prices}")
    for text in sentences.describe_surcharges(cost.surcharges or (), has_fix=True):
        out.print(text)
    if isinstance(cost.recorded, float):
        out.print(f"cost as recorded by the agents that record it: {format_money(cost.recorded)}")


def _write_sums(result: results.SimulateResult, out: Console) -> None:
    totals, sums = result.totals, Summary()
    for turn in result.turns:
        count_losses(turn.causes, sums)
    for styled in sentences.describe_rebilled(sums):
        out.print(line(styled))
    if sums.missed_tokens:
        missed = [f"{entry.code} {entry.name}" for turn in result.turns for entry in turn.causes if not entry.is_break]
        out.print(f"  cause: {', '.join(dict.fromkeys(missed))}")
    billed_of_predicted = [turn.billed for turn in result.turns if turn.predicted.read_tokens is not None]
    usage_of_predicted = sentences.format_usage(UsageResult.sum_of(filter(None, billed_of_predicted)))
    of_predicted_turns = _of_turns(result, len(billed_of_predicted), usage_of_predicted)
    rows = [("billed", totals.billed, ""), ("predicted", totals.predicted, of_predicted_turns)]
    if isinstance(totals.other_passes, UsageResult):
        response_count = sum(isinstance(turn.other_passes, UsageResult) for turn in result.turns)
        rows.append(("of other passes", totals.other_passes, f" (in {count_of(response_count, 'response')})"))
    for name, usage, suffix in rows:
        out.print(f"tokens {name}: {sentences.format_usage(usage) or 'not recorded'}{suffix}")


def _of_turns(result: results.SimulateResult, known_turns: int, billed: str) -> str:
    """Return how many turns a sum is over if not all of them, and what they were `billed`: sums of the same turns."""
    turns = f" in {known_turns:,} of {count_of(result.totals.turns, 'turn')}"
    return f"{turns} (billed in these: {billed or 'not recorded'})" if 0 < known_turns < result.totals.turns else ""


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def write_reliability(result: results.SimulateResult, out: Console) -> None:
    """Write how often the whole cached prefix was read if only the provider could lose it: overall, by model, hour …"""
    if not result.reliability:
        out.print("reliability: unknown, since no billed turn only appends to the previous one")
    _write_shares_read(result.reliability, out)
    if result.problems:
        problems = f"{count_of(result.totals.problems, 'problem')} in the recordings"
        out.print(f"{problems}; the first: {result.problems[0].message}")


def _write_shares_read(rows: Sequence[results.ReliabilityResult], out: Console) -> None:
    previous_group = ""
    for row in rows:
        if row.by == "all":
            turns = f"{row.read:,} of {count_of(row.appends, 'turn')} that only appended read the whole cached prefix"
            suffix = "; no change, pause or compaction explains the others" if row.read < row.appends else ""
            out.print(line(("reliability: ", "bold"), f"{_percent(row.share)} ({turns}{suffix})"))
            continue
        if row.by != previous_group:
            out.print(line((f"by {row.by}:", "bold")))
        previous_group, note = row.by, "  (few turns)" if row.appends < _FEW_APPENDS else ""
        out.print(f"  {row.name}: {_percent(row.share)} ({row.read:,} of {row.appends:,}){note}")


def count_notes(notes: Sequence[str]) -> list[str]:
    """Return notes; of those that begin alike and are several only a count."""
    counted_notes = list(notes)
    for start, words in _ALIKE_NOTES.items():
        alike = [note for note in notes if note.startswith(start)]
        if len(alike) > 1:
            counted_notes[counted_notes.index(alike[0])] = words.format(len(alike))
            counted_notes = [note for note in counted_notes if note not in alike]
    return counted_notes


def _write_groups(groups: Sequence[results.GroupResult], out: Console, *, verbose: bool) -> None:
    """Write the sums of each group; if not `verbose`, those of the first causes."""
    for by in dict.fromkeys(group.by for group in groups if verbose or group.by == "cause"):
        out.print(line((f"by {by}:", "bold")))
        of_kind = [group for group in groups if group.by == by]
        most = len(of_kind) if verbose or out.is_page else _CAUSES_SHOWN
        for group in of_kind[:most]:
            name = f"{group.name} {CODES[group.name].name}" if group.name in CODES else group.name
            name += f" ({kind_in_words(group.kind, group.name)})" if group.kind is not None else ""
            cost = f" that cost {format_money(group.billed)}" if group.billed else ""
            rebilled = f"{count_of(group.lost_tokens, 'token')} re-billed{sentences.in_dollars(group.rebilled)}"
            out.print(f"  {name}: {rebilled} in {count_of(group.turns, 'turn')}{cost}")
        if of_kind[most:]:
            out.hint(f"  {count_of(len(of_kind) - most, 'more cause')}", "-v shows all")


_Row: TypeAlias = tuple[results.Saving, Sequence[str]]  # a change, and the causes of a combination


def _write_changes(result: results.SimulateResult, out: Console, *, verbose: bool) -> None:
    """Write the changes that save, the best first, then those that save nothing and those whose saving is unknown."""
    cost = result.totals.cost
    total_cost = cost.predicted if cost.billed is None else cost.billed
    by_name = {change.change: change for change in result.what_if}
    rows = [_beyond_parts(change, by_name) for change in result.what_if if change.saves]
    rows.sort(key=lambda row: (row[0].saved or 0.0, row[0].tokens), reverse=True)
    little = 0.0 if verbose else _LITTLE * (total_cost or 0.0)
    small_changes = [change for change, parts in rows if not parts and 0 < (change.saved or 0.0) < little]
    joint = [] if verbose else [set(parts) for _, parts in rows]  # the largest one has what its parts save together
    rows = [
        (change, parts) for change, parts in rows
        if not (0 < (change.saved or 0.0) < little or (parts and any(set(parts) < codes for codes in joint)))
    ]  # fmt: skip
    causes = [cause for turn in result.turns for cause in turn.causes if cause.lost_tokens]
    missed = {f"cause={cause.code}" for cause in causes} - {f"cause={cause.code}" for cause in causes if cause.is_break}
    if rows:
        at_least = "at least " if cost.at_least and cost.billed is not None else ""
        of_cost = f"of {at_least}{format_money(total_cost)}, " if total_cost else ""
        each = "; each change by itself" if len(rows) > 1 else ""
        out.print(line((f"largest savings ({of_cost}estimated{each}):", "bold")))
    shown_fixes = set[str]()
    for change, parts in rows if verbose else rows[:_CHANGES_SHOWN]:
        names = "" if parts else ", ".join(CODES[code].name for code in _codes(change) if code in CODES)
        label = f"all of {', '.join(parts)}" if parts else " ".join(filter(None, (change.change, names)))
        out.print(f"  {label}: {_describe_saving(change, parts, total_cost, is_missed=change.change in missed)}")
        fixes = [fix for fix in change.fix.splitlines() if not parts or fix not in shown_fixes]
        shown_fixes.update(fixes)
        for number, fix in enumerate(fixes):
            out.print(line("          " if number else "     fix: ", (fix, "green")))
    _write_without_saving(result.what_if, small_changes, out)


def _write_without_saving(changes: Sequence[results.Saving], small: Sequence[results.Saving], out: Console) -> None:
    """Write which changes save nothing or little, and those whose saving is unknown."""
    without_saving = [f"{change.change} ({format_money(change.saved)})" for change in small]
    unknown_savings = list[str]()
    for change in changes:
        if change.saves or change.changes_nothing is True:  # a note says why
            continue
        if change.saved is None and not change.turns:
            unknown_savings.append(change.change)
        else:
            extra = f" (costs {format_money(-change.saved)} more)" if change.saved and change.saved < 0 else ""
            without_saving.append(f"{change.change}{extra}")
    no_saving = f"simulated, {'little or ' if small else ''}no saving"
    for label, names in ((no_saving, without_saving), ("saving unknown", unknown_savings)):
        if names:
            out.print(line((f"{label}: {', '.join(names)}", "dim")))


def _codes(change: results.Saving) -> list[str]:
    return change.change.removeprefix("cause=").split(",")


def _beyond_parts(change: results.Saving, by_name: Mapping[str, results.Saving]) -> _Row:
    """Return a combination of causes with what it saves beyond each of them, and their codes; else the change."""
    parts = [by_name.get(f"cause={code}") for code in _codes(change)]
    alone = [part for part in parts if part is not None and part.saves]
    if len(parts) < 2 or None in parts or not alone:
        return change, ()  # a combination whose causes save nothing by themselves is a change like others
    saved = None if change.saved is None else change.saved - sum(part.saved or 0.0 for part in alone)
    return replace(change, saved=saved, tokens=change.tokens - sum(part.tokens for part in alone)), _codes(change)


def _describe_saving(change: results.Saving, parts: Sequence[str], total_cost: float | None, *, is_missed: bool) -> str:
    """Return what a change saves, and why; `is_missed`: its tokens were not re-billed, but could have been cached."""
    effect = "read from a cache" if is_missed else f"re-billed {'less' if change.tokens > 0 else 'more'}"
    reasons = [_WRITE_PRICES] if change.change in (what_if.SHORT, what_if.TTL) else []
    if change.tokens:
        where = "where several of them broke the same prefix" if parts else f"in {count_of(change.turns, 'turn')}"
        reasons.append(f"{abs(change.tokens):,} tokens {effect}, {where}")
    reason = "; ".join(reasons) or "the same tokens at other prices"
    if not change.saved:
        return reason
    share = f", {_percent(change.saved / total_cost)}" if total_cost else ""
    more = " more than one by one" if parts else ""
    return f"saves {'up to ' if is_missed else ''}{format_money(change.saved)}{more}{share} ({reason})"


def write_rules(result: results.RulesResult, out: Console) -> None:
    """Write the rows of the rules by provider, then their sources by number, and the day on which they were checked."""
    sources = {text: number for number, text in enumerate(dict.fromkeys(row.source for row in result.rules), 1)}
    groups = defaultdict[str, list[tuple[Cell, ...]]](list)
    for row in result.rules:
        place = "every provider" if row.provider == "*" else row.provider
        value = "unknown" if row.value is None else f"{row.value:,}" if isinstance(row.value, int) else str(row.value)
        if isinstance(row.value, bool):
            value = "yes" if row.value else "no"
        elif row.value is not None:
            value = _UNITS.get(row.unit, "{} " + row.unit).format(value)
        above = "" if row.above_tokens is None else f"above {row.above_tokens:,} tokens"
        value = "; ".join(filter(None, (value, above, row.note, "" if row.used else "no prediction uses it")))
        cells = row.model, row.rule, value, row.valid_from, f"{row.evidence} [{sources[row.source]}]"
        groups[f"{place} on {row.platform}" if row.platform else place].append(
            tuple([(cell, "cyan") for cell in cells]) if row.own else cells
        )
    for place, rows in groups.items():
        out.print(line((place, "bold")))
        write_table(_RULE_COLUMNS, rows, out)
        out.print()
    for text, number in sources.items():
        out.print(f"[{number}] {text}")
    out.print("P: the vendor's own page, M: measured, S: second-hand, ?: inferred; models: * is any text")
    own_count = sum(row.own for row in result.rules)
    own_note = f", {own_count:,} of them your own" if own_count else ""
    date_note = "" if result.as_of is None else f", as of {result.as_of}"
    out.print(line((count_of(len(result.rules), "row") + own_note + date_note, "bold")))


_GROUP = "lore.measured"


@cache
def engine_measures() -> Any:
    """Return the object that a plug-in publishes under `lore.measured` for logs of engines; None without a plug-in.

    Its methods:
    - `read(paths, files, options, problems)`: the logs at these paths; `files` are simulated. Raises LoreError for a
      file that measures nothing. The logs have `cache` (the cache of all of them, else None) and `play()`, which begins
      the comparison with one simulation: its `follow(recording, played)` yields the played turns of a recording
      unchanged, its `result()` returns the `MeasuredResult`, or UNSET without logs.
    - `write(result, out, every=...)`: writes the result; of requests every one, else those that differ.
    """
    for point in entry_points(_GROUP):
        try:
            return point.load()
        except Exception as error:  # noqa: BLE001 - anything may be wrong with code of others
            message = f"the plug-in {point.name!r} ({_GROUP}) cannot be loaded: {error}"
            raise LoreError(message, hint=f"repair or remove {point.value}") from None
    return None
