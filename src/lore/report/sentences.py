"""Results in words: losses, usage, prices, causes with the names in their evidence and their advice, notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from lore.cache.counts import first_pass_read
from lore.judge.messages import MASKED
from lore.judge.pairs.pair import Pair, dispute_of, provider_verdict
from lore.model import results
from lore.model.codes import CODES, UNEXPLAINED, Code, CodeFacts, fix_of, kind_in_words
from lore.model.deferred import pattern
from lore.model.fact import count_of, format_money, replace_texts
from lore.model.results import Finding
from lore.prefix.overlap import count_cached_segments, locate_difference
from lore.report.plain import visible

if TYPE_CHECKING:
    from lore.model.results.overview import ComparedCause, CostChange, Spending, SpendingCause
    from lore.model.results.store import SessionUsage, TurnResult

    _Counts: TypeAlias = results.UsageResult | results.CachePrediction | TurnResult | SessionUsage

_CENT = 0.01
_CENTS = 0.1  # dollars: smaller amounts have four decimals
UNSURE = "unattributable"  # as in `lore.judge.sums`, which takes 20 ms to import
FAST = "fast mode"  # as `cache.rules` names it
FAST_FIX = "switch fast mode off (/fast in Claude Code) if you can wait for answers"
_GROUNDS = pattern("; (?=(?:also seen|(?:not )?ruled out[^:;]*|not recorded): )")
_UNKNOWN = (Code.BILLED_READ_FELL, Code.CLIENT_CAUSE_UNKNOWN)  # whose fixes say how to find the cause


def split_message(message: str) -> list[str]:
    """Return the parts of a message that are written on lines of their own: the statement, then its grounds."""
    return _GROUNDS.split(message)


def describe_missing(formats: Iterable[str], what: str) -> str:
    """Return what logs of these formats do not record of their prompts."""
    return f"not recorded in {', '.join(formats)} logs: {what}"


def describe_interruption(interrupted: results.Interruption) -> str:
    """Return how many files an interrupted run judged."""
    files = f"{interrupted.files:,} of {count_of(interrupted.of, 'file')}"
    return f"interrupted: this is partial, {files} (the last perhaps not to its end)"


def describe_random_cache(cache: str, drops: int, requests: int) -> str:
    """Return a note that a cache is unpredictable: of `requests` that only appended, `drops` read less."""
    return (
        f"{cache}'s implicit cache is nearly random: of {requests:,} requests that only appended, {drops:,} read less "
        "(counted in other sessions); predictions are guesses"
    )


def format_prices(by_price: Mapping[str, float], billed: results.UsageResult) -> str:
    """Return the cost of tokens by kind ("read $0.02, …"); output is marked if the log has only a part of it."""
    names = {"write_5m": "5-minute writes", "write_1h": "1-hour writes"}
    if billed.partial_output is True:
        names["output"] = "output (partial)"
    return ", ".join(f"{names.get(kind, kind)} {format_money(paid)}" for kind, paid in by_price.items())


def describe_surcharges(surcharges: Iterable[results.Surcharge], *, has_fix: bool = False) -> Iterator[str]:
    """Yield what requests cost more or less than the list price, by reason, and if `has_fix` how to avoid it.

    Amounts below a cent are left out.
    """
    for extra in surcharges:
        if abs(extra.dollars) >= _CENT:
            difference = f"{format_money(abs(extra.dollars))} {'more' if extra.dollars > 0 else 'less'}"
            costs = f"{count_of(extra.requests, 'request')} cost {difference} than at the list price"
            yield f"{extra.name}: {costs}" + (f"; to do: {FAST_FIX}" if has_fix and extra.name == FAST else "")


def format_usage(billed: _Counts) -> str:
    """Return the known counts of a prompt; empty if none is known."""
    counts = (("read", billed.read_tokens), ("written", billed.write_tokens), ("uncached", billed.uncached_tokens))
    return ", ".join(f"{count:,} {name}" for name, count in counts if count is not None)


def format_loss(cause: Finding | results.CauseResult, *, is_part: bool = False) -> str:
    """Return how many tokens a cache break re-billed, or another finding left unread, and their cost beyond a read.

    `is_part`: the cost is that of some of the tokens.
    """
    about, estimated = ("about ", "estimated") if cause.tokens == "estimated" else ("", "")
    what = "re-billed" if cause.is_break else "could have been read from a cache"
    cost = "" if cause.lost_dollars is None else f"{'at least ' if is_part else ''}{format_money(cause.lost_dollars)}"
    notes = ", ".join(filter(None, (cost, estimated)))
    return f"{about}{cause.lost_tokens or 0:,} tokens {what}{notes and f' ({notes})'}"


def format_fix(finding: Finding | results.CauseResult) -> tuple[str, str]:
    """Return the heading and the text of a fix, such as ("fix (agent author)", "Sort the tools by name.")."""
    recording = CODES[Code.CLIENT_CAUSE_UNKNOWN]  # other causes that are only possible have its fixes
    names_key = finding.fix == CODES[Code.BILLED_READ_FELL].fixes["no-cache-key"]
    if (finding.code in _UNKNOWN and not names_key) or finding.fix in (recording.fix, recording.fix_user):
        return "to find the cause", finding.fix
    if finding.fix.startswith("Nothing") or finding.actor == "provider":  # no one at the provider reads this
        return "what you can do", finding.fix
    actor = "" if finding.code == Code.UNREADABLE_FILE else finding.actor  # anyone who runs lore can correct a name
    return {"author": "fix (agent author)", "user": "fix (user)"}.get(actor, "fix"), finding.fix


def describe_cost_and_fix(finding: Finding) -> str:
    """Return what a finding cost and its fix, as sentences of one paragraph."""
    cost = f"{format_loss(finding)}. " if finding.lost_tokens else ""
    return cost + ": ".join(format_fix(finding))


def name_cause(cause: Finding | results.CauseResult) -> str:
    """Return the code and the name of a cause, after "possible cause:" if its evidence is weak."""
    is_possible = cause.strength == "weak" and cause.code not in UNEXPLAINED
    return f"{'possible cause: ' if is_possible else ''}{cause.code} {cause.name}"


def cause_result(finding: Finding) -> results.CauseResult:
    """Return a finding as a `CauseResult`, the form in which results about a turn list it."""
    return results.copy_fields(results.CauseResult, finding, path=finding.json_path)


def describe_rebilled(
    sums: results.Summary, counted: int | None = None, *, has_grounds: bool = True
) -> Iterator[tuple[str, str]]:  # fmt: skip
    """Yield how many tokens were re-billed as waste, with no certain cause, and as expected, each with a style.

    `counted`: how many requests record what they read from a cache. `has_grounds`: of breaks without a certain cause
    also what is ruled out in each.
    """

    def amount(name: str) -> str:
        about = "about " if sums.estimated_tokens.get(name) else ""
        tokens, dollars = getattr(sums, f"{name}_tokens"), getattr(sums, f"{name}_dollars")
        return f"{about}{tokens:,} tokens{in_dollars(dollars, is_part=sums.unpriced_tokens.get(name))}"

    is_unknown = counted is not None and 2 * counted < sums.turns
    if is_unknown:
        yield (
            f"cache usage is recorded for {counted:,} of {count_of(sums.turns, 'request')}: "
            f"{'of the others ' if counted else ''}only the text was compared"
        ), "yellow"  # fmt: skip
    if sums.waste_tokens or sums.waste or not is_unknown:
        yield f"re-billed as waste: {amount('waste')}", "bold red" if sums.waste_tokens or sums.waste else "bold green"
    else:
        yield "re-billed as waste: unknown", "yellow"
    if sums.unattributable:
        ruled_out = [reason for reason, count in sums.ruled_out.items() if has_grounds and count == sums.unattributable]
        unsure = amount("unexplained") if sums.unexplained_tokens else "an unknown number of tokens"
        note = f"; ruled out in each: {', '.join(ruled_out)}" if ruled_out else ""
        yield f"re-billed, no certain cause: {unsure} in {count_of(sums.unattributable, 'cache break')}{note}", "yellow"
    if sums.expected_tokens:
        yield f"re-billed as expected: {amount('expected')}", ""
    if sums.missed_tokens:
        yield f"not re-billed, but could have been read from a cache: {amount('missed')}", "yellow"


def in_dollars(amount: float | None, *, is_part: object = False) -> str:
    """Return an amount as ` ($0.02)`, to follow tokens; empty if unknown or 0. `is_part`: some of it is unknown."""
    if not amount:
        return " (cost unknown)" if is_part else ""
    return f" ({'at least ' if is_part else ''}{format_money(amount)})"


def columns_result(pair: Pair, change: Mapping[str, Callable[[str], str]] = MASKED) -> results.ColumnsResult:
    """Return what bytes, usage and the provider's verdict show; `change` masks texts, by their kind (`path`, …)."""
    report, dispute, verdict = provider_verdict(pair.current), dispute_of(pair), "none recorded"
    if report is not None:
        fact = replace_texts(report, change)
        missed = "" if fact.missed_tokens is None else f", {fact.missed_tokens:,} tokens missed"
        doubt = ", which names no cause" if fact.reason == "unavailable" else ""
        verdict = f"{fact.reason or fact.other}{missed}{doubt}"
    agree = None if report is None and pair.fell is None else dispute is None
    contradiction = None if dispute is None else replace_texts(dispute, change).sentence()
    previous, overlap, total = pair.previous.prompt, pair.overlap, pair.bytes.previous - pair.tail_bytes
    if not overlap.is_covered:
        place = locate_difference(previous, pair.current.prompt, overlap.common)
        where = "they differ" if place is None else f"they differ from {change['path'](place.path)} on"
        after = ", after the last cache breakpoint" if overlap.common >= count_cached_segments(previous) else ""
        shared = f"{where}{after}; {pair.bytes.common + overlap.common_bytes:,} of {total:,} bytes are shared"
    elif not pair.bytes.previous:  # the prompts were not built
        shared = "the recorded prompt continues; no change is recorded"
    else:
        prompt = "recorded prompt" if pair.current.is_rebuilt else "prompt"
        shared = f"the {prompt} continues: it begins with all {total:,} bytes of the previous one"
    read, available = first_pass_read(pair.current.usage), pair.available
    billed = "not recorded" if read is None else f"{read:,} tokens read"
    if read is not None and available and pair.fell is not None:
        billed = f"{read:,} of {available:,} cached tokens read" + (f" ({pair.fell:,} fewer)" if pair.fell else "")
        if read > available:
            more = f"{read - available:,} more than the previous usage shows as cached"
            billed = f"{read:,} tokens read ({more})"
    return results.ColumnsResult(shared, billed, verdict, agree, contradiction)


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
        "less was read, probably after a change by the client",
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
    """Return the kind of a cause, to follow its words; empty if it is about a request, and no cache break."""
    kind = kind_in_words(cause.kind, cause.code)
    return "" if kind == "request" else f" ({kind})"


