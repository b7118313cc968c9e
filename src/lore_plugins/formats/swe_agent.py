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

import re
from typing import ClassVar

import msgspec
from msgspec import Raw, Struct

from lore.formats import (
    BOM,
    SPACE,
    DocumentReader,
    FunctionCall,
    array_at,
    blocks_in,
    call_item,
    decode_usage,
    opens,
    output_of,
    stamp_of,
    text_at,
    text_in,
)
from lore.model import (
    NULL,
    AssistantMessage,
    RawBlock,
    TextBlock,
    ThinkingBlock,
    UserMessage,
    mask_credentials,
    members_at,
)
from lore.model import events as e

_WORDS = (b'"action"', b'"observation"', b'"response"')
_INPUTS = frozenset(("user", "system", "developer"))


class _SweMessage(Struct, frozen=True):
    role: str = ""
    content: Raw = NULL
    tool_calls: list[FunctionCall] | None = None
    tool_call_ids: list[str] | None = None
    tool_call_id: str | None = None


class _SweStep(Struct, frozen=True):
    response: Raw = NULL
    observation: Raw = NULL
    query: list[Raw] | None = None


class SweAgent(DocumentReader):
    """Reader of SWE-agent's trajectories."""

    name: ClassVar[str] = "swe-agent"
    paths: ClassVar[tuple[str, ...]] = (".trajectory",)
    records_builtin_tools: ClassVar[bool] = False
    unseen: ClassVar[str] = "the schemas of tools, and what requests were billed"

    def __init__(self) -> None:
        super().__init__()
        self._items = 0
        self._sent: list[tuple[int, list[str]]] = []  # digest and items of each message of the latest query
        self._step: _SweStep | None = None  # the latest step, until the next query shows its calls

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        begin = head.removeprefix(BOM).lstrip(SPACE)
        return begin[:1] == b"{" and all(word in head for word in _WORDS) and array_at(head, cls.paths) >= 0

    def handle(self, data: bytes) -> None:
        step = self.session.decode(_SweStep, data)
        query = [self.session.decode(_SweMessage, raw) for raw in step.query or ()]
        has_query = bool(query) and bool(query[0].role)
        is_head = has_query and query[0].role == "system" and opens(query[0].content) in ('"', "[")
        self.session.start_session(dialect="openai-chat", system=query[0].content if is_head else NULL)
        if has_query:
            self._send(query)
        else:
            self._end_step(None, [])
        self.session.start_turn(None)
        self._step = step

    def finish(self) -> None:
        self._end_step(None, [])

    def _end_step(self, answer: _SweMessage | None, uuids: list[str]) -> None:
        """End the latest step with its answer in the next query, else with its text and observation."""
        session, step, self._step = self.session, self._step, None
        if step is None:
            return
        uuid, calls = self._uuid(uuids), () if answer is None else answer.tool_calls or ()
        text_blocks = (TextBlock(step.response),) if opens(step.response) == '"' else ()
        blocks = text_blocks if answer is None else blocks_in(answer.content)
        if blocks:
            session.append(AssistantMessage(uuid, blocks=blocks, response_id=uuid))
        for call in calls:
            session.append(call.item(self._uuid(uuids), uuid))
        session.end_turn(None)
        if answer is None and text_in(step.observation):
            session.append(UserMessage(self._uuid(uuids), blocks=(TextBlock(step.observation),)))

    def _send(self, query: list[_SweMessage]) -> None:
        """Remove and append messages until the timeline equals a query, which also holds the previous step's answer."""
        before, digests = self._sent, [_digest(message) for message in query]
        pairs = enumerate(zip(before, digests, strict=False))
        same_count = next((at for at, ((old, _), digest) in pairs if old != digest), min(len(before), len(digests)))
        answer_at = max(same_count, len(before))  # where the answer to the previous query is
        has_answer = self._step is not None and answer_at < len(query) and query[answer_at].role == "assistant"
        answer_items: list[str] = []
        self._end_step(query[answer_at] if has_answer else None, answer_items)
        removed_items = [uuid for _, uuids in before[same_count:] for uuid in uuids]
        if removed_items:
            self.session.emit(e.Remove(uuids=(*removed_items, *(answer_items if has_answer else ()))))
            has_answer = False
        self._sent = before[:same_count]
        for number in range(same_count, len(query)):
            is_answer = has_answer and number == answer_at
            items = answer_items if is_answer else self._add_message(query[number], is_first=not number)
            self._sent.append((digests[number], items))

    def _add_message(self, message: _SweMessage, *, is_first: bool) -> list[str]:
        """Emit a message of a query; return the uuids of its items."""
        session, uuids = self.session, list[str]()
        if is_first and message.role == "system":
            return uuids
        call_ids = message.tool_call_ids or ([message.tool_call_id] if message.tool_call_id else [])
        if message.role == "tool" and call_ids:
            for call_id in call_ids:
                session.add_result(call_id, output_of(message.content), failed=False)
        elif message.role == "assistant":
            uuid = self._uuid(uuids)
            session.append(AssistantMessage(uuid, blocks=blocks_in(message.content), response_id=uuid))
            for call in message.tool_calls or ():
                session.append(call.item(self._uuid(uuids), uuid))
        elif message.role in _INPUTS or message.role == "tool":
            session.append(UserMessage(self._uuid(uuids), blocks=blocks_in(message.content)))
        else:
            session.keep_unknown("a message of role", message.role)
        return uuids

    def _uuid(self, uuids: list[str]) -> str:
        self._items += 1
        uuids.append(f"m{self._items}")
        return uuids[-1]


