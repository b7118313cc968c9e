"""Convert a session to lore's own log, or recorded requests to lines of bodies: the output of `lore convert`.

**A session** becomes a log of version 1 that folds to the same state and assembles to the same prompts, with the files
of its subagents. The header names the original format and comes first. Content is written as it was spelled, unmasked;
a record of lore's own log that has unknown keys is copied as it is.

**Requests** (`--to bodies`) become one line each, as the format `bodies` reads it. The rows of a gateway's
`session_prompt_deltas` (JSON as `sqlite3 -json` prints it, a row a line, or the database) are put into the bodies of
their session, from the first request on that has a message after a row's place. Utility calls and
subagents get none. A capture that names no session has that of the rows, if they are of one session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from lore.errors import LoreError, Where
from lore.formats.base import HOLDS, Read
from lore.formats.beginning import BOM, SPACE, SQLITE
from lore.formats.bounds import is_crowded
from lore.formats.lines import Line, fault, nonblank_lines
from lore.formats.lore_log import LoreLog
from lore.model.canonical import encode as encode_json
from lore.model.codes import Code, Problem
from lore.model.events import Event, OpaqueEvent, SessionStarted, Usage, encode
from lore.model.jsonslice import array, is_json, object_of, raw_members
from lore.model.mask import cut_masked
from lore.model.turn import Exchange, Turn
from lore.recording import corpus
from lore.recording.base import Problems, Recording
from lore.recording.events import EventRecording
from lore.recording.gateway_deltas import GatewayDelta, messages_of, replay, row_of
from lore.recording.opening import Options
from lore.recording.request_session import session_of
from lore.recording.requests import RequestRecording

_STRICT = msgspec.json.Decoder(Event)
_HEADER = b'{"kind":"session_started"'
_DEEP = 500  # brackets in a line: with more, reading it back may meet a decoder's limit of nesting


class Conversion(NamedTuple):
    """What a conversion gives."""

    lines: Iterator[bytes]  # of the log, each with its line feed; to be iterated once
    inputs: tuple[str, ...]  # names of all files that are read


def convert(name: corpus.Name, options: Options, problems: Problems) -> Conversion:
    """Convert a session; raises LoreError for a single turn, and for an input without a session.

    The lines raise LoreError if the input cannot be read to its end.
    """
    if name.turn is not None:
        raise LoreError(f"{name} is one turn: a session is converted whole", hint="leave #TURN out")
    return converted(options.open(name.path, problems, subagents=True))


def converted(recording: Recording) -> Conversion:
    """Convert an opened recording, which is read to its end; raises LoreError if it holds no session."""
    hint = "compare its turns with `lore diff-prefix`, judge them with `lore check`: both read it as it is"
    log = session_of(recording, "events: there is no session to convert", hint=hint)
    return Conversion(_Converter(log).lines(), (recording.path, *recording.companions))


class _Verbatim(LoreLog):
    """lore's own reader, which remembers the lines whose events were not taken yet."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[int, bytes] = {}

    def read_line(self, line: Line) -> Sequence[Read]:
        self._lines[line.number] = line.data
        return super().read_line(line)

    def take_line(self, number: int) -> bytes | None:
        """Return a line once, and forget the lines before it."""
        while (first := next(iter(self._lines), number)) < number:
            del self._lines[first]
        return self._lines.pop(number, None)


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
        """Yield the events, the header first.

        In lore's own logs the header only overtakes opaque records: after other events the log would fold differently.
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
        """Return a header for a session of another format that has none."""
        if self._own is not None and held:
            return None
        if all(isinstance(read.value, OpaqueEvent) for read in held):
            shown = self._recording.shown
            raise LoreError(f"{shown} holds no session: there is nothing to convert", where=Where(shown))
        return Read(SessionStarted(session_id=""), held[0].line, held[0].byte)

    def _line(self, read: Read) -> bytes:
        event: Event = read.value  # pyright: ignore[reportAssignmentType]
        raw = self._own.take_line(read.line) if self._own is not None else None
        if raw is not None and not isinstance(event, OpaqueEvent) and not _is_plain(raw) and not fault(raw):
            return raw
        if not isinstance(event, SessionStarted):
            return encode(event)
        line = encode(msgspec.structs.replace(event, origin=event.origin or self._origin))
        return line if event.v != 1 else _HEADER + b',"v":1' + line[len(_HEADER) :]


def _is_plain(raw: bytes) -> bool:
    """Return whether the event of a line holds everything in it."""
    try:
        _STRICT.decode(raw)
    except (ValueError, RecursionError):
        return False
    return True


def _on_one_line(line: bytes) -> bytes:
    """Remove line feeds between values, which a reader may have kept; inside strings they are escapes."""
    return line.translate(None, b"\r\n")


def _reads_back(line: bytes, event: object) -> bool:
    return any(read.value == event for read in LoreLog().read_line(Line(1, 0, _on_one_line(line))))


# requests as lines of bodies

_TABLE = "session_prompt_deltas"
_HINT = "give the database of the gateway, or what `sqlite3 -json` prints of its session_prompt_deltas"


def read_rows(name: str, problems: Problems) -> list[GatewayDelta]:
    """Read the rows of a file, or of one session in it (`FILE#SESSION`); raises LoreError if it holds no row."""
    path, _, session = (name, "", "") if os.path.lexists(name) or "#" not in name else name.rpartition("#")
    shown = corpus.show(path)
    found: list[GatewayDelta] = []
    for number, raw in enumerate(_records(path), 1):
        row = row_of(raw)
        if row is None:
            seq = cut_masked((raw_members(raw) or {}).get("seq", b"?").decode("utf-8", "replace"), 20)
            problems.add(Problem(Code.UNREADABLE_DELTA, f"row {number} (seq {seq}) is corrupt; skipped"), shown)
        elif not session or row.session == session:
            found.append(row)
    if not found:
        of = f" of session {session!r}" if session else ""
        raise LoreError(f"{shown} holds no rows{of} that can be replayed", hint=_HINT, where=Where(shown))
    return sorted(found, key=lambda row: (row.session, row.seq))


def _records(path: str) -> Iterator[bytes]:
    data: list[bytes] = []
    for piece in corpus.pieces(path):
        if not data and piece.startswith(SQLITE):
            yield from _selected(path)
            return
        data.append(piece)
    text = b"".join(data).removeprefix(BOM).strip(SPACE)
    if is_crowded(text):
        raise LoreError(f"{corpus.show(path)} holds too many values to be rows", hint=_HINT)
    if is_json(text):
        yield from array(text) if text[:1] == b"[" else [text]
        return
    for line in nonblank_lines(text):
        yield line.strip(SPACE) if is_json(line.strip(SPACE)) else b"null"


def _selected(path: str) -> Iterator[bytes]:
    """Yield the rows of a database, which is opened read-only."""
    from lore.recording.agents import databases  # noqa: PLC0415 - rows are seldom given so

    try:
        with closing(databases.connect(path)) as connection:
            connection.text_factory = bytes
            cursor = connection.execute(f"SELECT * FROM {_TABLE} ORDER BY session_id, seq")  # noqa: S608 - a constant
            names = [str(column[0]) for column in cursor.description]
            for values in cursor:
                yield object_of(dict(zip(names, map(_value, values), strict=True)))
    except databases.ERRORS as error:
        shown = corpus.show(path)
        raise LoreError(f"{shown}: {databases.reason_of(error)}", hint=_HINT, where=Where(shown)) from None


def _value(value: object) -> bytes:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    return encode_json(
        value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if isinstance(value, str) else value
    )


@dataclass(slots=True)
class DeltaReplay:
    """Puts rows into requests; iterate `lines` once, then `rows` and `counts` are final."""

    rows: list[GatewayDelta] = field(default_factory=list[GatewayDelta])
    counts: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])  # requests that got a row
    _opening: dict[str, bytes] = field(default_factory=dict[str, bytes])  # the first message, by session
    _chains: dict[str, set[str]] = field(default_factory=dict[str, set[str]])  # of the conversation, by session

    def lines(self, recording: RequestRecording) -> Iterator[bytes]:
        """Yield a line for each request of a capture."""
        for exchange, turn in recording.exchanges():
            body = self._replayed(exchange, turn)
            yield _line(exchange, body).translate(None, b"\r\n") + b"\n"

    def unused(self) -> list[GatewayDelta]:
        """Return the rows that were put into no request."""
        return [row for row in self.rows if (row.session, row.seq) not in self.counts]

    def _replayed(self, exchange: Exchange, turn: Turn | None) -> bytes:
        listed = messages_of(exchange.body)
        if listed and turn is not None and not _is_beside(exchange, turn):
            self._refuse_ambiguous(exchange)
        session = self._session(exchange)
        if turn is None or session is None or not listed or not self._belongs(exchange, turn, session, listed[0]):
            return exchange.body
        size = len(listed)
        due = [
            row for row in self.rows
            if row.session == session and ((session, row.seq) in self.counts or row.place < size)
        ]  # fmt: skip
        body, rows = replay(exchange.body, due)
        now = {row.seq: row for row in rows}
        self.rows = [now.get(row.seq, row) if row.session == session else row for row in self.rows]
        for row in due:
            self.counts[session, row.seq] = self.counts.get((session, row.seq), 0) + 1
        return body

    def _belongs(self, exchange: Exchange, turn: Turn, session: str, first: bytes) -> bool:
        """Return whether a request is of the session's conversation: by its session id, chain or first message."""
        if _is_beside(exchange, turn):
            return False
        chains = self._chains.setdefault(session, set())
        is_own = exchange.call.session == session or self._opening.setdefault(session, first) == first
        if is_own:
            chains.add(turn.chain)
        return is_own or turn.chain in chains

    def _refuse_ambiguous(self, exchange: Exchange) -> None:
        """Raise LoreError for a request without a session if the rows are of several."""
        names = list(dict.fromkeys(row.session for row in self.rows))
        if len(names) > 1 and not exchange.call.session:
            shown = ", ".join(cut_masked(name, 40) for name in names[:3])
            raise LoreError(
                f"the rows are of {len(names)} sessions ({shown}), and the requests do not name theirs",
                hint="name one: --deltas ROWS#SESSION",
            )

    def _session(self, exchange: Exchange) -> str | None:
        """Return the session whose rows a request gets: its own, or the only one that has rows."""
        names = dict.fromkeys(row.session for row in self.rows)
        if exchange.call.session in names:
            return exchange.call.session
        return next(iter(names)) if len(names) == 1 else None


