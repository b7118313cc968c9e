"""JSON text that was sliced already, with what stands in it, so that who reads it next need not slice it again."""

from __future__ import annotations

LARGEST = 4 * 1024 * 1024  # bytes: of a huge text nothing is kept twice


class Sliced(bytes):
    """The text of a JSON object with its members."""

    members: dict[str, bytes]

    @classmethod
    def of(cls, raw: bytes, members: dict[str, bytes]) -> bytes:
        """Keep the members that were sliced from this text; of a huge one nothing is kept twice."""
        if len(raw) > LARGEST or isinstance(raw, cls):
            return raw
        made = cls(raw)
        made.members = members
        return made


class SlicedArray(bytes):
    """The text of a JSON array with its elements."""

    elements: list[bytes]


class SlicedText(bytes):
    """A JSON string with the text that it holds."""

    text: bytes
