"""Causes of re-billed tokens in words, with the names in their evidence, advice, and the command to run next."""

from __future__ import annotations

from msgspec.structs import replace

from lore.judge.sums import UNSURE
from lore.model.codes import CODES, CodeFacts, fix_of, kind_in_words
from lore.model.fact import format_money
from lore.model.results.overview import ComparedCause, CostChange, Spending, SpendingCause
from lore.report.plain import visible
from lore.report.status_line import short

_CENT = 0.01
_SHORTENED = 10_000  # tokens
_SMALL = 0.01  # of the largest part: a smaller one is left out of a sentence

_POSSIBLY = "possibly "
_SINGULAR = {"pauses": "a pause", "compactions": "a compaction"}
_TIP = "to find it: lore record -- AGENT (lore guide record)"
# What a cause is if its fix is one of the precise ones for users: by the name of that fix in `CodeFacts.fixes`.
_BY_FIX = {
    "aside-user": (
        "Claude Code switched thinking for skills, commands or plans",
        "update Claude Code to 2.1.38 or later",
    ),
    "by-client-user": (
        "less was read after a prompt or at the beginning; probably the client changed something",
        "record request bodies, and compare them (lore guide record)",
    ),
}


def _facts(code: str, name: str, kind: str) -> CodeFacts:
    """Return the facts of a code; of an uncertain cause (kind `UNSURE`) their words say that it is only possible."""
    facts = CODES.get(code)
    if facts is not None and kind == UNSURE and facts.short_unsure:
        return replace(facts, short=facts.short_unsure, short_named="", tip=_TIP)
    if facts is None or not facts.short:
        return CodeFacts(name, "waste", "", short=name.replace("-", " "))
    if kind != UNSURE or facts.kind == UNSURE:
        return facts
    short_named = facts.short_named and _POSSIBLY + facts.short_named
    return replace(facts, short=_POSSIBLY + facts.short, short_named=short_named)


def cause_in_words(cause: SpendingCause) -> SpendingCause:
    """Return a cause with its words, its advice and the command that explains it."""
    facts = _facts(cause.code, cause.name, cause.kind)
    precise = [words for name, words in _BY_FIX.items() if cause.fix in (facts.fixes.get(name, words[1]), words[1])]
    facts = replace(facts, short=precise[0][0], short_named="", tip=precise[0][1]) if precise else facts
    names = ", ".join(f'"{name}"' for name in cause.names)
    if cause.lifetime is not None:
        hours = cause.lifetime / 3600
        names = "an hour" if hours == 1 else f"{hours:g} hours" if hours > 1 else f"{cause.lifetime / 60:g} minutes"
    says = (facts.short_named or f"{facts.short}: {{}}").replace("{}", names) if names else facts.short
    is_for_user = cause.code not in CODES or cause.fix == fix_of(cause.code, "user", cause.kind)
    for_user = facts.tip == _TIP or precise or is_for_user
    fix = facts.tip if for_user and facts.tip else cause.fix[:1].lower() + cause.fix[1:].rstrip(".")
    return replace(cause, says=says, fix=fix, command=f"lore explain {cause.code}")


def worded_break(cause: SpendingCause) -> SpendingCause:
    """Return the cause of a single break with its words, in which control characters are made visible."""
    result = cause_in_words(cause)
    doubt = _POSSIBLY if result.says.startswith(_POSSIBLY) else ""
    first, space, tail = result.says.removeprefix(doubt).partition(" ")
    return replace(result, says=visible(doubt + _SINGULAR.get(first, first) + space + tail), fix=visible(result.fix))


def label_of(cause: SpendingCause | ComparedCause) -> str:
    """Return the kind of a cause, to follow its words."""
    return f" ({kind_in_words(cause.kind, cause.code)})"


def describe_change(
    who: str, change: CostChange, earlier: Spending, later: Spending, *, sides: tuple[str, str] = ("earlier", "later")
) -> list[str]:
    """Return by how much requests (`who`) cost more or less than earlier ones; then a line for each reason."""
    counts, sizes, read, output = list[int](), list[str](), list[str](), list[str]()
    for side in (later, earlier):
        billed = side.requests - side.unbilled
        tokens = side.uncached_tokens + side.read_tokens + side.write_tokens
        counts.append(billed - side.unpriced)
        sizes.append(short(round(tokens / max(1, billed))))
        read.append(f"{100 * side.read_tokens / max(1, tokens):.1f} %")
        output.append(count_of_tokens(side.output_tokens / max(1, billed)))
    shares = "" if read[0] == read[1] else f"share read ({read[0]} instead of {read[1]}) and "
    names = dict.fromkeys(surcharge.name for side in (later, earlier) for surcharge in side.surcharges)
    parts = {
        f"{_more(change.requests, 'more', 'fewer')} requests ({counts[0]:,} instead of {counts[1]:,})": change.requests,
        "other models": change.models,
        f"{_more(change.prompts, 'longer', 'shorter')} prompts ({sizes[0]} tokens instead of {sizes[1]})":
            change.prompts,
        f"{shares}prices of the same models": change.tokens,
        f"{_more(change.output, 'more', 'less')} output in each request ({output[0]} tokens instead of {output[1]})":
            change.output,
        ", ".join(names): change.surcharges,
        f"{_more(change.rebilled, 'more', 'less')} re-billed in each request": change.rebilled,
    }  # fmt: skip
    threshold = max(_CENT, max(map(abs, parts.values())) * _SMALL)
    terms = sorted((part for part in parts.items() if abs(part[1]) >= threshold), key=lambda part: -abs(part[1]))
    rest = round(change.dollars, 2) - sum(round(dollars, 2) for _, dollars in terms)  # so that the shown parts add up
    if len(terms) < sum(map(bool, parts.values())) and abs(rest) >= _CENT / 2:
        terms.append(("smaller differences", rest))
    amount = f"{who} {format_money(abs(change.dollars))} {_more(change.dollars, 'more', 'less')}"
    digits = 2 if abs(change.dollars) >= 1 else 4
    reasons = [f"  {'+' if dollars > 0 else '-'}${abs(dollars):,.{digits}f} by {key}" for key, dollars in terms]
    unsure = [
        f"{side.at_least:,} {label}" for side, label in zip((earlier, later), sides, strict=True) if side.at_least
    ]
    if unsure:
        amount += f", output not counted: the cost of {' and '.join(unsure)} requests is known in part"
    return [amount, *reasons]


def count_of_tokens(count: float) -> str:
    """Return a mean count of tokens, all digits of it below 10,000."""
    return f"{round(count):,}" if count < _SHORTENED else short(round(count))


def _more(difference: float, more: str, less: str) -> str:
    return more if difference > 0 else less


def short_of(code: str, name: str, kind: str = "") -> str:
    """Return what a cause of this code and kind is in a few words: its name in words, if the code has none."""
    return _facts(code, name, kind).short