def _is_beside(exchange: Exchange, turn: Turn) -> bool:
    """Return whether a request is a utility call, or a subagent's."""
    return turn.chain.startswith("utility-") or bool(exchange.call.agent)


def converted_requests(name: corpus.Name, options: Options, problems: Problems, replay: DeltaReplay) -> Conversion:
    """Convert the requests of a capture to lines; raises LoreError for a single turn, and for other recordings."""
    if name.turn is not None:
        raise LoreError(f"{name} is one turn: a recording is converted whole", hint="leave #TURN out")
    recording = options.open(name.path, problems)
    if not isinstance(recording, RequestRecording):
        raise LoreError(
            f"{recording.shown} is read as {HOLDS[recording.reader.yields]}, not as recorded requests",
            hint="leave --to out: a session is converted to lore's own log",
        )
    return Conversion(replay.lines(recording), (recording.path,))


def _line(exchange: Exchange, body: bytes) -> bytes:
    """Return a request as `bodies` reads it: alone, or as a text with its other recorded facts."""
    call, known = exchange.call, dict[str, bytes]()
    if exchange.at is not None:
        known["timestamp"] = encode_json(exchange.at)
    if call.endpoint:
        known["url"] = encode_json(call.endpoint if call.endpoint.startswith("/") else f"https://{call.endpoint}")
    if call.session:
        known["headers"] = encode_json({"session-id": call.session})
    if call.status is not None:
        known["status"] = encode_json(call.status)
    if exchange.response_id:
        known["response"] = encode_json({"id": exchange.response_id})
    if exchange.usage is not None:
        known["usage"] = encode_json(_usage(exchange.usage))
    if not known:
        return body
    request = encode_json(body.decode("utf-8", "replace")) if exchange.fidelity == "wire" else bytes(body)
    return object_of({"request": request, **known})


def _usage(bill: Usage) -> dict[str, object]:
    """Return a usage by Anthropic's names, whose input leaves out cached tokens; unknown counts are left out."""
    counts = {
        "input_tokens": bill.uncached_tokens, "cache_read_input_tokens": bill.read_tokens,
        "cache_creation_input_tokens": bill.write_tokens, "output_tokens": bill.output_tokens,
    }  # fmt: skip
    lifetimes = {
        "ephemeral_5m_input_tokens": bill.write_5m_tokens, "ephemeral_1h_input_tokens": bill.write_1h_tokens,
    }  # fmt: skip
    split = {key: count for key, count in lifetimes.items() if count is not None}
    found: dict[str, object] = {key: count for key, count in counts.items() if count is not None}
    return {**found, "cache_creation": split} if split else found
