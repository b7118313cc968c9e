"""Names that come from outside: ids of sessions, items and projects, keys of clients, lines of logs.

Rules: an id is text of 1 to 512 characters that can be printed, and is compared by code point: ids that differ
by case or by Unicode form are different. A line is one JSON object that every reader of logs takes.
"""

from __future__ import annotations

from lore.formats.lines import LONGEST, fault, is_crowded, too_long, too_many
from lore.model.canonical import printable
from lore.model.jsonslice import is_json
from lore.store.base import StoreError

LONGEST_ID = 512
HINT = f"1 to {LONGEST_ID} characters, none of them a control character"


def good_id(text: str, what: str = "session id") -> str:
    """Return an id that every store can keep; raises StoreError."""
    if not is_id(text):
        raise StoreError(f"{printable(text[:60])!r} is no {what}", hint=HINT)
    return text


def is_id(text: str) -> bool:
    """Tell whether a store can have something by this name."""
    return 0 < len(text) <= LONGEST_ID and text.isprintable()


def good_notes(leaf_id: str | None, *times: str | None) -> None:
    """Refuse a leaf or times that not every store can keep; raises StoreError."""
    if leaf_id is not None:
        good_id(leaf_id, "leaf id")
    for time in times:
        if time is not None:
            good_id(time, "time")


def kept_time(text: str | None) -> str | None:
    """Return a time that every store can keep, None for another."""
    try:
        return None if text is None else good_id(text, "time")
    except StoreError:
        return None


def good_line(line: bytes) -> bytes:
    """Return a line that every reader of logs takes; raises StoreError."""
    line = bytes(line)
    if len(line) > LONGEST:
        raise StoreError(f"an event of {len(line):,} bytes: {too_long()}", hint="write less content in one event")
    reason = "a line feed within" if b"\n" in line else "" if _is_plain(line) else fault(line)
    if not reason and is_crowded(line):
        reason = too_many()
    if reason:
        raise StoreError(f"an event is no line of a log: {reason}", hint="one JSON object on one line")
    return line


_DIGITS = bytes.maketrans(b"123456789E", b"000000000e")
_HUGE = b"0e000", b"0e+000"  # perhaps a number that no float can hold; found so four times as fast as by a pattern
_DEEP = 500  # brackets: with more, a value may be nested more deeply than decoders follow


def _is_plain(line: bytes) -> bool:
    """Tell surely good lines quickly: what is inside is skipped by the decoder, which looks at neither of these."""
    if line[:1] != b"{" or line.count(b"[") + line.count(b"{") > _DEEP:
        return False
    digits = line.translate(_DIGITS)
    return not any(huge in digits for huge in _HUGE) and is_json(line)
