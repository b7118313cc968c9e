"""Finding codes: a promise. A code never changes its meaning; a new meaning gets a new code.

LORE1xx prefix, LORE2xx transcript and fold, LORE3xx prediction against bill, LORE4xx budgets. Plug-ins add rows
to `CODES`. Rows of the catalogue of causes that bytes cannot show are `NOT_SHOWN`.
"""

from __future__ import annotations

from lore.model.about import About, Actor, CauseKind, CauseSection, Code, Reader, Severity
from lore.model.codes_bills import BILLS
from lore.model.codes_prefix import PREFIX
from lore.model.codes_recordings import RECORDINGS

__all__ = [
    "CODES",
    "NOT_SHOWN",
    "SEVERITY",
    "About",
    "Actor",
    "CauseKind",
    "CauseSection",
    "Code",
    "Reader",
    "Severity",
    "actor_of",
    "fix_of",
]

SEVERITY: dict[CauseKind, Severity] = {"waste": "error", "unattributable": "warning", "expected": "note"}

CODES: dict[str, About] = PREFIX | RECORDINGS | BILLS

# Rows of the catalogue that bytes cannot show: each has a page that says why, and which code stands for it.
NOT_SHOWN: dict[str, str] = {
    "LORE116": "reasoning-dropped-by-template",
    "LORE130": "server-side-miss",
}


def actor_of(code: str, kind: CauseKind) -> Actor:
    """Say who can act on a finding; nobody needs to where it is expected, or where the code is not in the table."""
    known = CODES.get(code)
    return "nobody" if kind == "expected" or known is None else known.actor


def fix_of(code: str, reader: Reader) -> str:
    """Return what a reader can do; the author's sentence where the code has none for users."""
    known = CODES[code]
    return (known.fix_user if reader == "user" else "") or known.fix