def _digest(message: _SweMessage) -> int:
    """Return a number that tells messages apart by role, content and calls, without cache breakpoints."""
    blocks = blocks_in(message.content)
    texts = [bytes(block.text) if isinstance(block, TextBlock) else msgspec.json.encode(block) for block in blocks]
    calls = [(call.id, bytes(call.function.arguments)) for call in message.tool_calls or ()]
    return hash((message.role, *texts, *calls))


_LONGEST_NAME = 200  # characters of a provider's name
_SIGN = re.compile(rb'"mini_version"[ \t\r\n]*:|"trajectory_format"[ \t\r\n]*:[ \t\r\n]*"mini-swe-agent')


class _MiniResponse(Struct, frozen=True):
    id: str = ""
    model: str = ""
    provider: str = ""  # who answered behind a router
    created: Raw = NULL
    usage: Raw = NULL


class _MiniExtra(Struct, frozen=True):
    response: _MiniResponse | None = None
    timestamp: Raw = NULL
    exception_info: Raw = NULL


class _MiniMessage(Struct, frozen=True):  # a message, or a response or a result of the Responses API (`object`, `type`)
    role: str = ""
    content: Raw = NULL
    reasoning_content: Raw = NULL
    tool_calls: list[FunctionCall] | None = None
    tool_call_id: str = ""
    extra: _MiniExtra | None = None
    timestamp: Raw = NULL
    object: str = ""
    type: str = ""
    output: Raw = NULL
    call_id: str = ""
    id: str = ""
    model: str = ""
    usage: Raw = NULL


class MiniSweAgent(DocumentReader):
    """Reader of mini-swe-agent's trajectories."""

    name: ClassVar[str] = "mini-swe-agent"
    paths: ClassVar[tuple[str, ...]] = (".messages",)
    records_builtin_tools: ClassVar[bool] = False
    unseen: ClassVar[str] = "the schema of the tool bash"

    def __init__(self) -> None:
        super().__init__()
        self._model: str | None = None
        self._client = "mini-swe-agent"
        self._messages = 0

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        begin = head.removeprefix(BOM).lstrip(SPACE)
        return begin[:1] == b"{" and _SIGN.search(head) is not None and array_at(head, cls.paths) >= 0

    def handle_head(self, data: bytes) -> None:
        info = members_at(data, "info")
        self._client = f"mini-swe-agent {text_in(info.get('mini_version', b''))}".rstrip()
        self._model = text_at(members_at(info, "config", "model"), "model_name") or None

    def handle(self, data: bytes) -> None:
        message, session = self.session.decode(_MiniMessage, data), self.session
        extra = message.extra or _MiniExtra()
        session.at = stamp_of(extra.timestamp) or stamp_of(message.timestamp)
        if not session.is_started:
            is_system = message.role == "system"
            system = message.content if is_system and opens(message.content) in ('"', "[") else NULL
            dialect = "openai-responses" if message.type or message.object else "openai-chat"
            session.start_session(model=self._model, dialect=dialect, system=system, at=session.at)
            session.counter.model = self._model
            if is_system:
                return
        self._messages += 1
        uuid = f"m{self._messages}"
        if message.role == "exit":  # the end of the run, which was not sent
            return
        if message.role == "assistant":
            self._read_answer(message, extra.response or _MiniResponse(), uuid)
        elif message.object == "response":
            self._read_response(message, uuid)
        elif message.role == "tool" or message.type == "function_call_output":
            session.counter.asked_at = session.at
            output = output_of(message.output if message.type else message.content)
            is_failed = bool(text_in(extra.exception_info))
            session.add_result(message.call_id or message.tool_call_id, output, failed=is_failed)
        elif message.role in _INPUTS:
            session.counter.asked_at = session.at
            session.append(UserMessage(uuid, blocks=blocks_in(message.content)))
        else:
            session.keep_unknown("a message of role", message.role)

    def _read_answer(self, message: _MiniMessage, response: _MiniResponse, uuid: str) -> None:
        session = self.session
        session.counter.asked_at = session.counter.asked_at or stamp_of(response.created)
        thinking = (ThinkingBlock(message.reasoning_content),) if opens(message.reasoning_content) == '"' else ()
        router = mask_credentials(response.provider)[:_LONGEST_NAME]
        session.start_turn(None, e.Call(answered_by=router) if router else None)
        if blocks := (*thinking, *blocks_in(message.content)):
            session.append(AssistantMessage(uuid, blocks=blocks, response_id=uuid))
        for number, call in enumerate(message.tool_calls or ()):
            session.append(call.item(f"{uuid}.{number}", uuid))
        self._end_turn(response)

    def _read_response(self, message: _MiniMessage, uuid: str) -> None:
        session = self.session
        session.start_turn(None)
        for number, raw in enumerate(session.decode(list[Raw], message.output)):
            item, name = members_at(raw), f"{uuid}.{number}"
            kind = text_at(item, "type")
            if kind == "function_call":
                call_id, function = text_at(item, "call_id"), text_at(item, "name")
                session.append(call_item(name, call_id, function, Raw(item.get("arguments", b"null")), uuid))
                continue
            is_message, content = kind == "message", Raw(item.get("content", b"null"))
            blocks = blocks_in(content) if is_message else (RawBlock(Raw(bytes(raw)), "openai-responses"),)
            session.append(AssistantMessage(name, blocks=blocks, response_id=uuid))
        self._end_turn(_MiniResponse(message.id, message.model, usage=message.usage))

    def _end_turn(self, response: _MiniResponse) -> None:
        session, usage = self.session, decode_usage(bytes(response.usage))
        if session.counter.model is None and response.model:
            session.counter.model = response.model
            session.emit(e.SessionChanged(model=response.model))
        usage = None if usage is None else msgspec.structs.replace(usage, client=self._client)
        session.end_turn(usage, response.id or None)
