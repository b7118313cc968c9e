"""Text from recordings as plain text: nothing in it is obeyed by a terminal or a CI runner, no credential is shown."""

from __future__ import annotations

import json
import re
from unicodedata import normalize

from lore.model.mask import mask

_NAMES = {"\n": "⏎", "\t": "⇥", "\r": "␍", "\x1b": "␛", "\x00": "␀"}
# Characters that count as printable and show nothing: fillers, and marks that only change others.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")

_PARTING = frozenset('",')  # what names are quoted with, and parted by


def visible(text: str) -> str:
    """Make invisible characters visible and mask credentials."""
    text = uncommanded(mask(text))
    if text.isprintable() and _BLANK.search(text) is None:
        return text
    return "".join(map(_shown, text))


def named(name: str) -> str:
    """Return a name as it is; in quotes, with escapes, where it could be taken for another one: `"ann "` for one."""
    plain = " ".join(normalize("NFKC", name).split())
    return name if name == plain and not set(name) & _PARTING else json.dumps(name)


def uncommanded(text: str) -> str:
    """Take the sign of a workflow command out of a line: GitHub's runner obeys one wherever in a log it stands."""
    return text.replace("##[", "##<U+005B>") if "##[" in text else text


def _shown(char: str) -> str:
    if char.isprintable() and _BLANK.match(char) is None:
        return char
    return _NAMES.get(char) or f"<U+{ord(char):04X}>"
