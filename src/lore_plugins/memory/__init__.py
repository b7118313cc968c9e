"""Memory across sessions: extract texts from conversations, make topics of them, pass these to later sessions.

For an agent: `memory_of_session` returns the memory of a session; pass it to `lore.compaction.hooks.Continuous`.
"""

from typing import TYPE_CHECKING

from lore.commands import KEEP, CommandRow
from lore.exports import public_names

if TYPE_CHECKING:
    # isort: off
    from lore_plugins.memory.agent import AgentMemory as AgentMemory, StoreMemories as StoreMemories
    from lore_plugins.memory.agent import memory_of_session as memory_of_session
    from lore_plugins.memory.identities import MemoryBucket as MemoryBucket, bucket as bucket

__all__ = ["COMMAND", "AgentMemory", "MemoryBucket", "StoreMemories", "bucket", "memory_of_session"]
__getattr__ = public_names(__name__)

_STORE = "--store sqlite:sessions.db"
_RESULTS = "lore_plugins.memory.results"
COMMAND = CommandRow(
    KEEP,
    "memory",
    "Look at and change what is remembered across sessions.",
    ((f"memory show {_STORE}", "what your sessions remember"),),
    "lore_plugins.memory.commands",
    subcommands={
        "memory extract": ((f"memory extract SESSION_ID {_STORE}", ""),),
        "memory dream": ((f"memory dream {_STORE}", "makes topics of the learned texts"),),
        "memory show": ((f"memory show {_STORE}", "the topics and the texts"),),
        "memory users": ((f"memory users {_STORE}", ""),),
        "memory export": ((f"memory export {_STORE}", "as JSON"),),
        "memory audit": ((f"memory audit {_STORE}", ""),),
        "memory delete": ((f"memory delete editor {_STORE}", ""),),
        "memory page": ((f"memory page {_STORE}", "prints its address; Ctrl-C ends it"),),
        "memory wipe": ((f"memory wipe {_STORE} --yes", "without a question"),),
    },
    schemas={
        "memory-users": f"{_RESULTS}:MemoryUsers",
        "memory": f"{_RESULTS}:MemoryShown",
        "memory-deleted": f"{_RESULTS}:MemoryDeleted",
        "memory-wiped": f"{_RESULTS}:MemoryWiped",
        "memory-audit": f"{_RESULTS}:MemoryAudit",
        "memory-extracted": f"{_RESULTS}:MemoryExtracted",
        "memory-dreamt": f"{_RESULTS}:MemoryDreamt",
    },
)
