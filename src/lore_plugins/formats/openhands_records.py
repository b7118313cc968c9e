"""Decode the files of OpenHands' conversations (V1), and convert blocks, tools and results.

Content stays raw; a field of a wrong type raises ValueError.

Source: `event/`, `llm/message.py`, `llm/utils/metrics.py` of the OpenHands software-agent-sdk, the terminal's
`definition.py` (November 2026).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from lore.formats import blocks_in, image_at, object_of, opens, result_of, text_in
from lore.model import NULL, Block, RawBlock, TextBlock, ThinkingBlock, array, encode, lenient, raw_members

_EMPTY = Raw(b'""')
_ERROR = "[An error occurred during execution.]\n"


class Reasoning(Struct, frozen=True, gc=False):
    """An item of reasoning of the Responses API."""

    id: str | None = None
    summary: tuple[str, ...] = ()
    encrypted_content: str | None = None


class OpenHandsMessage(Struct, frozen=True, gc=False):
    """A message of any role."""

    role: str = ""
    content: Raw = NULL
    reasoning_content: Raw = NULL
    thinking_blocks: tuple[Raw, ...] = ()
    responses_reasoning_item: Reasoning | None = None


class OpenHandsCall(Struct, frozen=True, gc=False):
    """A call; arguments are JSON in a string."""

    id: str = ""
    name: str = ""
    arguments: Raw = NULL
    origin: str = ""


class OpenHandsMetadata(Struct, frozen=True, gc=False):
    """A terminal's data about a command."""

    exit_code: int = -1
    working_dir: str | None = None
    py_interpreter_path: str | None = None
    prefix: str = ""
    suffix: str = ""


class Observation(Struct, frozen=True, gc=False):
    """The result of a call."""

    content: Raw = NULL
    is_error: bool = False
    metadata: Raw = NULL
    kind: str = ""


class OpenHandsEvent(Struct, frozen=True, gc=False):
    """One event; its fields depend on its kind."""

    kind: str
    id: str
    timestamp: str | None = None
    source: str = ""
    system_prompt: dict[str, Raw] | None = None  # a text block
    dynamic_context: dict[str, Raw] | None = None  # a text block
    tools: tuple[Raw, ...] | None = None
    llm_message: OpenHandsMessage | None = None
    llm_response_id: str | None = None
    extended_content: Raw = NULL
    thought: Raw = NULL
    reasoning_content: Raw = NULL
    thinking_blocks: tuple[Raw, ...] = ()
    responses_reasoning_item: Reasoning | None = None
    tool_call: OpenHandsCall | None = None
    tool_call_id: str = ""
    observation: Observation | None = None
    rejection_reason: str = "User rejected the action"
    error: Raw = NULL
    forgotten_event_ids: tuple[str, ...] = ()
    summary: Raw = NULL
    summary_offset: int | None = None
    reason: str | None = None
    code: str = ""


class OpenHandsUsage(Struct, frozen=True, gc=False):
    """The usage of one response; the prompt count includes cached tokens."""

    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    response_id: str = ""


class Latency(Struct, frozen=True, gc=False):
    """The duration of a response."""

    latency: float = 0.0  # seconds
    response_id: str = ""


class OpenHandsMetrics(Struct, frozen=True, gc=False):
    """The usage of all requests of one use of a model."""

    token_usages: tuple[OpenHandsUsage, ...] = ()
    response_latencies: tuple[Latency, ...] = ()


class Stats(Struct, frozen=True, gc=False):
    """Usage by use of the model."""

    usage_to_metrics: dict[str, Raw] = {}


class OpenHandsModel(Struct, frozen=True, gc=False):
    """The configured model."""

    model: str | None = None


class OpenHandsAgent(Struct, frozen=True, gc=False):
    """The agent of a conversation."""

    llm: OpenHandsModel | None = None
    kind: str = ""


