"""The longest common beginning of two byte strings, whole or in pieces."""

from __future__ import annotations

from collections.abc import Iterable


def common_bytes(left: bytes, right: bytes) -> int:
    """Count the leading equal bytes: bisection over slice comparisons, close to memcmp's speed."""
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


def common_of(left: Iterable[bytes], right: Iterable[bytes]) -> tuple[int, int, int]:
    """Return the sizes of two texts that come in pieces, and the length of their common beginning, in bytes."""
    pieces, sizes, held = (iter(left), iter(right)), [0, 0], [b"", b""]
    common, differ = 0, False
    while True:
        for side in (0, 1):
            if not held[side]:
                held[side] = next(pieces[side], b"")
                sizes[side] += len(held[side])
        if differ or not all(held):
            break
        shorter = min(map(len, held))
        same = common_bytes(held[0][:shorter], held[1][:shorter])
        common, differ = common + same, same < shorter
        held = [one[shorter:] for one in held]
    for side in (0, 1):
        sizes[side] += sum(map(len, pieces[side]))
    return sizes[0], sizes[1], common
