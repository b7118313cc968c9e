"""The reader of sessions of OpenCode and Kilo CLI: what `opencode export` writes.

The document is `{info, messages: [{info, parts[]}]}`, or the list of messages alone, as OpenCode's server gives it;
`recording/agents/opencode_store.py` writes sessions of the database and of the storage folder in the same way. A step
of an assistant's message is one request (today a message has one step). A tool runs inside its message: its result is
known when the message ends.

A compaction is a marker in a message of the user, followed by a response whose text is the summary; that request has a
system prompt of its own and no tools, and is a chain of its own. An output that was pruned (`time.compacted`) is
cleared before the next request. A session that was reverted ends before the message that `revert` names. If the agent,
the `tools` map or the system prompt of a user's message changes, a part of the prompt changes that the log does not
hold: neither the system prompt nor schemas of tools are in it.

Sources: counts over 503 public exports, versions 1.2.16 to 1.18.21; OpenCode's message-v2.ts and compaction.ts, autumn
2026; of printed runs, public descriptions with examples of versions 1.1 to 1.18.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats.beginning import BOM, SPACE, array_at
from lore.formats.bills import recorded_dollars, synthetic_response_id, usage_without_cached_input
from lore.formats.builder import DocumentReader
from lore.formats.http import visible_value
from lore.formats.lines import nonblank_lines
from lore.formats.values import LATEST_MS, count_in, opens, stamp_of, text_at, text_in
from lore.model import events as e
from lore.model import items
from lore.model.canonical import encode
from lore.model.codes import Code
from lore.model.events import Usage
from lore.model.jsonslice import members_at
from lore.model.mask import cut_masked, mask
from lore.model.state import Sign, bounded_names


class _OpenCodeTime(Struct, frozen=True, gc=False):  # in ms since 1970
    created: Raw = items.NULL
    completed: Raw = items.NULL
    end: Raw = items.NULL
    compacted: Raw = items.NULL  # when an output was removed from later prompts


class _Cached(Struct, frozen=True, gc=False):
    read: int | None = None
    write: int | None = None


class _OpenCodeTokens(Struct, frozen=True, gc=False):
    input: int | None = None  # neither read from a cache nor written to one
    output: int | None = None  # with reasoning or without: the total shows which
    reasoning: int | None = None
    total: int | None = None
    cache: _Cached = _Cached()

    @property
    def prompt(self) -> int:
        """The whole prompt, cached tokens included; unknown counts are 0."""
        return (self.input or 0) + (self.cache.read or 0) + (self.cache.write or 0)


class _OpenCodeInfo(Struct, frozen=True, gc=False, rename={"provider": "providerID", "response_model": "modelID"}):
    id: str = ""
    role: str = ""
    provider: str = ""  # of a response
    response_model: str | None = None
    agent: str | None = None
    model: Raw = items.NULL  # of a prompt: the model and its variant, which is the effort
    time: _OpenCodeTime = _OpenCodeTime()
    tokens: _OpenCodeTokens | None = None
    cost: Raw = items.NULL  # of all steps, in US dollars, by the client's own prices
    error: dict[str, Raw] | None = None  # why a response is not whole, by its `name`
    summary: Raw = items.NULL  # true: a compaction asked for the response
    tools: dict[str, Raw] | None = None
    system: Raw = items.NULL


class _OpenCodeState(Struct, frozen=True, gc=False):
    status: str = ""
    input: Raw = items.NULL
    output: Raw = items.NULL
    error: Raw = items.NULL
    time: _OpenCodeTime | None = None
    attachments: list[_OpenCodePart] | None = None


# A part of a message; its type decides which fields it has.
class _OpenCodePart(Struct, frozen=True, gc=False, rename={"call_id": "callID", "message_id": "messageID"}):
    type: str = ""
    id: str = ""
    message_id: str = ""
    text: Raw = items.NULL
    ignored: bool | None = None
    synthetic: bool | None = None
    tool: str = ""
    call_id: str = ""
    state: _OpenCodeState | None = None
    mime: str = ""
    url: Raw = items.NULL
    metadata: Raw = items.NULL
    tokens: _OpenCodeTokens | None = None
    cost: Raw = items.NULL  # of the step
    auto: bool | None = None
    tail_start_id: str | None = None

    @property
    def is_image(self) -> bool:
        return self.type == "file" and self.mime.startswith("image/")


class _OpenCodeRecord(Struct, frozen=True, gc=False):
    info: _OpenCodeInfo
    parts: list[_OpenCodePart] = []

    @property
    def steps(self) -> list[list[_OpenCodePart]]:
        """The parts of each request. A message without `step-start` is one if it counts tokens or failed, or none."""
        starts = [index for index, part in enumerate(self.parts) if part.type == "step-start"]
        if not starts:
            return [self.parts] if usage_of(self.info.tokens, items.NULL) is not None or self.info.error else []
        return [self.parts[start:end] for start, end in pairwise([0, *starts[1:], len(self.parts)])]


class OpenCodeSession(Struct, frozen=True, gc=False, rename={"parent": "parentID"}):
    """A session, without its messages."""

    id: str = ""
    parent: str | None = None
    version: str = ""
    title: Raw = items.NULL
    time: _OpenCodeTime = _OpenCodeTime()
    revert: dict[str, Raw] | None = None  # its `messageID`: the first message that was taken back


DEFAULT_TITLES = ("New session - ", "Child session - ")  # until the model has named the session
SILENT = frozenset(("step-start", "step-finish", "patch", "snapshot", "retry", "agent"))  # parts that no model sees
_URL_KEPT = 2_000  # characters of a file's address
_READ_AS_TEXT = ("text/plain", "application/x-directory")
_TEXTS = {
    "compaction": Raw(b'"What did we do so far?"'), "subtask": Raw(b'"The following tool was executed by the user"'),
}  # fmt: skip
# Members of reasoning in which providers sign it.
_SIGNATURES = ("signature", "reasoningOpaque", "reasoningEncryptedContent", "thoughtSignature", "redactedData")
# The dialects of providers. Others are gateways, whose SDKs send OpenAI's chat completions.
_DIALECTS = {
    "anthropic": "anthropic", "google-vertex-anthropic": "anthropic", "minimax": "anthropic",
    "openai": "openai-responses", "azure": "openai-responses", "google": "gemini", "google-vertex": "gemini",
    "amazon-bedrock": "bedrock",
}  # fmt: skip
_BY_MODEL = ("opencode", "opencode-go", "github-copilot", "kilo")  # gateways with a dialect for each model
_MODELS = (("claude", "anthropic"), ("gpt-", "openai-responses"), ("gemini", "gemini"))
_BEGIN = re.compile(rb'^\{\s*"info"\s*:\s*\{[^{}]*"(?:projectID|slug|directory|version)"\s*:')
_OWN_ID = re.compile(r"(?:msg|prt)_[0-9a-f]{10}")  # as OpenCode makes them: the search for placeholders is slow


def drop_ambiguous_ids(record: _OpenCodeRecord, line_id: str, earlier_ids: set[str]) -> _OpenCodeRecord:
    """Return a message without ids that identify nothing: a redactor's placeholders, ids that several parts share.

    Such a call's id is replaced by a unique one made of `line_id`, any other by "". `earlier_ids` are the ids of
    earlier messages: one of them is not unique either; the message's own id is added to it.
    """
    part_ids = (name for part in record.parts for name in (part.id, part.call_id))
    ids = [name for name in (record.info.id, *part_ids) if name]
    shared = {name for name in ids if ids.count(name) > 1} if len({*ids}) < len(ids) else set[str]()
    if record.info.id:
        shared |= {record.info.id} & earlier_ids
        earlier_ids.add(record.info.id)
    if not shared and all(_OWN_ID.match(name) or visible_value(name) for name in ids):
        return record

    def clean(name: str) -> str:
        return "" if name in shared else visible_value(name)

    parts = [
        replace(part, id=clean(part.id), call_id=clean(part.call_id) or (part.call_id and f"{line_id}:{number}:call"))
        for number, part in enumerate(record.parts)
    ]
    return _OpenCodeRecord(replace(record.info, id=clean(record.info.id)), parts)


# parts in a prompt


def _file(part: _OpenCodePart) -> items.Block:
    """Return the block of an attached file: an image with its bytes, else its type and the beginning of its URL."""
    begin, comma, data = bytes(part.url).partition(b",")
    if part.is_image and comma and begin.startswith(b'"data:') and begin.endswith(b";base64"):
        return items.ImageBlock(part.mime, Raw(b'"' + data))
    return items.RawBlock(Raw(encode({"type": "file", "mime": part.mime, "url": text_in(part.url)[:_URL_KEPT]})))


def item_of(part: _OpenCodePart, uuid: str, response: str) -> items.AssistantMessage | items.ToolCall | None:
    """Return the item of a text, reasoning or tool part of a response; None for any other part."""
    if part.type == "text" and opens(part.text) == '"':
        return items.AssistantMessage(uuid, blocks=(items.TextBlock(part.text),), response_id=response)
    if part.type == "reasoning" and opens(part.text) == '"':
        providers = (members_at(entry) for entry in members_at(part.metadata).values())
        signatures = (text_in(value) for entry in providers for name, value in entry.items() if name in _SIGNATURES)
        thinking = items.ThinkingBlock(part.text, next(filter(None, signatures), None))
        return items.AssistantMessage(uuid, blocks=(thinking,), response_id=response)
    if part.type == "tool":
        arguments = part.state.input if part.state is not None and opens(part.state.input) == "{" else Raw(b"{}")
        return items.ToolCall(uuid, part.call_id or uuid, part.tool, arguments, response_id=response)
    return None


# usage


def usage_of(tokens: _OpenCodeTokens | None, cost: Raw, client: str = "", dialect: str | None = None) -> Usage | None:
    """Return the usage of a request; None without counts, or if all are 0: the request was given up."""
    if tokens is None:
        return None
    output, reasoning, total = tokens.output, tokens.reasoning, tokens.total
    counts = tokens.input, tokens.cache.read, tokens.cache.write
    if not (any(counts) or output):
        return None
    if total and output is not None and reasoning and total == tokens.prompt + output + reasoning:
        output += reasoning
    recorded = recorded_dollars(bytes(cost))
    return usage_without_cached_input(*counts, output, client=client, dialect=dialect, total=total, recorded=recorded)


def dialect_of(provider: str, model: str) -> str:
    """Return the dialect of a provider's requests to a model."""
    if provider in _BY_MODEL:
        name = model.rpartition("/")[2].lower()
        model_dialect = next((dialect for begin, dialect in _MODELS if name.startswith(begin)), "openai-chat")
        return "openai-chat" if provider == "github-copilot" and model_dialect != "openai-responses" else model_dialect
    return _DIALECTS.get(provider, "openai-chat")


