"""A folded state as bytes, to compare two of them, or one with itself later; a session of given events."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from lore.fold.step import Folding
from lore.model.codes import Problem
from lore.model.events import Event, encode
from lore.model.state import FoldedSession, with_streamed_text
from lore.session import Session


class Step(NamedTuple):
    """The state after an event, and the event's problems."""

    state: FoldedSession
    problems: tuple[Problem, ...]


def step(state: FoldedSession, event: Event) -> Step:
    """Return the state after one event, and its problems."""
    folding = Folding(state)
    problems = folding.apply(event)
    return Step(folding.state(), problems)


def dump_state(state: FoldedSession) -> bytes:
    """Return the whole state as JSON, with streamed text joined to its message."""
    chains = {
        name: msgspec.structs.replace(with_streamed_text(chain), index=None) for name, chain in state.chains.items()
    }
    return msgspec.json.encode(msgspec.structs.replace(state, chains=chains), enc_hook=list)


def restored(events: Iterable[Event], **options: Any) -> Session:
    """Return the session that these events make, read from the log that they are."""
    return Session.read(b"".join([encode(event) + b"\n" for event in events]), **options)
