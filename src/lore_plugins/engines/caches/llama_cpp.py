"""A model of llama.cpp's server: slots with the tokens they computed last, and copies of slots in main memory.

Rules, in the server's order:

- A request goes to the slot that it names, else to the slot with the longest common prefix if that is more than a
  tenth of the request (`similarity`), else to the least recently used one. It waits for a slot that is not computing.
- If the slot would lose at least half of its tokens, or was only the least recently used, it is copied to main memory.
  Then a copy replaces its contents if the request keeps at least a quarter of the copy, and if both the kept share and
  the share of the request are larger than with the slot. A copy contained in another one is dropped; the oldest are
  dropped if `host_tokens` are too few; a copy that was loaded is removed.
- Then all slots that are not computing are copied (`idle`), and emptied if all share one memory (`unified`).
- The common prefix of slot and request is read, at least one token is computed, and the slot then holds the request
  and its output without the last token.

With `cache_reuse`, chunks of that number of tokens further back in the slot are shifted to their places in the request
(`llama_memory.py`). As in the server, explicitly set `slots` do not share memory, the default four do. How many tokens
fit into main memory (8 GiB) depends on the model: the default is 128 KiB a token, for a model with 8 billion parameters
at 16 bits. A model with layers that look back over a `window`, or with `states`, resumes where its memory or a
checkpoint allows; for a model only known to be `hybrid` the prediction is an upper limit.
Cost: O((slots + copies) x log pieces), and O(bytes that differ) with `cache_reuse`.

Source: llama.cpp 0c1e570 (2026-11), tools/server/server-context.cpp (`get_available_slot`, `update_slots`) and
server-task.cpp (`server_prompt_cache`); tests/plugins/engines/oracle compares every read.
"""

from __future__ import annotations

import math
import re
import struct
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from lore.cache import UNKNOWN, Piece, Prediction, Request, RuleLookup, TreePath, common_nodes
from lore.errors import LoreError
from lore_plugins.engines.caches.llama_chunks import TokenRun, find_chunks
from lore_plugins.engines.caches.llama_memory import Batches, Positions, SlotCheckpoint, SlotMemories
from lore_plugins.engines.caches.measured import EngineCache, RequestLayout

SIMILARITY = 0.1
SLOTS = 4
HOST_TOKENS = 65_536
_COPY_BELOW, _LOAD_FROM = 0.5, 0.25  # kept shares: below the first a slot is copied, below the second no copy is loaded
_USER = re.compile(rb'"role" ?: ?"user"|<\|im_start\|>user')


class _SlotContent(NamedTuple):
    """The tokens of a slot or of a copy."""

    nodes: Sequence[int] = ()  # of the pieces
    ends: Sequence[int] = ()  # of the pieces, in tokens
    size: int = 0  # tokens
    copy: tuple[Positions, tuple[SlotCheckpoint, ...]] | None = None  # of a copy: window or state, and checkpoints


class _Slot:
    def __init__(self, number: int) -> None:
        self.number = number
        self.content = _SlotContent()
        self.last_use: tuple[float, int] = (-math.inf, 0)  # end and number of its last request
        self.busy_until = -math.inf  # when it stops computing


