"""Convert a session to lore's own log: what `lore convert` answers.

In: a session log of any format, with the files of its subagents, or recorded requests. Out: lines of a log, version
1, whose folding gives what folding the original gives, and whose turns are assembled to the same bytes. Rules: the
header names the format that the session was recorded in, and comes first; content is written as it was spelled,
nothing is masked; of lore's own logs a record with keys of its own is copied as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from lore.errors import LoreError, Where
from lore.formats.base import Read
from lore.formats.lines import Lines, fault
from lore.formats.lore_log import LoreLog
from lore.model.codes import Code, Problem
from lore.model.events import Event, OpaqueEvent, SessionStarted, encode
from lore.recording.base import Problems, Recording
from lore.recording.corpus import Name
from lore.recording.events import EventRecording
from lore.recording.opening import Options
from lore.recording.request_session import RequestSession, session_of

_STRICT = msgspec.json.Decoder(Event)
_HEADER = b'{"kind":"session_started"'
_DEEP = 500  # brackets in a line: with more, reading it back may meet a decoder's limit of nesting


class Conversion(NamedTuple):
    """The lines of the log, each with its end, to be iterated once; and the names of all inputs.

    `unkept` counts, once all lines came, the requests whose bytes the log does not give back, by what of them it lacks.
    """

    lines: Iterator[bytes]
    inputs: tuple[str, ...]
    unkept: Mapping[tuple[str, ...], int] = {}


def convert(name: Name, options: Options, problems: Problems) -> Conversion:
    """Convert a session; raises LoreError for one turn of it, and for what holds no session.

    The lines raise LoreError too, where the input cannot be read to its end. Costs O(bytes).
    """
    if name.turn is not None:
        raise LoreError(f"{name} is one turn: a session is converted whole", hint="leave #TURN out")
    return converted(options.open(name.path, problems, subagents=True))


def converted(recording: Recording) -> Conversion:
    """Convert what a recording holds; raises LoreError where that is no session. The recording is used up."""
    hint = "compare its turns with `lore diff-prefix`, judge them with `lore check`: both read it as it is"
    log = session_of(recording, "events: there is no session to convert", hint=hint)
    unkept: Mapping[tuple[str, ...], int] = log.unkept if isinstance(log, RequestSession) else {}
    return Conversion(_Converter(log).lines(), (recording.path, *recording.companions), unkept)


class _Verbatim(LoreLog):
    """lore's own reader, which remembers the lines of the latest piece by their number."""

    def __init__(self) -> None:
        super().__init__()
        self._cut = Lines()
        self.lines: dict[int, bytes] = {}

    def feed(self, data: bytes) -> list[Read]:
        self.lines = {line.number: line.data for line in self._cut.feed(data)}
        return super().feed(data)

    def finish(self) -> list[Read]:
        self.lines = {line.number: line.data for line in self._cut.finish()}
        return super().finish()


class _Converter:
    def __init__(self, recording: EventRecording) -> None:
        self._recording = recording
        self._origin: str | None = recording.reader.name
        self._own: _Verbatim | None = None
        if type(recording.reader) is LoreLog:
            recording.reader = self._own = _Verbatim()
            self._origin = None

    def lines(self) -> Iterator[bytes]:
        for read in self._headed():
            line = self._line(read)
            if line.count(b"[") + line.count(b"{") > _DEEP and not _reads_back(line, read.value):
                message = "a record nested so deeply that lore cannot read it inside its own log"
                self._recording.problems.add(
                    Problem(Code.MALFORMED_RECORD, message), self._recording.reading, read.line, read.byte
                )
            yield _on_one_line(line) + b"\n"

    def _headed(self) -> Iterator[Read]:
        """Put the header first: what came before it follows.

        In lore's own logs only what is opaque gives way, for other events would fold to something else;
        such a log keeps its order, and the problem that it has.
        """
        reads = self._recording.reads()
        held: list[Read] = []
        header: Read | None = None
        for read in reads:
            if isinstance(read.value, SessionStarted):
                header = read
                break
            held.append(read)
            if self._own is not None and not isinstance(read.value, OpaqueEvent):
                break
        header = header or self._missing_header(held)
        if header is not None:
            yield header
        yield from held
        yield from reads

    def _missing_header(self, held: list[Read]) -> Read | None:
        """Return a header for a session of another format that has none; lore's own logs stay without."""
        if self._own is not None and held:
            return None
        if all(isinstance(read.value, OpaqueEvent) for read in held):
            shown = self._recording.shown
            raise LoreError(f"{shown} holds no session: there is nothing to convert", where=Where(shown))
        return Read(SessionStarted(session_id=""), held[0].line, held[0].byte)

    def _line(self, read: Read) -> bytes:
        event: Event = read.value  # pyright: ignore[reportAssignmentType]
        raw = self._own.lines.pop(read.line, None) if self._own is not None else None
        if raw is not None and not isinstance(event, OpaqueEvent) and not _is_plain(raw) and not fault(raw):
            return raw
        if not isinstance(event, SessionStarted):
            return encode(event)
        line = encode(msgspec.structs.replace(event, origin=event.origin or self._origin))
        return line if event.v != 1 else _HEADER + b',"v":1' + line[len(_HEADER) :]


def _is_plain(raw: bytes) -> bool:
    """Tell whether a line holds nothing but what its event holds."""
    try:
        _STRICT.decode(raw)
    except (ValueError, RecursionError):
        return False
    return True


def _on_one_line(line: bytes) -> bytes:
    """Take out line ends between values, which a reader may have kept; inside strings they are escapes."""
    return line.translate(None, b"\r\n")


def _reads_back(line: bytes, event: object) -> bool:
    return any(read.value == event for read in LoreLog().feed(_on_one_line(line) + b"\n"))
