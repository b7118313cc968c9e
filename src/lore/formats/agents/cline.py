"""Tasks of Cline, Roo Code and Kilo Code: records of the screen and messages that were sent, alone or together.

A task's folder has `ui_messages.json` (records of the screen) and `api_conversation_history.json` (messages that were
sent), an array each; Cline's command line writes an object with `messages`.

- A request is an `api_req_started` of the screen. The messages of the history before the next one are its content,
  paired by their times. If the history lacks them (Roo once deleted condensed messages), the request has the sent text
  and the answer of the screen. Without the screen's file each answer is a request without usage.
- A condensation or truncation comes before the request under way. Roo hides the messages that name it as their parent,
  if its own message is in the file; Cline gives the range of messages that it leaves out.
- The details of the environment, which the client writes, are a message of their own.
- Other records of the screen (questions about tools, checkpoints, deleted requests) are not part of a prompt.
- Read as a folder, the files are merged by time, each in its own order; a file that is missing or damaged takes nothing
  from the others. They are held until the last one is read (64 MiB each).

What `tokensIn` counts depends on the client. Roo (since 3.29.5 of 2025-11-01; Kilo since 2025-11-12) counts the whole
prompt; before that the whole prompt for the protocol "openai", and only uncached tokens for "anthropic". Cline, which
notes no protocol, leaves out cached tokens, except for providers whose count it passes on; its command line counts the
whole prompt. A count that is less than the cached tokens leaves these out.

System prompt and tools are not in these files; those of the command line have the system prompt.

Sources: 10 public task folders; the sources of Roo Code (April 2026) and Cline (3.89, November 2026).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats.base import Read, Yields
from lore.formats.beginning import BOM, SPACE, array_at
from lore.formats.bills import usage_with_cached_input, with_cost
from lore.formats.builder import DocumentReader
from lore.formats.documents import ElementCutter
from lore.formats.folders import API, CLINE_TASK, HISTORY, METADATA, UI, PackMember, PackReader, in_file
from lore.formats.lines import Line, fault, problem
from lore.formats.values import MessageParts, count_in, opens, split_content, stamp_of, text_at, text_in
from lore.model import events as e
from lore.model import lenient
from lore.model.canonical import encode
from lore.model.codes import Code
from lore.model.events import Usage
from lore.model.items import NULL, AssistantMessage, Block, TextBlock, ThinkingBlock, UserMessage
from lore.model.jsonslice import members_at
from lore.model.limits import MEMBER_BYTES
from lore.model.mask import cut_masked
from lore.model.state import Sign

_WHOLE_SINCE = 1_761_955_200_000  # milliseconds: since 2025-11-01 Roo counts the whole prompt
# Cline passes on the counts of these providers, which are of the whole prompt.
_WHOLE_PROVIDERS = ("openai", "litellm", "doubao", "fireworks", "hicap", "lmstudio", "qwen", "xai", "zai")
_MODEL = re.compile(rb"<model>([^<\\\"]{1,200})</model>")
_ENVIRONMENT = re.compile(rb'"(?:\\[nrt]|\s)*<environment_details>')
_PROMPT = re.compile(rb'"(?:\\[nrt]|\s)*<(?:task|feedback|answer|user_message)>')
_PROMPT_WORDS = (rb"\n<feedback>\n", b"New instructions for task continuation:")
_RESULT = re.compile(rb'"(?:\\[nrt]|\s)*(?:\[[^\]]{1,2000}\] Result:|\[ERROR\]|The tool execution failed)')
_ROLES = frozenset(("user", "assistant"))
_ANSWERS = {"text": TextBlock, "completion_result": TextBlock, "reasoning": ThinkingBlock}  # by what the screen says
_CUTS = ("condense_context", "sliding_window_truncation")
_SIGNALS = {"resume_task": "resume", "resume_completed_task": "resume", "api_req_failed": "api-error",
            "error": "api-error", "diff_error": "api-error"}  # fmt: skip


# A message that was sent (it has a `role`), or a record of the screen (it has a `type`).
class _ClineRecord(Struct, frozen=True, gc=False, rename="camel"):
    ts: Raw = NULL
    role: str = ""
    content: Raw = NULL
    type: str = ""
    say: str | None = None
    ask: str | None = None
    text: Raw = NULL
    partial: bool | None = None
    is_summary: bool | None = None
    is_truncation_marker: bool | None = None
    condense_id: str | None = None
    condense_parent: str | None = None
    truncation_id: str | None = None
    truncation_parent: str | None = None
    context_condense: _Condense | None = None
    context_truncation: _Condense | None = None
    conversation_history_deleted_range: list[int] | None = None
    model_info: dict[str, Raw] | None = None  # who answered, as Cline notes it: `modelId` or `id`, and `providerId`
    metrics: dict[str, Raw] | None = None
    metadata: dict[str, Raw] | None = None  # of the command line: `kind`, `tokensBefore` of a compaction, `displayOnly`


class _Condense(Struct, frozen=True, gc=False, rename="camel"):
    summary: Raw = NULL
    prev_context_tokens: Raw = NULL
    new_context_tokens: Raw = NULL
    condense_id: str | None = None
    truncation_id: str | None = None


# The `text` of an `api_req_started`: the text that was sent, and its counts once the answer has come.
class _ApiRequest(Struct, frozen=True, gc=False, rename="camel"):
    request: Raw = NULL
    api_protocol: str | None = None
    tokens_in: Raw = NULL
    tokens_out: Raw = NULL
    cache_writes: Raw = NULL
    cache_reads: Raw = NULL
    cost: Raw = NULL
    cancel_reason: str | None = None


class _ClineUsage(Struct, frozen=True, gc=False):  # a model of `task_metadata.json`, and since when it was used
    ts: float = 0
    model_id: str = ""
    model_provider_id: str | None = None


# The parts of `history_item.json` (id and parent) and `task_metadata.json` (models) that are read.
class _TaskNotes(Struct, frozen=True, gc=False, rename={"parent": "parentTaskId"}):
    id: str | None = None
    parent: str | None = None
    model_usage: list[_ClineUsage] = []


# Counts of a message of the command line, whose input is the whole prompt.
_METRICS = ("inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens")


def is_environment(block: Block) -> bool:
    """Return whether a block is the details of the environment."""
    return isinstance(block, TextBlock) and _ENVIRONMENT.match(block.text) is not None


def has_prompt(texts: list[Raw]) -> bool:
    """Return whether a message in the user's role has text that a person wrote, not only results of tools."""
    if any(_PROMPT.match(text) or any(word in bytes(text) for word in _PROMPT_WORDS) for text in texts):
        return True
    return not any(map(_RESULT.match, texts))


