"""What turns would have cost without a cause, or with a change (`lore simulate --what-if KEY=VALUE`).

**Without a cause** the turns are replayed from their usage. The other certain causes of the same turn still break its
prefix, a change of later bytes from its place on; a weak cause breaks nothing next to another one, nor does a
provider's verdict next to a cause that explains it. A turn reads at most the tokens that it asked for, and those in the
cache. Tokens that then remain in the cache carry over to the next turns, so that nothing is saved twice. Causes that
are unexplained, weak or expected have no fix.

**With a change** (lifetime, breakpoints, model, options of a cache) two simulations of the same turns are compared,
over the turns that have a price in both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import NamedTuple, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from lore.cache.base import Prediction
from lore.cache.counts import BILLS_WRITES, DROP, ONE_HOUR, bills_writes, cached, prompt_tokens
from lore.cache.predictor import ChangeCounts, WhatIf
from lore.cache.registry import options_in
from lore.cache.rules import Price
from lore.errors import LoreError
from lore.judge.base import TurnVerdict
from lore.judge.pairs.pair import Pair, can_lead, is_remark, lost_tokens
from lore.judge.policy import Policy, Ruling
from lore.judge.prices import CURRENCY, exact, sum_known
from lore.model.cause import Strength
from lore.model.codes import CODES, UNEXPLAINED, Audience, CauseKind, Code, fix_of
from lore.model.events import Usage
from lore.model.evidence import Paused, ReadPlateau, SharedBlock
from lore.model.fact import count_of
from lore.model.limits import COMBINED_CAUSES
from lore.model.results import CauseResult
from lore.model.results.simulate import Saving, SimulatedTurn, SimulateResult

BY_VERDICT = Code.CLIENT_CAUSE_UNKNOWN  # the provider says that something changed, not the text that did


class Break(NamedTuple):
    """One cause of a turn's loss."""

    code: str
    kind: CauseKind
    strength: Strength
    section: str | None
    loses: int  # tokens, without the other causes
    leads: bool = False  # the loss is counted under this cause
    detail: str = ""  # of the evidence: selects the precise fix
    is_small: bool = False  # usage shows that hardly anything was lost


class PaidTurn(NamedTuple):
    """A turn with its usage, billed or else predicted, and the causes of its loss; `price` is added by the caller."""

    chain: str
    paid: Usage | None  # by its usage, else by its prediction; None: neither is known
    available: int | None  # tokens that the previous turn left in the cache
    breaks: tuple[Break, ...]
    exact: bool = True  # writes are billed; else all that was asked for may be in the cache
    price: Price | None = None
    audience: Audience = "author"  # the audience for fixes
    contradicted: bool = False  # the usage cannot be of the recorded body
    speed: float = 0.0  # dollars that it cost more in fast mode or by priority processing

    @property
    def cached_tokens(self) -> int | None:
        """Tokens that this turn left in the cache: the whole prompt if writes are not billed."""
        return None if self.paid is None else cached(self.paid) if self.exact else prompt_tokens(self.paid)


def make_paid_turn(verdict: TurnVerdict, prediction: Prediction, available: int | None) -> PaidTurn:
    """Return a turn with its usage and the causes of its loss.

    `available` is the number of tokens that the previous turn cached; if both turns have a usage, it is computed from
    the usage of the previous one instead.
    """
    turn, pair = verdict.turn, verdict.pair
    usage = turn.usage
    billed = usage is not None and usage.read_tokens is not None and usage.uncached_tokens is not None
    exact = bills_writes(turn) if billed else turn.dialect in BILLS_WRITES
    if pair is not None and billed and pair.previous.usage is not None:
        available = cached(pair.previous.usage) if exact else prompt_tokens(pair.previous.usage)
    read, uncached = prediction.read, prediction.uncached
    if not billed:
        is_known = read is not None and uncached is not None
        usage = Usage(uncached, read, prediction.write, 0, None, prediction.write_1h) if is_known else None
    return PaidTurn(turn.chain, usage, available, () if pair is None else tuple(_breaks(pair)), exact)


