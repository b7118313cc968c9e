"""What a provider takes out of a prompt before it caches it: text that is treated like a breakpoint there.

In: a prompt, who serves it. Out: the prompt without that text, and the text. Rules: dated rows, one a fact; at
any other provider, and at a host that nobody knows, the same text is content like all other.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from lore.model.prompt import Prompt, Segment
from lore.model.providers import provider_of


class Row(NamedTuple):
    """Who drops what the first system block begins with, since when that is known, and the source."""

    provider: str
    begins: bytes
    since: str
    source: str


ROWS: tuple[Row, ...] = (
    Row(
        "anthropic",
        b"x-anthropic-billing-header:",
        "2026-02",
        "public threads: stripped by the Claude API, kept by vLLM, llama.cpp, Ollama and gateways",
    ),
)
HEADER = ROWS[0].begins
_WITHIN = 64  # bytes of JSON before a block's text


def is_header(segment: Segment) -> bool:
    """Tell whether a segment is a billing header that a client put into its system prompt."""
    return segment.section == "system" and HEADER in segment.data[: _WITHIN + len(HEADER)]


def without_dropped(prompt: Prompt, endpoint: str) -> Prompt:
    """Return the prompt without what its provider drops; `dropped` then holds that text."""
    at = next((n for n, one in enumerate(prompt.head) if one.section == "system"), None)
    if at is None or not is_header(prompt.head[at]):
        return prompt
    provider = provider_of(endpoint, prompt.model, prompt.dialect)
    row = next((row for row in ROWS if row.provider == provider and row.begins in prompt.head[at].data[:128]), None)
    if row is None:
        return prompt
    both = zip(prompt.breakpoints, prompt.breakpoint_values, strict=True)
    kept = [(place - (place > at), value) for place, value in both
            if place != at]  # fmt: skip
    return structs.replace(
        prompt,
        head=(*prompt.head[:at], *prompt.head[at + 1 :]),
        breakpoints=tuple([place for place, _ in kept]),
        breakpoint_values=tuple([value for _, value in kept]),
        dropped=prompt.head[at].data,
    )
