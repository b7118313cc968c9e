"""Reads that stay at one level while prompts grow past it (LORE307).

In: the turns of one chain. Out: one finding, for the plateau that left the most tokens unread. Rules: at least three
reads in a row at one level (two if the chain never read anything), within a block of the cache, or in a cache without
breakpoints each less than half of what the request repeats; each request repeats its predecessor, and by the end more
than two blocks and 2 % beyond that level, more than the model's minimum. Unless nothing at all was read, the repeated
part also grew by as much. With a cache that needs breakpoints the part up to the last one counts. A turn that is
reported for another reason may be one of them, and its loss is not counted again; if something was written, LORE305
reports it. Reasons that a recorded request shows are named; a log shows none.

Source: a llama.cpp server that read 4,867 tokens in each of nine requests whose prompts grew to 22,100.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from lore.cache.counts import TOLERANCE_SHARE, block_tokens, first_pass_read, prompt_tokens
from lore.cache.rules import minimum_tokens
from lore.cache.served import cache_of, served_by
from lore.judge.findings import finding
from lore.judge.pairs.pair import Pair, is_remark
from lore.judge.prices import paid_again, price_of, sum_known
from lore.judge.requests.request_laws import ignored_breakpoints, lacks_cache_key, needs_breakpoints
from lore.judge.runs.reads import Shared
from lore.model.cause import Place
from lore.model.codes import Code
from lore.model.evidence.runs import PlateauReason, ReadPlateau
from lore.model.providers import ENGINES, LLAMA_CPP
from lore.model.results import Finding
from lore.model.turn import Turn
from lore.prefix.overlap import byte_size, iterate_from

_FEWEST = 3  # reads at one level
_FEWEST_OF_NOTHING = 2  # if the chain never read anything
_BLOCKS = 2  # by which the repeated part exceeds that level
# Tokens: reads of Gemini through gateways rise in steps of 7,500 to 8,200 (5 sessions; no provider documents it).
_STEPS = {"gemini": 8192}
_MOST_BEHIND = 64  # segments after the last breakpoint


class _Plateau(Struct, frozen=True):
    """Successive turns that read the same number of tokens."""

    first: Turn
    latest: Turn
    level: int  # tokens read in each of its turns
    first_repeated: int  # tokens that the first of its turns repeats
    repeated: int  # tokens that the latest one repeats
    differing: frozenset[str]  # fields that select a cache and differ in each of its turns
    header: bool = True  # whether a billing header that this provider does not drop differs in each of its turns
    turns: int = 0
    unread: int = 0  # tokens, summed over its turns
    dollars: float | None = None  # their cost beyond the price of reading; None if it is unknown


class Plateaus:
    """Follow the turns of one chain."""

    def __init__(self, shared: Shared) -> None:
        self._rules = shared.rules
        self._previous: Turn | None = None
        self._current: _Plateau | None = None
        self._longest: _Plateau | None = None
        self._has_read = False

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        if turn.failed:
            return
        last, current = self._previous or turn, self._current
        previous = self._previous if pair is None else pair.previous
        self._previous, self._current = turn, None
        read = first_pass_read(turn.usage)
        self._has_read = self._has_read or bool(read)
        if previous is None or read is None or (turn.usage is not None and turn.usage.write_tokens):
            return
        is_reported = pair is not None and any(not is_remark(cause) for cause in pair.causes)
        block = block_tokens(turn)
        if turn.basis is None:
            repeated = 0 if pair is None else _repeated(pair)
        else:
            repeated = prompt_tokens(previous.usage) if turn.extends(previous) else 0
        if current is None or (abs(read - current.level) >= block and not _is_scattered(turn, current, read, repeated)):
            current = _Plateau(turn, turn, read, repeated, repeated, frozenset(_KEYS))
        differing = frozenset(
            name for name in current.differing if turn.basis is None and _value(last, name) != _value(turn, name)
        )  # fmt: skip
        unread = 0 if is_reported else max(0, repeated - read)
        dollars = paid_again(price_of(self._rules(), turn), turn.usage, unread) if unread else None
        self._current = current = replace(
            current, latest=turn, level=max(read, current.level), repeated=repeated, differing=differing,
            turns=current.turns + 1, unread=current.unread + unread, dollars=sum_known((current.dollars, dollars)),
            header=current.header and pair is not None
            and any(cause.code == Code.BILLING_HEADER_CHANGED for cause in pair.causes),
        )  # fmt: skip
        excess, grown = repeated - current.level, repeated - current.first_repeated
        if current.turns < (_FEWEST if self._has_read else _FEWEST_OF_NOTHING) or is_reported:
            return
        step = _BLOCKS * block if _marks_prefix(turn) else _STEPS.get(served_by(turn).provider, _BLOCKS * block)
        least = step if current.level else _BLOCKS * block  # reads that rise in steps begin with one
        if (min(excess, grown) if current.level else excess) <= max(least, TOLERANCE_SHARE * repeated):
            return
        is_longest = self._longest is None or current.unread > self._longest.unread
        if is_longest and repeated >= (minimum_tokens(self._rules(), turn) or 0):
            self._longest = current

    def findings(self, place: Place) -> Iterator[Finding]:
        span = self._longest
        if span is None or (self._has_read and span.turns < _FEWEST):
            return
        reasons, field = _reasons(span, has_read=self._has_read)
        cache = cache_of(span.first, served_by(span.first))
        if not (span.level or cache or reasons or span.first.basis is None):
            return  # this provider may have no cache, or a log may have 0 for a count that is not reported
        others = self._has_read and not span.level
        evidence = ReadPlateau(span.level, span.repeated, span.turns, reasons, cache, field, others)
        yield finding(
            Code.READ_PLATEAU, place, evidence, at=span.first, lost_tokens=span.unread, lost_dollars=span.dollars,
            tokens="recorded",
        )  # fmt: skip


def _is_scattered(turn: Turn, span: _Plateau, read: int, repeated: int) -> bool:
    """Return whether a recorded request, and each before it in `span`, read less than half of what it repeats.

    Machines with caches of their own read different amounts: 128, 4,608, 128 and 0 of 31,000 tokens
    (duolahypercho/codex-router#265).
    """
    is_low = 2 * max(read, span.level) < min(repeated, span.repeated)
    return is_low and turn.basis is None and not needs_breakpoints(turn)


def _marks_prefix(turn: Turn) -> bool:
    """Return whether a gateway may make an explicit cache of what a request to Gemini marks, as LiteLLM does."""
    return turn.basis is None and served_by(turn).provider == "gemini" and bool(turn.prompt.breakpoints)


# Fields that select a cache, or the machine that holds it, and the provider that a router chose.
_PROVIDER = "provider"
_KEYS = ("prompt_cache_key", "cache_salt", "session_id", "user", "safety_identifier", _PROVIDER)


def _value(turn: Turn, name: str) -> bytes | str | None:
    return turn.call.answered_by if name == _PROVIDER else turn.prompt.params.get(name)


def _repeated(pair: Pair) -> int:
    """Return the tokens of the previous request that a cache could have kept and the current one repeats."""
    prompt, size = pair.previous.prompt, pair.bytes.previous
    common = pair.bytes.common + pair.overlap.common_bytes
    if needs_breakpoints(pair.previous) and not prompt.auto_breakpoint:
        distance = prompt.stable - 1 - prompt.breakpoints[-1] if prompt.breakpoints else _MOST_BEHIND + 1
        if distance > _MOST_BEHIND:  # see LORE114
            return 0
        common = min(common, size - sum(map(byte_size, iterate_from(prompt, prompt.breakpoints[-1] + 1, tail=True))))
    return round(prompt_tokens(pair.previous.usage) * common / size) if size > 0 else 0


def _reasons(span: _Plateau, *, has_read: bool) -> tuple[tuple[PlateauReason, ...], str]:
    """Return the reasons in the requests why nothing more is read, and the field that differs in them."""
    turn, field = span.latest, next(iter(span.differing), "")
    provider = served_by(turn).provider
    reads_nothing = not has_read and provider != LLAMA_CPP  # a llama.cpp server has as few slots as it is given
    engine: tuple[PlateauReason, ...] = ()
    if provider in ENGINES:
        engine = ("engine-reads-nothing",) if reads_nothing else ("engine",)
    if turn.basis is not None:
        return engine, ""
    params = turn.prompt.params
    explicit = b'"explicit"' in params.get("prompt_cache_options", b"")
    is_marked = bool(span.level) and _marks_prefix(turn)
    conditions: dict[PlateauReason, bool] = {
        "billing-header": span.header,
        "cache-prompt-off": params.get("cache_prompt") == b"false",
        "no-explicit-breakpoint": explicit and not turn.prompt.breakpoints,
        "breakpoint-not-honoured": needs_breakpoints(turn),
        "marked-prefix": is_marked,
        "ignored-breakpoint": not is_marked and any(True for _ in ignored_breakpoints(turn)),
        "changing-key": bool(field),
        "no-cache-key": lacks_cache_key(turn, provider),
    }
    reasons: list[PlateauReason] = [reason for reason, is_so in conditions.items() if is_so]
    return tuple(reasons) or engine, field
