"""The lines of a session as every store keeps them: ids, digests, the header, rows of prompt deltas.

- An id is text of 1 to 512 characters that can be printed, and is compared by code point: ids that differ by case or
  by Unicode form are different. A line is one JSON object that every reader of logs takes.
- Each event's digest holds all before it: digest 0 is SHA-256 of `lore-store-1`; digest n is SHA-256 of digest n-1, the
  length of line n in decimal, `:`, and line n. Framed by length, sensitive to order, resumable from any number. Where a
  digest is stored beside each event, a changed line is found alone: only its own digest does not follow.
- Of prompt deltas there is one row a `seq`; a later record may replace the selector, never the content (design,
  section 3); selector and content are JSON text, to the byte, with whatever fields a writer put there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec

from lore.errors import LoreError, Where
from lore.formats.base import Read
from lore.formats.bounds import is_crowded, too_long, too_many
from lore.formats.lines import Line, Lines, fault, problem, split_joined
from lore.formats.lore_log import LoreLog, event_of, kind_of
from lore.model import lenient
from lore.model.canonical import canonical, encode, printable
from lore.model.codes import Code
from lore.model.events import MAIN, Append, OpaqueEvent, PromptDelta, Remove, SessionStarted, TurnStarted
from lore.model.events import encode as encode_event
from lore.model.items import is_absent
from lore.model.jsonslice import members
from lore.model.limits import RECORD_BYTES
from lore.model.mask import cut_masked
from lore.store.base import EMPTY, DeltaRow, Head, SessionData, SessionSummary, StoreError, like

LONGEST_ID = 512  # characters of a session's id: databases index it


def good_id(text: str, what: str = "session id") -> str:
    """Return an id that every store can keep; raises StoreError."""
    if not is_id(text):
        raise StoreError(
            f"{printable(cut_masked(str(text), 60))!r} is no {what}",
            hint=f"1 to {LONGEST_ID} characters, none of them a control character",
        )
    return text


def is_id(text: object) -> bool:
    """Tell whether a store can have something by this name."""
    return isinstance(text, str) and 0 < len(text) <= LONGEST_ID and text.isprintable()


def good_notes(leaf_id: str | None, *times: str | None) -> None:
    """Refuse a leaf or times that not every store can keep; raises StoreError."""
    if leaf_id is not None:
        good_id(leaf_id, "leaf id")
    for time in times:
        if time is not None:
            good_id(time, "time")


def refusal(line: bytes) -> str:
    """Say why no reader of logs takes a line (empty: it was too long); empty where each does."""
    return too_long() if not line else fault(line) or (too_many() if is_crowded(line) else "")


def good_line(line: bytes) -> bytes:
    """Return a line that every reader of logs takes; raises StoreError."""
    line = bytes(line)
    if len(line) > RECORD_BYTES:
        raise StoreError(f"an event of {len(line):,} bytes: {too_long()}", hint="write less content in one event")
    reason = "a line feed within" if b"\n" in line else too_many() if is_crowded(line) else fault(line)
    if reason:
        raise StoreError(f"an event is no line of a log: {reason}", hint="one JSON object on one line")
    return line


# digests

SEED = sha256(b"lore-store-1").digest()


def follow(digest: bytes, lines: Iterable[bytes]) -> list[bytes]:
    """Return the digest behind each of these lines, which come after `digest`. Costs O(bytes)."""
    found: list[bytes] = []
    for line in lines:
        hashed = sha256(digest + b"%d:" % len(line))
        hashed.update(line)
        digest = hashed.digest()
        found.append(digest)
    return found


def note(leaf_id: str | None, metadata: bytes) -> str:
    """Return the digest of what is noted beside the events: 64 hex digits."""
    leaf = b"-" if leaf_id is None else b"+" + leaf_id.encode("utf-8", "surrogatepass")
    return sha256(b"%d:%b%b" % (len(leaf), leaf, canonical(metadata))).hexdigest()


NOTHING = Head(0, SEED.hex(), note(None, EMPTY))


class SessionHeader(NamedTuple):
    """A header's line, and what it says of the session; a time that not every store can keep is in the line alone."""

    line: bytes
    session_id: str
    project_id: str | None
    parent_session_id: str | None
    at: str | None
    user_id: str | None
    agent_id: str | None


def read_header(line: bytes) -> SessionHeader:
    """Read a header; raises StoreError where the line is none, or names no session."""
    line = good_line(line)
    found = next((read.value for read in LoreLog().feed(line + b"\n")), None)
    if not isinstance(found, SessionStarted):
        hint = "the first event of a session is session_started, with its session_id"
        raise StoreError("a session does not begin with session_started", hint=hint)
    for name, what in ((found.project_id, "project id"), (found.parent_session_id, "parent session id")):
        if name is not None:
            good_id(name, what)
    session_id = good_id(found.session_id)
    at = found.at if found.at is not None and is_id(found.at) else None
    return SessionHeader(line, session_id, found.project_id, found.parent_session_id, at, found.user_id, found.agent_id)


class Activity(NamedTuple):
    """How far a session was used: the turns that it began, of all chains, and the last time that an event carries."""

    turns: int = 0
    used_at: str | None = None


IDLE = Activity()


class _Timed(msgspec.Struct):
    at: str | None = None


_TIMED = msgspec.json.Decoder(_Timed)
_TURN = (b'"turn_started"', b'"turnStarted"')
_SPELLED = re.compile(rb"\\u00[4-7]")  # a letter as an escape, which may be one of the words; nobody writes it


def _may_say(line: bytes, words: tuple[bytes, bytes]) -> bool:
    """Tell whether a line may hold one of these words, however it is spelled."""
    return words[0] in line or words[1] in line or (b"\\u00" in line and _SPELLED.search(line) is not None)


