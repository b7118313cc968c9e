"""llama.cpp's memory for models with a window or a state: cells, states, checkpoints.

Rules:

- Layers with a window keep only the last tokens, in a ring of cells: `window` tokens (for each slot, if all share one
  memory) plus a batch (`ubatch`), rounded up to 256. A token outside the window may be overwritten; all
  before it are then lost, too. Of a state only that of the last token is kept.
- A request can resume if memory still holds the window before that place, else at the newest checkpoint at or before it
  with that window, else everything is computed. Checkpoints after the place where it resumes are dropped.
- A prompt is computed in batches that end where a checkpoint may be made: 4 tokens, and `ubatch` + 4 tokens before its
  end, and where a user's message begins (the last one, and those more than `step` tokens after the newest checkpoint).
  A checkpoint is made before a batch that begins at such a place or is near the end. At most `max_checkpoints` are
  kept: the oldest is dropped, preferably one within `step` tokens of the one before it.
- A checkpoint, and a copy of a slot in main memory, hold only the window.

If all tokens are kept (`swa_full`) there are no checkpoints. A copy then holds one window, and can be resumed at any
token after its first one, as llama.cpp does not check the window then.
Cost: O(computed tokens), O(window) for a copy and each shift.

Source: llama.cpp 0c1e570 (2026-11), tools/server/server-context.cpp (`update_slots`, `create_checkpoint`)
and src/llama-kv-cache.cpp (`find_slot`, `apply_ubatch`, `state_write`), llama-kv-cache-iswa.cpp,
llama-memory-recurrent.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from lore_plugins.engines.caches.llama_chunks import Chunk

_ROUNDED = 256  # cells
_OFFSET = 4  # tokens before the end of a prompt

Positions: TypeAlias = Sequence[int]  # positions of a copy, in the order in which they are restored


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

    def save(self, slot: int) -> Positions:
        return (self._last.get(slot, -1),)


class Cells:
    """A ring of `capacity` cells (None: unlimited) that slots share."""

    def __init__(self, window: int, capacity: int | None) -> None:
        self._window = window
        self._capacity = capacity
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
        distance, places = positions.start - start, self._places.get(slot, {})
        self._free(slot, [at for at in places if start <= at < positions.start])
        shifted_cells = {at - distance if at in positions else at: cell for at, cell in places.items()}
        for at, cell in shifted_cells.items():
            self._cells[cell] = (slot, at)
        self._places[slot] = dict(sorted(shifted_cells.items()))
        self._head = 0

    def place(self, slot: int, positions: Sequence[int]) -> None:
        """Store positions that are computed in one step."""
        cells = self._free_cells(len(positions))
        last_overwritten: dict[int, int] = {}
        for cell in cells:
            occupant = self._cells.get(cell)
            if occupant is not None:
                last_overwritten[occupant[0]] = max(last_overwritten.get(occupant[0], -1), occupant[1])
                self._clear(cell, occupant)
        slot_cells = self._places.setdefault(slot, {})
        ordered = sorted(zip(positions, cells, strict=True))
        slot_cells.update(ordered)
        for at, cell in ordered:
            self._cells[cell] = (slot, at)
        for slot_to_cut, last in last_overwritten.items():
            self._free(slot_to_cut, [at for at in self._places[slot_to_cut] if at <= last])
        self._head = cells[-1] + 1

    def save(self, slot: int) -> Positions:
        """Return the positions that a copy of a slot keeps."""
        last = self.span(slot)[1]
        window_cells = [(cell, at) for at, cell in self._places.get(slot, {}).items() if last - at < self._window]
        return [at for _, at in sorted(window_cells)]

    def _free_cells(self, count: int) -> list[int]:
        """Return the next cells that are empty or outside the window; there are always enough."""
        head = 0 if self._head > len(self._cells) + 2 * count else self._head
        limits = {slot: self.span(slot)[1] + 1 - self._window for slot, places in self._places.items() if places}
        cells: list[int] = []
        for at in range(head, head + (self._capacity or head + len(self._cells) + count)):
            cell = at % self._capacity if self._capacity is not None else at
            occupant = self._cells.get(cell)
            if occupant is None or occupant[1] <= limits[occupant[0]]:
                cells.append(cell)
            if len(cells) == count:
                break
        return cells

    def _free(self, slot: int, positions: Sequence[int]) -> None:
        cells = [self._places[slot][at] for at in positions]
        for at, cell in zip(positions, cells, strict=True):
            self._clear(cell, (slot, at))
        self._head = min(self._head, *cells) if cells else self._head

    def _clear(self, cell: int, occupant: tuple[int, int]) -> None:
        del self._cells[cell]
        del self._places[occupant[0]][occupant[1]]


SlotMemory: TypeAlias = SlotStates | Cells


class SlotCheckpoint(NamedTuple):
    """A checkpoint after the first `tokens` of a slot."""

    tokens: int
    first: int  # first position of the window
    last: int  # last position of the window
    request: int  # number of the request that made it
    positions: Positions


class Batches(NamedTuple):
    """The server's options for batches and checkpoints."""

    batch: int = 2048  # tokens
    ubatch: int = 512  # tokens computed in one step
    max_checkpoints: int = 32  # of a slot
    step: int = 8192  # tokens between checkpoints


