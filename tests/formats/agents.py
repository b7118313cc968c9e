"""What the tests of agents' readers share: events, folded sessions, problems, files with a value exchanged."""

import json
from collections.abc import Iterator
from typing import Any

from lore.fold.step import Folding
from lore.formats.base import Reader
from lore.model.codes import Problem
from lore.model.events import Event
from lore.model.state import FoldedSession
from lore.testing import everything


def events(reader: type[Reader], data: bytes) -> list[Event]:
    """The events of a file, problems left out."""
    return [item.value for item in everything(reader(), data) if not isinstance(item.value, Problem)]


def codes(reader: type[Reader], data: bytes) -> list[str]:
    """The codes of a file's problems."""
    return [item.value.code for item in everything(reader(), data) if isinstance(item.value, Problem)]


def folded(reader: type[Reader], data: bytes) -> FoldedSession:
    """The session at the end of a file; nothing in it may be a problem of the fold."""
    folding = Folding(FoldedSession(format=reader.name))
    for event in events(reader, data):
        assert folding.apply(event) == ()
    return folding.state()


def with_members(data: bytes, value: Any) -> Iterator[bytes]:
    """Yield a document with each value in it, one after the other, exchanged for another."""
    whole = json.loads(data)
    for path in list(_paths(whole)):
        copy = json.loads(data)
        inner = copy
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        yield json.dumps(copy).encode()


def _paths(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        yield (*before, key)
        yield from _paths(inner, (*before, key))
