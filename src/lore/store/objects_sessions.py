"""One session among objects, read as it is now and changed on the condition that it is what was read.

A change is decided on what was seen last, which costs no request, and written on the condition that this is there
still; where it is not, or nobody answered, what is there is looked at, and the change decided anew: what was stored by
a write whose answer was lost is then known, and not stored twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from secrets import token_hex
from typing import NamedTuple, TypeVar

from lore.store.base import ConflictError, DamagedError, StoreError, Tell, UnknownSessionError
from lore.store.jsonl_folder import name_of
from lore.store.jsonl_log import LogState
from lore.store.lines import is_id
from lore.store.objects_client import Client, TakenError, UnansweredError, UnchangedError, is_stamped, make_stamp
from lore.store.objects_log import ObjectLog, PartRef, Stored, stored_of

ATTEMPTS = 100  # of one write, each of which another writer, or the same one, was faster than
UNANSWERED = 3  # times that a write is sent again which was not answered, beside those of the client
SLOWEST = 3600.0  # seconds that a writer has from its first part to the session's object: far less than GRACE
_REMEMBERED = 64  # sessions whose object is kept: it may be asked for again, or built on
_T = TypeVar("_T")


class Found(NamedTuple):
    """A session's object as it was read."""

    e_tag: str
    stored: Stored


class Change(NamedTuple):
    """What is to be stored of a session, and the parts that are written before it, by their keys."""

    stored: Stored
    parts: dict[str, bytes]


