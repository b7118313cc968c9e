"""Sessions that lore keeps for itself: memory across sessions, and its audit log.

Their ids begin with `lore.memory/` and `lore.memory.audit/`. `lore store list`, and a whole store that is read as
input, leave them out. No command makes one, appends to one, writes one in full or forks a user's session from one. A
command that is given the id of one reads, moves or deletes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lore.errors import LoreError

if TYPE_CHECKING:
    from lore.store.base import SessionSummary

MEMORY_PREFIX, AUDIT_PREFIX = "lore.memory/", "lore.memory.audit/"
DEFAULT_USER = "default"  # the user of sessions that name none
_HINT = "`lore memory` reads and changes memories"


def is_reserved(session_id: str) -> bool:
    """Return whether lore keeps a session of this id for itself."""
    return session_id.startswith((MEMORY_PREFIX, AUDIT_PREFIX))


def drop_reserved(sessions: Iterable[SessionSummary]) -> list[SessionSummary]:
    """Return the sessions of users."""
    return [summary for summary in sessions if not is_reserved(summary.session_id)]


def refuse_reserved(session_id: str) -> None:
    """Raise LoreError if lore keeps a session of this id for itself."""
    if is_reserved(session_id):
        raise LoreError(f"lore keeps memory under ids like {session_id!r}", hint=_HINT)


def refuse_header(header: SessionSummary) -> None:
    """Raise LoreError for a session that lore would keep for itself, or that is forked from one."""
    refuse_reserved(header.session_id)
    if header.parent_session_id is not None and is_reserved(header.parent_session_id):
        message = f"session {header.session_id!r} is forked from one in which lore keeps memory"
        raise LoreError(message, hint=_HINT)
