"""What a model said, put together from the events of its stream: one builder for each dialect.

In: the members of each event, in order. Out: the answer as a message of the dialect's own, as the next request
sends it back. Rules: what an event does not say as its dialect would is passed over; a stream that was cut gives
what came, and input that is no JSON yet stays the text that it is. Memory: the pieces, and at most `MOST` blocks.

Sources: the streaming pages of Anthropic's Messages, OpenAI's Chat Completions, Gemini's streamGenerateContent
and Bedrock's ConverseStream.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from lore.formats.json_accumulator import MOST, Grown, array_of, object_of, parsed, place_of
from lore.model.jsonslice import array, table

_ASSISTANT = b'"assistant"'


class Speaking(Protocol):
    """An answer that grows."""

    def take(self, event: dict[str, bytes]) -> None:
        """Take the next event."""
        ...

    def answer(self) -> bytes:
        """Return the message as it is now; nothing where none came."""
        ...


class _Blocks:
    """The blocks of a message by the place that each says it has; a place is given once."""

    def __init__(self) -> None:
        self._blocks: dict[int, Grown] = {}
        self._closed: set[int] = set()

    def begin(self, raw: bytes, members: dict[str, bytes]) -> Grown | None:
        """Begin a block; None where its place is none or taken."""
        place = place_of(raw)
        if place is None or len(self._blocks) >= MOST:
            return None
        if place in self._blocks:
            self._closed.add(place)  # what follows belongs to another message that was sent behind the first
            return None
        made = self._blocks[place] = Grown(members)
        return made

    def at(self, raw: bytes) -> Grown | None:
        """Return the block at a place, if it still grows."""
        place = place_of(raw)
        return None if place is None or place in self._closed else self._blocks.get(place)

    def __len__(self) -> int:
        return len(self._blocks)

    def has(self, raw: bytes) -> bool:
        """Tell whether a block was begun at a place."""
        return place_of(raw) in self._blocks

    def close(self, raw: bytes) -> None:
        """End a block."""
        place = place_of(raw)
        if place in self._blocks:
            self._closed.add(place)

    def all(self) -> list[dict[str, bytes]]:
        """Return the blocks in the order of their places."""
        return [self._blocks[place].members() for place in sorted(self._blocks)]


class Anthropic:
    """Events of Anthropic's Messages."""

    _GROWING: ClassVar[dict[bytes, tuple[str, ...]]] = {
        b'"text_delta"': ("text",),
        b'"thinking_delta"': ("thinking",),
        b'"signature_delta"': ("signature",),
        b'"input_json_delta"': ("partial_json",),
        b'"compaction_delta"': ("content", "encrypted_content"),
    }

    def __init__(self) -> None:
        self._blocks = _Blocks()
        self._over = False

    def take(self, event: dict[str, bytes]) -> None:
        """Take the next event."""
        kind, place = event.get("type"), event.get("index", b"")
        if kind == b'"message_start"':  # another one behind the first is another message
            self._over = self._over or len(self._blocks) > 0
        elif self._over:
            return
        elif kind == b'"content_block_start"':
            members = table(event.get("content_block", b""))
            if members:
                self._blocks.begin(place, members)
        elif kind == b'"content_block_stop"':
            self._blocks.close(place)
        elif kind == b'"content_block_delta"':
            block, delta = self._blocks.at(place), table(event.get("delta", b"")) or {}
            if block is not None:
                self._grow(block, delta)

    def _grow(self, block: Grown, delta: dict[str, bytes]) -> None:
        kind = delta.get("type", b"")
        for key in self._GROWING.get(kind, ()):
            block.text(key, delta.get(key, b""))
        if kind == b'"citations_delta"':
            block.listed("citations", delta.get("citation", b""))

    def answer(self) -> bytes:
        """Return the message as it is now."""
        found = [object_of(_with_input(one, "partial_json")) for one in self._blocks.all()]
        return _message(found)


def _with_input(block: dict[str, bytes], key: str) -> dict[str, bytes]:
    """Return a call whose input came in pieces of its text, with the input."""
    text = block.pop(key, b'""')
    return block if text == b'""' else block | {"input": parsed(text, block.get("input", b"{}"))}


def _message(blocks: list[bytes]) -> bytes:
    return object_of({"role": _ASSISTANT, "content": array_of(blocks)}) if blocks else b""


class Chat:
    """Chunks of OpenAI's Chat Completions; of several choices the first."""

    _TEXTS: ClassVar[tuple[str, ...]] = ("content", "refusal", "reasoning_content", "reasoning")

    def __init__(self) -> None:
        self._message = Grown({})
        self._calls: dict[int, tuple[Grown, Grown]] = {}  # a call, and its function
        self._next = 0  # behind the calls that there are
        self._any = False

    def take(self, event: dict[str, bytes]) -> None:
        """Take the next chunk."""
        delta = table(_first(event.get("choices", b"")).get("delta", b"")) or {}
        self._any = self._any or bool(delta)
        self._message.once("role", delta.get("role", b""))
        for key in self._TEXTS:
            self._message.text(key, delta.get(key, b""))
        for raw in array(delta.get("tool_calls", b"")):
            call = table(raw)
            if call:
                self._call(call)

    def _call(self, piece: dict[str, bytes]) -> None:
        """Take a piece of a call; one without a place is whole, as some gateways send it."""
        number, function = piece.pop("index", b""), table(piece.pop("function", b"")) or {}
        place = self._next if number in (b"", b"null") else place_of(number)
        if place is None or (place not in self._calls and len(self._calls) >= MOST):
            return
        self._next = max(self._next, place + 1)
        text = function.pop("arguments", b"")
        call, called = self._calls.setdefault(place, (Grown({}), Grown({})))
        for grown, members in ((call, piece), (called, function)):
            for key, value in members.items():
                grown.once(key, value)
        called.text("arguments", text)

    def answer(self) -> bytes:
        """Return the message as it is now."""
        if not self._any:
            return b""
        calls = [self._calls[place] for place in sorted(self._calls)]
        told = {"role": _ASSISTANT, "content": b"null"} | self._message.members()
        if calls:
            told["tool_calls"] = array_of(
                object_of(call.members() | {"function": object_of(called.members())}) for call, called in calls
            )
        return object_of(told)


