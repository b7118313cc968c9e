"""A task's folder of Cline, Roo Code or Kilo Code: its files as one recording, joined by their times.

In: a pack of the files, in the order of `TASK_FILES`. Out: events, each at its place in its file. Rules: what was sent
stands among what the screen was shown by its time, each file in its own order; a file that is missing or damaged leaves
what the others say. The files are held until the last one is read (up to 64 MiB each).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple, TypeVar

import msgspec

from lore.formats.base import Read, Yields
from lore.formats.cline import records
from lore.formats.cline.reader import Cline, ClineMemory, moment_of
from lore.formats.cline.records import ClineRecord
from lore.formats.documents import Elements
from lore.formats.folders import API, CLINE_TASK, HISTORY, LARGEST, METADATA, UI, PackMember, PackReader
from lore.formats.lines import Line, fault, problem
from lore.formats.values import opens
from lore.model.codes import Code

S = TypeVar("S", records.ClineMetadata, records.HistoryItem)


class Placed(NamedTuple):
    """A record of a file of a task, and where it stands."""

    file: str
    record: ClineRecord
    line: Line


class ClineTask(PackReader):
    """Reader of a task's folder: its files, joined by their times."""

    name: ClassVar[str] = CLINE_TASK
    yields: ClassVar[Yields] = "events"
    most: ClassVar[int] = 4_000_000
    unseen: ClassVar[str] = Cline.unseen

    def __init__(self) -> None:
        super().__init__()
        self._files: dict[str, bytes] = {}

    def _save(self) -> bytes:
        return msgspec.msgpack.encode(self._files)

    def _load(self, saved: bytes) -> None:
        self._files = msgspec.msgpack.decode(saved, type=dict[str, bytes])

    def _member(self, member: PackMember) -> list[Read]:
        self._files[member.header.name] = member.data
        return self._joined() if member.header.name == API else []

    def _rest(self) -> list[Read]:
        return self._joined() if self._files else []

    def _joined(self) -> list[Read]:
        files, self._files = self._files, {}
        found = list[Read]()
        item = _part(files, HISTORY, records.HistoryItem)
        shown, sent = (list(_records(files.get(name, b""), name, found)) for name in (UI, API))
        memory = ClineMemory(
            name=item.id or "",
            parent=item.parent_task_id,
            models=sorted(_part(files, METADATA, records.ClineMetadata).model_usage, key=lambda usage: usage.ts),
            coming=sum([_is_cut(placed.record) for placed in shown]),
        )
        return found + Cline().join(memory, _merged(shown, sent))


def _in(name: str, read: Read) -> Read:
    return msgspec.structs.replace(read, file=name)


def _is_cut(record: ClineRecord) -> bool:
    return record.context_condense is not None or record.context_truncation is not None


def _part(files: dict[str, bytes], name: str, kind: type[S]) -> S:
    """Read a small file; what cannot be read says nothing."""
    try:
        return msgspec.json.decode(files.get(name, b"{}"), type=kind)
    except (ValueError, RecursionError):
        return kind()


def _records(data: bytes, name: str, found: list[Read]) -> Iterator[Placed]:
    """Yield the records of a file in its order; what is no record is a problem."""
    elements = Elements(("",), LARGEST)
    for line in [*elements.feed(data), *elements.finish()]:
        try:
            yield Placed(name, records.RECORD.decode(line.data), line)
        except (ValueError, RecursionError) as error:
            reason = fault(line.data) or f"{str(error).partition(chr(10))[0][:120]}; passed over"
            found.append(_in(name, problem(Code.MALFORMED_RECORD, reason, line)))
    if data and elements.phase == "inside":
        ended = Line(elements.line, elements.byte, b"")
        found.append(_in(name, problem(Code.TORN_LAST_LINE, "the document ends before its list does", ended)))


def _merged(shown: list[Placed], sent: list[Placed]) -> Iterator[Placed]:
    """Put what was sent among what was shown, by their times, each file in its own order.

    A message without a time stands with the next request of the screen.
    """
    at = 0
    for message in sent:
        moment, untimed = moment_of(message.record), opens(message.record.ts) == "n"
        while at < len(shown):
            record = shown[at].record
            if untimed:
                begins = record.say == "api_req_started"
                if message.record.role == "assistant" or (begins and message.record.role != "user"):
                    break
                yield shown[at]
                at += 1
                if begins:
                    break
                continue
            if moment_of(record) > moment:
                break
            yield shown[at]
            at += 1
        yield message
    yield from shown[at:]
