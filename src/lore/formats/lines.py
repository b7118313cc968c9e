"""Lines of a JSON Lines file, cut at LF, from bytes that arrive in any pieces.

Rules: only LF ends a line (never U+2028, U+0085 or CR); a BOM at the very start and a CR at a line's
end are white space; offsets are those of the file. Cost is O(bytes): what is pending is joined once.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from lore.model.canonical import decode

BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"


class Line(NamedTuple):
    """One line without its end: its number from 1, the offset of its first byte, its bytes."""

    number: int
    byte: int
    data: bytes


class Lines:
    """Cut bytes into lines."""

    def __init__(self, *, number: int = 0, byte: int = 0, pending: bytes = b"") -> None:
        self.number = number
        self.byte = byte
        self._pending: list[bytes] = [pending] if pending else []

    @property
    def pending(self) -> bytes:
        """The beginning of a line whose end has not come."""
        if len(self._pending) > 1:
            self._pending = [b"".join(self._pending)]
        return self._pending[0] if self._pending else b""

    def feed(self, data: bytes) -> list[Line]:
        """Return the lines that these bytes complete; blank ones are counted and left out."""
        if b"\n" not in data:
            if data:
                self._pending.append(data)
            return []
        pieces = data.split(b"\n")
        if self._pending:
            pieces[0] = b"".join([*self._pending, pieces[0]])
        rest = pieces.pop()
        self._pending = [rest] if rest else []
        return [line for piece in pieces if (line := self._line(piece, 1)) is not None]

    def finish(self) -> list[Line]:
        """Return the last line where it has no end."""
        rest = self.pending
        self._pending = []
        line = self._line(rest, 0) if rest else None
        return [] if line is None else [line]

    def _line(self, piece: bytes, end: int) -> Line | None:
        start = self.byte
        self.number += 1
        self.byte += len(piece) + end
        if start == 0 and piece.startswith(BOM):
            piece, start = piece[3:], 3
        return Line(self.number, start, piece) if piece.strip(_SPACE) else None


def split_joined(line: bytes) -> list[bytes] | None:
    """Cut a line that holds several JSON values side by side; None where it is anything else."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return None
    decoder, found, at = json.JSONDecoder(), list[bytes](), 0
    text = text.strip(" \t\r\n")
    while at < len(text):
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        found.append(text[at:end].encode("utf-8"))
        at = end
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
    return found if len(found) > 1 else None


def fault(line: bytes) -> str:
    """Say in a few words why a line is no JSON object; empty where it is one."""
    try:
        line.decode("utf-8")
        value = decode(line)
    except UnicodeDecodeError:
        return "bytes that are not UTF-8"
    except RecursionError:
        return "nested too deeply"
    except ValueError as error:
        return str(error).partition(": line")[0]
    return "" if isinstance(value, dict) else "not a JSON object"