def model_in(text: Raw) -> str:
    """Return the model that the details of the environment name; empty if they name none."""
    models = _MODEL.findall(text)
    return models[-1].decode("utf-8", "replace").strip() if models else ""


def usage_of(request: _ApiRequest, provider: str | None, model: str | None, at: float) -> Usage | None:
    """Return the usage of a request that began `at` this time in milliseconds; None if nothing was counted.

    0 written tokens become None if the protocol does not count them.
    """
    tokens = (request.tokens_in, request.cache_reads, request.cache_writes, request.tokens_out)
    (whole, read, write, output), protocol = map(count_in, tokens), request.api_protocol
    if whole is None and output is None:
        return None
    if not write and protocol != "anthropic" and (protocol is not None or "claude" not in (model or "")):
        write = None
    is_whole = provider in _WHOLE_PROVIDERS if protocol is None else at >= _WHOLE_SINCE or protocol != "anthropic"
    cached = (read or 0) + (write or 0)
    if whole is None or not is_whole or (cached > whole and protocol != "openai"):
        return Usage(whole, read, write, output)
    return usage_with_cached_input(whole, read, write, output)


@dataclass(slots=True)
class _ClineMessage:
    cut_ids: tuple[str | None, ...] = ()  # ids of the condensation and the truncation that hide it
    is_logged: bool = True  # it is in the history's file; False: only the screen showed it
    items: list[str] = field(default_factory=list[str])  # uuids of its items


