"""Records of Kimi Code's logs, decoded as far as a timeline needs them.

In: a line. Out: a `KimiCodeRecord`. Rules: a line is decoded once; content stays raw; a wrong type of a field that is
read raises ValueError.

Source: `agent/records/types.ts` and `loop/events.ts` of kimi-code, protocol 1.0 to 1.5 (October 2026).
"""

from __future__ import annotations

from msgspec import Raw, Struct

from lore.formats.kimi import content as kimi
from lore.model import lenient
from lore.model.items import NULL


class KimiCodeOrigin(Struct, frozen=True, gc=False):
    """Who put a message in."""

    kind: str = "user"


class KimiCodeMessage(Struct, frozen=True, gc=False, rename="camel"):
    """A message that was put into the history."""

    role: str = ""
    content: Raw = NULL
    tool_calls: tuple[kimi.KimiCall, ...] = ()
    tool_call_id: str | None = None
    origin: KimiCodeOrigin | None = None
    is_error: bool | None = None
    note: Raw = NULL


class KimiCodeResult(Struct, frozen=True, gc=False, rename="camel"):
    """What came of a call."""

    output: Raw = NULL
    is_error: bool | None = None
    note: Raw = NULL


class KimiCodeEvent(Struct, frozen=True, gc=False, rename="camel"):
    """A piece of a step."""

    type: str = ""
    uuid: str | None = None
    step_uuid: str | None = None
    part: Raw = NULL
    tool_call_id: str = ""
    name: str = ""
    args: Raw = NULL
    result: KimiCodeResult | None = None
    usage: kimi.CamelUsage | None = None
    message_id: str | None = None


class KimiCodeRecord(Struct, frozen=True, gc=False, rename="camel"):
    """One line: which fields there are depends on its type."""

    type: str
    time: Raw = NULL
    created_at: Raw = NULL
    message: KimiCodeMessage | None = None
    event: KimiCodeEvent | None = None
    system_prompt: Raw = NULL
    thinking_effort: str | None = None
    thinking_level: str | None = None
    hash: str | None = None
    tools: tuple[Raw, ...] | None = None
    kind: str | None = None
    provider: str | None = None
    model: str | None = None
    tools_hash: str | None = None
    usage: kimi.CamelUsage | None = None
    source: str | None = None
    summary: Raw = NULL
    context_summary: Raw = NULL
    compacted_count: int | None = None
    kept_user_message_count: int | None = None
    kept_head_user_message_count: int | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    count: int | None = None
    mode: str | None = None


decode = lenient.decoding(KimiCodeRecord)
