"""Digests of stored sessions: each event's holds all before it.

digest 0 is SHA-256 of `lore-store-1`; digest n is SHA-256 of digest n-1, the length of line n in decimal, `:`, and
line n. Framed by length, sensitive to order, resumable from any number. Where a digest is stored beside each
event, a line that was changed is found alone: only its own digest does not follow from the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from lore.model.canonical import canonical
from lore.store.base import EMPTY, Head

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
