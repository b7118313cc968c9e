"""The readers of Kimi CLI's sessions (`~/.kimi/sessions/PROJECT/SESSION/`): the folder, or one of its two files.

`wire.jsonl` (`kimi_wire.py`) holds the events shown on the screen, with usage and time of each request; `context.jsonl`
and its earlier versions (`context_1.jsonl`, …) hold the messages sent to the model, with the system prompt. A folder
takes messages from the second and usage from the first. Neither has the schemas of tools or the model's name. A
subagent has the same files in its own folder.

`context.jsonl` has a count before an answer (the whole input) and after it (with the output): a request gets its usage
from the marks of the screen's log by the first count, else in order. When the history is replaced, a new file begins:
after a revert with the same lines up to a checkpoint, after a compaction with its summary and the last messages, after
`/clear` with new lines. Usage without a count in any file is emitted as a request without messages.

Sources: the wire protocol 1.1 to 1.10 and `soul/` of kimi-cli (July 2026).
"""

from __future__ import annotations

from itertools import islice
from typing import ClassVar
from zlib import crc32

from msgspec import Raw, Struct

from lore.formats import (
    LineCutter,
    LogReader,
    PackMember,
    PackReader,
    Read,
    SessionBuilder,
    Yields,
    in_file,
    nonblank_lines,
)
from lore.formats import kimi_content as kimi
from lore.model import (
    AssistantMessage,
    Block,
    Item,
    TextBlock,
    UserMessage,
    encode,
    is_absent,
    members_at,
    text_of,
)
from lore.model import events as e
from lore_plugins.formats.kimi_wire import CLIENT, KimiCliRecord, KimiMark, WireLog

WIRE = "wire.jsonl"  # the screen's log
_NOTES = frozenset((b'"_system_prompt"', b'"_checkpoint"', b'"_usage"'))
_CLIENT_TEXTS = (b'"<system', b'"<notification')  # beginnings of texts that the client puts into user messages
_SUMMARY = b'"<system>Previous context has been compacted'
_ERROR = b'"<system>ERROR'
_SEARCHED = 100  # marks that are searched for the usage of a count


class _ContextLine(Struct, gc=False):
    digest: int  # of its length and checksum
    is_message: bool
    items: tuple[str, ...] = ()  # uuids of the items made of it


class _KimiRequest(Struct):  # the current request in the model's log
    turn: int
    mark: KimiMark | None  # with its usage
    whole: int | None  # input in tokens
    is_answered: bool = False


class _KimiSummary(Struct):  # a compaction whose kept messages are being read
    uuid: str
    text: Raw
    messages: dict[int, _ContextLine]  # the messages before it, by digest
    kept_lines: list[_ContextLine]


