"""`lore compare` on a terminal: both sides, a line a measure, a line a cause, and what differs beyond chance."""

from __future__ import annotations

from lore.judge.measures import LEAST_SESSIONS
from lore.model.fact import format_money, join_names
from lore.model.results.overview import ComparedCause, Comparison, Measure, MeasureSide, Outcome
from lore.report.console import Console, line
from lore.report.overview import cost_of, rebilled_of, tokens_of
from lore.report.plain import counted, day_of
from lore.report.status_line import percent
from lore.report.table import TableColumn, write_table

_CAUSES = 8  # shown without -v
_NAMED = 3  # of them in sentences
_MODELS = 2  # named in a sentence
_MUCH = 1.25  # times as much: from there on a difference is named
_LARGE = 100_000  # from there on a share is shown without its counts
_MEASURES = {
    "share_read": "share of prompts read from a cache",
    "breaks": "requests with a cache break",
    "reliability": "unchanged prefixes that were read",
    "prompt": "prompt tokens per request",
    "output": "output tokens per request",
    "money": "cost per request",
    "paid_again": "re-billed per request",
}
_OUTCOMES: dict[Outcome, str] = {
    "higher": "higher", "lower": "lower", "no-difference": "no difference beyond chance", "too-few": "too few to say",
    "unknown": "-",
}  # fmt: skip
_SURE = ("higher", "lower")


def write_comparison(result: Comparison, out: Console, *, verbose: bool = False) -> None:
    """Write both sides, what differs, and what to do about it; `verbose` adds counts and 95 % intervals."""
    for label, side in (("A", result.left), ("B", result.right)):
        days = [day_of(at) for at in (side.first, side.last) if at is not None]
        parts = " to ".join(dict.fromkeys(days)), join_names(side.clients, 2), join_names(side.models, 2)
        out.print(line((f"{label}  {side.name}", "bold"), f"  {' · '.join(filter(None, parts))}"))
    out.print()
    left, right = result.left.spending, result.right.spending
    rows = [
        (name, f"{getattr(left, name):,}", f"{getattr(right, name):,}", "")
        for name in ("sessions", "requests", "compactions")
    ]
    missing = [each.unpriced + each.unbilled + each.at_least for each in (left, right)]
    if any(missing):
        rows.append(("requests without a whole price", f"{missing[0]:,}", f"{missing[1]:,}", ""))
    rows += [("cost", cost_of(left), cost_of(right), ""), ("re-billed", rebilled_of(left), rebilled_of(right), "")]
    for measure in result.measures:
        a, b = (_value(side, measure.unit, verbose=verbose) for side in (measure.left, measure.right))
        rows.append((_MEASURES[measure.name], a, b, _difference(measure, verbose=verbose)))
    _write_sides([TableColumn(head, wraps=bool(head)) for head in ("", "A", "B", "B compared with A")], rows, out)
    if result.causes:
        out.print()
        out.print(
            line(("causes: requests that they affect, of those with recorded tokens, and the re-billed cost", "bold"))
        )
        heads = [TableColumn("A"), TableColumn("B"), TableColumn("cause", wraps=True), TableColumn("B compared with A")]
        shown = result.causes if verbose or out.is_page else result.causes[:_CAUSES]
        _write_sides(heads, [_cause(cause, verbose=verbose) for cause in shown], out)
        if len(shown) < len(result.causes):
            out.hint(counted(len(result.causes) - len(shown), "more cause"), "-v shows all")
    out.print()
    for note in result.notes:
        out.print(line((note, "yellow")))
    for sentence in conclusions(result):
        out.print(line(sentence))
    if result.failed:
        out.print(line((f"not read: {join_names(result.failed, 2)}", "yellow")))


def _write_sides(columns: list[TableColumn], rows: list[tuple[str, str, str, str]], out: Console) -> None:
    """Write a table, without its last column if that says nothing."""
    end = len(columns) if any(row[-1] for row in rows) else -1
    write_table(columns[:end], [row[:end] for row in rows], out)


def _cause(cause: ComparedCause, *, verbose: bool) -> tuple[str, str, str, str]:
    """Return how often a cause occurred on each side and at which cost, its words, and how the sides differ."""
    left, right = (
        f"{side.events:,.0f} of {side.trials:,}" + (f", {format_money(dollars)}" if side.events else "")
        for side, dollars in ((cause.left, cause.left_dollars), (cause.right, cause.right_dollars))
    )
    return left, right, cause.says, _OUTCOMES[cause.outcome] if verbose or cause.outcome in _SURE else ""


