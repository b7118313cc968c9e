"""A folded state as bytes, to compare two of them, or one with itself later."""

from __future__ import annotations

import msgspec

from lore.model.state import FoldedSession, settled


def dump_state(state: FoldedSession) -> bytes:
    """Return the whole state as JSON, with streamed text joined to its message."""
    chains = {name: msgspec.structs.replace(settled(chain), index=None) for name, chain in state.chains.items()}
    return msgspec.json.encode(msgspec.structs.replace(state, chains=chains), enc_hook=list)
