"""Signals in Claude Code's logs: what a record shows, apart from its text, that may change a prompt or the cache.

A signal is read from the beginning of long content. Content of an unexpected shape has none, or one without names.

Source: what preceded falls of the tokens read in 769 public sessions, versions 1.0 to 2.1.217.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Raw

from lore.formats.claude import records
from lore.model import items
from lore.model.jsonslice import array, raw_members
from lore.model.state import Sign, bounded

STARTED = b'"SessionStart:'  # the hooks that run when a process of the client begins or resumes a session
RESUMED = b'"SessionStart:resume"'
PENDING = "pendingMcpServers"  # tool servers that are not connected: a new process, or a server that dropped out
SETTINGS = {"version": "client-version", "effort": "effort", "permission_mode": "permission-mode"}  # field: signal
SYSTEM = {"api_error": "api-error", "microcompact_boundary": "micro-compaction"}  # subtype of a system record: signal
_ATTACHMENTS = {
    "deferred_tools_delta": "tools-delta",
    "mcp_instructions_delta": "instructions-delta",
    "hook_additional_context": "hook-context",
}
_CLIENT_TEXTS = (b'"<command-', b'"<local-command-', b'"[Request interrupted')  # the client's own, not prompts
_EXITS = ("/exit", "/quit")  # commands that end the process
_PLAN = b'"Implement the following plan'  # how a client opens the conversation that carries out an accepted plan
# Tokens that a request with extended thinking leaves uncached, at least, and one without it, at most (Claude Code 2.0
# and 2.1 with Opus 4.5: 7 to 10 and 0 to 3). Other models leave the same number either way.
_UNCACHED_ON, _UNCACHED_OFF = 7, 3
_COMMAND = re.compile(rb"<command-name>(/?[\w:.-]+)")
_HEAD = 256  # bytes of a result or text that are searched
_NAMES = msgspec.json.Decoder(tuple[str, ...] | str)


def signals_of_prompt(parts: Sequence[records.Part]) -> Iterator[Sign]:
    """Yield the signals of a user's message."""
    for part in parts:
        if type(part) is records.ClaudeImage:
            yield Sign("image")
        elif type(part) is records.Plain or type(part) is items.TextBlock:
            yield from _signals_of_text(part.text)


def _signals_of_text(raw: Raw) -> Iterator[Sign]:
    if bytes(memoryview(raw)[1:2]) not in (b"<", b"["):
        return
    text = _head(raw)
    if text.startswith(b'"<command-'):
        command = _COMMAND.search(text)
        names = bounded((command[1].decode(),)) if command else ()
        yield Sign("slash-command", names)
        if names and names[0] in _EXITS:
            yield Sign("restart", names)
    elif text.startswith(b'"[Request interrupted'):
        yield Sign("interrupt")


def begins_conversation(parts: Sequence[records.Part], *, after_plan: bool) -> bool:
    """Return whether a user's message begins a new conversation in the same log.

    That is `/clear`, or, after a plan was presented (`after_plan`), the prompt to carry it out with a cleared context.
    """
    texts = [_head(part.text) for part in parts if isinstance(part, records.Plain | items.TextBlock)]
    if after_plan and any(text.startswith(_PLAN) for text in texts):
        return True
    commands = [_COMMAND.search(text) for text in texts if text.startswith(b'"<command-')]
    return any(command is not None and command[1] == b"/clear" for command in commands)


class ThinkingSetting:
    """Whether requests ask for extended thinking, as their answers and uncached tokens show it."""

    def __init__(self) -> None:
        self._latest = ""
        self._least: int | None = None  # uncached tokens of a request whose answer began with thinking

    def change(self, uncached: int | None, *, thinks: bool) -> Sign | None:
        """Return the signal that the next request switched the setting; None if it did not.

        `thinks`: its answer begins with thinking.
        """
        if uncached is None:
            return None
        before = self._latest
        if thinks:
            self._least, self._latest = min(uncached, self._least or uncached), "on"
        elif self._least is not None and self._least >= _UNCACHED_ON and uncached <= _UNCACHED_OFF:
            self._latest = "off"
        changed = before and before != self._latest
        return Sign("thinking", before=before, after=self._latest) if changed else None


def is_client_text(part: records.Part) -> bool:
    """Return whether the client wrote a text of a user's message about itself."""
    return isinstance(part, records.Plain | items.TextBlock) and _head(part.text).startswith(_CLIENT_TEXTS)


def is_thinking(part: records.Part) -> bool:
    """Return whether a part of a response is reasoning."""
    return type(part) is records.ClaudeThinking or (
        type(part) is records.Other and b'"redacted_thinking"' in _head(part.json)
    )


def is_thinking_off(metadata: Mapping[str, bytes]) -> bool:
    """Return whether the metadata of a prompt switches thinking off."""
    is_disabled = metadata.get("disabled") == b"true" or metadata.get("level") == b'"none"'
    return is_disabled or metadata.get("maxThinkingTokens") == b"0"


def signals_of_result(content: Raw) -> Iterator[Sign]:
    """Yield the signals of a result that is a list: tools that a search found, images."""
    head = _head(content)
    if b'"tool_reference"' in head:
        blocks = [raw_members(block) or {} for block in array(bytes(content))]
        is_sound = all(block.get("type", b"")[:1] == b'"' for block in blocks)
        found = [block for block in blocks if block.get("type") == b'"tool_reference"' and is_sound]
        yield Sign("tool-reference", bounded(name for block in found for name in names_in(block, "tool_name")))
    if b'"type":"image"' in head:
        yield Sign("image")


def signal_of_skill(call: records.ClaudeToolUse) -> Sign:
    """Return the signal of a call that loads a skill; its input has one of two spellings."""
    given = raw_members(bytes(call.input)) or {}
    return Sign("skill", bounded(names_in(given, "skill") or names_in(given, "command")))


def signals_of_attachment(line: bytes) -> Iterator[Sign]:
    """Yield the signals of an attachment: tools and instructions that came or went, hooks, a resumed session."""
    attached = raw_members((raw_members(line) or {}).get("attachment", b"")) or {}
    name = _ATTACHMENTS.get(attached.get("type", b"").strip(b'"').decode("utf-8", "replace"))
    hooks = names_in(attached, "hookName")
    if name is None:
        if "SessionStart:resume" in hooks:
            yield Sign("resume")
        elif "SessionStart:startup" in hooks:
            yield Sign("restart", ("SessionStart:startup",))
    elif name == "hook-context":
        yield Sign(name, bounded(hooks or names_in(attached, "hookEvent")))
    else:
        if names_in(attached, PENDING):  # a process that has just begun still connects to them
            yield Sign("restart", (PENDING,))
        added = names_in(attached, "addedNames", "readdedNames")
        yield Sign(name, bounded(added), bounded(names_in(attached, "removedNames")))


def names_in(members: Mapping[str, bytes | Raw], *keys: str) -> list[str]:
    """Return the name or names that these members hold; members of another type are ignored."""
    names: list[str] = []
    for raw in (members[key] for key in keys if key in members):
        try:
            value = _NAMES.decode(raw)
        except (ValueError, RecursionError):
            continue
        names += [value] if isinstance(value, str) else value
    return names


def _head(raw: Raw) -> bytes:
    return bytes(memoryview(raw)[:_HEAD])
