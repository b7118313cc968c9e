"""Join the answer of a model from its recorded response.

The result is a JSON array of the dialect's items or messages, as the next request repeats them; empty bytes if the
response has none. A whole response was sliced when it was read; a stream is joined here, and only if a caller needs the
answer: reading its usage alone costs a fraction.

Events of another shape are ignored. A stream that was cut gives the part that came; a call's input that is not whole
JSON remains text. Pieces of strings are joined between their quotes without decoding, so that halves of a surrogate
pair in two events become one character. The time is proportional to the bytes, however many pieces there are.

Sources: the streaming pages of Anthropic's Messages, OpenAI's Chat Completions, Gemini's streamGenerateContent and
Bedrock's ConverseStream.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain as chained

from lore.formats.answers import output_in
from lore.formats.contents import (
    Content,
    ContentError,
    build_array,
    events_in,
    framed_events,
    is_framed,
    object_of,
    open_content,
    unescape,
)
from lore.model.jsonslice import array, is_json, raw_members
from lore.model.limits import BODY_BYTES
from lore.model.turn import Output

_ASSISTANT = b'"assistant"'
_NOTHING = (b"", b"null", b'""')  # members that count as empty
_DIGITS = 10  # a block's index has fewer
_DATA = b"data:"
_ITEM = b'"response.output_item.done"'
_DELTA = b'"response.output_text.delta"'
_WITH_ITEMS = (b'"response.completed"', b'"response.incomplete"', b'"response.failed"', b'"response.done"', _ITEM)
_ANTHROPIC_TEXTS = {  # by the type of a delta: its members that continue texts
    b'"text_delta"': ("text",), b'"thinking_delta"': ("thinking",), b'"signature_delta"': ("signature",),
    b'"input_json_delta"': ("partial_json",), b'"compaction_delta"': ("content", "encrypted_content"),
}  # fmt: skip
_CHAT_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")
_GEMINI_TEXT = frozenset(("text", "thought"))  # members of a part that is only text
_CONVERSE = ("contentBlockStart", "contentBlockDelta", "contentBlockStop")  # names of events


def output_items(output: Output) -> bytes:
    """Return a model's answer as an array of items or messages; empty if unknown, too long or undecodable."""
    if isinstance(output, bytes):
        return output
    if len(output.raw) > BODY_BYTES:
        return b""
    try:
        return items_of_events(_events(Content(output.raw, output.form), output.encoding))
    except ContentError:
        return b""


def items_of_events(events: Iterable[bytes]) -> bytes:
    """Return the answer in a stream's events (JSON) as an array; empty if no event has the form of a known dialect."""
    remaining = iter(events)
    for raw in remaining:
        event = raw_members(raw) or {}
        kind = event.get("type", b"")
        if kind.startswith(b'"response.'):
            return _response_items(chained([raw], remaining))
        if kind.startswith((b'"message_start"', b'"content_block_')):
            join = _join_anthropic
        elif "choices" in event:
            join = _join_chat
        elif "candidates" in event or b'"candidates"' in event.get("response", b""):
            join = _join_gemini
        elif "contentBlockIndex" in event or any(name in event for name in _CONVERSE):
            join = _join_converse
        else:
            continue
        answer = join(chained([event], filter(None, map(raw_members, remaining))))
        return build_array([answer]) if answer else b""
    return b""


def _events(content: Content, encoding: str) -> Iterable[bytes]:
    """Return the events of a stream in any recorded form, each JSON; raise ContentError if it cannot be opened."""
    if content.form == "events":
        events, text = events_in(content.raw)
        return events or _event_lines(text)
    body = open_content(content, encoding, binary=is_framed)
    if is_framed(body):
        return framed_events(body)
    return array(body) if body[:1] == b"[" else _event_lines(body)


def _event_lines(text: bytes) -> Iterator[bytes]:
    """Yield the data of server-sent events; each has one line of data."""
    at = 0
    while at < len(text):
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        if text.startswith(_DATA, at):
            yield text[at + len(_DATA) : end].strip()
        at = end + 1


def _response_items(events: Iterable[bytes]) -> bytes:
    """Return the items of the Responses API: those that the last event repeats, else each as it was finished."""
    items, deltas = list[bytes](), list[bytes]()  # `deltas`: of the text since the last finished item
    output = b""
    for raw in events:
        if _DELTA in raw:
            deltas.append(raw)
        event = (raw_members(raw) or {}) if any(word in raw for word in _WITH_ITEMS) else {}
        if event.get("type") == _ITEM:
            items += [event["item"]] if "item" in event else []
            deltas.clear()
        elif "response" in event:
            output = output_in(raw_members(event["response"]) or {}) or output
    pieces = [(raw_members(raw) or {}).get("delta", b"") for raw in deltas]
    if text := b"".join([piece[1:-1] for piece in pieces if piece[:1] == b'"']):
        part = object_of({"type": b'"output_text"', "text": b'"' + text + b'"'})  # its item was not finished
        items.append(object_of({"type": b'"message"', "role": _ASSISTANT, "content": build_array([part])}))
    return build_array(items) if output in (b"", b"[]") and items else output


