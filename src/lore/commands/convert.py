"""`lore convert`: a session as lore's own log; recorded requests as lines of bodies.

A log that is converted folds to the same state and assembles to the same prompts; the files of subagents become chains
of it. The header names the original format and comes first. Content is written as it was spelled, unmasked; the records
of lore's own logs are copied, except the `saved` records of a store.

`--deltas ROWS` replays the durable deltas of a gateway's table in the requests that it received. A row of
`session_prompt_deltas` has session_id, seq, project_id, selector and content. Its messages are inserted byte for byte
into the requests of its conversation, from the first request on that has a message after the row's place; utility calls
and subagents get none.

The place counts the messages of the request as it came; a place after the end is the end. A row is never last, never
after a call, and never between calls and their results; rows of one place are in the order of their seq. A row that had
to move keeps its new place, with everything else in its selector.
Source: the Lore gateway's table and replay, 2026-06 to 2026-08.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Annotated, NamedTuple

import typer
from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.commands import flags
from lore.commands.common import destination, log, refuse, say_problems, takes, tell
from lore.errors import LoreError, Where
from lore.formats.base import HOLDS, Read
from lore.formats.beginning import BOM, SPACE, SQLITE
from lore.formats.lines import Line, fault, is_crowded, nonblank_lines
from lore.formats.lore_log import LoreLog
from lore.model.canonical import encode, text_of
from lore.model.codes import Code, Problem
from lore.model.events import Event, OpaqueEvent, Saved, SessionStarted, Usage
from lore.model.events import encode as encode_event
from lore.model.inserts import insert_texts, selector_place, with_place
from lore.model.jsonslice import array, element_ranges, is_json, member_ranges, object_of, raw_members, sliced_members
from lore.model.mask import cut_masked
from lore.model.turn import Exchange, Turn
from lore.recording import corpus
from lore.recording.base import Problems, Recording
from lore.recording.events import EventRecording
from lore.recording.opening import Options
from lore.recording.request_session import session_of
from lore.recording.requests import RequestRecording
from lore.run.arguments import read_completion

FORMATS = ("lore", "bodies")


class ConvertOptions(Struct, frozen=True):
    """The options of `lore convert`."""

    session: Annotated[str, "SESSION", "A session log, a stored session (URL#ID), recorded requests, or `-`."]
    to: Annotated[str | None, "What to write: lore (a session's log), bodies (requests, one a line)."] = None
    deltas: Annotated[
        str | None,
        typer.Option(
            "--deltas",
            metavar="ROWS",
            help="Rows of a gateway's session_prompt_deltas to replay in the requests: JSON, JSON Lines, or the "
            "SQLite file; ROWS#SESSION: those of one session.",
        ),
    ] = None
    save_deltas: Annotated[
        str | None,
        typer.Option(
            "--save-deltas", metavar="FILE", help="Write the rows, with the new places of those that had to move."
        ),
    ] = None
    output: flags.Output = None
    force: flags.Force = False
    system: flags.System = None
    tools: flags.Tools = None
    format: flags.Format = None
    verbose: flags.Verbose = False


@takes(ConvertOptions)
def run(options: ConvertOptions) -> int:
    """Write a session as lore's own log, or requests as bodies.

    Subagents in separate files become chains of the one log; recorded requests become the session that they make, with
    messages, tools and usage in order. Content is written as it was recorded: credentials are not masked. With
    --deltas, requests that a gateway received are written as it sent them on, with each row at its place, byte for
    byte.
    """
    to = options.to or ("lore" if options.deltas is None else "bodies")
    replays = options.deltas is not None or options.save_deltas is not None
    refuse(
        (to not in FORMATS, f"lore does not write {to!r}", "formats: " + ", ".join(FORMATS)),
        (to == "lore" and replays, "--deltas are replayed in recorded requests",
         "leave --to out, or give --to bodies"),
        (replays and options.deltas is None, "--save-deltas writes the rows of --deltas", "give --deltas ROWS"),
    )  # fmt: skip
    name, problems = corpus.parse_name(options.session), Problems()
    completion = read_completion(options.system, options.tools)
    opening = Options(format=options.format, completion=completion, log=log(options.verbose))
    replay = DeltaReplay(read_rows(options.deltas, problems) if options.deltas is not None else [])
    if name.turn is not None:
        raise LoreError(f"{name} is one turn: a recording is converted whole", hint="leave #TURN out")
    recording = opening.open(name.path, problems, subagents=to == "lore")
    if to == "lore":
        lines = convert_recording(recording)
    elif isinstance(recording, RequestRecording):
        lines = replay.lines(recording)
    else:
        message = f"{recording.shown} is read as {HOLDS[recording.reader.yields]}, not as recorded requests"
        raise LoreError(message, hint="leave --to out: a session is converted to lore's own log")
    deltas = () if options.deltas is None else (options.deltas, options.deltas.rpartition("#")[0])
    inputs = (recording.path, *recording.companions, *deltas)
    with destination(options.output, force=options.force, inputs=inputs) as file:
        file.writelines(lines)
    for row in replay.rows:
        if (row.session, row.seq) not in replay.inserted:
            tell(
                f"note: row {row.seq} of session {row.session!r} is in no request: none of its conversation, except "
                f"utility calls (titles, probes), has more than {row.place} messages"
            )
    if options.save_deltas is not None:
        with destination(options.save_deltas, force=options.force, inputs=inputs) as file:
            file.writelines(row.line() for row in replay.rows)
    say_problems(problems)
    return 0


# a session as lore's own log

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
    origin = recording.reader.name if verbatim is None else None  # the format that the header names
    recording.reader = verbatim or recording.reader
    for read in _header_first(recording, is_own=verbatim is not None):
        event: Event = read.value  # pyright: ignore[reportAssignmentType]
        line = verbatim.lines.pop(read.line, None) if verbatim is not None else None
        if isinstance(event, Saved):
            continue
        if line is None:
            if isinstance(event, SessionStarted):
                event = replace(event, origin=event.origin or origin)
            if isinstance(event, OpaqueEvent) and origin is None:
                line = bytes(event.record)
            else:  # a reader may have kept line ends between values; in strings they are escapes
                line = encode_event(event).translate(None, b"\r\n")
            if isinstance(event, SessionStarted) and event.v == 1:
                line = _HEADER + b',"v":1' + line[len(_HEADER) :]
            if line.count(b"[") + line.count(b"{") > _DEEP and not any(
                read.value == event for read in LoreLog().read_line(Line(1, 0, line))
            ):
                message = "a record nested so deeply that lore cannot read it inside its own log"
                problem = Problem(Code.MALFORMED_RECORD, message)
                recording.problems.add(problem, recording.reading, read.line, read.byte)
        yield line + b"\n"


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


# durable deltas: rows

_QUERY = "SELECT * FROM session_prompt_deltas ORDER BY session_id, seq"
_HINT = "give the database of the gateway, or what `sqlite3 -json` prints of its session_prompt_deltas"
# counts of a usage: Anthropic's name, and lore's
_COUNTS = {
    "input_tokens": "uncached_tokens", "cache_read_input_tokens": "read_tokens",
    "cache_creation_input_tokens": "write_tokens", "output_tokens": "output_tokens",
}  # fmt: skip
_LIFETIMES = {"ephemeral_5m_input_tokens": "write_5m_tokens", "ephemeral_1h_input_tokens": "write_1h_tokens"}


class GatewayRow(NamedTuple):
    """A row of the table."""

    session: str
    seq: int
    selector: Raw  # JSON with the place
    messages: tuple[bytes, ...]  # JSON
    members: dict[str, bytes]  # all columns as they were given

    @property
    def place(self) -> int:
        """The message before which it is inserted."""
        return selector_place(self.selector) or 0

    def line(self) -> bytes:
        """Return the row as one line of JSON, selector and content as texts, as in the table."""
        texts = {"selector": bytes(self.selector), "content": self.members["content"]}
        return object_of({**self.members, **{name: encode(_text(value)) for name, value in texts.items()}}) + b"\n"


def read_rows(name: str, problems: Problems) -> list[GatewayRow]:
    """Read the rows of a file, or of one session in it (`FILE#SESSION`); raises LoreError if it holds no row.

    A file holds JSON as `sqlite3 -json` prints it, or a row a line, or is the database.
    """
    path, _, session = (name, "", "") if os.path.lexists(name) or "#" not in name else name.rpartition("#")
    label, rows = corpus.show(path), list[GatewayRow]()
    for number, raw in enumerate(_records(path), 1):
        row = _parse_row(raw)
        if row is None:
            seq = cut_masked((raw_members(raw) or {}).get("seq", b"?").decode("utf-8", "replace"), 20)
            problems.add(Problem(Code.UNREADABLE_DELTA, f"row {number} (seq {seq}) is corrupt; skipped"), label)
        elif not session or row.session == session:
            rows.append(row)
    if not rows:
        of_session = f" of session {session!r}" if session else ""
        raise LoreError(f"{label} holds no rows{of_session} that can be replayed", hint=_HINT, where=Where(label))
    return sorted(rows, key=lambda row: (row.session, row.seq))


def _records(path: str) -> Iterator[bytes]:
    pieces = corpus.pieces(path)
    first = next(pieces, b"")
    if first.startswith(SQLITE):
        from lore.recording.agents import databases  # noqa: PLC0415 - few rows come as a database

        try:
            with closing(databases.connect(path)) as connection:
                connection.text_factory = _text
                cursor = connection.execute(_QUERY)
                names = [str(column[0]) for column in cursor.description]
                for row in cursor:
                    values = [_text(value) if isinstance(value, bytes) else value for value in row]
                    yield encode(dict(zip(names, values, strict=True)))
        except databases.ERRORS as error:
            label = corpus.show(path)
            raise LoreError(f"{label}: {databases.reason_of(error)}", hint=_HINT, where=Where(label)) from None
        return
    text = b"".join((first, *pieces)).removeprefix(BOM).strip(SPACE)
    if is_crowded(text):
        raise LoreError(f"{corpus.show(path)} holds too many values to be rows", hint=_HINT)
    if is_json(text):
        yield from array(text) if text[:1] == b"[" else [text]
        return
    lines = (line.strip(SPACE) for line in nonblank_lines(text))
    yield from (line if is_json(line) else b"null" for line in lines)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _parse_row(raw: bytes) -> GatewayRow | None:
    """Return a row whose JSON columns are texts or JSON; None if it is corrupt."""
    members = raw_members(raw) or {}
    seq, session = members.get("seq", b""), members.get("session_id", b"")
    selector, content = (
        text_of(raw).encode("utf-8", "surrogatepass") if raw[:1] == b'"' else raw
        for raw in (members.get("selector", b""), members.get("content", b""))
    )
    selector, content = (value.strip() if value and is_json(value) else b"" for value in (selector, content))
    if not seq.isdigit() or len(seq) > 15 or session[:1] != b'"' or selector_place(Raw(selector)) is None:
        return None
    texts = insert_texts(Raw(content)) if content else None
    if texts is None or not all(text.message for text in texts):
        return None
    messages = array(content) if content[:1] == b"[" else [content]
    return GatewayRow(text_of(session), int(seq), Raw(selector), tuple(messages), {**members, "content": content})


# durable deltas: one request


def insert_rows(body: bytes, rows: Sequence[GatewayRow]) -> tuple[bytes, Sequence[GatewayRow]]:
    """Return a request body with these rows inserted if it has messages, and the rows at the places where they are."""
    at, end = next(((m.value, m.end) for m in reversed(member_ranges(body)) if m.key == "messages"), (0, 0))
    raw = body[at:end]
    ranges = element_ranges(raw) if raw[:1] == b"[" else []
    if not ranges or not rows:
        return body, rows
    messages = [raw[begin:stop] for begin, stop in ranges]
    placed_rows: list[tuple[int, GatewayRow]] = []
    for row in rows:
        target = min(row.place, len(messages))
        place = min(target, len(messages) - 1)  # the last one that is not the end, after calls, or before their results
        while place > 0 and ("call" in _tool_parts(messages[place - 1]) or "result" in _tool_parts(messages[place])):
            place -= 1
        placed_rows.append((place, row if place == target else row._replace(selector=with_place(row.selector, place))))
    pieces, copied_bytes = [body[:at]], 0
    for place, row in sorted(placed_rows, key=lambda pair: (pair[0], pair[1].seq)):
        begin = ranges[place][0]
        pieces += [raw[copied_bytes:begin], *(message + b"," for message in row.messages)]
        copied_bytes = begin
    return b"".join([*pieces, raw[copied_bytes:], body[end:]]), [row for _, row in placed_rows]


def _tool_parts(raw: bytes) -> set[str]:
    """Return which of `call` and `result` a message holds."""
    message = sliced_members(raw)
    role, content = message.get("role"), message.get("content", b"")
    blocks = array(content) if content[:1] == b"[" else ()
    kinds = {sliced_members(block).get("type") for block in blocks}
    calls = message.get("tool_calls", b"null").strip(b"[] \t\r\nnul") or b'"tool_use"' in kinds
    parts = {"call"} if role == b'"assistant"' and calls else set[str]()
    return parts | {"result"} if role == b'"tool"' or b'"tool_result"' in kinds else parts


# durable deltas: a capture


class DeltaReplay:
    """Inserts rows into the requests of a capture. `rows` and `inserted` are final when `lines` was iterated."""

    def __init__(self, rows: Iterable[GatewayRow]) -> None:
        self.rows = list(rows)  # each at the place of its last insertion
        self.inserted: set[tuple[str, int]] = set()  # session and seq of rows that are in some request
        self._sessions = sorted({row.session for row in self.rows})
        self._opening: dict[str, bytes] = {}  # the first message, by session
        self._chains: set[tuple[str, str]] = set()  # session and chain of its conversation

    def lines(self, recording: RequestRecording) -> Iterator[bytes]:
        """Yield a line for each request of a capture."""
        for exchange, turn in recording.exchanges():
            yield _encode_line(exchange, self._replay(exchange, turn)).translate(None, b"\r\n") + b"\n"

    def _replay(self, exchange: Exchange, turn: Turn | None) -> bytes:
        """Return the body of a request with the rows of its session; raises LoreError if that is not known."""
        raw = sliced_members(exchange.body).get("messages", b"")
        messages = array(raw) if raw[:1] == b"[" else []
        if not messages or turn is None or turn.chain.startswith("utility-") or exchange.call.agent:
            return exchange.body
        session = exchange.call.session  # its own, else the only one that has rows
        if session not in self._sessions:
            if len(self._sessions) > 1 and not session:
                sample = ", ".join(cut_masked(name, 40) for name in self._sessions[:3])
                of = f"the rows are of {len(self._sessions)} sessions ({sample})"
                hint = "name one: --deltas ROWS#SESSION"
                raise LoreError(f"{of}, and the requests do not name theirs", hint=hint)
            if len(self._sessions) != 1:
                return exchange.body
            session = self._sessions[0]
        if exchange.call.session == session or self._opening.setdefault(session, messages[0]) == messages[0]:
            self._chains.add((session, turn.chain))
        elif (session, turn.chain) not in self._chains:
            return exchange.body
        due = [
            row for row in self.rows
            if row.session == session and (row.place < len(messages) or (session, row.seq) in self.inserted)
        ]  # fmt: skip
        body, rows = insert_rows(exchange.body, due)
        moved = {(row.session, row.seq): row for row in rows}
        self.rows = [moved.get((row.session, row.seq), row) for row in self.rows]
        self.inserted |= moved.keys()
        return body


def _encode_line(exchange: Exchange, body: bytes) -> bytes:
    """Return a request as the format `bodies` reads it: alone, or with its other recorded facts."""
    call, usage = exchange.call, None
    if exchange.usage is not None:
        split = _counts(exchange.usage, _LIFETIMES)
        usage = {**_counts(exchange.usage, _COUNTS), **({"cache_creation": split} if split else {})}
    known_facts: dict[str, object] = {
        "timestamp": exchange.at,
        "url": call.endpoint if not call.endpoint or call.endpoint.startswith("/") else f"https://{call.endpoint}",
        "headers": {"session-id": call.session} if call.session else None,
        "status": call.status,
        "response": {"id": exchange.response_id} if exchange.response_id else None,
        "usage": usage,
    }
    facts = {name: value for name, value in known_facts.items() if value not in (None, "")}
    if not facts:
        return body
    request = encode(_text(body)) if exchange.fidelity == "wire" else bytes(body)
    return object_of({"request": request, **{name: encode(value) for name, value in facts.items()}})


def _counts(usage: Usage, names: dict[str, str]) -> dict[str, int]:
    """Return the known counts of a usage by Anthropic's names."""
    counts = {name: getattr(usage, field) for name, field in names.items()}
    return {name: count for name, count in counts.items() if count is not None}