class SessionObjects:
    """The sessions of a store, each by its id."""

    def __init__(self, client: Client, tell: Tell) -> None:
        """Look at the store's stamp; raises FormatError where it is a newer lore's, StoreError."""
        self.client = client
        self.is_closed = False
        self._tell = tell
        self._seen: dict[str, Found] = {}
        self.is_stamped = is_stamped(client)

    def read(self, session_id: str, ask: Callable[[ObjectLog], _T]) -> _T:
        """Ask a session's log; where it was deleted while its parts were read, what is there by then."""
        found = self.named(session_id)
        while True:
            state = found.stored.state
            assert state is not None
            try:
                return ask(self.log(found.stored, state))
            except DamagedError:
                now = self.named(session_id)
                if now.stored.born == found.stored.born:
                    raise
                found = now

    def write(self, session_id: str, decide: Callable[[Stored | None], tuple[_T, Change | None]]) -> _T:
        """Do what `decide` makes of what is stored: its answer, and the change, None where there is none.

        It is first asked about what was seen last; nothing is refused, and nothing taken as done, but for what is
        stored now. Raises what it raises, ConflictError after too many other writers, UnansweredError.
        """
        self.ready()
        found = self._seen.get(name_of(session_id)) if is_id(session_id) else None
        is_fresh, tries = False, Tries()
        while True:
            if found is None and not is_fresh:
                found, is_fresh = self.look(session_id), True
            try:
                result, change = decide(None if found is None else found.stored)
            except StoreError:
                if is_fresh:
                    raise
                found = None
                continue
            if change is None:
                if is_fresh:
                    return result
                found = None
                continue
            try:
                self._put(session_id, found, change)
                return result
            except (TakenError, UnansweredError) as error:
                tries.again(error)
                found, is_fresh = self._look_behind(session_id, error), True
            if found is not None and found.stored.write == change.stored.write:
                return result

    def _look_behind(self, session_id: str, failure: TakenError | UnansweredError) -> Found | None:
        """Look what is stored behind a write that was not done, as far as is known."""
        try:
            return self.look(session_id)
        except StoreError:
            if isinstance(failure, UnansweredError):
                raise failure from None
            raise

    def _put(self, session_id: str, found: Found | None, change: Change) -> None:
        """Write a session's object, and its new parts before it."""
        if not self.is_stamped:
            make_stamp(self.client)
            self.is_stamped = True
        begun = time.time()
        for key, data in change.parts.items():
            self.client.put(key, data)
        if abs(time.time() - begun) > SLOWEST:
            raise StoreError(
                f"{self.client.url}: writing took more than an hour", hint="nothing is stored: do it again"
            )
        key, data = key_of(session_id), change.stored.encoded()
        e_tag = self.client.create(key, data) if found is None else self.client.replace(key, data, found.e_tag)
        if e_tag:  # else it is looked at before it is built on
            self._remember(session_id, Found(e_tag, change.stored))

    def ready(self) -> None:
        """Raise StoreError where the store was closed."""
        if self.is_closed:
            raise StoreError(f"the store {self.client.url} is closed", hint="open it again")

    def look(self, session_id: str) -> Found | None:
        """Return a session's object as it is now; None where there was never one. Costs a request."""
        self.ready()
        if not is_id(session_id):
            return None
        name, place = name_of(session_id), self.place_of(session_id)
        known = self._seen.get(name)
        try:
            found = self.client.get(key_of(session_id), unless=None if known is None else known.e_tag)
        except UnchangedError:
            return known
        if found is None:
            self._seen.pop(name, None)
            return None
        stored = stored_of(found.data, place)
        if stored.state is not None and stored.state.session_id != session_id:
            raise DamagedError(f"{place} says it is session {stored.state.session_id!r}", hint="restore a backup")
        return self._remember(session_id, Found(found.e_tag, stored))

    def named(self, session_id: str) -> Found:
        """Return a session's object; raises UnknownSessionError."""
        found = self.look(session_id)
        if found is None or found.stored.state is None:
            raise UnknownSessionError(session_id, self.client.url)
        return found

    def _remember(self, session_id: str, found: Found) -> Found:
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        self._seen[name_of(session_id)] = found
        return found

    def log(self, stored: Stored, state: LogState) -> ObjectLog:
        """Return a session's log, whose parts are fetched when they are asked for."""
        folder = folder_of("parts", state.session_id, stored.born)

        def fetch(parts: Sequence[PartRef]) -> list[bytes | None]:
            found = self.client.get_each([f"{folder}/{part.name}" for part in parts])
            return [None if each is None else each.data for each in found]

        return ObjectLog(stored, state, fetch, self.place_of(state.session_id))

    def place_of(self, session_id: str) -> str:
        """Return how a session's object is named to a person."""
        return f"{self.client.url} {key_of(session_id)}"

    def bury(self, session_id: str) -> None:
        """Leave a mark in the place of a session, and take its parts away; one that was made anew meanwhile stays."""
        key, place, mark = key_of(session_id), self.place_of(session_id), Stored(token_hex(8), token_hex(8))
        tries, first = Tries(), None
        while (found := self.client.get(key)) is not None:
            try:
                stored = stored_of(found.data, place)
            except DamagedError:
                stored = None
            if stored is not None and (stored.state is None or stored.born != (first or stored.born)):
                return
            first = None if stored is None else stored.born
            left = [each.key for kind in ("parts", "checkpoints")
                    for each in self.client.listed(f"{kind}/{name_of(session_id)}/")]  # fmt: skip
            try:
                self.client.replace(key, mark.encoded(), found.e_tag)
            except (TakenError, UnansweredError) as error:
                tries.again(error)
                continue  # what is there now says whether it was this one's own
            try:
                self.client.delete(left)
            except StoreError as error:
                self._tell(f"session {session_id} is deleted; `lore store vacuum` takes its parts: {error.message}")
            return


class Tries:
    """How often a write is done again."""

    def __init__(self) -> None:
        self._writes, self._unanswered = ATTEMPTS, UNANSWERED

    def again(self, error: TakenError | UnansweredError) -> None:
        """Count a write that did not happen, as far as is known; raises where it is not to be tried again."""
        self._writes -= 1
        if isinstance(error, UnansweredError):
            self._unanswered -= 1
            if self._unanswered < 0:
                raise error
        if self._writes <= 0:
            raise ConflictError("gave up after repeated write conflicts", hint="do it again")


def key_of(session_id: str) -> str:
    """Return the key of a session's object."""
    return f"heads/{name_of(session_id)}"


def folder_of(kind: str, session_id: str, born: str) -> str:
    """Return where a session keeps its parts, or the key of its checkpoint; another one after it was deleted."""
    return f"{kind}/{name_of(session_id)}/{born}"
