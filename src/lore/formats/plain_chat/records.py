"""What a plain chat's messages and conversations hold, as far as lore reads it.

In: `{role, content}` of SDKs, `{from, value}` of ShareGPT, `{type, content}` and `{type, data}` of LangChain; objects
that list some. Out: structs whose content stays a slice, and what a role's word means. A member of another type than
lore knows makes a message malformed.

Sources: the message types of OpenAI's, Anthropic's, Vercel's and Ollama's SDKs and of LangChain; the roles that
LLaMA-Factory, axolotl and FastChat read, November 2026.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Raw, Struct, field

from lore.formats.bills import billed_of
from lore.formats.values import text_in
from lore.model.events import Billed
from lore.model.items import NULL
from lore.model.jsonslice import table

Role: TypeAlias = Literal["system", "user", "assistant", "call", "tool", ""]
# What a role is: dumps of chats have their own words for it, and spell them as they like.
ROLES: dict[str, Role] = {
    "system": "system", "developer": "system",
    "user": "user", "human": "user",
    "assistant": "assistant", "ai": "assistant", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant",
    "chatbot": "assistant", "model": "assistant",
    "function_call": "call",
    "tool": "tool", "function": "tool", "observation": "tool", "function_response": "tool",
}  # fmt: skip
TIMES = ("timestamp", "ts", "time", "created_at", "createdAt", "created", "at", "date")
# All that a message may say with a text, a list or an object: a file that says more is another program's.
MEMBERS = frozenset((
    *TIMES, "role", "content", "from", "value", "name", "tool_calls", "tool_call_id", "function_call", "tool_name",
    "refusal", "reasoning", "reasoning_content", "reasoning_details", "thinking", "annotations", "id", "uuid",
    "message_id", "type", "model", "usage", "stop_reason", "stop_sequence", "finish_reason", "metadata",
    "additional_kwargs", "response_metadata", "usage_metadata", "invalid_tool_calls", "artifact", "status",
))  # fmt: skip


def role_in(word: str) -> Role:
    """Return what a role is; empty for one that is unknown."""
    return ROLES.get(word) or ROLES.get(word.lower(), "")


class ChatFunction(Struct, frozen=True, gc=False):
    """What a call names and is given: arguments as a text, or as an object."""

    name: str = ""
    arguments: Raw = NULL


class ChatCall(Struct, frozen=True, gc=False):
    """A call of OpenAI's shape, or of LangChain's (`name`, `args`)."""

    function: ChatFunction | None = None
    id: str | None = None
    name: str = ""
    args: Raw = NULL

    @property
    def named(self) -> ChatFunction:
        """What it names, and what that is given."""
        return self.function or ChatFunction(self.name, self.args)


class ChatMessage(Struct, frozen=True, gc=False):
    """A message."""

    role: str = ""
    speaker: str = field(name="from", default="")
    type: str | None = None
    content: Raw = NULL
    value: Raw = NULL
    name: str | None = None
    tool_calls: list[ChatCall] | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    function_call: ChatFunction | None = None
    refusal: Raw = NULL
    reasoning: Raw = NULL
    reasoning_content: Raw = NULL
    thinking: Raw = NULL
    model: str | None = None
    usage: Raw = NULL
    usage_metadata: Raw = NULL
    response_metadata: Raw = NULL
    status: str | None = None
    data: Raw = NULL
    timestamp: Raw = NULL
    ts: Raw = NULL
    time: Raw = NULL
    created_at: Raw = NULL
    createdAt: Raw = NULL  # noqa: N815 - the name in the file
    created: Raw = NULL
    at: Raw = NULL
    date: Raw = NULL

    @property
    def kind(self) -> Role:
        """What its role is; empty for one that is unknown."""
        return ROLES.get(self.role) or role_in(self.role or self.speaker or self.type or "")

    @property
    def body(self) -> Raw:
        """What it says."""
        return self.value if self.content is NULL else self.content

    @property
    def bill(self) -> Billed | None:
        """What the response was billed, where it says it."""
        raw = self.usage_metadata if self.usage is NULL else self.usage
        return None if raw is NULL else billed_of(bytes(raw))

    @property
    def answered_by(self) -> str | None:
        """The model, where it says it."""
        if self.model or self.response_metadata is NULL:
            return self.model or None
        beside = table(bytes(self.response_metadata)) or {}
        return text_in(beside.get("model_name", beside.get("model", b""))) or None


class ChatConversation(ChatMessage, frozen=True, gc=False):
    """A message, or an object that lists some: with what holds for all of them."""

    messages: list[Raw] | None = None
    conversations: list[Raw] | None = None
    conversation: list[Raw] | None = None
    system: Raw = NULL
    tools: Raw = NULL

    @property
    def listed(self) -> list[Raw] | None:
        """Its messages; None where it is a message itself."""
        return next(
            (found for found in (self.messages, self.conversations, self.conversation) if found is not None), None
        )
