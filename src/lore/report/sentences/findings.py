"""Results in words: losses, usage, prices, the three columns of a comparison, notes about recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from lore.cache.counts import first_pass_read
from lore.judge.messages import MASKED
from lore.judge.pairs.pair import Pair, dispute_of, provider_verdict
from lore.model import results
from lore.model.codes import CODES, UNEXPLAINED, Code
from lore.model.deferred import pattern
from lore.model.fact import count_of, format_money, replace_texts
from lore.model.results import Finding
from lore.prefix.overlap import count_cached_segments, locate_difference

if TYPE_CHECKING:
    from lore.model.results.store import SessionUsage, TurnResult

    _Counts: TypeAlias = results.UsageResult | results.CachePrediction | TurnResult | SessionUsage

_CENT = 0.01
FAST = "fast mode"  # as `cache.prices` names it
FAST_FIX = "switch fast mode off (/fast in Claude Code) if you can wait for answers"
_GROUNDS = pattern("; (?=(?:also seen|(?:not )?ruled out[^:;]*|not recorded): )")
_UNKNOWN = (*UNEXPLAINED, Code.CLIENT_CAUSE_UNKNOWN)  # whose fixes say how to find the cause


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
    if finding.code in _UNKNOWN or finding.fix in (recording.fix, recording.fix_user):
        return "to find the cause", finding.fix
    if finding.fix.startswith("Nothing") or finding.actor == "provider":  # no one at the provider reads this
        return "what you can do", finding.fix
    return {"author": "fix (agent author)", "user": "fix (user)"}.get(finding.actor, "fix"), finding.fix


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


def describe_rebilled(sums: results.Summary, *, has_grounds: bool = True) -> Iterator[tuple[str, str]]:
    """Yield how many tokens were re-billed as waste, with no certain cause, and as expected, each with a style.

    `has_grounds`: of breaks without a certain cause also what is ruled out in each.
    """

    def amount(name: str) -> str:
        about = "about " if sums.estimated_tokens.get(name) else ""
        tokens, dollars = getattr(sums, f"{name}_tokens"), getattr(sums, f"{name}_dollars")
        return f"{about}{tokens:,} tokens{in_dollars(dollars, is_part=sums.unpriced_tokens.get(name))}"

    yield f"re-billed as waste: {amount('waste')}", "bold red" if sums.waste_tokens or sums.waste else "bold green"
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
    return results.ColumnsResult(
        _describe_bytes(pair, change["path"]), _describe_read(pair), verdict, agree, contradiction
    )


def _describe_bytes(pair: Pair, redact_path: Callable[[str], str]) -> str:
    previous, overlap, total = pair.previous.prompt, pair.overlap, pair.bytes.previous - pair.tail_bytes
    if overlap.is_covered:
        if not pair.bytes.previous:  # the prompts were not built
            return "the recorded prompt continues; no change is recorded"
        prompt = "recorded prompt" if pair.current.is_rebuilt else "prompt"
        return f"the {prompt} continues: it begins with all {total:,} bytes of the previous one"
    place = locate_difference(previous, pair.current.prompt, overlap.common)
    where = "they differ" if place is None else f"they differ from {redact_path(place.path)} on"
    after = ", after the last cache breakpoint" if overlap.common >= count_cached_segments(previous) else ""
    return f"{where}{after}; {pair.bytes.common + overlap.common_bytes:,} of {total:,} bytes are shared"


def _describe_read(pair: Pair) -> str:
    read, available = first_pass_read(pair.current.usage), pair.available
    if read is None:
        return "not recorded"
    if not available or pair.fell is None:
        return f"{read:,} tokens read"
    if read > available:
        return f"{read:,} tokens read ({read - available:,} more than the previous usage shows as cached)"
    drop = f" ({pair.fell:,} fewer)" if pair.fell else ""
    return f"{read:,} of {available:,} cached tokens read{drop}"
