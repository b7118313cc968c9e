"""A persistent vector: append, replace and compare without copying the history; how far two sequences are equal.

In: items. Out: versions that share their chunks. Rules:
- no version ever changes: an append may grow the shared tail list, but every version knows how much
  of it is its own, so older versions see what they always saw;
- append is O(1) amortised, `set` copies one chunk and the list of chunks (one pointer per 256 items);
- two versions of one history are compared chunk by chunk, by identity first.

Not safe for appends to one version from several threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain as chained
from itertools import islice
from typing import Generic, TypeVar, cast

T = TypeVar("T")
S = TypeVar("S", bound=Sequence[object])

WIDTH = 256


class Vector(Generic[T]):
    """An immutable sequence with cheap append and replace."""

    __slots__ = ("_chunks", "_size", "_tail")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._chunks: tuple[Sequence[T], ...] = ()
        self._tail: list[T] = []
        self._size = 0
        tail = list(items)
        if len(tail) > WIDTH:
            full = len(tail) // WIDTH * WIDTH
            self._chunks = tuple(tuple(tail[i : i + WIDTH]) for i in range(0, full, WIDTH))
            tail = tail[full:]
        self._tail = tail
        self._size = len(tail)

    @classmethod
    def _of(cls, chunks: tuple[Sequence[T], ...], tail: list[T], size: int) -> Vector[T]:
        made: Vector[T] = cls.__new__(cls)
        made._chunks, made._tail, made._size = chunks, tail, size
        return made

    def __len__(self) -> int:
        return len(self._chunks) * WIDTH + self._size

    def __iter__(self) -> Iterator[T]:
        return self.since(0)

    def since(self, start: int) -> Iterator[T]:
        """Iterate from index `start` to the end, without touching what stands before it."""
        if start < 0:
            raise IndexError(start)
        first, skip = divmod(start, WIDTH)
        tail = self._tail[max(0, start - len(self._chunks) * WIDTH) : self._size]
        if first >= len(self._chunks):
            return iter(tail)
        begun = self._chunks[first][skip:] if skip else self._chunks[first]
        return chained(begun, chained.from_iterable(islice(self._chunks, first + 1, None)), tail)

    def __getitem__(self, index: int) -> T:
        if index < 0:
            index += len(self)
        number, place = divmod(index, WIDTH)
        if 0 <= number < len(self._chunks):
            return self._chunks[number][place]
        if number == len(self._chunks) and place < self._size:
            return self._tail[place]
        raise IndexError(index)

    def last(self) -> T | None:
        """Return the last item; None where there is none."""
        if self._size:
            return self._tail[self._size - 1]
        return self._chunks[-1][-1] if self._chunks else None

    def append(self, item: T) -> Vector[T]:
        """Return this vector with one more item."""
        tail, size = self._tail, self._size
        if len(tail) != size:  # another version grew this tail already: take a copy of our part
            tail = tail[:size]
        if size == WIDTH:
            return self._of((*self._chunks, tuple(tail)), [item], 1)
        tail.append(item)
        return self._of(self._chunks, tail, size + 1)

    def extend(self, items: Iterable[T]) -> Vector[T]:
        """Return this vector with all of `items` after its own."""
        more = list(items)
        if not more:
            return self
        tail, size = self._tail, self._size
        if len(tail) != size:  # another version grew this tail already: take a copy of our part
            tail = tail[:size]
        if size + len(more) <= WIDTH:
            tail.extend(more)
            return self._of(self._chunks, tail, size + len(more))
        tail = [*tail, *more]
        full = (len(tail) - 1) // WIDTH * WIDTH
        chunks = (tuple(tail[i : i + WIDTH]) for i in range(0, full, WIDTH))
        return self._of((*self._chunks, *chunks), tail[full:], len(tail) - full)

    def set(self, index: int, item: T) -> Vector[T]:
        """Return this vector with `item` at `index` (0 <= index < len)."""
        number, place = divmod(index, WIDTH)
        if number == len(self._chunks) and 0 <= place < self._size:
            tail = self._tail[: self._size]
            tail[place] = item
            return self._of(self._chunks, tail, self._size)
        if not 0 <= number < len(self._chunks):
            raise IndexError(index)
        chunk = list(self._chunks[number])
        chunk[place] = item
        chunks = (*self._chunks[:number], tuple(chunk), *self._chunks[number + 1 :])
        return self._of(chunks, self._tail, self._size)

    def cut(self, size: int) -> Vector[T]:
        """Return the first `size` items; shares every whole chunk."""
        if size >= len(self):
            return self
        number, place = divmod(size, WIDTH)
        if number == len(self._chunks):
            return self._of(self._chunks, self._tail, place)
        return self._of(self._chunks[:number], list(self._chunks[number][:place]), place)

    def begins_with(self, other: Vector[T]) -> bool:
        """Tell whether all items of the other are the first of these."""
        return self.common(other) == len(other)

    def common(self, other: Vector[T]) -> int:
        """Count the leading items that are equal. What two versions share is compared by identity."""
        number = self._common_chunks(other)
        count = number * WIDTH
        if number == len(self._chunks) == len(other._chunks):
            size = min(self._size, other._size)
            if self._tail is other._tail:
                return count + size
            return count + common_prefix(self._tail[:size], other._tail[:size])
        return count + common_prefix(self._part(number), other._part(number))

    def _common_chunks(self, other: Vector[T]) -> int:
        if self._chunks is other._chunks:  # nearly always: chunks change once in 256 appends
            return len(self._chunks)
        size = min(len(self._chunks), len(other._chunks))
        if self._chunks[:size] == other._chunks[:size]:
            return size
        number = 0
        while self._chunks[number] is other._chunks[number] or self._chunks[number] == other._chunks[number]:
            number += 1
        return number

    def _part(self, number: int) -> list[T]:
        return list(self._chunks[number]) if number < len(self._chunks) else self._tail[: self._size]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vector):
            return NotImplemented
        right = cast("Vector[T]", other)
        return len(self) == len(right) and self.begins_with(right)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"Vector({list(self)!r})"


def common_prefix(left: S, right: S) -> int:
    """Count the leading items (bytes, characters) that are equal: bisection over slices, which are compared in C."""
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(left: S, right: S, room: int) -> int:
    """Count the items at the end that are equal, at most `room`."""
    return common_prefix(left[len(left) - room :][::-1], right[len(right) - room :][::-1])
