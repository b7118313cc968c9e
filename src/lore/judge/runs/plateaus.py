"""Tokens that several requests repeat and no cache serves: levels, uncached parts, and beginnings (LORE307, 172).

`lore.judge.rules` has the sources. `Plateaus` finds reads of a chain that stay at one level while its prompts grow past
it. Rules: at least three reads in a row at one level (if the chain never read anything, two, or the same request sent
again), within a block of the cache, or in a cache without breakpoints each less than half of what the request repeats;
each request repeats its predecessor, and by the end more than two blocks and 2 % beyond that level. If anything was
read, the repeated part also grew by as much. A request that reads nothing counts only if it repeats as many
tokens as the model caches. With a cache that needs breakpoints the part up to the last one counts. A turn with
another finding may be in the row, and is in neither the count nor the loss; if something was written,
LORE305 reports it. Reasons that a recorded request shows are named; a log shows none.

`UncachedParts` finds tokens that a log's requests repeat and that are neither read nor written, although the cache
works: of the previous request's uncached tokens, those that are neither now. Rules: at least three requests in a row,
each with over 2,000 such tokens and 10 % of its prompt.

`Beginnings` finds system prompts with tools that the first requests of at least three chains in a row repeat and none
reads, each within five minutes of the previous one and after its answer, in caches without breakpoints.

`Siblings` finds beginnings of such first requests without a breakpoint at their end (LORE172). Rules: the cache
needs breakpoints; an earlier request of the same model and place, sent within the lifetime of an entry, begins
with the same segments; its last breakpoint within them covers less than they hold, by at least what the model caches;
and the later request read no more than that breakpoint covers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from lore.cache import counts
from lore.cache.rules import least_cached, minimum_tokens
from lore.cache.served import cache_of, served_by
from lore.judge.pairs.outside import seconds_before_answer, seconds_since
from lore.judge.pairs.pair import Pair, is_remark
from lore.judge.requests import request_laws as laws
from lore.judge.runs.reads import Shared, UnreadTokens
from lore.model.cause import Place
from lore.model.codes import Code
from lore.model.evidence import SharedBlock
from lore.model.evidence.runs import PlateauReason, ReadPlateau
from lore.model.providers import ENGINES, LLAMA_CPP
from lore.model.results import Finding
from lore.model.turn import Segment, Turn
from lore.model.vector import common_prefix
from lore.prefix.blocks import block_of
from lore.prefix.chains import cache_scope
from lore.prefix.overlap import byte_size, count_shared_segments, iterate_from

_FEWEST = 3  # reads at one level, or requests that repeat a beginning
_FEWEST_OF_NOTHING = 2  # if the chain never read anything
_BLOCKS = 2  # by which the repeated part exceeds that level
# Tokens: reads of Gemini through gateways rise in steps of 7,500 to 8,200 (5 sessions; no provider documents it).
_STEPS = {"gemini": 8192}
_LEAST_UNCACHED, _LEAST_SHARE = 2_000, 0.1  # tokens, and part of the prompt, that no cache holds
_SAME_PART = 0.02  # by which the number of these tokens may change from one request to the next
_MOST_AFTER_BREAKPOINT = 64  # segments after the last breakpoint
_COMPARED = 16  # earlier first requests
_BEGINNINGS = 64  # that are remembered
# Fields that select a cache, or the machine that holds it, and the provider that a router chose.
_PROVIDER = "provider"
_KEYS = ("prompt_cache_key", "cache_salt", "session_id", "user", "safety_identifier", _PROVIDER)


# reads that stay at one level


class _Plateau(Struct, frozen=True):
    """Successive turns that read about as many tokens, or each less than half of their repeated tokens."""

    latest: Turn
    level: int = 0  # tokens read in each of its turns
    first_repeated: int = 0  # tokens that the first of its turns repeats
    repeated: int = 0  # tokens that the latest one repeats
    differing: frozenset[str] = frozenset(_KEYS)  # fields that select a cache and differ in each of its turns
    header: bool = False  # whether a billing header that this provider does not drop differs in each of its turns
    turns: int = 0
    unread: UnreadTokens = UnreadTokens()


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
        read = counts.first_pass_read(turn.usage)
        self._has_read = self._has_read or bool(read)
        if previous is None or read is None or (turn.usage is not None and turn.usage.write_tokens):
            return
        causes = () if pair is None else pair.causes
        is_reported = any(not is_remark(cause) for cause in causes)
        block = counts.block_tokens(turn)
        if turn.basis is None:
            repeated = 0 if pair is None else _count_repeated(pair)
        else:
            repeated = counts.prompt_tokens(previous.usage) if turn.extends(previous) else 0
        least = least_cached(self._rules(), turn)
        if laws.needs_breakpoints(turn) and minimum_tokens(self._rules(), turn) is None:
            least = laws.UNPUBLISHED
        if turn.prompt.model != previous.prompt.model or (not read and repeated < least):
            return  # nothing could be read
        if current is None or (abs(read - current.level) >= block and not _is_scattered(turn, current, read, repeated)):
            current = _Plateau(turn, read, repeated, repeated, header=True)
        self._current = current = replace(
            current, latest=turn, level=max(read, current.level), repeated=repeated,
            differing=_still_differing(current.differing, last, turn),
            turns=current.turns + 1,
            unread=current.unread.plus(turn, 0 if is_reported else repeated - read, self._rules),
            header=current.header and any(cause.code == Code.BILLING_HEADER_CHANGED for cause in causes),
        )  # fmt: skip
        excess, grown = repeated - current.level, repeated - current.first_repeated
        fewest = 1 if pair is not None and _is_sent_again(pair) else _FEWEST_OF_NOTHING
        if current.turns < (_FEWEST if self._has_read else fewest) or is_reported:
            return
        step = _BLOCKS * block if _marks_prefix(turn) else _STEPS.get(served_by(turn).provider, _BLOCKS * block)
        margin = step if current.level else _BLOCKS * block  # reads that rise in steps begin with one
        if (min(excess, grown) if current.level else excess) <= max(margin, counts.TOLERANCE_SHARE * repeated):
            return
        if self._longest is None or current.unread.tokens > self._longest.unread.tokens:
            self._longest = current

    def findings(self, place: Place) -> Iterator[Finding]:
        span, has_read = self._longest, self._has_read
        if span is not None and not (has_read and span.turns < _FEWEST):
            yield from _report(span, place, has_read=has_read, read_others=has_read and not span.level)


def _report(
    span: _Plateau, place: Place, *, has_read: bool, read_others: bool, source: str = "recorded"
) -> Iterator[Finding]:
    """Yield the finding, unless a log's provider may have no cache, or report 0 for an unknown count."""
    reasons, field = _find_reasons(span, has_read=has_read)
    cache = cache_of(span.latest, served_by(span.latest))
    if span.level or cache or reasons or span.latest.basis is None:
        evidence = ReadPlateau(span.level, span.repeated, span.unread.requests, reasons, cache, field, read_others)
        yield span.unread.finding(Code.READ_PLATEAU, place, evidence, source)


