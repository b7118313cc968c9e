"""Replay the durable deltas of a gateway's table in the requests that it received (`lore convert --to bodies`).

Requests become one line each, as the format `bodies` reads it. A row of `session_prompt_deltas` has session_id, seq,
project_id, selector and content. Its messages are put into the requests of its conversation byte for byte, from the
first request on that has a message after the row's place; utility calls and subagents get none. A capture that names
no session has that of the rows, if they are of one session.

The place counts the messages of the request as it came; a place after the end is the end. A row is never last, never
after a call, and never between calls and their results; rows of one place are in the order of their seq. A row that had
to move keeps its new place, with everything else in its selector.
Source: the Lore gateway's table and replay, 2026-06 to 2026-08.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import Raw

from lore.errors import LoreError, Where
from lore.formats.base import HOLDS
from lore.formats.beginning import BOM, SPACE, SQLITE
from lore.formats.bounds import is_crowded
from lore.formats.lines import nonblank_lines
from lore.model.canonical import encode, text_of
from lore.model.codes import Code, Problem
from lore.model.events import Usage
from lore.model.inserts import insert_texts, place_in, with_place
from lore.model.jsonslice import (
    array,
    element_ranges,
    is_json,
    member_ranges,
    object_of,
    raw_members,
    sliced_members,
)
from lore.model.mask import cut_masked
from lore.model.turn import Exchange, Turn
from lore.recording import corpus
from lore.recording.base import Problems
from lore.recording.opening import Options
from lore.recording.requests import RequestRecording
from lore.run.stored.converting import Conversion

_TABLE = "session_prompt_deltas"
_HINT = "give the database of the gateway, or what `sqlite3 -json` prints of its session_prompt_deltas"


# rows


class GatewayDelta(NamedTuple):
    """A row of the table."""

    session: str
    seq: int
    selector: Raw  # JSON with the place
    messages: tuple[bytes, ...]  # JSON
    rest: dict[str, bytes]  # all members as they were given

    @property
    def place(self) -> int:
        """The message before which it is put."""
        return place_in(self.selector) or 0

    def moved(self, place: int) -> GatewayDelta:
        """Return the row with another place in its selector."""
        return self._replace(selector=with_place(self.selector, place))

    def line(self) -> bytes:
        """Return the row as one line of JSON, selector and content as texts, as in the table."""
        members = {**self.rest, "selector": encode(bytes(self.selector).decode("utf-8", "replace"))}
        return b"{" + b",".join([encode(key) + b":" + value for key, value in members.items()]) + b"}\n"


def read_rows(name: str, problems: Problems) -> list[GatewayDelta]:
    """Read the rows of a file, or of one session in it (`FILE#SESSION`); raises LoreError if it holds no row.

    A file holds JSON as `sqlite3 -json` prints it, or a row a line, or is the database.
    """
    path, _, session = (name, "", "") if os.path.lexists(name) or "#" not in name else name.rpartition("#")
    shown = corpus.show(path)
    found: list[GatewayDelta] = []
    for number, raw in enumerate(_records(path), 1):
        row = _row_of(raw)
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
    pieces = corpus.pieces(path)
    first = next(pieces, b"")
    if first.startswith(SQLITE):
        yield from _selected(path)
        return
    text = b"".join((first, *pieces)).removeprefix(BOM).strip(SPACE)
    if is_crowded(text):
        raise LoreError(f"{corpus.show(path)} holds too many values to be rows", hint=_HINT)
    if is_json(text):
        yield from array(text) if text[:1] == b"[" else [text]
        return
    for line in nonblank_lines(text):
        yield line.strip(SPACE) if is_json(line.strip(SPACE)) else b"null"


def _selected(path: str) -> Iterator[bytes]:
    """Yield the rows of a copy of a database."""
    from lore.recording.agents import databases  # noqa: PLC0415 - rows are seldom given so

    try:
        with closing(databases.connect(path)) as connection:
            connection.text_factory = _text
            cursor = connection.execute(f"SELECT * FROM {_TABLE} ORDER BY session_id, seq")  # noqa: S608 - a constant
            names = [str(column[0]) for column in cursor.description]
            for values in cursor:
                yield object_of(
                    {
                        name: encode(_text(value) if isinstance(value, bytes) else value)
                        for name, value in zip(names, values, strict=True)
                    }
                )
    except databases.ERRORS as error:
        shown = corpus.show(path)
        raise LoreError(f"{shown}: {databases.reason_of(error)}", hint=_HINT, where=Where(shown)) from None


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _row_of(raw: bytes) -> GatewayDelta | None:
    """Parse a row, its JSON columns as texts or as JSON; None if it is corrupt."""
    own = raw_members(raw) or {}
    seq, session = own.get("seq", b""), own.get("session_id", b"")
    selector, content = (_column(own.get(key, b"")) for key in ("selector", "content"))
    if not seq.isdigit() or len(seq) > 15 or session[:1] != b'"' or place_in(Raw(selector)) is None:
        return None
    texts = insert_texts(Raw(content)) if content else None
    if texts is None or not all(text.message for text in texts):
        return None
    messages = array(content) if content[:1] == b"[" else [content]
    rest = {**own, "content": encode(content.decode("utf-8", "replace"))}
    return GatewayDelta(text_of(session), int(seq), Raw(selector), tuple(messages), rest)


def _column(raw: bytes) -> bytes:
    """Return the JSON in a column; empty if it holds none."""
    value = text_of(raw).encode("utf-8", "surrogatepass") if raw[:1] == b'"' else raw
    return value.strip() if value and is_json(value) else b""


# one request


def replay(body: bytes, rows: Iterable[GatewayDelta]) -> tuple[bytes, tuple[GatewayDelta, ...]]:
    """Return a request body with these rows, and the rows with their places from now on.

    A body without messages is returned as it is.
    """
    listed = tuple(rows)
    at = next(((m.value, m.end) for m in reversed(member_ranges(body)) if m.key == "messages"), (0, 0))
    raw = body[at[0] : at[1]]
    ranges = element_ranges(raw) if raw[:1] == b"[" else []
    if not ranges or not listed:
        return body, listed
    given = [raw[begin:end] for begin, end in ranges]
    placed: list[tuple[int, GatewayDelta]] = []
    for row in listed:
        wanted = min(row.place, len(given))
        place = _safe_place(given, wanted)
        placed.append((place, row if place == wanted else row.moved(place)))
    pieces, end = [body[: at[0]]], 0
    for place, row in sorted(placed, key=lambda found: (found[0], found[1].seq)):
        begin = ranges[place][0]
        pieces += [raw[end:begin], *(message + b"," for message in row.messages)]
        end = begin
    return b"".join([*pieces, raw[end:], body[at[1] :]]), tuple([row for _, row in placed])


def _safe_place(messages: Sequence[bytes], desired: int) -> int:
    """Return the last place up to `desired` at which messages are allowed."""
    place = max(0, min(desired, len(messages) - 1))
    while place > 0 and (_calls_tools(messages[place - 1]) or _is_result(messages[place])):
        place -= 1
    return place


def _calls_tools(raw: bytes) -> bool:
    """Return whether a message is the model's and calls tools."""
    own = sliced_members(raw)
    if own.get("role") != b'"assistant"':
        return False
    return bool(own.get("tool_calls", b"null").strip(b"[] \t\r\nnul")) or _holds(own, b'"tool_use"')


