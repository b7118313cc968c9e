"""The longest common beginning of two byte strings."""

from __future__ import annotations


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