def _is_sent_again(pair: Pair) -> bool:
    """Return whether a request that a known cache could have served is the previous one again, after its answer."""
    previous, turn = pair.previous, pair.current
    is_equal = pair.overlap.is_covered and pair.bytes.previous == pair.bytes.current
    return is_equal and turn.basis is None and bool(cache_of(turn, served_by(turn))) and _can_read(previous, turn)


class UncachedParts:
    """Follow the turns of one chain of a log that each pay in full for tokens which the previous one sent, too."""

    def __init__(self, shared: Shared) -> None:
        self._rules = shared.rules
        self._previous: Turn | None = None
        # such turns in a row: the fewest tokens that one of them repeats, and their sum; the latest, and the longest
        self._current = self._longest = (0, UnreadTokens())

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        if turn.failed:
            return
        previous = self._previous if pair is None else pair.previous
        self._previous = turn
        tokens = 0 if previous is None else _count_uncached(previous, turn)
        if tokens <= max(_LEAST_UNCACHED, _LEAST_SHARE * counts.prompt_tokens(turn.usage)):
            self._current = (0, UnreadTokens())
            return
        fewest, unread = self._current
        unread = unread.plus(turn, tokens, self._rules)
        self._current = min(tokens, fewest or tokens), unread
        if unread.requests >= _FEWEST and unread.tokens > self._longest[1].tokens:
            self._longest = self._current

    def findings(self, place: Place) -> Iterator[Finding]:
        tokens, unread = self._longest
        if unread.first is not None:
            cache = cache_of(unread.first, served_by(unread.first))
            evidence = ReadPlateau(0, tokens, unread.requests, ("never-cached",), cache)
            yield unread.finding(Code.READ_PLATEAU, place, evidence, "recorded")


