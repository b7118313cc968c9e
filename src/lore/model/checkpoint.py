"""Save session state as bytes, and load it: what makes a cold start equal to going on.

In: a state. Out: a head (JSON, with a format version) and the JSON of its items, one after another, whose
sizes the head holds; content stays the text that it was. Rules: what is loaded folds on exactly as what
was saved; a checkpoint of another version is refused (`LoreError`): it is a cache, a cold fold replaces
it. Items that are still those that were loaded are not encoded again: they are named as ranges of what
was loaded, so that saving a long session after one more turn costs little more than that turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from lore.errors import LoreError
from lore.model import lenient
from lore.model.items import Item
from lore.model.state import Chain, Entry, Index, Session, settled
from lore.model.vector import Vector

VERSION = 2
HINT = "delete it; lore then folds the log anew"


class _SavedChain(Struct, frozen=True):
    """A chain without its entries; of each entry the turn, the group, and the bytes of its item's JSON."""

    chain: Chain
    turns: tuple[int, ...]
    groups: tuple[int, ...]
    sizes: tuple[int, ...]


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
    """The items of a chain as they were loaded: their JSON, and where that stands, in order."""

    items: list[Item]
    texts: list[memoryview]
    ranges: list[Range]

    def kept(self, entries: Vector[Entry]) -> int:
        """Count the leading items that are still those that were loaded."""
        count = 0
        for item, entry in zip(self.items, entries, strict=False):
            if item is not entry.item:
                break
            count += 1
        return count

    def first(self, count: int) -> list[Range]:
        """Return where the first `count` items stand."""
        size, found = sum(map(len, self.texts[:count])), list[Range]()
        for one in self.ranges:
            if size > 0:
                found.append(one._replace(end=min(one.end, one.begin + size)))
                size -= one.end - one.begin
        return found


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
        old = [] if before is None else before.texts[:kept]
        items += [] if before is None else before.first(kept)
        new = [_ENCODER.encode(entry.item) for entry in chain.entries.since(kept)]
        if new:
            items.append(b"".join(new))
        bare = msgspec.structs.replace(chain, entries=Vector[Entry](), index=None)
        turns = tuple([entry.turn for entry in chain.entries])
        groups = tuple([entry.group for entry in chain.entries])
        chains.append(_SavedChain(bare, turns, groups, (*map(len, old), *map(len, new))))
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
    """Cut items from pieces, one after another."""

    def __init__(self, pieces: Sequence[bytes | memoryview]) -> None:
        self._pieces = [memoryview(piece) for piece in pieces]
        self._number = 0
        self._at = 0

    def cut(self, sizes: tuple[int, ...]) -> tuple[list[memoryview], list[Range]]:
        """Return the next texts of these sizes, and where they stand."""
        texts: list[memoryview] = []
        ranges: list[Range] = []
        begin = self._at
        for size in sizes:
            if self._at == self._room() and self._number + 1 < len(self._pieces):
                ranges.append(Range(self._number, begin, self._at))
                self._number, self._at, begin = self._number + 1, 0, 0
            if size < 0 or self._at + size > self._room():
                raise ValueError("its items end too early")
            texts.append(self._pieces[self._number][self._at : self._at + size])
            self._at += size
        ranges.append(Range(self._number, begin, self._at))
        return texts, [one for one in ranges if one.begin < one.end]

    def _room(self) -> int:
        return len(self._pieces[self._number]) if self._pieces else 0

    @property
    def over(self) -> bool:
        """Whether all was cut."""
        return self._at == self._room() and self._number + 1 >= len(self._pieces)


def _restored(saved: _Saved, pieces: _Pieces) -> Loaded:
    chains: dict[str, Chain] = {}
    written: dict[str, Written] = {}
    for one in saved.chains:
        if not len(one.turns) == len(one.groups) == len(one.sizes):
            raise ValueError("its lists have different lengths")
        texts, ranges = pieces.cut(one.sizes)
        items = [_item(text) for text in texts]
        entries = Vector(map(Entry, items, one.turns, one.groups))
        chains[one.chain.id] = msgspec.structs.replace(one.chain, entries=entries)
        written[one.chain.id] = Written(items, texts, ranges)
    if not pieces.over:
        raise ValueError("it has bytes left over")
    return Loaded(msgspec.structs.replace(saved.session, chains=chains), written)


def texts_of(chain: Chain, written: Written | None) -> list[Raw]:
    """Return the JSON of a settled chain's items, as lore's log spells them."""
    kept = 0 if written is None else written.kept(chain.entries)
    old = [] if written is None else [Raw(text) for text in written.texts[:kept]]
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


def _item(piece: memoryview) -> Item:
    try:
        return _ITEMS.decode(piece)
    except msgspec.DecodeError:  # lone surrogates
        return lenient.convert(bytes(piece), Item)


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
