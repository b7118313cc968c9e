"""First requests of conversations that begin alike, of which none reads anything (LORE307).

In: the first request of each chain of one recording. Out: a finding for each beginning (system prompt and tools) that
at least three requests in a row repeat and none reads, each within five minutes of the previous one and after its
answer. Caches that need breakpoints are judged by `siblings` and `reads`.

Source: DeepSeek V4 on vllm-ascend 0.26, whose blocks of 4,096 tokens kept no prompt of 2,000.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from lore.cache.counts import FIVE_MINUTES, TOLERANCE_TOKENS, bytes_per_token, first_pass_read
from lore.cache.rules import minimum_tokens
from lore.cache.served import cache_of, served_by
from lore.judge.base import finding, paid_again, price_of, sum_known
from lore.judge.pairs.finders import seconds_since
from lore.judge.pairs.pair import Pair
from lore.judge.requests.request_laws import needs_breakpoints
from lore.judge.runs.shared import Shared
from lore.model.cause import Place
from lore.model.codes import Code
from lore.model.evidence.runs import PlateauReason, ReadPlateau
from lore.model.providers import ENGINES
from lore.model.results import Finding
from lore.model.turn import Turn
from lore.prefix.chains import cache_scope
from lore.prefix.overlap import byte_size

_FEWEST = 3  # requests that repeat a beginning
_BEGINNINGS = 64  # that are remembered


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
        """Add the first request of a chain."""
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
        beginning = _Beginning(turn)
        if previous is not None and _could_read(previous.latest, turn):
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
        """Yield a finding for each beginning that was repeated unread, and forget these beginnings."""
        for start in self._unread_beginnings.values():
            provider = served_by(start.latest).provider
            has_key = start.latest.prompt.params.get("prompt_cache_key", b"null") != b"null"
            reasons: tuple[PlateauReason, ...] = ("no-cache-key",) if provider == "openai" and not has_key else ()
            reasons = ("engine-reads-nothing",) if provider in ENGINES else reasons
            cache, others = cache_of(start.latest, served_by(start.latest)), self._reads.most_read(start.latest) > 0
            evidence = ReadPlateau(0, start.tokens, start.repeats, reasons, cache, read_others=others)
            yield finding(
                Code.READ_PLATEAU, place, evidence, at=start.first, lost_tokens=start.unread,
                lost_dollars=start.dollars, tokens="estimated",
            )  # fmt: skip
        self._unread_beginnings.clear()


def _could_read(before: Turn, turn: Turn) -> bool:
    """Return whether a request was sent after the answer to an earlier one began, and within five minutes."""
    pause = seconds_since(before, turn)
    return pause is not None and 0 < pause <= FIVE_MINUTES
