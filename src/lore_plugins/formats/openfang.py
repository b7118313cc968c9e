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

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats import Said, TranscriptLines, TranscriptTurns, each, said_in, text_in
from lore.model import NULL, AssistantMessage, Code, TextBlock, UserMessage, array, cut_masked, printable, raw_members
from lore.model import events as e

Members = dict[str, bytes]

_ROLES = ("user", "assistant", "system")
_SIGNS = frozenset(("source", "tool_use", "msg_id", "orphan"))
_KEYS = _SIGNS | {"role", "content", "timestamp", "id", "name"}
_MOST_CHECKED = 64  # lines at a file's beginning that are searched for the format's signs
_TICK = re.compile(rb'"(?:\\[nrt]|[ ])*\[(?:AUTONOMOUS|SCHEDULED) TICK\]')
_PUT_IN = re.compile(
    rb'"\[(?:Context refresh (?:\xe2\x80\x94|\\u2014) |System: \d+ earlier messages |Session compacted: \d+ messages )'
)


class _OpenFangMemory(Struct):
    begun: bool = False
    stamp: str = ""  # the latest time
    turns: TranscriptTurns = msgspec.field(default_factory=TranscriptTurns)


class OpenFang(TranscriptLines[_OpenFangMemory]):
    """Reader of openfang's message lines."""

    name: ClassVar[str] = "openfang"
    memory = _OpenFangMemory

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        signs = False
        for number, line in enumerate(each(head)):
            own = raw_members(line)
            if own is None or number == _MOST_CHECKED:
                break
            if not own.keys() <= _KEYS or "content" not in own or _text(own, "role") not in _ROLES:
                return False
            content = own["content"]
            signs = signs or not _SIGNS.isdisjoint(own) or _source(own, content) != "user" or _has_flat_image(content)
        return signs

    def _take(self, data: bytes) -> None:
        own, memory = raw_members(data), self._memory
        if own is None:
            raise ValueError("not a JSON object")
        role, content = _text(own, "role"), own.get("content", b"null")
        stamp = _text(own, "timestamp")
        self._at, memory.stamp = (None if stamp == memory.stamp else stamp), stamp
        begun, memory.begun = memory.begun, True
        leads = role == "system" and not begun and content[:1] == b'"'
        if not begun:
            self._emit(e.SessionStarted(session_id="", at=self._at, system=Raw(content) if leads else NULL))
        if leads:
            return
        if role not in ("user", "assistant"):
            self._opaque(Code.UNKNOWN_RECORD, f"a message of role {printable(cut_masked(role, 40))!r}; kept as opaque")
            return
        said, more = said_in(content), said_in(own.get("tool_use", b"[]"))
        for part, others in zip(said, more, strict=True):
            part += others
        uuid = _text(own, "msg_id") or _text(own, "id") or f"m{self._line.number}"
        if role == "assistant":
            self._answer(said, uuid)
            return
        memory.turns.asked_at = self._at
        for result in said.results:
            self._emit(replace(result, at=self._at))
        if said.blocks:
            first = said.blocks[0]
            text = bytes(first.text) if isinstance(first, TextBlock) else b""
            self._append(UserMessage(uuid, blocks=tuple(said.blocks), source=_source(own, text)))

    def _answer(self, said: Said, uuid: str) -> None:
        turns = self._memory.turns
        self._start_turn(turns, None)
        if said.blocks:
            self._append(AssistantMessage(uuid, blocks=tuple(said.blocks), response_id=uuid))
        for number, call in enumerate(said.calls):
            self._append(replace(call, uuid=f"{uuid}:{number}", response_id=uuid))
        self._end_turn(turns, None)


def _text(own: Members, key: str) -> str:
    """Return a text member without lone surrogates, "" for any other."""
    return text_in(own.get(key, b""))


def _source(own: Members, text: bytes) -> str:
    """Return the source of a message of the user's role: its own, else by the beginning of its text."""
    named = _text(own, "source")
    if _TICK.match(text):
        return "tick"
    return named or ("context_injection" if _PUT_IN.match(text) else "user")


def _has_flat_image(content: bytes) -> bool:
    """Return whether content has an image with its data in the block itself, as only openfang writes."""
    if content[:1] != b"[" or b'"image"' not in content:
        return False
    return any(
        _text(own, "type") == "image" and "data" in own for own in (raw_members(raw) or {} for raw in array(content))
    )
