"""The results of the judge (verdicts, findings, costs), and the interfaces of rules that add findings.

A `TurnVerdict` is the one answer about a turn; every command, report and plugin shows views of it. A `Finding` reports
one of its causes at a `Place`. Settings act on findings, after a verdict is made. Money is in US dollars, by dated
prices; a cost whose price is unknown is missing, never 0.

lore's own rules are rows of `lore.judge.rules`; those about whole chains have the members of `TurnRule`. A plug-in adds
a rule about pairs: it publishes an object with the members of `Rule` under the entry-point group `lore.rules`, and adds
its codes with a page each.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from lore.cache import counts
from lore.cache.counts import DROP, ONE_HOUR, asked_lifetime, prompt_tokens
from lore.cache.prices import MILLION, Price, bill_price
from lore.cache.rules import DatedRules
from lore.cache.served import billed_by, is_transcript
from lore.judge.messages import in_words
from lore.judge.pairs.pair import BY_USAGE, Pair, is_remark, lost_tokens
from lore.model.canonical import decode
from lore.model.cause import Cause, Place
from lore.model.codes import CODES, SEVERITY, CauseKind, Code, Problem, actor_of, fix_of
from lore.model.deferred import pattern, sha256
from lore.model.events import Usage
from lore.model.evidence import Damage, Evidence, Paused
from lore.model.jsonslice import raw_members
from lore.model.results import Finding, SecondaryCause
from lore.model.turn import Turn
from lore.prefix.blocks import block_of
from lore.prefix.overlap import PromptPlace, locate_between, locate_difference

if TYPE_CHECKING:
    from lore.cache.transcripts import Predicted


class TurnVerdict(Struct, frozen=True):
    """The verdict on one turn."""

    turn: Turn
    pair: Pair | None = None  # the comparison with an earlier turn
    compared: bool = False  # with an earlier turn; if no pair was made, it surely extends that one and read all of it
    predicted: Predicted | None = None  # the prediction that was made before the usage was read
    cached: int | None = None  # tokens that the chain's previous request left in the cache (`counts.position`)

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Every cause and remark, in the order of their places."""
        return () if self.pair is None else self.pair.causes

    @property
    def leading(self) -> Cause | None:
        """The cause that the loss is counted under."""
        return None if self.pair is None else self.pair.leading

    @property
    def lost_tokens(self) -> int | None:
        """Tokens of the previous prompt that were not read; None if unknown."""
        if self.pair is None:
            return 0 if self.compared else None
        leading = self.leading
        return 0 if leading is None else lost_tokens(self.pair, leading)[0]

    @property
    def wasted_tokens(self) -> int | None:
        """The lost tokens if their cause is waste, else 0; unexplained losses are not waste."""
        leading = self.leading
        return self.lost_tokens if leading is None or leading.kind == "waste" else 0

    @property
    def unexplained_tokens(self) -> int:
        """The lost tokens if no cause explains them for sure, else 0."""
        leading = self.leading
        return (self.lost_tokens or 0) if leading is not None and leading.kind == "unattributable" else 0

    @property
    def was_foreseen(self) -> bool | None:
        """Whether a drop of over 1,000 tokens was predicted before the usage was read; None if there was no drop."""
        pair, predicted = self.pair, self.predicted
        if pair is None or not pair.fell or predicted is None:
            return None
        cached, read = counts.cached(pair.previous.usage), predicted.prediction.read
        return None if cached is None or read is None else read < cached - DROP


# Names that lore gives to chains in their order, and numbers of messages: both change when turns are inserted.
_NUMBERED = pattern(r"(?:main|(?:chain|utility|agent)-\d+)\Z")
_MESSAGE = pattern(r"^(messages|input|contents)\[\d+\]")
_STAND_IN = pattern(r"line-\d+(?:\.\d+)?(?: |$)")  # lore's name of a record without an id; unique only in its file


def lasting_chain(chain: str | None) -> str | None:
    """Return a chain's name if the recording has it; None if lore numbered the chain."""
    return None if chain is None or _NUMBERED.match(chain) else chain


def lasting_path(json_path: str | None) -> str | None:
    """Return a path without the number of its message."""
    return None if json_path is None else _MESSAGE.sub(r"\1[]", json_path)


def lasting_id(name: str | None) -> str:
    """Return the id of a response or compaction, by which copies are found; empty if lore made it up."""
    return "" if not name or _STAND_IN.match(name) else name


