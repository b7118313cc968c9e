"""`s3://BUCKET/PREFIX?endpoint=…`: sessions as objects of a bucket, for machines that share no server but it.

Any service that speaks S3's protocol and honours conditional writes (`If-None-Match: *`, `If-Match`), which a new store
tries out before anything is kept in it. Below the prefix:

    lore-store.json                 says that it is lore's, and of which version
    heads/NAME                      a session: how far it is stored, and the latest bytes of its log (`objects_log`)
    parts/NAME/BORN/…               what of its log came before, written once, never changed
    checkpoints/NAME/BORN           a folded state
    clients/KEY                     which session a client means

What is promised, where the service keeps what S3 does (what it acknowledged is durable, a read sees the last write):
- a delta is one write of the session's object, on the condition that it is what was read: whole or not at all, and
  durable when the call returns. Of two writers on one base one wins, the other gets ConflictError, as everywhere;
  writers of different sessions never meet. A write whose answer was lost is looked at, and not done twice;
- a reader sees a session as it was at one moment, the newest that was acknowledged before its call began.

What is not: `delete` takes forks one by one, each at once, so that one who looks meanwhile may find some of them gone;
a fork that is made meanwhile stays. `list` and `verify` see each session at a moment of its own. Whoever may read the
bucket reads every session, and may see in the keys what they are called.

A change is decided on what was seen last, which costs no request, and written on the condition that this is there
still; where it is not, or nobody answered, what is there is looked at, and the change decided anew: what was stored by
a write whose answer was lost is then known, and not stored twice.

Costs in requests: a save that goes on from this object's last look 1, after somebody else's 3, and 1 more for each
part; the first of a store 7 more, of an open one none. An object of a session holds 128 KiB of its log at most, which
each save sends again, and 110 bytes for each part of 128 KiB and more; no part is larger than 4 MiB and one event.
Loading: 1, and the parts, 16 at a time. Listing: 1 for each thousand sessions, and 1 for each that changed since this
object listed it. What is deleted leaves some 200 bytes, without which a writer that does not know could go on with it.

Threads: any method from any of them; no call waits for another. Fork: open a store behind it, not before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from secrets import token_hex
from typing import NamedTuple, TypeVar

import msgspec

from lore.store.base import (
    Checkpoint,
    DamagedError,
    DamagedPlace,
    Salvaged,
    SessionSummary,
    StoreError,
    Tell,
    UnknownSessionError,
    Verified,
)
from lore.store.deltas import Decide, bound_to, with_forks
from lore.store.jsonl_folder import name_of
from lore.store.jsonl_log import LogStore
from lore.store.jsonl_records import checkpoint_bytes, is_sealed, read_checkpoint, sealed
from lore.store.lines import good_id, is_id
from lore.store.objects_client import (
    Object,
    ObjectClient,
    TakenError,
    Tries,
    UnansweredWriteError,
    UnchangedError,
    connected,
    is_plain,
    is_stamped,
    make_stamp,
    parsed,
)
from lore.store.objects_log import (
    FRONT,
    ObjectLog,
    PartRef,
    StoredObject,
    folder_of,
    front_of,
    key_of,
    packed,
    stored_of,
)  # fmt: skip

_T = TypeVar("_T")
GRACE = 24 * 3600.0  # seconds after which a part that no session names was left by a writer that died
SLOWEST = 3600.0  # seconds that a writer has from its first part to the session's object: far less than GRACE
_REMEMBERED = 64  # sessions whose object is kept: it may be asked for again, or built on


class _BoundObject(msgspec.Struct):
    client_key: str
    session_id: str
    born: str
    check: str = ""


class ReadObject(NamedTuple):
    """A session's object as it was read."""

    e_tag: str
    stored: StoredObject


