"""`lore simulate` for a person: a row a turn, a chart, sums, what it cost, what to change first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console

from lore.judge.tally import UNEXPLAINED
from lore.model.codes import CODES
from lore.model.results import BilledResult
from lore.model.results_simulate import AgreementResult, GroupResult, Saving, Simulated, SimulatedTurn
from lore.report.console import line
from lore.report.sentences import grounds, money_of
from lore.report.terminal import counted

CHART = 72  # columns
_BARS = " ▁▂▃▄▅▆▇█"
_TOP = 3  # of each kind of group, and of the changes, where not all are asked for
_STYLES = {"waste": "bold red", "unattributable": "yellow", "expected": "cyan"}
_WARM = 1000  # tokens read beyond the prediction that are worth a word
_EXPLAINED = 160  # characters of evidence on a line
_RULED_OUT = 5  # reasons that most unexplained turns rule out


def write(result: Simulated, out: Console, *, every: bool = False, verbose: bool = False) -> None:
    """Write a result; `every` shows each turn of many recordings, else those that have a cause."""
    one = len({turn.path for turn in result.turns}) == 1
    served = result.cache or "as served"
    out.print(line((f"cache: {served}", "bold"), f", rules as of {result.rules.as_of or 'unknown'}"))
    _turns(result.turns, out, every=every or one)
    _chart(result.turns, out)
    _totals(result, out)
    _agreement(result.agreement, out)
    _groups(result.groups, out, verbose=verbose)
    _changes(result.what_if, out, verbose=verbose)
    for note in result.notes:
        out.print(line((f"note: {note}", "dim")))
    if result.problems:
        out.print(
            line(f"{counted(len(result.problems), 'problem')} in the recordings{'' if verbose else ', shown with -v'}")
        )
    for one in result.problems if verbose else ():
        out.print(line(f"  {one.code} {one.file}:{one.line or 0}: {one.message}"))


def _turns(turns: Sequence[SimulatedTurn], out: Console, *, every: bool) -> None:
    shown = [one for one in turns if every or one.cause is not None]
    if not shown:
        return
    out.print(
        line(
            (f"{'turn':>14} {'predicted':>11} {'billed':>11} {'difference':>11}  why", "bold"),
            ("   (~: a best case, or unsure)", "dim"),
        )
    )
    before = ""
    for one in shown:
        if one.path != before and len({each.path for each in turns}) > 1:
            out.print(line((one.path, "bold")))
        before = one.path
        out.print(line(*_row(one)))


def _row(one: SimulatedTurn) -> Iterator[str | tuple[str, str]]:
    name = f"{one.turn}" if one.chain == "main" else f"{one.chain}:{one.turn}"
    said = one.predicted.read_tokens
    bill = None if one.billed is None else one.billed.read_tokens
    off = "" if said is None or bill is None else f"{bill - said:+,}" if bill != said else "="
    sure = "" if one.predicted.confidence != "ceiling" or said is None else "~"
    yield f"{name[-14:]:>14} {sure + _number(said):>11} {_number(bill):>11} {off:>11}  "
    why = one.cause
    if why is not None:
        lost = f" {one.lost_tokens:,} tokens" if one.lost_tokens else ""
        sure = "" if why.code == UNEXPLAINED else f" ({why.strength})"
        yield f"{why.code} {why.name}{lost}", _STYLES[why.kind]
        yield _shortened(f"{sure} {grounds(why)}")
    elif said is not None and bill is not None and bill > said + _WARM:
        yield "warmed elsewhere: more was read than what is recorded here explains", "dim"


def _shortened(text: str) -> str:
    """Return the beginning of a text, up to a whole word where one ends not too far before."""
    if len(text) <= _EXPLAINED:
        return text
    end = text.rfind(" ", _EXPLAINED // 2, _EXPLAINED)
    return text[: _EXPLAINED - 1 if end < 0 else end].rstrip(" ,;:") + "…"


def _number(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _chart(turns: Sequence[SimulatedTurn], out: Console) -> None:
    """Draw what was predicted and what was billed to be read, turn by turn, on one scale."""
    predicted = [one.predicted.read_tokens or 0 for one in turns]
    billed = [(one.billed and one.billed.read_tokens) or 0 for one in turns]
    most = max((*predicted, *billed), default=0)
    if len(turns) < 3 or not most:
        return
    out.print(line((f"tokens read, turn by turn (full height {most:,})", "bold")))
    out.print(line("  predicted ", (_bars(predicted, most), "cyan")))
    out.print(line("  billed    ", (_bars(billed, most), "green")))


def _bars(values: Sequence[int], most: int) -> str:
    """Return one column a turn, or the least of each group of turns where they are too many."""
    width = min(CHART, len(values))
    groups = [values[len(values) * at // width : max(len(values) * (at + 1) // width, 1)] for at in range(width)]
    return "".join(_BARS[-(-min(group) * (len(_BARS) - 1) // most)] for group in groups)


def _totals(result: Simulated, out: Console) -> None:
    totals = result.totals
    said = sum(one.predicted.read_tokens is not None for one in result.turns)
    of = f" (in {said:,} of them)" if 0 < said < totals.turns else ""  # else sums of different turns look alike
    out.print(line(f"{counted(totals.turns, 'turn')}; predicted: {_counts(totals.predicted)}{of}"))
    out.print(line(f"{'':>{len(counted(totals.turns, 'turn'))}}  billed:    {_counts(totals.billed)}"))
    cost = totals.cost
    if cost.billed is not None or cost.predicted is not None:
        prices = ", ".join(f"{kind} {money_of(paid)}" for kind, paid in totals.by_price.items())
        left = f"; {counted(totals.unpriced, 'turn')} without a price or a bill" if totals.unpriced else ""
        prices = f" ({prices})" if prices else ""
        out.print(line(f"cost: billed {money_of(cost.billed)}{prices}, predicted {money_of(cost.predicted)}{of}{left}"))
    again = f", {money_of(cost.waste)} more than reading them" if cost.waste else ""
    style = "bold red" if totals.waste_tokens else "bold green"
    out.print(line((f"paid again without need: {totals.waste_tokens:,} tokens{again}", style)))
    _unexplained(result, out)


def _unexplained(result: Simulated, out: Console) -> None:
    """Say what was paid again and nothing explains, and what most of those turns rule out."""
    turns = [one for one in result.turns if one.unexplained_tokens]
    if not turns:
        return
    again = result.totals.cost.unexplained
    paid = "" if again is None else f", {money_of(again)}"
    every = [one.cause.ruled_out for one in turns if one.cause is not None]
    seen = Counter(reason.reason for reasons in every for reason in reasons if reason.out)
    most = ", ".join(reason for reason, _ in seen.most_common(_RULED_OUT))
    said = f"; ruled out: {most}" if most else ""
    tokens = result.totals.unexplained_tokens
    out.print(line((f"unexplained: {tokens:,} tokens in {counted(len(turns), 'turn')}{paid}{said}", "yellow")))


def _counts(found: BilledResult) -> str:
    names = (("read", found.read_tokens), ("write", found.write_tokens), ("uncached", found.uncached_tokens))
    return ", ".join(f"{name} {_number(count)}" for name, count in names)


def _agreement(found: AgreementResult, out: Console) -> None:
    if not found.turns:
        out.print(line("agreement: no two successive turns were billed"))
        return
    share, near = found.exact / found.turns, found.within_2_percent / found.turns
    out.print(
        line(
            f"agreement over {counted(found.turns, 'turn')}: {share:.1%} exact, {near:.1%} within 2 %, off by "
            f"{found.mean_absolute_error_tokens:,.0f} tokens on average (without a model "
            f"{found.naive_mean_absolute_error_tokens:,.0f})"
        )
    )
    if found.drops or found.false_drops:
        said = f"{counted(found.drops, 'drop')} of over 1,000 tokens: {found.drops_predicted} foreseen"
        out.print(line(f"{said}, {counted(found.false_drops, 'false alarm')}"))


def _groups(groups: Sequence[GroupResult], out: Console, *, verbose: bool) -> None:
    for by in dict.fromkeys(group.by for group in groups):
        rows = [group for group in groups if group.by == by]
        if by != "cause" and len(rows) < 2 and not verbose:
            continue
        out.print(line((f"by {by}:", "bold")))
        for group in rows if verbose else rows[: 3 * _TOP]:
            name = f"{group.name} {CODES[group.name].name}" if group.name in CODES else group.name
            paid = f", billed {money_of(group.billed)}" if group.billed is not None else ""
            again = f", {money_of(group.waste)} paid again" if group.waste else ""
            lost = f", {group.lost_tokens:,} tokens lost" if group.lost_tokens else ""
            out.print(line(f"  {name}: {counted(group.turns, 'turn')}{lost}{paid}{again}"))


def _changes(changes: Iterable[Saving], out: Console, *, verbose: bool) -> None:
    shown = list(changes) if verbose else [one for one in changes if one.tokens or one.saved or not one.fix]
    for number, one in enumerate(shown if verbose else shown[: 3 * _TOP]):
        if not number:
            out.print(line(("what would have saved most:", "bold")))
        saved = "" if one.saved is None else f", {money_of(one.saved)}"
        if one.saved is not None and one.saved < 0:
            saved = f", and costs {money_of(-one.saved)} more"
        out.print(line(f"  {one.change}: {one.tokens:,} tokens in {counted(one.turns, 'turn')}{saved}"))
        if one.fix:
            out.print(line("     fix: ", (one.fix, "green")))