def fingerprint(code: str, path: str, chain: str | None, json_path: str | None) -> str:
    """Return 16 hex digits that stay the same when other findings, lines and turns are inserted.

    Only the code and the place count: evidence quotes figures, dates and texts that change. Two findings with the same
    code and place share a fingerprint, so baselines count them.
    """
    parts = "\x00".join((code, path, lasting_chain(chain) or "", lasting_path(json_path) or ""))
    return sha256(parts.encode("utf-8", "backslashreplace"))[:16]


def finding(
    code: str, place: Place, evidence: Evidence, *, kind: CauseKind | None = None, at: Turn | None = None,
    **fields: object,
) -> Finding:  # fmt: skip
    """Return a finding; name, severity, actor, fix, fingerprint and message follow from the code and the fields.

    `kind` is the code's by default; `at` is the turn at which a finding about a whole chain is shown.
    """
    if at is not None:
        place = place.of(at)
        fields |= {
            "line": at.line, "chain": at.chain, "turn": at.number, "dialect": at.dialect, "fidelity": at.fidelity,
        }  # fmt: skip
    code_row = CODES[code]
    kind = kind or code_row.kind
    actor, fix = actor_of(code, kind, place.audience), fix_of(code, place.audience, kind, evidence.fix_detail())
    bare = Finding(
        code, code_row.name, kind, SEVERITY[kind], place.path, "", fix, evidence=evidence, actor=actor,
        **fields,  # pyright: ignore[reportArgumentType]
    )  # fmt: skip
    return in_words(replace(bare, fingerprint=fingerprint(code, place.key or place.path, bare.chain, bare.json_path)))


# what tokens cost, and how much more re-billed tokens cost than a read

CURRENCY = "USD"


def exact(part: float | None) -> Decimal:
    """Return an amount of money as the decimal with the same digits; 0 if it is unknown."""
    return Decimal(0) if part is None else Decimal(repr(part))


def sum_known(parts: Iterable[float | None]) -> float | None:
    """Return the sum of the known amounts; None if all are unknown."""
    amounts = [part for part in parts if part is not None]
    return float(round(sum(map(Decimal, map(repr, amounts)), start=Decimal(0)), 6)) if amounts else None


def sum_ints(values: Iterable[int | None]) -> int | None:
    """Return the sum of the known counts; None if all are unknown."""
    known_counts = [count for count in values if count is not None]
    return sum(known_counts) if known_counts else None


def date_of(at: float) -> datetime | None:
    """Return a time in UTC; None if it is out of the calendar's range."""
    try:
        return datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def price_of(
    rules: DatedRules, turn: Turn, *, model: str | None = None, size: int | None = None, listed: bool = False
) -> Price | None:  # fmt: skip
    """Return the prices of a turn, or those of another `model`; None if they are unknown.

    `size` is the number of tokens of the prompt if no usage is recorded; `listed` as in `DatedRules.price`.
    """
    usage, prompt = turn.usage, None if is_transcript(turn) else turn.prompt
    if usage is not None:
        size = None if usage.uncached_tokens is None else prompt_tokens(usage)
    price = bill_price(
        rules, billed_by(turn), turn.model, turn.at, usage, size=size, params=None if prompt is None else prompt.params,
        endpoint=turn.call.endpoint, as_model=model,
        implicit=prompt is not None and not prompt.has_breakpoints, listed=listed,
    )  # fmt: skip
    if price is not None and price.write is None and asked_lifetime(turn) == ONE_HOUR:
        return replace(price, write=price.write_1h)  # of writes that the usage does not split by lifetime
    return price


def surcharge_of(rules: DatedRules, turn: Turn, price: Price | None) -> tuple[str, float] | None:
    """Return why a turn cost more or less than the list price, and by how many dollars; None if it did not."""
    usage = turn.usage
    if price is None or usage is None or not usage.is_billed:
        return None
    more = _price_difference(usage, price, price_of(rules, turn, listed=True)) if price.surcharge else 0.0
    reasons = {price.surcharge: more} if more else {}
    if usage.model is not None:  # a fallback answered
        for attempt, paid in zip(usage.iterations, price.passes, strict=False):
            if attempt.kind == "message" and paid is not None:
                reason = f"billed twice after a refusal by {attempt.model or 'another model'}"
                reasons[reason] = round(float(sum(paid.split(attempt)[0].values(), Decimal(0))), 9)
    return (", ".join(reasons), sum(reasons.values())) if reasons else None