class _GrowingObject:
    """A JSON object that the events of a stream extend; `members` returns it as it is by then."""

    def __init__(self, members: dict[str, bytes]) -> None:
        self.inner = defaultdict[str, _GrowingObject](lambda: _GrowingObject({}))  # members that are objects
        self._members = members
        self._texts = defaultdict[str, list[bytes]](list)  # what string members continue with
        self._lists = defaultdict[str, list[bytes]](list)  # what array members continue with

    def append_text(self, key: str, raw: bytes) -> None:
        """Append a JSON string to a string member, or begin it; ignore any other value."""
        if raw[:1] == b'"':
            self._texts[key].append(raw[1:-1])

    def append_element(self, key: str, raw: bytes) -> None:
        """Append an element to an array member, or begin it; ignore empty bytes."""
        if raw:
            self._lists[key].append(raw)

    def fill_in(self, members: dict[str, bytes]) -> None:
        """Set those of `members` that this object lacks, or has as null or an empty string."""
        for key, raw in members.items():
            if raw not in _NOTHING and self._members.get(key, b"null") in _NOTHING:
                self._members[key] = raw

    def members(self) -> dict[str, bytes]:
        members = dict(self._members)
        for key, pieces in self._texts.items():
            before = members.get(key, b"")
            members[key] = b'"%s%s"' % (before[1:-1] if before[:1] == b'"' else b"", b"".join(pieces))
        for key, elements in self._lists.items():
            members[key] = build_array([*array(members.get(key, b"")), *elements])
        return members | {key: object_of(grown.members()) for key, grown in self.inner.items()}


class _Blocks:
    """The blocks of a message, by the index that events give."""

    def __init__(self) -> None:
        self.every: dict[int, _GrowingObject] = {}
        self.open: dict[int | None, _GrowingObject] = {}  # those that events may still extend

    def begin(self, place: int | None, members: dict[str, bytes]) -> None:
        """Add a block to `every` and `open`; close it if another block had its index, ignore it without an index."""
        if place in self.every:
            self.open.pop(place, None)  # the following events belong to another message
        elif place is not None:
            self.every[place] = self.open[place] = _GrowingObject(members)

    def build_message(self, finish: Callable[[_GrowingObject], dict[str, bytes]]) -> bytes:
        """Return the message, empty without blocks; `finish` returns a block's members, none to leave it out."""
        blocks = [block for place in sorted(self.every) if (block := finish(self.every[place]))]
        return object_of({"role": _ASSISTANT, "content": build_array(map(object_of, blocks))}) if blocks else b""


def _join_anthropic(events: Iterable[dict[str, bytes]]) -> bytes:
    """Return the first message in events of Anthropic's Messages; empty if it has no blocks."""
    blocks = _Blocks()
    for event in events:
        kind, place = event.get("type"), _index_of(event.get("index", b""))
        if kind == b'"message_start"' and blocks.every:
            break  # another message
        if kind == b'"content_block_start"' and (members := raw_members(event.get("content_block", b""))):
            blocks.begin(place, members)
        elif kind == b'"content_block_stop"':
            blocks.open.pop(place, None)
        elif kind == b'"content_block_delta"' and (block := blocks.open.get(place)) is not None:
            delta = raw_members(event.get("delta", b"")) or {}
            kind = delta.get("type", b"")
            for key in _ANTHROPIC_TEXTS.get(kind, ()):
                block.append_text(key, delta.get(key, b""))
            if kind == b'"citations_delta"':
                block.append_element("citations", delta.get("citation", b""))
    return blocks.build_message(lambda block: _with_input(block.members(), "partial_json"))


def _join_chat(events: Iterable[dict[str, bytes]]) -> bytes:
    """Return the message in chunks of OpenAI's Chat Completions, of the first choice; empty if all deltas are."""
    message, calls = _GrowingObject({}), defaultdict[int, _GrowingObject](lambda: _GrowingObject({}))
    following, is_empty = 0, True  # index of a call without one: some gateways send whole calls
    for event in events:
        delta = raw_members(_first_choice(event.get("choices", b"")).get("delta", b"")) or {}
        is_empty = is_empty and not delta
        message.fill_in({"role": delta.get("role", b"")})
        for key in _CHAT_TEXTS:
            message.append_text(key, delta.get(key, b""))
        for piece in filter(None, map(raw_members, array(delta.get("tool_calls", b"")))):
            number, function = piece.pop("index", b""), raw_members(piece.pop("function", b"")) or {}
            place = following if number in (b"", b"null") else _index_of(number)
            if place is not None:
                following = max(following, place + 1)
                text = function.pop("arguments", b"")
                calls[place].fill_in(piece)
                calls[place].inner["function"].fill_in(function)
                calls[place].inner["function"].append_text("arguments", text)
    if is_empty:
        return b""
    members = {"role": _ASSISTANT, "content": b"null"} | message.members()
    if calls:
        members["tool_calls"] = build_array(object_of(call.members()) for _, call in sorted(calls.items()))
    return object_of(members)


