"""Sessions that lore keeps for itself: memory across sessions, and its audit log.

Their ids begin with `lore.memory/` and `lore.memory.audit/`. `lore store list`, and a whole store that is read as
input, leave such sessions out; none is made, appended to or written in full by hand, and no user's session is forked
from one. A command given the id of one reads, moves or deletes it.
"""

from __future__ import annotations

from collections.abc import Iterable

from lore.errors import LoreError
from lore.store.base import SessionSummary
from lore.store.lines import SessionHeader

MEMORY_PREFIX, AUDIT_PREFIX = "lore.memory/", "lore.memory.audit/"
DEFAULT_USER = "default"  # the user of sessions that name none
_HINT = "`lore memory` reads and changes what is remembered"


def is_reserved(session_id: str) -> bool:
    """Return whether lore keeps a session of this id for itself."""
    return session_id.startswith((MEMORY_PREFIX, AUDIT_PREFIX))


def of_users(sessions: Iterable[SessionSummary]) -> list[SessionSummary]:
    """Return the sessions of users."""
    return [summary for summary in sessions if not is_reserved(summary.session_id)]


def refuse_reserved(session_id: str) -> None:
    """Raise LoreError for an id that is lore's own."""
    if is_reserved(session_id):
        raise LoreError(f"{session_id!r} is an id under which lore keeps memory", hint=_HINT)


def refuse_header(header: SessionHeader) -> None:
    """Raise LoreError for a session that is lore's own, or is to be forked from one."""
    refuse_reserved(header.session_id)
    if header.parent_session_id is not None and is_reserved(header.parent_session_id):
        message = f"session {header.session_id!r} is forked from one in which lore keeps memory"
        raise LoreError(message, hint=_HINT)
