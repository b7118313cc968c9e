"""The readers of trajectories of SWE-agent (`*.traj`) and mini-swe-agent (`*.traj.json`): one run per document.

SWE-agent: `{trajectory: [{query, response, thought, action, observation, …}], history, info}`. A step is one request,
and its `query` the prompt as it was sent. Messages that the previous query lacks were appended; messages that only the
previous query has were removed (by a history processor that elides old observations). Older files have no queries, only
answers and observations, without system prompt and task. The files have no usage of single requests, no schemas of
tools, and no model.

mini-swe-agent: `{info{config, model_stats, mini_version}, messages[], trajectory_format}`. Every message except an
`exit` was sent to the model, and every assistant message is a request. The provider's response is in its `extra` with
the usage, which counts cached tokens as input. Calls are OpenAI's, results are messages of the role `tool`; in runs
without tools commands are in the text, and results are the next user message. With the Responses API a response is
stored in place of a message. The schema of the tool `bash` is not in the file.

Sources: the source of both (October 2026); 21 public trajectories of SWE-agent, 31 of mini-swe-agent 1 to 2.2 (3,664
requests).
"""

from __future__ import annotations

import hashlib
import re
from typing import ClassVar

import msgspec
from msgspec import Raw, Struct

from lore.formats import (
    BOM,
    SPACE,
    FunctionCall,
    TranscriptDocument,
    TranscriptTurns,
    array_at,
    billed_of,
    blocks_in,
    called,
    opens,
    output_of,
    stamp_of,
    text_in,
)
from lore.model import (
    NULL,
    AssistantMessage,
    Code,
    RawBlock,
    TextBlock,
    ThinkingBlock,
    UserMessage,
    lenient,
    mask_credentials,
    raw_members,
)
from lore.model import events as e

_WORDS = (b'"action"', b'"observation"', b'"response"')
_INPUTS = frozenset(("user", "system", "developer"))


class _SweAgentMessage(Struct, frozen=True):
    """A message of a query."""

    role: str = ""
    content: Raw = NULL
    tool_calls: list[FunctionCall] | None = None
    tool_call_ids: list[str] | None = None
    tool_call_id: str | None = None


class _SweAgentStep(Struct, frozen=True):
    """A step of a run."""

    response: Raw = NULL
    observation: Raw = NULL
    query: list[Raw] | None = None


class SweAgentSent(Struct):
    """A message of the latest query, with its items."""

    digest: str
    uuids: list[str]


class SweAgentWaiting(Struct):
    """An answer and its observation, until the next query shows its calls."""

    response: Raw
    observation: Raw


class _SweAgentMemory(Struct):
    begun: bool = False
    items: int = 0
    sent: list[SweAgentSent] = []
    waiting: SweAgentWaiting | None = None
    turns: TranscriptTurns = msgspec.field(default_factory=TranscriptTurns)


_STEP = msgspec.json.Decoder(_SweAgentStep)
_MESSAGE = msgspec.json.Decoder(_SweAgentMessage)


