"""Request shapes, one file each, and the table of them."""

from __future__ import annotations

from lore.model.jsonslice import sliced_members
from lore.prompt.base import Dialect
from lore.prompt.dialects.anthropic import Anthropic
from lore.prompt.dialects.bedrock import Bedrock
from lore.prompt.dialects.chatml import ChatML
from lore.prompt.dialects.gemini import Gemini
from lore.prompt.dialects.openai import OpenAIChat, OpenAIResponses

# In the order in which they are asked: Bedrock's bodies have what Anthropic's have, and more.
DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (Bedrock(), Anthropic(), OpenAIChat(), OpenAIResponses(), Gemini())
}


TEXT: dict[str, Dialect] = {"template": ChatML()}  # written, never read


def dialect_named(name: str) -> Dialect | None:
    """Return the dialect of this name, also one of rendered text; None for an unknown name."""
    return DIALECTS.get(name) or TEXT.get(name)


def dialect_names() -> list[str]:
    """Return the names of all dialects that prompts are written in."""
    return [*DIALECTS, *TEXT]


def dialect_of(body: bytes) -> Dialect | None:
    """Return the first dialect that recognises a request body; None if no dialect does."""
    members = sliced_members(body)
    return next((dialect for dialect in DIALECTS.values() if dialect.recognises(members)), None)
