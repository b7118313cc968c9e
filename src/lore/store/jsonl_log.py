"""Sessions kept as logs, in a folder or among objects: how far one is stored, what a delta writes, and the calls of a
store that are the same in both.

A log is the header's line, then the events of each delta behind a record (`jsonl_records`), which says all that is
noted of the session: nothing of it is kept beside the log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from msgspec import Raw
from msgspec.structs import replace

from lore.errors import Where
from lore.model.events import Saved
from lore.model.items import NULL
from lore.store.base import (
    EMPTY,
    DamagedError,
    DeltaRow,
    Head,
    SessionData,
    SessionDelta,
    SessionSummary,
    UnknownSessionError,
)  # fmt: skip
from lore.store.deltas import checked, digests_of, same_header, settle
from lore.store.jsonl_records import Fault, LogPart, on_one_line, with_lines
from lore.store.lines import (
    NOTHING,
    Activity,
    SessionHeader,
    activity,
    good_id,
    note,
    put_together,
    read_header,
    rows_of,
)  # fmt: skip

HINT = "`lore store verify` says what is damaged; `lore store export ID --salvage` writes what is left"
_T = TypeVar("_T")


class LogState(SessionSummary, frozen=True, kw_only=True):
    """What is known of a session; `torn` counts the bytes of its file behind `end`, where what is whole ends."""

    end: int
    torn: int
    is_ended: bool
    metadata: bytes  # on one line
    metadata_at: int | None  # the byte of the record that has it

    @property
    def summary(self) -> SessionSummary:
        """What a list says of it."""
        return SessionSummary(**{name: getattr(self, name) for name in SessionSummary.__struct_fields__})


class LogView(ABC):
    """A session as `settle` looks at it, by its state and the part of its log that is asked for."""

    place: str  # how its file or object is named to a person

    @property
    @abstractmethod
    def state(self) -> LogState:
        """The session's state; raises DamagedError."""

    @abstractmethod
    def part(self, after: int) -> LogPart:
        """Return the events that came after a number, perhaps with some before; raises DamagedError."""

    @abstractmethod
    def header(self) -> SessionHeader:
        """Return the session's header; raises DamagedError."""

    @property
    def head(self) -> Head:
        return self.state.head

    @property
    def leaf_id(self) -> str | None:
        return self.state.leaf_id

    @property
    def metadata(self) -> bytes:
        return self.state.metadata

    def digest(self, number: int) -> str | None:
        if number == 0:
            return NOTHING.digest
        if number == self.head.number:
            return self.head.digest
        part = self.part(number - 1)
        place = number - part.first
        return part.digests[place].hex() if 0 <= place < len(part.digests) else None

    def lines(self, after: int, count: int) -> Sequence[bytes]:
        part = self.part(after)
        start = after + 1 - part.first
        return part.lines[start : start + count]

    def damaged(self, found: Fault) -> DamagedError:
        """Return the error for a place that is damaged."""
        which = "" if found.number is None else f"event {found.number}: "
        return DamagedError(f"{which}{found.message}", hint=HINT, where=Where(self.place, None, found.byte))


# what is written

MOST = 50_000  # events behind one record: it names 64 digits for each, and no reader takes a line over 12 MiB
REPEATED = 1024  # bytes of metadata that each record says again; longer ones stand where they changed
_GROUP, _GROUP_BYTES = 1000, 1024 * 1024  # events, and about their bytes, behind one record of a whole session


class Addition(NamedTuple):
    """What comes behind a log whose state is `state`: events with their digests, and the state's notes by then.

    `header` is the session's first line, where the session is new.
    """

    state: LogState
    notes: LogState
    lines: Sequence[bytes]
    digests: Sequence[bytes]
    header: bytes | None = None

    def record(self, start: int = 0, end: int | None = None) -> tuple[bytes, LogState]:
        """Return these events behind one record, in one piece, and the state that it leads to."""
        state, notes = self.state, self.notes
        lines, digests = self.lines[start:end], self.digests[start:end]
        is_said = notes.metadata == state.metadata and len(notes.metadata) > REPEATED
        at = state.metadata_at if is_said else None
        used = activity(lines, Activity(state.turns or 0, state.used_at))
        record = Saved(
            size=sum(map(len, lines)) + len(lines), after=state.head.number, base=state.head.digest, log=state.size,
            digests=tuple(map(bytes.hex, digests)), leaf_id=notes.leaf_id, metadata_at=at,
            metadata=NULL if at is not None or notes.metadata == EMPTY else Raw(notes.metadata),
            project_id=notes.project_id, created_at=notes.created_at, updated_at=notes.updated_at,
            turns=used.turns, used_at=used.used_at, byte=state.end + (not state.is_ended),
        )  # fmt: skip
        data = (b"" if state.is_ended else b"\n") + with_lines(record, lines)
        digest = digests[-1].hex() if digests else state.head.digest
        return data, replace(
            notes, head=Head(state.head.number + len(lines), digest, note(notes.leaf_id, notes.metadata)),
            size=state.size + record.size, end=state.end + len(data), torn=0, is_ended=True,
            metadata_at=record.byte if at is None else at, turns=used.turns, used_at=used.used_at,
        )  # fmt: skip

    def pieces(self) -> Iterator[tuple[bytes, LogState]]:
        """Yield what is written, the header apart, in groups behind a record each, and the state behind each."""
        addition, start, held = self, 0, 0
        for end, line in enumerate(self.lines, 1):
            held += len(line)
            if end - start >= _GROUP or held >= _GROUP_BYTES or end == len(self.lines):
                data, state = addition.record(start, end)
                yield data, state
                addition, start, held = addition._replace(state=state), end, 0
        if not self.lines:
            yield self.record()