@dataclass
class _ClineRequest:  # the latest `api_req_started`
    line: Line  # its place, without bytes
    file: str
    at: str | None  # when it began
    began: float  # the same in milliseconds; 0: unknown
    counts: _ApiRequest
    model: str = ""
    provider: str | None = None
    is_prompted: bool = False  # the history has the message that it sent
    is_answered: bool = False  # the history has its answer, which ended its turn
    screen_answer: list[Block] = field(default_factory=list[Block])  # the answer as the screen showed it
    shown_at: str | None = None  # when the screen showed the last of it


class Cline(DocumentReader):
    """Reader of one file of a task, and of sessions of Cline's command line."""

    name: ClassVar[str] = "cline"
    paths: ClassVar[tuple[str, ...]] = ("", ".messages")
    unseen: ClassVar[str] = "the system prompt and the schemas of tools"

    def __init__(self, session_id: str = "", parent: str | None = None, models: Iterable[_ClineUsage] = ()) -> None:
        super().__init__()
        self._session_id, self._parent = session_id, parent
        self._models = sorted(models, key=lambda usage: usage.ts)  # since when each model was used
        self._system = NULL
        self._model = ""  # that the latest details of the environment name
        self._count = 0  # messages and cuts so far: a number for their uuids
        self._history: list[_ClineMessage] = []  # messages of the prompt; the session's own history is not used
        self._request: _ClineRequest | None = None  # until its turn ends or the next one begins
        self._waiting: list[tuple[str, Raw]] = []  # id and summary of cuts in the history, until the screen shows them
        self._expected_cuts = 0  # cuts that the screen has yet to show: the history's wait for these
        self._left_out: list[int] = []  # latest range of messages that Cline leaves out: first, last

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        begin = head.removeprefix(BOM).lstrip(SPACE)
        if begin[:1] == b"{":
            is_named = b'"system_prompt"' in head or b'"sessionId"' in head
            return is_named and (b'"metrics"' in head or b'"modelInfo"' in head) and array_at(head, (".messages",)) >= 0
        if begin[:1] != b"[":
            return False
        members = cls.first_members(head)
        is_of_screen = members.keys() >= {"ts", "type"} and not members.keys().isdisjoint(("say", "ask"))
        return is_of_screen or (members.keys() >= {"ts", "role", "content"} and text_in(members["role"]) in _ROLES)

    def read_task(self, placed: Iterable[Placed], expected_cuts: int) -> list[Read]:
        """Return the reads of a task's merged records; `expected_cuts` of them are cuts that the screen shows."""
        self._expected_cuts, reads = expected_cuts, list[Read]()
        for self.session.file, record, line in placed:
            reads += self.session.read_record(line, lambda _, record=record: self._read_record(record)) or ()
        return [*reads, *self._flush()]

    def handle_head(self, data: bytes) -> None:
        members = members_at(data)
        system = members.get("system_prompt", b"null")
        self._system = Raw(system) if opens(system) in ('"', "[") else NULL
        self._session_id = text_at(members, "sessionId")

    def handle(self, data: bytes) -> None:
        self._read_record(self.session.decode(_ClineRecord, data))

    def _read_record(self, record: _ClineRecord) -> None:
        session, is_message, kind = self.session, record.role in _ROLES, record.say or record.ask or ""
        session.at = stamp_of(record.ts)
        if not is_message and record.type not in ("say", "ask"):
            session.keep_opaque(Code.UNKNOWN_RECORD, "neither a message nor what a screen shows")
            return
        if is_message or kind == "api_req_started":
            session.start_session(
                self._session_id, at=session.at, dialect="anthropic", system=self._system,
                parent_session_id=self._parent,
            )  # fmt: skip
        if is_message:
            self._read_message(record)
        else:
            self._read_screen(record, kind)

    def finish(self) -> None:
        self._end_request(None)
        for cut_id, summary in self._waiting:
            self._apply_cut(cut_id, summary, _Condense())
        self._waiting = []

    # the screen

    def _read_screen(self, record: _ClineRecord, kind: str) -> None:
        """Read a record of the screen; `kind` is its `say` or `ask`."""
        session, request = self.session, self._request
        cut = record.context_condense or record.context_truncation if kind in _CUTS else None  # None: it has only begun
        left_out = record.conversation_history_deleted_range or []
        is_left_out = len(left_out) == 2 and left_out != self._left_out
        if (cut or is_left_out) and request is not None and (request.is_answered or request.screen_answer):
            self._end_request(record)
        if is_left_out:  # by the numbers of the first and the last message in the history
            self._left_out, (first, last) = left_out, left_out
            messages = self._history[max(0, first) : max(0, last + 1)]
            has_items = any(message.items for message in messages)
            for message in messages:
                message.items = []
            if has_items:
                self._prune(trigger="overflow")
        if kind == "api_req_started":
            self._start_request(record)
        elif cut is not None:
            cut_id, summary = cut.condense_id or cut.truncation_id or "", cut.summary
            shown = (at for at, (waiting, _) in enumerate(self._waiting) if not cut_id or waiting == cut_id)
            if (at := next(shown, None)) is not None:
                cut_id, summary = self._waiting.pop(at)
            self._expected_cuts -= 1
            self._apply_cut(cut_id, summary if opens(summary) == '"' else NULL, cut)
        elif kind in _ANSWERS and request is not None:
            has_text = opens(record.text) == '"' and record.text != Raw(b'""')
            if has_text and record.say and not record.partial:
                request.screen_answer.append(_ANSWERS[kind](record.text))
                request.shown_at = session.at
        elif kind in _SIGNALS and session.is_started:
            session.signal(Sign(_SIGNALS[kind]))

    def _start_request(self, record: _ClineRecord) -> None:
        """End the request before an `api_req_started`, and keep the new one in `self._request`."""
        self._end_request(record)
        session, info = self.session, record.model_info or {}
        try:
            counts = session.decode(_ApiRequest, (text_in(record.text) or "{}").encode())
        except ValueError:
            counts = _ApiRequest()
            session.problem(Code.MALFORMED_RECORD, "what a request is billed cannot be read")
        model = text_in(info.get("modelId", NULL)) or model_in(counts.request)
        provider = text_in(info.get("providerId", NULL)) or None
        line = Line(session.line.number, session.line.byte, b"")
        self._request = _ClineRequest(line, session.file, session.at, moment_of(record), counts, model, provider)

    def _end_request(self, record: _ClineRecord | None) -> None:
        """Clear `self._request`; if the history has no answer to it, emit its turn, with the screen's or as failed.

        The events get the request's own place. `record` follows it; None: the task ends.
        """
        session, request, self._request = self.session, self._request, None
        if request is None or request.is_answered:
            return
        place = session.line, session.file, session.at
        session.line, session.file, session.at = request.line, request.file, request.at
        usage = self._usage_of(request, record)
        has_answer = bool(request.screen_answer) or usage is not None
        if has_answer and not request.is_prompted and opens(request.counts.request) == '"':
            self._add_prompt([TextBlock(request.counts.request)], _ClineMessage(is_logged=False))
        session.counter.asked_at = request.at
        session.start_turn(request.model or self._model or None)
        if has_answer:
            if request.screen_answer:
                uuid = self._add_message(_ClineMessage(is_logged=False))
                session.append(AssistantMessage(uuid, blocks=tuple(request.screen_answer), response_id=uuid))
            session.at = request.shown_at
            session.end_turn(usage)
        else:
            error = request.counts.cancel_reason or "no answer is recorded"
            session.emit(e.TurnFailed(turn=session.counter.number, error=error))
        session.line, session.file, session.at = place

    def _usage_of(self, request: _ClineRequest, record: _ClineRecord | None) -> e.Usage | None:
        """Return the usage of a request that ends with a record; set an unknown model or provider of the request."""
        moment = request.began if record is None else moment_of(record)
        used = next((usage for usage in reversed(self._models) if usage.ts <= moment), None)
        if used is not None:
            request.model = request.model or used.model_id
            request.provider = request.provider or used.model_provider_id
        usage = usage_of(request.counts, request.provider, request.model or self._model, request.began)
        return with_cost(usage, bytes(request.counts.cost))

    # condensations and truncations

    def _apply_cut(self, cut_id: str, summary: Raw, cut: _Condense) -> None:
        """Drop from the history what a cut hides and what only the screen showed; emit it with the counts of `cut`."""
        self._history = [
            message for message in self._history if message.is_logged and (not cut_id or cut_id not in message.cut_ids)
        ]
        before, after = count_in(cut.prev_context_tokens), count_in(cut.new_context_tokens)
        self._prune(summary=summary, pre_tokens=before, post_tokens=after)

    def _prune(self, trigger: str = "auto", **details: Raw | int | None) -> None:
        """Emit a compaction that kept the items of `self._history`; `details` as in `SessionBuilder.compact`."""
        self._count += 1
        kept_items = [uuid for message in self._history for uuid in message.items]
        self.session.prune(f"c{self._count}", kept_items or None, trigger=trigger, **details)

    # the history

    def _read_message(self, record: _ClineRecord) -> None:
        notes, session = record.metadata or {}, self.session
        is_compaction = text_in(notes.get("kind", NULL)) == "compaction_summary"  # of the command line
        if bytes(notes.get("displayOnly", NULL)) == b"true" and not is_compaction:
            return
        parts = split_content(record.content)
        message = _ClineMessage((record.condense_parent, record.truncation_parent))
        if is_compaction or record.is_summary or record.is_truncation_marker:
            texts = [block.text for block in parts.blocks if isinstance(block, TextBlock) and not is_environment(block)]
            summary = texts[0] if len(texts) == 1 else Raw(encode("\n\n".join(map(text_in, texts))))
            cut_id = record.condense_id or record.truncation_id or ""
            if is_compaction:  # it replaces all before it
                self._history = []
                self._apply_cut("", summary, _Condense(prev_context_tokens=notes.get("tokensBefore", NULL)))
            elif self._expected_cuts > len(self._waiting):
                self._waiting.append((cut_id, summary))
            else:
                self._apply_cut(cut_id, summary, _Condense())
        elif record.role == "assistant":
            self._read_answer(record, parts, message)
        else:
            for result in parts.results:
                session.emit(replace(result, at=session.at))
            if self._request is not None and not self._request.is_answered:
                self._request.is_prompted = True
            else:
                session.counter.asked_at = session.at
            self._add_prompt(parts.blocks, message, has_results=bool(parts.results))

    def _add_prompt(self, message_blocks: list[Block], message: _ClineMessage, *, has_results: bool = False) -> None:
        """Add a message of the user's role to the history, and emit its blocks: the environment's as a second item."""
        for block in message_blocks:
            self._model = (model_in(block.text) if isinstance(block, TextBlock) else "") or self._model
        blocks = [block for block in message_blocks if not is_environment(block)]
        environment = [block for block in message_blocks if is_environment(block)]
        texts = [block.text for block in blocks if isinstance(block, TextBlock)]
        uuid = self._add_message(message)
        if blocks:
            is_prompt = has_prompt(texts) and (not has_results or any(b"<" in bytes(text) for text in texts))
            source = "user" if is_prompt else "context_injection"
            self.session.append(UserMessage(uuid, blocks=tuple(blocks), source=source))
        if environment:
            name = f"{uuid}.environment" if blocks else uuid
            message.items += [name] if blocks else []
            self.session.append(UserMessage(name, blocks=tuple(environment), source="context_injection"))

    def _read_answer(self, record: _ClineRecord, parts: MessageParts, message: _ClineMessage) -> None:
        """Emit the turn of an answer in the history, with the usage of `self._request` if it is the answer to it."""
        session, request, info, usage = self.session, self._request, record.model_info or {}, None
        model = text_in(info.get("modelId", NULL)) or text_in(info.get("id", NULL))
        if request is not None and not request.is_answered:
            request.is_answered = True
            usage = self._usage_of(request, record)
            model, session.counter.asked_at = model or request.model, request.at
        session.start_turn(model or self._model or None)
        if record.metrics is not None:
            usage = usage_with_cached_input(*(count_in(record.metrics.get(name, NULL)) for name in _METRICS))
            usage = with_cost(usage, bytes(record.metrics.get("cost", NULL)))
        uuid = self._add_message(message)
        if blocks := tuple([block for block in parts.blocks if not is_environment(block)]):
            session.append(AssistantMessage(uuid, blocks=blocks, response_id=uuid))
        for number, call in enumerate(parts.calls):
            message.items.append(f"{uuid}.{number}")
            session.append(replace(call, uuid=f"{uuid}.{number}", response_id=uuid))
        session.end_turn(usage)

    def _add_message(self, message: _ClineMessage) -> str:
        """Add a message to the history and a first uuid to its items; return the uuid, for the item to be emitted."""
        self._count += 1
        message.items.append(f"m{self._count}")
        self._history.append(message)
        return f"m{self._count}"