class ContextLog:
    """Reports the records of `context.jsonl` and its earlier versions to a session."""

    def __init__(self, session: SessionBuilder, wire: WireLog) -> None:
        self.file = ""
        self._session = session
        self._wire = wire
        self._lines: list[_ContextLine] = []  # of this file
        self._before: list[_ContextLine] = []  # of the file that it replaced
        self._is_same = True  # all lines equal those of the file before
        self._summary: _KimiSummary | None = None
        self._is_restored = False  # messages follow that were answered before a compaction
        self._whole: int | None = None  # input of the next request in tokens
        self._request: _KimiRequest | None = None

    def begin_file(self, name: str) -> None:
        """Start the next file, which replaced the previous one."""
        self.file = f"{name}:"
        if self._lines:
            self._before, self._lines = self._lines, []
        self._is_same = True

    def end_file(self) -> None:
        """Finish a file. An empty file is treated as if it did not exist."""
        self._end_request(None)
        if self._summary is not None:
            self._compact(self._summary)
        elif self._is_same and self._lines:
            self._cut()

    def read(self, record: KimiCliRecord, data: bytes) -> None:
        self._session.start_session(at=self._session.at, dialect=self._wire.dialect)
        role, at = record.role or "", len(self._lines)
        line = _ContextLine(len(data) << 32 | crc32(data), not role.startswith("_"))
        if self._is_same:
            if at < len(self._before) and self._before[at].digest == line.digest:
                self._lines.append(self._before[at])
                return
            self._is_same = False
            if self._begin_compaction(record, line):
                return
            self._cut()
        if self._summary is not None:
            kept_line = self._summary.messages.get(line.digest) if line.is_message else None
            if kept_line is not None:
                self._summary.kept_lines.append(kept_line)
                return
            self._compact(self._summary)
        self._is_restored = self._is_restored and line.is_message
        self._lines.append(line)
        self._read_new(record, role, line)

    def _read_new(self, record: KimiCliRecord, role: str, line: _ContextLine) -> None:
        session = self._session
        if role == "_usage":
            self._read_count(record.token_count)
            return
        if self._request is not None and (self._request.is_answered or role != "assistant"):
            self._end_request(None)
        match role:
            case "_system_prompt":
                if not is_absent(record.content):
                    session.emit(e.SessionChanged(system=record.content))
            case "assistant":
                self._read_answer(record, line)
            case "tool":
                blocks = kimi.blocks_of(record.content)
                has_failed = bool(blocks) and _begins(blocks[0], _ERROR)
                session.add_result(record.tool_call_id or "", kimi.output_of(record.content), failed=has_failed)
            case "user" | "system":
                if blocks := kimi.blocks_of(record.content):
                    is_own = role == "user" and not _begins(blocks[0], *_CLIENT_TEXTS)
                    source = "user" if is_own else "context_injection"
                    self._append(line, UserMessage(self._uuid, blocks=blocks, source=source))
            case _:
                if role != "_checkpoint":
                    session.keep_unknown("a record of role", role)

    @property
    def _uuid(self) -> str:
        return self.file + self._session.line_id

    def _append(self, line: _ContextLine, item: Item) -> None:
        line.items = (*line.items, item.uuid)
        self._session.append(item)

    # requests

    def _read_count(self, count: int | None) -> None:
        """Read a count: after an answer input and output, else the whole input of the next request."""
        if self._request is not None and self._request.is_answered:
            self._end_request(count)
            return
        self._end_request(None)
        self._whole = count
        following = enumerate(islice(self._wire.marks, _SEARCHED))
        inputs = ((place, kimi.counts_of(mark.usage)[:3]) for place, mark in following if mark.usage is not None)
        place = next((place for place, counts in inputs if sum(tokens or 0 for tokens in counts) == count), None)
        if place is not None:
            self._begin_request(self._take_mark(place))

    def _read_answer(self, record: KimiCliRecord, line: _ContextLine) -> None:
        uuid, blocks = self._uuid, kimi.blocks_of(record.content)
        if self._request is None and not self._is_restored:
            marks = self._wire.marks if self._whole is None else ()  # without a count before it: the next usage
            place = next((at for at, mark in enumerate(marks) if mark.kind == "usage"), None)
            self._begin_request(None if place is None else self._take_mark(place))
        if self._request is not None:
            self._request.is_answered = True
        if blocks:
            self._append(line, AssistantMessage(uuid, blocks=blocks, response_id=uuid))
        for number, call in enumerate(record.tool_calls or (), 1):
            self._append(line, kimi.call_of(call, f"{uuid}/{number}", uuid))

    def _begin_request(self, mark: KimiMark | None) -> None:
        """Start a request with its mark; None: no usage is logged, and after the last mark it is of the last step."""
        session, last = self._session, None if self._wire.marks else self._wire.last_asked_at
        session.at, session.counter.asked_at = (None, last) if mark is None else (mark.at, mark.asked_at)
        self._request = _KimiRequest(session.start_turn(None), mark, self._whole)
        session.at = self._whole = None

    def _end_request(self, total: int | None) -> None:
        """End the current request; without usage its counts give the output."""
        request, self._request = self._request, None
        if request is None:
            return
        usage, mark = None, request.mark
        if mark is not None and mark.usage is not None:
            usage = kimi.billed(mark.usage, CLIENT, self._wire.dialect)
        elif total is not None and request.whole is not None and total >= request.whole:
            usage = e.Usage(output_tokens=total - request.whole, client=CLIENT)
        at, name = (None, None) if mark is None else (mark.at, mark.name or None)
        self._session.emit(e.TurnCompleted(turn=request.turn, at=at, usage=usage, response_id=name))

    def _take_mark(self, place: int) -> KimiMark:
        """Return a waiting mark after emitting those before it."""
        self.emit_marks(place)
        return self._wire.marks.popleft()

    def emit_marks(self, count: int) -> None:
        """Emit the first waiting marks."""
        for _ in range(count):
            self._wire.emit_mark(self._wire.marks.popleft())

    # files that replaced others

    def _begin_compaction(self, record: KimiCliRecord, line: _ContextLine) -> bool:
        """Begin a compaction with its summary, which its kept messages follow; return False for another message."""
        blocks = kimi.blocks_of(record.content) if record.role == "user" else ()
        if not blocks or not _begins(blocks[0], _SUMMARY):
            return False
        texts = [text_of(bytes(block.text)) for block in blocks if isinstance(block, TextBlock)]
        messages = {before.digest: before for before in self._before if before.is_message}
        self._summary = _KimiSummary(self._uuid, Raw(encode("\n".join(texts))), messages, [])
        line.items = (self._uuid,)
        self._lines.append(line)
        return True

    def _compact(self, summary: _KimiSummary) -> None:
        session = self._session
        ends = next((at for at, mark in enumerate(self._wire.marks) if mark.kind == "compacted"), None)
        mark = KimiMark("compacted", None, name="auto") if ends is None else self._take_mark(ends)
        kept_items = [item for line in summary.kept_lines for item in line.items]
        self._lines += summary.kept_lines
        session.at = mark.at
        session.prune(summary.uuid, kept_items, trigger=mark.name, summary=summary.text)
        session.at = None
        self._summary, self._before, self._is_restored = None, [], True

    def _cut(self) -> None:
        """Remove the items of the old file that this one does not begin with."""
        self._session.remove(item for line in self._before[len(self._lines) :] for item in line.items)
        self._before = []


