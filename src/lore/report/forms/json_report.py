"""Results as JSON: one object a line, keys in the order of the contract, credentials masked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from lore.model.mask import mask
from lore.report.forms.registry import TextReport
from lore.report.plain import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lore.report.forms.terminal import Reported


def render(result: msgspec.Struct | list[list[object]]) -> str:
    """Encode a result, or rows of one, as one line, without the line feed."""
    try:
        text = msgspec.json.encode(result).decode("utf-8")
    except UnicodeEncodeError:  # it quotes half a surrogate pair, as recordings may
        plain = msgspec.to_builtins(result, enc_hook=lambda raw: json.loads(bytes(raw)))
        text = json.dumps(plain, separators=(",", ":"))
    return make_safe(text)


def make_safe(text: str) -> str:
    """Return JSON text without credentials, and without what a terminal would interpret or not show."""
    return escaped(mask(text).replace("##[", "##\\u005b"))  # GitHub's runner obeys it; in JSON only texts hold it


def _findings_and_sums(result: Reported, verbose: bool) -> Iterator[str]:  # noqa: ARG001, FBT001 - of `TextReport`
    """Yield every finding as a line of its own, notes too; the last line has the sums."""
    yield from map(render, result.findings)
    yield render(msgspec.structs.replace(result, findings=[]))


JSON = TextReport(lambda result, _: [render(result)])
JSON_LINES = TextReport(_findings_and_sums)
