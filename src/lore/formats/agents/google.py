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

from lore.formats.values import opens, text_in
from lore.model.canonical import encode
from lore.model.events import PatchToolCall
from lore.model.items import Block, ImageBlock, RawBlock, TextBlock, ThinkingBlock, ToolCall, blocks_of, is_absent
from lore.model.jsonslice import array, raw_members

DIALECT = "gemini"
_EMPTY = Raw(b'""')


class GoogleContent(Struct, frozen=True, gc=False):
    """What a message is made of.

    `thoughts` are blocks that no later request holds; calls have no uuids yet, and may have no id, as `outcomes`.
    """

    blocks: tuple[Block, ...] = ()
    thoughts: tuple[ThinkingBlock, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    outcomes: tuple[PatchToolCall, ...] = ()


NOTHING = GoogleContent()


def content_of(raw: Raw) -> GoogleContent:
    """Read a text, a part, or a list of both; ValueError where it is none of them."""
    match opens(raw):
        case "n" | "":
            return NOTHING
        case '"':
            return NOTHING if raw == _EMPTY else GoogleContent((TextBlock(raw),))
        case "[":
            pieces = array(bytes(raw))
        case "{":
            pieces = [bytes(raw)]
        case _:
            raise ValueError("content is neither text nor parts")
    blocks: list[Block] = []
    thoughts: list[ThinkingBlock] = []
    calls: list[ToolCall] = []
    outcomes: list[PatchToolCall] = []
    for piece in pieces:
        own = {"text": piece} if piece[:1] == b'"' else raw_members(piece) or {}
        text, data = own.get("text", b""), raw_members(own.get("inlineData", b"")) or {}
        if (call := raw_members(own.get("functionCall", b""))) is not None:
            given = call.get("args", b"null")
            given = b"{}" if given == b"null" else given
            calls.append(ToolCall("", text_in(call.get("id", b"")), text_in(call.get("name", b"")), Raw(given)))
        elif (response := raw_members(own.get("functionResponse", b""))) is not None:
            outcomes.append(outcome_of(response))
        elif text[:1] == b'"' and own.get("thought") == b"true":
            thoughts.append(ThinkingBlock(Raw(text), text_in(own.get("thoughtSignature", b"")) or None))
        elif text[:1] == b'"':
            blocks += [TextBlock(Raw(text))] if text != b'""' else []
        elif (kind := text_in(data.get("mimeType", b""))).startswith("image/"):
            blocks.append(ImageBlock(kind, Raw(data.get("data", b"null"))))
        else:
            blocks.append(RawBlock(Raw(piece), DIALECT))
    return GoogleContent(tuple(blocks), tuple(thoughts), tuple(calls), tuple(outcomes))


def outcome_of(response: dict[str, bytes]) -> PatchToolCall:
    """Return what a result says."""
    answer, name = response.get("response", b"null"), text_in(response.get("id", b""))
    own = raw_members(answer) or {}
    text, error = own.get("output", b""), own.get("error", b"")
    if text[:1] != b'"' and error[:1] == b'"':
        return PatchToolCall(call_id=name, status="failed", output=Raw(error), error=Raw(error))
    if text[:1] != b'"':
        text = b'""' if answer == b"null" else encode(answer.decode("utf-8", "replace"))
    found = PatchToolCall(call_id=name, status="completed", output=Raw(text))
    return with_blocks(found, content_of(Raw(response.get("parts", b"null"))).blocks)


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
    plain = opens(outcome.output) == '"'
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