class LlamaCpp(EngineCache):
    """The cache of one server."""

    def __init__(
        self, find_rule: RuleLookup, *, slots: int | None = None, similarity: float | None = None,
        cache_reuse: int | None = None, host_tokens: int | None = None, unified: bool | None = None,
        idle: bool | None = None, hybrid: bool = False, window: int = 0, states: bool = False,
        swa_full: bool = False, checkpoints: int | None = None, checkpoint_step: int | None = None,
        batch: int | None = None, ubatch: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if (slots is not None and slots < 1) or (host_tokens is not None and host_tokens < 0):
            hint = "--what-if slots=1, --what-if host_tokens=0"
            raise LoreError("llama.cpp: a server has at least 1 slot, and at least no main memory", hint=hint)
        self._slots = [_Slot(number) for number in range(SLOTS if slots is None else slots)]
        share = similarity if similarity is not None else find_rule("slot_similarity", None, None)
        self._similarity = _round_single(SIMILARITY if share is None else share)
        reuse = cache_reuse if cache_reuse is not None else int(find_rule("cache_reuse", None, None) or 0)
        self._reuse = reuse if states or swa_full or not window else 0  # memories of two sizes are not shifted
        self._host = HOST_TOKENS if host_tokens is None else host_tokens
        self._is_host_guessed = host_tokens is None
        self._unified = slots is None if unified is None else unified
        self._idle = self._host > 0 and idle is not False
        self._hybrid = hybrid and not window and not states
        self._resuming = None
        if window or states:
            rule_options = (find_rule("checkpoints", None, None), find_rule("checkpoint_step", None, None))
            options = (batch, ubatch, checkpoints, checkpoint_step)
            pairs = zip(options, (None, None, *rule_options), Batches(), strict=True)
            batch_options = [next(int(value) for value in values if value is not None) for values in pairs]
            if min(window, batch_options[2], batch_options[3]) < 0 or min(batch_options[:2]) < 1:
                hint = "--what-if window=1024, --what-if ubatch=512, --what-if checkpoints=0"
                raise LoreError("llama.cpp: a window and checkpoints are at least 0, a batch is at least 1", hint=hint)
            self._resuming = SlotMemories(
                Batches(*batch_options), window=0 if states else window, slots=len(self._slots), unified=self._unified,
                full=swa_full and not states,
            )  # fmt: skip
        self._clock = 0
        self._copies: list[_SlotContent] = []  # the oldest first
        self._pieces: dict[int, tuple[bytes, int]] = {}  # bytes and tokens by node, for `cache_reuse`
        self._users: dict[str, list[int]] = {}  # by chain: the indexes of pieces that begin a user's message
        self._has_dropped = False  # whether a copy was dropped because of the default `host_tokens`

    def predict(self, request: Request) -> Prediction:
        """Predict the tokens that the chosen slot holds of the request, and put the request there."""
        path = self._lay(request)
        is_exact = self._is_exact(request, path)
        if not request.pieces:
            return UNKNOWN
        layout = self._layout_of(request, path)
        target = _SlotContent(path.nodes, layout.ends[: len(request.pieces)], layout.prompt)
        at = self._start_time(request)
        slot, reason = self._choose_slot(request, target, at)
        self._copy_idle([other for other in self._slots if other is not slot and other.busy_until <= at])
        slot_tokens = self._common_tokens(slot.content, target)
        self._store_pieces(path.nodes[path.same :], request.pieces[path.same :])
        shifted_tokens = self._shift(slot, target, slot_tokens) if self._reuse > 0 else 0
        read_tokens = self._compute(slot, request, path, layout, slot_tokens + shifted_tokens)
        is_alone = self._resuming is None or all(other.busy_until <= at for other in self._slots if other is not slot)
        self._put(slot, request, layout, at)
        read = self._corrected_position(layout, min(read_tokens, max(0, layout.prompt - 1)))
        exact = is_exact and is_alone and not shifted_tokens and not self._has_dropped
        return self._predict_read(request, read, reason, exact=exact, hybrid=self._hybrid)

    def _start_time(self, request: Request) -> float:
        """Return when a slot is free for a request."""
        at = math.inf if request.at is None else request.at
        slot = self._named_slot(request)
        return max(at, slot.busy_until if slot is not None else min(other.busy_until for other in self._slots))

    def _named_slot(self, request: Request) -> _Slot | None:
        """Return the slot that a request names, None if there is no such slot."""
        number = request.slot
        return self._slots[number] if number is not None and 0 <= number < len(self._slots) else None

    def _choose_slot(self, request: Request, target: _SlotContent, at: float) -> tuple[_Slot, str]:
        """Return the slot of a request, loaded with a copy if one is better, and the reason of the choice."""
        named_slot, free_slots = self._named_slot(request), [slot for slot in self._slots if slot.busy_until <= at]
        best_slot, best_share, needs_copy = named_slot, 0.0, False
        if self._similarity > 0:
            for slot in free_slots if named_slot is None else [named_slot]:
                share = _round_single(self._common_tokens(slot.content, target) / max(1, target.size))
                if slot.content.size and share > max(best_share, self._similarity):
                    best_slot, best_share = slot, share
            if best_slot is not None:
                size = best_slot.content.size
                kept_share = _round_single(_round_single(best_share * target.size) / size) if size else math.nan
                needs_copy = kept_share < _COPY_BELOW
        reason = (
            "the slot that the request names" if named_slot is not None else "the slot with the longest common prefix"
        )
        if best_slot is None:
            best_slot = min(reversed(free_slots), key=lambda slot: slot.last_use)
            needs_copy, reason = True, "the least recently used slot: no other has enough in common"
        if needs_copy and self._host:
            self._copy(best_slot)
            if self._load(best_slot, target):
                reason += ", with a copy from main memory"
        return best_slot, reason

    def _compute(self, slot: _Slot, request: Request, path: TreePath, layout: RequestLayout, slot_tokens: int) -> int:
        """Return how many of the `slot_tokens` are read, and simulate the memory while the rest is computed."""
        if self._resuming is None:
            return slot_tokens
        places = self._users.setdefault(request.chain, [])
        del places[bisect_left(places, path.same) :]
        new_pieces = enumerate(request.pieces[path.same :], path.same)
        places += [at for at, piece in new_pieces if piece.kind == "envelope" and _USER.search(piece.data)]
        users = [layout.ends[place - 1] if place else 0 for place in places]
        read = self._resuming.resume(slot.number, slot_tokens, layout.prompt)
        self._resuming.compute(slot.number, read, layout.prompt, users, self._clock)
        self._resuming.generate(slot.number, layout.prompt, layout.ends[-1] - 1)
        return read

    def _put(self, slot: _Slot, request: Request, layout: RequestLayout, at: float) -> None:
        size = layout.ends[-1] - 1 if layout.ends[-1] > layout.prompt else layout.prompt
        slot.content = _SlotContent(layout.nodes, layout.ends, size)
        self._store_pieces(layout.output_path.nodes, request.output)
        ended = at if request.ended is None else max(at, request.ended)
        self._clock += 1
        slot.busy_until, slot.last_use = ended, (ended, self._clock)

    def _copy_idle(self, slots: Sequence[_Slot]) -> None:
        """Copy slots that are not computing, and empty them if all slots share one memory."""
        for slot in slots if self._idle else ():
            self._copy(slot)
            if self._unified:
                slot.content = _SlotContent()
                if self._resuming is not None:
                    self._resuming.clear(slot.number)

    def _copy(self, slot: _Slot) -> None:
        """Copy a slot unless a copy contains it, and drop copies that it contains."""
        content = slot.content
        common_sizes = [self._common_tokens(copy, content) for copy in self._copies]
        if not content.size or content.size in common_sizes or content.size > self._host:
            return
        pairs = zip(self._copies, common_sizes, strict=True)
        self._copies = [copy for copy, common in pairs if common < copy.size]
        total = sum(copy.size for copy in self._copies) + content.size
        while total > self._host:
            total -= self._copies.pop(0).size
            self._has_dropped = self._is_host_guessed
        copy = None if self._resuming is None else self._resuming.save(slot.number)
        self._copies.append(content._replace(copy=copy))

    def _load(self, slot: _Slot, target: _SlotContent) -> bool:
        """Load the best copy into a slot if it is better than the slot's contents; return whether one was loaded."""
        common = self._common_tokens(slot.content, target)
        best_kept = _round_single(common / slot.content.size) if slot.content.size else -1.0
        best_read = _round_single(common / max(1, target.size))
        best_copy = None
        for copy in self._copies:
            common = self._common_tokens(copy, target)
            kept_share, read_share = _round_single(common / copy.size), _round_single(common / max(1, target.size))
            if kept_share >= _LOAD_FROM and kept_share > best_kept and read_share > best_read:
                best_copy, best_kept, best_read = copy, kept_share, read_share
        if best_copy is not None:
            slot.content = best_copy
            self._copies.remove(best_copy)
            if self._resuming is not None and best_copy.copy is not None:
                self._resuming.restore(slot.number, best_copy.copy)
        return best_copy is not None

    def _common_tokens(self, content: _SlotContent, target: _SlotContent) -> int:
        """Return the tokens of the common prefix."""
        place = common_nodes(content.nodes, target.nodes)
        position = content.ends[place - 1] if place else 0
        if place < len(content.nodes) and place < len(target.nodes):
            common_bytes, size = self._tree.common_bytes(content.nodes[place], target.nodes[place])
            shared = (content.ends[place] - position) * common_bytes // size if size else 0
            position += min(shared, target.ends[place] - position)
        return min(position, content.size, target.size)

    def _shift(self, slot: _Slot, target: _SlotContent, common: int) -> int:
        """Shift chunks after the common prefix to their places in the request; return their tokens."""
        content = slot.content
        place = common_nodes(content.nodes, target.nodes)
        begin = min(common, target.ends[place - 1]) if place else 0  # the last token generated may be missing
        run, target_run = (TokenRun([self._pieces[node] for node in side.nodes[place:]]) for side in (content, target))
        chunks = find_chunks(run, target_run, common - begin, content.size - begin, self._reuse)
        if self._resuming is not None:
            self._resuming.shift(slot.number, [chunk.moved_by(begin) for chunk in chunks])
        return sum(chunk.tokens for chunk in chunks)

    def _store_pieces(self, nodes: Sequence[int], pieces: Sequence[Piece]) -> None:
        if self._reuse > 0:  # only `_shift` reads them
            for node, piece in zip(nodes, pieces, strict=True):
                self._pieces[node] = (piece.data, round(self._ruler.size(piece)))


def _round_single(value: float) -> float:
    """Return a number rounded to single precision, as the server computes it."""
    return struct.unpack("f", struct.pack("f", value))[0]
