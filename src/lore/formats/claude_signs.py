"""Signs in Claude Code's logs: what a line shows of the next request besides its text.

In: parts of a line as they were decoded. Out: (name, detail) of each sign, names of `model.signs`. Rules: only
the beginning of long content is looked at; what has an unexpected shape is no sign.

Source: counts over 769 public sessions of what stood before a drop of billed reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct

from lore.formats.claude_memory import ChainMemory
from lore.formats.claude_records import Image, Part, Plain, Record, Text, ToolUse
from lore.model.items import NULL

Sign: TypeAlias = tuple[str, str]

RESUMED = b'"SessionStart:resume"'
_LOOKED_AT = 512  # bytes of a call, a result or a text
_DETAIL = 80
_IMAGE: Sign = ("image", "")
_TOOL_REFERENCE: Sign = ("tool-reference", "")


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


def moved(record: Record, chain: ChainMemory, field: str) -> Sequence[Sign]:
    """Return that a standing field says another thing than on the lines before; remember what it says."""
    said: Raw = getattr(record, field)
    if said is NULL:
        return ()
    known: Raw = getattr(chain, field)
    setattr(chain, field, said.copy())
    return () if known == NULL or said == known else ((_STANDING[field], f"from {_shown(known)} to {_shown(said)}"),)


_STANDING = {"version": "client-version", "effort": "effort", "permission_mode": "permission-mode"}


def of_result(content: Raw) -> Sequence[Sign]:
    """Return the signs of a result that is a list."""
    head = _head(content)
    found = [_TOOL_REFERENCE] if b'"tool_reference"' in head else []
    return [*found, _IMAGE] if b'"type":"image"' in head else found


def of_prompt(record: Record, chain: ChainMemory, parts: Sequence[Part]) -> Sequence[Sign]:
    """Return the signs of a user's message."""
    found = list(moved(record, chain, "permission_mode"))
    for part in parts:
        if type(part) is Image:
            found.append(_IMAGE)
        elif type(part) is Plain or type(part) is Text:
            found += _said(_head(part.text))
    return found


def _said(text: bytes) -> Sequence[Sign]:
    if text.startswith(b'"<command-'):
        command = _COMMAND.search(text)
        return (("slash-command", command[1].decode("utf-8", "replace")[:_DETAIL] if command else ""),)
    return (("interrupt", ""),) if text.startswith(b'"[Request interrupted') else ()


_COMMAND = re.compile(rb"<command-name>(/?[\w:.-]+)")


def of_error(record: Record) -> Sequence[Sign]:
    """Return the sign of a line that stands for an answer that never came."""
    return (("api-error", ""),) if bytes(record.is_api_error_message) == b"true" else ()


def of_system(record: Record) -> Sequence[Sign]:
    """Return the sign of a system line that is no compaction and cleared nothing."""
    name = _SYSTEM.get(record.subtype or "")
    return () if name is None else ((name, ""),)


_SYSTEM = {"api_error": "api-error", "microcompact_boundary": "micro-compaction"}


def of_attachment(raw: Raw) -> Sequence[Sign]:
    """Return the sign of an attachment."""
    try:
        attached = _ATTACHMENT.decode(raw)
    except (ValueError, RecursionError):  # of a shape to come: it says nothing that is known here
        return ()
    name = _ATTACHED.get(attached.type)
    if name is not None:
        return ((name, (attached.hook_name or "")[:_DETAIL]),)
    return (("resume", ""),) if attached.hook_name == "SessionStart:resume" else ()


def of_call(part: ToolUse) -> Sequence[Sign]:
    """Return the signs of a call of one of `CALLS`."""
    return CALLS[part.name](_head(part.input))


def _skill(_: bytes) -> Sequence[Sign]:
    return (("skill", ""),)


def _edit(call: bytes) -> Sequence[Sign]:
    found: list[Sign] = []
    if b".claude/" in call or b".claude\\\\" in call:
        found.append(("settings-edit", ""))
    if b"CLAUDE." in call or b"memory" in call:
        found += [("memory-edit", "")] if _MEMORY.search(call) else []
    return found


def _shell(call: bytes) -> Sequence[Sign]:
    return (("git-write", ""),) if b"git " in call and _GIT.search(call) else ()


CALLS: dict[str, Callable[[bytes], Sequence[Sign]]] = {
    "Skill": _skill,
    "Edit": _edit,
    "MultiEdit": _edit,
    "Write": _edit,
    "Bash": _shell,
    "PowerShell": _shell,
}


def _head(raw: Raw) -> bytes:
    return bytes(memoryview(raw)[:_LOOKED_AT])


def _shown(raw: Raw) -> str:
    return bytes(raw).decode("utf-8", "replace").strip('"')[:_DETAIL]
