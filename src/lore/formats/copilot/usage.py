"""Usage of requests from Copilot CLI's database (`session-store.db`), matched with the requests of a log.

A plug-in reads the database and writes one line before the log: `{"lore_usage": {"rows": […], "problem": "…"}}`; a row
is an array of the fields of `UsageRow`. A row names no request. The rows of one agent are in the order of its requests,
and a row belongs to a request if model and output tokens are the same, as far as both are known. Rows in between belong
to requests that the log does not hold (given up, or for a title). Rows of compactions name what started them.

Source: public readers of `assistant_usage_events`, schema version 8 (October 2026): input includes cached tokens,
NULL means unknown.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

OPENING = b'{"lore_usage":'
COMPACTION = "compaction"
_ROWS_TRIED = 16  # for one request


class UsageRow(Struct, frozen=True, gc=False, array_like=True):
    """The usage of one request."""

    agent: str = ""  # the subagent that sent it; empty: the session itself
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    initiator: str = ""

    def fits(self, model: str | None, output: int | None) -> bool:
        """Return whether this may be the row of a request with this answer."""
        is_same_model = self.model is None or model is None or self.model == model
        return is_same_model and (self.output_tokens is None or output is None or self.output_tokens == output)


class _Usage(Struct, frozen=True):
    rows: tuple[UsageRow, ...] = ()
    problem: str = ""  # why the database could not be read


class _UsageLine(Struct, frozen=True):
    lore_usage: _Usage


class DatabaseUsage:
    """The rows that belong to no request yet."""

    def __init__(self) -> None:
        self.problem = ""  # why the database could not be read
        self.skipped = 0  # rows that belong to no request of the log
        self.missing = 0  # requests of the log without a row; 0 if there is no database
        self._rows: dict[str, list[UsageRow]] = {}  # by agent, the next one last

    def read(self, line: bytes) -> None:
        """Read the line before a log."""
        try:
            usage = msgspec.json.decode(line, type=_UsageLine).lore_usage
        except ValueError:
            self.problem = "the usage in its database cannot be read"
            return
        self.problem = usage.problem
        for row in reversed(usage.rows):
            self._rows.setdefault(COMPACTION if row.initiator == COMPACTION else row.agent, []).append(row)

    @property
    def left(self) -> int:
        """The number of rows without a request."""
        return sum(map(len, self._rows.values())) + self.skipped

    def has(self, agent: str) -> bool:
        """Return whether the database has rows of an agent."""
        return agent in self._rows

    def take(self, agents: tuple[str, ...], model: str | None, output: int | None) -> UsageRow | None:
        """Return the row of an agent's next request, by the first of its names that has rows; None if it has none."""
        if not self._rows:
            return None
        rows = next((self._rows[agent] for agent in agents if self._rows.get(agent)), list[UsageRow]())
        for back in range(1, min(_ROWS_TRIED, len(rows)) + 1):
            if rows[-back].fits(model, output):
                row = rows[-back]
                self.skipped += back - 1
                del rows[-back:]
                return row
        self.missing += 1
        return None
