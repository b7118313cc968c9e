"""Whose memory it is: users, agents, and the sessions of the store that keep it.

A user's memory is kept in sessions whose ids begin with `lore.memory/`, the audit log in one that begins with
`lore.memory.audit/`; both parts are percent-encoded byte for byte: ids that differ by case or by Unicode form are
different users. Refused as a name: an empty one, the nil UUID, and the words that programs put where they have no user.

What else may be done with such sessions: `lore.store.reserved`.
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
SHARED = "*"
"""Stands for an agent where memory is kept that agents share: no agent can be called so."""

LONGEST = 220  # characters of an encoded part: stores take ids of 512
_NIL = "0" * 32


class MemoryBucket(NamedTuple):
    """The memory that one agent has of one user, or (agent `SHARED`) those that share it."""

    user: str
    agent: str

    @property
    def anchor(self) -> str:
        """The session that says where it is kept."""
        return f"{anchor_of(self.user)}/{_encoded(self.agent)}"

    def volume(self, name: str) -> str:
        """The session that keeps it; `name` is hexadecimal."""
        return f"{self.anchor}/{name}"


def bucket(user: str | None, agent: str | None = None) -> MemoryBucket:
    """Return the bucket of a user and an agent, by default the default ones; raises LoreError for an invalid name."""
    return MemoryBucket(good_user(user), MAIN if agent is None else _good(agent, "agent"))


def written_by(memory: MemorySettings, owner: MemoryBucket) -> MemoryBucket:
    """Return the bucket that an agent of a user learns into: that which is shared, where the policy names the agent."""
    return MemoryBucket(owner.user, SHARED) if owner.agent in memory.share else owner


def good_scope(name: str | None) -> str | None:
    """Return the agent to look at (`SHARED`: what agents share; None: all); raises LoreError for an invalid name."""
    return name if name in (None, SHARED) else _good(name, "agent")


def good_user(name: str | None) -> str:
    """Return the user to use; raises LoreError for an invalid name."""
    return DEFAULT_USER if name is None else _good(name, "user")


def _good(name: str, what: str) -> str:
    shown = printable(cut_masked(name, 60))
    plain = normalize("NFKC", printable(name)).strip().casefold()
    digits = plain.removeprefix("urn:uuid:").strip("{}").replace("-", "")
    if plain in RESERVED or digits == _NIL:
        hint = f"leave it out for the default {what}" if plain else f"give the {what} a name, or leave it out"
        raise LoreError(f"{shown!r} is reserved, and names no {what}", hint=hint)
    if not name.isprintable() or len(_encoded(name)) > LONGEST:
        hint = f"no control characters, and at most {LONGEST} characters when percent-encoded"
        raise LoreError(f"{shown!r} is no id of a memory's {what}", hint=hint)
    return name


def _encoded(name: str) -> str:
    return quote(name, safe="")


def anchor_of(user: str) -> str:
    """Return the session that all of a user's memory is forked from: it goes with it."""
    return MEMORY_PREFIX + _encoded(user)


def audit_of(user: str) -> str:
    """Return the session that keeps a user's audit log."""
    return AUDIT_PREFIX + _encoded(user)


def owner_of(session_id: str) -> tuple[str, str | None] | None:
    """Return the user that a session keeps memory of, and the agent where it is one's; None where it keeps none."""
    if not session_id.startswith(MEMORY_PREFIX):
        return None
    user, _, rest = session_id.removeprefix(MEMORY_PREFIX).partition("/")
    agent = rest.partition("/")[0]
    return unquote(user), unquote(agent) or None


def refusal(memory: MemorySettings, agent: str, *, chain: str = MAIN, is_forked: bool = False) -> str:
    """Say why nothing is remembered for an agent, a subagent's chain or a forked session; empty if it is opted in."""
    if not memory.is_on:
        return "memory is off"
    if agent not in (*(memory.agents or (MAIN,)), *memory.share):
        return f"agent {printable(agent)!r} is not opted in"
    if chain != MAIN or is_forked:
        return "what subagents say is not remembered"
    return ""