@dataclass(slots=True)
class _UserSettings:  # of the latest message of the user
    agent: str | None = None
    effort: str = ""
    system: str | None = None
    tools: dict[str, bool] | None = None


@dataclass(slots=True)
class _CompactionMarker:  # the part of a user's message that asks for a compaction
    id: str  # of this message
    trigger: str = "auto"
    tail: str | None = None  # id of the first message that the compaction keeps


class OpenCode(DocumentReader):
    """Reader of OpenCode's sessions."""

    name: ClassVar[str] = "opencode"
    paths: ClassVar[tuple[str, ...]] = ("", ".messages")

    def __init__(self) -> None:
        super().__init__()
        self.client = "opencode"  # with its version
        self.reverted_from = ""  # id of the first message that was taken back
        self.reverted_at: int | None = None  # its index in the history; None: it was not read yet
        self.dialect: str | None = None
        self.prompt_size: int | None = None  # of the latest request, in tokens
        self.summaries = 0  # responses to compactions so far: they name the chains
        self.user_settings = _UserSettings()
        self.message_ids: set[str] = set()  # of the messages read so far
        self.marker: _CompactionMarker | None = None  # the latest one whose summary was not read yet
        self.pruned: list[tuple[int, str]] = []  # outputs to clear before a later request: when, in ms; the call's id

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        begin = head.removeprefix(BOM).lstrip(SPACE)
        if _BEGIN.match(begin) is not None and array_at(head, cls.paths) >= 0:
            return True
        first = cls.first_members(head)
        return first.keys() >= {"info", "parts"} and b'"sessionID"' in first["info"]

    def handle_head(self, data: bytes) -> None:
        info = self.session.decode(OpenCodeSession, members_at(data).get("info", b"{}"))
        self.client = f"opencode {info.version}".rstrip()
        self.reverted_from = text_in((info.revert or {}).get("messageID", items.NULL))
        title = text_in(info.title)
        title = None if title.startswith(DEFAULT_TITLES) else title or None
        at = stamp_of(info.time.created)
        self.session.start_session(info.id, at=at, parent_session_id=info.parent, title=title)

    def handle(self, data: bytes) -> None:
        if not self.session.is_started:  # the document's own information is malformed
            self.handle_head(b"{}")
        self._read_message(self.session.decode(_OpenCodeRecord, data))

    def _read_message(self, record: _OpenCodeRecord) -> None:
        record = drop_ambiguous_ids(record, self.session.line_id, self.message_ids)
        info = record.info
        if self.reverted_at is None and self.reverted_from and info.id == self.reverted_from:
            self.reverted_at = len(self.session.history)
        if info.role == "user":
            self._read_prompt(record)
        elif info.role == "assistant" and bytes(info.summary) == b"true":
            self._read_summary(record)
        elif info.role == "assistant":
            self._read_response(record)
        else:
            self.session.keep_unknown("unknown message role", info.role)

    def finish(self) -> None:
        if self.reverted_at is not None:
            self.session.rewind_to(self.reverted_at)

    def _report_unknown(self, part: _OpenCodePart) -> None:
        self.session.problem(Code.UNKNOWN_RECORD, f"unknown part type {mask(part.type)[:60]!r}; passed over")

    # prompts

    def _read_prompt(self, record: _OpenCodeRecord) -> None:
        info, session, blocks = record.info, self.session, list[items.Block]()
        session.at = stamp_of(info.time.created)
        self._signal_changes(info)
        for part in record.parts:
            if part.type == "text":
                if not part.ignored and opens(part.text) == '"' and bytes(part.text) != b'""':
                    blocks.append(items.TextBlock(part.text))
            elif part.type == "file":
                if part.mime not in _READ_AS_TEXT:
                    blocks.append(_file(part))
            elif part.type in _TEXTS:
                blocks.append(items.TextBlock(_TEXTS[part.type]))
            elif part.type not in SILENT:
                self._report_unknown(part)
            if part.type == "compaction":
                trigger = "manual" if part.auto is False else "auto"
                self.marker = marker = _CompactionMarker(info.id, trigger, part.tail_start_id)
                session.emit(e.CompactStarted(trigger=marker.trigger, pre_tokens=self.prompt_size, at=session.at))
        if blocks:
            is_typed = any(part.type in ("text", "file") and not part.synthetic for part in record.parts)
            source = "user" if is_typed else "context_injection"
            message = items.UserMessage(info.id or session.line_id, blocks=tuple(blocks), source=source)
            session.add_message(message, name=info.id)
        if any(part.is_image for part in record.parts):
            session.signal(Sign("image"))

    def _signal_changes(self, info: _OpenCodeInfo) -> None:
        """Signal settings that differ from `user_settings`, then replace these by the message's."""
        previous, system = self.user_settings, text_in(info.system)
        effort = text_at(members_at(info.model), "variant")
        signs: list[Sign] = []
        if previous.agent is not None and info.agent is not None and info.agent != previous.agent:
            signs.append(Sign("instructions", before=cut_masked(previous.agent, 80), after=cut_masked(info.agent, 80)))
        elif previous.system is not None and system != previous.system:
            signs.append(Sign("instructions"))
        if previous.agent is not None and effort != previous.effort:
            signs.append(Sign("effort", before=cut_masked(previous.effort, 80), after=cut_masked(effort, 80)))
        tools = None if info.tools is None else {name: bytes(is_on) == b"true" for name, is_on in info.tools.items()}
        before, now = previous.tools or {}, tools or {}  # a tool that a map does not name is on
        added = [name for name, was_on in before.items() if not was_on and now.get(name, True)]
        removed = [name for name, is_on in now.items() if not is_on and before.get(name, True)]
        removed = removed if previous.agent is not None else []
        if added or removed:
            signs.append(Sign("tools-delta", bounded_names(added), bounded_names(removed)))
        self.user_settings = _UserSettings(info.agent or previous.agent, effort, system, tools)
        self.session.version = self.client.partition(" ")[2]
        self.session.signal(*signs)
        self.session.version = ""

    # responses

    def _read_response(self, record: _OpenCodeRecord) -> None:
        """Emit a turn for each step of a message, after clearing the outputs pruned before it."""
        info, steps = record.info, record.steps
        asked_at, created = stamp_of(info.time.created), count_in(info.time.created, LATEST_MS)
        for number, step in enumerate(steps):
            is_last = number == len(steps) - 1
            if cleared := [call for at, call in self.pruned if created is None or at <= created]:
                self.pruned = [(at, call) for at, call in self.pruned if created is not None and at > created]
                self.session.emit(e.ToolResultCleared(call_ids=tuple(cleared)))
            turn = self._start_turn(info, asked_at)
            tool_ended = self._append_parts(info, step, info.id if len(steps) == 1 else f"{info.id}:{number}")
            self.session.at = (stamp_of(info.time.completed) if is_last else None) or tool_ended
            self._end_turn(turn, info, step, is_last_step=is_last, is_only_step=len(steps) == 1)
            asked_at = tool_ended or asked_at
        if not steps:
            self._append_parts(info, record.parts, info.id)

    def _start_turn(self, info: _OpenCodeInfo, asked_at: str | None) -> int:
        """Emit changes of model, dialect and provider; start the turn asked for at this time, return its number."""
        session, counter = self.session, self.session.counter
        dialect, is_main = dialect_of(info.provider, info.response_model or ""), session.chain == e.MAIN
        if not is_main or (info.response_model, dialect) != (counter.model, self.dialect):
            session.emit(e.SessionChanged(model=info.response_model, dialect=dialect, chain=session.chain))
        if is_main and info.error is None:
            session.setting("provider", info.provider)
        counter.model, counter.asked_at = info.response_model, asked_at
        self.dialect = dialect if is_main else self.dialect
        return session.start_turn(None)

    def _append_parts(self, info: _OpenCodeInfo, parts: list[_OpenCodePart], response: str) -> str | None:
        """Add the parts of a step and its tools' results to the session; return when the last tool ended, if known."""
        ended, created = None, stamp_of(info.time.created)
        for number, part in enumerate(parts):
            self.session.at = created
            item = item_of(part, part.id or f"{response or self.session.line_id}:{number}", response)
            if item is not None:
                self.session.add_message(item, name=info.id)
            elif part.type not in SILENT and part.type != "tool":
                self._report_unknown(part)
            if part.type == "tool" and part.state is not None:
                ended = self._add_result(part.call_id, part.state) or ended
        return ended

    def _add_result(self, call_id: str, state: _OpenCodeState) -> str | None:
        """Emit the result of a tool that has ended, add a pruned output to `self.pruned`; return when it ended."""
        session, time, has_failed = self.session, state.time or _OpenCodeTime(), state.status == "error"
        session.at = stamp_of(time.end)
        attachments = [file for file in state.attachments or () if file.type == "file"]
        if has_failed or state.status == "completed":
            text = state.error if has_failed else state.output
            output = text if opens(text) == '"' else Raw(b'""')
            files = [_file(file) for file in attachments if file.mime not in _READ_AS_TEXT]
            if files and not has_failed:
                output = Raw(msgspec.json.encode([items.TextBlock(output), *files]))
            session.add_result(call_id, output, failed=has_failed)
        if pruned_at := count_in(time.compacted, LATEST_MS):
            self.pruned.append((pruned_at, call_id))
        if any(file.is_image for file in attachments):
            session.signal(Sign("image"))
        return session.at

    def _end_turn(
        self, turn: int, info: _OpenCodeInfo, step: list[_OpenCodePart], *, is_last_step: bool, is_only_step: bool
    ) -> None:  # fmt: skip
        """End a turn, with the message's counts if its last step has none, or as failed; set `prompt_size`."""
        session = self.session
        ends = (part for part in reversed(step) if part.type == "step-finish" and part.tokens is not None)
        end = next(ends, _OpenCodePart())
        tokens = end.tokens or (info.tokens if is_last_step else None)
        cost = info.cost if is_only_step and items.is_absent(end.cost) else end.cost
        usage = usage_of(tokens, cost, self.client, dialect_of(info.provider, info.response_model or ""))
        if info.error is None or not is_last_step:
            session.end_turn(usage, synthetic_response_id(count_in(info.time.created, LATEST_MS), usage), number=turn)
        else:
            error = text_in(info.error.get("name", items.NULL)) or None
            is_aborted = error == "MessageAbortedError"
            ended = e.TurnCanceled if is_aborted else e.TurnFailed
            session.emit(ended(turn=turn, at=session.at, usage=usage, error=error, chain=session.chain))
            if is_aborted:
                session.signal(Sign("interrupt"))
            else:
                data = members_at(info.error, "data")
                session.fail(f"{data.get('statusCode', b'').decode()} {text_in(data.get('message', b''))}".strip())
        if session.chain == e.MAIN and tokens is not None:
            self.prompt_size = tokens.prompt

    # compactions

    def _read_summary(self, record: _OpenCodeRecord) -> None:
        """Read the response to a compaction: a turn on a chain of its own, whose text replaces the main history."""
        info, session = record.info, self.session
        self.summaries += 1
        session.chain = f"utility-{self.summaries}"
        turn = self._start_turn(info, stamp_of(info.time.created))
        for number, part in enumerate(record.parts):
            item = item_of(part, part.id or f"{info.id}:{number}", info.id)
            if isinstance(item, items.AssistantMessage):
                session.emit(e.Append(item=item, chain=session.chain))
        session.at = stamp_of(info.time.completed)
        self._end_turn(turn, info, record.parts, is_last_step=True, is_only_step=True)
        session.chain = e.MAIN
        texts = [text_in(part.text).strip() for part in record.parts if part.type == "text"]
        text, marker, self.marker = "\n\n".join(filter(None, texts)), self.marker or _CompactionMarker(info.id), None
        if info.error is None and text:
            names, summary = [message.name for message in session.history], Raw(encode(text))
            first = names.index(marker.tail) if marker.tail in names else len(names)
            tail = [message for message in session.history[first:] if message.name != marker.id]
            uuid, trigger = f"{marker.id}:summary", marker.trigger
            session.compact(uuid, tail, trigger=trigger, pre_tokens=self.prompt_size, summary=summary)


