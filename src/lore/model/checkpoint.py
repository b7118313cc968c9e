"""Save session state as bytes, and load it: what makes a cold start equal to going on.

In: a state. Out: a head (JSON, with a format version) and the JSON of its items, one after another, whose
sizes the head holds; content stays the text that it was. Rules: what is loaded folds on exactly as what
was saved; a checkpoint of another version is refused (`LoreError`): it is a cache, a cold fold replaces
it. An item that is still the one that was loaded is not encoded again: its text is a slice of what was
loaded, so saving a long session after one more turn costs O(what is new) and one copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
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


class Written(NamedTuple):
    """The items of a chain as they were loaded, and their JSON: `text`, cut by `sizes`."""

    items: list[Item]
    text: memoryview
    sizes: tuple[int, ...]

    def kept(self, entries: Vector[Entry]) -> int:
        """Count the leading items that are still those that were loaded."""
        count = 0
        for item, entry in zip(self.items, entries, strict=False):
            if item is not entry.item:
                break
            count += 1
        return count


class Saved(NamedTuple):
    """A state as bytes: the head, and the pieces of its items; the first `reused` bytes are old ones."""

    head: bytes
    items: list[bytes | memoryview]
    reused: int


class Loaded(NamedTuple):
    """A state, and by chain what its items looked like."""

    state: Session
    written: dict[str, Written]


def save(state: Session, written: Mapping[str, Written] | None = None) -> Saved:
    """Encode a state; `written` is what `restore` gave. Costs O(items), bytes only for what changed."""
    chains: list[_SavedChain] = []
    items: list[bytes | memoryview] = []
    reused = 0
    for number, chain in enumerate(map(settled, state.chains.values())):
        before = (written or {}).get(chain.id)
        kept = 0 if before is None else before.kept(chain.entries)
        sizes = () if before is None else before.sizes[:kept]
        if before is not None and kept:
            items.append(before.text[: sum(sizes)])
            reused += 0 if number else sum(sizes)
        new = [_ENCODER.encode(entry.item) for entry in chain.entries.since(kept)]
        items.append(b"".join(new))
        bare = msgspec.structs.replace(chain, entries=Vector[Entry](), index=None)
        turns = tuple([entry.turn for entry in chain.entries])
        groups = tuple([entry.group for entry in chain.entries])
        chains.append(_SavedChain(bare, turns, groups, (*sizes, *map(len, new))))
    saved = _Saved(VERSION, msgspec.structs.replace(state, chains={}), tuple(chains))
    return Saved(msgspec.json.encode(saved, enc_hook=_encode_own), items, reused)


def restore(head: bytes | memoryview, items: bytes | memoryview) -> Loaded:
    """Decode a state; raises LoreError where the bytes are none or of another version."""
    try:
        saved = _decode(bytes(head))
        if saved.version != VERSION:
            raise LoreError(f"checkpoint version {saved.version} is not {VERSION}", hint=HINT)
        return _restored(saved, memoryview(items))
    except (ValueError, RecursionError) as error:
        raise LoreError(f"unreadable checkpoint: {error}", hint=HINT) from None


def _restored(saved: _Saved, items: memoryview) -> Loaded:
    chains: dict[str, Chain] = {}
    written: dict[str, Written] = {}
    at = 0
    for one in saved.chains:
        size = sum(one.sizes)
        if min(one.sizes, default=0) < 0 or at + size > len(items):
            raise ValueError("it ends too early")
        text = items[at : at + size]
        at += size
        found = [_item(piece) for piece in _cut(text, one.sizes)]
        entries = Vector(map(Entry, found, one.turns, one.groups))
        if len(entries) != len(found) or len(one.turns) != len(one.groups):
            raise ValueError("its lists have different lengths")
        chains[one.chain.id] = msgspec.structs.replace(one.chain, entries=entries)
        written[one.chain.id] = Written(found, text, one.sizes)
    if at != len(items):
        raise ValueError("it has bytes left over")
    return Loaded(msgspec.structs.replace(saved.session, chains=chains), written)


def texts(chain: Chain, written: Written | None) -> list[Raw]:
    """Return the JSON of a settled chain's items, as lore's log spells them."""
    kept = 0 if written is None else written.kept(chain.entries)
    old = [] if written is None else [Raw(piece) for piece in _cut(written.text, written.sizes[:kept])]
    return [*old, *(Raw(_ENCODER.encode(entry.item)) for entry in chain.entries.since(kept))]


def dump(state: Session) -> bytes:
    """Encode a state as one string of bytes: the head, a line feed, the items. Costs O(items that it holds)."""
    saved = save(state)
    return b"\n".join((str(len(saved.head)).encode(), saved.head, b"".join(saved.items)))


def load(data: bytes) -> Session:
    """Decode what `dump` gave; raises LoreError where the bytes are none or of another version."""
    size, _, rest = data.partition(b"\n")
    if not size.isdigit() or len(size) > 18 or rest[int(size) : int(size) + 1] != b"\n":
        raise LoreError("unreadable checkpoint: it has no head", hint=HINT)
    return restore(rest[: int(size)], memoryview(rest)[int(size) + 1 :]).state


def _cut(text: memoryview, sizes: tuple[int, ...]) -> list[memoryview]:
    ends = list(accumulate(sizes))
    return [text[end - size : end] for size, end in zip(sizes, ends, strict=True)]


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
