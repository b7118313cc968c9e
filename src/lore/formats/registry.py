"""The table of readers, in the order in which they are asked whether a file is theirs."""

from __future__ import annotations

from lore.formats.assembled import Assembled
from lore.formats.base import Reader
from lore.formats.bodies import Bodies
from lore.formats.claude_code import ClaudeCode
from lore.formats.lore_log import LoreLog

READERS: dict[str, type[Reader]] = {
    "lore": LoreLog,
    "claude-code": ClaudeCode,
    "assembled": Assembled,
    "bodies": Bodies,
}
BUILT_IN = frozenset(READERS)


def recognise(head: bytes) -> type[Reader] | None:
    """Return lore's own reader of a file that begins like this; None where it is no recording."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    if text[:1] != b"{":
        return None
    return next((READERS[name] for name in READERS if name in BUILT_IN and READERS[name].recognises(head)), None)