class SweAgent(TranscriptDocument[_SweAgentMemory]):
    """Reader of SWE-agent's trajectories."""

    name: ClassVar[str] = "swe-agent"
    paths: ClassVar[tuple[str, ...]] = (".trajectory",)
    memory = _SweAgentMemory
    own_tools: ClassVar[bool] = False
    unseen: ClassVar[str] = "the schemas of tools, and what requests were billed"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        begin = head.removeprefix(BOM).lstrip(SPACE)
        return begin[:1] == b"{" and all(word in head for word in _WORDS) and array_at(head, cls.paths) >= 0

    def _take(self, data: bytes) -> None:
        step, memory = lenient.decoded(_STEP, data), self._memory
        query = [lenient.decoded(_MESSAGE, raw) for raw in step.query or ()]
        whole = bool(query) and bool(query[0].role)
        if not memory.begun:
            memory.begun = True
            leads = whole and query[0].role == "system" and opens(query[0].content) in ('"', "[")
            system = query[0].content if leads else NULL
            self._emit(e.SessionStarted(session_id="", dialect="openai-chat", system=system))
        if whole:
            self._send(query, [_digest(message) for message in query])
        else:
            self._settle(None)
        self._start_turn(memory.turns, None)
        memory.waiting = SweAgentWaiting(step.response, step.observation)

    def _last(self) -> None:
        self._settle(None)

    def _settle(self, answer: _SweAgentMessage | None, uuids: list[str] | None = None) -> None:
        """End the latest step with its answer in the next query, else with its text and observation."""
        memory = self._memory
        waiting, memory.waiting = memory.waiting, None
        if waiting is None:
            return
        uuid = self._uuid(uuids)
        blocks = (
            blocks_in(answer.content)
            if answer is not None
            else ((TextBlock(waiting.response),) if opens(waiting.response) == '"' else ())
        )
        if blocks:
            self._append(AssistantMessage(uuid, blocks=blocks, response_id=uuid))
        for call in (answer.tool_calls if answer is not None else None) or ():
            self._append(call.item(self._uuid(uuids), uuid))
        self._end_turn(memory.turns, None)
        if answer is None and text_in(waiting.observation):
            self._append(UserMessage(self._uuid(uuids), blocks=(TextBlock(waiting.observation),)))

    def _send(self, query: list[_SweAgentMessage], digests: list[str]) -> None:
        """Make the timeline equal to a query."""
        memory = self._memory
        before = memory.sent
        pairs = zip(before, digests, strict=False)
        differs = next((number for number, (sent, digest) in enumerate(pairs) if sent.digest != digest), None)
        same = min(len(before), len(digests)) if differs is None else differs
        new = max(same, len(before))  # the index of the answer to the previous query
        held = memory.waiting is not None and new < len(query) and query[new].role == "assistant"
        uuids: list[str] = []
        if held:
            self._settle(query[new], uuids)
        else:
            self._settle(None)
        removed = [uuid for sent in before[same:] for uuid in sent.uuids]
        if removed:
            self._emit(e.Remove(uuids=(*removed, *uuids)))
            held, uuids = False, []
        memory.sent = before[:same]
        for number in range(same, len(query)):
            made = uuids if held and number == new else self._message(query[number], leads=not number)
            memory.sent.append(SweAgentSent(digests[number], made))

    def _message(self, message: _SweAgentMessage, *, leads: bool) -> list[str]:
        """Emit a message of a query; return the uuids of its items."""
        made: list[str] = []
        if leads and message.role == "system":
            return made
        names = message.tool_call_ids or ([message.tool_call_id] if message.tool_call_id else [])
        if message.role == "tool" and names:
            for name in names:
                self._patch(name, output_of(message.content), failed=False)
        elif message.role == "assistant":
            uuid = self._uuid(made)
            self._append(AssistantMessage(uuid, blocks=blocks_in(message.content), response_id=uuid))
            for call in message.tool_calls or ():
                self._append(call.item(self._uuid(made), uuid))
        elif message.role in _INPUTS or message.role == "tool":
            self._append(UserMessage(self._uuid(made), blocks=blocks_in(message.content)))
        else:
            self._opaque(
                Code.UNKNOWN_RECORD,
                f"a message of role {mask_credentials(message.role)[:40]!r}; the step is kept as opaque",
            )
        return made

    def _uuid(self, uuids: list[str] | None) -> str:
        self._memory.items += 1
        uuid = f"m{self._memory.items}"
        if uuids is not None:
            uuids.append(uuid)
        return uuid


def _digest(message: _SweAgentMessage) -> str:
    """Return a digest of a message's role, content and calls, without cache breakpoints."""
    found = hashlib.blake2b(message.role.encode("utf-8", "surrogatepass"), digest_size=12)
    for block in blocks_in(message.content):
        found.update(b"\0%b" % (block.text if isinstance(block, TextBlock) else msgspec.json.encode(block)))
    for call in message.tool_calls or ():
        found.update(b"\0%b\0%b" % (call.id.encode("utf-8", "surrogatepass"), call.function.arguments))
    return found.hexdigest()


_SIGN = re.compile(rb'"mini_version"[ \t\r\n]*:|"trajectory_format"[ \t\r\n]*:[ \t\r\n]*"mini-swe-agent')


class _MiniSweResponse(Struct, frozen=True):
    id: str = ""
    model: str = ""
    created: Raw = NULL
    usage: Raw = NULL


class _Extra(Struct, frozen=True):
    response: _MiniSweResponse | None = None
    timestamp: Raw = NULL
    exception_info: Raw = NULL


class _MiniSweMessage(Struct, frozen=True):
    """A message, or a response or a result of the Responses API (`object`, `type`)."""

    role: str = ""
    content: Raw = NULL
    reasoning_content: Raw = NULL
    tool_calls: list[FunctionCall] | None = None
    tool_call_id: str = ""
    extra: _Extra | None = None
    timestamp: Raw = NULL
    object: str = ""
    type: str = ""
    output: Raw = NULL
    call_id: str = ""
    id: str = ""
    model: str = ""
    usage: Raw = NULL


class _MiniSweMemory(Struct):
    model: str | None = None
    client: str = "mini-swe-agent"
    begun: bool = False
    messages: int = 0
    turns: TranscriptTurns = msgspec.field(default_factory=TranscriptTurns)