def speed_surcharge(rules: DatedRules, turn: Turn, price: Price) -> float:
    """Return by how many dollars fast mode or priority processing made a turn cost more; 0 without them."""
    usage = turn.usage
    assert usage is not None, "a turn with a surcharge has usage"
    usual = replace(turn, usage=replace(usage, speed="standard", service_tier="standard"))
    return _price_difference(usage, price, price_of(rules, usual))


def _price_difference(usage: Usage, price: Price, other_price: Price | None) -> float:
    """Return by how many dollars usage costs more at `price` than at `other_price`; 0 if that is unknown."""
    if other_price is None or other_price == price:
        return 0.0
    sums = [sum(prices.split(usage)[0].values(), Decimal(0)) for prices in (price, other_price)]
    return round(float(sums[0] - sums[1]), 9)


def paid_again(price: Price | None, bill: Usage | None, tokens: int | None) -> float | None:
    """Return how much more re-billed `tokens` cost than reading them would have; None if a price is unknown.

    The usage `bill` shows how they were paid for: first as writes for an hour, then for five minutes, the rest as
    uncached. None if it counts no input: then the request has no cost of which they are a part.
    """
    usage = None if bill is None or not bill.has_input else bill.first_pass
    if tokens is None or usage is None or price is None or price.uncached is None:
        return None
    if not tokens:
        return 0.0
    if price.read is None:
        return None
    hour = min(tokens, usage.write_1h_tokens or 0)
    short = min(tokens - hour, max(0, (usage.write_tokens or 0) - (usage.write_1h_tokens or 0)))
    short_lived = price.write_5m if price.write_5m is not None else price.write
    parts = ((hour, price.write_1h), (short, short_lived), (tokens - hour - short, price.uncached))
    paid = sum([count * ((price.uncached if rate is None else rate) - price.read) for count, rate in parts], Decimal(0))
    return float(paid / MILLION)


# Causes without a place in the prompt: the model, and what only usage, times and verdicts show.
_WITHOUT_PLACE = BY_USAGE | {
    Code.MODEL_CHANGED, Code.LIFETIME_LOST, Code.VERDICT_DISAGREES, Code.BILL_CONTRADICTS_BODY,
    Code.BREAKPOINTS_MISSING,
}  # fmt: skip


def findings_of(pair: Pair, place: Place) -> list[tuple[Cause, Finding]]:
    """Return a finding for each cause of a pair, with the cause.

    A billing header that the provider removes is reported once a chain, by the rules of chains.
    """
    findings: list[tuple[Cause, Finding]] = []
    partial = any(turn.prompt.partial for turn in (pair.previous, pair.current) if turn.basis is None)
    for cause in pair.causes:
        if cause.code == Code.BILLING_HEADER_CHANGED and cause.is_harmless:
            continue
        where = None if cause.code in _WITHOUT_PLACE else _place_of(pair, cause)
        tokens, source = lost_tokens(pair, cause)
        dollars = paid_again(pair.price, pair.current.usage or pair.priced_as, tokens)
        also = [
            SecondaryCause(
                other.code, CODES[other.code].name, CODES[other.code].section or other.section, other.strength,
                other.evidence, contradicted="contradicted" in other.qualifiers,
            ) for other in cause.also
        ]  # fmt: skip
        bare = finding(
            cause.code, place, cause.evidence, kind=cause.kind, line=pair.current.line, chain=pair.current.chain,
            turn=pair.current.number, dialect=pair.current.dialect,
            section=CODES[cause.code].section or cause.section or (where and where.section),
            json_path=cause.path or None if where is None else where.path, offset=where and where.offset,
            lost_bytes=cause.lost, lost_tokens=tokens, lost_dollars=dollars, tokens=source,
            fidelity=pair.current.fidelity, strength=cause.strength, more=cause.more, qualifiers=cause.qualifiers,
            ruled_out=cause.ruled_out, paused=cause.paused, skipped=cause.skipped, also=tuple(also),
            partial=partial and cause.code != Code.CONTINUATION, is_break=not is_remark(cause),
        )  # fmt: skip
        findings.append((cause, replace(bare, **_override_fields(bare, pair, cause))))
    return findings


