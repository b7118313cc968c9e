"""What models do that their dialect does not say: dated rows.

Which take a system message in mid-conversation: a model without a row gets its volatile context in the
user's role. Sources: Anthropic's documentation and tests of August 2026 (older Claude models answer 400;
claude-sonnet-5 accepts the message and ignores it, so it has no row); OpenAI's, Mistral's and Cohere's
references.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple


class Row(NamedTuple):
    """A model pattern (shell style), the dialect it holds for, since when, and the source."""

    model: str
    dialect: str
    since: str
    source: str


_ANTHROPIC = "Anthropic API, mid-conversation system messages"
_RESPONSES = "Responses reference: system and developer messages at any place"
_CHAT = "Chat Completions reference: system and developer messages at any place"

ROWS: tuple[Row, ...] = (
    Row("claude-fable-5*", "anthropic", "2026-08", _ANTHROPIC),
    Row("claude-mythos-5*", "anthropic", "2026-08", _ANTHROPIC),
    Row("claude-opus-4-8*", "anthropic", "2026-08", _ANTHROPIC),
    Row("claude-opus-5*", "anthropic", "2026-08", _ANTHROPIC),
    Row("gpt-*", "openai-chat", "2026-08", _CHAT),
    Row("o[0-9]*", "openai-chat", "2026-08", _CHAT),
    Row("mistral-*", "openai-chat", "2026-08", _CHAT),
    Row("command-*", "openai-chat", "2026-08", _CHAT),
    Row("gpt-*", "openai-responses", "2026-08", _RESPONSES),
    Row("o[0-9]*", "openai-responses", "2026-08", _RESPONSES),
)


def takes_system_messages(model: str | None, dialect: str) -> bool:
    """Tell whether a model is known to honour a system message that is not the first."""
    name = (model or "").rsplit("/", 1)[-1]
    return any(row.dialect == dialect and fnmatchcase(name, row.model) for row in ROWS)
