"""What a segment is to a cache: a call, a result, thinking, an image, an envelope, or text.

In: a segment and the envelope of its message. Rules: a block's own type says it, else its message does; only the
ends of a block are looked at, where every writer puts the type.
"""

from __future__ import annotations

import re

from lore.model.prompt import Segment

RUNS = ("call", "result")  # neighbours of one of these were one position, while runs counted once
NO_POSITION = ("envelope", "thinking")
_ENDS = 256  # bytes looked at, at either end
_OWN: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    (
        "result",
        re.compile(rb'"type"\s*:\s*"(?:\w{1,40}_result|\w{1,40}_output)"|"(?:functionResponse|toolResult)"\s*:'),
    ),
    ("call", re.compile(rb'"type"\s*:\s*"(?:\w{0,40}tool_use|\w{1,40}_call)"|"(?:functionCall|toolUse)"\s*:')),
    ("thinking", re.compile(rb'"type"\s*:\s*"(?:(?:redacted_)?thinking|reasoning)"|"reasoningContent"\s*:')),
    ("image", re.compile(rb'"type"\s*:\s*"(?:input_)?image(?:_url)?"|"inlineData"\s*:')),
)
_AROUND: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("result", re.compile(rb'"role"\s*:\s*"(?:tool|function)"|"type"\s*:\s*"\w{1,40}_output"')),
    ("call", re.compile(rb'"type"\s*:\s*"\w{1,40}_call"')),
    ("thinking", re.compile(rb'"type"\s*:\s*"reasoning"')),
)


def kind_of(segment: Segment, envelope: bytes = b"") -> str:
    """Return "call", "result", "thinking", "image", "envelope" or "" (text)."""
    if segment.kind == "envelope":
        return "envelope"
    data = segment.data
    ends = data if len(data) <= 2 * _ENDS else data[:_ENDS] + b"\n" + data[-_ENDS:]
    own = next((kind for kind, pattern in _OWN if pattern.search(ends)), "")
    return own or next((kind for kind, pattern in _AROUND if envelope and pattern.search(envelope, 0, 4096)), "")