def _breaks(pair: Pair) -> Iterator[Break]:
    """Yield each cause with the tokens that it would have lost as the only cause."""
    leading = pair.leading
    most = pair.lost_bytes
    changed = pair.bytes.previous - pair.tail_bytes - pair.bytes.common  # bytes from the first difference on
    after = max(0, round(changed / pair.bytes_per_token))
    for cause in pair.causes:
        if is_remark(cause):
            continue
        tokens = lost_tokens(pair, cause)[0]
        share = cause.lost / most if cause.lost and most else 1.0
        lost, detail = round(tokens * share), cause.evidence.fix_detail()
        is_small = "little-lost" in cause.qualifiers
        yield Break(cause.code, cause.kind, cause.strength, cause.section, lost, cause is leading, detail, is_small)
        # A tail without a breakpoint names its own text in `also`: that is one fault.
        for other in () if cause.code == Code.TAIL_WITHOUT_BREAKPOINT else cause.also:
            if not is_remark(other) and other.code != cause.code and "contradicted" not in other.qualifiers:
                loses = min(tokens, after) if other.strength == "certain" else tokens
                yield Break(other.code, other.kind, other.strength, other.section, loses)


_Match: TypeAlias = Callable[[Break], bool]


def remaining_loss(breaks: Sequence[Break], without: _Match) -> int | None:
    """Return the largest loss among the causes that remain if those for which `without` is true are removed.

    0 if none remains; None if there is nothing to remove (unexplained causes are never removed). Not counted are weak
    causes that do not lead, and a provider's verdict that a removed cause explains.
    """
    removed = [cause for cause in breaks if without(cause) and cause.code not in UNEXPLAINED]
    if not removed:
        return None
    remaining = [cause for cause in breaks if cause not in removed and (cause.leads or cause.strength != "weak")]
    sure = [cause for cause in removed if cause.strength != "weak"]
    return max((
        cause.loses for cause in remaining
        if cause.code != BY_VERDICT or not any(can_lead(other.code, other.section, cause.section) for other in sure)
    ), default=0)  # fmt: skip


def replay_without(turns: Iterable[PaidTurn], without: _Match) -> Iterator[tuple[int, Usage]]:
    """Yield the index and the new usage of each turn that reads more if the matching causes are removed."""
    more: dict[str, int] = {}  # by chain: tokens in the cache beyond those that were there
    for number, turn in enumerate(turns):
        paid = turn.paid
        if paid is None:
            more.pop(turn.chain, None)
            continue
        if not turn.breaks and not more.get(turn.chain):
            continue  # it read all that was there
        regained = _count_regained(turn, paid, more.get(turn.chain, 0), without)
        usage = read_more(paid, regained)
        more[turn.chain] = max(0, (cached(usage) or 0) - (cached(paid) or 0) if turn.exact else 0)
        if regained:
            yield number, usage


def _count_regained(turn: PaidTurn, paid: Usage, more: int, without: _Match) -> int:
    """Return how many more tokens a turn would have read."""
    first = paid.first_pass
    read = first.read_tokens or 0
    still_lost = remaining_loss(turn.breaks, without)
    lost = max((cause.loses for cause in turn.breaks), default=0)
    if still_lost is None:
        regained = 0 if lost else more  # a turn's own causes still break its prefix
    else:
        regained = max(0, lost - still_lost) + (0 if still_lost else more)
    if turn.available is not None:
        regained = min(regained, max(0, turn.available + more - read))
    removed = {cause.code for cause in turn.breaks if without(cause)}
    # tokens after the last breakpoint are never read, unless its place is the cause
    marked = turn.exact and cached(first) and Code.COLD_COMPACTION not in removed
    return min(regained, first.write_tokens or 0 if marked else max(0, prompt_tokens(first) - read))


# changes

