"""Sessions kept as logs, in a folder or among objects: how far one is stored, what a delta writes, and the calls of a
store that are the same in both.

A log is the header's line, then the events of each delta behind a record (`jsonl_records`), which says all that is
noted of the session: nothing of it is kept beside the log.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Raw
from msgspec.structs import asdict, replace

from lore.errors import Where
from lore.model.events import Saved
from lore.model.items import NULL
from lore.store.base import EMPTY, DamagedError, DeltaRow, SessionData, SessionState, SessionSummary
from lore.store.deltas import AddingStore, Addition, StoredView
from lore.store.jsonl_records import Fault, LogPart, on_one_line, with_lines
from lore.store.lines import NOTHING, put_together, rows_of

HINT = "`lore store verify` says what is damaged; `lore store export ID --salvage` writes what is left"
_T = TypeVar("_T")


class LogState(SessionState, frozen=True, kw_only=True):
    """What is known of a session; `torn` counts the bytes of its file behind `end`, where what is whole ends."""

    end: int
    torn: int = 0
    is_ended: bool = True
    metadata_at: int | None = None  # the byte of the record that has it

    @property
    def summary(self) -> SessionSummary:
        """What a list says of it."""
        return SessionSummary(**{name: getattr(self, name) for name in SessionSummary.__struct_fields__})


class LogView(StoredView):
    """A session whose log is read from the place on that is asked for."""

    place: str  # how its file or object is named to a person

    @property
    @abstractmethod
    def state(self) -> LogState:
        """The session's state; raises DamagedError."""

    @abstractmethod
    def part(self, after: int) -> LogPart:
        """Return the events that came after a number, perhaps with some before; raises DamagedError."""

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


def record(addition: Addition, start: int = 0, end: int | None = None) -> tuple[bytes, LogState]:
    """Return events of an addition behind one record, in one piece, and the state that it leads to."""
    addition = addition._replace(
        notes=replace(addition.notes, metadata=on_one_line(addition.notes.metadata)),
        lines=addition.lines[start:end], digests=addition.digests[start:end],
    )  # fmt: skip
    state, then = addition.state, addition.then()
    if not isinstance(state, LogState):  # of a new session: its header's
        state = LogState(**asdict(state), end=state.size)
    at = state.metadata_at if then.metadata == state.metadata and len(then.metadata) > REPEATED else None
    written = Saved(
        size=then.size - state.size, after=state.head.number, base=state.head.digest, log=state.size,
        digests=tuple(map(bytes.hex, addition.digests)), leaf_id=then.leaf_id, metadata_at=at,
        metadata=NULL if at is not None or then.metadata == EMPTY else Raw(then.metadata),
        project_id=then.project_id, created_at=then.created_at, updated_at=then.updated_at,
        turns=then.turns, used_at=then.used_at, byte=state.end + (not state.is_ended),
    )  # fmt: skip
    data = (b"" if state.is_ended else b"\n") + with_lines(written, addition.lines)
    fields = {name: getattr(then, name) for name in SessionState.__struct_fields__}
    return data, LogState(**fields, end=state.end + len(data), metadata_at=written.byte if at is None else at)


def pieces(addition: Addition) -> Iterator[tuple[bytes, LogState]]:
    """Yield what is written, the header apart, in groups behind a record each, and the state behind each."""
    lines, state, start, held = addition.lines, addition.state, 0, 0
    for end in range(1, len(lines) + 1):
        held += len(lines[end - 1])
        if end - start >= _GROUP or held >= _GROUP_BYTES or end == len(lines):
            data, state = record(addition._replace(state=state), start, end)
            yield data, state
            start, held = end, 0
    if not lines:
        yield record(addition)


# the calls of a store


class LogStore(AddingStore):
    """A store of logs. Where one is, how it is locked and written, is what is abstract here."""

    @abstractmethod
    def _read(self, session_id: str, ask: Callable[[LogView], _T]) -> _T:
        """Return what a function says of a session's log; raises UnknownSessionError, DamagedError."""

    @abstractmethod
    def _summaries(self) -> Iterable[SessionSummary]:
        """Yield what is known of each session; one that is damaged is told, and left out."""

    def load(self, session_id: str, *, after: int = 0) -> SessionData:
        after = max(0, after)

        def ask(log: LogView) -> SessionData:
            part = log.part(after) if not after or after < log.head.number else None
            events = () if part is None else tuple(part.lines[max(0, after + 1 - part.first) :])
            return log.state.data(events, after + 1)

        return self._read(session_id, ask)

    def list(self, project_id: str | None = None) -> Sequence[SessionSummary]:
        """List the sessions; one that is damaged is told, and left out."""
        found = sorted(self._summaries(), key=lambda summary: summary.session_id)
        return [summary for summary in found if project_id is None or summary.project_id == project_id]

    def prompt_deltas(self, session_id: str) -> Sequence[DeltaRow]:
        data = self.load(session_id)
        return put_together(session_id, data.project_id, rows_of(data.events))
