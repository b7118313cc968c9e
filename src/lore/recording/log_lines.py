"""Lines of lore's own logs as a store keeps them: each to the byte, the header first.

In: the bytes of a log. Out: lines without their ends. Rules: what no reader of logs takes is a problem and left
out; several records on one line become lines of their own; what a store of logs noted for itself (`saved`) is
left out. A log whose header does not come first keeps its order, unless only what is opaque stands before it; one
without a header is given one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lore.errors import LoreError, Where
from lore.formats.lines import Line, Lines, fault, is_crowded, split_joined, too_long, too_many
from lore.formats.lore_log import LoreLog
from lore.model import lenient
from lore.model.canonical import encode, text_of
from lore.model.codes import Code, Problem
from lore.model.events import OpaqueEvent, SessionStarted
from lore.model.events import encode as encode_event
from lore.model.jsonslice import spans
from lore.recording.base import Problems


def own_lines(data: Iterable[bytes], problems: Problems, shown: str) -> Iterator[bytes]:
    """Yield the records of a log that can be stored, in their order; problems are collected. Costs O(bytes)."""
    lines = Lines()
    for piece in data:
        for line in lines.feed(piece):
            yield from _kept(line, problems, shown, torn=False)
    for line in lines.finish():
        yield from _kept(line, problems, shown, torn=True)


def _kept(line: Line, problems: Problems, shown: str, *, torn: bool) -> Iterator[bytes]:
    reason = "" if line.data else too_long()
    reason = reason or fault(line.data) or (too_many() if is_crowded(line.data) else "")
    if not reason:
        if not is_saved(line.data):
            yield line.data
        return
    joined = split_joined(line.data) if line.data else None
    if joined is None or any(map(fault, joined)):
        code = Code.LINE_TOO_LONG if not line.data else Code.TORN_LAST_LINE if torn else Code.UNREADABLE_LINE
        problems.add(Problem(code, f"unreadable line: {reason}"), shown, line.number, line.byte)
        return
    problems.add(Problem(Code.JOINED_LINES, f"{len(joined)} records on one line"), shown, line.number, line.byte)
    yield from (one for one in joined if not is_saved(one))


def kind_of(line: bytes) -> str:
    """Return the kind that a record names, as lore spells it; empty where it names none."""
    kinds = [line[one.value : one.end] for one in spans(line) if one.key == "kind"]
    return lenient.snake(text_of(kinds[-1])) if kinds else ""


def is_saved(line: bytes) -> bool:
    """Tell what a store of logs noted for itself."""
    return b'"saved"' in line and kind_of(line) == "saved"


def headed(lines: Iterator[bytes], shown: str) -> Iterator[bytes]:
    """Put the header first, or one that names no session; raises LoreError where nothing is an event."""
    held: list[bytes] = []
    header = None
    for line in lines:
        value = _value(line)
        if isinstance(value, SessionStarted):
            header = line
            break
        held.append(line)
        if not isinstance(value, OpaqueEvent):
            header = encode_event(SessionStarted(session_id=""))
            break
    if header is None:
        raise LoreError(f"{shown} holds no session: there is nothing to store", where=Where(shown))
    yield header
    yield from held
    yield from lines


def _value(line: bytes) -> object:
    """Return what a record is read as."""
    reads = LoreLog().feed(line + b"\n")
    return next((one.value for one in reads if not isinstance(one.value, Problem)), None)


def renamed(header: bytes, session_id: str) -> bytes:
    """Return a header that names this session; its other bytes stay."""
    found = [one for one in spans(header) if lenient.snake(one.key) == "session_id"]
    for one in reversed(found):
        header = header[: one.value] + encode(session_id) + header[one.end :]
    return header


def named(header: bytes) -> str:
    """Return the session that a header names; empty where it names none."""
    value = _value(header)
    return value.session_id if isinstance(value, SessionStarted) else ""
