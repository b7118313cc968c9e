"""How much of a prompt a log does not hold: the first request, calibrated by its bill.

In: the first turn of a log that holds system prompt and history, but not the tools that its client has. Out: tokens.
Rules: what is billed beyond the texts of the prompt are those tools; an estimate, by bytes a token of such texts.

Source: o200k_base over the first prompts of ten Codex sessions: 4.38 to 4.60 bytes a token; what is left is 5,290 or
5,733 tokens with nothing but Codex's own tools, by model, and more where tool servers are connected.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Raw

from lore.cache.bills import total
from lore.model.canonical import text_of
from lore.model.items import TextBlock, UserMessage, is_absent
from lore.model.turn import Turn

_BYTES_PER_TOKEN = 4.5


def unseen_tokens(turn: Turn) -> int | None:
    """Estimate the tokens of a first request that its log does not hold; None where nothing tells."""
    basis, whole = turn.basis, None if turn.usage is None else total(turn.usage.met)
    if basis is None or whole is None or turn.number != 1 or basis.fidelity != "structural":
        return None
    if not all(isinstance(entry.item, UserMessage) for entry in basis.entries):  # it goes on with another log's history
        return None
    system = basis.rest[1]
    texts = [*_texts(turn), *([system] if isinstance(system, Raw) and not is_absent(system) else [])]
    known = sum(len(text_of(bytes(text)).encode("utf-8", "surrogatepass")) for text in texts) / _BYTES_PER_TOKEN
    return max(0, whole - round(known))


def _texts(turn: Turn) -> Iterator[Raw]:
    assert turn.basis is not None
    for entry in turn.basis.entries:
        item = entry.item
        blocks = item.blocks or () if isinstance(item, UserMessage) else ()
        yield from (block.text for block in blocks if isinstance(block, TextBlock))