class OpenHandsState(Struct, frozen=True, gc=False):
    """`base_state.json`."""

    id: str = ""
    agent: OpenHandsAgent | None = None
    stats: Stats | None = None


decode_event = lenient.decoding(OpenHandsEvent)
decode_state = lenient.decoding(OpenHandsState)
decode_metrics = lenient.decoding(OpenHandsMetrics)
_METADATA = msgspec.json.Decoder(OpenHandsMetadata)


def blocks_of(content: Raw) -> tuple[Block, ...]:
    """Return the blocks of a text or a list of parts, without empty texts; raise ValueError for anything else."""
    blocks: list[Block] = []
    for block in blocks_in(content):
        members = (raw_members(bytes(block.json)) or {}) if isinstance(block, RawBlock) else {}
        if members.get("type") == b'"image"':  # images by URL
            for url in array(members.get("image_urls", b"")):
                shown = RawBlock(Raw(b'{"type":"image_url","image_url":{"url":%b}}' % url), "openai-chat")
                blocks.append(image_at(url) or shown)
        elif not isinstance(block, TextBlock) or block.text != _EMPTY:
            blocks.append(block)
    return tuple(blocks)


def thoughts_of(thinking: tuple[Raw, ...], text: Raw, item: Reasoning | None) -> Iterator[Block]:
    """Yield a model's thinking: Anthropic's blocks, else a text; and an item of the Responses API."""
    for raw in thinking:
        members = raw_members(bytes(raw)) or {}
        if members.get("type") == b'"thinking"' and members.get("thinking", b"")[:1] == b'"':
            yield ThinkingBlock(Raw(members["thinking"]), text_in(members.get("signature", b"")) or None)
        else:
            yield RawBlock(Raw(bytes(raw)), "anthropic")
    if not thinking and opens(text) == '"' and text != _EMPTY:
        yield ThinkingBlock(text)
    if item is not None:
        summary = [{"type": "summary_text", "text": piece} for piece in item.summary]
        members = {"type": "reasoning", "id": item.id, "summary": summary, "encrypted_content": item.encrypted_content}
        made = encode({name: value for name, value in members.items() if value is not None})
        yield RawBlock(Raw(made), "openai-responses")


def output_of(observation: Observation, extended: Raw) -> Raw:
    """Return a result as the model gets it; a terminal's output is surrounded by its data about the command."""
    blocks: list[Block] = list(blocks_of(observation.content))
    if opens(observation.metadata) == "{":
        members = lenient.decoded(_METADATA, observation.metadata)
        text = b"".join([bytes(block.text)[1:-1] for block in blocks if isinstance(block, TextBlock)])
        lines = (
            f"[Current working directory: {members.working_dir}]" if members.working_dir else "",
            f"[Python interpreter: {members.py_interpreter_path}]" if members.py_interpreter_path else "",
            f"[Command finished with exit code {members.exit_code}]" if members.exit_code != -1 else "",
        )
        end = encode("\n".join([members.suffix, *filter(None, lines)]))
        blocks = [TextBlock(Raw(encode(members.prefix)[:-1] + text + end[1:]))]
    if observation.is_error:
        blocks.insert(0, TextBlock(Raw(encode(_ERROR))))
    blocks += blocks_of(extended)
    return result_of(blocks)


def tool_of(raw: Raw) -> Raw:
    """Return a tool as a function with name, description and, for MCP tools, schema."""
    members = raw_members(bytes(raw)) or {}
    mcp = raw_members(members.get("mcp_tool", b"null")) or {}
    name = mcp.get("name") or members.get("name") or members.get("title") or members.get("kind", b'""')
    description = members.get("description") or mcp.get("description") or b"null"
    every = {"name": name, "description": description, "parameters": mcp.get("inputSchema", b"null")}
    members = {key: value for key, value in every.items() if key == "name" or value != b"null"}
    return Raw(b'{"type":"function","function":%b}' % object_of(members))