def activity(lines: Sequence[bytes], before: Activity = IDLE) -> Activity:
    """Return how far a session was used behind these lines, which come after `before`. Costs a look at each line.

    Times are taken in the order of the events, and never compared; one that not every store can keep is passed over.
    """
    turns = sum(_may_say(line, _TURN) and isinstance(event_of(line), TurnStarted) for line in lines)
    used_at = next((at for line in reversed(lines) if (at := _time_of(line)) is not None), before.used_at)
    return Activity(before.turns + turns, used_at)


def leaf_of(lines: Sequence[bytes]) -> str | None:
    """Return the uuid of the main chain's item that these lines append last, and do not take back.

    None where there is none, or a store cannot keep it. Read from the end: costs the lines behind it.
    """
    removed = set[str]()
    for line in reversed(lines):
        event = event_of(line) if _may_say(line, (b'"append"', b'"remove"')) else None
        if isinstance(event, Remove):
            removed.update(event.uuids)
        elif isinstance(event, Append) and event.chain == MAIN and event.item.uuid not in removed:
            return event.item.uuid if is_id(event.item.uuid) else None
    return None


def _time_of(line: bytes) -> str | None:
    """Return the time that an event carries, where every store can keep it."""
    try:
        at = _TIMED.decode(line).at
    except ValueError:  # lone surrogates, or a time of another type
        event = event_of(line)
        at = None if event is None else event.at
    return at if at is not None and is_id(at) else None


def summary_of(data: SessionData) -> SessionSummary:
    """Return what a list says of a whole session, for a store that keeps nothing of it apart. Costs O(its events)."""
    header, used = read_header(data.events[0]), activity(data.events)
    owner = {"user_id": header.user_id, "agent_id": header.agent_id}
    return like(SessionSummary, data, size=len(data.log), **owner, **used._asdict())


# prompt deltas

_DELTA = (b'"prompt_delta"', b'"promptDelta"')


class Row(NamedTuple):
    """A record of a prompt delta; `content` is None where it only replaces the selector."""

    seq: int
    selector: bytes
    content: bytes | None


def rows_of(lines: Iterable[bytes]) -> list[Row]:
    """Return the records of prompt deltas among lines, in order. Costs a look at each line."""
    found: list[Row] = []
    for line in lines:
        if not _may_say(line, _DELTA):
            continue
        for read in LoreLog().feed(line + b"\n"):
            event = read.value
            if isinstance(event, PromptDelta):
                content = None if is_absent(event.content) else bytes(event.content)
                found.append(Row(event.seq, bytes(event.selector), content))
    return found


def put_together(session_id: str, project_id: str | None, rows: Iterable[Row]) -> tuple[DeltaRow, ...]:
    """Return what is kept of these records, by `seq`."""
    kept: dict[int, DeltaRow] = {}
    for row in rows:
        before = kept.get(row.seq)
        content = (row.content or b"null") if before is None or before.content == b"null" else before.content
        kept[row.seq] = DeltaRow(session_id, row.seq, project_id, row.selector, content)
    return tuple(kept[seq] for seq in sorted(kept))


# lines from the logs of others


def own_lines(data: Iterable[bytes], tell: Callable[[Read], None]) -> Iterator[bytes]:
    """Yield the records of a log that can be stored, in their order and to the byte, without their ends.

    What no reader of logs takes is left out, and `tell` hears of it; several records on one line become lines of their
    own; what a store of logs noted for itself (`saved`) is left out. Costs O(bytes).
    """
    lines = Lines()
    for piece in data:
        for line in lines.feed(piece):
            yield from _kept(line, tell, torn=False)
    for line in lines.finish():
        yield from _kept(line, tell, torn=True)


def _kept(line: Line, tell: Callable[[Read], None], *, torn: bool) -> Iterator[bytes]:
    reason = refusal(line.data)
    records = split_joined(line.data) if reason and line.data else None
    if not reason:
        records = [line.data]
    elif records is not None and not any(map(fault, records)):
        tell(problem(Code.JOINED_LINES, f"{len(records)} records on one line", line))
    else:
        code = Code.LINE_TOO_LONG if not line.data else Code.TORN_LAST_LINE if torn else Code.UNREADABLE_LINE
        tell(problem(code, f"unreadable line: {reason}", line))
        return
    yield from (record for record in records if b'"saved"' not in record or kind_of(record) != "saved")


def headed(lines: Iterator[bytes], shown: str) -> Iterator[bytes]:
    """Put the header first, or one that names no session; raises LoreError where nothing is an event.

    A log whose header does not come first keeps its order, unless only what is opaque stands before it.
    """
    held: list[bytes] = []
    header = None
    for line in lines:
        event = event_of(line)
        if isinstance(event, SessionStarted):
            header = line
            break
        held.append(line)
        if event is not None and not isinstance(event, OpaqueEvent):
            header = encode_event(SessionStarted(session_id=""))
            break
    if header is None:
        raise LoreError(f"{shown} holds no session: there is nothing to store", where=Where(shown))
    yield header
    yield from held
    yield from lines


def renamed(header: bytes, session_id: str) -> bytes:
    """Return a header that names this session; its other bytes stay."""
    found = [member for member in members(header) if lenient.snake(member.key) == "session_id"]
    for member in reversed(found):
        header = header[: member.value] + encode(session_id) + header[member.end :]
    return header


def named(header: bytes) -> str:
    """Return the session that a header names; empty where it names none."""
    event = event_of(header)
    return event.session_id if isinstance(event, SessionStarted) else ""
