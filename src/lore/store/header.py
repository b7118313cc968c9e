"""The header of a session: its first line, and what a store takes from it."""

from __future__ import annotations

from typing import NamedTuple

from lore.formats.lore_log import LoreLog
from lore.model.events import SessionStarted
from lore.store.base import StoreError
from lore.store.ids import good_id, good_line, kept_time

HINT = "the first event of a session is session_started, with its session_id"


class Header(NamedTuple):
    """A header's line, and what it says of the session; a time that not every store can keep is in the line alone."""

    line: bytes
    session_id: str
    project_id: str | None
    parent_session_id: str | None
    at: str | None


def read_header(line: bytes) -> Header:
    """Read a header; raises StoreError where the line is none, or names no session."""
    line = good_line(line)
    found = next((read.value for read in LoreLog().feed(line + b"\n")), None)
    if not isinstance(found, SessionStarted):
        raise StoreError("a session does not begin with session_started", hint=HINT)
    for name, what in ((found.project_id, "project id"), (found.parent_session_id, "parent session id")):
        if name is not None:
            good_id(name, what)
    session_id = good_id(found.session_id)
    return Header(line, session_id, found.project_id, found.parent_session_id, kept_time(found.at))
