"""Signals in the contexts of Codex CLI: what a turn of the user is asked with, as `turn_context` records note it.

All of it is prompt content that Codex appends to the history, so a change by itself seldom moves the prefix. A field
that is absent says nothing. Source: 697 contexts of versions 0.118 to 0.144.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Raw

from lore.model.canonical import text_of
from lore.model.items import NULL, is_absent
from lore.model.jsonslice import raw_members
from lore.model.state import LONGEST, Sign

_SIGNALS = {  # field: signal
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


class ContextField(NamedTuple):
    """A field of a context."""

    text: bytes
    content: bytes  # the part of it that counts
    shown: str  # a short text as it is, an object by its name, a long text not at all


def signals_of_context(known: dict[str, ContextField], context: dict[str, Raw]) -> list[Sign]:
    """Return what differs from the previous context, one signal a name; `known` then holds this context."""
    signals: dict[str, Sign] = {}
    for name, signal in _SIGNALS.items():
        value, before = context.get(name, NULL), known.get(name)
        if is_absent(value) or (before is not None and value == before.text):
            continue
        after = known[name] = _field(name, bytes(value))
        if before is None or before.content == after.content:
            continue
        joined = signals.get(signal, Sign(signal))
        pair = (before.shown, after.shown) if before.shown != after.shown else ("", "")
        texts = [", ".join(filter(None, both)) for both in zip((joined.before, joined.after), pair, strict=True)]
        signals[signal] = Sign(signal, (*joined.names, name), before=texts[0], after=texts[1])
    return list(signals.values())


def _field(name: str, text: bytes) -> ContextField:
    content, members = text, raw_members(text) if text[:1] == b"{" else None
    if members is None:
        shown = text_of(text) if text[:1] == b'"' else text.decode("utf-8", "replace")
    else:
        title = next((members[key] for key in ("mode", "type") if members.get(key, b"")[:1] == b'"'), b'""')
        settings = raw_members(members.get("settings", b"")) if name == "collaboration_mode" else None
        if settings is not None:  # its other settings, as the model, are fields of the context
            content = title + settings.get("developer_instructions", b"")
        shown = text_of(title)
    return ContextField(text, content, "" if len(shown) > LONGEST or "\n" in shown else shown)
