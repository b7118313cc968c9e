"""Signs in Claude Code's logs: what a line shows of the next request besides its text.

In: parts of a line as they were decoded. Out: (name, detail) of each sign, names of `model.signs`. Rules: only
the beginning of long content is looked at; what has an unexpected shape is no sign.

Source: counts over 769 public sessions of what stood before a drop of billed reads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct

from lore.formats.claude_memory import ChainMemory
from lore.formats.claude_records import Image, Part, Plain, Record, Text
from lore.model.items import NULL, is_absent

Sign: TypeAlias = tuple[str, str]

RESUMED = b'"SessionStart:resume"'
_LOOKED_AT = 256  # bytes of a result or a text
_DETAIL = 80
_IMAGE: Sign = ("image", "")
SKILL: Sequence[Sign] = (("skill", ""),)  # a call of the tool of this name
_TOOL_REFERENCE: Sign = ("tool-reference", "")


class _Attachment(Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    hook_name: str | None = None


class _Attached(Struct, frozen=True, gc=False):
    attachment: _Attachment = _Attachment()


_ATTACHMENT = msgspec.json.Decoder(_Attached)
_ATTACHED = {
    "deferred_tools_delta": "tools-delta",
    "mcp_instructions_delta": "instructions-delta",
    "hook_additional_context": "hook-context",
}


def moved(record: Record, chain: ChainMemory, field: str) -> Sequence[Sign]:
    """Return that a standing field says another thing than on the lines before; remember what it says."""
    said: Raw = getattr(record, field)
    if is_absent(said):
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
            found += _said(part.text)
    return found


def _said(raw: Raw) -> Sequence[Sign]:
    if bytes(memoryview(raw)[1:2]) not in (b"<", b"["):
        return ()
    text = _head(raw)
    if text.startswith(b'"<command-'):
        command = _COMMAND.search(text)
        return (("slash-command", command[1].decode("utf-8", "replace")[:_DETAIL] if command else ""),)
    return (("interrupt", ""),) if text.startswith(b'"[Request interrupted') else ()


_COMMAND = re.compile(rb"<command-name>(/?[\w:.-]+)")


def of_error(line: bytes) -> Sequence[Sign]:
    """Return the sign of a line that stands for an answer that never came."""
    return (("api-error", ""),) if b'"isApiErrorMessage":true' in line else ()


def of_system(record: Record) -> Sequence[Sign]:
    """Return the sign of a system line that is no compaction and cleared nothing."""
    name = _SYSTEM.get(record.subtype or "")
    return () if name is None else ((name, ""),)


_SYSTEM = {"api_error": "api-error", "microcompact_boundary": "micro-compaction"}


def of_attachment(line: bytes) -> Sequence[Sign]:
    """Return the sign of a line that is an attachment."""
    try:
        attached = _ATTACHMENT.decode(line).attachment
    except (ValueError, RecursionError):  # of a shape to come: it says nothing that is known here
        return ()
    name = _ATTACHED.get(attached.type)
    if name is not None:
        return ((name, (attached.hook_name or "")[:_DETAIL]),)
    return (("resume", ""),) if attached.hook_name == "SessionStart:resume" else ()


def _head(raw: Raw) -> bytes:
    return bytes(memoryview(raw)[:_LOOKED_AT])


def _shown(raw: Raw) -> str:
    return bytes(raw).decode("utf-8", "replace").strip('"')[:_DETAIL]