TTL, SHORT, AUTO, SPEED = "ttl=1h", "ttl=5m", "breakpoints=auto", "speed=standard"
KEYS = "ttl=5m|1h, breakpoints=auto, model=NAME, speed=standard, cause=CODE[,CODE], or options of --cache NAME"
_LIFETIMES = {"5m": 300.0, "1h": 3600.0}
_CHOICES = {"ttl": (*_LIFETIMES,), "breakpoints": ("auto",), "speed": ("standard",)}  # the values of a key
_WITH_LIFETIMES = {"anthropic", "bedrock"}  # caches at which a client can ask for a lifetime
# Source: code.claude.com/docs/en/prompt-caching and /settings (2026); the variables since version 2.1.108.
_LIFETIME_FIXES = {
    (TTL, "claude-code"): 'Set "promptCacheTtl": "1h" in settings.json, for subagents "subagentPromptCacheTtl" (Claude '
    "Code 2.1.243 or later, with an API key or a cloud provider; before, ENABLE_PROMPT_CACHING_1H=1); with a "
    "subscription entries live an hour by themselves.",
    (SHORT, "claude-code"): 'Set "promptCacheTtl": "5m" in settings.json (Claude Code 2.1.243 or later; before, '
    "FORCE_PROMPT_CACHING_5M=1).",
    (TTL, ""): 'Ask for it at each breakpoint: "cache_control": {"type": "ephemeral", "ttl": "1h"}.',
    (SHORT, ""): 'Leave "ttl" out of "cache_control": entries then live five minutes.',
}
_NO_FIX = {
    **dict.fromkeys(UNEXPLAINED, "with no certain cause"),
    BY_VERDICT: "for which only the provider says that the client changed something",
}
_ALREADY = {
    "ttl=1h": "every write of these turns lives an hour",
    "ttl=5m": "every write of these turns lives five minutes",
    "breakpoints=auto": "these requests have every breakpoint",
    "model": "every turn asks for that model",
}
_HOLDS = {
    "ttl": "only Anthropic and Bedrock let a client choose a lifetime",
    "breakpoints": "it is for requests to caches with breakpoints, and transcripts record none",
    "model": "no price is known for both models here (--rules-file can give one)",
}


class SimulatedRun(NamedTuple):
    """One simulation of all recordings."""

    result: SimulateResult
    turns: list[PaidTurn]
    change_counts: ChangeCounts  # how many turns a change changed
    bodies: int  # turns whose requests can have breakpoints

    @property
    def breaks(self) -> list[Break]:
        """The causes of all losses."""
        return [cause for turn in self.turns for cause in turn.breaks]

    @property
    def missed(self) -> list[CauseResult]:
        """Causes that are not breaks, with a known loss and cost: another breakpoint would have cached these tokens."""
        causes = (cause for turn in self.result.turns for cause in turn.causes)
        return [cause for cause in causes if not cause.is_break and cause.lost_tokens and cause.lost_dollars]

    @property
    def worth_trying(self) -> list[str]:
        """Changes, as `KEY=VALUE`, that may save: longer life if short entries expired, shorter life, breakpoints."""
        has_early_expiries = bool([*_early_expiries(self.result)])
        is_long = "write_1h" in self.result.totals.by_price
        may_save = ((TTL, has_early_expiries), (SHORT, is_long), (AUTO, bool(self.bodies)))
        return [text for text, applies in may_save if applies]


NotedSaving: TypeAlias = tuple[Saving, list[str]]  # what a change saves, and notes on it


def parse_change(text: str, caches: Sequence[str]) -> WhatIf | None:
    """Parse `KEY=VALUE`; None for `cause` and `speed`, which need no second simulation. Raises LoreError if unknown."""
    key, equals, value = text.partition("=")
    key, value = key.strip().replace("-", "_"), value.strip()
    if not equals or not value:
        raise LoreError(f"--what-if {text!r} is not KEY=VALUE", hint=KEYS)
    choices = _CHOICES.get(key)
    if choices and value not in choices:
        raise LoreError(f"--what-if {key}={value} is not known", hint=" or ".join(f"{key}={one}" for one in choices))
    match key:
        case "cause":
            Policy(select=_codes(value)).check_selectors("--what-if cause: ")
            return None
        case "speed":
            return None
        case "ttl":
            return WhatIf(lifetime=_LIFETIMES[value])
        case "breakpoints":
            return WhatIf(breakpoints=True)
        case "model":
            return WhatIf(model=value)
        case _:
            if not caches:
                raise LoreError(f"--what-if {key} is an option of one cache", hint="name it with --cache, or: " + KEYS)
            return WhatIf(options=options_in(text, "--what-if ", KEYS))


