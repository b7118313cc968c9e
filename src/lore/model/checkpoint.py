"""Save session state as bytes, and load it: what makes a cold start equal to going on.

In: a state. Out: a head (JSON, with a format version) and the JSON of its items, each with a line feed,
whose sizes the head holds; content stays the text that it was. Rules: what is loaded folds on exactly as what
was saved; a checkpoint of another version is refused (`LoreError`): it is a cache, a cold fold replaces
it. Items that are still those that were loaded are not encoded again: they are named as ranges of what
was loaded, so that saving a long session after one more turn costs little more than that turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, takewhile
from operator import attrgetter, is_
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from lore.errors import LoreError
from lore.model import lenient
from lore.model.inserts import Insert
from lore.model.items import Item
from lore.model.state import Chain, Entry, Index, Session, settled
from lore.model.vector import Vector

VERSION = 5
HINT = "delete it; lore then folds the log anew"


class _SavedChain(Struct, frozen=True):
    """A chain without its entries; of each entry the turn, the group, and the bytes of its item's JSON.

    And the context that was written into its history.
    """

    chain: Chain
    turns: tuple[int, ...]
    groups: tuple[int, ...]
    sizes: tuple[int, ...]
    persisted: tuple[Insert, ...]
    outside: tuple[Insert, ...]


class _Saved(Struct, frozen=True):
    version: int
    session: Session
    chains: tuple[_SavedChain, ...]


class Range(NamedTuple):
    """A part of what was loaded: the number of its piece, and half-open bytes of that."""

    piece: int
    begin: int
    end: int


class Written(NamedTuple):
    """The items of a chain as they were loaded: the sizes of their JSON, and where it stands, in order."""

    items: list[Item]
    sizes: tuple[int, ...]
    pieces: list[memoryview]
    ranges: list[Range]

    def kept(self, entries: Vector[Entry]) -> int:
        """Count the leading items that are still those that were loaded."""
        same = map(is_, self.items, map(attrgetter("item"), entries))
        return len(list(takewhile(bool, same)))

    def first(self, count: int) -> list[Range]:
        """Return where the first `count` items stand."""
        size, found = sum(self.sizes[:count]) + count, list[Range]()
        for one in self.ranges:
            if size > 0:
                found.append(one._replace(end=min(one.end, one.begin + size)))
                size -= one.end - one.begin
        return found

    def texts(self) -> Iterator[memoryview]:
        """Yield the JSON of each item."""
        return _cut(self.pieces, self.sizes)


class Saved(NamedTuple):
    """A state as bytes: the head, and its items' JSON in order: new bytes, or ranges of what was loaded."""

    head: bytes
    items: list[bytes | Range]


class Loaded(NamedTuple):
    """A state, and by chain what its items looked like."""

    state: Session
    written: dict[str, Written]


def save(state: Session, written: Mapping[str, Written] | None = None) -> Saved:
    """Encode a state; `written` is what `restore` gave. Costs O(items), bytes only for what changed."""
    chains: list[_SavedChain] = []
    items: list[bytes | Range] = []
    for chain in map(settled, state.chains.values()):
        before = (written or {}).get(chain.id)
        kept = 0 if before is None else before.kept(chain.entries)
        old = () if before is None else before.sizes[:kept]
        items += [] if before is None else before.first(kept)
        new = [_ENCODER.encode(entry.item) for entry in chain.entries.since(kept)]
        if new:
            items.append(b"\n".join([*new, b""]))
        none = Vector[Insert]()
        bare = msgspec.structs.replace(chain, entries=Vector[Entry](), persisted=none, outside=none, index=None)
        written_in = tuple(chain.persisted), tuple(chain.outside)
        turns = tuple([entry.turn for entry in chain.entries])
        groups = tuple([entry.group for entry in chain.entries])
        chains.append(_SavedChain(bare, turns, groups, (*old, *map(len, new)), *written_in))
    saved = _Saved(VERSION, msgspec.structs.replace(state, chains={}), tuple(chains))
    return Saved(msgspec.json.encode(saved, enc_hook=_encode_own), items)


def restore(head: bytes | memoryview, items: Sequence[bytes | memoryview]) -> Loaded:
    """Decode a state from its head and the pieces of its items (none of which is cut by their ends).

    Raises LoreError where the bytes are none or of another version.
    """
    try:
        saved = _decode(bytes(head))
        if saved.version == VERSION:
            return _restored(saved, _Pieces(items))
    except (ValueError, RecursionError) as error:
        raise LoreError(f"unreadable checkpoint: {error}", hint=HINT) from None
    raise LoreError(f"checkpoint version {saved.version} is not {VERSION}", hint=HINT)


