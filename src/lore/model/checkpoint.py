"""Save session state as bytes, and load it: what makes a cold start equal to going on.

In: a state. Out: JSON with a format version; content stays the text that it was. Rules: what is loaded
folds on exactly as what was saved; a checkpoint of another version is refused (`LoreError`): it is a
cache, a cold fold replaces it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from lore.errors import LoreError
from lore.model import lenient
from lore.model.state import Chain, Entry, Index, Session, settled
from lore.model.vector import Vector

VERSION = 1


class _SavedChain(Struct, frozen=True):
    chain: Chain
    entries: tuple[Entry, ...]


class _Saved(Struct, frozen=True):
    version: int
    session: Session
    chains: tuple[_SavedChain, ...]


def dump(state: Session) -> bytes:
    """Encode a state; costs O(items that it holds)."""
    chains = tuple(
        _SavedChain(msgspec.structs.replace(chain, entries=Vector[Entry](), index=None), tuple(chain.entries))
        for chain in map(settled, state.chains.values())
    )
    saved = _Saved(VERSION, msgspec.structs.replace(state, chains={}), chains)
    return msgspec.json.encode(saved, enc_hook=_encode_own)


def load(data: bytes) -> Session:
    """Decode a state; raises LoreError where the bytes are none or of another version."""
    try:
        saved = _decode(data)
    except ValueError as error:
        raise LoreError(f"unreadable checkpoint: {error}", hint="delete it; lore then folds the log anew") from None
    if saved.version != VERSION:
        raise LoreError(
            f"checkpoint version {saved.version} is not {VERSION}", hint="delete it; lore then folds the log anew"
        )
    chains = {one.chain.id: msgspec.structs.replace(one.chain, entries=Vector(one.entries)) for one in saved.chains}
    return msgspec.structs.replace(saved.session, chains=chains)


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
