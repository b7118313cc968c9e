"""How a plain chat is recognised: by messages, or conversations that list them, without what requests and records have.

A message has a role and content. Any member that no SDK writes, unless it is only a number, makes the file another
program's. A conversation is an object that lists messages as `messages`, `conversations` (ShareGPT) or `conversation`.
Several conversations without a response, usage, time, model or id in any of them are a data set, which nobody recorded.
For `{"messages": [...]}` the other members decide: with one that requests have (a model, tools, a temperature, …) it is
a request body; with one that holds an answer, or an expected one, it is a record of a call or a test case; otherwise it
is a chat. No request has a list by the other names: a model, a system prompt and tools there are the conversation's.

Of a document that is longer than the beginning that is read, one that opens with only `messages` in the words of an API
may still name its model at the end, and counts as a request.

Messages: `{role, content}` of SDKs, `{from, value}` of ShareGPT, `{type, content}` and `{type, data}` of LangChain.

Sources: the message types of OpenAI's, Anthropic's, Vercel's and Ollama's SDKs and of LangChain; the roles that
LLaMA-Factory, axolotl and FastChat read, November 2026.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Literal, TypeAlias

from lore.formats.beginning import BOM, SPACE
from lore.formats.documents import ElementCutter
from lore.formats.http import ANSWERS, FIELDS, KEPT
from lore.formats.lines import nonblank_lines
from lore.formats.values import text_at, text_in
from lore.model.deferred import pattern
from lore.model.jsonslice import array, members_at, raw_members

Role: TypeAlias = Literal["system", "user", "assistant", "call", "tool", ""]
# Dumps of chats have words of their own for roles, in any spelling.
ROLES: dict[str, Role] = {
    "system": "system", "developer": "system",
    "user": "user", "human": "user",
    "assistant": "assistant", "ai": "assistant", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant",
    "chatbot": "assistant", "model": "assistant",
    "function_call": "call",
    "tool": "tool", "function": "tool", "observation": "tool", "function_response": "tool",
}  # fmt: skip
TIMES = ("timestamp", "ts", "time", "created_at", "createdAt", "created", "at", "date")
# The members of a message that may be a text, a list or an object.
MEMBERS = frozenset((
    *TIMES, "role", "content", "from", "value", "name", "tool_calls", "tool_call_id", "function_call", "tool_name",
    "refusal", "reasoning", "reasoning_content", "reasoning_details", "thinking", "annotations", "id", "uuid",
    "message_id", "type", "model", "usage", "stop_reason", "stop_sequence", "finish_reason", "metadata",
    "additional_kwargs", "response_metadata", "usage_metadata", "invalid_tool_calls", "artifact", "status",
))  # fmt: skip


def role_of(members: Mapping[str, bytes]) -> Role:
    """Return the role of a message; empty if it is unknown."""
    word = text_in(members.get("role", members.get("from", members.get("type", b""))))
    return ROLES.get(word) or ROLES.get(word.lower(), "")


def unwrap_langchain(members: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Return a message that LangChain packed as `{type, data}` in the shape of others."""
    if set(members) != {"type", "data"}:
        return members
    return {**members_at(members["data"]), "type": members["type"]}


def is_message(members: Mapping[str, bytes]) -> bool:
    """Return whether an object is a message of a plain chat; unknown members may be numbers, true, false or null."""
    members = unwrap_langchain(members)
    role = role_of(members)
    if not role:
        return False
    content = members.get("content", members.get("value", b""))[:1]
    has_calls = not {"tool_calls", "function_call"}.isdisjoint(members)
    has_content = content in (b'"', b"[") or (content == b"n" and role == "assistant") or (has_calls and not content)
    kind = b"null" if {"role", "from"}.isdisjoint(members) else members.get("type", b"null")
    is_known = all(key in MEMBERS or value[:1] not in (b'"', b"[", b"{") for key, value in members.items())
    return has_content and is_known and kind in (b"null", b'"message"')