def _begins(block: Block, *texts: bytes) -> bool:
    return isinstance(block, TextBlock) and bytes(memoryview(block.text)[:48]).startswith(texts)


class KimiCli(LogReader):
    """Reader of one file of a session."""

    name: ClassVar[str] = "kimi-cli"
    records_builtin_tools: ClassVar[bool] = False  # their schemas are in neither file
    unseen: ClassVar[str] = "the schemas of tools, and the name of the model"

    def __init__(self) -> None:
        super().__init__()
        self._wire = WireLog(self.session)
        self._context = ContextLog(self.session, self._wire)

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        members = members_at(next(nonblank_lines(head), b""))
        if members.get("type") == b'"metadata"':
            return members.keys() == {"type", "protocol_version"}
        if members.keys() == {"timestamp", "message"}:  # before the protocol had a version
            return members_at(members["message"]).keys() == {"type", "payload"}
        return members.get("role") in _NOTES

    def handle(self, data: bytes) -> None:
        record = self.session.decode(KimiCliRecord, data)
        if record.role is None:
            self._wire.read(record)
        else:
            self._context.read(record, data)

    def finish(self) -> None:
        self._context.end_file()
        self._context.emit_marks(len(self._wire.marks))

    def begin_file(self, name: str) -> list[Read]:
        """Start the next file of a folder; return the remaining reads of the previous one."""
        reads = self._give_up_broken()
        self._wire.has_context = True
        if self._context.file:
            self._context.end_file()
        if name != WIRE:
            self._context.begin_file(name.removesuffix(".jsonl"))
        reads += self.session.take()
        self.session.file = name
        return reads


class KimiCliSession(PackReader):
    """Reader of a session's folder: its files one after another, `wire.jsonl` first."""

    name: ClassVar[str] = "kimi-cli-session"
    yields: ClassVar[Yields] = "events"
    max_values: ClassVar[int] = 4_000_000  # values of a file
    records_builtin_tools: ClassVar[bool] = KimiCli.records_builtin_tools
    unseen: ClassVar[str] = KimiCli.unseen

    def __init__(self) -> None:
        super().__init__()
        self._file = ""
        self._reader = KimiCli()

    def _read_member(self, member: PackMember) -> list[Read]:
        name, cutter = member.header.name, LineCutter()
        before = in_file(self._file, self._reader.begin_file(name))
        lines, self._file = [*cutter.feed(member.data), *cutter.finish()], name
        return [*before, *in_file(name, [read for line in lines for read in self._reader.read_line(line)])]

    def _flush(self) -> list[Read]:
        return in_file(self._file, self._reader.end())
