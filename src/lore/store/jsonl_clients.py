"""Which session a client means: `bindings.jsonl`, one line a binding, of which a client's last holds.

A line without a session (null) ends a binding. Each has a check; behind a damaged line only what later lines say is
sure. Read anew whenever the file changed, so that what another process bound is known here at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from lore.errors import Where
from lore.model.canonical import encode
from lore.store.base import Damage, DamagedError, StoreError, Tell
from lore.store.jsonl_folder import (
    BINDINGS,
    LOG,
    TORN,
    Folder,
    append,
    put_aside,
    read_range,
    reading,
    stamp_of,
    synchronise_folder,
    writing,
)  # fmt: skip
from lore.store.jsonl_log import unread
from lore.store.jsonl_records import is_sealed, sealed


class _Line(msgspec.Struct):
    client_key: str
    session_id: str | None
    check: str


_DECODER = msgspec.json.Decoder(_Line)


class Known(NamedTuple):
    """What the file says: each client's session, which of these are sure, the damaged lines, where it ends."""

    sessions: Mapping[str, str | None]
    sure: frozenset[str]
    damaged: tuple[int, ...]
    end: int
    size: int


NOBODY = Known({}, frozenset(), (), 0, 0)


class Clients:
    """The bindings of one folder."""

    def __init__(self, folder: Folder, patience: float, tell: Tell) -> None:
        self._folder = folder
        self.path = folder.file(BINDINGS + LOG)
        self._patience = patience
        self._tell = tell
        self._seen: tuple[tuple[int, ...], Known] = (), NOBODY

    def session(self, client_key: str) -> str | None:
        """Return a client's session; raises DamagedError where a damaged line may have said another."""
        return self._sure(self.known(), client_key)

    def _sure(self, known: Known, client_key: str) -> str | None:
        if known.damaged and client_key not in known.sure:
            raise DamagedError(
                "a damaged line may say which session the client means",
                hint="bind the client anew, with replace", where=Where(self.path, None, known.damaged[-1]),
            )  # fmt: skip
        return known.sessions.get(client_key)

    def known(self) -> Known:
        """Return what the file says."""
        stamp, known = self._seen
        try:
            if stamp_of(os.stat(self.path, follow_symlinks=False)) != stamp:
                with reading(self.path, self._patience) as descriptor:
                    stamp, known = self._seen = stamp_of(os.fstat(descriptor)), _read(descriptor)
        except FileNotFoundError:
            return NOBODY
        return known

    def change(self, wanted: Mapping[str, str | None], *, unless_other: bool = False) -> str | None:
        """Bind clients; with `unless_other` nothing is done where one has another session, which is returned."""
        is_new, repair = not os.path.lexists(self.path), ""
        with writing(self.path, self._patience, create=True) as descriptor:
            known, lines = _read(descriptor), list[bytes]()
            for key, session_id in wanted.items():
                other = self._sure(known, key) if unless_other else None
                if other not in (None, session_id):
                    return other
                if known.sessions.get(key) != session_id or key not in known.sure:
                    text = b'{"client_key":%b,"session_id":%b' % (encode(key), encode(session_id))
                    lines.append(sealed(text) + b"\n")
            if known.end < known.size:
                aside = self._folder.file(BINDINGS + TORN)
                repair = put_aside(descriptor, known.end, known.size, self.path, aside, self._patience)
            append(descriptor, b"".join(lines), known.end, self.path)
        if is_new:
            synchronise_folder(self._folder.path)
        if repair:
            self._tell(repair)
        return None

    def forget(self, sessions: Iterable[str]) -> None:
        """End the bindings to sessions that are deleted."""
        gone = set(sessions)
        keys = [key for key, session_id in self.known().sessions.items() if session_id in gone]
        if keys:
            self.change(dict.fromkeys(keys))

    def verify(self) -> tuple[list[Damage], list[str]]:
        """Say what is damaged, and which bindings lead nowhere."""
        try:
            known = self.known()
        except StoreError as error:
            return [unread(self.path, error)], []
        damage = [
            Damage(None, None, f"{self.path}, byte {at}", "a binding is damaged", "the bindings behind it")
            for at in known.damaged
        ]
        notes: list[str] = []
        if known.end < known.size:
            notes.append(f"{self.path}: the last {known.size - known.end:,} bytes are no whole binding")
        logs = set(self._folder.logs())
        for key, session_id in sorted(known.sessions.items()):
            if session_id is not None and self._folder.log(session_id) not in logs:
                notes.append(f"client {key!r} is bound to session {session_id!r}, which is not there")
        return damage, notes


def _read(descriptor: int) -> Known:
    data = read_range(descriptor, 0, os.fstat(descriptor).st_size)
    end = data.rfind(b"\n") + 1
    sessions: dict[str, str | None] = {}
    sure, damaged, at = set[str](), list[int](), 0
    for line in data[:end].split(b"\n")[:-1]:
        try:
            found = _DECODER.decode(line if is_sealed(line) else b"")
        except ValueError:
            sure.clear()
            damaged.append(at)
        else:
            sessions[found.client_key] = found.session_id
            sure.add(found.client_key)
        at += len(line) + 1
    return Known(sessions, frozenset(sure), tuple(damaged), end, len(data))