LISTS = ("messages", "conversations", "conversation")
PATHS = ("", *(f".{name}" for name in LISTS))
_FIRST = 64  # messages at a file's beginning that must all have a message's shape
_PROMPTS = ("system", "user")  # a file of answers alone holds responses, not a chat
_CALLS = frozenset((*KEPT, "choices", "request", "completion", "chosen", "rejected")) - {"id", "sessionId", "title"}
_REQUESTS = FIELDS - {*LISTS, "metadata"}
_API_ROLES = frozenset(("system", "developer", "user", "assistant", "tool", "function"))
# Members of a conversation, and of a message, that examples for training or tests lack.
_RECORDED = (FIELDS | ANSWERS | {*TIMES, "response"}) - {*LISTS, "system", "tools", "parallel_tool_calls", "metadata"}
_ANSWERED = frozenset((*TIMES, "id", "uuid", "message_id", "model", "usage", "usage_metadata", "response_metadata",
                       "stop_reason", "finish_reason"))  # fmt: skip
# The beginning of a first message that is longer than the beginning that is read.
_LONG = pattern(
    rb"(?:\xef\xbb\xbf)?\s*\[\s*\{\s*"
    rb'"(?:role|from)"\s*:\s*"(?:system|developer|user|human)"\s*,\s*"(?:content|value)"\s*:\s*["\[]'
)


def are_lines(head: bytes) -> bool:
    """Return whether a file begins with lines of messages or conversations; damaged lines are ignored."""
    return _are_chats(nonblank_lines(head))


def is_list(head: bytes) -> bool:
    """Return whether a file begins with an array of messages or conversations."""
    if head.removeprefix(BOM).lstrip(SPACE)[:1] != b"[":
        return False
    elements = [line.data for line in ElementCutter([head], ("",))]
    return _are_chats(elements) if elements else _LONG.match(head) is not None


def is_document(head: bytes) -> bool:
    """Return whether a file is one conversation, or begins with one."""
    text = head.removeprefix(BOM).strip(SPACE)
    if text[:1] != b"{":
        return False
    if (whole := raw_members(text)) is not None:
        return _is_conversation(whole)
    cutter = ElementCutter([text], PATHS[1:])
    elements = [line.data for line in cutter]
    begin = raw_members(cutter.begin + b"]}") if cutter.begin is not None else None
    if cutter.is_whole or not elements or begin is None or not list_in(begin):
        return False
    roles = {text_at(members_at(element), "role") for element in elements}
    may_be_request = "messages" in begin and begin.keys() <= FIELDS and roles <= _API_ROLES
    return not may_be_request and _are_chats(elements)


def is_data_set(head: bytes) -> bool:
    """Return whether a file begins with conversations that are examples for training or tests, not a recording.

    Examples have no response, usage, time, model or id (OpenAI's and ShareGPT's data for fine-tuning), and none begins
    with the same prompt as the previous one, as the next request of an agent does.
    """
    text = head.removeprefix(BOM).lstrip(SPACE)
    lines = (line.data for line in ElementCutter([head], ("",))) if text[:1] == b"[" else nonblank_lines(head)
    prompts = [b""]
    for piece in islice(lines, _FIRST):
        members = members_at(piece)
        listed = members.get(next((name for name in LISTS if name in members), ""), b"")
        if listed[:1] != b"[" or any(name in _RECORDED or name.lower().endswith("id") for name in members):
            return False
        messages = [(members_at(message), message) for message in array(listed)]
        first = next((message for each, message in messages if role_of(each) != "system"), b"")
        if first in (b"", prompts[-1]) or any(not _ANSWERED.isdisjoint(each) for each, _ in messages):
            return False
        prompts.append(first)
    return len(prompts) > 2  # noqa: PLR2004 - one conversation alone may be a session that a program saved


def list_in(members: Iterable[str]) -> str:
    """Return which of a conversation's members lists its messages; empty if the object is not a conversation."""
    names = set(members)
    lists = [name for name in LISTS if name in names]
    if len(lists) != 1 or names & _CALLS:
        return ""
    return "" if lists == ["messages"] and names & _REQUESTS else lists[0]


def _is_conversation(members: dict[str, bytes]) -> bool:
    name = list_in(members)
    return bool(name) and members[name][:1] == b"[" and _are_chats(array(members[name]))


def _are_chats(pieces: Iterable[bytes]) -> bool:
    """Return whether the first whole values are messages, at least one of them a prompt, or conversations."""
    has_prompt = False
    for piece in islice(pieces, _FIRST):
        members = raw_members(piece)
        if members is None:
            continue
        if is_message(members):
            has_prompt = has_prompt or role_of(members) in _PROMPTS
        elif _is_conversation(members):
            has_prompt = True
        else:
            return False
    return has_prompt
