"""Results as JSON: one object a line, keys in the order of the contract, credentials masked."""

from __future__ import annotations

import re

import msgspec
from rich.console import Console

from lore.model.mask import mask
from lore.model.results import Checked

# What a terminal would obey: C1 controls and marks of direction. JSON may spell any character as an escape.
_OBEYED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def render(result: msgspec.Struct) -> str:
    """Encode a result as one line, without the line feed."""
    text = mask(msgspec.json.encode(result).decode("utf-8"))
    if text.isascii() and "\x7f" not in text:
        return text
    return _OBEYED.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


class Json:
    """`lore check --json`."""

    def write(self, result: Checked, out: Console, *, verbose: bool) -> None:
        out.file.write(render(result) + "\n")