def moment_of(record: _ClineRecord) -> float:
    """Return when a record was written, in milliseconds; 0 if unknown."""
    moment = float(bytes(record.ts)) if opens(record.ts).isdigit() else 0.0
    return moment if moment < 1e15 else 0.0


Placed: TypeAlias = tuple[str, _ClineRecord, Line]  # the name of a task's file, a record of it, its place there


class ClineTask(PackReader):
    """Reader of a task's folder: its files, merged by their times."""

    name: ClassVar[str] = CLINE_TASK
    yields: ClassVar[Yields] = "events"
    max_values: ClassVar[int] = 4_000_000

    def __init__(self) -> None:
        super().__init__()
        self._files: dict[str, bytes] = {}

    def _read_member(self, member: PackMember) -> list[Read]:
        self._files[member.header.name] = member.data
        return []

    def _flush(self) -> list[Read]:
        """Return the reads of the task, of whose files `_read_member` only keeps the bytes."""
        files, problems = self._files, list[Read]()
        screen, messages = (list(_records_in(files.get(name, b""), name, problems)) for name in (UI, API))
        notes = dict.fromkeys((HISTORY, METADATA), _TaskNotes())  # a file that cannot be read has none
        for name in notes:
            with suppress(ValueError, RecursionError):
                notes[name] = lenient.decode(_TaskNotes, files.get(name, b""), set())
        expected_cuts = sum(bool(record.context_condense or record.context_truncation) for _, record, _ in screen)
        reader = Cline(notes[HISTORY].id or "", notes[HISTORY].parent, notes[METADATA].model_usage)
        return problems + reader.read_task(_merge(screen, messages), expected_cuts)


