"""Recognise the format of a recording by its beginning."""

from lore.formats.base import Reader
from lore.formats.registry import reader_of


def recognise(head: bytes) -> type[Reader] | None:
    """Return the reader class for a file that begins like this; None if no reader recognises it."""
    reader = reader_of(head)
    return None if reader is None else type(reader)
