"""What llama.cpp remembers of a model that looks back over a window, or has a state: cells, states, checkpoints.

In: the tokens of a slot that a request has at its beginning, and how many it has; out: how many are read. Rules:

- Of layers with a window the last tokens alone are kept, in cells that are written again in a ring: `window` tokens
  (for each slot, where all share one memory) and a batch (`ubatch`), rounded up to 256. A token out of the window may
  be written over, and those before it go with it. Of a state there is that of the last token.
- A request can go on where the memory still holds the window before that place; else at the newest checkpoint that
  does, of those at or before it; else all is computed again. Checkpoints behind the place where it goes on are dropped.
- A prompt is computed in batches, which end where a checkpoint may stand: 4 tokens before its end and `ubatch` more,
  and where a message of the user begins: the last one, or one more than `step` tokens behind the newest checkpoint. A
  checkpoint is made at the beginning of a batch that is one of these, or is near the end. There are `most` at a time:
  the oldest goes, those that follow another by no more than `step` first.
- A checkpoint, and a copy of a slot in main memory, hold the window alone.
- Chunks of a slot are shifted to where a request has them (`--cache-reuse`): the request is gone through from its first
  open token on; the next chunk of the slot that has at least `reuse` of the next tokens is shifted as far as both go on
  alike, and where none has them, that is the end. Tokens are compared by the bytes of their pieces, and stand in a
  piece evenly: exact where each token of it has as many bytes.

With all tokens kept (`swa_full`) there are no checkpoints, and a copy can be gone on with where its window is whole.
Cost O(tokens that are computed), and O(window) for a copy; of chunks O(bytes), and as much again for each.

Source: llama.cpp 0c1e570 (2026-11), tools/server/server-context.cpp (`update_slots`, `create_checkpoint`,
`n_cache_reuse`) and src/llama-kv-cache.cpp (`find_slot`, `apply_ubatch`, `state_write`), llama-kv-cache-iswa.cpp,
llama-memory-recurrent.cpp.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from lore.model import common_prefix

_ROUNDED = 256  # cells
_OFFSET = 4  # tokens before the end of a prompt

Kept: TypeAlias = Sequence[int]  # positions of a copy, in the order in which they are restored


class SlotStates:
    """The state behind the last token of each slot; what it can do is what `Cells` can."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def span(self, slot: int) -> tuple[int, int]:
        last = self._last.get(slot, -1)
        return last, last

    def cut(self, slot: int, start: int) -> None:
        if start <= self._last.get(slot, -1):
            self._last[slot] = -1

    def shift(self, slot: int, positions: range, start: int) -> None:
        last = self._last.get(slot, -1)
        if last in positions:
            self._last[slot] = last - positions.start + start

    def place(self, slot: int, positions: Sequence[int]) -> None:
        self._last[slot] = positions[-1]

    def save(self, slot: int) -> Kept:
        return (self._last.get(slot, -1),)


class Cells:
    """A ring of cells that slots share; `most`: how many there are, None: as many as are needed."""

    def __init__(self, window: int, most: int | None) -> None:
        self._window = window
        self._most = most
        self._cells: dict[int, tuple[int, int]] = {}  # slot and position
        self._places: dict[int, dict[int, int]] = {}  # by slot: the cell of each position, ascending
        self._head = 0

    def span(self, slot: int) -> tuple[int, int]:
        """Return the first and the last position that a slot has; -1 where it has none."""
        places = self._places.get(slot)
        return (next(iter(places)), next(reversed(places))) if places else (-1, -1)

    def cut(self, slot: int, start: int) -> None:
        """Drop the positions of a slot from `start` on."""
        self._free(slot, [at for at in self._places.get(slot, ()) if at >= start])

    def shift(self, slot: int, positions: range, start: int) -> None:
        """Move positions of a slot so that they begin at `start`, and drop what stands between."""
        by, places = positions.start - start, self._places.get(slot, {})
        self._free(slot, [at for at in places if start <= at < positions.start])
        moved = {at - by if at in positions else at: cell for at, cell in places.items()}
        for at, cell in moved.items():
            self._cells[cell] = (slot, at)
        self._places[slot] = dict(sorted(moved.items()))
        self._head = 0

    def place(self, slot: int, positions: Sequence[int]) -> None:
        """Keep positions that are computed in one step."""
        cells = self._found(len(positions))
        over: dict[int, int] = {}
        for cell in cells:
            before = self._cells.get(cell)
            if before is not None:
                over[before[0]] = max(over.get(before[0], -1), before[1])
                self._clear(cell, before)
        own = self._places.setdefault(slot, {})
        ordered = sorted(zip(positions, cells, strict=True))
        own.update(ordered)
        for at, cell in ordered:
            self._cells[cell] = (slot, at)
        for other, last in over.items():
            self._free(other, [at for at in self._places[other] if at <= last])
        self._head = cells[-1] + 1

    def save(self, slot: int) -> Kept:
        """Return what a copy of a slot keeps."""
        last = self.span(slot)[1]
        within = [(cell, at) for at, cell in self._places.get(slot, {}).items() if last - at < self._window]
        return [at for _, at in sorted(within)]

    def _found(self, count: int) -> list[int]:
        """Return the next cells that are empty, or hold what no token will look back at: always enough."""
        head = 0 if self._head > len(self._cells) + 2 * count else self._head
        limits = {slot: self.span(slot)[1] + 1 - self._window for slot, places in self._places.items() if places}
        found: list[int] = []
        for at in range(head, head + (self._most or head + len(self._cells) + count)):
            cell = at % self._most if self._most is not None else at
            held = self._cells.get(cell)
            if held is None or held[1] <= limits[held[0]]:
                found.append(cell)
            if len(found) == count:
                break
        return found

    def _free(self, slot: int, positions: Sequence[int]) -> None:
        cells = [self._places[slot][at] for at in positions]
        for at, cell in zip(positions, cells, strict=True):
            self._clear(cell, (slot, at))
        self._head = min(self._head, *cells) if cells else self._head

    def _clear(self, cell: int, held: tuple[int, int]) -> None:
        del self._cells[cell]
        del self._places[held[0]][held[1]]


