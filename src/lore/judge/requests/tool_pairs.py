"""Tool calls without a result, and results without a call, in the requests of one chain (LORE150).

The result of a call has to be in the message that follows the call, and a result has to answer a call of the message
before it. The Responses API pairs calls and results by their ids alone, wherever they are. A call in the last message
may still be answered.

Sources: reports of HTTP 400 from each API. Anthropic, on Vertex too: `tool_use` ids "without `tool_result` blocks
immediately after" (anthropics/claude-code 3512, Kilo-Org/kilocode 5163); Bedrock Converse: "Expected toolResult
blocks" (zeroclaw-labs/zeroclaw 1476); chat completions of OpenAI and Azure (BloomLabsInc/genkit-plugins 225),
DeepSeek (langgenius/dify 32222, which adds that other models accept it), Moonshot (bytedance/deer-flow 2706) and Qwen
(QwenLM/qwen-code 606): "must be followed by tool messages"; Responses: "No tool output found for function call"
(router-for-me/CLIProxyAPI 2368), "No tool call found for function call output" (continuedev/continue 10092), not if a
text is between the two (leookun/cursor-byok 307); Gemini: function responses and calls differ in number
(google-gemini/gemini-cli 5443).
"""

from __future__ import annotations

from itertools import takewhile
from operator import attrgetter

from msgspec import Struct

from lore.judge.requests.request_laws import Broken
from lore.model.canonical import printable, text_of
from lore.model.codes import Code
from lore.model.differences import OrphanPair
from lore.model.jsonslice import raw_members
from lore.model.limits import ENVELOPE_BYTES
from lore.model.providers import provider_of
from lore.model.turn import Prompt, Segment, Turn
from lore.prefix.blocks import is_by_model

# Providers that are known to refuse such a request; others, and engines on the user's machine, may accept it.
_REFUSING = frozenset(
    ("anthropic", "bedrock", "vertex", "openai", "azure", "deepseek", "moonshot", "qwen", "gemini")
)  # fmt: skip
_PAIRED_BY_ID = "openai-responses"  # the dialect whose results need not follow their calls
_ENDS = 512  # bytes at either end of a segment in which an id is written
_SIGNS = (b"tool_use", b"tool_result", b"tool_call", b"call_id", b"toolUse", b"toolResult", b"functionCall",
          b"functionResponse", b"function_call", b"function_response", b'"function"')  # fmt: skip
# Types of a block, or members of it, with the member that holds the id, and whether it is a result.
_MEMBERS = (
    ("tool_use", "id", False), ("tool_result", "tool_use_id", True),
    ("toolUse", "toolUseId", False), ("toolResult", "toolUseId", True), ("functionCall", "name", False),
    ("function_call", "name", False), ("functionResponse", "name", True), ("function_response", "name", True),
)  # fmt: skip


class _PairedMessage(Struct, frozen=True):
    start: int  # its place among the segments of the messages
    envelope: bytes
    run: int  # how many times the model has begun to answer


class _Part(Struct, frozen=True):
    """A tool call or a result."""

    position: int  # among the segments of the messages
    name: str  # the id of the call, or the tool's name if calls have no id
    answers: bool  # it is a result
    path: str
    run: int  # how many times the model has begun to answer; a result belongs to the latest answer


_position = attrgetter("position")


