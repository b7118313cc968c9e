"""Records of Gemini CLI's chats, decoded as far as a timeline needs them.

In: a line of a JSONL chat, or a message of the older document. Out: a `Record`. Rules: a record is decoded once;
content stays raw; a wrong type of a field that is read raises ValueError.

Sources: counts over 15 public chats; `chatRecordingService.ts` and `chatRecordingTypes.ts` of gemini-cli 0.56 (August
2026).
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct, field

from lore.model import lenient
from lore.model.items import NULL


class Tokens(Struct, frozen=True, gc=False):
    """A bill: `input` includes `cached`; `output`, `thoughts` and `tool` (prompts of server tools) stand beside."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    thoughts: int | None = None
    tool: int | None = None
    total: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether all counts are zero: the client writes so what it was not told."""
        return not any((self.input, self.output, self.cached, self.thoughts, self.tool, self.total))


class Call(Struct, frozen=True, gc=False, rename="camel"):
    """A call with its result; `timestamp` is when that was noted."""

    id: str = ""
    name: str = ""
    args: Raw = NULL
    result: Raw = NULL
    status: str = ""
    timestamp: str | None = None


class Record(Struct, frozen=True, gc=False, rename="camel"):
    """A line or a message: a message has an id and a type; others say something of the chat."""

    id: str | None = None
    type: str = ""
    timestamp: str | None = None
    content: Raw = NULL
    model: str | None = None
    thoughts: tuple[Raw, ...] | None = None
    tokens: Tokens | None = None
    tool_calls: tuple[Call, ...] | None = None
    session_id: str | None = None
    start_time: str | None = None
    kind: str | None = None
    project_hash: str | None = None
    changes: Raw = field(default=NULL, name="$set")
    rewind_to: str | None = field(default=None, name="$rewindTo")


class Changes(Struct, frozen=True, gc=False, rename="camel"):
    """What `$set` says: a history that was rewritten, or notes of the chat."""

    messages: tuple[Raw, ...] | None = None
    session_id: str | None = None
    kind: str | None = None


_RECORD = msgspec.json.Decoder(Record)
_CHANGES = msgspec.json.Decoder(Changes)


def decode(data: bytes) -> Record:
    """Decode a record; ValueError where it is none."""
    return lenient.decoded(_RECORD, data)


def changes_of(raw: bytes) -> Changes:
    """Decode what `$set` says; ValueError where it is none."""
    return lenient.decoded(_CHANGES, raw)
