"""Is what an SQL store holds what was written? Each row against the one before it, derived rows against the events.

Out: every place that is damaged, and for each session which of its events are surely as they were written: an event
is, where its digest follows from the digest stored before it. One changed line is found alone, since the next event
follows from the stored digest; a changed digest is told from a changed line by whether the next event follows from
the derived one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from lore.store.base import Damage, DeltaRow, Head, Salvaged, StoreError
from lore.store.lines import SEED, Row, follow, note, put_together, read_header, rows_of
from lore.store.sql_tables import Event, SqlSession, Transaction, events_of, kept_rows


class Seen(NamedTuple):
    """What was looked at of a session, what is damaged, and the numbers of the events that are surely whole."""

    events: int
    damage: tuple[Damage, ...]
    whole: tuple[int, ...]


class _Found(NamedTuple):
    number: int | None
    place: str
    message: str


class _Walk:
    """Goes along the events of one session, and remembers what does not follow."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self.number, self.digest = 0, SEED  # the last event seen, and the digest stored with it
        self.derived: bytes | None = None  # the digest that it should have, where it has another
        self.size = self.count = self.beyond = 0
        self.good: list[int] = []
        self.found: list[_Found] = []
        self.rows: list[Row] = []
        self.header: bytes = b""

    def see(self, event: Event) -> None:
        """Look at the next event."""
        number, line, digest = event
        if number > self.head.number:
            self.beyond = number
            return
        if number == 1:
            self.header = line
        if number != self.number + 1:
            missing = _span(self.number + 1, number - 1)
            self.found.append(_Found(self.number + 1, f"events row {self.number + 1}", f"{missing} missing"))
            self.found.append(
                _Found(number, f"events row {number}", "it cannot be checked: what came before is missing")
            )
        else:
            self._follow(event)
        self.number, self.digest = number, digest
        self.size += len(line) + 1
        self.count += 1
        self.rows += rows_of((line,))

    def _follow(self, event: Event) -> None:
        number, line, digest = event
        derived = follow(self.digest, (line,))[0]
        if derived == digest:
            self.derived = None
            self.good.append(number)
        elif self.derived is not None and follow(self.derived, (line,))[0] == digest:
            self.found[-1] = _Found(number - 1, f"events row {number - 1}", "its digest is damaged, its line is whole")
            self.derived = None
            self.good += [number - 1, number]
        else:
            self.found.append(_Found(number, f"events row {number}", "its line is not as it was written"))
            self.derived = derived

    def end(self) -> None:
        """Compare with the stored head."""
        head = self.head
        if self.beyond:
            message = f"{_span(head.number + 1, self.beyond)} behind the stored head"
            self.found.append(_Found(head.number + 1, f"events row {head.number + 1}", message))
        if self.number < head.number:
            missing = _span(self.number + 1, head.number)
            self.found.append(_Found(self.number + 1, f"events row {self.number + 1}", f"{missing} missing"))
        elif self.digest.hex() != head.digest:
            self.found.append(_Found(None, "sessions row", "its digest is not that of the last event"))


def _span(first: int, last: int) -> str:
    return f"event {first} is" if first == last else f"events {first} to {last} are"


def verify_session(tx: Transaction, session: SqlSession, metadata: bytes) -> Seen:
    """Compare all that is stored of one session with what its events say. Costs O(bytes)."""
    walk, summary = _Walk(session.head), session.summary
    try:
        for part in events_of(tx, session.key):
            for event in part:
                walk.see(event)
        walk.end()
        found = [*walk.found, *_row(walk, session, metadata)]
        derived = put_together(summary.session_id, summary.project_id, walk.rows)
        found += _deltas(derived, kept_rows(tx, summary.session_id))
    except StoreError as error:  # a page that the database cannot read: what was read before it stands
        place = f"events behind row {walk.number}"
        found = [*walk.found, _Found(walk.number + 1, place, f"the database cannot read them: {error}")]
    saved = _recoverable(walk.good)
    return Seen(walk.count, tuple(Damage(summary.session_id, *each, saved) for each in found), tuple(walk.good))


def salvaged(tx: Transaction, session: SqlSession, metadata: bytes) -> Salvaged:
    """Return what is left of a session: up to a page that the database cannot read, where there is one."""
    whole = frozenset(verify_session(tx, session, metadata).whole)
    lines: list[bytes] = []
    with suppress(StoreError):
        for part in events_of(tx, session.key):
            lines += [row.line for row in part if row.number in whole]
    return Salvaged(tuple(lines), max(0, session.head.number - len(lines)))


def _row(walk: _Walk, session: SqlSession, metadata: bytes) -> Iterator[_Found]:
    """Compare the session's row with its events."""
    summary = session.summary
    if note(summary.leaf_id, metadata) != session.head.note:
        yield _Found(None, "sessions row", "leaf or metadata are not as they were written")
    if walk.number == session.head.number == walk.count and walk.size != summary.size:
        yield _Found(None, "sessions row", f"its size is {summary.size}, that of its events {walk.size}")
    if not walk.header:
        return
    try:
        header = read_header(walk.header)
    except StoreError as error:
        yield _Found(1, "events row 1", error.message)
        return
    if (header.session_id, header.parent_session_id) != (summary.session_id, summary.parent_session_id):
        yield _Found(1, "sessions row", "its id or its parent is not that of the header")


def _deltas(derived: Iterable[DeltaRow], kept: Iterable[DeltaRow]) -> Iterator[_Found]:
    """Compare rows of prompt deltas with those that the events give."""
    logged, there = {row.seq: row for row in derived}, {row.seq: row for row in kept}
    for seq in sorted(logged.keys() | there.keys()):
        if logged.get(seq) == there.get(seq):
            continue
        message = (
            "it is missing"
            if seq not in there
            else "no event says it"
            if seq not in logged
            else "it is not as the events say"
        )
        yield _Found(None, f"prompt_deltas row {seq}", message)


def _recoverable(good: list[int]) -> str:
    """Say which events are as they were written."""
    if not good:
        return "no event is surely as it was written"
    cuts = [0, *(at for at, (number, other) in enumerate(pairwise(good), 1) if other != number + 1), len(good)]
    spans = [(good[first], good[last - 1]) for first, last in pairwise(cuts)]
    words = [f"{first}" if first == last else f"{first} to {last}" for first, last in spans]
    some = " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    return f"event {some} is as it was written" if len(good) == 1 else f"events {some} are as they were written"


_OF = "session NOT IN (SELECT session FROM sessions)"
_ORPHANS = {
    "events": f"SELECT session, count(*) FROM events WHERE {_OF} GROUP BY session",  # noqa: S608
    "bindings": f"SELECT client_key, count(*) FROM bindings WHERE {_OF} GROUP BY client_key",  # noqa: S608
    "checkpoints": f"SELECT session, count(*) FROM checkpoints WHERE {_OF} GROUP BY session",  # noqa: S608
    "prompt_deltas": "SELECT session_id, count(*) FROM prompt_deltas WHERE session_id NOT IN "
                     "(SELECT session_id FROM sessions) GROUP BY session_id",
}  # fmt: skip


def orphans(tx: Transaction) -> list[Damage]:
    """Return the rows that belong to no session."""
    return [
        Damage(None, None, f"{table} of {name!r}", f"{count} rows belong to no session", "the rows themselves")
        for table, sql in _ORPHANS.items()
        for name, count in tx.execute(sql)
    ]