def _is_result(raw: bytes) -> bool:
    """Return whether a message holds results of calls: nothing may come between it and the calls."""
    own = sliced_members(raw)
    return own.get("role") == b'"tool"' or _holds(own, b'"tool_result"')


def _holds(message: dict[str, bytes], kind: bytes) -> bool:
    content = message.get("content", b"")
    if kind not in content or content[:1] != b"[":
        return False
    return any(sliced_members(block).get("type") == kind for block in array(content))


# a capture


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
        raw = sliced_members(exchange.body).get("messages", b"")
        listed = array(raw) if raw[:1] == b"[" else []
        if not listed or turn is None or turn.chain.startswith("utility-") or exchange.call.agent:
            return exchange.body
        session = self._session_of(exchange)
        if session is None or not self._is_of_conversation(exchange, turn, session, listed[0]):
            return exchange.body
        due = [
            row for row in self.rows
            if row.session == session and ((session, row.seq) in self.counts or row.place < len(listed))
        ]  # fmt: skip
        body, rows = replay(exchange.body, due)
        now = {row.seq: row for row in rows}
        self.rows = [now.get(row.seq, row) if row.session == session else row for row in self.rows]
        for row in due:
            self.counts[session, row.seq] = self.counts.get((session, row.seq), 0) + 1
        return body

    def _session_of(self, exchange: Exchange) -> str | None:
        """Return the session whose rows a request gets: its own, or the only one that has rows.

        Raises LoreError for a request without a session if the rows are of several.
        """
        names = list(dict.fromkeys(row.session for row in self.rows))
        if exchange.call.session in names:
            return exchange.call.session
        if len(names) > 1 and not exchange.call.session:
            shown = ", ".join(cut_masked(name, 40) for name in names[:3])
            raise LoreError(
                f"the rows are of {len(names)} sessions ({shown}), and the requests do not name theirs",
                hint="name one: --deltas ROWS#SESSION",
            )
        return names[0] if len(names) == 1 else None

    def _is_of_conversation(self, exchange: Exchange, turn: Turn, session: str, first: bytes) -> bool:
        """Return whether a request is of the session's conversation: by its session id, chain or first message."""
        chains = self._chains.setdefault(session, set())
        is_own = exchange.call.session == session or self._opening.setdefault(session, first) == first
        if is_own:
            chains.add(turn.chain)
        return is_own or turn.chain in chains


def _line(exchange: Exchange, body: bytes) -> bytes:
    """Return a request as `bodies` reads it: alone, or as a text with its other recorded facts."""
    call, known = exchange.call, dict[str, object]()
    if exchange.at is not None:
        known["timestamp"] = exchange.at
    if call.endpoint:
        known["url"] = call.endpoint if call.endpoint.startswith("/") else f"https://{call.endpoint}"
    if call.session:
        known["headers"] = {"session-id": call.session}
    if call.status is not None:
        known["status"] = call.status
    if exchange.response_id:
        known["response"] = {"id": exchange.response_id}
    if exchange.usage is not None:
        known["usage"] = _usage(exchange.usage)
    if not known:
        return body
    request = encode(body.decode("utf-8", "replace")) if exchange.fidelity == "wire" else bytes(body)
    return object_of({"request": request, **{name: encode(value) for name, value in known.items()}})


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
