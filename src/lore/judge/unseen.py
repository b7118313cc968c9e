"""How much of a prompt a log does not hold: the first request, calibrated by its bill.

In: the first turn of a log that holds system prompt and history, but not the tools that its client has. Out: tokens.
Rules: what is billed beyond the texts and the tools that the log holds are those tools; an estimate, by bytes a token
of such texts.

Source: o200k_base over the first prompts of ten Codex sessions, 4.38 to 4.63 bytes a token. What is left is the same to
the token where version, model and connected tools are: 5,733 and 5,733 tokens (0.140, gpt-5.5), 5,290 and 5,291 (0.141
and 0.142, a smaller model), 22,894 and 22,936 less a tool of 338 bytes that the log holds (0.118, three plugins with
apps whose tools were not put off); 7,222 without apps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

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
    system, tools = basis.rest[1:3]
    texts = [*_texts(turn), *([system] if isinstance(system, Raw) and not is_absent(system) else [])]
    known = sum(len(text_of(bytes(text)).encode("utf-8", "surrogatepass")) for text in texts)
    known += sum(len(bytes(tool)) for tool in cast("tuple[Raw, ...] | None", tools) or ())
    return max(0, whole - round(known / _BYTES_PER_TOKEN))


def _texts(turn: Turn) -> Iterator[Raw]:
    assert turn.basis is not None
    for entry in turn.basis.entries:
        item = entry.item
        blocks = item.blocks or () if isinstance(item, UserMessage) else ()
        yield from (block.text for block in blocks if isinstance(block, TextBlock))
