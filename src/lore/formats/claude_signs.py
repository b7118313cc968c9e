"""Signs in Claude Code's logs: what a line shows of the next request besides its text.

In: a line as it was decoded. Out: (name, detail) of each sign, names of `model.signs`. Rules: a line that is
no sign costs a look at its type; only the beginning of long content is looked at; what has an unexpected
shape is no sign.

Source: counts over 769 public sessions of what stood before a drop of billed reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct

from lore.formats.claude_memory import ChainMemory
from lore.formats.claude_records import Image, Part, Plain, Record, Text, ToolResult, ToolUse, compact_of
from lore.model.items import NULL

Sign: TypeAlias = tuple[str, str]

RESUMED = b'"SessionStart:resume"'
_LOOKED_AT = 512  # bytes of a call, a result or a text
_DETAIL = 80


class _Attachment(Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    hook_name: str | None = None


_ATTACHMENT = msgspec.json.Decoder(_Attachment)
_MEMORY = re.compile(rb"CLAUDE(?:\.local)?\.md|/memory/|\\\\memory\\\\")
_GIT = re.compile(
    rb"\bgit (?:\S+ )?(?:commit|checkout|switch|merge|rebase|pull|reset|stash|cherry-pick|revert|add|mv|rm)\b"
)
_ATTACHED = {
    "deferred_tools_delta": "tools-delta",
    "mcp_instructions_delta": "instructions-delta",
    "hook_additional_context": "hook-context",
}


def before(record: Record, chain: ChainMemory) -> Iterator[Sign]:
    """Yield what changed from the lines before: it holds for the request that this line itself may answer."""
    for field, name in _STANDING:
        said: Raw = getattr(record, field)
        if said is NULL:
            continue
        known: Raw = getattr(chain, field)
        if said != known:
            setattr(chain, field, said.copy())
            if known != NULL:
                yield name, f"from {_shown(known)} to {_shown(said)}"


def after(record: Record) -> Iterator[Sign]:
    """Yield what the line shows of the request after it."""
    look = _LOOKS.get(record.type)
    return look(record) if look is not None else iter(())


_STANDING = (("version", "client-version"), ("effort", "effort"), ("permission_mode", "permission-mode"))


def _assistant(record: Record) -> Iterator[Sign]:
    if record.is_api_error_message is not NULL and bytes(record.is_api_error_message) == b"true":
        yield "api-error", ""
    for part in _parts(record):
        if type(part) is ToolUse:
            look = _CALLS.get(part.name)
            if look is not None:
                yield from look(_head(part.input))


def _user(record: Record) -> Iterator[Sign]:
    for part in _parts(record):
        if type(part) is ToolResult:
            yield from _result(_head(part.content))
        elif type(part) is Image:
            yield "image", ""
        elif type(part) is Plain or type(part) is Text:
            yield from _said(_head(part.text))


def _result(content: bytes) -> Iterator[Sign]:
    if content[:1] != b"[":
        return
    if b'"tool_reference"' in content:
        yield "tool-reference", ""
    if b'"type":"image"' in content:
        yield "image", ""


def _said(text: bytes) -> Iterator[Sign]:
    if text.startswith(b'"<command-'):
        command = _COMMAND.search(text)
        yield "slash-command", command[1].decode("utf-8", "replace")[:_DETAIL] if command else ""
    elif text.startswith(b'"[Request interrupted'):
        yield "interrupt", ""


_COMMAND = re.compile(rb"<command-name>(/?[\w:.-]+)")


def _system(record: Record) -> Iterator[Sign]:
    if record.subtype == "api_error":
        yield "api-error", ""
    elif (
        record.subtype == "microcompact_boundary"
        and not compact_of(bytes(record.microcompact_metadata)).compacted_tool_ids
    ):
        yield "micro-compaction", ""


def _attachment(record: Record) -> Iterator[Sign]:
    try:
        attached = _ATTACHMENT.decode(record.attachment)
    except (ValueError, RecursionError):  # of a shape to come: it says nothing that is known here
        return
    name = _ATTACHED.get(attached.type)
    if name is not None:
        yield name, (attached.hook_name or "")[:_DETAIL]
    elif attached.hook_name == "SessionStart:resume":
        yield "resume", ""


def _skill(_: bytes) -> Iterator[Sign]:
    yield "skill", ""


def _edit(call: bytes) -> Iterator[Sign]:
    if b".claude/" in call or b".claude\\\\" in call:
        yield "settings-edit", ""
    if _MEMORY.search(call):
        yield "memory-edit", ""


def _shell(call: bytes) -> Iterator[Sign]:
    if _GIT.search(call):
        yield "git-write", ""


_CALLS: dict[str, Callable[[bytes], Iterator[Sign]]] = {
    "Skill": _skill,
    "Edit": _edit,
    "MultiEdit": _edit,
    "Write": _edit,
    "Bash": _shell,
    "PowerShell": _shell,
}
_LOOKS: dict[str, Callable[[Record], Iterator[Sign]]] = {
    "assistant": _assistant,
    "user": _user,
    "system": _system,
    "attachment": _attachment,
}


def _parts(record: Record) -> list[Part]:
    return [] if record.message is None else list(record.message.content)


def _head(raw: Raw) -> bytes:
    return bytes(memoryview(raw)[:_LOOKED_AT])


def _shown(raw: Raw) -> str:
    return bytes(raw).decode("utf-8", "replace").strip('"')[:_DETAIL]