def _records_in(data: bytes, name: str, problems: list[Read]) -> Iterator[Placed]:
    """Yield the records of the file `name` in its order; append problems of other elements to `problems`."""
    elements = ElementCutter([data], ("",), MEMBER_BYTES)
    for line in elements:
        misfits = set[str]()
        try:
            yield name, lenient.decode(_ClineRecord, line.data, misfits), line
        except (ValueError, RecursionError) as error:
            reason = fault(line.data) or f"{cut_masked(str(error).partition(chr(10))[0], 120)}; passed over"
            problems += in_file(name, [problem(Code.MALFORMED_RECORD, reason, line)])
        if misfits:
            problems += in_file(name, [problem(Code.MALFORMED_RECORD, lenient.describe_misfits(misfits), line)])
    if elements.begin is not None and not elements.is_whole:
        torn = problem(Code.TORN_LAST_LINE, "the document ends before its list does", elements.place)
        problems += in_file(name, [torn])


def _merge(screen: list[Placed], messages: list[Placed]) -> Iterator[Placed]:
    """Merge the records of two files by their times; each file keeps its order.

    A message without a time comes with the next request of the screen.
    """
    at = 0
    for message in messages:
        moment, has_time, role = moment_of(message[1]), opens(message[1].ts) != "n", message[1].role
        while at < len(screen):
            record = screen[at][1]
            is_request = record.say == "api_req_started"
            if has_time and moment_of(record) > moment:
                break
            if not has_time and (role == "assistant" or (is_request and role != "user")):
                break
            yield screen[at]
            at += 1
            if not has_time and is_request:
                break
        yield message
    yield from screen[at:]
