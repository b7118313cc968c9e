"""What Copilot CLI's database bills of a session, as a line before its log: the log says no more than output tokens.

In: the path of an `events.jsonl` and the session that it names. Out: one line (`formats.copilot.usage`), none where no
database lies there. Rules: `session-store.db` is looked for beside the log and up to two folders above it, where
`$COPILOT_HOME` is; it and its `-wal` are copied before anything is opened, so that not a byte of the user's folder
changes, and once a process as long as they stay the same; columns are read by their names, those that a version lacks
are unknown; what cannot be read is said in the line, and becomes a problem.

Source: `assistant_usage_events` of schema version 8, as public readers of it list its columns (October 2026).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

from lore.formats.copilot.usage import MOST_ROWS, StoredRow, line_of
from lore.recording.agents import databases

_NAME = "session-store.db"
_TABLE = "assistant_usage_events"
_NEEDED = frozenset(("session_id", "input_tokens", "cache_read_tokens"))
_COLUMNS = (
    "agent_id", "parent_tool_call_id", "model", "input_tokens", "output_tokens", "cache_read_tokens",
    "cache_write_tokens", "initiator",
)  # fmt: skip


def usage_line(path: str, session: str) -> Iterator[bytes]:
    """Yield the line before a session's log, if there is one."""
    database = database_of(path)
    if not database:
        return
    try:
        rows = _rows(database, session)
    except databases.ERRORS as error:
        yield line_of([], f"{_NAME}: {databases.reason_of(error)}")
        return
    yield line_of(rows[:MOST_ROWS], f"{_NAME}: more than {MOST_ROWS:,} rows" if len(rows) > MOST_ROWS else "")


def database_of(path: str) -> str:
    """Return the database of a log; empty where there is none."""
    folder = os.path.dirname(os.path.abspath(path))
    for above in (folder, os.path.dirname(folder), os.path.dirname(os.path.dirname(folder))):
        found = os.path.join(above, _NAME)
        if os.path.isfile(found):
            return found
    return ""


def _rows(database: str, session: str) -> list[StoredRow]:
    """Read what a session was billed, in the order of requests; one row more than are kept at most."""
    with closing(databases.connect(database)) as connection:
        has = databases.columns_of(connection, _TABLE)
        if not has >= _NEEDED:
            raise ValueError(f"no table {_TABLE} with {', '.join(sorted(_NEEDED - has))}")
        names = ", ".join(name if name in has else f"null as {name}" for name in _COLUMNS)
        order = "id" if "id" in has else "rowid"
        query = f"select {names} from {_TABLE} where session_id = ? order by {order} limit {MOST_ROWS + 1}"  # noqa: S608
        return [StoredRow.of(*row) for row in connection.execute(query, (session,))]
