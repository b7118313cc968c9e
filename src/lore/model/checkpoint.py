"""Save session state as bytes, and load it: what makes a cold start equal to going on.

In: a state. Out: chunks of entries (columns that say what they are, then their items as one JSON array), and behind
them a head with all else; content stays the text that it was. Rules: what is loaded folds on exactly as what was saved;
a chunk is decoded when an entry of it is looked at, and encoded once; bytes of another version, and damaged ones, are
refused (`LoreError`): a checkpoint is a cache, a cold fold replaces it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple, cast
from zlib import crc32

import msgspec
from msgspec import Struct

from lore.errors import LoreError
from lore.model import lenient
from lore.model.inserts import Insert
from lore.model.items import Item, ToolCall
from lore.model.state import Chain, DividerPlace, Entry, FoldedSession, Index, settled
from lore.model.vector import Vector

VERSION = 10
_SIZE, CRC = 8, 4  # bytes of a seal: how long the head before it is, and the CRC-32 of all before that
_HINT = "delete it; lore then folds the log anew"
_BARE: dict[str, Any] = {"entries": Vector(), "persisted": Vector(), "outside": Vector(), "index": None}


class _Columns(Struct, frozen=True, array_like=True):
    """A chunk: its items as a JSON array, each of so many bytes, and what else is known of them; `calls` by place."""

    items: memoryview
    sizes: list[int]
    turns: list[int]
    groups: list[int]
    uuids: list[str]
    calls: dict[int, str]


class _SavedChain(Struct, frozen=True):
    """A settled chain without its vectors, and what they hold: `chunks` says where each begins and ends."""

    chain: bytes
    chunks: list[tuple[int, int]]
    persisted: bytes
    outside: bytes


class _StateHead(Struct, frozen=True):
    version: int
    session: bytes
    chains: list[_SavedChain]


class SavedChunk(Sequence[Entry]):
    """Entries of a checkpoint, decoded when one of them is looked at; `place` is where they begin and end in `data`."""

    __slots__ = ("_entries", "columns", "data", "place")

    def __init__(self, data: memoryview, place: tuple[int, int]) -> None:
        """Read the columns of what lies at a place; raises ValueError where they are none."""
        self.data, self.place = data, place
        self.columns = columns = _COLUMNS.decode(data[slice(*place)])
        self._entries: tuple[Entry, ...] | None = None
        lengths = {len(column) for column in (columns.sizes, columns.turns, columns.groups, columns.uuids)}
        if len(lengths) > 1 or sum(columns.sizes) + len(self) + 1 != len(columns.items):
            raise ValueError("a chunk's items are not what its columns say")

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries; raises LoreError where they are none. Costs O(bytes) once."""
        if self._entries is None:
            try:
                items = lenient.decoded(_ITEMS, self.columns.items)
                pairs = zip(items, self.columns.turns, self.columns.groups, strict=True)
                self._entries = tuple([Entry(*pair) for pair in pairs])
            except (ValueError, RecursionError) as error:
                raise _unreadable(error) from None
        return self._entries

    def __getitem__(self, index: Any) -> Any:
        return cast("Any", self.entries)[index]

    def __len__(self) -> int:
        return len(self.columns.sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.entries == tuple(cast("Sequence[Entry]", other))

    __hash__ = None  # pyright: ignore[reportAssignmentType]


class SavedState(NamedTuple):
    """A state as bytes: `texts` to stand behind what is known, the head of all, and how many known bytes that needs."""

    texts: list[bytes | memoryview]
    head: bytes
    kept: int


def save(state: FoldedSession, *, at: int = 0, known: memoryview | None = None) -> SavedState:
    """Encode a state whose texts will stand at `at`; what was loaded of `known` stays where it is.

    Costs O(what is not in `known`, and 256 entries a chain), and a little an entry and an insert.
    """
    texts: list[bytes | memoryview] = []
    kept, chains = 0, list[_SavedChain]()
    encode = msgspec.json.Encoder(enc_hook=_encode_vector).encode
    for chain in map(settled, state.chains.values()):
        places: list[tuple[int, int]] = []
        for chunk in chain.entries.chunks():
            if isinstance(chunk, SavedChunk) and chunk.data is known:
                places.append(chunk.place)
                kept += chunk.place[1] - chunk.place[0]
            else:
                texts.append(_encoded(chunk))
                places.append((at, at := at + len(texts[-1])))
        bare = encode(msgspec.structs.replace(chain, **_BARE))
        chains.append(_SavedChain(bare, places, encode(list(chain.persisted)), encode(list(chain.outside))))
    head = _StateHead(VERSION, encode(msgspec.structs.replace(state, chains={})), chains)
    return SavedState(texts, msgspec.msgpack.encode(head), kept)


def _encoded(chunk: Sequence[Entry]) -> bytes | memoryview:
    """Return a chunk as bytes; one that was saved elsewhere is copied."""
    if isinstance(chunk, SavedChunk):
        return chunk.data[slice(*chunk.place)]
    items = [entry.item for entry in chunk]
    texts = list(map(msgspec.json.encode, items))
    columns = _Columns(
        memoryview(b"[%b]" % b",".join(texts)),
        list(map(len, texts)),
        [entry.turn for entry in chunk],
        [entry.group for entry in chunk],
        [item.uuid for item in items],
        {place: item.call_id for place, item in enumerate(items) if isinstance(item, ToolCall)},
    )
    return msgspec.msgpack.encode(columns)


def restore(head: bytes | memoryview, data: memoryview, divider: DividerPlace | None = None) -> FoldedSession:
    """Decode what `save` gave, whose texts lie in `data`; raises LoreError where it is none, or of another version.

    A state that was folded with another setting than `divider` is refused, too: to fold on would mix the two. Costs
    O(entries), not O(bytes) of what they hold.
    """
    try:
        saved = _HEAD.decode(head)
        if saved.version == VERSION:
            chains = [_chain(chain, data) for chain in saved.chains]
            session = lenient.decoded(_SESSION, saved.session)
            if divider in (None, session.divider):
                return msgspec.structs.replace(session, chains={chain.id: chain for chain in chains})
            raise LoreError(f"it was folded with divider = {session.divider!r}, not {divider!r}", hint=_HINT)
    except (ValueError, RecursionError) as error:
        raise _unreadable(error) from None
    raise LoreError(f"checkpoint version {saved.version} is not {VERSION}", hint=_HINT)


def _chain(saved: _SavedChain, data: memoryview) -> Chain:
    chain = lenient.decoded(_CHAIN, saved.chain)
    chunks = [SavedChunk(data, place) for place in saved.chunks]
    chain.entries = Vector[Entry].of(chunks)
    chain.persisted, chain.outside = (
        Vector(lenient.decoded(_INSERTS, inserts)) for inserts in (saved.persisted, saved.outside)
    )
    chain.index = index = Index(Vector())
    index.owner, begin, calls = chain.entries, 0, 0
    for chunk in chunks:
        index.uuids.update(zip(chunk.columns.uuids, count(begin), strict=False))
        index.calls.update({call_id: begin + place for place, call_id in chunk.columns.calls.items()})
        begin, calls = begin + len(chunk), calls + len(chunk.columns.calls)
    index.repeats = len(index.calls) < calls
    return chain


def dump(state: FoldedSession) -> bytes:
    """Encode a state as bytes that stand alone. Costs O(items that it holds)."""
    saved = save(state)
    return b"".join(sealed(saved.texts, saved.head))


def load(data: bytes, divider: DividerPlace | None = None) -> FoldedSession:
    """Decode what `dump` gave; raises LoreError where it is none, as `restore` does."""
    whole = memoryview(data)
    try:
        head = unsealed(whole)
    except ValueError as error:
        raise _unreadable(error) from None
    return restore(head, whole, divider)


def sealed(texts: list[bytes | memoryview], head: bytes, crc: int = 0) -> list[bytes | memoryview]:
    """Put a head behind texts, and a seal behind both; `crc` is that of all bytes before them."""
    pieces = [*texts, head, len(head).to_bytes(_SIZE, "big")]
    for piece in pieces:
        crc = crc32(piece, crc)
    return [*pieces, crc.to_bytes(CRC, "big")]


def unsealed(data: memoryview) -> memoryview:
    """Return the head that stands at the end; raises ValueError where one byte before or in it is damaged."""
    end = len(data) - _SIZE - CRC
    size = int.from_bytes(data[max(0, end) : -CRC], "big")
    if size > end or crc32(data[:-CRC]) != int.from_bytes(data[-CRC:], "big"):
        raise ValueError("its checksum does not hold")
    return data[end - size : end]


def _unreadable(error: Exception) -> LoreError:
    return LoreError(f"unreadable checkpoint: {error}", hint=_HINT)


def _encode_vector(value: Any) -> None:
    if not isinstance(value, Vector):
        raise TypeError(type(value).__name__)


def _decode_vector(kind: Any, value: Any) -> Any:
    if value is not None or kind is Index:
        raise ValueError("unexpected value")
    return Vector()


_HEAD = msgspec.msgpack.Decoder(_StateHead)
_COLUMNS = msgspec.msgpack.Decoder(_Columns)
_SESSION = msgspec.json.Decoder(FoldedSession, dec_hook=_decode_vector)
_CHAIN = msgspec.json.Decoder(Chain, dec_hook=_decode_vector)
_ITEMS: msgspec.json.Decoder[list[Item]] = msgspec.json.Decoder(list[Item])
_INSERTS = msgspec.json.Decoder(list[Insert])
