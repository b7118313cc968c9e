"""Results as JSON: one object a line, keys in the order of the contract, credentials masked."""

from __future__ import annotations

import msgspec
from rich.console import Console

from lore.model.mask import mask
from lore.model.results import Checked


def render(result: msgspec.Struct) -> str:
    """Encode a result as one line, without the line feed."""
    return mask(msgspec.json.encode(result).decode("utf-8"))


class Json:
    """`lore check --json`."""

    def write(self, result: Checked, out: Console, *, verbose: bool) -> None:
        out.file.write(render(result) + "\n")
