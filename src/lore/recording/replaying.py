"""Requests written anew as lines of bodies, with the deltas of a gateway's table replayed: `lore convert --to bodies`.

In: a capture of the requests that a gateway received, and rows of its `session_prompt_deltas`: JSON (an array, as
`sqlite3 -json` prints it, or a row a line), or the database itself, which is opened to be read. Out: a line a request,
as the format `bodies` reads it, each body as it was but for what was put in; and the rows as they stand in the end.

Rules: a row belongs to the conversation of its session (a capture that names none has one: the rows', where they are of
one session), not to calls beside it and subagents; it is there from the first request on that has a message behind its
place. A row that is corrupt is a problem, and never the end.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

from lore.errors import LoreError, Where
from lore.files import database_uri
from lore.formats.base import HOLDS
from lore.formats.lines import BOM, SPACE, each, is_crowded
from lore.model.canonical import encode
from lore.model.codes import Code, Problem
from lore.model.events import Billed
from lore.model.jsonslice import array, is_json, table
from lore.model.mask import cut_masked
from lore.model.turn import Exchange, Turn
from lore.prompt.replay import GatewayDelta, messages_of, replay, row_of
from lore.recording import corpus
from lore.recording.base import Problems
from lore.recording.converting import Conversion
from lore.recording.opening import Options
from lore.recording.requests import RequestRecording

LARGEST = 64 * 1024 * 1024  # bytes of rows: a session has some hundred of a few hundred bytes
_DATABASE = b"SQLite format 3\0"
_TABLE = "session_prompt_deltas"
_HINT = "give the database of the gateway, or what `sqlite3 -json` prints of its session_prompt_deltas"


def read_rows(name: str, problems: Problems) -> list[GatewayDelta]:
    """Read the rows of a file, `FILE#SESSION` those of one session; raises LoreError where it holds none."""
    path, _, session = (name, "", "") if os.path.lexists(name) or "#" not in name else name.rpartition("#")
    shown = corpus.show(path)
    found: list[GatewayDelta] = []
    for number, raw in enumerate(_records(path), 1):
        row = row_of(raw)
        if row is None:
            seq = cut_masked((table(raw) or {}).get("seq", b"?").decode("utf-8", "replace"), 20)
            problems.add(Problem(Code.UNREADABLE_DELTA, f"row {number} (seq {seq}) is corrupt; skipped"), shown)
        elif not session or row.session == session:
            found.append(row)
    if not found:
        of = f" of session {session!r}" if session else ""
        raise LoreError(f"{shown} holds no rows{of} that can be replayed", hint=_HINT, where=Where(shown))
    return sorted(found, key=lambda row: (row.session, row.seq))


def _records(path: str) -> Iterator[bytes]:
    data, size = list[bytes](), 0
    for piece in corpus.pieces(path):
        if not data and piece.startswith(_DATABASE):
            yield from _selected(path)
            return
        data.append(piece)
        size += len(piece)
        if size > LARGEST:
            raise LoreError(f"{corpus.show(path)} holds more than {LARGEST:,} bytes of rows", hint=_HINT)
    text = b"".join(data).removeprefix(BOM).strip(SPACE)
    if is_crowded(text):
        raise LoreError(f"{corpus.show(path)} holds too many values to be rows", hint=_HINT)
    if is_json(text):
        yield from array(text) if text[:1] == b"[" else [text]
        return
    for line in each(text):
        yield line.strip(SPACE) if is_json(line.strip(SPACE)) else b"null"


def _selected(path: str) -> Iterator[bytes]:
    """Read the table of a database, which nothing is written to."""
    try:
        with closing(sqlite3.connect(database_uri(os.path.realpath(path), "mode=ro"), uri=True)) as connection:
            connection.text_factory = bytes
            cursor = connection.execute(f"SELECT * FROM {_TABLE} ORDER BY session_id, seq")  # noqa: S608 - a constant
            names = [str(column[0]) for column in cursor.description]
            for values in cursor:
                pairs = zip(names, values, strict=True)
                yield b"{" + b",".join([encode(key) + b":" + _value(value) for key, value in pairs]) + b"}"
    except sqlite3.Error as error:
        raise LoreError(f"{corpus.show(path)}: {error}", hint=_HINT, where=Where(corpus.show(path))) from None


def _value(value: object) -> bytes:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    return encode(
        value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if isinstance(value, str) else value
    )


@dataclass(slots=True)
class Replay:
    """The rows of sessions, and what became of them; iterate `lines` once, then `rows` and `counts` are final."""

    rows: list[GatewayDelta] = field(default_factory=list[GatewayDelta])
    counts: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    _opening: dict[str, bytes] = field(default_factory=dict[str, bytes])
    _chains: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    def lines(self, recording: RequestRecording) -> Iterator[bytes]:
        """Yield a line for each request of a capture."""
        for exchange, turn in recording.exchanges():
            body = self._replayed(exchange, turn)
            yield _line(exchange, body).translate(None, b"\r\n") + b"\n"

    def unused(self) -> list[GatewayDelta]:
        """Return the rows that no request had a place for."""
        return [row for row in self.rows if (row.session, row.seq) not in self.counts]

    def _replayed(self, exchange: Exchange, turn: Turn | None) -> bytes:
        session = self._session(exchange)
        listed = messages_of(exchange.body)
        if turn is None or session is None or not listed or not self._belongs(exchange, turn, session, listed[0]):
            return exchange.body
        size = len(listed)
        due = [
            row for row in self.rows
            if row.session == session and ((session, row.seq) in self.counts or row.place < size)
        ]  # fmt: skip
        replayed = replay(exchange.body, due)
        now = {row.seq: row for row in replayed.rows}
        self.rows = [now.get(row.seq, row) if row.session == session else row for row in self.rows]
        for row in due:
            self.counts[session, row.seq] = self.counts.get((session, row.seq), 0) + 1
        return replayed.body

    def _belongs(self, exchange: Exchange, turn: Turn, session: str, first: bytes) -> bool:
        """Tell whether a request is of the session's conversation, by its own word, its chain, or how it begins."""
        if turn.chain.startswith("utility-") or exchange.call.agent:
            return False
        chains = self._chains.setdefault(session, set())
        is_own = exchange.call.session == session or self._opening.setdefault(session, first) == first
        if is_own:
            chains.add(turn.chain)
        return is_own or turn.chain in chains

    def _session(self, exchange: Exchange) -> str | None:
        """Return the session whose rows a request gets: its own, or that of all rows."""
        names = dict.fromkeys(row.session for row in self.rows)
        if exchange.call.session in names:
            return exchange.call.session
        return next(iter(names)) if len(names) == 1 else None