def _codes(text: str) -> tuple[str, ...]:
    codes = tuple([code.strip() for code in text.split(",") if code.strip()])
    if not codes:
        raise LoreError(f"--what-if cause={text} names no cause", hint=KEYS)
    return codes


def compare_runs(text: str, base: SimulatedRun, other: SimulatedRun) -> NotedSaving:
    """Return the saving of a change: the tokens and dollars by which the runs differ, negative if it saves nothing.

    `turns` are those whose reads differ; no dollars (None) if no turn has a price in both.
    """
    counts = other.change_counts
    if counts.already and not counts.changed:
        saving = Saving(change=text, turns=0, tokens=0, currency=CURRENCY, saved=0.0, fix="", changes_nothing=True)
        return saving, list(_notes(saving, counts))
    more, changed_turns, costs = list[int](), list[PaidTurn](), list[tuple[float, float]]()
    for paid, before, after in zip(base.turns, base.result.turns, other.result.turns, strict=True):
        if paid.contradicted:
            continue
        difference, cost_before, cost_after = _compare_turn(text, paid, before, after)
        more += [difference] if difference else []
        changed_turns += [paid] if cost_before != cost_after else []
        costs += [] if cost_before is None or cost_after is None else [(cost_before, cost_after)]
    sums = sum_known(cost for cost, _ in costs), sum_known(cost for _, cost in costs)
    saved, fix = None if sums[0] is None or sums[1] is None else round(sums[0] - sums[1], 6), ""
    if saved is not None and saved > 0:  # the fix is for users of Claude Code, or for the author of other requests
        clients = {turn.paid.client.partition(" ")[0] for turn in changed_turns if turn.paid is not None}
        if clients != {"claude-code"}:
            clients = {"" if turn.audience == "author" else "unknown" for turn in changed_turns}
        fix = _LIFETIME_FIXES.get((text.replace(" ", ""), clients.pop()), "") if len(clients) == 1 else ""
    key = text.partition("=")[0].strip()
    idle = saved is None if key == "model" else not counts.changed and not more
    saving = Saving(
        change=text, turns=len(more), tokens=sum(more), currency=CURRENCY, saved=saved, fix=fix,
        changes_nothing=True if key in _HOLDS and not counts.already and idle else UNSET,
    )  # fmt: skip
    notes = list(_notes(saving, counts))
    contradicted = sum(turn.contradicted for turn in base.turns)
    if contradicted:
        whose = "whose bills contradict their bodies"
        notes.append(
            f"not simulated: {text} in {count_of(contradicted, 'turn')} {whose} ({Code.BILL_CONTRADICTS_BODY})"
        )
    return saving, notes


def _compare_turn(
    text: str, paid: PaidTurn, base_turn: SimulatedTurn, other_turn: SimulatedTurn
) -> tuple[int, float | None, float | None]:
    """Return by how many tokens the reads of a turn differ in two simulations, and its cost in both.

    With another lifetime these are the differences of its usage from what the usage would have been.
    """
    usage, before, after = paid.paid, base_turn.predicted.read_tokens, other_turn.predicted.read_tokens
    costs = [None if turn.cost is None else turn.cost.predicted for turn in (base_turn, other_turn)]
    lifetime = _LIFETIMES.get(text.replace(" ", "").removeprefix("ttl="))
    if lifetime is None or usage is None or base_turn.cache not in _WITH_LIFETIMES:
        return 0 if before is None or after is None else after - before, costs[0], costs[1]
    changed = with_lifetime(usage, lifetime, before, after)
    known = [cost for bill in (usage, changed) if paid.price and (cost := paid.price.of(bill)) is not None]
    costs = list(map(float, known)) if len(known) == len(costs) else costs
    return (changed.first_pass.read_tokens or 0) - (usage.first_pass.read_tokens or 0), costs[0], costs[1]


