"""When two wordings of what is known say the same: the normal form of a text, and an entry's signature.

Rules (durable prompt deltas, from the first of the five systems): case, quotes, mark-up, punctuation and
white space carry no meaning; operators (`= < > & | + / ^ % - ! ?`) do. The category is not part of it.
"""

from __future__ import annotations

import hashlib

_BLANK = str.maketrans(dict.fromkeys("\"'`*_~#()[]{}.,;:…—–", " "))


def normalised(text: str) -> str:
    """Return the text without what carries no meaning."""
    return " ".join(text.lower().translate(_BLANK).split())


def signature(title: str, content: str) -> str:
    """Return 16 hex digits that change when the meaning of an entry does (SHA-256 of the normal form)."""
    said = f"{normalised(title)}\x1f{normalised(content)}"
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]
