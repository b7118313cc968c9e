"""Lines of stored sessions: which ids and lines a store accepts, digests, headers.

- An id is printable text of 1 to 512 characters, compared by code point. A line is one JSON object that every reader
  of logs accepts.
- The digest after event 0 is SHA-256 of `lore-store-1`. That after event n is SHA-256 of the previous digest, the
  length of line n in decimal, `:`, and line n. So a stored digest covers all events before it and can be continued
  from any number, and a changed line is found alone if a digest is stored with each event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256

import msgspec

from lore.formats.lines import Line, fault, is_crowded, too_many, too_much
from lore.formats.lore_log import LoreLog, event_of
from lore.model.canonical import canonical, printable
from lore.model.events import SessionStarted, TurnStarted
from lore.model.limits import RECORD_BYTES
from lore.model.mask import cut_masked
from lore.store.base import EMPTY, Head, SessionSummary, StoreError

LONGEST_ID = 512  # characters: databases index ids
SEED = sha256(b"lore-store-1").digest()  # the digest after event 0


def is_id(text: object) -> bool:
    """Return whether every store can keep this text as an id or a time."""
    return isinstance(text, str) and 0 < len(text) <= LONGEST_ID and text.isprintable()


def check_id(text: str, what: str = "session id") -> str:
    """Return an id that every store can keep; raises StoreError."""
    if not is_id(text):
        message = f"{printable(cut_masked(str(text), 60))!r} is not a valid {what}"
        raise StoreError(message, hint=f"1 to {LONGEST_ID} characters, without control characters")
    return text


def check_notes(leaf_id: str | None, *times: str | None) -> None:
    """Raise StoreError for a leaf or a time that some store cannot keep."""
    for text, what in ((leaf_id, "leaf id"), *((time, "time") for time in times)):
        if text is not None:
            check_id(text, what)


def refusal(line: bytes) -> str:
    """Return why readers of logs refuse a line (an empty one was too long); empty if they accept it."""
    return too_much() if not line else fault(line) or (too_many() if is_crowded(line) else "")


def check_line(line: bytes) -> bytes:
    """Return a line that every reader of logs accepts, as immutable bytes; raises StoreError."""
    line = bytes(line)
    if len(line) > RECORD_BYTES:
        raise StoreError(f"an event of {len(line):,} bytes: {too_much()}", hint="write less content in one event")
    reason = "it contains a line feed" if b"\n" in line else too_many() if is_crowded(line) else fault(line)
    if reason:
        raise StoreError(f"an event is not a line of a log: {reason}", hint="one JSON object on one line")
    return line


def digest_lines(digest: bytes, lines: Iterable[bytes]) -> list[bytes]:
    """Return the digest after each line; `digest` is the one before the first. Costs O(bytes)."""
    digests: list[bytes] = []
    for line in lines:
        hashed = sha256(digest + b"%d:" % len(line))
        hashed.update(line)
        digest = hashed.digest()
        digests.append(digest)
    return digests


def digest_notes(leaf_id: str | None, metadata: bytes) -> str:
    """Return the digest of leaf and metadata, in hex."""
    leaf = b"-" if leaf_id is None else b"+" + leaf_id.encode("utf-8", "surrogatepass")
    return sha256(b"%d:%b%b" % (len(leaf), leaf, canonical(metadata))).hexdigest()


NOTHING = Head(0, SEED.hex(), digest_notes(None, EMPTY))  # of a session without events


def read_header(line: bytes) -> SessionSummary:
    """Return the session that a header begins, without events; raises StoreError for another event."""
    event = next((read.value for read in LoreLog().read_line(Line(1, 0, check_line(line)))), None)
    if not isinstance(event, SessionStarted):
        hint = "the first event of a session is session_started, with its session_id"
        raise StoreError("a session does not begin with session_started", hint=hint)
    for name, what in ((event.project_id, "project id"), (event.parent_session_id, "parent session id")):
        if name is not None:
            check_id(name, what)
    created_at = event.at if is_id(event.at) else None  # a time that some store cannot keep is left out
    return SessionSummary(
        session_id=check_id(event.session_id), head=NOTHING, size=0, project_id=event.project_id,
        parent_session_id=event.parent_session_id, created_at=created_at, user_id=event.user_id,
        agent_id=event.agent_id, turns=0,
    )  # fmt: skip


class _Timed(msgspec.Struct):
    at: str | None = None


_TIMED = msgspec.json.Decoder(_Timed)
_TURN = re.compile(rb"turn_?[sS]tarted")  # in lines of these events


def count_activity(lines: Sequence[bytes], turns: int = 0, used_at: str | None = None) -> tuple[int, str | None]:
    """Return how many turns have begun and the last time of an event, after these lines.

    `turns` and `used_at` are those before the lines. Times are taken in the order of the events, and never compared.
    """
    turns += sum(_TURN.search(line) is not None and isinstance(event_of(line), TurnStarted) for line in lines)
    return turns, next((at for line in reversed(lines) if (at := _time_of(line)) is not None), used_at)


def _time_of(line: bytes) -> str | None:
    try:
        at = _TIMED.decode(line).at
    except ValueError:  # lone surrogates, or a time of another type
        event = event_of(line)
        at = None if event is None else event.at
    return at if is_id(at) else None