def with_lifetime(paid: Usage, seconds: float, predicted: int | None, changed: int | None) -> Usage:
    """Return usage as it would be with entries that live for `seconds`.

    `predicted` and `changed` are the predicted reads with the recorded and with the other lifetime. A read that fell
    short of its prediction had another cause, which another lifetime does not remove.
    """
    read, write, more = paid.first_pass.read_tokens or 0, paid.first_pass.write_tokens or 0, 0
    if predicted is not None and changed is not None:
        if changed < predicted:
            more = min(0, changed - read)
        elif changed > predicted and read > predicted - DROP:
            more = min(write, max(0, changed - read))
    write -= more
    hour = write if seconds == ONE_HOUR else 0
    return _replace_counts(
        paid, read_tokens=read + more, write_tokens=write, write_1h_tokens=hour, write_5m_tokens=write - hour
    )


def read_more(paid: Usage, tokens: int) -> Usage:
    """Return usage whose first pass reads that many more tokens instead of writing them, or else paying in full.

    Those that would be written for an hour come first.
    """
    if not tokens:
        return paid
    first = paid.first_pass
    less = min(tokens, first.write_tokens or 0)
    of_hour = min(less, first.write_1h_tokens or 0)
    of_short = min(less - of_hour, first.write_5m_tokens or 0)
    writes = {"write_tokens": less, "write_1h_tokens": of_hour, "write_5m_tokens": of_short}
    return _replace_counts(
        paid, read_tokens=(first.read_tokens or 0) + tokens,
        uncached_tokens=max(0, (first.uncached_tokens or 0) - (tokens - less)),
        **{name: None if (count := getattr(first, name)) is None else count - fewer for name, fewer in writes.items()},
    )  # fmt: skip


def _replace_counts(paid: Usage, **counts: int | None) -> Usage:
    """Return usage with other counts of its first pass."""
    first = paid.first_pass
    changed = replace(first, **counts)
    if first is paid:
        return changed
    return replace(paid, iterations=tuple([changed if part is first else part for part in paid.iterations]))


def _notes(saving: Saving, counts: ChangeCounts) -> Iterator[str]:
    """Yield how many turns have a change already, or why it changes nothing."""
    key, _, value = saving.change.partition("=")
    key = key.strip()
    already = _ALREADY.get(f"{key}={value.strip()}", _ALREADY.get(key, ""))
    if already and counts.already and not counts.changed:
        yield f"{saving.change} equals the recording: {already}"
    elif already and counts.already:
        both = count_of(counts.already + counts.changed, "turn")
        yield f"{saving.change} equals the recording in {counts.already:,} of {both}, which stay as they are"
    if saving.changes_nothing is True and not counts.already:
        yield f"--what-if {saving.change} changes nothing here: {_HOLDS[key]}"


def compute_speed_saving(base: SimulatedRun) -> NotedSaving:
    """Return what the same requests save without fast mode and priority processing."""
    more = [turn.speed for turn in base.turns if turn.speed > 0]
    fix = "Switch fast mode off (/fast in Claude Code), or leave `speed` and `service_tier` out." if more else ""
    saving = Saving(
        change=SPEED, turns=len(more), tokens=0, currency=CURRENCY, saved=sum_known(more) or 0.0, fix=fix,
        changes_nothing=UNSET if more else True,
    )  # fmt: skip
    return saving, [] if more else [f"{SPEED} equals the recording: no turn cost more for its speed"]


# causes


