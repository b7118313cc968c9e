"""Tasks of Cline, Roo Code and Kilo Code: what the screen was shown, what was sent, each alone or together.

In: `ui_messages.json` or `api_conversation_history.json`, an array each; a session of Cline's command line (an object
with `messages`); or a task's folder as a pack (`cline-task`). Out: events, each at its place in its file. Rules:

- a request is an `api_req_started` of the screen; the messages of the history that come before the next one are its
  content, paired by their times. A request whose messages are not in the history (Roo once dropped what it condensed)
  has those that the screen shows: what was sent as one text, and what was said. Where the screen's file is missing,
  each answer is a request without a bill;
- a condensation or truncation holds for the request under way: it is made before that is sent. It hides the messages
  that name it as their parent, and only when it is in the file; Cline names the range that it leaves out instead;
- details of the environment are the client's words, and stand apart from what a person wrote;
- what else the screen was shown (tools asked for, checkpoints, requests that were deleted) is no part of a prompt;
- of a folder, what was sent stands among what the screen was shown by its time, each file in its own order; a file that
  is missing or damaged leaves what the others say. Its files are held until the last one is read (64 MiB each).

System prompt and tools are not in these files, but for the command line's, which hold the system prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from lore.formats.agents import cline_records as records
from lore.formats.agents.cline_records import ClineRecord
from lore.formats.base import Read, Yields
from lore.formats.beginning import BOM, SPACE, array_at
from lore.formats.documents import ElementCutter
from lore.formats.folders import API, CLINE_TASK, HISTORY, METADATA, UI, PackMember, PackReader, in_file
from lore.formats.lines import Line, fault, problem
from lore.formats.transcripts import TranscriptDocument, TranscriptTurns
from lore.formats.values import Said, count_in, opens, said_in, stamp_of, text_in
from lore.model import events as e
from lore.model import lenient
from lore.model.canonical import decode
from lore.model.codes import Code
from lore.model.items import NULL, AssistantMessage, Block, TextBlock, ThinkingBlock, UserMessage, is_absent
from lore.model.jsonslice import raw_members
from lore.model.limits import MEMBER_BYTES
from lore.model.mask import cut_masked
from lore.model.state import Sign

_ROLES = frozenset(("user", "assistant"))
_SPOKEN = {"text": "text", "completion_result": "text", "reasoning": "thinking"}
_FAILURES = frozenset(("api_req_failed", "error", "diff_error"))


class ClineKnown(Struct):
    """A message in the prompt: its items, and the condensation and truncation that hide it. `own`: of the history."""

    uuids: list[str]
    condensed: str = ""
    truncated: str = ""
    own: bool = True


class Pending(Struct):
    """A request that has no answer yet."""

    line: int
    byte: int
    file: str
    at: str | None
    began: float
    request: records.ApiRequest
    model: str = ""
    provider: str | None = None
    prompted: bool = False
    answered: bool = False
    said: list[tuple[str, Raw]] = []
    said_at: str | None = None


class ClineCut(Struct):
    """A summary or a marker that waits for the moment at which the screen shows it."""

    id: str
    summary: Raw


class ClineMemory(Struct):
    """What the reader remembers; `cuts` of the screen that are still to come are counted in `coming`."""

    begun: bool = False
    name: str = ""
    parent: str | None = None
    system: Raw = NULL
    models: list[records.ClineUsage] = []
    model: str = ""
    items: int = 0
    known: list[ClineKnown] = []
    request: Pending | None = None
    cuts: list[ClineCut] = []
    coming: int = 0
    range: list[int] = []
    turns: TranscriptTurns = field(default_factory=TranscriptTurns)


class Cline(TranscriptDocument[ClineMemory]):
    """Reader of one file of a task, and of sessions of Cline's command line."""

    name: ClassVar[str] = "cline"
    paths: ClassVar[tuple[str, ...]] = ("", ".messages")
    memory = ClineMemory
    unseen: ClassVar[str] = "the system prompt and the schemas of tools"
    decoded: ClineRecord | None = None

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        begin = head.removeprefix(BOM).lstrip(SPACE)
        if begin[:1] == b"{":
            named = b'"system_prompt"' in head or b'"sessionId"' in head
            return named and (b'"metrics"' in head or b'"modelInfo"' in head) and array_at(head, (".messages",)) >= 0
        if begin[:1] != b"[":
            return False
        first = next(iter(ElementCutter([head], ("",))), Line(1, 0, b""))
        own = raw_members(first.data) or {}
        shown = own.keys() >= {"ts", "type"} and not own.keys().isdisjoint(("say", "ask"))
        return shown or (own.keys() >= {"ts", "role", "content"} and text_in(own["role"]) in _ROLES)

    def join(self, memory: ClineMemory, placed: Iterable[tuple[str, ClineRecord, Line]]) -> list[Read]:
        """Take the records of a task, each with its file and its place; `memory` is what is known before."""
        self._memory = memory
        for self._file, self.decoded, line in placed:
            self._modelled(line)
        self._at_record(self._line)
        self._last()
        return self._taken()

    def _head(self, data: bytes) -> None:
        own = raw_members(data) or {}
        system = own.get("system_prompt", b"null")
        self._memory.system = Raw(system) if opens(system) in ('"', "[") else NULL
        self._memory.name = text_in(own.get("sessionId", b""))

    def _take(self, data: bytes) -> None:
        record, self.decoded = self.decoded or lenient.decoded(records.RECORD, data), None
        self._at = stamp_of(record.ts)
        if record.role in _ROLES:
            self._message(record)
        elif record.type in ("say", "ask"):
            self._shown(record)
        else:
            self._opaque(Code.UNKNOWN_RECORD, "neither a message nor what a screen shows; kept as opaque")

    def _last(self) -> None:
        self._settle(None)
        for cut in self._memory.cuts:
            self._cut(cut.id, cut.summary)
        self._memory.cuts = []

    # what the screen was shown

    def _shown(self, record: ClineRecord) -> None:
        memory, shown = self._memory, record.say or record.ask or ""
        cut_out = record.conversation_history_deleted_range
        if cut_out is not None and len(cut_out) == 2 and cut_out != memory.range:
            self._leave_out(cut_out, record)
        if shown == "api_req_started":
            self._request(record)
        elif shown in ("condense_context", "sliding_window_truncation"):
            self._condensed(record)
        elif shown in _SPOKEN and record.say and not record.partial and opens(record.text) == '"':
            if memory.request is not None and memoryview(record.text).nbytes > len('""'):
                memory.request.said.append((_SPOKEN[shown], record.text))
                memory.request.said_at = self._at
        elif shown in ("resume_task", "resume_completed_task") and memory.begun:
            self._observe(Sign("resume"))
        elif shown in _FAILURES and memory.begun:
            self._observe(Sign("api-error"))

    def _request(self, record: ClineRecord) -> None:
        self._settle(record)
        try:
            request = records.request_in(record.text)
        except ValueError:
            request = records.ApiRequest()
            self._problem(Code.MALFORMED_RECORD, "what a request is billed cannot be read")
        info = record.model_info or records.ModelInfo()
        model = info.model_id or (records.model_in(request.request) if opens(request.request) == '"' else "")
        self._open()
        line, began = self._line, moment_of(record)
        self._memory.request = Pending(
            line.number, line.byte, self._file, self._at, began, request, model, info.provider_id
        )

    def _settle(self, record: ClineRecord | None) -> None:
        """End the request under way with what the screen showed of it, where the history holds no answer to it."""
        memory = self._memory
        pending, memory.request = memory.request, None
        if pending is None or pending.answered:
            return
        now = self._line, self._file, self._at
        self._line, self._file, self._at = Line(pending.line, pending.byte, b""), pending.file, pending.at
        usage = self._bill(pending, record)
        if pending.said or usage is not None:
            if not pending.prompted and opens(pending.request.request) == '"':
                self._say_user([TextBlock(pending.request.request)], ClineKnown([], own=False))
            self._open_turn(pending)
            blocks = [ThinkingBlock(text) if kind == "thinking" else TextBlock(text) for kind, text in pending.said]
            if blocks:
                uuid = self._uuid(ClineKnown([], own=False))
                self._append(AssistantMessage(uuid, blocks=tuple(blocks), response_id=uuid))
            self._at = pending.said_at
            self._end_turn(memory.turns, usage)
        else:
            self._open_turn(pending)
            error = pending.request.cancel_reason or "no answer is recorded"
            self._emit(e.TurnFailed(turn=memory.turns.turn, error=error))
        self._line, self._file, self._at = now

    def _bill(self, pending: Pending, record: ClineRecord | None) -> e.Usage | None:
        moment = pending.began if record is None else moment_of(record)
        chosen = next((usage for usage in reversed(self._memory.models) if usage.ts <= moment), None)
        if chosen is not None:
            pending.model = pending.model or chosen.model_id
            pending.provider = pending.provider or chosen.model_provider_id
        model = pending.model or self._memory.model
        return records.bill_of(pending.request, pending.provider, model, pending.began)

    # condensations and truncations

    def _condensed(self, record: ClineRecord) -> None:
        memory, found = self._memory, record.context_condense or record.context_truncation
        if found is None:  # it has only begun
            return
        if memory.request is not None and (memory.request.answered or memory.request.said):
            self._settle(record)
        name = found.condense_id or found.truncation_id or ""
        at = next((n for n, cut in enumerate(memory.cuts) if cut.id == name), 0 if not name else None)
        summary = found.summary if opens(found.summary) == '"' else NULL
        waiting = memory.cuts.pop(at) if at is not None and at < len(memory.cuts) else None
        if waiting is not None:
            name, summary = waiting.id, waiting.summary
        memory.coming -= 1
        self._cut(name, summary, found)

    def _cut(self, name: str, summary: Raw, found: records.Condense | None = None) -> None:
        """Prune what a summary or a marker stands for: what names it, or what only the screen showed."""
        memory = self._memory
        kept = [
            known
            for known in memory.known
            if known.own and (not name or name not in (known.condensed, known.truncated))
        ]
        memory.known = kept
        memory.items += 1
        stay, found = [uuid for known in kept for uuid in known.uuids] or None, found or records.Condense()
        pre, post = count_in(found.prev_context_tokens), count_in(found.new_context_tokens)
        self._prune(f"c{memory.items}", stay, pre=pre, post=post, summary=summary)

    def _leave_out(self, cut_out: list[int], record: ClineRecord) -> None:
        """Take a range of messages out of the prompt, by their numbers in the history."""
        memory = self._memory
        if memory.request is not None and (memory.request.answered or memory.request.said):
            self._settle(record)
        memory.range, (first, last) = cut_out, cut_out
        out = {uuid for known in memory.known[max(0, first) : max(0, last + 1)] for uuid in known.uuids}
        if not out:
            return
        memory.items += 1
        kept = tuple(uuid for known in memory.known for uuid in known.uuids if uuid not in out)
        for known in memory.known:
            known.uuids = [uuid for uuid in known.uuids if uuid not in out]
        self._prune(f"c{memory.items}", kept or None, trigger="overflow")

    # what was sent

    def _message(self, record: ClineRecord) -> None:
        memory = self._memory
        self._open()
        noted = record.metadata or records.ClineNoted()
        if noted.kind == "compaction_summary":  # of the command line: it stands for all before it
            memory.known = []
            summed = records.Condense(prev_context_tokens=noted.tokens_before)
            self._cut("", records.text_joined(record.content), summed)
            return
        if noted.display_only:
            return
        if record.is_summary or record.is_truncation_marker:
            name = record.condense_id or record.truncation_id or ""
            summary = records.text_joined(record.content)
            if memory.coming > len(memory.cuts):
                memory.cuts.append(ClineCut(name, summary))
            else:
                self._cut(name, summary)
            return
        known = ClineKnown([], record.condense_parent or "", record.truncation_parent or "")
        said = said_in(record.content)
        if record.role == "assistant":
            self._answer(record, said, known)
            return
        for result in said.results:
            self._emit(replace(result, at=self._at))
        if memory.request is not None and not memory.request.answered:
            memory.request.prompted = True
        else:
            memory.turns.asked_at = self._at
        self._say_user(said.blocks, known, tool=bool(said.results))

    def _say_user(self, said: list[Block], known: ClineKnown, *, tool: bool = False) -> None:
        blocks = [block for block in said if not records.is_environment(block)]
        environment = [block for block in said if records.is_environment(block)]
        texts = [block.text for block in blocks if isinstance(block, TextBlock)]
        for text in (*texts, *(block.text for block in environment if isinstance(block, TextBlock))):
            self._memory.model = records.model_in(text) or self._memory.model
        uuid = self._uuid(known)
        if blocks:
            own = records.is_users(texts) and not (tool and not any(b"<" in bytes(text) for text in texts))
            source = "user" if own else "context_injection"
            self._append(UserMessage(uuid, blocks=tuple(blocks), source=source))
        if environment:
            name = f"{uuid}.environment" if blocks else uuid
            known.uuids += [name] if blocks else []
            self._append(UserMessage(name, blocks=tuple(environment), source="context_injection"))

    def _answer(self, record: ClineRecord, said: Said, known: ClineKnown) -> None:
        memory, usage = self._memory, None
        pending = memory.request
        if pending is not None and not pending.answered:
            pending.answered = True
            usage = self._bill(pending, record)
        else:
            pending = None
        self._open_turn(pending, record.model_info)
        if record.metrics is not None:
            usage = records.metered(record.metrics)
        uuid = self._uuid(known)
        blocks = tuple([block for block in said.blocks if not records.is_environment(block)])
        if blocks:
            self._append(AssistantMessage(uuid, blocks=blocks, response_id=uuid))
        for number, call in enumerate(said.calls):
            name = f"{uuid}.{number}"
            known.uuids.append(name)
            self._append(replace(call, uuid=name, response_id=uuid))
        self._end_turn(memory.turns, usage)

    # turns and items

    def _open(self) -> None:
        memory = self._memory
        if not memory.begun:
            memory.begun = True
            self._emit(
                e.SessionStarted(
                    session_id=memory.name,
                    at=self._at,
                    dialect="anthropic",
                    system=NULL if is_absent(memory.system) else memory.system,
                    parent_session_id=memory.parent,
                )  # fmt: skip
            )

    def _uuid(self, known: ClineKnown) -> str:
        memory = self._memory
        memory.items += 1
        known.uuids.append(f"m{memory.items}")
        memory.known.append(known)
        return f"m{memory.items}"

    def _open_turn(self, pending: Pending | None, info: records.ModelInfo | None = None) -> None:
        memory = self._memory
        named = None if info is None else info.model_id or info.id
        model = named or (pending.model if pending is not None else "") or memory.model or None
        if pending is not None:
            memory.turns.asked_at = pending.at
        self._start_turn(memory.turns, model)