_RUN_TYPES = frozenset(("step_start", "text", "reasoning", "tool_use", "step_finish"))


# What `opencode run --format json` prints on a line. A step begins with `step_start`, has its text, reasoning and tools
# with their results, and ends with `step_finish`, which counts its tokens. Neither prompts nor the model are printed.
class _RunLine(Struct, frozen=True, gc=False, rename={"session_id": "sessionID"}):
    type: str
    timestamp: Raw = items.NULL
    session_id: str = ""
    part: _OpenCodePart | None = None
    error: dict[str, Raw] | None = None


class OpenCodeRun(OpenCode):
    """Reader of the output of `opencode run --format json`."""

    name: ClassVar[str] = "opencode-run"
    paths: ClassVar[tuple[str, ...]] = ("",)
    reads_arrays: ClassVar[bool] = True
    unseen: ClassVar[str] = "prompts of the user, the system prompt, the schemas of tools and the name of the model"

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[_OpenCodePart] = []  # of the step under way
        self._begun = self._ended = items.NULL  # when its first and its last part were printed

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        record = members_at(next(nonblank_lines(head), b""))
        part = members_at(record, "part")
        return text_at(record, "type") in _RUN_TYPES and part.keys() >= {"type", "messageID"} and "sessionID" in record

    def handle(self, data: bytes) -> None:
        record, session = self.session.decode(_RunLine, data), self.session
        session.at = stamp_of(record.timestamp)
        session.start_session(record.session_id, at=session.at)
        self._begun, self._ended = self._begun if self._parts else record.timestamp, record.timestamp
        if record.part is not None and record.type in _RUN_TYPES:
            self._parts.append(record.part)
            if record.type == "step_finish":
                self._end_step()
        elif record.error is not None:
            self._end_step(record.error)
        else:
            session.keep_unknown("unknown record type", record.type)

    def finish(self) -> None:
        self._end_step()

    def _end_step(self, error: dict[str, Raw] | None = None) -> None:
        """Report the step under way as the response that the client keeps for it."""
        parts, self._parts = self._parts, []
        if parts or error is not None:
            name = parts[0].message_id if parts else ""
            time = _OpenCodeTime(created=self._begun, completed=self._ended)
            self._read_message(_OpenCodeRecord(_OpenCodeInfo(name, "assistant", time=time, error=error), parts))