def compute_cause_saving(base: SimulatedRun, text: str) -> NotedSaving:
    """Return what `cause=CODE[,CODE]` saves, without turns that lost hardly anything."""
    ruling = Ruling(select=_codes(text.partition("=")[2]))
    named_codes = {
        code for code in {cause.code for cause in (*base.breaks, *base.missed)}
        if ruling.wants(code, CODES[code].name if code in CODES else "")
    }  # fmt: skip

    def without(cause: Break) -> bool:
        return cause.code in named_codes and not cause.is_small

    saving = _saving(base, without, text)
    small = sum(cause.code in named_codes and cause.is_small for cause in base.breaks)
    notes = [f"{text} is without {count_of(small, 'turn')} that lost hardly anything"] if small else []
    if small and not saving.turns:
        return saving, notes
    matching = [cause for cause in (*base.breaks, *map(_missed, base.missed)) if without(cause)]
    saving = replace(saving, changes_nothing=UNSET if matching else True)
    return saving, [*notes, *_notes_on_causes(base, without, saving, matching)]


def _saving(base: SimulatedRun, without: _Match, text: str) -> Saving:
    changed = list(replay_without(base.turns, without))
    saved, priced, tokens = Decimal(0), False, 0
    for number, paid in changed:
        before, price = base.turns[number].paid, base.turns[number].price
        assert before is not None, "only a turn with usage can have another one"
        tokens += (paid.first_pass.read_tokens or 0) - (before.first_pass.read_tokens or 0)
        if price is None:
            continue
        (before_parts, is_whole), (after_parts, _) = price.split(before), price.split(paid)
        is_known = not before.iterations and before.write_tokens is None and None not in (price.read, price.uncached)
        if is_whole or is_known:  # writes that no usage reports are in both
            saved += sum(before_parts.values(), Decimal(0)) - sum(after_parts.values(), Decimal(0))
            priced = True
    missed = [cause for cause in base.missed if without(_missed(cause))]
    tokens += sum(cause.lost_tokens or 0 for cause in missed)
    saved, priced = saved + sum(exact(cause.lost_dollars) for cause in missed), priced or bool(missed)
    several = (SharedBlock, ReadPlateau)
    turns = len(changed) + sum(loss.evidence.requests if isinstance(loss.evidence, several) else 1 for loss in missed)
    fixes = {
        fix_of(cause.code, turn.audience, cause.kind, cause.detail or cause.section or "")
        for turn in base.turns
        for cause in turn.breaks
        if without(cause) and cause.code in CODES
    } | {cause.fix for cause in missed}
    return Saving(
        change=text, turns=turns, tokens=tokens, currency=CURRENCY,
        saved=float(round(saved, 6)) if priced or not changed else None, fix="\n".join(sorted(fixes)),
    )  # fmt: skip


def _missed(cause: CauseResult) -> Break:
    return Break(cause.code, cause.kind, "certain", cause.section, cause.lost_tokens or 0)


def _notes_on_causes(
    base: SimulatedRun, without: _Match, saving: Saving, matching: Sequence[Break]
) -> Iterator[str]:  # fmt: skip
    """Yield why removing a cause saves nothing, or how sure the saving is; `matching` are those that are removed."""
    if not matching:
        yield f"{saving.change}: no turn has this cause"
    elif all(cause.code in UNEXPLAINED for cause in matching):
        yield f"{saving.change} cannot be removed: it means that nothing explains the loss"
    elif not saving.turns:
        broken = [turn.breaks for turn in base.turns if any(without(cause) for cause in turn.breaks)]
        others = {
            cause.code for causes in broken for cause in causes
            if not without(cause) and (cause.leads or cause.strength != "weak") and cause.code not in UNEXPLAINED
        }  # fmt: skip
        why = f"other causes still break the same prefixes ({', '.join(sorted(others))})"
        yield f"{saving.change} alone saves nothing: {why if others else 'nothing was re-billed for it'}"
    elif all(cause.strength == "weak" for cause in matching):
        yield f"{saving.change}: the evidence for it is weak, so that its turns may have lost for another reason"
    if any(cause.kind == "expected" for cause in matching) and saving.turns:
        yield f"{saving.change}: simulated with the recorded prompts; without these events others would have been sent"


