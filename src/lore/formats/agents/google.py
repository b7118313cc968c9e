"""Google's `Content`, as agents note it: parts to blocks, calls, and results of calls.

In: what a log holds of a message: a text, one part, a list of both, as JSON. Out: blocks, calls, results. Rules: text
is an exact slice; a part that nobody knows is kept verbatim; a result's text is its `output`, its `error`, else the
whole response; what stands beside a result (pictures) is part of it.

Sources: the Gemini API reference; `@google/genai`; the services that record chats in gemini-cli 0.56 (August 2026) and
qwen-code (October 2026).
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import msgspec
from msgspec import Raw, Struct

from lore.model import lenient
from lore.model.canonical import encode
from lore.model.events import PatchToolCall
from lore.model.items import NULL, Block, ImageBlock, RawBlock, TextBlock, ThinkingBlock, blocks_of, is_absent
from lore.model.jsonslice import array, table

DIALECT = "gemini"
_QUOTE, _OBJECT, _LIST = b'"{['
_EMPTY, _TRUE = Raw(b'""'), Raw(b"true")


class GoogleFunctionCall(Struct, frozen=True, gc=False):
    """A call as the model made it; older APIs give no id."""

    id: str | None = None
    name: str = ""
    args: Raw = NULL


class FunctionResponse(Struct, frozen=True, gc=False):
    """A call's result: an object, and pictures."""

    id: str | None = None
    name: str = ""
    response: Raw = NULL
    parts: Raw = NULL


class _Data(Struct, frozen=True, gc=False, rename="camel"):
    mime_type: str = ""
    data: Raw = NULL


class _GooglePart(Struct, frozen=True, gc=False, rename="camel"):
    """One part: which members there are says what it is."""

    text: Raw = NULL
    thought: Raw = NULL
    thought_signature: str | None = None
    function_call: GoogleFunctionCall | None = None
    function_response: FunctionResponse | None = None
    inline_data: _Data | None = None


class _Answer(Struct, frozen=True, gc=False):
    """What came of a call, as most clients note it."""

    output: Raw = NULL
    error: Raw = NULL


class GoogleContent(Struct, frozen=True, gc=False):
    """What a message is made of. `thoughts` are blocks that no later request holds, `outcomes` may name no call."""

    blocks: tuple[Block, ...] = ()
    thoughts: tuple[ThinkingBlock, ...] = ()
    calls: tuple[GoogleFunctionCall, ...] = ()
    outcomes: tuple[PatchToolCall, ...] = ()


_PART = msgspec.json.Decoder(_GooglePart)
_PARTS = msgspec.json.Decoder(list[_GooglePart])
_ANSWER = msgspec.json.Decoder(_Answer)
NOTHING = GoogleContent()


def content_of(raw: Raw) -> GoogleContent:
    """Read a text, a part, or a list of both; ValueError where it is none of them."""
    if is_absent(raw):
        return NOTHING
    first = memoryview(raw)[0]
    if first == _QUOTE:
        return NOTHING if raw == _EMPTY else GoogleContent((TextBlock(raw),))
    if first not in (_OBJECT, _LIST):
        raise ValueError("content is neither text nor parts")
    try:
        return _content(raw, _PARTS.decode(raw) if first == _LIST else [_PART.decode(raw)])
    except ValueError:
        return _content(raw, [_lenient(piece) for piece in _pieces(raw)])


def _pieces(raw: Raw) -> list[bytes]:
    text = bytes(raw)
    return array(text) if text[:1] == b"[" else [text]


def _lenient(raw: bytes) -> _GooglePart:
    """Read a part of a list that holds texts, or parts of another shape."""
    if raw[:1] == b'"':
        return _GooglePart(text=Raw(raw))
    try:
        return lenient.convert(raw, _GooglePart)
    except ValueError:
        return _GooglePart()


