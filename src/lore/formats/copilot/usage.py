"""What Copilot CLI's database bills of a session, joined with the requests of its log.

In: one line before the log, `{"lore_usage": {"rows": […], "problem": "…"}}`, which the plug-in writes that reads the
database; a row is an array of the fields of `StoredRow`, in their order. Out: the row of each request. A row names no
request: those of one agent are in the order of its requests, and a row is a request's where both say the same model and
output tokens, as far as they say any. A row in between that is nobody's was of a request that the log does not hold
(one that was given up, a title). Rows of compactions are told by who began them.

Source: public readers of `assistant_usage_events`, schema version 8 (October 2026): input includes what was read and
written, NULL is unknown.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

OPENING = b'{"lore_usage":'
LOOKED_AT = 16  # rows searched for the one of a request
MAIN = ""
COMPACTION = "compaction"


class StoredRow(Struct, frozen=True, gc=False, array_like=True):
    """The bill of a request; `agent` names the subagent that asked, empty: the session itself."""

    agent: str = MAIN
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    initiator: str = ""

    def fits(self, model: str | None, output: int | None) -> bool:
        """Tell whether a row may be of a request that was answered by this model with so many tokens."""
        same = self.model is None or model is None or self.model == model
        return same and (self.output_tokens is None or output is None or self.output_tokens == output)


class _UsageLine(Struct, frozen=True):
    rows: tuple[StoredRow, ...] = ()
    problem: str = ""


class _Whole(Struct, frozen=True):
    lore_usage: _UsageLine


class StoredUsage(Struct):
    """The rows that no request has yet, by agent, the next one last; how many were passed over, and requests without.

    Nothing is missing where a database says nothing of a session.
    """

    rows: dict[str, list[StoredRow]] = {}
    passed: int = 0
    missing: int = 0

    @classmethod
    def read(cls, line: bytes) -> tuple[StoredUsage, str]:
        """Read the line before a log; with it what is wrong with the database."""
        found = msgspec.json.decode(line, type=_Whole).lore_usage
        rows: dict[str, list[StoredRow]] = {}
        for row in reversed(found.rows):
            rows.setdefault(COMPACTION if row.initiator == COMPACTION else row.agent, []).append(row)
        return cls(rows), found.problem

    def take(self, agents: tuple[str, ...], model: str | None, output: int | None) -> StoredRow | None:
        """Return the row of an agent's next request, by the first of its names that has rows; None: it has none."""
        if not self.rows:
            return None
        rows = next((self.rows[agent] for agent in agents if self.rows.get(agent)), list[StoredRow]())
        for back in range(1, min(LOOKED_AT, len(rows)) + 1):
            if rows[-back].fits(model, output):
                row = rows[-back]
                self.passed += back - 1
                del rows[-back:]
                return row
        self.missing += 1
        return None
