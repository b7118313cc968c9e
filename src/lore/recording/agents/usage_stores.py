"""Stores beside an agent's logs which say what each request was billed; plug-ins read them (group `lore.usage`).

What such a store says becomes lines that are read before the log; the reader of the log knows their form.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class UsageStore(Protocol):
    """A kind of store."""

    mark: bytes  # in the first bytes of every log to which such a store may belong

    def file_of(self, path: str) -> str:
        """Return the store of a log by the log's path; empty if there is none."""
        ...

    def lines(self, path: str, first: bytes) -> Iterator[bytes]:
        """Yield the lines to read before a log that begins with the bytes `first`."""
        ...


USAGE_STORES: dict[str, UsageStore] = {}  # by the names under which plug-ins publish them


def lines_before(path: str, first: bytes) -> Iterator[bytes]:
    """Yield what stores beside a log say of its requests."""
    for store in _stores():
        if store.mark in first:
            yield from store.lines(path, first)


def stores_beside(path: str) -> list[str]:
    """Return the stores that say what the requests of a log were billed."""
    return [file for store in _stores() if (file := store.file_of(path))]


def _stores() -> list[UsageStore]:
    from lore.recording.base import load_plugins  # noqa: PLC0415 - which imports what asks this module

    load_plugins()
    return list(USAGE_STORES.values())
