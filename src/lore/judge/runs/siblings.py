"""First requests of different conversations that begin alike, and pay for the same beginning again.

`Siblings` finds beginnings without a breakpoint at their end (LORE172). Rules: nothing is cached there without a
breakpoint; an earlier request of the same model and place, sent within the lifetime of an entry, begins with the same
segments; its last breakpoint within them covers less than they hold, by at least what the model caches; and the later
request read no more than that breakpoint covers. Source: Anthropic's documentation: a request reads what an earlier one
wrote at a breakpoint, nothing in between.

`Beginnings` finds system prompts with tools that at least three requests in a row repeat and none reads (LORE307), each
within five minutes of the previous one and after its answer, in caches without breakpoints. Source: DeepSeek V4 on
vllm-ascend 0.26, whose blocks of 4,096 tokens kept no prompt of 2,000.

In: the first request of each chain of one recording. Out: a finding for each beginning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from lore.cache.counts import FIVE_MINUTES, TOLERANCE_TOKENS, bytes_per_token, first_pass_read
from lore.cache.rules import minimum_tokens
from lore.cache.served import cache_of, served_by
from lore.judge.findings import finding
from lore.judge.pairs.outside import seconds_since
from lore.judge.pairs.pair import Pair
from lore.judge.prices import paid_again, price_of, sum_known
from lore.judge.requests.request_laws import UNPUBLISHED, lacks_cache_key, needs_breakpoints, path_at
from lore.judge.runs.reads import Shared
from lore.model.cause import Place
from lore.model.codes import Code
from lore.model.evidence import SharedBlock
from lore.model.evidence.runs import PlateauReason, ReadPlateau
from lore.model.providers import ENGINES
from lore.model.results import Finding
from lore.model.turn import Turn
from lore.prefix.chains import cache_scope
from lore.prefix.overlap import byte_size, count_shared_segments

_COMPARED = 16  # earlier requests
_FEWEST = 3  # requests that repeat a beginning
_BEGINNINGS = 64  # that are remembered


# beginnings without a breakpoint


class _SharedBeginning(Struct, frozen=True):
    """A beginning that several requests share."""

    turn: Turn  # the first request that paid for it again
    block: SharedBlock  # as in that request, and how many requests paid for it again
    lost: int = 0  # tokens, summed over them
    dollars: float | None = None  # their cost beyond the price of reading; None if it is unknown


class Siblings:
    """Compare the first requests of the chains of one recording."""

    def __init__(self, shared: Shared) -> None:
        self._rules = shared.rules
        self._earlier: deque[Turn] = deque(maxlen=_COMPARED)
        self._shared: dict[tuple[str | None, str], _SharedBeginning] = {}

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        """Compare the first request of a chain with earlier ones, unless its head was charged already."""
        if turn.failed or turn.fidelity not in ("wire", "parsed") or turn.prompt.partial or not needs_breakpoints(turn):
            return
        if pair is None or not pair.is_break:
            self._compare(turn)
        self._earlier.append(turn)

    def _compare(self, turn: Turn) -> None:
        """Find the latest earlier request whose beginning this one shares and paid for again."""
        size, read = sum(map(byte_size, turn.prompt)), first_pass_read(turn.usage)
        if size == 0 or read is None:
            return
        per_token = bytes_per_token(turn, size)
        least = max(TOLERANCE_TOKENS, minimum_tokens(self._rules(), turn) or UNPUBLISHED)
        for earlier in reversed(self._earlier):
            pause = seconds_since(earlier, turn)
            if pause is None or not 0 <= pause <= FIVE_MINUTES or cache_scope(earlier) != cache_scope(turn):
                continue
            prompt, common = earlier.prompt, count_shared_segments(earlier.prompt, turn.prompt)
            # without the envelope of the message in which they part
            while common and (last := prompt.segment_at(common - 1)) is not None and last.kind == "envelope":
                common -= 1
            ends = [*[place + 1 for place in prompt.breakpoints], *([prompt.stable] if prompt.auto_breakpoint else [])]
            covered = max([end for end in ends if end <= common], default=0)
            tokens, covered_tokens = (
                round(sum(map(byte_size, islice(turn.prompt, end))) / per_token) for end in (common, covered)
            )
            lost = tokens - max(covered_tokens, read)
            if common and lost >= least:
                self._add(turn, common, tokens - covered_tokens, lost)
                return

    def _add(self, turn: Turn, common: int, tokens: int, lost: int) -> None:
        """Add a request that paid again for `lost` of the `tokens` that no breakpoint covers."""
        prompt = turn.prompt
        path = path_at(prompt, common - 1)
        marked = next((path_at(prompt, place) for place in prompt.breakpoints if place >= common), "")
        beginning = self._shared.get((turn.model, path)) or _SharedBeginning(turn, SharedBlock(tokens, 0, path, marked))
        block = replace(beginning.block, requests=beginning.block.requests + 1)
        dollars = sum_known((beginning.dollars, paid_again(price_of(self._rules(), turn), turn.usage, lost)))
        self._shared[turn.model, path] = _SharedBeginning(beginning.turn, block, beginning.lost + lost, dollars)

    def findings(self, place: Place) -> Iterator[Finding]:
        for shared in self._shared.values():
            path = shared.block.path
            yield finding(
                Code.SHARED_BLOCK_UNMARKED, place, shared.block, at=shared.turn, json_path=path,
                section=path.partition("[")[0] or None, lost_tokens=shared.lost, lost_dollars=shared.dollars,
                tokens="estimated",
            )  # fmt: skip
        self._shared.clear()


# beginnings that nothing reads


class _Beginning(Struct, frozen=True):
    """Successive first requests that begin alike."""

    latest: Turn
    first: Turn | None = None  # the first request that repeats the beginning
    repeats: int = 0
    tokens: int = 0  # of the beginning, estimated in the latest request
    unread: int = 0  # tokens, summed over its requests
    dollars: float | None = None  # their cost beyond the price of reading; None if it is unknown


class Beginnings:
    """Compare the first requests of the chains of one recording."""

    def __init__(self, shared: Shared) -> None:
        self._rules, self._reads = shared.rules, shared.reads
        self._beginnings: dict[object, _Beginning] = {}
        self._unread_beginnings: dict[object, _Beginning] = {}

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        read, prompt = first_pass_read(turn.usage), turn.prompt
        if turn.failed or read is None or prompt.partial or turn.fidelity not in ("wire", "parsed"):
            return
        key = (cache_scope(turn), prompt.head)
        previous = self._beginnings.pop(key, None)
        if read or needs_breakpoints(turn) or (pair is not None and pair.is_break):
            return
        size, head = (sum(map(byte_size, part)) for part in (prompt, prompt.head))
        tokens = round(head / bytes_per_token(turn, size)) if size else 0
        if tokens < max(TOLERANCE_TOKENS, minimum_tokens(self._rules(), turn) or 0):
            return
        beginning, pause = _Beginning(turn), None if previous is None else seconds_since(previous.latest, turn)
        if previous is not None and pause is not None and 0 < pause <= FIVE_MINUTES:
            dollars = sum_known((previous.dollars, paid_again(price_of(self._rules(), turn), turn.usage, tokens)))
            beginning = _Beginning(
                turn, previous.first or turn, previous.repeats + 1, tokens, previous.unread + tokens, dollars
            )  # fmt: skip
        self._beginnings[key] = beginning
        if len(self._beginnings) > _BEGINNINGS:
            del self._beginnings[next(iter(self._beginnings))]
        if beginning.repeats >= _FEWEST:
            self._unread_beginnings[key] = beginning

    def findings(self, place: Place) -> Iterator[Finding]:
        for start in self._unread_beginnings.values():
            provider = served_by(start.latest).provider
            reasons: tuple[PlateauReason, ...] = ("no-cache-key",) if lacks_cache_key(start.latest, provider) else ()
            reasons = ("engine-reads-nothing",) if provider in ENGINES else reasons
            cache, others = cache_of(start.latest, served_by(start.latest)), self._reads.most_read(start.latest) > 0
            evidence = ReadPlateau(0, start.tokens, start.repeats, reasons, cache, read_others=others)
            yield finding(
                Code.READ_PLATEAU, place, evidence, at=start.first, lost_tokens=start.unread,
                lost_dollars=start.dollars, tokens="estimated",
            )  # fmt: skip
        self._unread_beginnings.clear()