def describe_change(
    who: str, change: CostChange, earlier: Spending, later: Spending, *, sides: tuple[str, str] = ("earlier", "later")
) -> list[str]:
    """Return by how much requests (`who`) cost more or less than earlier ones; then a line for each reason."""
    counts, sizes, unread, output = list[int](), list[float](), list[float](), list[float]()
    for side in (later, earlier):
        billed = side.requests - side.unbilled
        tokens = side.uncached_tokens + side.read_tokens + side.write_tokens
        counts.append(billed - side.unpriced)
        sizes.append(tokens / max(1, billed))
        unread.append(100 - 100 * side.read_tokens / max(1, tokens))
        output.append(side.output_tokens / max(1, billed))
    read = [f"{100 - share:.1f} %" for share in unread]
    if read[0] == read[1]:
        shares = ""
    else:
        figures = f"({read[0]} instead of {read[1]}) "
        shares = f"share read {figures if _agrees(change.tokens, unread) else ''}and "
    names = dict.fromkeys(surcharge.name for side in (later, earlier) for surcharge in side.surcharges)
    partial = [
        f"{side.at_least:,} {name} requests"
        for side, name in zip((earlier, later), sides, strict=True)
        if side.at_least
    ]
    words = f"{_more(change.output, 'more', 'less')} output in each request{_mean_tokens(change.output, output)}"
    if partial:
        words = f"{_more(change.output, 'more', 'less')} recorded output (only a part of it in {' and '.join(partial)})"
    parts = {
        f"{_more(change.requests, 'more', 'fewer')} requests ({counts[0]:,} instead of {counts[1]:,})": change.requests,
        "other models": change.models,
        f"{_more(change.prompts, 'longer', 'shorter')} prompts{_mean_tokens(change.prompts, sizes)}": change.prompts,
        f"{shares}prices of the same models": change.tokens,
        words: change.output,
        ", ".join(names): change.surcharges,
        f"{_more(change.rebilled, 'more', 'less')} re-billed in each request": change.rebilled,
    }  # fmt: skip
    threshold = max(_CENT, max(map(abs, parts.values())) * _SMALL)
    terms = sorted((part for part in parts.items() if abs(part[1]) >= threshold), key=lambda part: -abs(part[1]))
    digits = 2 if abs(change.dollars) >= _CENTS else 4
    terms = [(key, round(dollars, digits)) for key, dollars in terms]
    rest = round(change.dollars, digits) - sum(dollars for _, dollars in terms)  # so that the shown parts add up
    if len(terms) < sum(map(bool, parts.values())) and abs(rest) >= _CENT / 2:
        terms.append(("smaller differences", rest))
    elif terms:
        terms[0] = terms[0][0], terms[0][1] + rest
    amount = f"{who} {format_money(abs(change.dollars))} {_more(change.dollars, 'more', 'less')}"
    amount += ", as far as recorded" if partial else ""
    reasons = [f"  {'+' if dollars > 0 else '-'}${abs(dollars):,.{digits}f} by {key}" for key, dollars in terms]
    return [amount, *reasons]


def _agrees(dollars: float, means: Sequence[float]) -> bool:
    """Return whether the means of all requests, the later one first, changed as the cost within the models did."""
    return (means[0] > means[1]) == (dollars > 0)


def _mean_tokens(dollars: float, means: Sequence[float]) -> str:
    """Return both means in brackets; if they contradict the cost within the models, name those instead."""
    if not _agrees(dollars, means):
        return " of the same models"
    return f" ({count_of_tokens(means[0])} tokens instead of {count_of_tokens(means[1])})"


def count_of_tokens(count: float) -> str:
    """Return a mean count of tokens, all digits of it below 10,000."""
    from lore.report.status_line import short  # noqa: PLC0415 - `lore check` shows no mean

    return f"{round(count):,}" if count < _SHORTENED else short(round(count))


def _more(difference: float, more: str, less: str) -> str:
    return more if difference > 0 else less


def short_of(code: str, name: str, kind: str = "") -> str:
    """Return what a cause of this code and kind is in a few words: its name in words, if the code has none."""
    return _facts(code, name, kind).short
