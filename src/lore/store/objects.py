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

Costs in requests: a save that goes on from this object's last look 1, after somebody else's 3, and 1 more for each
part; the first of a store 7 more, of an open one none. An object of a session holds 128 KiB of its log at most, which
each save sends again, and 110 bytes for each part of 128 KiB and more; no part is larger than 4 MiB and one event.
Loading: 1, and the parts, 16 at a time. Listing: 1 for each thousand sessions, and 1 for each that changed since this
object listed it. What is deleted leaves some 200 bytes, without which a writer that does not know could go on with it.

Threads: any method from any of them; no call waits for another. Fork: open a store behind it, not before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from lore.store.base import (
    Checkpoint,
    DamagedError,
    DamagedPlace,
    Salvaged,
    SessionSummary,
    Tell,
    UnknownSessionError,
    Verified,
)
from lore.store.deltas import Decide, bound_to, with_forks
from lore.store.jsonl_folder import name_of
from lore.store.jsonl_log import LogStore, LogView
from lore.store.jsonl_records import checkpoint_bytes, is_sealed, read_checkpoint, sealed
from lore.store.lines import good_id, is_id
from lore.store.objects_client import (
    Object,
    ObjectClient,
    TakenError,
    UnansweredWriteError,
    connected,
    is_plain,
    is_stamped,
    parsed,
)
from lore.store.objects_log import FRONT, ObjectLog, SessionObjects, Tries, folder_of, front_of, key_of, stored_of

_T = TypeVar("_T")
GRACE = 24 * 3600.0  # seconds after which a part that no session names was left by a writer that died


class _BoundObject(msgspec.Struct):
    client_key: str
    session_id: str
    born: str
    check: str = ""


class Objects(LogStore):
    """A store of objects below a prefix."""

    def __init__(self, client: ObjectClient, tell: Tell) -> None:
        """Look at the store's stamp; raises FormatError where it is a newer lore's, StoreError."""
        self.url = client.url
        self._client = client
        self._tell = tell
        self._fronts: dict[str, tuple[str, SessionSummary | None]] = {}
        self._sessions = SessionObjects(client, tell)

    @classmethod
    def open(cls, url: str, tell: Tell) -> Objects:
        """Open `s3://BUCKET/PREFIX?endpoint=…&region=…`; raises StoreError, FormatError."""
        if is_plain(url):
            tell(f"{parsed(url).url} is reached without encryption: who is on the way reads what is stored")
        return cls(connected(url), tell)

    # sessions

    def _unknown(self, session_id: str) -> UnknownSessionError:
        return UnknownSessionError(session_id, self.url)

    def _read(self, session_id: str, ask: Callable[[LogView], _T]) -> _T:
        return self._sessions.read(session_id, ask)

    def _write(self, session_id: str, decide: Decide[_T]) -> _T:
        return self._sessions.write(session_id, decide)

    def delete(self, session_id: str) -> tuple[str, ...]:
        if not self._exists(session_id):
            raise UnknownSessionError(session_id, self.url)
        gone = with_forks(session_id, {found.session_id: found.parent_session_id for found in self.list()})
        for name in gone:
            self._sessions.bury(name)
        return gone

    def _exists(self, session_id: str) -> bool:
        """Tell whether a session is there, be it damaged."""
        try:
            found = self._sessions.look(session_id)
        except DamagedError:
            return True
        return found is not None and found.stored.state is not None

    def _summaries(self) -> Iterator[SessionSummary]:
        """See above for what it costs."""
        self._sessions.ready()
        if not self._sessions.is_stamped and not is_stamped(self._client):
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
        born = self._sessions.named(session_id).stored.born
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
        self._sessions.ready()
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
        there = self._sessions.look(bound.session_id)
        lives = there is not None and there.stored.state is not None and there.stored.born == bound.born
        return bound.session_id if lives else None

    def checkpoint(self, session_id: str) -> Checkpoint | None:
        born = self._sessions.named(session_id).stored.born
        found = self._client.get(folder_of("checkpoints", session_id, born))
        return read_checkpoint(None if found is None else found.data)

    def save_checkpoint(self, session_id: str, checkpoint: Checkpoint) -> None:
        born = self._sessions.named(session_id).stored.born
        self._client.put(folder_of("checkpoints", session_id, born), checkpoint_bytes(checkpoint))

    # the store

    def verify(self, session_id: str | None = None) -> Verified:
        self._sessions.ready()
        if session_id is not None:
            if not self._exists(session_id):
                raise UnknownSessionError(session_id, self.url)
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
            events, damage = self._sessions.log(stored).damage()
        except DamagedError as error:
            return Verified(1, 0, (DamagedPlace(None, None, place, error.message, "the events in its parts"),))
        return Verified(1, events, tuple(damage))

    def salvage(self, session_id: str) -> Salvaged:
        return self._sessions.read(session_id, ObjectLog.salvaged)

    def vacuum(self) -> int:
        """Remove parts and checkpoints that no session names, a day after they were written."""
        self._sessions.ready()
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
        self._sessions.is_closed = True
