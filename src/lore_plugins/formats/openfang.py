"""The reader of openfang's sessions as message lines: its session store's mirror in JSON Lines.

A line is `{role, content, source?, timestamp?, tool_use?}`; `content` is a text or blocks (`text`, `image`, `thinking`,
`tool_use`, `tool_result`), `tool_use` the calls and results of a message whose content is flattened to a text. Each
assistant message is one request, without usage. A leading system message is the system prompt.

`source` distinguishes messages of the user's role: `context_injection` was injected. Sources are lost when openfang
repairs a session, so its own texts are recognised by their beginnings: context refreshes and removal notes are
injected, ticks come from a scheduler. A mirror writes its own time into all lines, so a time equal to the previous
line's is ignored. Lines without these signs are read as a plain chat (`plain_chat/reader.py`). Source: openfang's
session store and messages, 2026-08.
"""

from __future__ import annotations

import re
from typing import ClassVar

from msgspec import Raw
from msgspec.structs import replace

from lore.formats import LogReader, nonblank_lines, split_content, text_at
from lore.model import NULL, AssistantMessage, Code, TextBlock, UserMessage, array, cut_masked, printable, raw_members

Members = dict[str, bytes]

_ROLES = ("user", "assistant", "system")
_SIGNS = frozenset(("source", "tool_use", "msg_id", "orphan"))
_KEYS = _SIGNS | {"role", "content", "timestamp", "id", "name"}
_MOST_CHECKED = 64  # lines at a file's beginning that are searched for the format's signs
_TICK = re.compile(rb'"(?:\\[nrt]|[ ])*\[(?:AUTONOMOUS|SCHEDULED) TICK\]')
_INJECTED = re.compile(
    rb'"\[(?:Context refresh (?:\xe2\x80\x94|\\u2014) |System: \d+ earlier messages |Session compacted: \d+ messages )'
)


class OpenFang(LogReader):
    """Reader of openfang's message lines."""

    name: ClassVar[str] = "openfang"

    def __init__(self) -> None:
        super().__init__()
        self._stamp = ""  # the previous line's time

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        has_sign = False
        for number, line in enumerate(nonblank_lines(head)):
            record = raw_members(line)
            if record is None or number == _MOST_CHECKED:
                break
            if not record.keys() <= _KEYS or "content" not in record or text_at(record, "role") not in _ROLES:
                return False
            content = record["content"]
            is_own = not _SIGNS.isdisjoint(record) or _source_of(record, content) != "user" or _has_flat_image(content)
            has_sign = has_sign or is_own
        return has_sign

    def handle(self, data: bytes) -> None:
        record, session = raw_members(data), self.session
        if record is None:
            raise ValueError("not a JSON object")
        role, content, stamp = text_at(record, "role"), record.get("content", b"null"), text_at(record, "timestamp")
        session.at, self._stamp = (None if stamp == self._stamp else stamp), stamp
        is_head = role == "system" and not session.is_started and content[:1] == b'"'
        session.start_session(at=session.at, system=Raw(content) if is_head else NULL)
        if is_head:
            return
        if role not in ("user", "assistant"):
            session.keep_opaque(Code.UNKNOWN_RECORD, f"a message of role {printable(cut_masked(role, 40))!r}")
            return
        message, tool_uses = split_content(content), split_content(record.get("tool_use", b"[]"))
        for parts, tool_parts in zip(message, tool_uses, strict=True):
            parts += tool_parts
        uuid = text_at(record, "msg_id") or text_at(record, "id") or f"m{session.line.number}"
        if role == "assistant":
            session.start_turn(None)
            if message.blocks:
                session.append(AssistantMessage(uuid, blocks=tuple(message.blocks), response_id=uuid))
            for number, call in enumerate(message.calls):
                session.append(replace(call, uuid=f"{uuid}:{number}", response_id=uuid))
            session.end_turn(None)
            return
        session.counter.asked_at = session.at
        for result in message.results:
            session.emit(replace(result, at=session.at))
        if message.blocks:
            text = bytes(message.blocks[0].text) if isinstance(message.blocks[0], TextBlock) else b""
            session.append(UserMessage(uuid, blocks=tuple(message.blocks), source=_source_of(record, text)))


def _source_of(record: Members, text: bytes) -> str:
    """Return the source of a message of the user's role: its own, else by the beginning of its text."""
    if _TICK.match(text):
        return "tick"
    return text_at(record, "source") or ("context_injection" if _INJECTED.match(text) else "user")


def _has_flat_image(content: bytes) -> bool:
    """Return whether content has an image with its data in the block itself, as only openfang writes."""
    if content[:1] != b"[" or b'"image"' not in content:
        return False
    blocks = (raw_members(raw) or {} for raw in array(content))
    return any(text_at(block, "type") == "image" and "data" in block for block in blocks)
