"""Every result by the name under which `lore schema` prints it."""

from __future__ import annotations

from msgspec import Struct

from lore.model.assembled import AssembledTurn, WholeTurn
from lore.model.compacted import Compacted, DryRun
from lore.model.remembered import (
    MemoryAudit,
    MemoryDeleted,
    MemoryDreamt,
    MemoryExtracted,
    MemoryShown,
    MemoryUsers,
    MemoryWiped,
)
from lore.model.results import (
    Checked,
    Diff,
    Explained,
    Finding,
    FoldResult,
    Followed,
    KnowledgeResult,
    KnowledgeWritten,
)
from lore.model.ruled import RulesResult
from lore.model.simulated import Simulated
from lore.model.stored import (
    StoreAppended,
    StoreImported,
    StoreList,
    StoreResolved,
    StoreShown,
    StoreVacuumed,
    StoreVerified,
    StoreWritten,
)

SCHEMAS: dict[str, type[Struct]] = {
    "diff-prefix": Diff,
    "check": Checked,
    "finding": Finding,
    "fold": FoldResult,
    "follow": Followed,
    "assemble-all": AssembledTurn,
    "assemble-full": WholeTurn,
    "assemble-explain": Explained,
    "knowledge": KnowledgeResult,
    "knowledge-written": KnowledgeWritten,
    "simulate": Simulated,
    "simulate-rules": RulesResult,
    "compact": DryRun,
    "compact-written": Compacted,
    "store-list": StoreList,
    "store-show": StoreShown,
    "store-import": StoreImported,
    "store-appended": StoreAppended,
    "store-written": StoreWritten,
    "store-resolve": StoreResolved,
    "store-verify": StoreVerified,
    "store-vacuum": StoreVacuumed,
    "memory-users": MemoryUsers,
    "memory": MemoryShown,
    "memory-deleted": MemoryDeleted,
    "memory-wiped": MemoryWiped,
    "memory-audit": MemoryAudit,
    "memory-extracted": MemoryExtracted,
    "memory-dreamt": MemoryDreamt,
}