def _content(raw: Raw, parts: list[_GooglePart]) -> GoogleContent:
    blocks: list[Block] = []
    thoughts: list[ThinkingBlock] = []
    calls: list[GoogleFunctionCall] = []
    outcomes: list[PatchToolCall] = []
    pieces: list[bytes] | None = None
    for number, part in enumerate(parts):
        if part.function_call is not None:
            calls.append(part.function_call)
        elif part.function_response is not None:
            outcomes.append(outcome_of(part.function_response))
        elif memoryview(part.text)[0] == _QUOTE:
            if part.thought == _TRUE:
                thoughts.append(ThinkingBlock(part.text, part.thought_signature))
            elif part.text != _EMPTY:
                blocks.append(TextBlock(part.text))
        elif part.inline_data is not None and part.inline_data.mime_type.startswith("image/"):
            blocks.append(ImageBlock(part.inline_data.mime_type, part.inline_data.data))
        else:
            pieces = _pieces(raw) if pieces is None else pieces
            blocks.append(RawBlock(Raw(pieces[number]), DIALECT))
    return GoogleContent(tuple(blocks), tuple(thoughts), tuple(calls), tuple(outcomes))


def outcome_of(response: FunctionResponse) -> PatchToolCall:
    """Return what a result says."""
    answer, name = response.response, response.id or ""
    own = _answer(answer)
    text = own.output
    if memoryview(text)[0] != _QUOTE:
        if memoryview(own.error)[0] == _QUOTE:
            return PatchToolCall(call_id=name, status="failed", output=own.error, error=own.error)
        text = _EMPTY if is_absent(answer) else Raw(encode(bytes(answer).decode("utf-8", "replace")))
    found = PatchToolCall(call_id=name, status="completed", output=text)
    return found if response.parts is NULL else with_blocks(found, content_of(response.parts).blocks)


def _answer(raw: Raw) -> _Answer:
    try:
        return _ANSWER.decode(raw)
    except (ValueError, RecursionError):
        own = table(bytes(raw)) or {}
        return _Answer(*(Raw(own.get(key, b"null")) for key in ("output", "error")))


def result_of(raw: Raw, call_id: str) -> PatchToolCall | None:
    """Read the result that a client noted beside a call; None where there is none yet."""
    content = content_of(raw)
    if is_absent(raw):
        return None
    if not content.outcomes:  # a text, or parts alone
        whole = content.blocks[0] if len(content.blocks) == 1 else None
        plain = whole.text if isinstance(whole, TextBlock) else Raw(msgspec.json.encode(list(content.blocks)))
        return PatchToolCall(call_id=call_id, status="completed", output=plain)
    own = next((found for found in content.outcomes if found.call_id == call_id), content.outcomes[0])
    return with_blocks(own, content.blocks) if own is content.outcomes[0] else own


def with_blocks(outcome: PatchToolCall, blocks: tuple[Block, ...]) -> PatchToolCall:
    """Return a result with what stands beside it."""
    if not blocks or outcome.status == "failed":
        return outcome
    plain = memoryview(outcome.output)[0] == _QUOTE
    before = (TextBlock(outcome.output),) if plain else blocks_of(bytes(outcome.output))
    return msgspec.structs.replace(outcome, output=Raw(msgspec.json.encode([*before, *blocks])))


def digest(*pieces: Raw | bytes) -> int:
    """Return lengths and checksum of what a message says: two messages of one digest are one text to the model.

    Costs a quarter of a hash that withstands forgery, which nobody gains by here.
    """
    made = size = 0
    for piece in pieces:
        length = memoryview(piece).nbytes
        made, size = crc32(piece, made ^ length), size + length
    return size << 32 | made


def digest_of(role: bytes, blocks: Iterable[Block]) -> int:
    """Return the digest of what a message says besides calls."""
    return digest(
        role, *[block.text if isinstance(block, TextBlock) else msgspec.json.encode(block) for block in blocks]
    )


def is_empty(raw: Raw) -> bool:
    """Tell whether a content says nothing."""
    return is_absent(raw) or raw == _EMPTY or bytes(memoryview(raw)[:2]) == b"[]"