def _first(raw: bytes) -> dict[str, bytes]:
    """Return the first of several answers: by its number, where it has one."""
    for one in array(raw):
        answer = table(one) or {}
        if answer.get("index", b"0") == b"0":
            return answer
    return {}


class Gemini:
    """Chunks of Gemini's streamGenerateContent; neighbouring texts are one part: they are split anywhere."""

    _PLAIN: ClassVar[frozenset[str]] = frozenset(("text", "thought"))

    def __init__(self) -> None:
        self._parts: list[Grown] = []
        self._open: bytes | None = None  # the thought flag of a last part that is nothing but text

    def take(self, event: dict[str, bytes]) -> None:
        """Take the next chunk."""
        if "candidates" not in event:  # wrapped once more, as a client's gateway does
            event = table(event.get("response", b"")) or {}
        content = table(_first(event.get("candidates", b"")).get("content", b"")) or {}
        for raw in array(content.get("parts", b"")):
            part = table(raw)
            if part:
                self._part(part)

    def _part(self, part: dict[str, bytes]) -> None:
        flag = part.get("thought", b"false") if part.get("text", b"")[:1] == b'"' else None
        if flag is not None and flag == self._open:
            self._parts[-1].text("text", part["text"])
            for key in part.keys() - self._PLAIN:
                self._parts[-1].once(key, part[key])
        elif len(self._parts) < MOST:
            self._parts.append(Grown(part))
        else:
            return
        self._open = flag if part.keys() <= self._PLAIN else None  # a signature is of what it stands on

    def answer(self) -> bytes:
        """Return the content as it is now."""
        parts = array_of(object_of(one.members()) for one in self._parts)
        return object_of({"role": b'"model"', "parts": parts}) if self._parts else b""


class Converse:
    """Events of Bedrock's ConverseStream, plain or each under its name; blocks of text are not announced."""

    NAMES: ClassVar[tuple[str, ...]] = ("contentBlockStart", "contentBlockDelta", "contentBlockStop")

    def __init__(self) -> None:
        self._blocks = _Blocks()

    def take(self, event: dict[str, bytes]) -> None:
        """Take the next event."""
        event = next((table(event[name]) or {} for name in self.NAMES if name in event), event)
        place = event.get("contentBlockIndex", b"")
        if "start" in event:
            self._begin(place, table(event["start"]) or {})
        elif "delta" in event:
            if not self._blocks.has(place):
                self._blocks.begin(place, {})
            block = self._blocks.at(place)
            if block is not None:
                self._grow(block, table(event["delta"]) or {})
        else:
            self._blocks.close(place)

    def _begin(self, place: bytes, start: dict[str, bytes]) -> None:
        for kind in ("toolUse", "toolResult"):
            if kind in start and (members := table(start[kind])) is not None:
                self._blocks.begin(place, {f"{kind}.{key}": value for key, value in members.items()})

    def _grow(self, block: Grown, delta: dict[str, bytes]) -> None:
        block.text("text", delta.get("text", b""))
        block.listed("citations", delta.get("citation", b""))
        block.text("toolUse.partial", (table(delta.get("toolUse", b"")) or {}).get("input", b""))
        for raw in array(delta.get("toolResult", b"")):
            block.listed("toolResult.content", raw)
        for key, value in (table(delta.get("reasoningContent", b"")) or {}).items():
            block.text(f"reasoning.{key}", value)

    def answer(self) -> bytes:
        """Return the message as it is now."""
        return _message([object_of(made) for one in self._blocks.all() if (made := _converse_block(one))])


def _converse_block(found: dict[str, bytes]) -> dict[str, bytes]:
    """Return a block in Converse's own form, of what was said of it."""
    call, result, thought = (_of(found, kind) for kind in ("toolUse", "toolResult", "reasoning"))
    if call:
        call.setdefault("input", b"{}")
        return {"toolUse": object_of(_with_input(call, "partial"))}
    if result:
        return {"toolResult": object_of(result)}
    if "redactedContent" in thought:
        return {"reasoningContent": object_of({"redactedContent": thought["redactedContent"]})}
    if thought:
        return {"reasoningContent": object_of({"reasoningText": object_of(thought)})}
    text = {"text": found["text"]} if "text" in found else {}
    if "citations" in found:
        told = {"content": array_of([object_of(text)] if text else []), "citations": found["citations"]}
        return {"citationsContent": object_of(told)}
    return text


def _of(found: dict[str, bytes], kind: str) -> dict[str, bytes]:
    return {key.partition(".")[2]: value for key, value in found.items() if key.startswith(kind + ".")}
