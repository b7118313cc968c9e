"""llama.cpp's memory for models with a window or a state: cells, states, checkpoints, and shifted chunks.

Rules:

- Layers with a window keep only the last tokens, in a ring of cells: `window` tokens (for each slot, if all share one
  memory) plus a batch (`ubatch`), rounded up to 256. A token outside the window may be overwritten; all
  before it are then lost, too. Of a state only that of the last token is kept.
- A request can resume if memory still holds the window before that place, else at the newest checkpoint at or before it
  with that window, else everything is computed. Checkpoints after the place where it resumes are dropped.
- A prompt is computed in batches that end where a checkpoint may be made: 4 tokens, and `ubatch` + 4 tokens before its
  end, and where a user's message begins (the last one, and those more than `step` tokens after the newest checkpoint).
  A checkpoint is made before a batch that begins at such a place or is near the end. At most `most` are kept: the
  oldest is dropped, preferably one within `step` tokens of the one before it.
- A checkpoint, and a copy of a slot in main memory, hold only the window.
- `--cache-reuse` shifts chunks of a slot to their places in the request: from the first token not read, the next
  chunk of the slot that has at least `reuse` of the following tokens is shifted as far as both agree, until no chunk
  has them. Tokens are compared by bytes and are assumed to be spread evenly in a piece: exact if all tokens of a piece
  have the same number of bytes.

If all tokens are kept (`swa_full`) there are no checkpoints, and a copy can be resumed if its window is whole.
Cost: O(computed tokens), O(window) for a copy, O(bytes) for chunks and each shift.

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
    """The state after the last token of each slot, with the methods of `Cells`."""

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
    """A ring of `most` cells (None: unlimited) that slots share."""

    def __init__(self, window: int, most: int | None) -> None:
        self._window = window
        self._most = most
        self._cells: dict[int, tuple[int, int]] = {}  # slot and position by cell
        self._places: dict[int, dict[int, int]] = {}  # cells by slot and position, ascending
        self._head = 0

    def span(self, slot: int) -> tuple[int, int]:
        """Return the first and the last position of a slot, -1 and -1 if it is empty."""
        places = self._places.get(slot)
        return (next(iter(places)), next(reversed(places))) if places else (-1, -1)

    def cut(self, slot: int, start: int) -> None:
        """Drop the positions of a slot from `start` on."""
        self._free(slot, [at for at in self._places.get(slot, ()) if at >= start])

    def shift(self, slot: int, positions: range, start: int) -> None:
        """Move positions of a slot back to begin at `start`, and drop those between."""
        by, places = positions.start - start, self._places.get(slot, {})
        self._free(slot, [at for at in places if start <= at < positions.start])
        moved = {at - by if at in positions else at: cell for at, cell in places.items()}
        for at, cell in moved.items():
            self._cells[cell] = (slot, at)
        self._places[slot] = dict(sorted(moved.items()))
        self._head = 0

    def place(self, slot: int, positions: Sequence[int]) -> None:
        """Store positions that are computed in one step."""
        cells = self._free_cells(len(positions))
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
        """Return the positions that a copy of a slot keeps."""
        last = self.span(slot)[1]
        within = [(cell, at) for at, cell in self._places.get(slot, {}).items() if last - at < self._window]
        return [at for _, at in sorted(within)]

    def _free_cells(self, count: int) -> list[int]:
        """Return the next cells that are empty or outside the window; there are always enough."""
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
    """A checkpoint after the first `tokens` of a slot."""

    tokens: int
    first: int  # first position of the window
    last: int  # last position of the window
    request: int  # number of the request that made it
    kept: Kept


class Batches(NamedTuple):
    """The server's options for batches and checkpoints."""

    batch: int = 2048  # tokens
    ubatch: int = 512  # tokens computed in one step
    most: int = 32  # checkpoints of a slot
    step: int = 8192  # tokens between checkpoints


class Resuming:
    """The memory and checkpoints of slots, and where requests resume in them.

    `window` is in tokens, 0 for a state; `unified`: slots share cells, `full`: all tokens are kept.
    """

    def __init__(self, batches: Batches, *, window: int, slots: int, unified: bool, full: bool) -> None:
        self._batches = batches
        self._window = 0 if full else window
        self._most = 0 if full else batches.most
        size = window * (slots if unified else 1) + batches.ubatch
        cells = None if full else -(-size // _ROUNDED) * _ROUNDED
        shared: SlotMemory = Cells(window, cells) if window else SlotStates()
        separate = window > 0 and not unified
        self._memory: list[SlotMemory] = [Cells(window, cells) if separate else shared for _ in range(slots)]
        self.checkpoints: list[list[SlotCheckpoint]] = [[] for _ in range(slots)]

    def clear(self, slot: int) -> None:
        """Empty a slot."""
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
        """Return how many of the `found` tokens of a request's `total` are read."""
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
        """Move chunks of a slot to their places in a request."""
        for begin, place, tokens in chunks:
            self._memory[slot].shift(slot, range(begin, begin + tokens), place)

    def compute(self, slot: int, read: int, total: int, users: Sequence[int], request: int) -> None:
        """Compute a prompt from the token at `read` on; users' messages begin at `users`, ascending."""
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
        """Store output, token by token."""
        for at in range(start, end):
            self._memory[slot].place(slot, (at,))

    def _end(self, slot: int, start: int, total: int, users: Sequence[int]) -> int:
        """Return the end of the batch that begins at `start`."""
        batch, size, _, step = self._batches
        end = min(total, start + batch)
        if self._most:
            made = self.checkpoints[slot]
            due = [at for at in users if at == users[-1] or not made or at > made[-1].tokens + step]
            before = [total - min(batch, offset) for offset in (_OFFSET + size, _OFFSET)]
            end = min([end, *(at for at in (*due, *before) if at > start)])
        return end

    def _make(self, slot: int, start: int, request: int, *, wanted: bool) -> None:
        """Make a checkpoint after the first `start` tokens, unless the slot is empty or the last one is too near."""
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


class Chunk(NamedTuple):
    """Tokens of a slot that a request has at another place."""

    begin: int  # in the slot
    place: int  # in the request
    tokens: int

    def moved_by(self, tokens: int) -> Chunk:
        """Return the chunk with both positions moved by a number of tokens."""
        return Chunk(self.begin + tokens, self.place + tokens, self.tokens)


class TokenRun:
    """Consecutive pieces, given as their bytes and number of tokens."""

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
        """Return the number of tokens that end at or before a byte."""
        return _between(self._bytes, self._tokens, byte)


def find_chunks(held: TokenRun, wanted: TokenRun, found: int, size: int, reuse: int) -> list[Chunk]:
    """Return the chunks to shift, in order; the first `found` tokens are common, and the slot holds `size`."""
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
    """Interpolate: map a position in the scale `ends` to the scale `others`, at most to its end."""
    number = bisect_right(ends, value)
    if number >= len(ends):
        return others[-1]
    low, begin = ends[number - 1], others[number - 1]
    return begin + (value - low) * (others[number] - begin) // (ends[number] - low)
