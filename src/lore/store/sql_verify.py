"""Is what an SQL store holds what was written? Each row against the one before it, derived rows against the events.

Out: every place that is damaged, and for each session which of its events are surely as they were written: an event
is, where its digest follows from the digest stored before it. One changed line is found alone, since the next event
follows from the stored digest; a changed digest is told from a changed line by whether the next event follows from
the derived one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from lore.store.base import DamagedPlace, DeltaRow, Head, Salvaged, StoreError, Verified
from lore.store.lines import SEED, activity, follow, note, put_together, read_header, rows_of
from lore.store.sql_tables import Event, SqlSession, Transaction, events_of, kept_rows


class _Found(NamedTuple):
    number: int | None
    place: str
    message: str


class _Read(NamedTuple):
    """A session's events as far as the database can read them, which of them are surely whole, what is damaged."""

    events: list[Event]
    whole: list[int]
    found: list[_Found]


def verify_session(session: SqlSession) -> Verified:
    """Compare all that is stored of one session with what its events say. Costs O(bytes)."""
    read = _read(session)
    saved = _recoverable(read.whole)
    return Verified(
        1, len(read.events), tuple(DamagedPlace(session.summary.session_id, *each, saved) for each in read.found)
    )


def salvaged(session: SqlSession) -> Salvaged:
    """Return what is left of a session: up to a page that the database cannot read, where there is one."""
    read = _read(session)
    whole = frozenset(read.whole)
    lines = tuple(event.line for event in read.events if event.number in whole)
    return Salvaged(lines, max(0, session.head.number - len(lines)))


def _read(session: SqlSession) -> _Read:
    summary, head, noted = session.summary, session.summary.head, note(session.leaf_id, session.metadata)
    events, good, failure = list[Event](), list[int](), None
    try:
        for part in events_of(session.tx, session.key):
            events += part
    except StoreError as error:  # a page that the database cannot read: what was read before it stands
        failure = error
    inside = [event for event in events if event.number <= head.number]
    found = _compared(inside, good)
    if failure is None:
        found += _ends(events, inside, head)
        derived = put_together(summary.session_id, summary.project_id, rows_of(event.line for event in inside))
        try:
            found += [
                *_row(inside, session, noted, whole=not found),
                *_deltas(derived, kept_rows(session.tx, summary.session_id)),
            ]
        except StoreError as error:
            failure = error
    if failure is not None:
        last = inside[-1].number if inside else 0
        message = f"the database cannot read them: {failure}"
        found.append(_Found(last + 1, f"events behind row {last}", message))
    return _Read(inside, good, found)


def _compared(events: Iterable[Event], good: list[int]) -> list[_Found]:
    """Compare each event with the one before it; put down the numbers of those that follow."""
    found: list[_Found] = []
    last, before = 0, SEED  # the last event seen, and the digest stored with it
    derived: bytes | None = None  # the digest that it should have, where it has another
    for number, line, digest in events:
        place = f"events row {number}"
        if number != last + 1:
            found.append(_Found(last + 1, f"events row {last + 1}", f"{_span(last + 1, number - 1)} missing"))
            found.append(_Found(number, place, "it cannot be checked: what came before is missing"))
        elif (follows := follow(before, (line,))[0]) == digest:
            derived = None
            good.append(number)
        elif derived is not None and follow(derived, (line,))[0] == digest:
            found[-1] = _Found(last, f"events row {last}", "its digest is damaged, its line is whole")
            derived = None
            good += [last, number]
        else:
            found.append(_Found(number, place, "its line is not as it was written"))
            derived = follows
        last, before = number, digest
    return found


def _ends(events: Sequence[Event], inside: Sequence[Event], head: Head) -> Iterator[_Found]:
    """Compare the last event with the stored head."""
    following = head.number + 1
    if len(events) > len(inside):
        yield _Found(
            following, f"events row {following}", f"{_span(following, events[-1].number)} behind the stored head"
        )
    last, digest = (inside[-1].number, inside[-1].digest) if inside else (0, SEED)
    if last < head.number:
        yield _Found(last + 1, f"events row {last + 1}", f"{_span(last + 1, head.number)} missing")
    elif digest.hex() != head.digest:
        yield _Found(None, "sessions row", "its digest is not that of the last event")


def _span(first: int, last: int) -> str:
    return f"event {first} is" if first == last else f"events {first} to {last} are"


def _row(events: Sequence[Event], session: SqlSession, noted: str, *, whole: bool) -> Iterator[_Found]:
    """Compare the session's row with its events, of which `whole` says that none is damaged."""
    summary, count = session.summary, len(events)
    if noted != session.head.note:
        yield _Found(None, "sessions row", "leaf or metadata are not as they were written")
    size = sum(len(event.line) for event in events) + count
    if count and events[-1].number == session.head.number == count and size != summary.size:
        yield _Found(None, "sessions row", f"its size is {summary.size}, that of its events {size}")
    if not events or events[0].number != 1:
        return
    try:
        header = read_header(events[0].line)
    except StoreError as error:
        yield _Found(1, "events row 1", error.message)
        return
    if (header.session_id, header.parent_session_id) != (summary.session_id, summary.parent_session_id):
        yield _Found(1, "sessions row", "its id or its parent is not that of the header")
    if (header.user_id, header.agent_id) != (summary.user_id, summary.agent_id):
        yield _Found(1, "sessions row", "its user or its agent is not that of the header")
    if whole and activity([event.line for event in events]) != (summary.turns, summary.used_at):
        yield _Found(None, "sessions row", "its turns or its last use are not those of its events")


def _deltas(derived: Iterable[DeltaRow], kept: Iterable[DeltaRow]) -> Iterator[_Found]:
    """Compare rows of prompt deltas with those that the events give."""
    logged, there = {row.seq: row for row in derived}, {row.seq: row for row in kept}
    for seq in sorted(logged.keys() | there.keys()):
        if logged.get(seq) == there.get(seq):
            continue
        message = "it is not as the events say" if seq in there else "it is missing"
        message = message if seq in logged else "no event says it"
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


def orphans(tx: Transaction) -> list[DamagedPlace]:
    """Return the rows that belong to no session."""
    return [
        DamagedPlace(None, None, f"{table} of {name!r}", f"{count} rows belong to no session", "the rows themselves")
        for table, sql in _ORPHANS.items()
        for name, count in tx.execute(sql)
    ]
