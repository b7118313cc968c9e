"""Sessions in which lore itself keeps memory: the one place that tells them from those of users.

Rules: `lore store list`, and a whole store that is read as input, leave them out; none is made, appended to or written
in full by hand, and none of a user's is forked from one, for a wipe would take it along. A command that is given the
very id of one reads it, moves it or deletes it: whoever names it asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from lore.compaction.memory.identities import is_reserved
from lore.errors import LoreError
from lore.store.base import Summary
from lore.store.header import Header

HINT = "`lore memory` reads and changes what is remembered"


def of_users(sessions: Iterable[Summary]) -> list[Summary]:
    """Return the sessions of users."""
    return [summary for summary in sessions if not is_reserved(summary.session_id)]


def refuse(session_id: str) -> None:
    """Raise LoreError for an id that is lore's own."""
    if is_reserved(session_id):
        raise LoreError(f"{session_id!r} is an id under which lore keeps memory", hint=HINT)


def refuse_header(header: Header) -> None:
    """Raise LoreError for a session that is lore's own, or is to be forked from one."""
    refuse(header.session_id)
    if header.parent_session_id is not None and is_reserved(header.parent_session_id):
        raise LoreError(f"session {header.session_id!r} is forked from one in which lore keeps memory", hint=HINT)
