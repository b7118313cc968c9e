"""Read the usage of a session's requests from Copilot CLI's database (`session-store.db`).

The result is one line to read before the log, in the form that `lore.formats.copilot.bills` describes; there is none if
the log is not Copilot's or has no database. The database is in the log's folder or up to two folders above it
(`$COPILOT_HOME`). Columns are read by name, and a missing one is unknown. An error is part of the line, and becomes a
problem. Only a copy of the database is opened.

Source: `assistant_usage_events` of schema version 8, as public readers of it list its columns (October 2026).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import TypeAlias

import msgspec

from lore.model.canonical import text_of
from lore.model.jsonslice import members_at
from lore.recording.agents import databases

MOST_ROWS = 30_000  # of a session: one for each request
_FIRST = 64 * 1024  # bytes of a log that contain its session
_NAME = "session-store.db"
_TABLE = "assistant_usage_events"
_NEEDED = frozenset(("session_id", "input_tokens", "cache_read_tokens"))
_COLUMNS = (
    "agent_id", "parent_tool_call_id", "model", "input_tokens", "output_tokens", "cache_read_tokens",
    "cache_write_tokens", "initiator",
)  # fmt: skip

UsageRow: TypeAlias = list[str | int | None]  # agent, model, the four counts, initiator


def usage_lines(path: str, first: bytes) -> Iterator[bytes]:
    """Yield the line before a session's log, which begins with `first`; nothing for another log, or without database.

    `MOST_ROWS` rows are read at most, in the order of requests.
    """
    start = members_at(first[:_FIRST].lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")[0])
    session, database = members_at(start, "data").get("sessionId", b""), database_of(path)
    if start.get("type") != b'"session.start"' or session[:1] != b'"' or not database:
        return
    rows, problem = list[UsageRow](), ""
    try:
        with closing(databases.connect(database)) as connection:
            has = databases.columns_of(connection, _TABLE)
            if not has and connection.execute("select 1 from sqlite_master").fetchone():  # of an older client
                return
            if not has >= _NEEDED:
                raise ValueError(f"no table {_TABLE} with {', '.join(sorted(_NEEDED - has))}")
            names = ", ".join(name if name in has else f"null as {name}" for name in _COLUMNS)
            order = "id" if "id" in has else "rowid"
            query = f"select {names} from {_TABLE} where session_id = ? order by {order} limit {MOST_ROWS + 1}"  # noqa: S608
            for values in connection.execute(query, (text_of(session),)):  # of any type
                agent, call, model, initiator = (
                    value if isinstance(value, str) else "" for value in (*values[:3], values[-1])
                )
                counts = [count if isinstance(count, int) and count >= 0 else None for count in values[3:-1]]
                rows.append([agent or call, model or None, *counts, initiator])
            problem = f"{_NAME}: more than {MOST_ROWS:,} rows" if len(rows) > MOST_ROWS else ""
    except databases.ERRORS as error:
        rows, problem = [], f"{_NAME}: {databases.reason_of(error)}"
    yield line_of(rows[:MOST_ROWS], problem)


def line_of(rows: list[UsageRow], problem: str) -> bytes:
    """Return the line before a log."""
    return msgspec.json.encode({"lore_usage": {"rows": rows, "problem": problem}}) + b"\n"


def database_of(path: str) -> str:
    """Return the database of a log, "" if there is none."""
    folder = os.path.dirname(os.path.abspath(path))
    above = (folder, os.path.dirname(folder), os.path.dirname(os.path.dirname(folder)))
    return next((file for place in above if os.path.isfile(file := os.path.join(place, _NAME))), "")
