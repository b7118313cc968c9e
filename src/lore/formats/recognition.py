"""What a file or an object is, told by how it begins: cheap looks, before anything is read.

In: the first bytes of a file, or the members of an object, sliced. Out: whether it could be a recording, whether it
is a document that lists calls, whether it is a request body. A folder is full of JSON and YAML that is no recording:
YAML counts only where it opens as a cassette does, and a body, which exports, logs of calls and test cases hold too,
is known by what it asks for, unless it is known anyway that it was sent to a model's endpoint.
"""

from __future__ import annotations

import re

from lore.formats.lines import BOM, SPACE
from lore.model.jsonslice import first_element, leaf_at, parts, table

BEGINNING = 4 * 1024 * 1024  # bytes in which a document's array has to begin
_CANDIDATES = 16  # places that look like the array and are none
_ARCHIVE = b"PK"  # a zip file: Inspect's logs are some
_LISTS = (".log.entries", ".entries", ".packets", ".interactions", ".http_interactions", ".samples")
_CASSETTE = re.compile(
    rb"(?:[ \t]*(?:#[^\n]*)?\r?\n|---[^\n]*\r?\n|%YAML[^\n]*\n|(?:version|recorded_with|recorded_at)[ \t]*:[^\n]*\n)*+"
    rb"(?:http_)?interactions:[ \t]*(?:#[^\n]*)?(?:\r?\n|$)"
)


def may_be_recording(head: bytes) -> bool:
    """Tell whether a file that begins like this could be a recording."""
    start = head.removeprefix(BOM).lstrip(SPACE)[:2]
    return start[:1] in (b"{", b"") or start == _ARCHIVE or _is_list(head) or is_yaml_cassette(head)


def is_yaml_cassette(head: bytes) -> bool:
    """Tell whether a file opens as a VCR cassette in YAML does."""
    return _CASSETTE.match(head.removeprefix(BOM)) is not None


def is_document(head: bytes) -> bool:
    """Tell whether the first bytes are enough to recognise a document by, however long its lines are."""
    line, _, rest = head.partition(b"\n")
    if line.rstrip().endswith(b"}") and rest[:1] == b"{":  # a document does not go on like this: lines do
        head = line
    return _is_list(head) or is_yaml_cassette(head) or array_at(head, _LISTS) >= 0


def _is_list(head: bytes) -> bool:
    """Tell whether a file begins as a JSON array of objects does."""
    text = head.removeprefix(BOM).lstrip(SPACE)
    return text[:1] == b"[" and text[1:].lstrip(SPACE)[:1] in (b"{", b"")


def array_at(data: bytes, paths: tuple[str, ...]) -> int:
    """Return where the content of the first array at one of these paths begins; -1 where there is none."""
    keys = {path.rpartition(".")[2].encode() for path in paths if path}
    if not any(data.find(b'"' + key + b'"', 0, BEGINNING) >= 0 for key in keys):
        return -1
    looks = re.compile(rb'"(?:' + b"|".join(sorted(keys)) + rb')"[ \t\r\n]*:[ \t\r\n]*\[')
    for number, match in enumerate(looks.finditer(data, 0, BEGINNING)):
        if number == _CANDIDATES:
            break
        if leaf_at(data[: match.end()], match.end() - 1).path in paths:
            return match.end()
    return -1


_CONVERSE = ("modelId", "inferenceConfig", "toolConfig")
_SIGNS = ("model", "system", "tools", "max_tokens", "max_completion_tokens", "temperature", "stream", *_CONVERSE)
# What only a request to the Responses API asks for; and what an export, a log of a call or a test case says besides.
ASKED = ("instructions", "previous_response_id", "max_output_tokens", "store", "prompt_cache_key", "truncation")
_KEPT = ("output", "outputs", "response", "candidates", "event", "ideal", "target", "expected", "id", "sessionId",
         "title")  # fmt: skip
_ITEMS = (b'"message"', b'"reasoning"', b'"function_call"', b'"function_call_output"', b'"item_reference"')

# All that a plain request says at its outermost level: where nothing else stands there, it is no record of one.
_FIELDS = frozenset((
    *_SIGNS, *ASKED, "messages", "input", "contents", "systemInstruction", "system_instruction", "generationConfig",
    "safetySettings", "cachedContent", "metadata", "thinking", "tool_choice", "parallel_tool_calls", "top_p", "top_k",
    "n", "stop", "stop_sequences", "stream_options", "context_management", "output_config", "service_tier", "speed",
    "reasoning", "reasoning_effort", "text", "include", "user", "seed", "response_format", "verbosity", "betas",
    "anthropic_beta", "anthropic_version", "cache_control", "mcp_servers", "prompt_cache_options",
    "prompt_cache_retention", "additionalModelRequestFields", "frequency_penalty", "presence_penalty",
    "client_metadata",
))  # fmt: skip


def is_plain_request(members: dict[str, bytes]) -> bool:
    """Tell an object that is a request and nothing else."""
    return bool(members) and members.keys() <= _FIELDS and is_body(members)


def is_body(members: dict[str, bytes], *, sent: bool = False) -> bool:
    """Tell a request body; `sent` says that it went to an endpoint where models answer.

    Its messages have roles (Gemini's parts, an item of the Responses API a kind).
    """
    if "messages" in members:
        return (sent or any(sign in members for sign in _SIGNS)) and _begins_with(members["messages"], ("role",))
    if not sent and any(key in members for key in _KEPT):
        return False
    if "contents" in members:
        first = first_element(members["contents"])
        return (table(first) or {}).get("parts", b"")[:1] == b"["
    if sent and "input" in members:
        return members["input"][:1] in (b'"', b"[")
    return "model" in members and "input" in members and _is_responses(members)


def _is_responses(members: dict[str, bytes]) -> bool:
    """Tell a request to the Responses API from those that also have `input`: for embeddings, speech, moderation."""
    asks = any(key in members for key in ASKED)
    if asks:
        return members["input"][:1] == b'"' or _begins_with(members["input"], ("role", "type"))
    first = table(first_element(members["input"])) or {}
    return _is_text(first, "role") or first.get("type") in _ITEMS


def _begins_with(raw: bytes, keys: tuple[str, ...]) -> bool:
    """Tell whether an array begins with an object that has one of these texts, or with nothing that could."""
    if raw[:1] != b"[":
        return False
    first = first_element(raw)
    return first[:1] != b"{" or any(_is_text(parts(first), key) for key in keys)


def _is_text(members: dict[str, bytes], key: str) -> bool:
    return members.get(key, b"")[:1] == b'"'