class SlotMemories:
    """The memory and checkpoints of a server's slots.

    `window` is in tokens, 0 for a state; `unified`: slots share cells, `full`: all tokens are kept.
    """

    def __init__(self, batches: Batches, *, window: int, slots: int, unified: bool, full: bool) -> None:
        self._batches = batches
        self._window = 0 if full else window
        self._max_checkpoints = 0 if full else batches.max_checkpoints
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

    def save(self, slot: int) -> tuple[Positions, tuple[SlotCheckpoint, ...]]:
        """Return a copy of a slot."""
        return self._memory[slot].save(slot), tuple(self.checkpoints[slot])

    def restore(self, slot: int, copy: tuple[Positions, tuple[SlotCheckpoint, ...]]) -> None:
        """Put a copy into a slot."""
        self._restore_positions(slot, copy[0])
        self.checkpoints[slot] = list(copy[1])

    def resume(self, slot: int, common_tokens: int, total: int) -> int:
        """Prepare a slot for a request of `total` tokens; return the number of tokens that need not be computed.

        Restores a checkpoint if memory no longer holds the window, and drops later checkpoints. `common_tokens`: length
        of the prefix that slot and request share.
        """
        threshold = max(0, common_tokens - self._window - (0 if common_tokens < total else 1))
        place = common_tokens
        if common_tokens > 0 and self._memory[slot].span(slot)[0] >= threshold:
            newest = reversed(self.checkpoints[slot])
            usable = (point for point in newest if point.last <= common_tokens and point.first < max(1, threshold))
            checkpoint = next(usable, None)
            place = 0 if checkpoint is None else min(common_tokens, max(checkpoint.first + 1, checkpoint.last))
            common_tokens = 0 if checkpoint is None else min(place, checkpoint.tokens)
            if checkpoint is not None:
                self._restore_positions(slot, checkpoint.positions)
        self.checkpoints[slot] = [point for point in self.checkpoints[slot] if point.last <= place]
        return common_tokens - 1 if common_tokens == total and common_tokens > 0 else common_tokens

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
            end = self._batch_end(slot, start, total, users)
            is_near_end = total < end + size
            if self._max_checkpoints and (end == total or is_near_end or start in users):
                self._make_checkpoint(slot, start, request, force=is_near_end or start in users[-1:])
            for at in range(start, end, size):
                memory.place(slot, range(at, min(end, at + size)))
            start = end

    def generate(self, slot: int, start: int, end: int) -> None:
        """Store output, token by token."""
        for at in range(start, end):
            self._memory[slot].place(slot, (at,))

    def _batch_end(self, slot: int, start: int, total: int, users: Sequence[int]) -> int:
        """Return the end of the batch that begins at `start`."""
        batch, size, _, step = self._batches
        end = min(total, start + batch)
        if self._max_checkpoints:
            checkpoints = self.checkpoints[slot]
            starts = [at for at in users if at == users[-1] or not checkpoints or at > checkpoints[-1].tokens + step]
            near_end = [total - min(batch, offset) for offset in (_OFFSET + size, _OFFSET)]
            end = min([end, *(at for at in (*starts, *near_end) if at > start)])
        return end

    def _make_checkpoint(self, slot: int, start: int, request: int, *, force: bool) -> None:
        """Make a checkpoint after the first `start` tokens, unless the slot is empty or the last one is too near."""
        memory, checkpoints, (_, _, limit, step) = self._memory[slot], self.checkpoints[slot], self._batches
        first, last = memory.span(slot)
        if first < 0 or (checkpoints and not force and start <= checkpoints[-1].tokens + step):
            return
        previous, remaining = -1, list[SlotCheckpoint]()
        for number, point in enumerate(checkpoints):
            is_full = len(remaining) + len(checkpoints) - number + 1 >= limit
            if is_full and point.request != request and previous >= 0 and point.tokens - previous <= step:
                continue
            previous = point.tokens
            remaining.append(point)
        remaining = [point for point in remaining[max(0, len(remaining) - limit + 1) :] if point.tokens != start]
        self.checkpoints[slot] = [*remaining, SlotCheckpoint(start, first, last, request, memory.save(slot))]

    def _restore_positions(self, slot: int, positions: Positions) -> None:
        self._memory[slot].cut(slot, 0)
        if positions:
            self._memory[slot].place(slot, positions)
