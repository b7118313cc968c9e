"""`lore schema`: a result's JSON Schema."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lore.cli.common import quiet_pipe

if TYPE_CHECKING:
    from msgspec import Struct


def schemas() -> dict[str, type[Struct]]:
    """Return every result by the name under which its schema is printed."""
    from lore.model import results
    from lore.model.results import found, lint, live, overview, replay, simulate, store, tables
    from lore.report import trace

    return {
        "diff-prefix": results.Diff,
        "check": results.Checked,
        "finding": results.Finding,
        "lint": lint.LintResult,
        "fold": store.FoldResult,
        "follow": store.Followed,
        "assemble-all": results.AssembledTurn,
        "assemble-full": results.WholeTurn,
        "assemble-explain": results.Explained,
        "knowledge": store.KnowledgeResult,
        "knowledge-written": store.KnowledgeWritten,
        "simulate": simulate.Simulated,
        "simulate-rules": simulate.RulesResult,
        "record": live.RecordResult,
        "replay": replay.Replayed,
        "compact": simulate.DryRun,
        "compact-written": simulate.Compacted,
        "formats": found.FormatsResult,
        "limits": found.LimitsResult,
        "sessions": found.FoundSessions,
        "statusline": live.RunningSession,
        "overview": overview.Overview,
        "compare": overview.Comparison,
        "trace": trace.Trace,
        "sql": tables.SqlResult,
        "sql-tables": tables.TablesResult,
        "store-list": store.StoreList,
        "store-show": store.StoreShown,
        "store-import": store.StoreImported,
        "store-appended": store.StoreAppended,
        "store-written": store.StoreWritten,
        "store-resolve": store.StoreResolved,
        "store-verify": store.StoreVerified,
        "store-vacuum": store.StoreVacuumed,
        "memory-users": store.MemoryUsers,
        "memory": store.MemoryShown,
        "memory-deleted": store.MemoryDeleted,
        "memory-wiped": store.MemoryWiped,
        "memory-audit": store.MemoryAudit,
        "memory-extracted": store.MemoryExtracted,
        "memory-dreamt": store.MemoryDreamt,
    }


def _names(beginning: str) -> list[str]:
    return [name for name in schemas() if name.startswith(beginning)]


@quiet_pipe
def run(
    name: Annotated[
        str | None,
        typer.Argument(
            help="diff-prefix, check, fold, assemble-all, …; without one, all names.", autocompletion=_names
        ),
    ] = None,
) -> int:
    """Print the JSON Schema of a result."""
    import msgspec

    from lore.errors import LoreError, did_you_mean

    known = schemas()
    if name is None:
        sys.stdout.write("\n".join(known) + "\n")
        return 0
    if name not in known:
        raise LoreError(f"no result is called {name!r}", hint=did_you_mean(name, known, "results"))
    schema = msgspec.json.schema(known[name])
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"lore {name}", **schema}
    sys.stdout.write(json.dumps(schema, indent=2) + "\n")
    return 0
