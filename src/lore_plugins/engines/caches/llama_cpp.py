"""llama.cpp's server: slots, each with what it computed last, and copies of slots in main memory.

In: requests, what was billed for them. Out: predictions. Rules, in the order in which the server goes:

- A request goes to the slot that it asks for, or to the one that has the most of it, where that is more than a tenth of
  the request (`similarity`), else to the one that was used least recently. A slot that computes is taken by nobody: a
  request waits for the first that is done.
- Where the slot would lose half of what it holds or more, or is taken for want of a better one, it is copied to main
  memory, and the copy that keeps and gives more of the request than the slot does is taken in its place: one that the
  request keeps at least a quarter of. A copy that another holds whole is dropped, the oldest go where `host_tokens`
  are too few, and one that is taken is gone.
- Then all slots that do not compute are copied (`idle`), and with one memory for all slots (`unified`) emptied.
- What stands in the slot and begins alike is read, at least one token is computed, and the slot holds this request from
  then on, with what was generated but for its last token.

With `cache_reuse` chunks of that many tokens further back in the slot are shifted to where the request has them
(`llama_memory.py`). As the server has it, `slots` of one's own choice do not share memory, and four do if none are
chosen. How many tokens fit into main memory (8 GiB) is the model's: 128 KiB a token is that of a model with 8 billion
parameters at 16 bits. A model whose layers look back over a `window` of tokens, or that has `states`, goes on where
its memory or a checkpoint allows it; of one that is only said to be `hybrid` the most is predicted.
Cost O((slots + copies) x log pieces), and O(bytes that differ) with `cache_reuse`.

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

from lore.cache import UNKNOWN, Laid, Look, MeasuredCache, Piece, Prediction, Request, TreePath, common_nodes
from lore.errors import LoreError
from lore_plugins.engines.caches.llama_memory import Batches, Kept, Resuming, SlotCheckpoint, TokenRun, shifted

SIMILARITY = 0.1
SLOTS = 4
HOST_TOKENS = 65_536
_LOSES, _KEEPS = 0.5, 0.25  # of what a slot holds: below the one it is copied, below the other no copy is taken
_USER = re.compile(rb'"role" ?: ?"user"|<\|im_start\|>user')


class _SlotContent(NamedTuple):
    """Tokens: the nodes of their pieces, the position at which each ends, how many there are; the `copy` of a slot."""

    nodes: Sequence[int] = ()
    ends: Sequence[int] = ()
    size: int = 0
    copy: tuple[Kept, tuple[SlotCheckpoint, ...]] | None = None


class _Slot:
    """What the slot of a number holds, when it was used last, and until when it computes."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.content = _SlotContent()
        self.used: tuple[float, int] = (-math.inf, 0)  # until when, and the number of the request
        self.until = -math.inf