class Objects(LogStore):
    """A store of objects below a prefix."""

    def __init__(self, client: ObjectClient, tell: Tell) -> None:
        """Look at the store's stamp; raises FormatError where it is a newer lore's, StoreError."""
        self.url = client.url
        self._client = client
        self._tell = tell
        self._is_closed = False
        self._fronts: dict[str, tuple[str, SessionSummary | None]] = {}
        self._seen: dict[str, ReadObject] = {}
        self._is_stamped = is_stamped(client)

    @classmethod
    def open(cls, url: str, tell: Tell) -> Objects:
        """Open `s3://BUCKET/PREFIX?endpoint=…&region=…`; raises StoreError, FormatError."""
        if is_plain(url):
            tell(f"{parsed(url).url} is reached without encryption: who is on the way reads what is stored")
        return cls(connected(url), tell)

    # sessions

    def _unknown(self, session_id: str) -> UnknownSessionError:
        return UnknownSessionError(session_id, self.url)

    def _read(self, session_id: str, ask: Callable[[ObjectLog], _T]) -> _T:
        """Ask a session's log; where it was deleted while its parts were read, what is there by then."""
        found = self._named(session_id)
        while True:
            try:
                return ask(self._log(found.stored))
            except DamagedError:
                now = self._named(session_id)
                if now.stored.born == found.stored.born:
                    raise
                found = now

    def _write(self, session_id: str, decide: Decide[_T]) -> _T:
        """Store what `decide` adds to a session's log, and return its answer; see `LogStore`.

        It is first asked about what was seen last; nothing is refused, and nothing taken as done, but for what is
        stored now. Raises what it raises, ConflictError after too many other writers, UnansweredWriteError.
        """
        self._ready()
        found = self._seen.get(key_of(session_id)) if is_id(session_id) else None
        is_fresh, tries = False, Tries()
        while True:
            if found is None and not is_fresh:
                found, is_fresh = self._look(session_id), True
            stored = None if found is None else found.stored
            try:
                result, addition = decide(None if stored is None or stored.state is None else self._log(stored))
            except StoreError:
                if is_fresh:
                    raise
                found = None
                continue
            if addition is None:
                if is_fresh:
                    return result
                found = None
                continue
            then, parts = packed(stored, addition)
            try:
                self._put(session_id, found, then, parts)
                return result
            except (TakenError, UnansweredWriteError) as error:
                tries.again(error)
                found, is_fresh = self._look_behind(session_id, error), True
            if found is not None and found.stored.write == then.write:
                return result

    def delete(self, session_id: str) -> tuple[str, ...]:
        if not self._exists(session_id):
            raise self._unknown(session_id)
        gone = with_forks(session_id, {found.session_id: found.parent_session_id for found in self.list()})
        for name in gone:
            self._bury(name)
        return gone

    def _exists(self, session_id: str) -> bool:
        """Tell whether a session is there, be it damaged."""
        try:
            found = self._look(session_id)
        except DamagedError:
            return True
        return found is not None and found.stored.state is not None

    def _summaries(self) -> Iterator[SessionSummary]:
        """See above for what it costs."""
        self._ready()
        if not self._is_stamped and not is_stamped(self._client):
            self._tell(f"{self.url} holds no store yet")
        listed = list(self._client.listed("heads/"))
        new = [each.key for each in listed if self._fronts.get(each.key, ("", None))[0] != (each.e_tag or "-")]
        fetched = dict(zip(new, self._client.get_each(new, most=FRONT), strict=True))
        for each in listed:
            if (found := fetched.get(each.key)) is not None:
                try:
                    self._fronts[each.key] = found.e_tag, self._summary(each.key, found)
                except DamagedError as error:
                    self._tell(f"{error.where}: {error.message}; it is not listed")
                    continue
            elif each.key in fetched:  # it was deleted meanwhile
                continue
            if (summary := self._fronts[each.key][1]) is not None:
                yield summary

    def _summary(self, key: str, found: Object) -> SessionSummary | None:
        """Return what an object says, whose first bytes were read; None where the session was deleted."""
        front = front_of(found.data, f"{self.url} {key}")
        if front is None and (whole := self._client.get(key)) is not None:
            state = stored_of(whole.data, f"{self.url} {key}").state
            return None if state is None else state.summary
        return None if front is None else front.summary

    # clients, checkpoints

    def bind(self, client_key: str, session_id: str, *, replace: bool = False) -> None:
        good_id(client_key, "client key")
        born = self._named(session_id).stored.born
        text = msgspec.json.encode(_BoundObject(client_key, session_id, born)).removesuffix(b',"check":""}')
        key, data = f"clients/{name_of(client_key)}", sealed(text)
        tries = Tries()
        while True:
            found = self._client.get(key)
            other = None if found is None or replace else self._meant(found, client_key)
            if other == session_id or (found is not None and found.data == data):
                return
            if other is not None:
                raise bound_to(other)
            try:
                if found is None:
                    self._client.create(key, data)
                else:
                    self._client.replace(key, data, found.e_tag)
            except (TakenError, UnansweredWriteError) as error:
                tries.again(error)
            else:
                return

    def resolve(self, client_key: str) -> str | None:
        """Return the session that a client means, and that is there; see `Store`. Costs two requests."""
        self._ready()
        found = self._client.get(f"clients/{name_of(client_key)}") if is_id(client_key) else None
        return None if found is None else self._meant(found, client_key)

    def _meant(self, found: Object, client_key: str) -> str | None:
        """Return the session of a binding, None where it was deleted since."""
        try:
            bound = msgspec.json.decode(found.data if is_sealed(found.data) else b"", type=_BoundObject)
        except ValueError:
            raise DamagedError(
                f"what says which session client {client_key!r} means is damaged",
                hint="bind the client anew, with replace",
            ) from None
        there = self._look(bound.session_id)
        lives = there is not None and there.stored.state is not None and there.stored.born == bound.born
        return bound.session_id if lives else None

    def checkpoint(self, session_id: str) -> Checkpoint | None:
        born = self._named(session_id).stored.born
        found = self._client.get(folder_of("checkpoints", session_id, born))
        return read_checkpoint(None if found is None else found.data)

    def save_checkpoint(self, session_id: str, checkpoint: Checkpoint) -> None:
        born = self._named(session_id).stored.born
        self._client.put(folder_of("checkpoints", session_id, born), checkpoint_bytes(checkpoint))

    # the store

    def verify(self, session_id: str | None = None) -> Verified:
        self._ready()
        if session_id is not None:
            if not self._exists(session_id):
                raise self._unknown(session_id)
            keys = [key_of(session_id)]
        else:
            keys = [each.key for each in self._client.listed("heads/")]
        return Verified.of(map(self._verified, keys))

    def _verified(self, key: str) -> Verified | None:
        """Recompute every digest of a session; None where it was deleted."""
        place = f"{self.url} {key}"
        try:
            found = self._client.get(key)
            stored = None if found is None else stored_of(found.data, place)
            if stored is None or stored.state is None:
                return None
            if key_of(stored.state.session_id) != key:
                message = f"the object says it is session {stored.state.session_id!r}"
                return Verified(1, 0, (DamagedPlace(None, None, place, message, "all events"),))
            events, damage = self._log(stored).damage()
        except DamagedError as error:
            return Verified(1, 0, (DamagedPlace(None, None, place, error.message, "the events in its parts"),))
        return Verified(1, events, tuple(damage))

    def salvage(self, session_id: str) -> Salvaged:
        return self._read(session_id, ObjectLog.salvaged)

    def vacuum(self) -> int:
        """Remove parts and checkpoints that no session names, a day after they were written."""
        self._ready()
        old = time.time() - GRACE
        left = [each for kind in ("parts/", "checkpoints/") for each in self._client.listed(kind)
                if each.modified.timestamp() < old]  # fmt: skip
        named: dict[str, frozenset[str] | None] = {}
        gone = list[str]()
        size = 0
        for each in left:
            name = each.key.split("/")[1]
            if name not in named:
                named[name] = self._named_parts(name)
            keys = named[name]
            if keys is not None and each.key not in keys:
                gone.append(each.key)
                size += each.size
        self._client.delete(gone)
        return size

    def _named_parts(self, name: str) -> frozenset[str] | None:
        """Return the keys that a session's object stands for; None where that cannot be known."""
        found = self._client.get(f"heads/{name}")
        try:
            stored = None if found is None else stored_of(found.data, f"{self.url} heads/{name}")
        except DamagedError:
            return None
        if stored is None or stored.state is None:
            return frozenset()
        folder = f"parts/{name}/{stored.born}"
        return frozenset((*(f"{folder}/{part.name}" for part in stored.parts), f"checkpoints/{name}/{stored.born}"))

    def close(self) -> None:
        self._is_closed = True

    # a session's objects

    def _look_behind(self, session_id: str, failure: TakenError | UnansweredWriteError) -> ReadObject | None:
        """Look what is stored behind a write that was not done, as far as is known."""
        try:
            return self._look(session_id)
        except StoreError:
            if isinstance(failure, UnansweredWriteError):
                raise failure from None
            raise

    def _put(self, session_id: str, found: ReadObject | None, stored: StoredObject, parts: dict[str, bytes]) -> None:
        """Write a session's object, and its new parts before it."""
        if not self._is_stamped:
            make_stamp(self._client)
            self._is_stamped = True
        begun = time.time()
        folder = folder_of("parts", session_id, stored.born)
        for name, data in parts.items():
            self._client.put(f"{folder}/{name}", data)
        if abs(time.time() - begun) > SLOWEST:
            raise StoreError(f"{self.url}: writing took more than an hour", hint="nothing is stored: do it again")
        key, data = key_of(session_id), stored.encoded()
        e_tag = self._client.create(key, data) if found is None else self._client.replace(key, data, found.e_tag)
        if e_tag:  # else it is looked at before it is built on
            self._remember(key, ReadObject(e_tag, stored))

    def _ready(self) -> None:
        """Raise StoreError where the store was closed."""
        if self._is_closed:
            raise StoreError(f"the store {self.url} is closed", hint="open it again")

    def _look(self, session_id: str) -> ReadObject | None:
        """Return a session's object as it is now; None where there was never one. Costs a request."""
        self._ready()
        if not is_id(session_id):
            return None
        key = key_of(session_id)
        known = self._seen.get(key)
        try:
            found = self._client.get(key, unless=None if known is None else known.e_tag)
        except UnchangedError:
            return known
        if found is None:
            self._seen.pop(key, None)
            return None
        stored = stored_of(found.data, f"{self.url} {key}")
        if stored.state is not None and stored.state.session_id != session_id:
            raise DamagedError(
                f"{self.url} {key} says it is session {stored.state.session_id!r}", hint="restore a backup"
            )
        return self._remember(key, ReadObject(found.e_tag, stored))

    def _named(self, session_id: str) -> ReadObject:
        """Return a session's object; raises UnknownSessionError."""
        found = self._look(session_id)
        if found is None or found.stored.state is None:
            raise self._unknown(session_id)
        return found

    def _remember(self, key: str, found: ReadObject) -> ReadObject:
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        self._seen[key] = found
        return found

    def _log(self, stored: StoredObject) -> ObjectLog:
        """Return the log of a session that is there, whose parts are fetched when they are asked for."""
        assert stored.state is not None
        session_id = stored.state.session_id
        folder = folder_of("parts", session_id, stored.born)

        def fetch(parts: Sequence[PartRef]) -> list[bytes | None]:
            found = self._client.get_each([f"{folder}/{part.name}" for part in parts])
            return [None if each is None else each.data for each in found]

        return ObjectLog(stored, stored.state, fetch, f"{self.url} {key_of(session_id)}")

    def _bury(self, session_id: str) -> None:
        """Leave a mark in the place of a session, and take its parts away; one that was made anew meanwhile stays."""
        key, mark = key_of(session_id), StoredObject(token_hex(8), token_hex(8))
        tries, first = Tries(), None
        while (found := self._client.get(key)) is not None:
            try:
                stored = stored_of(found.data, f"{self.url} {key}")
            except DamagedError:
                stored = None
            if stored is not None and (stored.state is None or stored.born != (first or stored.born)):
                return
            first = None if stored is None else stored.born
            left = [each.key for kind in ("parts", "checkpoints")
                    for each in self._client.listed(f"{kind}/{name_of(session_id)}/")]  # fmt: skip
            try:
                self._client.replace(key, mark.encoded(), found.e_tag)
            except (TakenError, UnansweredWriteError) as error:
                tries.again(error)
                continue  # what is there now says whether it was this one's own
            try:
                self._client.delete(left)
            except StoreError as error:
                self._tell(f"session {session_id} is deleted; `lore store vacuum` takes its parts: {error.message}")
            return