def _join_gemini(events: Iterable[dict[str, bytes]]) -> bytes:
    """Return the content of the first candidate in Gemini's chunks, successive texts joined; empty without parts."""
    parts: list[_GrowingObject] = []
    last_flag: bytes | None = None  # the `thought` of the last part, if that is only text
    for event in events:
        # a client's gateway wraps it
        answer = event if "candidates" in event else raw_members(event.get("response", b"")) or {}
        content = raw_members(_first_choice(answer.get("candidates", b"")).get("content", b"")) or {}
        for part in filter(None, map(raw_members, array(content.get("parts", b"")))):
            flag = part.get("thought", b"false") if part.get("text", b"")[:1] == b'"' else None
            if flag is not None and flag == last_flag:
                parts[-1].append_text("text", part["text"])
                parts[-1].fill_in({key: value for key, value in part.items() if key not in _GEMINI_TEXT})
            else:
                parts.append(_GrowingObject(part))
            last_flag = flag if part.keys() <= _GEMINI_TEXT else None  # a signature belongs to its own part
    joined = build_array(object_of(part.members()) for part in parts)
    return object_of({"role": b'"model"', "parts": joined}) if parts else b""


def _join_converse(events: Iterable[dict[str, bytes]]) -> bytes:
    """Return the message in events of Bedrock's ConverseStream, plain or each under its name; empty without blocks."""
    blocks = _Blocks()
    for named in events:
        event = next((raw_members(named[name]) or {} for name in _CONVERSE if name in named), named)
        place, start = _index_of(event.get("contentBlockIndex", b"")), raw_members(event.get("start", b"")) or {}
        for kind in ("toolUse", "toolResult"):
            if kind in start and (members := raw_members(start[kind])) is not None:
                blocks.begin(place, {})
                if (block := blocks.open.get(place)) is not None:
                    block.inner[kind].fill_in(members)
        if "start" in event:
            continue
        if "delta" not in event:
            blocks.open.pop(place, None)
            continue
        if place not in blocks.every:  # text blocks have no start event
            blocks.begin(place, {})
        if (block := blocks.open.get(place)) is None:
            continue
        delta = raw_members(event["delta"]) or {}
        block.append_text("text", delta.get("text", b""))
        block.append_element("citations", delta.get("citation", b""))
        block.inner["toolUse"].append_text("partial", (raw_members(delta.get("toolUse", b"")) or {}).get("input", b""))
        for raw in array(delta.get("toolResult", b"")):
            block.inner["toolResult"].append_element("content", raw)
        for key, value in (raw_members(delta.get("reasoningContent", b"")) or {}).items():
            block.inner["reasoningText"].append_text(key, value)
    return blocks.build_message(_finish_converse)


def _finish_converse(block: _GrowingObject) -> dict[str, bytes]:
    """Return the members of a finished block of Converse; none if it is empty."""
    call, result, thought = (block.inner[kind].members() for kind in ("toolUse", "toolResult", "reasoningText"))
    if call:
        call.setdefault("input", b"{}")
        return {"toolUse": object_of(_with_input(call, "partial"))}
    if result:
        return {"toolResult": object_of(result)}
    if thought:
        name = "redactedContent"
        shown = {name: thought[name]} if name in thought else {"reasoningText": object_of(thought)}
        return {"reasoningContent": object_of(shown)}
    members = block.members()
    text = {"text": members["text"]} if "text" in members else {}
    if "citations" in members:
        cited = {"content": build_array([object_of(text)] if text else []), "citations": members["citations"]}
        return {"citationsContent": object_of(cited)}
    return text


def _with_input(block: dict[str, bytes], key: str) -> dict[str, bytes]:
    """Return a block with the text at `key`, if any, moved to `input`: as JSON, or as text if it is not whole JSON."""
    raw = block.pop(key, b'""')
    if raw == b'""':
        return block
    text = unescape(raw).strip()
    if not text:
        return block | {"input": block.get("input", b"{}")}
    return block | {"input": text if text[:1] == b"{" and is_json(text) else raw}


def _first_choice(raw: bytes) -> dict[str, bytes]:
    """Return the members of the first answer in an array: the one with index 0, or without an index; else none."""
    for answer in array(raw):
        members = raw_members(answer) or {}
        if members.get("index", b"0") == b"0":
            return members
    return {}


def _index_of(raw: bytes) -> int | None:
    """Return a block's index; None if it is not a number, or an absurdly long one."""
    return int(raw) if raw.isdigit() and len(raw) < _DIGITS else None