class _Pieces:
    """Take items from pieces, one after another."""

    def __init__(self, pieces: Sequence[bytes | memoryview]) -> None:
        self.all = [memoryview(piece) for piece in pieces]
        self._number = 0
        self._at = 0

    def take(self, sizes: tuple[int, ...]) -> list[Range]:
        """Return where the next items of these sizes stand; raises ValueError where they do not."""
        ranges: list[Range] = []
        at, begin, room = self._at, self._at, self._room()
        for size in sizes:
            if at == room and self._number + 1 < len(self.all):
                ranges.append(Range(self._number, begin, at))
                self._number += 1
                at, begin, room = 0, 0, self._room()
            at += size + 1
            if size < 0 or at > room:
                raise ValueError("its items end too early")
        ranges.append(Range(self._number, begin, at))
        self._at = at
        return [one for one in ranges if one.begin < one.end]

    def _room(self) -> int:
        return len(self.all[self._number]) if self.all else 0

    @property
    def over(self) -> bool:
        """Whether all was taken."""
        return self._at == self._room() and self._number + 1 >= len(self.all)


def _restored(saved: _Saved, pieces: _Pieces) -> Loaded:
    chains: dict[str, Chain] = {}
    written: dict[str, Written] = {}
    for one in saved.chains:
        if not len(one.turns) == len(one.groups) == len(one.sizes):
            raise ValueError("its lists have different lengths")
        ranges = pieces.take(one.sizes)
        parts = [pieces.all[where.piece][where.begin : where.end] for where in ranges]
        items = _items(parts, one.sizes)
        entries = Vector(map(Entry, items, one.turns, one.groups))
        chains[one.chain.id] = msgspec.structs.replace(
            one.chain, entries=entries, persisted=Vector(one.persisted), outside=Vector(one.outside)
        )
        written[one.chain.id] = Written(items, one.sizes, parts, ranges)
    if not pieces.over:
        raise ValueError("it has bytes left over")
    return Loaded(msgspec.structs.replace(saved.session, chains=chains), written)


def texts_of(chain: Chain, written: Written | None) -> list[Raw]:
    """Return the JSON of a settled chain's items, as lore's log spells them."""
    kept = 0 if written is None else written.kept(chain.entries)
    old = [] if written is None else [Raw(text) for text in islice(written.texts(), kept)]
    return [*old, *(Raw(_ENCODER.encode(entry.item)) for entry in chain.entries.since(kept))]


def dump(state: Session) -> bytes:
    """Encode a state as one string of bytes: the head, a line feed, the items. Costs O(items that it holds)."""
    saved = save(state)
    items = [one for one in saved.items if isinstance(one, bytes)]  # nothing was loaded that could be named
    return b"\n".join((str(len(saved.head)).encode(), saved.head, b"".join(items)))


def load(data: bytes) -> Session:
    """Decode what `dump` gave; raises LoreError where the bytes are none or of another version."""
    size, _, rest = data.partition(b"\n")
    if not size.isdigit() or len(size) > 18 or rest[int(size) : int(size) + 1] != b"\n":
        raise LoreError("unreadable checkpoint: it has no head", hint=HINT)
    return restore(rest[: int(size)], [rest[int(size) + 1 :]]).state


_ENCODER = msgspec.json.Encoder()
_ITEMS: msgspec.json.Decoder[Item] = msgspec.json.Decoder(Item)


def _items(pieces: list[memoryview], sizes: tuple[int, ...]) -> list[Item]:
    """Decode items: all of a piece at once, one by one where that fails."""
    try:
        found = [item for piece in pieces for item in _ITEMS.decode_lines(piece)]
    except msgspec.DecodeError:
        found = []
    return found if len(found) == len(sizes) else [_item(text) for text in _cut(pieces, sizes)]


def _item(text: memoryview) -> Item:
    try:
        return _ITEMS.decode(text)
    except msgspec.DecodeError:  # lone surrogates
        return lenient.convert(bytes(text), Item)


def _cut(pieces: list[memoryview], sizes: tuple[int, ...]) -> Iterator[memoryview]:
    """Yield texts of these sizes, each with a line feed behind it."""
    place, rest = 0, iter(pieces)
    piece = next(rest, memoryview(b""))
    for size in sizes:
        if place == len(piece):
            place, piece = 0, next(rest)
        yield piece[place : place + size]
        place += size + 1


def _decode(data: bytes) -> _Saved:
    try:
        return msgspec.json.decode(data, type=_Saved, dec_hook=_decode_own)
    except msgspec.DecodeError:  # lone surrogates
        return lenient.convert(data, _Saved)


def _encode_own(value: Any) -> Any:
    if isinstance(value, Vector | Index):
        return None
    raise TypeError(type(value).__name__)


def _decode_own(kind: Any, value: Any) -> Any:
    if value is None and kind is not Index:
        return Vector()
    raise ValueError("unexpected value")
