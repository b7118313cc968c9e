"""A folded state as bytes, to compare two of them, or one with itself later; a session of given events."""

from collections.abc import Iterable
from typing import Any

import msgspec

from lore.model.events import Event, encode
from lore.model.state import FoldedSession, with_streamed_text
from lore.session import Session


def dump_state(state: FoldedSession) -> bytes:
    """Return the whole state as JSON, with streamed text joined to its message."""
    chains = {
        name: msgspec.structs.replace(with_streamed_text(chain), index=None) for name, chain in state.chains.items()
    }
    return msgspec.json.encode(msgspec.structs.replace(state, chains=chains), enc_hook=list)


def restored(events: Iterable[Event], **options: Any) -> Session:
    """Return the session that these events make, read from the log that they are."""
    return Session.read(b"".join([encode(event) + b"\n" for event in events]), **options)
