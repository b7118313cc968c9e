"""Convert a session to lore's own log: the output of `lore convert`.

The log folds to the same state and assembles to the same prompts; the files of subagents become chains of it. The
header names the original format and comes first. Content is written as it was spelled, unmasked; the records of lore's
own logs are copied, except the `saved` records of a store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from lore.errors import LoreError, Where
from lore.formats.base import Read
from lore.formats.lines import Line, fault
from lore.formats.lore_log import LoreLog
from lore.model.codes import Code, Problem
from lore.model.events import Event, OpaqueEvent, Saved, SessionStarted, encode
from lore.recording.base import Recording
from lore.recording.events import EventRecording
from lore.recording.request_session import session_of

_HEADER = b'{"kind":"session_started"'
_DEEP = 500  # brackets in a line: with more, reading it back may meet a decoder's limit of nesting


def convert_recording(recording: Recording) -> Iterator[bytes]:
    """Return the lines of the log, each with its line feed; raises LoreError if the recording holds no session.

    The lines raise LoreError if it cannot be read to its end.
    """
    hint = "compare its turns with `lore diff-prefix`, judge them with `lore check`: both read it as it is"
    return _lines(session_of(recording, "events: it holds no session", hint=hint))


class _Verbatim(LoreLog):
    """lore's own reader, which keeps each line that is one record until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[int, bytes] = {}

    def read_line(self, line: Line) -> Sequence[Read]:
        if not fault(line.data):
            self.lines[line.number] = line.data
        return super().read_line(line)


def _lines(recording: EventRecording) -> Iterator[bytes]:
    verbatim = _Verbatim() if type(recording.reader) is LoreLog else None
    origin = recording.reader.name if verbatim is None else None
    recording.reader = verbatim or recording.reader
    for read in _header_first(recording, is_own=verbatim is not None):
        event: Event = read.value  # pyright: ignore[reportAssignmentType]
        line = verbatim.lines.pop(read.line, None) if verbatim is not None else None
        if isinstance(event, Saved):
            continue
        if line is None:
            line = _encode(event, origin)
            if line.count(b"[") + line.count(b"{") > _DEEP and not any(
                read.value == event for read in LoreLog().read_line(Line(1, 0, line))
            ):
                message = "a record nested so deeply that lore cannot read it inside its own log"
                problem = Problem(Code.MALFORMED_RECORD, message)
                recording.problems.add(problem, recording.reading, read.line, read.byte)
        yield line + b"\n"


def _encode(event: Event, origin: str | None) -> bytes:
    """Return an event as a line of lore's log; `origin` is the format that a header names, None for lore's own."""
    if isinstance(event, OpaqueEvent) and origin is None:
        return bytes(event.record)
    if not isinstance(event, SessionStarted):
        line = encode(event)
    else:
        line = encode(msgspec.structs.replace(event, origin=event.origin or origin))
        line = line if event.v != 1 else _HEADER + b',"v":1' + line[len(_HEADER) :]
    return line.translate(None, b"\r\n")  # a reader may have kept them between values; in strings they are escapes


def _header_first(recording: EventRecording, *, is_own: bool) -> Iterator[Read]:
    """Yield the events, the header first.

    In lore's own logs the header only overtakes opaque records: after other events the log would fold differently. A
    session of another format that has no header gets an empty one.
    """
    reads = recording.reads()
    early_reads: list[Read] = []
    header: Read | None = None
    for read in reads:
        if isinstance(read.value, SessionStarted):
            header = read
            break
        early_reads.append(read)
        if is_own and not isinstance(read.value, OpaqueEvent):
            break
    if header is None and all(isinstance(read.value, OpaqueEvent) for read in early_reads):
        label = recording.shown
        raise LoreError(f"{label} holds no session", where=Where(label))
    if header is None and not is_own:
        header = Read(SessionStarted(session_id=""), early_reads[0].line, early_reads[0].byte)
    if header is not None:
        yield header
    yield from early_reads
    yield from reads
