"""Request shapes, one file each, and the table of them."""

from __future__ import annotations

from lore.model.jsonslice import parts
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
    """Return the dialect of this name, those of rendered text included; None where there is none."""
    return DIALECTS.get(name) or TEXT.get(name)


def dialect_names() -> list[str]:
    """Return the names of all dialects that prompts are written in."""
    return [*DIALECTS, *TEXT]


def dialect_of(body: bytes) -> Dialect | None:
    """Recognise a request body; None where no dialect does. The first match holds."""
    members = parts(body)
    return next((dialect for dialect in DIALECTS.values() if dialect.recognises(members)), None)