def moment_of(record: ClineRecord) -> float:
    """Return when a record was written, in milliseconds; 0 where it does not say."""
    found = decode(bytes(record.ts)) if opens(record.ts).isdigit() else 0
    return float(found) if type(found) in (int, float) and found < 1e15 else 0.0


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

    def __init__(self) -> None:
        super().__init__()
        self._files: dict[str, bytes] = {}

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
        cuts = [(placed.record.context_condense, placed.record.context_truncation) for placed in shown]
        memory = ClineMemory(
            name=item.id or "",
            parent=item.parent_task_id,
            models=sorted(_part(files, METADATA, records.ClineMetadata).model_usage, key=lambda usage: usage.ts),
            coming=sum(cut != (None, None) for cut in cuts),
        )
        return found + Cline().join(memory, _merged(shown, sent))


def _part(files: dict[str, bytes], name: str, kind: type[S]) -> S:
    """Read a small file; what cannot be read says nothing."""
    try:
        return msgspec.json.decode(files.get(name, b"{}"), type=kind)
    except (ValueError, RecursionError):
        return kind()


def _records(data: bytes, name: str, found: list[Read]) -> Iterator[Placed]:
    """Yield the records of a file in its order; what is no record is a problem."""
    elements = ElementCutter([data], ("",), MEMBER_BYTES)
    for line in elements:
        try:
            yield Placed(name, records.RECORD.decode(line.data), line)
        except (ValueError, RecursionError) as error:
            reason = fault(line.data) or f"{cut_masked(str(error).partition(chr(10))[0], 120)}; passed over"
            found += in_file(name, [problem(Code.MALFORMED_RECORD, reason, line)])
    if elements.begin is not None and not elements.is_whole:
        ended = Line(elements.line, elements.byte, b"")
        found += in_file(name, [problem(Code.TORN_LAST_LINE, "the document ends before its list does", ended)])


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
