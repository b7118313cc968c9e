"""Limits of a record's size, and the messages about larger records and deeper ones.

The test is cheap for records that are surely small, and costs O(bytes) for others.
"""

from __future__ import annotations

import re

from lore.model.deferred import pattern
from lore.model.limits import RECORD_BYTES, RECORD_LEVELS, RECORD_VALUES

FEW_BYTES = 1024 * 1024  # of a record that cannot hold too many values
_TOKENS = pattern(rb'"(?:[^"\\]++|\\.)*+"?|,++', re.DOTALL)


def is_crowded(data: bytes, most: int = RECORD_VALUES) -> bool:
    """Return whether a record holds more values than lore reads: 16 MiB of `{},{},` would take gigabytes."""
    if len(data) < FEW_BYTES or data.count(b",") <= most:
        return False
    found = 0
    for match in _TOKENS.finditer(data):
        if data[match.start()] == 0x2C:
            found += match.end() - match.start()
            if found > most:
                return True
    return False


def too_deep() -> str:
    """Return the reason why a record is refused that is nested too deeply."""
    return f"nested more than {RECORD_LEVELS:,} levels deep"


def too_many(most: int = RECORD_VALUES) -> str:
    """Return the reason why a record is refused that holds too many values."""
    return f"it holds more than {most:,} values"


def too_long() -> str:
    """Return the reason why a line was not held."""
    return too_much(RECORD_BYTES)


def too_much(limit: int) -> str:
    """Return the reason why something longer than `limit` bytes is refused."""
    return f"longer than {limit // 1024 // 1024} MiB"
