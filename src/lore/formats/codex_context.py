"""What a turn of the user is asked with, as Codex notes it: model, effort, date, permissions, instructions.

In: what was noted before, and what is noted now. Out: signs of what changed. Source: `turn_context` of 697 turns.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Raw

from lore.model.items import NULL, is_absent
from lore.model.state import LONGEST, Sign

# A field of the context -> the sign that it changed. Its values are shown where they are short texts.
_SIGNS = {
    "effort": "effort",
    "approval_policy": "permission-mode",
    "sandbox_policy": "permission-mode",
}


def signs_of_context(known: dict[str, Raw], now: dict[str, Raw]) -> list[Sign]:
    """Return what changed since the last context, which `known` remembers; it then knows this one."""
    return list(_signs(known, now))


def _signs(known: dict[str, Raw], now: dict[str, Raw]) -> Iterator[Sign]:
    for name, sign in _SIGNS.items():
        value = now.get(name, NULL)
        if is_absent(value):
            continue
        before = known.get(name)
        known[name] = value.copy()
        if before is not None and before != value:
            yield Sign(sign, (name,), before=_shown(before), after=_shown(value))


def _shown(raw: Raw) -> str:
    return bytes(raw).decode("utf-8", "replace").strip('"')[:LONGEST]