def converted_requests(name: corpus.Name, options: Options, problems: Problems, replay: Replay) -> Conversion:
    """Write the requests of a capture as lines of bodies; raises LoreError for one turn, and for what holds none."""
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
    """Write a request as `bodies` reads it: alone, or as a text beside what is known of it."""
    call, known = exchange.call, dict[str, bytes]()
    if exchange.at is not None:
        known["timestamp"] = encode(exchange.at)
    if call.endpoint:
        known["url"] = encode(call.endpoint if call.endpoint.startswith("/") else f"https://{call.endpoint}")
    if call.session:
        known["headers"] = encode({"session-id": call.session})
    if call.status is not None:
        known["status"] = encode(call.status)
    if exchange.response_id:
        known["response"] = encode({"id": exchange.response_id})
    if exchange.usage is not None:
        known["usage"] = encode(_usage(exchange.usage))
    if not known:
        return body
    request = encode(body.decode("utf-8", "replace")) if exchange.fidelity == "wire" else bytes(body)
    return (
        b'{"request":' + request + b"".join([b"," + encode(key) + b":" + value for key, value in known.items()]) + b"}"
    )


def _usage(bill: Billed) -> dict[str, object]:
    """Write a bill in Anthropic's names, which leave out of the input what was cached; unknown counts are left out."""
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