_MINI_MESSAGE = msgspec.json.Decoder(_MiniSweMessage)
_ITEMS = msgspec.json.Decoder(list[Raw])


class MiniSweAgent(TranscriptDocument[_MiniSweMemory]):
    """Reader of mini-swe-agent's trajectories."""

    name: ClassVar[str] = "mini-swe-agent"
    paths: ClassVar[tuple[str, ...]] = (".messages",)
    memory = _MiniSweMemory
    own_tools: ClassVar[bool] = False
    unseen: ClassVar[str] = "the schema of the tool bash"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        begin = head.removeprefix(BOM).lstrip(SPACE)
        return begin[:1] == b"{" and _SIGN.search(head) is not None and array_at(head, cls.paths) >= 0

    def _head(self, data: bytes) -> None:
        info = raw_members((raw_members(data) or {}).get("info", b"")) or {}
        self._memory.client = f"mini-swe-agent {text_in(info.get('mini_version', b''))}".rstrip()
        model = raw_members((raw_members(info.get("config", b"")) or {}).get("model", b"")) or {}
        self._memory.model = text_in(model.get("model_name", b"")) or None

    def _take(self, data: bytes) -> None:
        message, memory = lenient.decoded(_MINI_MESSAGE, data), self._memory
        extra = message.extra or _Extra()
        self._at = stamp_of(extra.timestamp) or stamp_of(message.timestamp)
        first, memory.begun = not memory.begun, True
        if first:
            leads = message.role == "system"
            system = message.content if leads and opens(message.content) in ('"', "[") else NULL
            dialect = "openai-responses" if message.type or message.object else "openai-chat"
            model = memory.model
            self._emit(e.SessionStarted(session_id="", model=model, dialect=dialect, system=system, at=self._at))
            memory.turns.model = memory.model
            if leads:
                return
        memory.messages += 1
        uuid = f"m{memory.messages}"
        if message.role == "exit":  # the end of the run, which was not sent
            return
        if message.role == "assistant":
            self._answer(message, extra, uuid)
        elif message.object == "response":
            self._respond(message, uuid)
        elif message.role == "tool" or message.type == "function_call_output":
            memory.turns.asked_at = self._at
            output = output_of(message.output if message.type else message.content)
            raised = bool(text_in(extra.exception_info))
            self._patch(message.call_id or message.tool_call_id, output, failed=raised)
        elif message.role in _INPUTS:
            memory.turns.asked_at = self._at
            self._append(UserMessage(uuid, blocks=blocks_in(message.content)))
        else:
            self._unknown("a message of role", message.role, 40)

    def _answer(self, message: _MiniSweMessage, extra: _Extra, uuid: str) -> None:
        response = extra.response or _MiniSweResponse()
        self._memory.turns.asked_at = self._memory.turns.asked_at or stamp_of(response.created)
        thinking = (ThinkingBlock(message.reasoning_content),) if opens(message.reasoning_content) == '"' else ()
        self._start_turn(self._memory.turns, None)
        blocks = (*thinking, *blocks_in(message.content))
        if blocks:
            self._append(AssistantMessage(uuid, blocks=blocks, response_id=uuid))
        for number, call in enumerate(message.tool_calls or ()):
            self._append(call.item(f"{uuid}.{number}", uuid))
        self._bill(response)

    def _respond(self, message: _MiniSweMessage, uuid: str) -> None:
        """Read a response of the Responses API."""
        self._start_turn(self._memory.turns, None)
        for number, raw in enumerate(lenient.decoded(_ITEMS, message.output)):
            own, name = raw_members(bytes(raw)) or {}, f"{uuid}.{number}"
            kind = text_in(own.get("type", b""))
            if kind == "function_call":
                call, function = text_in(own.get("call_id", b"")), text_in(own.get("name", b""))
                self._append(called(name, call, function, Raw(own.get("arguments", b"null")), uuid))
                continue
            itself = (RawBlock(Raw(bytes(raw)), "openai-responses"),)
            said = blocks_in(Raw(own.get("content", b"null"))) if kind == "message" else itself
            self._append(AssistantMessage(name, blocks=said, response_id=uuid))
        self._bill(_MiniSweResponse(message.id, message.model, usage=message.usage))

    def _bill(self, response: _MiniSweResponse) -> None:
        """End a turn with its response's usage and model."""
        memory, usage = self._memory, billed_of(bytes(response.usage))
        if memory.turns.model is None and response.model:
            memory.turns.model = response.model
            self._emit(e.SessionChanged(model=response.model))
        usage = None if usage is None else msgspec.structs.replace(usage, client=memory.client)
        self._end_turn(memory.turns, usage, response.id or None)