def begun(header: SessionHeader, digest: bytes) -> LogState:
    """Return the state of a log that holds its header alone."""
    used, size = activity((header.line,)), len(header.line) + 1
    return LogState(
        session_id=header.session_id, head=Head(1, digest.hex(), NOTHING.note), size=size, end=size, torn=0,
        is_ended=True, metadata=EMPTY, metadata_at=None, parent_session_id=header.parent_session_id,
        user_id=header.user_id, agent_id=header.agent_id, turns=used.turns, used_at=used.used_at,
    )  # fmt: skip


# the calls of a store

Decide = Callable[[LogView | None], tuple[_T, Addition | None]]


class LogStore(ABC):
    """A store of logs. Where one is, how it is locked and written, is what is abstract here."""

    url: str

    @abstractmethod
    def _read(self, session_id: str, ask: Callable[[LogView], _T]) -> _T:
        """Return what a function says of a session's log; raises UnknownSessionError, DamagedError."""

    @abstractmethod
    def _write(self, session_id: str, decide: Decide[_T]) -> _T:
        """Add what a function makes of a session's log, None where there is none, and return its answer.

        It is asked about what is stored then, perhaps several times; all that it adds is stored, or nothing.
        """

    @abstractmethod
    def _summaries(self) -> Iterable[SessionSummary]:
        """Yield what is known of each session; one that is damaged is told, and left out."""

    def _unknown(self, session_id: str) -> UnknownSessionError:
        return UnknownSessionError(session_id, self.url)

    def create(self, header: bytes) -> Head:
        found = read_header(header)
        data = SessionData(session_id=found.session_id, head=NOTHING, events=(found.line,), project_id=found.project_id,
                           created_at=found.at)  # fmt: skip

        def begin(log: LogView | None) -> tuple[Head, Addition | None]:
            if log is not None:
                return same_header(log.header().line, found, log.head), None
            return _whole(data, digests_of(data.events), None)

        return self._write(found.session_id, begin)

    def load(self, session_id: str, *, after: int = 0) -> SessionData:
        after = max(0, after)

        def ask(log: LogView) -> SessionData:
            part = log.part(after) if not after or after < log.head.number else None
            events = () if part is None else tuple(part.lines[max(0, after + 1 - part.first) :])
            return log.state.data(events, after + 1, log.metadata)

        return self._read(session_id, ask)

    def save(self, data: SessionData) -> Head:
        """Write what is new of a session in full; see `Store`."""
        digests = digests_of(data.events)
        return self._write(data.session_id, lambda log: _whole(data, digests, None if log is None else log.state))

    def save_delta(self, session_id: str, delta: SessionDelta) -> Head:
        def add(log: LogView | None) -> tuple[Head, Addition | None]:
            if log is None:
                raise self._unknown(session_id)
            settled = settle(delta, log)
            if settled.is_empty:
                return settled.head, None
            notes = replace(
                log.state, leaf_id=settled.leaf_id, metadata=on_one_line(settled.metadata),
                created_at=delta.created_at or log.state.created_at,
                updated_at=delta.updated_at or log.state.updated_at,
            )  # fmt: skip
            return settled.head, Addition(log.state, notes, settled.lines, settled.digests)

        return self._write(session_id, add)

    def list(self, project_id: str | None = None) -> Sequence[SessionSummary]:
        """List the sessions; one that is damaged is told, and left out."""
        found = sorted(self._summaries(), key=lambda summary: summary.session_id)
        return [summary for summary in found if project_id is None or summary.project_id == project_id]

    def move(self, session_id: str, project_id: str) -> None:
        good_id(project_id, "project id")

        def change(log: LogView | None) -> tuple[None, Addition | None]:
            if log is None:
                raise self._unknown(session_id)
            if log.state.project_id == project_id:
                return None, None
            return None, Addition(log.state, replace(log.state, project_id=project_id), (), ())

        self._write(session_id, change)

    def prompt_deltas(self, session_id: str) -> Sequence[DeltaRow]:
        data = self.load(session_id)
        return put_together(session_id, data.project_id, rows_of(data.events))


def _whole(data: SessionData, digests: Sequence[bytes], state: LogState | None) -> tuple[Head, Addition | None]:
    """Decide what a session that is saved in full, whose events have these digests, adds to what is stored."""
    header = checked(data, None if state is None else state.head, digests)
    head = Head(len(digests), digests[-1].hex(), note(data.leaf_id, data.metadata))
    before = begun(header, digests[0]) if state is None else state
    notes = replace(
        before, project_id=data.project_id, leaf_id=data.leaf_id, metadata=on_one_line(data.metadata),
        created_at=data.created_at, updated_at=data.updated_at,
    )  # fmt: skip
    number = before.head.number
    if state is not None and notes == state and number == head.number:
        return head, None
    first = header.line if state is None else None
    return head, Addition(before, notes, data.events[number:], digests[number:], first)
