"""What a plain chat is known by: messages, or conversations that list them, and nothing that a request or a record has.

A message has a role and what is said (`messages.py`), and any other member of it, if it is more than a
number, makes a file another program's. A conversation is an object that lists messages as `messages`, `conversations`
(ShareGPT) or `conversation`. What decides about `{"messages": [...]}`: with a member that requests have (a model,
tools, a temperature, …) it is a request body, with one that holds what was answered, or should be, a record of a call
or a test case; with neither it is a chat. A list by the other names is in no request: a model, a system prompt and
tools beside it are the conversation's.

Of a document that is longer than what is looked at, only its beginning shows: one that opens with `messages` alone, in
the words of an API, may still name its model at the end, and is taken for a request as before.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from lore.formats.documents import Elements
from lore.formats.http import FIELDS, KEPT
from lore.formats.lines import BOM, SPACE, each
from lore.formats.plain_chat.messages import is_message, role_of
from lore.formats.values import text_in
from lore.model.deferred import pattern
from lore.model.jsonslice import array, table

LISTS = ("messages", "conversations", "conversation")
PATHS = ("", *(f".{name}" for name in LISTS))
_LOOKED_AT = 64  # messages of a beginning that have to be messages and nothing else
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
    elements = Elements(("",))
    whole = [line.data for line in (*elements.feed(head), *elements.finish())]
    return _are_chats(whole) if whole else _LONG.match(head) is not None


def is_document(head: bytes) -> bool:
    """Tell whether a file is, or begins as, one conversation."""
    text = head.removeprefix(BOM).strip(SPACE)
    if text[:1] != b"{":
        return False
    whole = table(text)
    if whole is not None:
        return _is_conversation(whole)
    elements = Elements(PATHS[1:])
    found = [line.data for line in elements.feed(text)]
    begun = table(text[: elements.start] + b"]}") if elements.start > 0 else None
    if elements.phase != "inside" or not found or begun is None or not list_in(begun):
        return False
    names = {text_in((table(piece) or {}).get("role", b"")) for piece in found}
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
        members = table(piece)
        if members is None:
            continue
        if is_message(members):
            told = told or role_of(members) in _TOLD
        elif _is_conversation(members):
            told = True
        else:
            return False
    return told