def _count_uncached(previous: Turn, turn: Turn) -> int:
    """Return the previous request's uncached tokens that this one, which extends it, neither reads nor writes.

    Their number hardly changes: text at the end that an agent replaces in each request would vary.
    """
    before, usage = previous.usage, turn.usage
    if before is None or usage is None or usage.iterations or not usage.write_tokens or not turn.extends(previous):
        return 0
    uncached, now = before.uncached_tokens or 0, usage.uncached_tokens or 0
    unserved = counts.prompt_tokens(before) - (usage.read_tokens or 0) - usage.write_tokens
    return max(0, min(uncached, now, unserved)) if abs(now - uncached) <= _SAME_PART * uncached else 0


def _is_scattered(turn: Turn, span: _Plateau, read: int, repeated: int) -> bool:
    """Return whether a recorded request, and each before it in `span`, read less than half of its repeated tokens.

    Machines with caches of their own read different amounts: 128, 4,608, 128 and 0 of 31,000 tokens
    (duolahypercho/codex-router#265).
    """
    is_low = 2 * max(read, span.level) < min(repeated, span.repeated)
    return is_low and turn.basis is None and not laws.needs_breakpoints(turn)


def _marks_prefix(turn: Turn) -> bool:
    """Return whether a gateway may make an explicit cache of what a request to Gemini marks, as LiteLLM does."""
    return turn.basis is None and served_by(turn).provider == "gemini" and bool(turn.prompt.breakpoints)


def _value(turn: Turn, name: str) -> bytes | str | None:
    return turn.call.answered_by if name == _PROVIDER else turn.prompt.params.get(name)


def _still_differing(names: frozenset[str], previous: Turn, turn: Turn) -> frozenset[str]:
    """Return those of the fields that differ in two recorded requests, too; none of a log's requests."""
    return frozenset(name for name in names if turn.basis is None and _value(previous, name) != _value(turn, name))


def _count_repeated(pair: Pair) -> int:
    """Return the tokens of the previous request that a cache could have kept and the current one repeats."""
    prompt, size = pair.previous.prompt, pair.bytes.previous
    common = pair.bytes.common + pair.overlap.common_bytes
    if laws.needs_breakpoints(pair.previous) and not prompt.auto_breakpoint:
        distance = prompt.stable - 1 - prompt.breakpoints[-1] if prompt.breakpoints else _MOST_AFTER_BREAKPOINT + 1
        if distance > _MOST_AFTER_BREAKPOINT:  # see LORE114
            return 0
        common = min(common, size - sum(map(byte_size, iterate_from(prompt, prompt.breakpoints[-1] + 1, tail=True))))
    return round(counts.prompt_tokens(pair.previous.usage) * common / size) if size > 0 else 0


def _find_reasons(span: _Plateau, *, has_read: bool) -> tuple[tuple[PlateauReason, ...], str]:
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
        "breakpoint-not-honoured": laws.needs_breakpoints(turn),
        "marked-prefix": is_marked,
        "ignored-breakpoint": not is_marked and any(True for _ in laws.ignored_breakpoints(turn)),
        "changing-provider": field == _PROVIDER,
        "changing-key": bool(field) and field != _PROVIDER,
        "no-cache-key": laws.lacks_cache_key(turn, provider),
    }
    reasons: list[PlateauReason] = [reason for reason, is_so in conditions.items() if is_so]
    best: tuple[PlateauReason, ...] = ("no-guarantee",) if provider == "gemini" else ()
    return tuple(reasons) or engine or best, field


# beginnings that nothing reads


class Beginnings:
    """Compare the first requests of the chains of one recording: their heads."""

    def __init__(self, shared: Shared) -> None:
        self._rules, self._reads = shared.rules, shared.reads
        self._beginnings: dict[object, _Plateau] = {}
        self._unread_beginnings: dict[object, _Plateau] = {}

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        read, prompt = counts.first_pass_read(turn.usage), turn.prompt
        if turn.failed or read is None or prompt.partial or turn.fidelity not in ("wire", "parsed"):
            return
        key = (cache_scope(turn), prompt.head)
        previous = self._beginnings.pop(key, None)
        is_unmarked = _reads_at_breakpoints(turn) and not prompt.breakpoints  # `Siblings` compares it
        if read or laws.needs_breakpoints(turn) or is_unmarked or (pair is not None and pair.is_break):
            return
        size, head = (sum(map(byte_size, part)) for part in (prompt, prompt.head))
        tokens = round(head / counts.bytes_per_token(turn, size)) if size else 0
        if tokens < max(counts.TOLERANCE_TOKENS, least_cached(self._rules(), turn)):
            return
        beginning = _Plateau(turn)
        if previous is not None and _can_read(previous.latest, turn):
            beginning = replace(
                previous, latest=turn, repeated=tokens, unread=previous.unread.plus(turn, tokens, self._rules),
                differing=_still_differing(previous.differing, previous.latest, turn),
            )  # fmt: skip
        self._beginnings[key] = beginning
        if len(self._beginnings) > _BEGINNINGS:
            del self._beginnings[next(iter(self._beginnings))]
        if beginning.unread.requests >= _FEWEST:
            self._unread_beginnings[key] = beginning

    def findings(self, place: Place) -> Iterator[Finding]:
        for start in self._unread_beginnings.values():
            others = self._reads.most_read(start.latest) > 0
            yield from _report(start, place, has_read=False, read_others=others, source="estimated")
        self._unread_beginnings.clear()


