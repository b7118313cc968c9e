"""Say what of a folder of logs is damaged, where, and what can be recovered; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lore.formats.lines import fault
from lore.store.base import Damage, DamagedError, Salvaged, StoreError, Verified
from lore.store.jsonl_clients import Clients
from lore.store.jsonl_files import read_range, read_small, reading
from lore.store.jsonl_folder import TORN, Folder
from lore.store.jsonl_records import Part, is_record
from lore.store.jsonl_state import Look

_ALL = 1 << 62


class _Judged(NamedTuple):
    events: int
    damage: list[Damage]
    notes: list[str]


def judge(folder: Folder, paths: Iterable[str], clients: Clients | None, patience: float) -> Verified:
    """Recompute every digest of these logs, and read the bindings where they are given. Costs O(bytes)."""
    found = [log for path in paths if (log := _log(folder, path, patience)) is not None]
    damage = [each for log in found for each in log.damage]
    notes = [each for log in found for each in log.notes]
    if clients is not None:
        damage += _bindings(folder, clients, notes)
        left = len(list(folder.leftovers()))
        notes += (
            [f"{left:,} files are being written, or were left by writers that died: `lore store vacuum` removes these"]
            if left
            else []
        )
    return Verified(len(found), sum(log.events for log in found), tuple(damage), (*notes, *folder.readers()))


def _log(folder: Folder, path: str, patience: float) -> _Judged | None:
    """Judge a log; None where it was deleted meanwhile."""
    try:
        with reading(path, patience) as descriptor:
            look = Look(descriptor, path)
            part = look.whole()
            session_id, damage = _header(look, path)
            torn = read_range(descriptor, part.end, _ALL)
    except FileNotFoundError:
        return None
    except StoreError as error:  # a symbolic link, a disk that does not answer, a lock that is held
        return _Judged(0, [_unread(path, error)], [])
    for found in part.faults:
        damage.append(Damage(session_id, found.number, f"{path}, byte {found.byte}", found.message, found.recoverable))
    notes = list(_notes(path, part, torn))
    aside = folder.beside(path, TORN)
    try:
        notes += _kept(aside)
    except StoreError as error:
        damage.append(_unread(aside, error))
    return _Judged(len(part.lines), damage, notes)


def salvaged(path: str, patience: float) -> Salvaged:
    """Return what is left of a log; raises FileNotFoundError, StoreError where it cannot be read at all."""
    with reading(path, patience) as descriptor:
        part = Look(descriptor, path).whole()
    damaged = {fault.number for fault in part.faults}
    lines = [line for number, line in enumerate(part.lines, 1) if number not in damaged and line and not fault(line)]
    return Salvaged(tuple(lines), max(part.number, len(part.lines)) - len(lines))


def _unread(path: str, error: StoreError) -> Damage:
    return Damage(None, None, path, error.message, "not known")


def _header(look: Look, path: str) -> tuple[str | None, list[Damage]]:
    try:
        return look.header().session_id, []
    except DamagedError as error:
        recoverable = "all events: give the file that name" if "whose file is" in error.message else "the other events"
        return None, [Damage(None, 1, f"{path}, byte 0", error.message, recoverable)]


def _notes(path: str, part: Part, torn: bytes) -> Iterable[str]:
    if part.plain:
        yield f"{path}: {part.plain:,} events were appended by another program, without a digest"
    if torn and not part.faults:
        yield (
            f"{path}: the last {len(torn):,} bytes are no whole delta: it was never acknowledged, "
            f"or the disk lost its end; {_recoverable(torn)}"
        )


def _kept(aside: str) -> Iterable[str]:
    """Say what was put aside."""
    kept = read_small(aside, _ALL)
    if kept:
        yield f"{aside}: {len(kept):,} bytes of deltas that were not whole; {_recoverable(kept)}"


def _recoverable(data: bytes) -> str:
    """Say which lines of what was cut off are whole."""
    lines = [line for line in data.split(b"\n") if line and not is_record(line) and not fault(line)]
    return f"{len(lines):,} whole events can be recovered from them"


def _bindings(folder: Folder, clients: Clients, notes: list[str]) -> Iterable[Damage]:
    try:
        known = clients.known()
    except StoreError as error:
        yield _unread(clients.path, error)
        return
    if known.end < known.size:
        notes.append(f"{clients.path}: the last {known.size - known.end:,} bytes are no whole binding")
    for at in known.damaged:
        yield Damage(None, None, f"{clients.path}, byte {at}", "a binding is damaged", "the bindings behind it")
    logs = set(folder.logs())
    for key, session_id in sorted(known.sessions.items()):
        if session_id is not None and folder.log(session_id) not in logs:
            notes.append(f"client {key!r} is bound to session {session_id!r}, which is not there")