def conclusions(result: Comparison) -> list[str]:
    """Return what a request costs if that differs much, and what differs beyond chance; else what is needed to say."""
    cost = list(filter(None, [_cost_sentence(result)]))
    found = [
        f"{_MEASURES[measure.name]}: {measure.outcome} in B ({_signed(measure.difference or 0.0, measure.unit)})"
        for measure in result.measures
        if measure.outcome in _SURE
    ]
    causes = [cause for cause in result.causes if cause.outcome in _SURE]
    found += [
        f"{cause.says}: {'more' if cause.outcome == 'higher' else 'less'} often in B; {cause.fix}"
        for cause in causes[:_NAMED]
    ]
    if found:
        return [*cost, *found]
    sessions = result.left.spending.sessions, result.right.spending.sessions
    if min(sessions) < LEAST_SESSIONS:
        few = f"{counted(sessions[0], 'session')} of A and {sessions[1]:,} of B"
        return [*cost, f"{few} are too few to say what is more than chance: compare more sessions of each side"]
    what = "no difference is sure to be more than chance" if cost else "nothing differs beyond chance"
    return [*cost, f"{what}: compare more sessions of each side"]


def _cost_sentence(result: Comparison) -> str:
    """Return how many times as much a request costs in B, why, and what had the opposite effect.

    Empty if it costs about the same.
    """
    values = {measure.name: (measure.left.value, measure.right.value) for measure in result.measures}
    times = {name: after / before for name, (before, after) in values.items() if before and after}
    if not _differs(times.get("money", 1.0)):
        return ""
    before, after = (format_money(value) for value in values["money"])
    is_dearer = times["money"] > 1
    lengths = [
        (f"{what} are {_times(times[name], 'as long', 'shorter')}", (times[name] > 1) is is_dearer)
        for name, what in (("prompt", "prompts"), ("output", "answers")) if _differs(times.get(name, 1.0))
    ]  # fmt: skip
    parts = [text for text, explains in lengths if explains]
    against = [text for text, explains in lengths if not explains]
    models = [join_names(side.models, _MODELS) for side in (result.left, result.right)]
    parts += [f"models differ (A: {models[0]}; B: {models[1]})"] if models[0] != models[1] else []
    before_read, after_read = values["share_read"]
    shares = [None if value is None else percent(value) for value in (before_read, after_read)]
    if shares[0] != shares[1]:
        saves = (after_read or 0) > (before_read or 0)
        (parts if saves is not is_dearer else against).append(
            f"{shares[1]} is read from a cache instead of {shares[0]}"
        )
    much = f"a request costs {_times(times['money'], 'as much', 'less')} in B ({after} instead of {before})"
    because = f": {'; '.join(parts)}" if parts else ""
    return f"{much}{because}, although {'; '.join(against)}" if against else f"{much}{because}"


def _differs(times: float) -> bool:
    return not 1 / _MUCH < times < _MUCH


def _times(times: float, more: str, less: str) -> str:
    """Return a ratio in words: `3.6 times as long`, `69 % shorter`."""
    return f"{times:,.3g} times {more}" if times > 1 else f"{percent(1 - times)} {less}"


def _value(side: MeasureSide, unit: str, *, verbose: bool) -> str:
    if side.value is None:
        return "-"
    if unit == "share":
        counts = f" ({side.events:,.0f} of {side.trials:,})" if verbose and side.trials < _LARGE else ""
        return f"{100 * side.value:.1f} %{counts}"
    return tokens_of(round(side.value)) if unit == "tokens" else format_money(side.value)


def _difference(measure: Measure, *, verbose: bool) -> str:
    """Return how the right side differs: if it does beyond chance, else (`verbose`) also why nothing is said."""
    if not verbose and measure.outcome not in _SURE:
        return ""
    words, interval = _OUTCOMES[measure.outcome], measure.interval
    if measure.difference is None or measure.outcome in ("too-few", "unknown"):
        return words
    words += f": {_signed(measure.difference, measure.unit)}"
    if interval is None or not verbose:
        return words
    low, high = (_signed(value, measure.unit).removesuffix(" points") for value in (interval.low, interval.high))
    return f"{words} ({low} to {high}{'' if interval.over == 'sessions' else '; few sessions'})"


def _signed(value: float, unit: str) -> str:
    sign, size = "-" if value < 0 else "+", abs(value)
    if unit == "share":
        return f"{sign}{100 * size:.1f} points"
    return f"{sign}{tokens_of(round(size)) if unit == 'tokens' else format_money(size)}"
