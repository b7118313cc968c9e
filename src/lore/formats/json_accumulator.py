"""JSON objects that grow as the events of a stream come.

In: members as they were sliced, and pieces of their strings. Out: the object. Rules: pieces are joined between
their quotes, as they were spelled: what is joined is a string again, and halves of a surrogate pair that came
apart are whole. What is no string adds nothing. Cost: O(bytes), however many pieces.
"""

from __future__ import annotations

from collections.abc import Iterable

from lore.formats.contents import unescaped
from lore.model.canonical import encode
from lore.model.jsonslice import array, is_json

MOST = 4096  # blocks, calls or parts of one answer: more says no model


class Grown:
    """An object; `members` are those that it had at first."""

    def __init__(self, members: dict[str, bytes]) -> None:
        self._members = members
        self._texts: dict[str, bytearray] = {}
        self._lists: dict[str, list[bytes]] = {}

    def text(self, key: str, raw: bytes) -> None:
        """Add to a string; one that is null or missing begins."""
        if raw[:1] != b'"':
            return
        grown = self._texts.get(key)
        if grown is None:
            grown = self._texts[key] = bytearray(_inside(self._members.get(key, b"")))
        grown += raw[1:-1]

    def listed(self, key: str, raw: bytes) -> None:
        """Add an element to an array."""
        if not raw:
            return
        found = self._lists.get(key)
        if found is None:
            found = self._lists[key] = array(self._members.get(key, b""))
        found.append(raw)

    def once(self, key: str, raw: bytes) -> None:
        """Set a member that has nothing yet; the first that is something holds."""
        if raw not in _NOTHING and self._members.get(key, b"null") in _NOTHING:
            self._members[key] = raw

    def members(self) -> dict[str, bytes]:
        """Return the members as they are now."""
        lists = {key: b"[" + b",".join(found) + b"]" for key, found in self._lists.items()}
        return self._members | {key: b'"%s"' % grown for key, grown in self._texts.items()} | lists


def object_of(members: dict[str, bytes]) -> bytes:
    """Return an object of these members."""
    return b"{" + b",".join([encode(key) + b":" + value for key, value in members.items()]) + b"}"


def array_of(elements: Iterable[bytes]) -> bytes:
    """Return an array of these elements."""
    return b"[" + b",".join(elements) + b"]"


def parsed(text: bytes, otherwise: bytes) -> bytes:
    """Return the JSON object that a string holds; the string itself where it was cut, `otherwise` where it is empty."""
    found = unescaped(text).strip()
    if not found:
        return otherwise
    return found if found[:1] == b"{" and is_json(found) else text


def place_of(raw: bytes) -> int | None:
    """Read the place of a block; None for what is none."""
    return int(raw) if raw.isdigit() and len(raw) < _DIGITS else None


def _inside(raw: bytes) -> bytes:
    """Return what stands between the quotes of a string."""
    return raw[1:-1] if raw[:1] == b'"' else b""


_NOTHING = (b"", b"null", b'""')
_DIGITS = 10