def list_savings(base: SimulatedRun) -> Iterator[NotedSaving]:
    """Yield the saving of each cause with a fix by code, of standard speed, then of causes that save more together."""
    all_causes = (*base.breaks, *map(_missed, base.missed))
    codes = sorted({cause.code for cause in all_causes if _has_fix((cause.code,), cause)})
    alone = {code: _saving(base, partial(_has_fix, (code,)), f"cause={code}") for code in codes}
    for code, saving in alone.items():
        breaks = [turn.breaks for turn in base.turns if any(_has_fix((code,), cause) for cause in turn.breaks)]
        shared = Counter(  # weak causes of the same turns: what is saved there may be in part theirs
            other for causes in breaks
            for other in {cause.code for cause in causes if cause.strength == "weak"} - {code, *_NO_FIX}
        )  # fmt: skip
        names = ", ".join(f"{other} ({count_of(count, 'turn')})" for other, count in sorted(shared.items()))
        note = f"{saving.change}: together with {names}, which may have broken a part of the same prefixes"
        yield saving, [note] if names and saving.turns else []
    if any(turn.speed > 0 for turn in base.turns):
        yield compute_speed_saving(base)
    lost = Counter[tuple[str, ...]]()  # by causes that each broke most of the same prefix: none of them saves it alone
    for turn in base.turns:
        most = max((cause.loses for cause in turn.breaks), default=0)
        joint_codes = {cause.code for cause in turn.breaks if 2 * cause.loses > most and _has_fix((cause.code,), cause)}
        if len(joint_codes) > 1:
            lost[tuple(sorted(joint_codes))] += most
    for joint in sorted(lost, key=lambda codes: (-lost[codes], codes))[:COMBINED_CAUSES]:
        saving = _saving(base, partial(_has_fix, joint), f"cause={','.join(joint)}")
        more = saving.tokens - sum(alone[code].tokens for code in joint)
        if more > 0:
            only = "are saved only if all of these are fixed, since each breaks the same prefixes"
            yield saving, [f"{saving.change}: {more:,} tokens {only}"]


def _has_fix(codes: Sequence[str], cause: Break) -> bool:
    return cause.code in codes and cause.kind != "expected" and cause.strength != "weak" and cause.code not in _NO_FIX


def describe_left_out(base: SimulatedRun) -> Iterator[str]:
    """Yield which re-billed tokens no fix was simulated for, and why."""
    lost = [(turn, turn.cause) for turn in base.result.turns if turn.cause is not None]
    for code, why in _NO_FIX.items():
        bare = [turn.unexplained_tokens or 0 for turn, cause in lost if cause.code == code]
        if any(bare):
            yield f"not simulated: {sum(bare):,} tokens in {count_of(len(bare), 'turn')} {why} ({code})"
    weak = Counter(cause.code for _, cause in lost if cause.strength == "weak" and cause.code not in UNEXPLAINED)
    for code, count in sorted(weak.items()):
        yield f"not simulated: {count_of(count, 'turn')} with only a possible cause ({code} {CODES[code].name})"
    unpriced = sum(turn.paid is not None and turn.price is None for turn in base.turns)
    if unpriced:
        yield f"not simulated in money: {count_of(unpriced, 'turn')} without a price"


def suggest_longer_life(base: SimulateResult) -> Iterator[str]:
    """Yield the command that simulates a longer lifetime, if entries expired."""
    lost = sum(_early_expiries(base))
    if lost:
        yield f"{lost:,} tokens were written again after pauses: --what-if {TTL} says what an hour saves"


def _early_expiries(base: SimulateResult) -> Iterator[int]:
    """Yield the tokens that each expiry lost whose entries did not live an hour, at caches that offer one."""
    for turn in base.turns:
        for cause in turn.causes if turn.cache in _WITH_LIFETIMES else ():
            evidence = cause.evidence
            if cause.code == Code.CACHE_EXPIRED and isinstance(evidence, Paused) and evidence.lifetime != ONE_HOUR:
                yield cause.lost_tokens or 0
