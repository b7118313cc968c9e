"""Owners of memory: users, agents, and the ids of the sessions in which a store keeps their memory.

A user's memory is kept in sessions whose ids begin with `lore.memory/`, the audit log in one that begins with
`lore.memory.audit/`. Names are percent-encoded byte by byte, so names that differ in case or Unicode form are different
users. An empty name, the nil UUID, and the words that programs write when they have no user are rejected.

What other commands may do with these sessions: `lore.store.reserved`.
"""

from __future__ import annotations

from typing import NamedTuple
from unicodedata import normalize
from urllib.parse import quote, unquote

from lore.config import MemorySettings
from lore.errors import LoreError
from lore.model import MAIN, cut_masked, printable
from lore.store import AUDIT_PREFIX, DEFAULT_USER, MEMORY_PREFIX

RESERVED = frozenset(
    ("", ".", "..", "*", "all", "any", "anonymous", "lore", "nil", "nobody", "none", "null", "system", "undefined")
)
SHARED = "*"  # the agent of a bucket that several agents share; no agent can have this name
LONGEST = 220  # characters of an encoded name: stores accept ids of 512
_NIL = "0" * 32


class MemoryBucket(NamedTuple):
    """The memory that one agent keeps about one user, or that several agents share (agent `SHARED`)."""

    user: str
    agent: str

    @property
    def anchor(self) -> str:
        """The id of the session that names the current volume."""
        return f"{anchor_id(self.user)}/{_encoded(self.agent)}"

    def volume(self, name: str) -> str:
        """Return the id of the session that holds the records; `name` is hexadecimal."""
        return f"{self.anchor}/{name}"


def bucket(user: str | None, agent: str | None = None) -> MemoryBucket:
    """Return the bucket of a user and an agent (None: the default ones). Raise LoreError for an invalid name."""
    return MemoryBucket(valid_user(user), MAIN if agent is None else _validate_name(agent, "agent"))


def bucket_to_write(memory: MemorySettings, owner: MemoryBucket) -> MemoryBucket:
    """Return the bucket that an agent writes to: the shared one if the settings name the agent in `share`."""
    return MemoryBucket(owner.user, SHARED) if owner.agent in memory.share else owner


def valid_agent_filter(name: str | None) -> str | None:
    """Return the agent to read (`SHARED`: the shared bucket, None: all). Raise LoreError for an invalid name."""
    return name if name in (None, SHARED) else _validate_name(name, "agent")


def valid_user(name: str | None) -> str:
    """Return the user, the default one for None. Raise LoreError for an invalid name."""
    return DEFAULT_USER if name is None else _validate_name(name, "user")


def _validate_name(name: str, role: str) -> str:
    excerpt = printable(cut_masked(name, 60))
    plain = normalize("NFKC", printable(name)).strip().casefold()
    digits = plain.removeprefix("urn:uuid:").strip("{}").replace("-", "")
    if plain in RESERVED or digits == _NIL:
        hint = f"leave it out for the default {role}" if plain else f"give the {role} a name, or leave it out"
        raise LoreError(f"{excerpt!r} is reserved and cannot be used as {role}", hint=hint)
    if not name.isprintable() or len(_encoded(name)) > LONGEST:
        hint = f"no control characters, and at most {LONGEST} characters when percent-encoded"
        raise LoreError(f"{excerpt!r} cannot be used as {role}", hint=hint)
    return name


def _encoded(name: str) -> str:
    return quote(name, safe="")


def anchor_id(user: str) -> str:
    """Return the id of the session that all of a user's memory is forked from; deleting it deletes all."""
    return MEMORY_PREFIX + _encoded(user)


def audit_id(user: str) -> str:
    """Return the id of the session that holds a user's audit log."""
    return AUDIT_PREFIX + _encoded(user)


def parse_owner(session_id: str) -> tuple[str, str | None] | None:
    """Return the user and agent whose memory a session holds (agent None: the user's anchor), or None."""
    if not session_id.startswith(MEMORY_PREFIX):
        return None
    user, _, agent_path = session_id.removeprefix(MEMORY_PREFIX).partition("/")
    agent = agent_path.partition("/")[0]
    return unquote(user), unquote(agent) or None


def memory_refusal(memory: MemorySettings, agent: str, *, is_forked: bool = False) -> str:
    """Return why nothing is remembered for an agent or a forked session; "" if memory is on."""
    if not memory.is_on:
        return "memory is off"
    if agent not in (*(memory.agents or (MAIN,)), *memory.share):
        return f"agent {printable(agent)!r} is not opted in"
    if is_forked:
        return "sessions of subagents are not remembered"
    return ""
