"""A call as it is written down while it passes: the records of its two sides.

In: what passed of a call, as it passes. Out: records of a journal. Rules: a request is written in pieces, the last of
them before its last bytes pass on; an answer chunk by chunk, each before it passes, so that whatever a client has
stands in the file. A record that the disk refuses ends what is written of its call: a capture has calls that were cut,
none with a hole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lore.record.journal import Journal
from lore.record.kept import cut, line_of, moment

PIECE = 256 * 1024  # bytes of a request's body in one record, about
COMPLETE, LEFT, STOPPED = "complete", "the client left", "lore record was stopped"
NOT_WRITTEN = "not written whole"


class Writer:
    """Append records; `tell` hears that the disk refuses them or takes them again, and that a file is begun anew."""

    def __init__(self, journal: Journal, tell: Callable[[str], None]) -> None:
        self._journal, self._tell, self._failing, self._number = journal, tell, False, journal.number

    def append(self, record: dict[str, Any], body: bytes = b"", number: int = 0) -> int:
        """Append a record as `Journal.append` does."""
        written = self._journal.append(line_of(record, body), number)
        shown = self._journal.shown
        if self._journal.number != self._number:
            self._number = self._journal.number
            self._tell(f"{shown} was moved, removed or emptied: a file of this name is begun anew")
        elif bool(written) == self._failing:
            self._failing = not written
            self._tell(
                f"{shown} is written again" if written
                else f"error: {shown} cannot be written: {self._journal.failed}; requests still pass"
            )  # fmt: skip
        return written


class CallSide:
    """One side of a call: its body is `size` bytes so far; `whole` while every record of it stands in the file."""

    def __init__(self, writer: Writer, call: str, part: str, before: CallSide | None = None) -> None:
        self._writer, self._named, self._before = writer, {"call": call, "part": part}, before
        self._members: dict[str, Any] = {}  # of the first record
        self._pieces = bytearray()
        self._number = 0  # of the file in which it stands
        self.size = 0
        self.over = False
        self._refused = False

    @property
    def whole(self) -> bool:
        """Tell whether nothing of it was refused, nor of what it answers."""
        return not self._refused and (self._before is None or self._before.whole)

    def begin(self, at: float, members: dict[str, Any]) -> None:
        """Note when it began, and what its first record says."""
        self._members = {"at": moment(at), **members}

    def add(self, chunk: bytes) -> None:
        """Take a chunk of a body that is written in pieces."""
        self.size += len(chunk)
        self._pieces += chunk
        if len(self._pieces) >= PIECE:
            end = cut(self._pieces)
            piece = bytes(self._pieces[:end])
            del self._pieces[:end]
            self._write({"more": True}, piece)

    def flush(self) -> None:
        """Write what there is, where nothing of it was written so far: an answer is about to begin."""
        if not self._number and not self.over:
            self._write({"more": True}, bytes(self._pieces))
            self._pieces.clear()

    def write(self, chunk: bytes, arrived: float, ended: str | None = None) -> None:
        """Write a chunk that came `arrived` seconds after its call began; an empty one for the head alone."""
        self.size += len(chunk)
        members: dict[str, Any] = {"more": True} if ended is None else {"ended": ended}
        if chunk:
            members["arrived"] = [(round(arrived * 1000, 1), len(chunk))]
        self._write(members, chunk)
        self.over = ended is not None and self.whole

    def end(self, at: float, ended: str | None = None) -> None:
        """Write what is left, once; of what was refused, that it is not whole."""
        if self.over:
            return
        self.over = True
        said = {"at": moment(at)} if ended is None else {"at": moment(at), "ended": ended}
        if self.whole:
            self._write(said, bytes(self._pieces))
        if not self.whole and self._number:
            self._writer.append({**self._named, **said, "ended": NOT_WRITTEN}, number=self._number)

    def _write(self, members: dict[str, Any], body: bytes) -> None:
        if not self.whole:
            return
        number = self._number or (0 if self._before is None else self._before._number)
        written = self._writer.append({**self._named, **members, **self._members}, body, number)
        if written:
            self._number, self._members = written, {}
        self._refused = not written


class RecordedCall:
    """A call under way, from `began` on; `ended` says how it came to its end, once it has. Times are of `clock`."""

    def __init__(self, name: str, writer: Writer, clock: Callable[[], float]) -> None:
        self.request = CallSide(writer, name, "request")
        self.response = CallSide(writer, name, "response", self.request)
        self.clock, self.began, self.ended = clock, clock(), LEFT
        self.server = ""  # its origin
        self.status: int | None = None

    def close(self) -> None:
        """Write its end; a request that was not whole says why, too."""
        self.request.end(self.clock(), self.ended)
        self.response.end(self.clock(), self.ended)

    @property
    def written(self) -> bool:
        """Tell whether every record of it stands in the file."""
        return self.response.whole
