"""Save session state as bytes, and load it: what makes a cold start equal to going on.

In: a state. Out: MessagePack with a version, in which session, chains, entries and inserts are JSON: content stays the
text that it was. Rules: what is loaded folds on exactly as what was saved; a checkpoint of another version is refused
(`LoreError`): it is a cache, a cold fold replaces it.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from lore.errors import LoreError
from lore.model import lenient
from lore.model.inserts import Insert
from lore.model.state import Chain, DividerPlace, Entry, Index, Session, settled
from lore.model.vector import Vector

VERSION = 9
_HINT = "delete it; lore then folds the log anew"
_BARE: dict[str, Any] = {"entries": Vector(), "persisted": Vector(), "outside": Vector(), "index": None}
T = TypeVar("T")


class _SavedChain(Struct, frozen=True):
    """A settled chain without its vectors, and what they hold."""

    chain: bytes
    entries: list[bytes]
    persisted: list[bytes]
    outside: list[bytes]


class _Saved(Struct, frozen=True):
    version: int
    session: bytes
    chains: list[_SavedChain]


def dump(state: Session) -> bytes:
    """Encode a state. Costs O(items that it holds)."""
    encode = msgspec.json.Encoder(enc_hook=_encode_vector).encode
    chains: list[_SavedChain] = []
    for chain in map(settled, state.chains.values()):
        bare = encode(msgspec.structs.replace(chain, **_BARE))
        vectors = [[encode(entry) for entry in vector] for vector in (chain.entries, chain.persisted, chain.outside)]
        chains.append(_SavedChain(bare, *vectors))
    return msgspec.msgpack.encode(_Saved(VERSION, encode(msgspec.structs.replace(state, chains={})), chains))


def load(data: bytes, divider: DividerPlace | None = None) -> Session:
    """Decode what `dump` gave; raises LoreError where the bytes are none or of another version.

    A state that was folded with another setting than `divider` is refused, too: to fold on would mix the two.
    """
    try:
        saved = msgspec.msgpack.decode(data, type=_Saved)
        if saved.version == VERSION:
            chains = [_chain(chain) for chain in saved.chains]
            session = _decoded(saved.session, _SESSION)
            if divider in (None, session.divider):
                return msgspec.structs.replace(session, chains={chain.id: chain for chain in chains})
            raise LoreError(f"it was folded with divider = {session.divider!r}, not {divider!r}", hint=_HINT)
    except (ValueError, RecursionError) as error:
        raise LoreError(f"unreadable checkpoint: {error}", hint=_HINT) from None
    raise LoreError(f"checkpoint version {saved.version} is not {VERSION}", hint=_HINT)


def _chain(saved: _SavedChain) -> Chain:
    entries = Vector([_decoded(text, _ENTRY) for text in saved.entries])
    persisted, outside = (
        Vector([_decoded(text, _INSERT) for text in texts]) for texts in (saved.persisted, saved.outside)
    )
    return msgspec.structs.replace(_decoded(saved.chain, _CHAIN), entries=entries, persisted=persisted, outside=outside)


def _decoded(text: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(text)
    except msgspec.DecodeError:  # lone surrogates
        return lenient.convert(text, decoder.type)


def _encode_vector(value: Any) -> None:
    if not isinstance(value, Vector):
        raise TypeError(type(value).__name__)


def _decode_vector(kind: Any, value: Any) -> Any:
    if value is not None or kind is Index:
        raise ValueError("unexpected value")
    return Vector()


_SESSION = msgspec.json.Decoder(Session, dec_hook=_decode_vector)
_CHAIN = msgspec.json.Decoder(Chain, dec_hook=_decode_vector)
_ENTRY = msgspec.json.Decoder(Entry)
_INSERT = msgspec.json.Decoder(Insert)
