"""Google's `Content`, as agents note it: parts to blocks, calls, and results of calls.

In: what a log holds of a message: a text, one part, a list of both, as JSON. Out: blocks, calls, results. Rules: text
is an exact slice; a part that nobody knows is kept verbatim; a result's text is its `output`, its `error`, else the
whole response; what stands beside a result (pictures) is part of it.

Sources: the Gemini API reference; `@google/genai`; the services that record chats in gemini-cli 0.56 (August 2026) and
qwen-code (October 2026).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from lore.model import lenient
from lore.model.canonical import encode
from lore.model.items import NULL, Block, ImageBlock, RawBlock, Status, TextBlock, ThinkingBlock, blocks_of, is_absent
from lore.model.jsonslice import array, table

DIALECT = "gemini"
_QUOTE, _OBJECT = 0x22, 0x7B
_EMPTY = Raw(b'""')


class FunctionCall(Struct, frozen=True, gc=False):
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


class _Part(Struct, frozen=True, gc=False, rename="camel"):
    """One part: which members there are says what it is."""

    text: Raw = NULL
    thought: Raw = NULL
    thought_signature: str | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    inline_data: _Data | None = None


class Outcome(Struct, frozen=True, gc=False):
    """What came of a call: a JSON string or an array of lore's blocks, the text of an error, how it went."""

    call_id: str | None
    name: str
    output: Raw
    error: Raw
    status: Status


class Content(Struct, frozen=True):
    """What a message is made of. `thoughts` are blocks that no later request holds."""

    blocks: tuple[Block, ...] = ()
    thoughts: tuple[ThinkingBlock, ...] = ()
    calls: tuple[FunctionCall, ...] = ()
    outcomes: tuple[Outcome, ...] = ()


_PARTS = msgspec.json.Decoder(list[_Part])
NOTHING = Content()


def content_of(raw: Raw) -> Content:
    """Read a text, a part, or a list of both; ValueError where it is none of them."""
    first = memoryview(raw)[0]
    if first == _QUOTE:
        return NOTHING if raw == _EMPTY else Content((TextBlock(raw),))
    if is_absent(raw):
        return NOTHING
    text = bytes(raw)
    text = b"[" + text + b"]" if first == _OBJECT else text
    if text[:1] != b"[":
        raise ValueError("content is neither text nor parts")
    try:
        parts = _PARTS.decode(text)
    except ValueError:
        return _content(text, [_lenient(piece) for piece in array(text)])
    return _content(text, parts)


def _lenient(raw: bytes) -> _Part:
    """Read a part of a list that holds texts, or parts of another shape."""
    if raw[:1] == b'"':
        return _Part(text=Raw(raw))
    try:
        return lenient.convert(raw, _Part)
    except ValueError:
        return _Part()


def _content(text: bytes, parts: list[_Part]) -> Content:
    blocks: list[Block] = []
    thoughts: list[ThinkingBlock] = []
    calls: list[FunctionCall] = []
    outcomes: list[Outcome] = []
    pieces: list[bytes] | None = None
    for number, part in enumerate(parts):
        if part.function_call is not None:
            calls.append(part.function_call)
        elif part.function_response is not None:
            outcomes.append(outcome_of(part.function_response))
        elif memoryview(part.text)[0] == _QUOTE and bytes(part.thought) == b"true":
            thoughts.append(ThinkingBlock(part.text, part.thought_signature))
        elif memoryview(part.text)[0] == _QUOTE:
            if part.text != _EMPTY:
                blocks.append(TextBlock(part.text))
        elif part.inline_data is not None and part.inline_data.mime_type.startswith("image/"):
            blocks.append(ImageBlock(part.inline_data.mime_type, part.inline_data.data))
        else:
            pieces = array(text) if pieces is None else pieces
            blocks.append(RawBlock(Raw(pieces[number]), DIALECT))
    return Content(tuple(blocks), tuple(thoughts), tuple(calls), tuple(outcomes))


def outcome_of(response: FunctionResponse) -> Outcome:
    """Return what a result says."""
    own = table(bytes(response.response)) or {}
    text, error = own.get("output", b""), own.get("error", b"")
    if error[:1] == b'"' and text[:1] != b'"':
        return Outcome(response.id, response.name, Raw(error), Raw(error), "failed")
    if text[:1] != b'"':
        text = b'""' if is_absent(response.response) else encode(bytes(response.response).decode("utf-8", "replace"))
    blocks = content_of(response.parts).blocks
    return with_blocks(Outcome(response.id, response.name, Raw(text), NULL, "completed"), blocks)


def result_of(raw: Raw, call_id: str, name: str) -> Outcome | None:
    """Read the result that a client noted beside a call; None where there is none yet."""
    content = content_of(raw)
    if is_absent(raw):
        return None
    if not content.outcomes:  # a text, or parts alone
        whole = content.blocks[0] if len(content.blocks) == 1 else None
        plain = whole.text if isinstance(whole, TextBlock) else Raw(msgspec.json.encode(list(content.blocks)))
        return Outcome(call_id, name, plain, NULL, "completed")
    own = next((found for found in content.outcomes if found.call_id == call_id), content.outcomes[0])
    return with_blocks(own, content.blocks) if own is content.outcomes[0] else own


def with_blocks(outcome: Outcome, blocks: tuple[Block, ...]) -> Outcome:
    """Return a result with what stands beside it."""
    if not blocks or outcome.status == "failed":
        return outcome
    plain = memoryview(outcome.output)[0] == _QUOTE
    before = (TextBlock(outcome.output),) if plain else blocks_of(bytes(outcome.output))
    return msgspec.structs.replace(outcome, output=Raw(msgspec.json.encode([*before, *blocks])))


def digest(*pieces: Raw | bytes | str) -> str:
    """Return a short digest of what a message says: two messages of one digest are one text to the model."""
    made = hashlib.blake2b(digest_size=8)
    for piece in pieces:
        made.update(piece.encode() if isinstance(piece, str) else piece)
        made.update(b"\0")
    return made.hexdigest()


def digest_of(role: str, blocks: Iterable[Block]) -> str:
    """Return the digest of what a message says besides calls."""
    return digest(
        role, *[block.text if isinstance(block, TextBlock) else msgspec.json.encode(block) for block in blocks]
    )


def is_empty(raw: Raw) -> bool:
    """Tell whether a content says nothing."""
    return is_absent(raw) or raw == _EMPTY or bytes(memoryview(raw)[:2]) == b"[]"