SlotMemory: TypeAlias = SlotStates | Cells


class SlotCheckpoint(NamedTuple):
    """What was kept of the first `tokens` of a slot, by the request of a number: the span of it, and the copy."""

    tokens: int
    first: int
    last: int
    request: int
    kept: Kept


class Batches(NamedTuple):
    """How a server computes and keeps: tokens of a batch, of a step of it; checkpoints of a slot, tokens apart."""

    batch: int = 2048
    ubatch: int = 512
    most: int = 32
    step: int = 8192


class Resuming:
    """Where requests go on in slots, and what is kept of them."""

    def __init__(self, batches: Batches, *, window: int, slots: int, unified: bool, full: bool) -> None:
        """Take the window in tokens, 0 for a state; `unified`: slots share cells, `full`: all tokens are kept."""
        self._batches = batches
        self._window = 0 if full else window
        self._most = 0 if full else batches.most
        size = window * (slots if unified else 1) + batches.ubatch
        cells = None if full else -(-size // _ROUNDED) * _ROUNDED
        shared: SlotMemory = Cells(window, cells) if window else SlotStates()
        apart = window > 0 and not unified
        self._memory: list[SlotMemory] = [Cells(window, cells) if apart else shared for _ in range(slots)]
        self.checkpoints: list[list[SlotCheckpoint]] = [[] for _ in range(slots)]

    def clear(self, slot: int) -> None:
        """Drop what is kept of a slot."""
        self._memory[slot].cut(slot, 0)
        self.checkpoints[slot] = []

    def save(self, slot: int) -> tuple[Kept, tuple[SlotCheckpoint, ...]]:
        """Return a copy of a slot."""
        return self._memory[slot].save(slot), tuple(self.checkpoints[slot])

    def restore(self, slot: int, copy: tuple[Kept, tuple[SlotCheckpoint, ...]]) -> None:
        """Put a copy into a slot."""
        self._restored(slot, copy[0])
        self.checkpoints[slot] = list(copy[1])

    def resume(self, slot: int, found: int, total: int) -> int:
        """Return how many of the tokens that a slot was found to have of a request, of `total`, are read."""
        threshold = max(0, found - self._window - (0 if found < total else 1))
        place = found
        if found > 0 and self._memory[slot].span(slot)[0] >= threshold:
            newest = reversed(self.checkpoints[slot])
            fits = (made for made in newest if made.last <= found and (made.first < threshold or made.first == 0))
            made = next(fits, None)
            place = 0 if made is None else min(found, max(made.first + 1, made.last))
            found = 0 if made is None else min(place, made.tokens)
            if made is not None:
                self._restored(slot, made.kept)
        self.checkpoints[slot] = [made for made in self.checkpoints[slot] if made.last <= place]
        return found - 1 if found == total and found > 0 else found

    def shift(self, slot: int, chunks: Sequence[Chunk]) -> None:
        """Move chunks of a slot to the places where a request has them."""
        for begin, place, tokens in chunks:
            self._memory[slot].shift(slot, range(begin, begin + tokens), place)

    def compute(self, slot: int, read: int, total: int, users: Sequence[int], request: int) -> None:
        """Compute a prompt from the token at `read` on; messages of the user begin at `users`, ascending."""
        memory, size = self._memory[slot], self._batches.ubatch
        memory.cut(slot, read)
        start = read
        while start < total:
            end = self._end(slot, start, total, users)
            near = total < end + size
            if self._most and (end == total or near or start in users):
                self._make(slot, start, request, wanted=near or start in users[-1:])
            for at in range(start, end, size):
                memory.place(slot, range(at, min(end, at + size)))
            start = end

    def generate(self, slot: int, start: int, end: int) -> None:
        """Keep tokens that were generated, one after the other."""
        for at in range(start, end):
            self._memory[slot].place(slot, (at,))

    def _end(self, slot: int, start: int, total: int, users: Sequence[int]) -> int:
        """Return where the batch ends that begins at `start`."""
        batch, size, _, step = self._batches
        end = min(total, start + batch)
        if self._most:
            made = self.checkpoints[slot]
            due = [at for at in users if at == users[-1] or not made or at > made[-1].tokens + step]
            before = [total - min(batch, offset) for offset in (_OFFSET + size, _OFFSET)]
            end = min([end, *(at for at in (*due, *before) if at > start)])
        return end

    def _make(self, slot: int, start: int, request: int, *, wanted: bool) -> None:
        """Make a checkpoint of the first `start` tokens, unless nothing is there, or the one before is too near."""
        first, last = self._memory[slot].span(slot)
        made, (_, _, most, step) = self.checkpoints[slot], self._batches
        if first < 0 or (made and not wanted and start <= made[-1].tokens + step):
            return
        before, left = -1, list[SlotCheckpoint]()
        for number, checkpoint in enumerate(made):
            full = len(left) + len(made) - number + 1 >= most
            if full and checkpoint.request != request and before >= 0 and checkpoint.tokens - before <= step:
                continue
            before = checkpoint.tokens
            left.append(checkpoint)
        left = [checkpoint for checkpoint in left[max(0, len(left) - most + 1) :] if checkpoint.tokens != start]
        self.checkpoints[slot] = [*left, SlotCheckpoint(start, first, last, request, self._memory[slot].save(slot))]

    def _restored(self, slot: int, kept: Kept) -> None:
        self._memory[slot].cut(slot, 0)
        if kept:
            self._memory[slot].place(slot, kept)


# chunks that are shifted


class Chunk(NamedTuple):
    """So many tokens of a slot, from which one on, and where a request has them."""

    begin: int
    place: int
    tokens: int

    def behind(self, tokens: int) -> Chunk:
        """Return the chunk as it stands behind so many tokens."""
        return Chunk(self.begin + tokens, self.place + tokens, self.tokens)


class TokenRun:
    """Pieces, each its bytes and its tokens, one behind the other."""

    def __init__(self, pieces: Sequence[tuple[bytes, int]]) -> None:
        counted = [(data, tokens) for data, tokens in pieces if tokens and data]
        self.data = b"".join([data for data, _ in counted])
        self._bytes = [0, *accumulate(len(data) for data, _ in counted)]
        self._tokens = [0, *accumulate(tokens for _, tokens in counted)]

    @property
    def tokens(self) -> int:
        return self._tokens[-1]

    def at(self, token: int) -> int:
        """Return the byte at which a token begins."""
        return _between(self._tokens, self._bytes, token)

    def before(self, byte: int) -> int:
        """Return how many tokens end at or before a byte."""
        return _between(self._bytes, self._tokens, byte)


def shifted(held: TokenRun, wanted: TokenRun, found: int, size: int, reuse: int) -> list[Chunk]:
    """Return what is shifted, in order; the first `found` tokens of both are alike, and the slot holds `size`."""
    data, chunks = held.data[: held.at(size)], list[Chunk]()
    at, place = held.at(found), found
    while place + reuse <= wanted.tokens:
        begin = wanted.at(place)
        at = data.find(wanted.data[begin : wanted.at(place + reuse)], at)
        if at < 0:
            break
        alike = wanted.before(begin + common_prefix(data[at:], wanted.data[begin:]))
        chunks.append(Chunk(held.before(at), place, alike - place))
        at, place = at + wanted.at(alike) - begin, alike
    return chunks


def _between(ends: Sequence[int], others: Sequence[int], value: int) -> int:
    """Return where a value of one scale stands in another, both ascending from 0; no further than the end of it."""
    number = bisect_right(ends, value)
    if number >= len(ends):
        return others[-1]
    low, begin = ends[number - 1], others[number - 1]
    return begin + (value - low) * (others[number] - begin) // (ends[number] - low)
