"""Request shapes, one file each, and the table of them."""

from __future__ import annotations

from lore.errors import LoreError, did_you_mean
from lore.model.deferred import Registry
from lore.model.jsonslice import sliced_members
from lore.prompt.base import Dialect

# In the order in which they are asked: Bedrock's bodies have what Anthropic's have, and more.
DIALECTS = Registry[Dialect](
    {
        "bedrock": "lore.prompt.dialects.bedrock:Bedrock",
        "anthropic": "lore.prompt.dialects.anthropic:Anthropic",
        "openai-chat": "lore.prompt.dialects.openai:OpenAIChat",
        "openai-responses": "lore.prompt.dialects.openai:OpenAIResponses",
        "gemini": "lore.prompt.dialects.gemini:Gemini",
    },
    make=lambda kind: kind(),
)
# Dialects of text: asked after all others.
TEXT = Registry[Dialect]({"template": "lore.prompt.dialects.chatml:ChatML"}, make=lambda kind: kind())


def dialect_named(name: str) -> Dialect | None:
    """Return the dialect of this name, also one of rendered text; None for an unknown name."""
    return DIALECTS.get(name) or TEXT.get(name)


def require_dialect(name: str) -> Dialect:
    """Return the dialect of this name; raises LoreError for an unknown one."""
    if (dialect := dialect_named(name)) is None:
        raise LoreError(f"unknown dialect {name!r}", hint=did_you_mean(name, dialect_names(), "dialects"))
    return dialect


def dialect_names() -> list[str]:
    """Return the names of all dialects that prompts are written in."""
    return [*DIALECTS, *TEXT]


def dialect_of(body: bytes) -> Dialect | None:
    """Return the first dialect that recognises a request body; None if no dialect does."""
    members = sliced_members(body)
    dialects = (dialect for table in (DIALECTS, TEXT) for dialect in table.values())
    return next((dialect for dialect in dialects if dialect.recognises(members)), None)
