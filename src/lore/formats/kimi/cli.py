"""Kimi CLI's sessions (`~/.kimi/sessions/PROJECT/SESSION/`): its two files joined, or one of them alone.

`wire.jsonl` is what the screen was told, with a bill and a time for each request; `context.jsonl`, and the files that
it took the place of (`context_1.jsonl`, …), are what the model was sent, with the system prompt. Joined, messages come
from the second and bills from the first; alone, each tells what it holds. Neither holds the schemas of tools, nor which
model was asked. A subagent has the same files in a folder of its own.

Sources: the wire protocol 1.1 to 1.10 and `soul/` of kimi-cli (July 2026); no public session was found.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from lore.formats.base import Read, Yields
from lore.formats.folders import KIMI_SESSION, WIRE, PackMember, PackReader, in_file
from lore.formats.kimi.cli_records import decode
from lore.formats.kimi.context import KimiContext
from lore.formats.kimi.wire import KimiMemory
from lore.formats.lines import Lines, each
from lore.formats.transcripts import TranscriptLines
from lore.model.jsonslice import table

_NOTES = frozenset((b'"_system_prompt"', b'"_checkpoint"', b'"_usage"'))


class KimiCli(TranscriptLines[KimiMemory], KimiContext):
    """Reader of one file of a session."""

    name: ClassVar[str] = "kimi-cli"
    memory = KimiMemory
    own_tools: ClassVar[bool] = False  # their schemas are in neither file
    unseen: ClassVar[str] = "the schemas of tools, and the name of the model"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        own = table(next(each(head), b"")) or {}
        if own.get("type") == b'"metadata"':
            return own.keys() == {"type", "protocol_version"}
        if own.keys() == {"timestamp", "message"}:  # before the protocol had a version
            return (table(own["message"]) or {}).keys() == {"type", "payload"}
        return own.get("role") in _NOTES

    def _take(self, data: bytes) -> None:
        record = decode(data)
        if record.role is None:
            self._wire(record)
        else:
            self._sent(record, data)

    def _last(self) -> None:
        self._end_context()
        self._play_up_to(len(self._memory.marks))

    def go_on(self, name: str) -> None:
        """Go on in this file, behind what a saved state remembers."""
        self._file = name

    def begin_file(self, name: str) -> list[Read]:
        """Begin a file of a session that is read as a folder; return what the one before held back."""
        found = self._read(self._lines.finish(), torn=True)
        self._lines = Lines()
        self._memory.joined = True
        if self._memory.context.file:
            self._end_context()
        if name != WIRE:
            self._begin_context(name.removesuffix(".jsonl"))
        found, self._file = [*found, *self._taken()], name
        return found


class KimiCliSession(PackReader):
    """Reader of a session's folder: its files one after another, the screen's first."""

    name: ClassVar[str] = KIMI_SESSION
    yields: ClassVar[Yields] = "events"
    own_tools: ClassVar[bool] = KimiCli.own_tools
    unseen: ClassVar[str] = KimiCli.unseen

    def __init__(self) -> None:
        super().__init__()
        self._file = ""
        self._reader = KimiCli()

    def _save(self) -> bytes:
        return msgspec.msgpack.encode((self._file, self._reader.state))

    def _load(self, saved: bytes) -> None:
        self._file, state = msgspec.msgpack.decode(saved, type=tuple[str, bytes])
        self._reader = KimiCli.restore(state)
        self._reader.go_on(self._file)

    def _member(self, member: PackMember) -> list[Read]:
        name, found = member.header.name, list[Read]()
        if name != self._file:
            found = in_file(self._file, self._reader.begin_file(name))
            self._file = name
        return [*found, *in_file(name, self._reader.feed(member.data))]

    def _rest(self) -> list[Read]:
        return in_file(self._file, self._reader.finish())
