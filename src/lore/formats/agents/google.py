"""Messages in Google's `Content` shape, as Gemini CLI and Qwen Code log them: parts to blocks, calls and results.

Content is a text, one part, or a list of both. Text stays an exact slice, and an unknown part stays as it is.
The text of a result is its `output`, its `error`, or the whole response; the other parts of its message, such
as pictures, belong to it.

Sources: the Gemini API reference; `@google/genai`; the recording services of gemini-cli 0.56 (August 2026) and
qwen-code (October 2026).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats import values
from lore.formats.values import arguments_of, opens, text_at
from lore.model.canonical import encode
from lore.model.events import PatchToolCall
from lore.model.items import Block, ImageBlock, RawBlock, TextBlock, ThinkingBlock, ToolCall, blocks_of, is_absent
from lore.model.jsonslice import array, members_at, raw_members


class GoogleContent(Struct, frozen=True, gc=False):
    """The parts of a message."""

    blocks: tuple[Block, ...] = ()
    thoughts: tuple[ThinkingBlock, ...] = ()
    calls: tuple[ToolCall, ...] = ()  # without uuids; `call_id` may be empty
    results: tuple[PatchToolCall, ...] = ()  # `call_id` may be empty


NO_CONTENT = GoogleContent()


def content_of(raw: Raw) -> GoogleContent:
    """Read a text, a part, or a list of both; ValueError if it is anything else."""
    match opens(raw):
        case "n" | "":
            return NO_CONTENT
        case '"':
            return NO_CONTENT if raw == Raw(b'""') else GoogleContent((TextBlock(raw),))
        case "[":
            parts = array(bytes(raw))
        case "{":
            parts = [bytes(raw)]
        case _:
            raise ValueError("content is neither text nor parts")
    blocks: list[Block] = []
    thoughts: list[ThinkingBlock] = []
    calls: list[ToolCall] = []
    results: list[PatchToolCall] = []
    for part in parts:
        members = {"text": part} if part[:1] == b'"' else members_at(part)
        text, data = members.get("text", b""), members_at(members, "inlineData")
        if (call := raw_members(members.get("functionCall", b""))) is not None:
            arguments = arguments_of(Raw(call.get("args", b"null")))
            calls.append(ToolCall("", text_at(call, "id"), text_at(call, "name"), arguments))
        elif (response := raw_members(members.get("functionResponse", b""))) is not None:
            results.append(_result_from(response))
        elif text[:1] == b'"' and members.get("thought") == b"true":
            thoughts.append(ThinkingBlock(Raw(text), text_at(members, "thoughtSignature") or None))
        elif text[:1] == b'"':
            blocks += [TextBlock(Raw(text))] if text != b'""' else []
        elif (kind := text_at(data, "mimeType")).startswith("image/"):
            blocks.append(ImageBlock(kind, Raw(data.get("data", b"null"))))
        else:
            blocks.append(RawBlock(Raw(part), "gemini"))
    return GoogleContent(tuple(blocks), tuple(thoughts), tuple(calls), tuple(results))


def _result_from(response: dict[str, bytes]) -> PatchToolCall:
    answer, call_id = response.get("response", b"null"), text_at(response, "id")
    members = members_at(answer)
    text, error = members.get("output", b""), members.get("error", b"")
    if text[:1] != b'"' and error[:1] == b'"':
        return PatchToolCall(call_id=call_id, status="failed", output=Raw(error), error=Raw(error))
    if text[:1] != b'"':
        text = b'""' if answer == b"null" else encode(answer.decode("utf-8", "replace"))
    result = PatchToolCall(call_id=call_id, status="completed", output=Raw(text))
    return add_blocks(result, content_of(Raw(response.get("parts", b"null"))).blocks)


def result_of(raw: Raw, call_id: str) -> PatchToolCall | None:
    """Read the result that a client logged with a call; None until it has come."""
    if is_absent(raw):
        return None
    content = content_of(raw)
    if content.results:
        result = next((result for result in content.results if result.call_id == call_id), content.results[0])
        return add_blocks(result, content.blocks) if result is content.results[0] else result
    return PatchToolCall(call_id=call_id, status="completed", output=values.result_of(content.blocks))


def add_blocks(result: PatchToolCall, blocks: tuple[Block, ...]) -> PatchToolCall:
    """Append blocks to a result; a failed result remains a text."""
    if not blocks or result.status == "failed":
        return result
    first = (TextBlock(result.output),) if opens(result.output) == '"' else blocks_of(bytes(result.output))
    return replace(result, output=Raw(msgspec.json.encode([*first, *blocks])))


def digest(*pieces: Raw | bytes) -> int:
    """Return a hash of texts, valid only in this process."""
    return hash(tuple(map(bytes, pieces)))


def digest_of(role: bytes, blocks: Iterable[Block]) -> int:
    """Return the digest of a message without its calls."""
    pieces = [block.text if isinstance(block, TextBlock) else msgspec.json.encode(block) for block in blocks]
    return digest(role, *pieces)
