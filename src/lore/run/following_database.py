"""Follow a session of a database that is being written: its timeline, or its events, as they come.

In: `DATABASE#SESSION`, or a database with one session; what waits between two looks. Out: what `following.py` gives of
a log. Rules: the database is only read, and only where its stamps or those of its logs of changes say that it is
another one than before; the session is then read anew, since rows change as well as they are added, and what differs
is shown; as long as reading took, times `REST`, nobody looks again. Cost: O(session) a change, in bytes and memory.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import TypeAlias

from msgspec import Raw

from lore.errors import LoreError
from lore.model import events as e
from lore.model.codes import Problem
from lore.model.results.store import Followed, InjectedResult, TurnResult
from lore.recording import corpus
from lore.recording.agents import databases
from lore.recording.base import Problems, collected_seldom
from lore.recording.opening import Options
from lore.recording.tailing import Say, Wait, every
from lore.report.plain import counted
from lore.report.timeline import Row, rows
from lore.run.folding import LogFold
from lore.run.following import LogCursor, Note, Shown

REST = 10
_Key: TypeAlias = tuple[str | int, ...]


def follow_database_timeline(
    path: str, options: Options, say: Say, *, wait: Wait = every, clock: Callable[[], float] = time.monotonic
) -> Iterator[Shown]:  # fmt: skip
    """Yield the main chain's timeline as it stands, then rows that are new or that changed."""
    known: dict[_Key, Row] = {}
    problems = 0
    begun = False
    for folding, _ in _looks(path, options, say, wait, clock):
        folded = folding.result()
        found = {_key(row): row for row in rows(folded.result, folded.shown)}
        gone = known.keys() - found.keys()
        if gone:
            yield Note(f"{counted(len(gone), 'row')} taken back")
        for key, row in found.items():
            if known.get(key) != row and not (begun and isinstance(row, TurnResult) and row.state == "open"):
                yield row
        yield from folded.result.problems[problems:]
        known, problems, begun = found, len(folded.result.problems), True
        yield None


def _key(row: Row) -> _Key:
    """Return what a row is known by from one look to the next."""
    match row:
        case TurnResult():
            return "turn", row.turn
        case InjectedResult():
            return row.kind, row.number, row.insert_at
        case _:
            return "item", row.uuid


def follow_database_events(
    path: str, options: Options, say: Say, *, since: LogCursor | None = None, wait: Wait = every,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Followed | Problem | None]:  # fmt: skip
    """Yield a snapshot, or what came after `since`, then events that are new; a snapshot where earlier ones changed.

    A cursor's epoch is a digest of the event that it counts last: where that is another one now, a snapshot follows.
    """
    known: list[bytes] = []
    problems = 0
    for folding, events in _looks(path, options, say, wait, clock):
        at = len(known)
        if since is not None:
            at, since = (since.number if _cursor(events, since.number) == since else 0), None
        elif known != events[:at]:
            at = 0
        if not at:
            yield Followed(cursor=str(_cursor(events, len(events))), snapshot=folding.result().result)
        else:
            for number in range(at + 1, len(events) + 1):
                yield Followed(cursor=str(_cursor(events, number)), event=Raw(events[number - 1]))
        found = folding.result().result.problems
        yield from found[problems:]
        known, problems = events, len(found)
        yield None


def _cursor(events: list[bytes], number: int) -> LogCursor | None:
    """Return the cursor behind so many events; None where there are fewer."""
    if not 0 < number <= len(events):
        return LogCursor("0" * 8, 0) if number == len(events) else None
    return LogCursor(blake2b(events[number - 1], digest_size=4).hexdigest(), number)


def _looks(
    path: str, options: Options, say: Say, wait: Wait, clock: Callable[[], float]
) -> Iterator[tuple[LogFold, list[bytes]]]:
    """Yield the session folded, with its events, each time that the database was written to."""
    database, session = path.rpartition("#")[::2] if corpus.is_in_database(path) else (path, "")
    before: databases.Stamps | None = None
    rests, gone = 0.0, False
    while True:
        stamps = before if clock() < rests else _stamps(database)
        if stamps is None and before is None:
            raise LoreError(f"cannot read {corpus.show(database)}: it is gone, or too large to copy")
        if stamps is None and not gone:
            say(f"{corpus.show(database)} is gone; waiting for it")
        gone, stamps = stamps is None, stamps or before
        if stamps != before:
            began = clock()
            look = _look(f"{database}#{session}" if session else path, options, first=before is None)
            before, rests = stamps, clock() + REST * (clock() - began)
            if look is not None:
                yield look
        if not wait():
            return


def _stamps(database: str) -> databases.Stamps | None:
    """Return what a database is known by as long as nobody writes to it; None where it is not there."""
    try:
        return databases.stamps(database) if os.path.isfile(database) else None
    except databases.ERRORS:
        return None


def _look(path: str, options: Options, *, first: bool) -> tuple[LogFold, list[bytes]] | None:
    """Fold the session as it stands; None where it cannot be read any more, which the next look may mend."""
    try:
        opened = options.open(path, Problems())
        folding = LogFold(opened)
        events: list[bytes] = []
        with collected_seldom():
            for event in folding.take(folding.recording.reads()):
                events.append(e.encode(event))  # noqa: PERF401 - the fold goes on as events are taken
    except LoreError:
        if first:
            raise
        return None
    return folding, events
