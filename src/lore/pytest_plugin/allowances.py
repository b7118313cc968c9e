"""What a test allows: codes and names of causes, to codes.

Rules: a word that names no cause is an error that suggests one; what is wrong with a recording or over a
budget is no cause, and cannot be allowed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import cast

from lore.errors import LoreError
from lore.model.codes import CODES

_LIST = 'give a list: allow=["date-in-prefix", "tools-reordered"]'
_CAUSES = ("LORE1", "LORE3")


def allowances(allow: object) -> dict[str, str]:
    """Return the word that was given for each code; raises LoreError for a word that names no cause."""
    if isinstance(allow, Mapping) or not isinstance(allow, Iterable):
        raise LoreError(f"allow is {allow!r}, and names no causes", hint=_LIST)
    words: list[object] = [allow] if isinstance(allow, str) else list(cast("Iterable[object]", allow))
    return {_code(word): str(word) for word in words}


def _code(word: object) -> str:
    known = {code.name: key for key, code in CODES.items() if key.startswith(_CAUSES)}
    text = word.strip() if isinstance(word, str) else ""
    found = known.get(text.lower()) or next((code for code in known.values() if code == text.upper()), None)
    if found is not None:
        return found
    if text.upper() in CODES:
        raise LoreError(f"{text} is no cause: it cannot be allowed", hint="`lore explain` lists the causes, LORE1xx")
    near = difflib.get_close_matches(text.lower(), known, 1)
    hint = f"did you mean {near[0]}?" if near else "`lore explain` lists codes and names; write one whole"
    hint = _LIST if "," in text or " " in text else hint
    raise LoreError(f"allow: no cause is called {word!r}", hint=hint)
