"""A session's header, the digests of its events, and the sessions forked from it.

Each event's digest holds all before it: digest 0 is SHA-256 of `lore-store-1`; digest n is SHA-256 of digest n-1, the
length of line n in decimal, `:`, and line n. Framed by length, sensitive to order, resumable from any number. Where a
digest is stored beside each event, a changed line is found alone: only its own digest does not follow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

from lore.formats.lore_log import LoreLog
from lore.model.canonical import canonical
from lore.model.events import SessionStarted
from lore.store.base import EMPTY, Head, StoreError
from lore.store.ids import good_id, good_line, kept_time

SEED = sha256(b"lore-store-1").digest()


def follow(digest: bytes, lines: Iterable[bytes]) -> list[bytes]:
    """Return the digest behind each of these lines, which come after `digest`. Costs O(bytes)."""
    found: list[bytes] = []
    for line in lines:
        hashed = sha256(digest)
        hashed.update(b"%d:" % len(line))
        hashed.update(line)
        digest = hashed.digest()
        found.append(digest)
    return found


def note(leaf_id: str | None, metadata: bytes) -> str:
    """Return the digest of what is noted beside the events: 64 hex digits."""
    leaf = b"-" if leaf_id is None else b"+" + leaf_id.encode("utf-8", "surrogatepass")
    return sha256(b"%d:%b%b" % (len(leaf), leaf, canonical(metadata))).hexdigest()


NOTHING = Head(0, SEED.hex(), note(None, EMPTY))


HINT = "the first event of a session is session_started, with its session_id"


class Header(NamedTuple):
    """A header's line, and what it says of the session; a time that not every store can keep is in the line alone."""

    line: bytes
    session_id: str
    project_id: str | None
    parent_session_id: str | None
    at: str | None


def read_header(line: bytes) -> Header:
    """Read a header; raises StoreError where the line is none, or names no session."""
    line = good_line(line)
    found = next((read.value for read in LoreLog().feed(line + b"\n")), None)
    if not isinstance(found, SessionStarted):
        raise StoreError("a session does not begin with session_started", hint=HINT)
    for name, what in ((found.project_id, "project id"), (found.parent_session_id, "parent session id")):
        if name is not None:
            good_id(name, what)
    session_id = good_id(found.session_id)
    return Header(line, session_id, found.project_id, found.parent_session_id, kept_time(found.at))


def with_forks(session_id: str, parents: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return a session behind all that were forked from it, the latest forks first.

    `parents` has the parent of each session. One that is its own ancestor is met once. Costs O(sessions).
    """
    children: dict[str, list[str]] = defaultdict(list)
    for name, parent in sorted(parents.items()):
        if parent is not None:
            children[parent].append(name)
    found = {session_id: None}
    waiting = [session_id]
    while waiting:
        new = [child for child in children[waiting.pop()] if child not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return tuple(reversed(found))