def _can_read(earlier: Turn, turn: Turn) -> bool:
    """Return whether a request was sent within five minutes of another one, and not before that was answered."""
    pause = seconds_since(earlier, turn)
    is_soon = pause is not None and 0 <= pause <= counts.FIVE_MINUTES
    return is_soon and seconds_before_answer(earlier, turn) is None


# beginnings without a breakpoint


def _reads_at_breakpoints(turn: Turn) -> bool:
    """Return whether the cache of a turn reads nothing between two breakpoints."""
    return laws.needs_breakpoints(turn) or cache_of(turn, served_by(turn)) == "openai-breakpoint"


def _count_shared_text(before: Segment | None, current: Segment | None) -> int:
    """Return the number of bytes with which two blocks of text begin alike; 0 for any others."""
    if before is None or current is None or before.kind != current.kind or current.section != before.section:
        return 0
    is_text = current.kind == "text" or (current.kind == "block" and block_of(current).kind == "text")
    return common_prefix(before.data, current.data) if is_text else 0


class Siblings:
    """Compare the first requests of the chains of one recording: whatever they share."""

    def __init__(self, shared: Shared) -> None:
        self._rules = shared.rules
        self._earlier: deque[Turn] = deque(maxlen=_COMPARED)
        self._shared: dict[tuple[str | None, str], tuple[SharedBlock, UnreadTokens]] = {}  # by model and path

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        """Compare the first request of a chain with earlier ones, unless its head was charged already."""
        prompt = turn.prompt
        if turn.failed or turn.fidelity not in ("wire", "parsed") or prompt.partial or not _reads_at_breakpoints(turn):
            return
        size, read = sum(map(byte_size, prompt)), counts.first_pass_read(turn.usage)
        is_compared = size and read is not None and (pair is None or not pair.is_break)
        per_token = counts.bytes_per_token(turn, size)
        least = max(counts.TOLERANCE_TOKENS, minimum_tokens(self._rules(), turn) or laws.UNPUBLISHED)
        for earlier in reversed(self._earlier) if is_compared else ():
            if not _can_read(earlier, turn) or cache_scope(earlier) != cache_scope(turn):
                continue
            before, common = earlier.prompt, count_shared_segments(earlier.prompt, prompt)
            place, inside = common, _count_shared_text(before.segment_at(common), prompt.segment_at(common))
            if inside < least * per_token:
                inside = 0
            # without the envelope of the message in which they part
            while common and not inside and (last := prompt.segment_at(common - 1)) and last.kind == "envelope":
                common -= 1
            ends = [place + 1 for place in before.breakpoints]
            if before.auto_breakpoint or not laws.needs_breakpoints(earlier):
                ends.append(before.stable)
            covered = max([end for end in ends if end <= common], default=0)
            tokens, covered_tokens = (
                round((sum(map(byte_size, islice(prompt, end))) + more) / per_token)
                for end, more in ((common, inside), (covered, 0))
            )
            lost = tokens - max(covered_tokens, read or 0)
            if common + inside and lost >= least:  # the latest one whose beginning this request shares and paid for
                path = laws.path_at(prompt, place if inside else common - 1)
                marked = next((laws.path_at(prompt, place) for place in prompt.breakpoints if place >= common), "")
                new = SharedBlock(lost, 0, path, inside, marked), UnreadTokens()  # as in the first of these requests
                block, unread = self._shared.get((turn.model, path), new)
                self._shared[turn.model, path] = block, unread.plus(turn, lost, self._rules)
                break
        self._earlier.append(turn)

    def findings(self, place: Place) -> Iterator[Finding]:
        for block, unread in self._shared.values():
            evidence = replace(block, requests=unread.requests)
            yield unread.finding(Code.SHARED_BLOCK_UNMARKED, place, evidence, "estimated", block.path)
        self._shared.clear()