class ToolHistory:
    """The calls and results of one chain's latest prompt. Only new segments are read.

    A result answers the latest open call of the same run and name.
    """

    def __init__(self) -> None:
        self._messages: list[_PairedMessage] = []
        self._parts: list[_Part] = []
        self._open: dict[tuple[int, str], list[_Part]] = {}  # calls without a result, by run and name
        self._lone: list[_Part] = []  # results without a call

    def read(self, prompt: Prompt, same: int = 0) -> list[tuple[Segment, bytes]]:
        """Read the segments of the messages from `same` on; return the user's blocks after a message with results.

        Each block comes with the envelope of its message.
        """
        self._cut(same)
        last = self._messages[-1] if self._messages else _PairedMessage(0, b"", 0)
        latest = takewhile(lambda part: part.position >= last.start, reversed(self._parts))
        results, follows_results = any(part.answers for part in latest), False
        was_model, by_id = is_by_model(last.envelope), prompt.dialect == _PAIRED_BY_ID
        after: list[tuple[Segment, bytes]] = []
        for at, segment in enumerate(prompt.messages.since(same), same):
            if segment.kind in ("envelope", "opaque"):
                is_model = is_by_model(segment.data)
                last = _PairedMessage(at, segment.data, last.run + (is_model and not was_model and not by_id))
                was_model, follows_results, results = is_model, results, False
                self._messages.append(last)
            match = _find_id(segment)
            if match is not None:
                results = results or match[1]
                if match[0] != b'""':  # else the recorder dropped the ids
                    self._add(_Part(at, text_of(match[0]), match[1], segment.path, last.run))
            elif follows_results and segment.kind == "block" and b'"user"' in last.envelope[:ENVELOPE_BYTES]:
                after.append((segment, last.envelope))
        return after

    def _cut(self, position: int) -> None:
        """Forget the messages and parts at a position and after it."""
        while self._messages and self._messages[-1].start >= position:
            self._messages.pop()
        if self._parts and self._parts[-1].position >= position:
            parts, self._parts = self._parts, []
            self._open.clear()
            self._lone.clear()
            for part in takewhile(lambda part: part.position < position, parts):
                self._add(part)

    def _add(self, part: _Part) -> None:
        self._parts.append(part)
        key = part.run, part.name
        if not part.answers:
            self._open.setdefault(key, []).append(part)
        elif key not in self._open:
            self._lone.append(part)
        elif len(self._open[key]) > 1:
            self._open[key].pop()
        else:
            del self._open[key]

    def find_orphan(self, turn: Turn) -> Broken | None:
        """Return the first part without its counterpart in the prompt that was read last; `turn` sent that prompt.

        None if the request does not hold all of its history: it continues a stored response or conversation, or refers
        to stored items.
        """
        prompt = turn.prompt
        if turn.call.previous or prompt.partial or prompt.params.get("conversation", b"null") != b"null":
            return None
        calls = sorted((call for calls in self._open.values() for call in calls), key=_position)
        end = self._messages[-1].start if self._messages else 0
        part = next(iter(self._lone), None) or next((call for call in calls if call.position < end), None)
        if part is None or any(b'"item_reference"' in message.envelope for message in self._messages):
            return None
        answered = turn.usage is not None or (turn.call.status is not None and not turn.failed)
        refused = not answered and provider_of(turn.call.endpoint, prompt.model, prompt.dialect) in _REFUSING
        unanswered = [call for call in calls if call.run == part.run and call.position < part.position]
        call = next(iter(unanswered), None) if part.answers and prompt.dialect == "gemini" else None
        evidence = OrphanPair(
            "result" if part.answers else "call", printable(part.name), printable(call.name if call else "")
        )
        return Broken(Code.ORPHAN_TOOL_PAIR, "messages", part.path, evidence, "waste" if refused else None)


def _find_id(segment: Segment) -> tuple[bytes, bool] | None:
    """Return the JSON id of the tool call or result in a segment, and whether it is a result; None if it is neither."""
    data = segment.data
    ends = data if len(data) <= 2 * _ENDS else data[:_ENDS] + data[-_ENDS:]
    if not any(sign in ends for sign in _SIGNS):
        return None
    members = raw_members(b"{%b}" % data if segment.kind == "envelope" else data) or {}
    kind = members.get("type", b"").strip(b'"').decode("utf-8", "replace")
    if segment.kind == "envelope":
        if members.get("role") == b'"tool"' and "tool_call_id" in members:
            return members["tool_call_id"], True
        is_item = members.get("call_id", b"")[:1] == b'"' and kind.endswith(("_call", "_output"))
        if kind.startswith("tool_search_") and members.get("execution") != b'"client"':
            return None  # the provider searches itself
        return (members["call_id"], kind.endswith("_output")) if is_item else None
    for member, key, answers in _MEMBERS:
        inner = members if kind == member else raw_members(members.get(member, b"")) or {}
        if key in inner:
            return inner[key], answers
    return (members["id"], False) if ".tool_calls[" in segment.path and "id" in members else None
