"""Text from recordings as plain text: nothing in it is obeyed by a terminal, no credential is shown."""

from __future__ import annotations

import re

from lore.model.mask import mask

_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufe00-\ufe0f\ufeff\ud800-\udfff]"
)
_NAMES = {"\n": "⏎", "\t": "⇥", "\r": "␍", "\x1b": "␛", "\x00": "␀"}


def visible(text: str) -> str:
    """Make invisible characters visible and mask credentials."""
    return _INVISIBLE.sub(lambda found: _NAMES.get(found.group(), f"<U+{ord(found.group()):04X}>"), mask(text))
