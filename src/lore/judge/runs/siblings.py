"""Requests of different conversations that share a long beginning without a breakpoint at its end (LORE172).

In: the first request of each chain of one recording. Out: a finding for each beginning that was paid for again.
Rules: nothing is cached there without a breakpoint; an earlier request of the same model and place, sent within the
lifetime of an entry, begins with the same segments; its last breakpoint within them covers less than they hold, by at
least what the model caches; and the later request read no more than that breakpoint covers.

Source: Anthropic's documentation: a request reads what an earlier one wrote at a breakpoint, nothing in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from lore.cache.counts import FIVE_MINUTES, TOLERANCE_TOKENS, bytes_per_token, first_pass_read
from lore.cache.rules import minimum_tokens
from lore.judge.base import finding, paid_again, price_of, sum_known
from lore.judge.pairs.finders import seconds_since
from lore.judge.pairs.pair import Pair
from lore.judge.requests.request_laws import UNPUBLISHED, needs_breakpoints, path_at
from lore.judge.runs.shared import Shared
from lore.model.cause import Place
from lore.model.codes import Code
from lore.model.evidence import SharedBlock
from lore.model.results import Finding
from lore.model.turn import Prompt, Turn
from lore.prefix.chains import cache_scope
from lore.prefix.overlap import byte_size, count_shared_segments

_COMPARED = 16  # earlier requests


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
            common = _count_shared(earlier.prompt, turn.prompt)
            covered = _last_entry(earlier.prompt, common)
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
        """Yield a finding for each shared beginning, and forget these beginnings."""
        for shared in self._shared.values():
            path = shared.block.path
            yield finding(
                Code.SHARED_BLOCK_UNMARKED, place, shared.block, at=shared.turn, json_path=path,
                section=path.partition("[")[0] or None, lost_tokens=shared.lost, lost_dollars=shared.dollars,
                tokens="estimated",
            )  # fmt: skip
        self._shared.clear()


def _count_shared(earlier: Prompt, prompt: Prompt) -> int:
    """Return how many segments two prompts begin with, without the envelope of the message in which they part."""
    common = count_shared_segments(earlier, prompt)
    while common and (last := prompt.segment_at(common - 1)) is not None and last.kind == "envelope":
        common -= 1
    return common


def _last_entry(prompt: Prompt, common: int) -> int:
    """Return how many of the first `common` segments the last breakpoint among them covers."""
    ends = [*[place + 1 for place in prompt.breakpoints], *([prompt.stable] if prompt.auto_breakpoint else [])]
    return max([end for end in ends if end <= common], default=0)
