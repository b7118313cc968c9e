"""SWE-agent's trajectories (`*.traj`): the steps of one run, in one document.

In: `{trajectory: [{query, response, thought, action, observation, …}], history, info}`. Out: events. A step is one
request. Its `query` is the prompt as it was sent: what it holds beyond the query before it was appended, what it no
longer holds was taken out (a history processor that elides old observations). Older files have no queries: of these the
answers and observations are read, and neither system prompt nor task.

What a request was billed is not in these files, which sum up a run; neither are the schemas of tools and the model.

Sources: SWE-agent's source (October 2026); 21 public trajectories.
"""

from __future__ import annotations

import hashlib
from typing import ClassVar

import msgspec
from msgspec import Raw, Struct

from lore.formats.lines import BOM, SPACE, array_at
from lore.formats.transcripts import TranscriptDocument, TranscriptMemory, TranscriptTurns
from lore.formats.values import FunctionCall, blocks_in, opens, output_of, text_in
from lore.model import events as e
from lore.model import lenient
from lore.model.codes import Code
from lore.model.items import NULL, AssistantMessage, TextBlock, UserMessage
from lore.model.mask import mask

_PATHS = (".trajectory",)
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
    """A message of the latest query: its digest, the items that it made."""

    digest: str
    uuids: list[str]


class SweAgentWaiting(Struct):
    """An answer that the next query holds with its calls: as text, and what came of it."""

    response: Raw
    observation: Raw


class _SweAgentMemory(TranscriptMemory):
    """What the reader remembers."""

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
    paths: ClassVar[tuple[str, ...]] = _PATHS
    memory = _SweAgentMemory
    own_tools: ClassVar[bool] = False
    unseen: ClassVar[str] = "the schemas of tools, and what requests were billed"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        begin = head.removeprefix(BOM).lstrip(SPACE)
        return begin[:1] == b"{" and all(word in head for word in _WORDS) and array_at(head, _PATHS) >= 0

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
        self._start_turn(e.MAIN, memory.turns, None, None)
        memory.waiting = SweAgentWaiting(step.response, step.observation)

    def _last(self) -> None:
        self._settle(None)

    def _settle(self, answer: _SweAgentMessage | None, uuids: list[str] | None = None) -> None:
        """End the latest step by its answer as the next query has it, else by its text and what came of it."""
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
            self._append(AssistantMessage(uuid, blocks=blocks, response_id=uuid), e.MAIN, None)
        for call in (answer.tool_calls if answer is not None else None) or ():
            self._append(call.item(self._uuid(uuids), uuid), e.MAIN, None)
        self._emit(e.TurnCompleted(turn=memory.turns.turn))
        if answer is None and text_in(waiting.observation):
            self._append(UserMessage(self._uuid(uuids), blocks=(TextBlock(waiting.observation),)), e.MAIN, None)

    def _send(self, query: list[_SweAgentMessage], digests: list[str]) -> None:
        """Bring the timeline to what a query holds."""
        memory = self._memory
        before = memory.sent
        pairs = zip(before, digests, strict=False)
        differs = next((number for number, (sent, digest) in enumerate(pairs) if sent.digest != digest), None)
        same = min(len(before), len(digests)) if differs is None else differs
        new = max(same, len(before))  # behind it stands the answer to the query before
        held = memory.waiting is not None and new < len(query) and query[new].role == "assistant"
        uuids: list[str] = []
        if held:
            self._settle(query[new], uuids)
        else:
            self._settle(None)
        gone = [uuid for sent in before[same:] for uuid in sent.uuids]
        if gone:
            self._emit(e.Remove(uuids=(*gone, *uuids)))
            held, uuids = False, []
        memory.sent = before[:same]
        for number in range(same, len(query)):
            made = uuids if held and number == new else self._message(query[number], leads=not number)
            memory.sent.append(SweAgentSent(digests[number], made))

    def _message(self, message: _SweAgentMessage, *, leads: bool) -> list[str]:
        """Emit a message of a query; return the items that it made."""
        made: list[str] = []
        if leads and message.role == "system":
            return made
        names = message.tool_call_ids or ([message.tool_call_id] if message.tool_call_id else [])
        if message.role == "tool" and names:
            for name in names:
                self._emit(e.PatchToolCall(call_id=name, status="completed", output=output_of(message.content)))
        elif message.role == "assistant":
            uuid = self._uuid(made)
            self._append(AssistantMessage(uuid, blocks=blocks_in(message.content), response_id=uuid), e.MAIN, None)
            for call in message.tool_calls or ():
                self._append(call.item(self._uuid(made), uuid), e.MAIN, None)
        elif message.role in _INPUTS or message.role == "tool":
            self._append(UserMessage(self._uuid(made), blocks=blocks_in(message.content)), e.MAIN, None)
        else:
            self._opaque(
                Code.UNKNOWN_RECORD, f"a message of role {mask(message.role)[:40]!r}; the step is kept as opaque"
            )
        return made

    def _uuid(self, uuids: list[str] | None) -> str:
        self._memory.items += 1
        uuid = f"m{self._memory.items}"
        if uuids is not None:
            uuids.append(uuid)
        return uuid


def _digest(message: _SweAgentMessage) -> str:
    """Tell messages apart by what they say; where a cache mark stands is not part of that."""
    found = hashlib.blake2b(message.role.encode("utf-8", "surrogatepass"), digest_size=12)
    for block in blocks_in(message.content):
        found.update(b"\0%b" % (block.text if isinstance(block, TextBlock) else msgspec.json.encode(block)))
    for call in message.tool_calls or ():
        found.update(b"\0%b\0%b" % (call.id.encode("utf-8", "surrogatepass"), call.function.arguments))
    return found.hexdigest()
