"""What a plain chat is known by: messages, or conversations that list them, and nothing that a request or a record has.

A message has a role and what is said, and any other member of it, if it is more than a
number, makes a file another program's. A conversation is an object that lists messages as `messages`, `conversations`
(ShareGPT) or `conversation`. What decides about `{"messages": [...]}`: with a member that requests have (a model,
tools, a temperature, …) it is a request body, with one that holds what was answered, or should be, a record of a call
or a test case; with neither it is a chat. A list by the other names is in no request: a model, a system prompt and
tools beside it are the conversation's.

Of a document that is longer than what is looked at, only its beginning shows: one that opens with `messages` alone, in
the words of an API, may still name its model at the end, and is taken for a request as before.

Messages: `{role, content}` of SDKs, `{from, value}` of ShareGPT, `{type, content}` and `{type, data}` of LangChain.
Content stays a slice; a member of another type than lore knows makes a message malformed.

Sources: the message types of OpenAI's, Anthropic's, Vercel's and Ollama's SDKs and of LangChain; the roles that
LLaMA-Factory, axolotl and FastChat read, November 2026.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Literal, TypeAlias

from msgspec import Raw, Struct, field

from lore.formats.beginning import BOM, SPACE
from lore.formats.bills import billed_of
from lore.formats.documents import ElementCutter
from lore.formats.http import FIELDS, KEPT
from lore.formats.lines import each
from lore.formats.values import CalledFunction, text_in
from lore.model.deferred import pattern
from lore.model.events import Usage
from lore.model.items import NULL
from lore.model.jsonslice import array, raw_members

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


class ChatCall(Struct, frozen=True, gc=False):
    """A call of OpenAI's shape, or of LangChain's (`name`, `args`)."""

    function: CalledFunction | None = None
    id: str | None = None
    name: str = ""
    args: Raw = NULL

    @property
    def named(self) -> CalledFunction:
        """What it names, and what that is given."""
        return self.function or CalledFunction(self.name, self.args)


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
    function_call: CalledFunction | None = None
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
    def bill(self) -> Usage | None:
        """What the response was billed, where it says it."""
        raw = self.usage_metadata if self.usage is NULL else self.usage
        return None if raw is NULL else billed_of(bytes(raw))

    @property
    def answered_by(self) -> str | None:
        """The model, where it says it."""
        if self.model or self.response_metadata is NULL:
            return self.model or None
        beside = raw_members(bytes(self.response_metadata)) or {}
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


def role_of(members: Mapping[str, bytes]) -> Role:
    """Return the role of a message that is sliced."""
    return role_in(text_in(members.get("role", members.get("from", members.get("type", b"")))))


def is_message(members: Mapping[str, bytes]) -> bool:
    """Tell whether an object is a message of a plain chat and nothing else.

    What is unknown may stand beside it where it is a number, true, false or null.
    """
    if set(members) == {"type", "data"}:
        members = {**(raw_members(members["data"]) or {}), "type": members["type"]}
    role = role_of(members)
    if not role:
        return False
    content = members.get("content", members.get("value", b""))[:1]
    calls = not {"tool_calls", "function_call"}.isdisjoint(members)
    says = content in (b'"', b"[") or (content == b"n" and role == "assistant") or (calls and not content)
    kind = b"null" if {"role", "from"}.isdisjoint(members) else members.get("type", b"null")
    known = all(key in MEMBERS or value[:1] not in (b'"', b"[", b"{") for key, value in members.items())
    return says and known and kind in (b"null", b'"message"')


LISTS = ("messages", "conversations", "conversation")
PATHS = ("", *(f".{name}" for name in LISTS))
_LOOKED_AT = 64  # messages at a file's beginning, all of which must have a message's shape
_TOLD = ("system", "user")  # an answer alone is a response that was kept, and no chat
_CALLS = frozenset((*KEPT, "choices", "request", "completion", "chosen", "rejected")) - {"id", "sessionId", "title"}
_REQUESTS = FIELDS - {*LISTS, "metadata"}
_API_ROLES = frozenset(("system", "developer", "user", "assistant", "tool", "function"))
# A first message that is longer than the beginning of a file.
_LONG = pattern(
    rb"(?:\xef\xbb\xbf)?\s*\[\s*\{\s*"
    rb'"(?:role|from)"\s*:\s*"(?:system|developer|user|human)"\s*,\s*"(?:content|value)"\s*:\s*["\[]'
)


def are_lines(head: bytes) -> bool:
    """Tell whether a file begins as lines of messages, or of conversations; damage aside."""
    return _are_chats(each(head))


def is_list(head: bytes) -> bool:
    """Tell whether a file begins as an array of messages, or of conversations."""
    if head.removeprefix(BOM).lstrip(SPACE)[:1] != b"[":
        return False
    whole = [line.data for line in ElementCutter([head], ("",))]
    return _are_chats(whole) if whole else _LONG.match(head) is not None


def is_document(head: bytes) -> bool:
    """Tell whether a file is, or begins as, one conversation."""
    text = head.removeprefix(BOM).strip(SPACE)
    if text[:1] != b"{":
        return False
    whole = raw_members(text)
    if whole is not None:
        return _is_conversation(whole)
    elements = ElementCutter([text], PATHS[1:])
    found = [line.data for line in elements]
    begun = raw_members(elements.begin + b"]}") if elements.begin is not None else None
    if elements.is_whole or not found or begun is None or not list_in(begun):
        return False
    names = {text_in((raw_members(piece) or {}).get("role", b"")) for piece in found}
    shown = "messages" not in begun or bool(begun.keys() - FIELDS) or not names <= _API_ROLES
    return shown and _are_chats(found)


def list_in(members: Iterable[str]) -> str:
    """Name the list of messages of an object with these members; empty where it is no conversation."""
    names = set(members)
    listed = [name for name in LISTS if name in names]
    if len(listed) != 1 or names & _CALLS:
        return ""
    return "" if listed == ["messages"] and names & _REQUESTS else listed[0]


def _is_conversation(members: dict[str, bytes]) -> bool:
    name = list_in(members)
    return bool(name) and members[name][:1] == b"[" and _are_chats(array(members[name]))


def _are_chats(pieces: Iterable[bytes]) -> bool:
    """Tell whether what is whole of a beginning are messages, one of which a model was told, or conversations."""
    told = False
    for piece in islice(pieces, _LOOKED_AT):
        members = raw_members(piece)
        if members is None:
            continue
        if is_message(members):
            told = told or role_of(members) in _TOLD
        elif _is_conversation(members):
            told = True
        else:
            return False
    return told
