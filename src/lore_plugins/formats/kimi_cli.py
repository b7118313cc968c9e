"""The readers of Kimi CLI's sessions (`~/.kimi/sessions/PROJECT/SESSION/`): the folder, or one of its two files.

`wire.jsonl` holds the events shown on the screen, with usage and time of each request (`kimi_wire.py`); `context.jsonl`
and its earlier versions (`context_1.jsonl`, …) hold the messages sent to the model, with the system prompt. A folder
takes messages from the second and usage from the first. Neither has the schemas of tools or the model's name. A
subagent has the same files in its own folder.

`context.jsonl` has a count before an answer (the whole input) and after it (with the output): a request gets its usage
from the marks of the screen's log by the first count, else in order. When the history is replaced, a new file begins:
after a revert with the same lines up to a checkpoint, after a compaction with its summary and the last messages, after
`/clear` with new lines. Usage without a count in any file is emitted as a request without messages.

Sources: the wire protocol 1.1 to 1.10 and `soul/` of kimi-cli (July 2026); no public session was found.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import ClassVar
from zlib import crc32

from msgspec import Raw

from lore.formats import LineCutter, LogReader, PackMember, PackReader, Read, Yields, each, in_file
from lore.formats import kimi_content as kimi
from lore.model import (
    NULL,
    AssistantMessage,
    Block,
    Item,
    TextBlock,
    UserMessage,
    encode,
    is_absent,
    raw_members,
    text_of,
)
from lore.model import events as e
from lore_plugins.formats.kimi_wire import (
    CLIENT,
    ContextState,
    KimiCliRecord,
    KimiMark,
    KimiRequest,
    KimiSent,
    Wire,
    decode,
)

WIRE = "wire.jsonl"  # the screen's log
_CLIENTS = (b'"<system', b'"<notification')  # beginnings of texts that the client puts into user messages
_SUMMARY = b'"<system>Previous context has been compacted'
_CANDIDATES = 1_000  # messages before a compaction that are searched for kept ones
_ERROR = b'"<system>ERROR'


def _begins(block: Block, *texts: bytes) -> bool:
    return isinstance(block, TextBlock) and bytes(memoryview(block.text)[:48]).startswith(texts)


_NOTES = frozenset((b'"_system_prompt"', b'"_checkpoint"', b'"_usage"'))


class KimiCli(Wire, LogReader):
    """Reader of one file of a session."""

    name: ClassVar[str] = "kimi-cli"
    own_tools: ClassVar[bool] = False  # their schemas are in neither file
    unseen: ClassVar[str] = "the schemas of tools, and the name of the model"
    _bills: dict[int, list[int]] | None = None  # indexes of marks with usage, by whole input

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        own = raw_members(next(each(head), b"")) or {}
        if own.get("type") == b'"metadata"':
            return own.keys() == {"type", "protocol_version"}
        if own.keys() == {"timestamp", "message"}:  # before the protocol had a version
            return (raw_members(own["message"]) or {}).keys() == {"type", "payload"}
        return own.get("role") in _NOTES

    def handle(self, data: bytes) -> None:
        record = decode(data)
        if record.role is None:
            self._wire(record)
        else:
            self._sent(record, data)

    def finish(self) -> None:
        self._end_context()
        self._play_up_to(len(self._memory.marks))

    def begin_file(self, name: str) -> list[Read]:
        """Start the next file of a folder; return the remaining reads of the previous one."""
        found = [*self._give_up_broken()]
        self._memory.joined = True
        if self._memory.context.file:
            self._end_context()
        if name != WIRE:
            self._begin_context(name.removesuffix(".jsonl"))
        found, self.session.file = [*found, *self.session.take()], name
        return found

    def _begin_context(self, name: str) -> None:
        """Start the next context file, which replaced the previous one."""
        context = self._memory.context
        context.file = f"{name}:"
        if context.lines:
            context.before, context.lines = context.lines, []
        context.same, context.phase = 0, "same"

    def _end_context(self) -> None:
        """Finish a file. An empty file is treated as if it did not exist."""
        context = self._memory.context
        self._close(None)
        if context.phase == "kept":
            self._compact(context)
        elif context.phase in ("same", "parted") and context.lines:
            self._cut(context)

    def _sent(self, record: KimiCliRecord, data: bytes) -> None:
        """Read a line of `context.jsonl`."""
        self._start_session()
        context, role = self._memory.context, record.role or ""
        line = KimiSent(len(data) << 32 | crc32(data), (), not role.startswith("_"))
        if context.phase == "same" and context.same < len(context.before):
            known = context.before[context.same]
            if known.digest == line.digest:
                context.same += 1
                context.lines.append(known)
                return
        if context.phase in ("same", "parted"):
            context.phase = "parted"
            if line.is_message and self._is_summary(record, line):
                return
        if context.phase == "kept":
            if self._is_kept(line):
                return
            self._compact(context)
        if not line.is_message:
            context.phase = "new" if context.phase == "restored" else context.phase
        context.lines.append(line)
        self._new(record, role, line)

    def _new(self, record: KimiCliRecord, role: str, line: KimiSent) -> None:
        if role == "_usage":
            self._count(record.token_count)
            return
        request = self._memory.context.request
        if request is not None and (request.answered or role != "assistant"):
            self._close(None)
        if role == "_system_prompt":
            if not is_absent(record.content):
                self.session.emit(e.SessionChanged(system=record.content))
        elif role == "assistant":
            self._answered(record, line)
        elif role == "tool":
            blocks = kimi.blocks_of(record.content)
            failed = bool(blocks) and _begins(blocks[0], _ERROR)
            self.session.add_result(record.tool_call_id or "", kimi.output_of(record.content), failed=failed)
        elif role in ("user", "system"):
            blocks = kimi.blocks_of(record.content)
            clients = role == "system" or (bool(blocks) and _begins(blocks[0], *_CLIENTS))
            source = "context_injection" if clients else "user"
            if blocks:
                self._keep(line, UserMessage(self._own_uuid(), blocks=blocks, source=source))
        elif role != "_checkpoint":
            self.session.keep_unknown("a record of role", role)

    def _own_uuid(self) -> str:
        return self._memory.context.file + self.session.line_id

    def _keep(self, line: KimiSent, item: Item) -> None:
        line.items = (*line.items, item.uuid)
        self.session.append(item)

    def _count(self, count: int | None) -> None:
        """Read a count: after an answer input and output, else the whole input of the next request."""
        context = self._memory.context
        if context.request is not None and context.request.answered:
            self._close(count)
            return
        self._close(None)
        context.asked = count
        place = self._bill_of(count)
        if place is not None:
            self._play_up_to(place)
            context.played = place + 1
            self._open(self._memory.marks[place])

    def _answered(self, record: KimiCliRecord, line: KimiSent) -> None:
        context, uuid = self._memory.context, self._own_uuid()
        blocks, calls = kimi.blocks_of(record.content), record.tool_calls or ()
        if context.request is None and context.phase != "restored":
            self._open(self._next_bill() if context.asked is None else None)
        if context.request is not None:
            context.request.answered = True
        if blocks:
            self._keep(line, AssistantMessage(uuid, blocks=blocks, response_id=uuid))
        for number, call in enumerate(calls, 1):
            self._keep(line, kimi.call_of(call, f"{uuid}/{number}", uuid))

    def _open(self, bill: KimiMark | None) -> None:
        context, session = self._memory.context, self.session
        session.at, session.counter.asked_at = (None, None) if bill is None else (bill.at, bill.asked_at)
        turn = session.start_turn(None)
        session.at = None
        context.request = KimiRequest(turn, bill, context.asked)
        context.asked = None

    def _close(self, total: int | None) -> None:
        """End the current request; without usage its counts give the output."""
        context = self._memory.context
        request, context.request = context.request, None
        if request is None:
            return
        usage, asked = None, request.asked
        if request.bill is not None and request.bill.usage is not None:
            usage = kimi.billed(request.bill.usage, CLIENT, self._memory.dialect)
        elif total is not None and asked is not None and total >= asked:
            usage = e.Usage(output_tokens=total - asked, client=CLIENT)
        at, name = (None, None) if request.bill is None else (request.bill.at, request.bill.name or None)
        self.session.emit(e.TurnCompleted(turn=request.turn, at=at, usage=usage, response_id=name))

    def _bill_of(self, count: int | None) -> int | None:
        """Return the index of the next usage mark with a given whole input."""
        if self._bills is None:
            self._bills = {}
            for place, mark in enumerate(self._memory.marks):
                if (usage := mark.usage) is not None:
                    whole = (usage.input_other or 0) + (usage.input_cache_read or 0) + (usage.input_cache_creation or 0)
                    self._bills.setdefault(whole, []).append(place)
        places = [] if count is None else self._bills.get(count, [])
        found = bisect_left(places, self._memory.context.played)
        return places[found] if found < len(places) else None

    def _next_bill(self) -> KimiMark | None:
        """Return the next usage mark in order, for clients that count only after an answer."""
        marks, context = self._memory.marks, self._memory.context
        place = next((at for at in range(context.played, len(marks)) if marks[at].kind == "bill"), None)
        if place is None:
            return None
        self._play_up_to(place)
        context.played = place + 1
        return marks[place]

    def _play_up_to(self, place: int) -> None:
        """Emit the marks before an index."""
        context = self._memory.context
        while context.played < min(place, len(self._memory.marks)):
            self._play(self._memory.marks[context.played])
            context.played += 1

    def _is_summary(self, record: KimiCliRecord, line: KimiSent) -> bool:
        """Return whether the first new message is a compaction's summary; if not, remove the earlier file's rest."""
        context = self._memory.context
        blocks = kimi.blocks_of(record.content) if record.role == "user" else ()
        if not blocks or not _begins(blocks[0], _SUMMARY):
            self._cut(context)
            return False
        texts = [text_of(bytes(block.text)) for block in blocks if isinstance(block, TextBlock)]
        context.phase, context.summary, context.divider = "kept", Raw(encode("\n".join(texts))), self._own_uuid()
        context.before = [sent for sent in context.before if sent.is_message]
        line.items = (context.divider,)
        context.lines.append(line)
        return True

    def _is_kept(self, line: KimiSent) -> bool:
        """Return whether a message was kept by the compaction: whether it follows the last kept one in the old file."""
        context = self._memory.context
        before = context.before
        places = range(max(0, len(before) - _CANDIDATES), len(before)) if not context.kept else context.places
        found = [place + 1 for place in places if place < len(before) and before[place].digest == line.digest]
        if found:
            context.kept, context.places = context.kept + 1, found
        return bool(found)

    def _compact(self, context: ContextState) -> None:
        """Emit a compaction with its summary and kept messages, preferring the last place at which they match."""
        marks = self._memory.marks
        ends = next((at for at in range(context.played, len(marks)) if marks[at].kind == "compacted"), None)
        mark = KimiMark("compacted", None, name="auto") if ends is None else marks[ends]
        if ends is not None:
            self._play_up_to(ends)
            context.played = ends + 1
        last = max(context.places) if context.kept else 0
        kept = context.before[last - context.kept : last]
        context.lines += kept
        stay, self.session.at = [item for sent in kept for item in sent.items], mark.at
        self.session.prune(context.divider, stay, trigger=mark.name, summary=context.summary)
        self.session.at = None
        context.phase, context.before, context.kept, context.summary = "restored", [], 0, NULL

    def _cut(self, context: ContextState) -> None:
        """Remove the items of the old file that this one does not begin with."""
        self.session.remove([item for sent in context.before[context.same :] for item in sent.items])
        context.phase, context.before = "new", []


class KimiCliSession(PackReader):
    """Reader of a session's folder: its files one after another, `wire.jsonl` first."""

    name: ClassVar[str] = "kimi-cli-session"
    yields: ClassVar[Yields] = "events"
    own_tools: ClassVar[bool] = KimiCli.own_tools
    unseen: ClassVar[str] = KimiCli.unseen

    def __init__(self) -> None:
        super().__init__()
        self._file = ""
        self._reader = KimiCli()
        self._cutter = LineCutter()

    def _member(self, member: PackMember) -> list[Read]:
        name, found = member.header.name, list[Read]()
        if name != self._file:
            found = in_file(self._file, [*self._last_line(), *self._reader.begin_file(name)])
            self._file = name
        reads = [read for line in self._cutter.feed(member.data) for read in self._reader.read_line(line)]
        return [*found, *in_file(name, reads)]

    def _last_line(self) -> list[Read]:
        cutter, self._cutter = self._cutter, LineCutter()
        return [read for line in cutter.finish() for read in self._reader.read_line(line)]

    def _rest(self) -> list[Read]:
        return in_file(self._file, [*self._last_line(), *self._reader.end()])
