"""What a turn of the user is asked with, as Codex notes it: effort, date, permissions, instructions.

In: what was noted before, and what is noted now. Out: signs of what changed. Rules: a field that is not noted says
nothing; of a long text it is shown that it changed, and not how.

All of it is prompt content. Codex appends what changed behind the history (a developer's message, an environment
context), so that a change by itself seldom moves the prefix. Source: `turn_context` of 697 turns, versions 0.118 to
0.144; `codex-rs/core/src/context_manager/updates.rs` of October 2026.
"""

from __future__ import annotations

import hashlib

from msgspec import Raw, Struct

from lore.model.canonical import text_of
from lore.model.items import NULL, is_absent
from lore.model.jsonslice import table
from lore.model.state import LONGEST, Sign

# A field of the context -> the sign that it changed.
_SIGNS = {
    "effort": "effort",
    "summary": "effort",
    "current_date": "date",
    "timezone": "date",
    "approval_policy": "permission-mode",
    "sandbox_policy": "permission-mode",
    "permission_profile": "permission-mode",
    "cwd": "instructions",
    "personality": "instructions",
    "collaboration_mode": "instructions",
    "multi_agent_mode": "instructions",
    "developer_instructions": "instructions",
    "user_instructions": "memory",
}
_NAMED = ("mode", "type")  # members that an object goes by


class Noted(Struct, frozen=True):
    """A field as it was noted: digests of its text and of what counts of it, and how it is shown."""

    text: str
    digest: str
    shown: str


def signs_of_context(known: dict[str, Noted], now: dict[str, Raw]) -> list[Sign]:
    """Return what changed since the last context, which `known` remembers; it then knows this one. One sign a name."""
    found: dict[str, Sign] = {}
    for name, sign in _SIGNS.items():
        value = now.get(name, NULL)
        if is_absent(value):
            continue
        text, before = bytes(value), known.get(name)
        if before is not None and before.text == _digest(text):
            continue
        noted = known[name] = _noted(name, text)
        if before is None or before.digest == noted.digest:
            continue
        joined = found.get(sign, Sign(sign))
        shows = (before.shown, noted.shown) if before.shown != noted.shown else ("", "")
        texts = [", ".join(filter(None, pair)) for pair in zip((joined.before, joined.after), shows, strict=True)]
        found[sign] = Sign(sign, (*joined.names, name), before=texts[0], after=texts[1])
    return list(found.values())


def _noted(name: str, text: bytes) -> Noted:
    """Note a field: a short text as it is, an object by its name, a long text by nothing but its digest."""
    counts, own = text, table(text) if text[:1] == b"{" else None
    if own is None:
        shown = text_of(text) if text[:1] == b'"' else text.decode("utf-8", "replace")
    else:
        named = next((own[key] for key in _NAMED if own.get(key, b"")[:1] == b'"'), b'""')
        inner = table(own.get("settings", b"")) if name == "collaboration_mode" else None
        if inner is not None:  # what else these are stands beside it
            counts = named + inner.get("developer_instructions", b"")
        shown = text_of(named)
    return Noted(_digest(text), _digest(counts), "" if len(shown) > LONGEST or "\n" in shown else shown)


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=8).hexdigest()