class LlamaCpp(MeasuredCache):
    """Slots of one server."""

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
        self._reuse = reuse if states or swa_full or not window else 0  # two sizes of memory are not shifted
        self._host = HOST_TOKENS if host_tokens is None else host_tokens
        self._guessed = host_tokens is None
        self._unified = slots is None if unified is None else unified
        self._idle = self._host > 0 and idle is not False
        self._hybrid = hybrid and not window and not states
        self._resuming = None
        if window or states:
            ruled = (look("checkpoints", None, None), look("checkpoint_step", None, None))
            given = (batch, ubatch, checkpoints, checkpoint_step)
            pairs = zip(given, (None, None, *ruled), Batches(), strict=True)
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
        self._pieces: dict[int, tuple[bytes, int]] = {}  # by node: what stands there, and its tokens
        self._users: dict[str, list[int]] = {}  # of each chain, the places where a message of the user begins
        self._dropped = False  # a copy, for want of memory that was guessed

    def predict(self, request: Request) -> Prediction:
        """Say what the chosen slot still holds of the request, and put the request there."""
        path = self._lay(request)
        counted = self._counted(request, path)
        if not request.pieces:
            return UNKNOWN
        laid = self._laid(request, path)
        asked = _SlotContent(path.nodes, laid.ends[: len(request.pieces)], laid.prompt)
        at = self._free(request)
        slot, reason = self._chosen(request, asked, at)
        self._copy_idle([other for other in self._slots if other is not slot and other.until <= at])
        found = self._common(slot.content, asked)
        self._note(path.nodes[path.kept :], request.pieces[path.kept :])
        more = self._shifted(slot, asked, found) if self._reuse > 0 else 0
        found = self._computed(slot, request, path, laid, found + more)
        alone = self._resuming is None or all(other.until <= at for other in self._slots if other is not slot)
        self._put(slot, request, laid, at)
        read = self._billed(laid, min(found, max(0, laid.prompt - 1)))
        exact = counted and alone and not more and not self._dropped
        return self._read(request, read, reason, exact=exact, hybrid=self._hybrid)

    # which slot

    def _free(self, request: Request) -> float:
        """Return when a request finds a slot: at once, or when the first is done that it may take."""
        at = math.inf if request.at is None else request.at
        own = self._own(request)
        return max(at, own.until if own is not None else min(slot.until for slot in self._slots))

    def _own(self, request: Request) -> _Slot | None:
        """Return the slot that a request asks for; None for one that there is not."""
        number = request.slot
        return self._slots[number] if number is not None and 0 <= number < len(self._slots) else None

    def _chosen(self, request: Request, asked: _SlotContent, at: float) -> tuple[_Slot, str]:
        """Return the slot that a request goes to, with what it is to hold, and why it is that."""
        own, free = self._own(request), [slot for slot in self._slots if slot.until <= at]
        best, most, copied = own, 0.0, False
        if self._similarity > 0:
            for slot in free if own is None else [own]:
                alike = _single(self._common(slot.content, asked) / max(1, asked.size))
                if slot.content.size and alike > max(most, self._similarity):
                    best, most = slot, alike
            if best is not None:
                kept = _single(_single(most * asked.size) / best.content.size) if best.content.size else math.nan
                copied = kept < _LOSES
        reason = "the slot that it asks for" if own is not None else "the slot that is most alike"
        if best is None:
            best = min(reversed(free), key=lambda slot: slot.used)
            copied, reason = True, "the slot used least recently: none is alike enough"
        if copied and self._host:
            self._copy(best)
            if self._load(best, asked):
                reason += ", with a copy from main memory"
        return best, reason

    def _computed(self, slot: _Slot, request: Request, path: TreePath, laid: Laid, found: int) -> int:
        """Return how much is read of what was found, and keep what is computed behind it."""
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

    # copies in main memory

    def _copy_idle(self, slots: Sequence[_Slot]) -> None:
        """Copy slots that do not compute, and empty them where all share one memory."""
        for slot in slots if self._idle else ():
            self._copy(slot)
            if self._unified:
                slot.content = _SlotContent()
                if self._resuming is not None:
                    self._resuming.clear(slot.number)

    def _copy(self, slot: _Slot) -> None:
        """Keep a copy, if there is not one that holds it, and drop those that it holds."""
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
        """Take the copy that keeps and gives more than the slot does."""
        common = self._common(slot.content, asked)
        keeps = _single(common / slot.content.size) if slot.content.size else -1.0
        gives = _single(common / max(1, asked.size))
        best = None
        for copy in self._copies:
            common = self._common(copy, asked)
            kept, given = _single(common / copy.size), _single(common / max(1, asked.size))
            if kept >= _KEEPS and kept > keeps and given > gives:
                best, keeps, gives = copy, kept, given
        if best is not None:
            slot.content = best
            self._copies.remove(best)
            if self._resuming is not None and best.copy is not None:
                self._resuming.restore(slot.number, best.copy)
        return best is not None

    # what is alike

    def _common(self, left: _SlotContent, right: _SlotContent) -> int:
        """Return the tokens at the beginning of one content that another has there, too."""
        place = common_nodes(left.nodes, right.nodes)
        position = left.ends[place - 1] if place else 0
        if place < len(left.nodes) and place < len(right.nodes):
            alike, size = self._tree.alike(left.nodes[place], right.nodes[place])
            shared = (left.ends[place] - position) * alike // size if size else 0
            position += min(shared, right.ends[place] - position)
        return min(position, left.size, right.size)

    def _shifted(self, slot: _Slot, asked: _SlotContent, found: int) -> int:
        """Return the tokens of chunks behind the common beginning that are shifted, each to the next open place."""
        before = slot.content
        place = common_nodes(before.nodes, asked.nodes)
        begin = min(found, asked.ends[place - 1]) if place else 0  # the last token generated may be missing
        held, wanted = (TokenRun([self._pieces[node] for node in each.nodes[place:]]) for each in (before, asked))
        chunks = shifted(held, wanted, found - begin, before.size - begin, self._reuse)
        if self._resuming is not None:
            self._resuming.shift(slot.number, [chunk.behind(begin) for chunk in chunks])
        return sum(chunk.tokens for chunk in chunks)

    def _note(self, nodes: Sequence[int], pieces: Sequence[Piece]) -> None:
        """Remember what stands at nodes, where chunks are looked for."""
        if self._reuse > 0:
            for node, piece in zip(nodes, pieces, strict=True):
                self._pieces[node] = (piece.data, round(self._ruler.size(piece)))


def _single(value: float) -> float:
    """Return a number as the server has it: of single precision."""
    return struct.unpack("f", struct.pack("f", value))[0]
