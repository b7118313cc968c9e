"""What Copilot CLI's messages say: whose they are, what a model said and what it was told, by what model's dialect.

In: decoded records. Out: blocks, texts and names of lore's.
"""

from __future__ import annotations

from msgspec import Raw

from lore.formats import copilot_records as records
from lore.model.canonical import text_of
from lore.model.items import Block, RawBlock, TextBlock, ThinkingBlock, is_absent, is_blank

_TICKS = ("schedule",)
_PEOPLE = ("", "user")
_QUOTE = b'"'


def model_named(name: str | None) -> str | None:
    """Return a model's name; None where the client chooses one for each request."""
    return name if name and name != "auto" else None


def dialect_of(model: str | None) -> str | None:
    """Return the dialect of a model's requests, by its name; None where that is not known."""
    if model is None:
        return None
    return "anthropic" if model.startswith("claude") else "openai-responses" if model.startswith("gpt-5") else None


def source_of(source: str) -> str:
    """Return whose a message of the user's role is: another agent's is the prompt of its chain."""
    if source in _PEOPLE or source.startswith("agent-"):
        return "user"
    return "tick" if source.startswith(_TICKS) else "context_injection"


def spoken(answer: records.Answer) -> tuple[Block, ...]:
    """Return what an answer says besides its calls: reasoning, then text."""
    blocks: list[Block] = []
    opaque, text = answer.reasoning_opaque, answer.reasoning_text
    if bytes(memoryview(text)[:1]) == _QUOTE:
        blocks.append(ThinkingBlock(text, text_of(bytes(opaque)) if bytes(opaque)[:1] == _QUOTE else None))
    elif not is_absent(answer.encrypted_content):
        encrypted = bytes(answer.encrypted_content)
        blocks.append(RawBlock(Raw(b'{"type":"reasoning","summary":[],"encrypted_content":' + encrypted + b"}")))
    if bytes(memoryview(answer.content)[:1]) == _QUOTE and not is_blank(answer.content):
        blocks.append(TextBlock(answer.content))
    return tuple(blocks)


def text_or(output: Raw, error: Raw, *, failed: bool) -> Raw:
    """Return what the model is told of a call: its result, or why it failed; a text in any case."""
    for text in (error, output) if failed else (output, error):
        if bytes(memoryview(text)[:1]) == _QUOTE:
            return text
    return Raw(b'""')