def _override_fields(bare: Finding, pair: Pair, cause: Cause) -> dict[str, Any]:
    """Return the severity, actor and fix that this recording calls for instead of those of the finding's code."""
    changes: dict[str, Any] = {}
    is_free = bare.severity == "error" and pair.uncacheable and bare.tokens == "recorded"
    if is_free or "little-lost" in cause.qualifiers:
        changes["severity"] = "note"  # the break is real, and next to nothing was lost
    if cause.code == Code.GENERATION_SETTINGS_CHANGED and pair.current.basis is None:
        last = pair.current.prompt.segment_at(len(pair.current.prompt) - 1)
        if last is not None and block_of(last).kind == "result":  # no user acts between a call and its result
            changes["actor"] = "author"
    if cause.evidence.fix_detail() == "alias":
        changes["actor"] = "author"  # the provider moved the alias; the agent's author can name a dated model
    if "alternates" in cause.qualifiers and cause.evidence.fix_detail() != "aside":  # aside: the client alternates
        changes["fix"] = "Keep one of the two values for the whole session: each has a cache of its own."
    elif _is_fix_useless(pair, cause):
        changes["fix"] = CODES[cause.code].fix_done
    return changes


def _is_fix_useless(pair: Pair, cause: Cause) -> bool:
    """Return whether the recording already follows the fix of a cause's code, or the fix could not help."""
    if cause.code == Code.ROUTED_ELSEWHERE:  # the fix: name one provider (OpenRouter's `provider`)
        params = {} if pair.current.basis is not None else pair.current.prompt.params
        routing = raw_members(params.get("provider", b"")) or {}
        providers = routing.get("only", routing.get("order") if routing.get("allow_fallbacks") == b"false" else None)
        return providers is not None and providers[:1] == b"[" and len(decode(providers)) == 1
    if cause.code in (Code.BILLED_READ_FELL, Code.CLIENT_CAUSE_UNKNOWN, Code.VERDICT_DISAGREES):
        return all(  # the fix: record whole bodies
            turn.fidelity in ("wire", "parsed") and not turn.prompt.partial for turn in (pair.previous, pair.current)
        )
    evidence = cause.evidence
    if cause.code != Code.CACHE_EXPIRED or not isinstance(evidence, Paused):
        return False
    return max(evidence.lifetime or 0, evidence.seconds) >= ONE_HOUR  # an hour is the longest lifetime


def _place_of(pair: Pair, cause: Cause) -> PromptPlace | None:
    """Return the place at which a cause makes the two prompts differ; None if only the cause's own path shows it.

    A tool that is added moves the system prompt: then text that changed there is compared with that at the same path.
    """
    if pair.overlap.is_covered:
        return None
    previous, current, common = pair.previous.prompt, pair.current.prompt, pair.overlap.common
    place = locate_difference(previous, current, max(cause.position, common))
    is_first = cause.position == common and (place is None or cause.section in (None, place.section))
    if not cause.path or is_first:
        return place
    old = previous.segment_at(cause.position)
    new = next((segment for segment in current.head if segment.path == cause.path), None)
    is_rewritten = cause.evidence.quoted_change() is not None
    return locate_between(old, new) if is_rewritten and old is not None and new is not None else None


def findings_of_problems(problems: Iterable[Problem], count_by_code: dict[str, int], place: Place) -> Iterable[Finding]:
    """Yield one finding for each kind of problem of a recording, at its first place, with their number."""
    codes: set[str] = set()
    for problem in problems:
        if problem.code not in codes:
            codes.add(problem.code)
            evidence = Damage(problem.message, count_by_code.get(problem.code, 1) - 1)
            yield finding(problem.code, place, evidence, line=problem.line)


class Rule(Protocol):
    """What a plug-in's rule adds to the verdicts."""

    def pair(self, pair: Pair, place: Place) -> Iterable[Finding]:
        """Judge two successive turns of one chain."""
        ...

    def problems(self, problems: list[Problem], counts: dict[str, int], place: Place) -> Iterable[Finding]:
        """Judge the problems of one recording: those that were kept, and the number of each code."""
        ...


class TurnRule(Protocol):
    """A rule about the turns of one chain; one object is made for each chain."""

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        """Examine the next turn and its comparison with an earlier one, at the cost of its new content."""
        ...

    def findings(self, place: Place) -> Iterable[Finding]:
        """Report findings when the chain has ended."""
        ...


RULES: dict[str, Rule] = {}  # those of plug-ins, by name: asked about every pair in addition to the verdict
