"""Stores next to an agent's logs that hold the usage of requests; plug-ins read them (entry points `lore.usage`).

A store's content becomes lines that are read before the log, in a form that the reader of the log knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class UsageStore(Protocol):
    """A kind of store."""

    mark: bytes  # occurs in the first bytes of every log that may have such a store

    def file_of(self, path: str) -> str:
        """Return the store of a log by the log's path; empty if it has no store."""
        ...

    def lines(self, path: str, first: bytes) -> Iterator[bytes]:
        """Yield the lines to read before a log that begins with the bytes `first`."""
        ...


USAGE_STORES: dict[str, UsageStore] = {}  # by entry point


def lines_before(path: str, first: bytes) -> Iterator[bytes]:
    """Yield the lines to read before a log that begins with the bytes `first`."""
    for store in _stores():
        if store.mark in first:
            yield from store.lines(path, first)


def stores_beside(path: str) -> list[str]:
    """Return the files of stores that belong to a log."""
    return [file for store in _stores() if (file := store.file_of(path))]


def _stores() -> list[UsageStore]:
    from lore.recording.base import load_plugins  # noqa: PLC0415 - it imports this module

    load_plugins()
    return list(USAGE_STORES.values())
