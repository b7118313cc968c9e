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

from lore.cache import UNKNOWN, Look, Piece, Prediction, Request, TreePath, common_nodes
from lore.errors import LoreError
from lore_plugins.engines.caches.llama_memory import Batches, Kept, Resuming, SlotCheckpoint, TokenRun, find_chunks
from lore_plugins.engines.caches.measured import EngineCache, Laid

SIMILARITY = 0.1
SLOTS = 4
HOST_TOKENS = 65_536
_LOSES, _KEEPS = 0.5, 0.25  # kept shares: below the first a slot is copied, below the second no copy is loaded
_USER = re.compile(rb'"role" ?: ?"user"|<\|im_start\|>user')


class _SlotContent(NamedTuple):
    """The tokens of a slot or of a copy."""

    nodes: Sequence[int] = ()  # of the pieces
    ends: Sequence[int] = ()  # of the pieces, in tokens
    size: int = 0  # tokens
    copy: tuple[Kept, tuple[SlotCheckpoint, ...]] | None = None  # of a copy: window or state, and checkpoints


class _Slot:
    def __init__(self, number: int) -> None:
        self.number = number
        self.content = _SlotContent()
        self.used: tuple[float, int] = (-math.inf, 0)  # end and number of its last request
        self.until = -math.inf  # when it stops computing


