"""Signs in Claude Code's logs: what a line shows of the next request besides its text.

In: parts of a line as they were decoded. Out: signs. Rules: whether there is one is told from the beginning of
long content; what has an unexpected shape is no sign, or one that names nothing.

Source: counts over 769 public sessions of what stood before a drop of billed reads; shapes of what names tools,
servers, skills and hooks, over recordings of versions 1.0 to 2.1.217.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from lore.formats.claude_memory import ChainMemory
from lore.formats.claude_records import Image, Part, Plain, Record, Text
from lore.model import lenient
from lore.model.items import NULL, is_absent
from lore.model.state import LONGEST, Sign, bounded

RESUMED = b'"SessionStart:resume"'
_LOOKED_AT = 256  # bytes of a result or a text
_IMAGE = Sign("image")
_NONE = Raw(b"[]")


class _Attachment(Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    hook_name: Raw = _NONE
    hook_event: Raw = _NONE
    added_names: Raw = _NONE
    readded_names: Raw = _NONE
    removed_names: Raw = _NONE


class _Attached(Struct, frozen=True, gc=False):
    attachment: _Attachment = _Attachment()


class _SkillCall(Struct, frozen=True, gc=False):
    skill: Raw = _NONE
    command: Raw = _NONE  # another spelling


class _ToolReference(Struct, frozen=True, gc=False):
    type: str = ""
    tool_name: Raw = _NONE


_ATTACHMENT = msgspec.json.Decoder(_Attached)
_SKILL_CALL = msgspec.json.Decoder(_SkillCall)
_REFERENCES = msgspec.json.Decoder(tuple[_ToolReference, ...])
_NAMES = msgspec.json.Decoder(tuple[str, ...] | str)
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
    if known == NULL or said == known:
        return ()
    return (Sign(_STANDING[field], before=_shown(known), after=_shown(said)),)


_STANDING = {"version": "client-version", "effort": "effort", "permission_mode": "permission-mode"}


def of_result(content: Raw) -> Sequence[Sign]:
    """Return the signs of a result that is a list."""
    head = _head(content)
    found = [Sign("tool-reference", _references(content))] if b'"tool_reference"' in head else []
    return [*found, _IMAGE] if b'"type":"image"' in head else found


def _references(content: Raw) -> tuple[str, ...]:
    """Return the tools that a search found."""
    try:
        blocks = _REFERENCES.decode(content)
    except (ValueError, RecursionError):  # a block of another shape
        return ()
    return bounded(name for one in blocks if one.type == "tool_reference" for name in _named(one.tool_name))


def of_skill(given: Raw) -> Sequence[Sign]:
    """Return the sign of a call of the tool `Skill`."""
    try:
        call = _SKILL_CALL.decode(given)
    except (ValueError, RecursionError):  # its input is no object
        return (Sign("skill"),)
    return (Sign("skill", bounded(_named(call.skill) or _named(call.command))),)


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
        return (Sign("slash-command", bounded((command[1].decode(),)) if command else ()),)
    return (Sign("interrupt"),) if text.startswith(b'"[Request interrupted') else ()


_COMMAND = re.compile(rb"<command-name>(/?[\w:.-]+)")


def of_error(line: bytes) -> Sequence[Sign]:
    """Return the sign of a line that stands for an answer that never came."""
    return (Sign("api-error"),) if b'"isApiErrorMessage":true' in line else ()


def of_system(record: Record) -> Sequence[Sign]:
    """Return the sign of a system line that is no compaction and cleared nothing."""
    name = _SYSTEM.get(record.subtype or "")
    return () if name is None else (Sign(name),)


_SYSTEM = {"api_error": "api-error", "microcompact_boundary": "micro-compaction"}


def of_attachment(line: bytes) -> Sequence[Sign]:
    """Return the sign of a line that is an attachment."""
    try:
        attached = _attached(line).attachment
    except (ValueError, RecursionError):  # of a shape to come: it says nothing that is known here
        return ()
    name = _ATTACHED.get(attached.type)
    hook = _named(attached.hook_name)
    if name is None:
        return (Sign("resume"),) if "SessionStart:resume" in hook else ()
    if name == "hook-context":
        return (Sign(name, bounded(hook or _named(attached.hook_event))),)
    came = (*_named(attached.added_names), *_named(attached.readded_names))
    return (Sign(name, bounded(came), bounded(_named(attached.removed_names))),)


def _attached(line: bytes) -> _Attached:
    try:
        return _ATTACHMENT.decode(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # lone surrogates, as in a hook's text
        made: _Attached = lenient.convert(line, _Attached)
        return made


def _named(raw: Raw) -> Sequence[str]:
    """Return a name or names; none where it is something else."""
    try:
        said = _NAMES.decode(raw)
    except (ValueError, RecursionError):
        return ()
    return (said,) if isinstance(said, str) else said


def _head(raw: Raw) -> bytes:
    return bytes(memoryview(raw)[:_LOOKED_AT])


def _shown(raw: Raw) -> str:
    return bytes(raw).decode("utf-8", "replace").strip('"')[:LONGEST]