class LlamaCpp(EngineCache):
    """The cache of one server."""

    def __init__(
        self, look: Look, *, slots: int | None = None, similarity: float | None = None, cache_reuse: int | None = None,
        host_tokens: int | None = None, unified: bool | None = None, idle: bool | None = None, hybrid: bool = False,
        window: int = 0, states: bool = False, swa_full: bool = False, checkpoints: int | None = None,
        checkpoint_step: int | None = None, batch: int | None = None, ubatch: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if (slots is not None and slots < 1) or (host_tokens is not None and host_tokens < 0):
            hint = "--what-if slots=1, --what-if host_tokens=0"
            raise LoreError("llama.cpp: a server has at least 1 slot, and at least no main memory", hint=hint)
        self._slots = [_Slot(number) for number in range(SLOTS if slots is None else slots)]
        share = similarity if similarity is not None else look("slot_similarity", None, None)
        self._similarity = _single(SIMILARITY if share is None else share)
        reuse = cache_reuse if cache_reuse is not None else int(look("cache_reuse", None, None) or 0)
        self._reuse = reuse if states or swa_full or not window else 0  # memories of two sizes are not shifted
        self._host = HOST_TOKENS if host_tokens is None else host_tokens
        self._guessed = host_tokens is None
        self._unified = slots is None if unified is None else unified
        self._idle = self._host > 0 and idle is not False
        self._hybrid = hybrid and not window and not states
        self._resuming = None
        if window or states:
            ruled = (look("checkpoints", None, None), look("checkpoint_step", None, None))
            options = (batch, ubatch, checkpoints, checkpoint_step)
            pairs = zip(options, (None, None, *ruled), Batches(), strict=True)
            chosen = [next(int(value) for value in values if value is not None) for values in pairs]
            if min(window, chosen[2], chosen[3]) < 0 or min(chosen[:2]) < 1:
                hint = "--what-if window=1024, --what-if ubatch=512, --what-if checkpoints=0"
                raise LoreError("llama.cpp: a window and checkpoints are at least 0, a batch is at least 1", hint=hint)
            self._resuming = Resuming(
                Batches(*chosen), window=0 if states else window, slots=len(self._slots), unified=self._unified,
                full=swa_full and not states,
            )  # fmt: skip
        self._clock = 0
        self._copies: list[_SlotContent] = []  # the oldest first
        self._pieces: dict[int, tuple[bytes, int]] = {}  # bytes and tokens by node, for `cache_reuse`
        self._users: dict[str, list[int]] = {}  # by chain: the indexes of pieces that begin a user's message
        self._dropped = False  # whether a copy was dropped because of the default `host_tokens`

    def predict(self, request: Request) -> Prediction:
        """Predict the tokens that the chosen slot holds of the request, and put the request there."""
        path = self._lay(request)
        counted = self._counted(request, path)
        if not request.pieces:
            return UNKNOWN
        laid = self._laid(request, path)
        asked = _SlotContent(path.nodes, laid.ends[: len(request.pieces)], laid.prompt)
        at = self._start_time(request)
        slot, reason = self._choose_slot(request, asked, at)
        self._copy_idle([other for other in self._slots if other is not slot and other.until <= at])
        found = self._common(slot.content, asked)
        self._note(path.nodes[path.kept :], request.pieces[path.kept :])
        more = self._shift(slot, asked, found) if self._reuse > 0 else 0
        found = self._compute(slot, request, path, laid, found + more)
        alone = self._resuming is None or all(other.until <= at for other in self._slots if other is not slot)
        self._put(slot, request, laid, at)
        read = self._billed(laid, min(found, max(0, laid.prompt - 1)))
        exact = counted and alone and not more and not self._dropped
        return self._read(request, read, reason, exact=exact, hybrid=self._hybrid)

    def _start_time(self, request: Request) -> float:
        """Return when a slot is free for a request."""
        at = math.inf if request.at is None else request.at
        named = self._named_slot(request)
        return max(at, named.until if named is not None else min(slot.until for slot in self._slots))

    def _named_slot(self, request: Request) -> _Slot | None:
        """Return the slot that a request names, None if there is no such slot."""
        number = request.slot
        return self._slots[number] if number is not None and 0 <= number < len(self._slots) else None

    def _choose_slot(self, request: Request, asked: _SlotContent, at: float) -> tuple[_Slot, str]:
        """Return the slot of a request, loaded with a copy if one is better, and the reason of the choice."""
        named, free = self._named_slot(request), [slot for slot in self._slots if slot.until <= at]
        best, most, copied = named, 0.0, False
        if self._similarity > 0:
            for slot in free if named is None else [named]:
                alike = _single(self._common(slot.content, asked) / max(1, asked.size))
                if slot.content.size and alike > max(most, self._similarity):
                    best, most = slot, alike
            if best is not None:
                kept = _single(_single(most * asked.size) / best.content.size) if best.content.size else math.nan
                copied = kept < _LOSES
        reason = "the slot that the request names" if named is not None else "the slot with the longest common prefix"
        if best is None:
            best = min(reversed(free), key=lambda slot: slot.used)
            copied, reason = True, "the least recently used slot: no other has enough in common"
        if copied and self._host:
            self._copy(best)
            if self._load(best, asked):
                reason += ", with a copy from main memory"
        return best, reason

    def _compute(self, slot: _Slot, request: Request, path: TreePath, laid: Laid, found: int) -> int:
        """Return how many of the found tokens are read, and simulate the memory while the rest is computed."""
        if self._resuming is None:
            return found
        places = self._users.setdefault(request.chain, [])
        del places[bisect_left(places, path.kept) :]
        added = enumerate(request.pieces[path.kept :], path.kept)
        places += [at for at, piece in added if piece.kind == "envelope" and _USER.search(piece.data)]
        users = [laid.ends[place - 1] if place else 0 for place in places]
        read = self._resuming.resume(slot.number, found, laid.prompt)
        self._resuming.compute(slot.number, read, laid.prompt, users, self._clock)
        self._resuming.generate(slot.number, laid.prompt, laid.ends[-1] - 1)
        return read

    def _put(self, slot: _Slot, request: Request, laid: Laid, at: float) -> None:
        size = laid.ends[-1] - 1 if laid.ends[-1] > laid.prompt else laid.prompt
        slot.content = _SlotContent(laid.nodes, laid.ends, size)
        self._note(laid.made.nodes, request.output)
        ended = at if request.ended is None else max(at, request.ended)
        self._clock += 1
        slot.until, slot.used = ended, (ended, self._clock)

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
        held = [self._common(copy, content) for copy in self._copies]
        if not content.size or content.size in held or content.size > self._host:
            return
        pairs = zip(self._copies, held, strict=True)
        self._copies = [copy for copy, common in pairs if common < copy.size]
        total = sum(copy.size for copy in self._copies) + content.size
        while total > self._host:
            total -= self._copies.pop(0).size
            self._dropped = self._guessed
        copy = None if self._resuming is None else self._resuming.save(slot.number)
        self._copies.append(content._replace(copy=copy))

    def _load(self, slot: _Slot, asked: _SlotContent) -> bool:
        """Load the best copy into a slot if it is better than the slot's contents; return whether one was loaded."""
        common = self._common(slot.content, asked)
        best_kept = _single(common / slot.content.size) if slot.content.size else -1.0
        best_read = _single(common / max(1, asked.size))
        best = None
        for copy in self._copies:
            common = self._common(copy, asked)
            kept, read = _single(common / copy.size), _single(common / max(1, asked.size))
            if kept >= _KEEPS and kept > best_kept and read > best_read:
                best, best_kept, best_read = copy, kept, read
        if best is not None:
            slot.content = best
            self._copies.remove(best)
            if self._resuming is not None and best.copy is not None:
                self._resuming.restore(slot.number, best.copy)
        return best is not None

    def _common(self, held: _SlotContent, asked: _SlotContent) -> int:
        """Return the tokens of the common prefix."""
        place = common_nodes(held.nodes, asked.nodes)
        position = held.ends[place - 1] if place else 0
        if place < len(held.nodes) and place < len(asked.nodes):
            alike, size = self._tree.common_bytes(held.nodes[place], asked.nodes[place])
            shared = (held.ends[place] - position) * alike // size if size else 0
            position += min(shared, asked.ends[place] - position)
        return min(position, held.size, asked.size)

    def _shift(self, slot: _Slot, asked: _SlotContent, found: int) -> int:
        """Shift chunks after the common prefix to their places in the request; return their tokens."""
        before = slot.content
        place = common_nodes(before.nodes, asked.nodes)
        begin = min(found, asked.ends[place - 1]) if place else 0  # the last token generated may be missing
        held, wanted = (TokenRun([self._pieces[node] for node in each.nodes[place:]]) for each in (before, asked))
        chunks = find_chunks(held, wanted, found - begin, before.size - begin, self._reuse)
        if self._resuming is not None:
            self._resuming.shift(slot.number, [chunk.moved_by(begin) for chunk in chunks])
        return sum(chunk.tokens for chunk in chunks)

    def _note(self, nodes: Sequence[int], pieces: Sequence[Piece]) -> None:
        if self._reuse > 0:  # only `_shift` reads them
            for node, piece in zip(nodes, pieces, strict=True):
                self._pieces[node] = (piece.data, round(self._ruler.size(piece)))


def _single(value: float) -> float:
    """Return a number rounded to single precision, as the server computes it."""
    return struct.unpack("f", struct.pack("f", value))[0]
