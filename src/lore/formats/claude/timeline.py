"""What lines of Claude Code's logs become in the timeline: items, bills, signs; what is kept and what is taken back.

In: lines as they were decoded, and what the reader remembers of those before. Lines form a graph by `parentUuid`;
files may hold cycles, parents that are not there, and copies: every walk here visits a line at most once. A sign is
what a line shows of the next request besides its text: it is told from the beginning of long content, and what has an
unexpected shape is no sign, or one that names nothing.

Source: counts over 769 public sessions, versions 1.0 to 2.1.217: shapes of content (text, thinking, often empty with a
signature, tool_use, tool_result, image, and blocks to come, kept verbatim), what stood before a drop of billed reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from lore.formats.claude import records
from lore.formats.values import opens
from lore.model import events as e
from lore.model import items
from lore.model.canonical import encode, text_of
from lore.model.jsonslice import array, raw_members
from lore.model.limits import BRANCH_WALKS
from lore.model.state import Sign, bounded


class ClaudeChainMemory(Struct):
    """What the reader remembers of one chain.

    `seen` has every response and its turn; `order` the lines since the last compaction (and those that it
    kept) that make items or may lead to some, each with its response; `calls` the item of each of their
    calls; `prompts` the user's message under each parent; `boundary` a compaction that waits for its
    summary, `held` what came between the two, with line and byte. `version`, `effort` and `permission_mode` are the
    latest that it said. `spoke` and `thought` say what the answers since the last prompt hold, `thinks` whether any
    before held thinking.
    """

    response: str | None = None
    turn: int = 0
    model: str | None = None
    usage: Raw = items.NULL
    verdict: e.Verdict | None = None
    answered_at: str | None = None
    asked_at: str | None = None
    seen: dict[str, int] = {}
    boundary: e.CompactApplied | None = None
    held: list[tuple[int, int, e.Append]] = []
    order: dict[str, str | None] = {}
    calls: dict[str, str] = {}
    prompts: dict[str, str] = {}
    version: Raw = items.NULL
    effort: Raw = items.NULL
    permission_mode: Raw = items.NULL
    spoke: bool = False
    thought: bool = False
    thinks: bool = False


class ClaudeMemory(Struct):
    """All that the reader remembers.

    `parents` has every line that has a uuid; `items` those that made other than one item of their own
    uuid; `missing` the parents that no line so far has, with the places where they were named; `taken` the
    lines that rewinds took back; `walked` how many lines compactions were followed over.
    """

    session: str | None = None
    title: str = ""
    is_named: bool = False  # the user gave the title
    summaries: dict[str, str] = {}  # titles in old logs, by the last line of the session that they name
    parents: dict[str, str | None] = {}
    items: dict[str, tuple[str, ...]] = {}
    missing: dict[str, list[tuple[int, int]]] = {}
    taken: dict[str, None] = {}
    side: dict[str, str] = {}
    sides: int = 0
    walked: int = 0
    chains: dict[str, ClaudeChainMemory] = {}

    def made(self, chain: ClaudeChainMemory, uuid: str) -> tuple[str, ...]:
        """Return the items that a line of this chain made."""
        return self.items.get(uuid, (uuid,) if uuid in chain.order else ())


def preserved(memory: ClaudeMemory, chain: ClaudeChainMemory, meta: records.Compact) -> list[str] | None:
    """Return the lines that a compaction kept; None where it says nothing of it.

    A list supersedes a segment. A segment whose tail does not lead to its head gives one name that no
    line has: the fold then prunes nothing and says so.
    """
    if meta.preserved_messages is not None and meta.preserved_messages.uuids is not None:
        return list(dict.fromkeys(meta.preserved_messages.uuids))
    if meta.preserved_segment is None:
        return None
    path = _path(memory, meta.preserved_segment)
    if path is None:
        return [f"{meta.preserved_segment.head_uuid} to {meta.preserved_segment.tail_uuid}"]
    responses = {chain.order.get(uuid) for uuid in path} - {None}  # parallel calls hang beside the path
    kept = [uuid for uuid, response in chain.order.items() if uuid in path or response in responses]
    memory.walked += len(kept)
    return kept


def _path(memory: ClaudeMemory, segment: records.PreservedSegment) -> set[str] | None:
    """Walk from a segment's tail to its head; None where the way ends before it.

    Work stays linear in the lines: where too many were walked over already, the way ends too.
    """
    at, path, found = segment.tail_uuid, set[str](), False
    room = BRANCH_WALKS * len(memory.parents) - memory.walked
    while not found and at is not None and at not in path and at in memory.parents and len(path) < room:
        path.add(at)
        found = at == segment.head_uuid
        at = memory.parents[at]
    memory.walked += len(path)
    return path if found else None


def kept_items(memory: ClaudeMemory, chain: ClaudeChainMemory, kept: list[str]) -> tuple[str, ...]:
    """Return the items of these lines; a line that no one knows stands for itself, for the fold to report."""
    found: dict[str, None] = {}
    for uuid in kept:
        own = memory.made(chain, uuid) if uuid in memory.parents else (uuid,)
        found.update(dict.fromkeys(own))
    return tuple(found)


def branch(memory: ClaudeMemory, chain: ClaudeChainMemory, prompt: str, new: str) -> list[str]:
    """Return a prompt's line and the live lines that descend from it, the new prompt left out."""
    if prompt not in chain.order:
        return []
    since: list[str] = []
    for uuid in reversed(chain.order):
        since.append(uuid)
        if uuid == prompt:
            break
    gone, stay = {prompt}, {new}
    for uuid in reversed(since[:-1]):
        if uuid not in stay:
            _settle(memory, uuid, gone, stay)
    return [uuid for uuid in reversed(since) if uuid in gone]


def _settle(memory: ClaudeMemory, uuid: str, gone: set[str], stay: set[str]) -> None:
    """Put a line and all above it that is not known yet on the side where its ancestors are."""
    path: dict[str, None] = {}
    at: str | None = uuid
    while at is not None and at not in gone and at not in stay and at not in path:
        path[at] = None
        at = memory.parents.get(at)
    (gone if at in gone else stay).update(path)


def prompt_of(uuid: str, parts: Sequence[records.Part], source: str) -> items.UserMessage:
    """Convert a user's message, which is one text or several parts."""
    whole = parts[0] if len(parts) == 1 else None
    if type(whole) is records.Plain:
        return items.UserMessage(uuid, text=whole.text, source=source)
    return items.UserMessage(uuid, blocks=tuple(map(block_of, parts)), source=source)


def block_of(part: records.Part) -> items.Block:
    """Convert a block; a call or result in a place where none belongs is kept as the block that it is."""
    match part:
        case items.TextBlock():
            return part
        case records.Plain(text=text):
            return items.TextBlock(text)
        case records.ClaudeThinking(thinking=text, signature=signature):
            return items.ThinkingBlock(text, signature)
        case records.ClaudeImage(source=source):
            return items.ImageBlock(source.media_type, source.data)
        case records.Other(json=raw):
            return items.RawBlock(raw)
        case records.ClaudeToolUse() | records.ToolResult():
            return items.RawBlock(Raw(msgspec.json.encode(part)))


def spoken(uuid: str, part: records.Part, stop_reason: str | None, response: str) -> items.Item:
    """Convert a part of a response: a call, or something said."""
    if type(part) is records.ClaudeToolUse:
        return items.ToolCall(uuid, part.id, part.name, part.input, response_id=response)
    if type(part) is records.Plain:
        return items.AssistantMessage(uuid, text=part.text, response_id=response)
    return items.AssistantMessage(uuid, blocks=(block_of(part),), stop_reason=stop_reason, response_id=response)


def output_of(content: Raw) -> Raw:
    """Convert a result's content: a text stays, a list becomes lore's blocks, nothing an empty text."""
    if opens(content) == '"':
        return content
    text = bytes(content)
    if text[:1] == b"[":
        return Raw(b"[" + b",".join([msgspec.json.encode(block_of(part)) for part in records.parts_of(text)]) + b"]")
    return Raw(b'""') if text == b"null" else Raw(b'[{"type":"raw","json":' + text + b"}]")


def summary_of(parts: Sequence[records.Part]) -> Raw:
    """Return a summary's text, from a text or from the text blocks of a list."""
    if len(parts) == 1 and isinstance(parts[0], records.Plain):
        return parts[0].text
    return Raw(encode("\n\n".join([text_of(bytes(part.text)) for part in parts if isinstance(part, items.TextBlock)])))


RESUMED = b'"SessionStart:resume"'
_LOOKED_AT = 256  # bytes of a result or a text
_IMAGE = Sign("image")
_NAMES = msgspec.json.Decoder(tuple[str, ...] | str)
_ATTACHED = {
    "deferred_tools_delta": "tools-delta",
    "mcp_instructions_delta": "instructions-delta",
    "hook_additional_context": "hook-context",
}


def signs_of_change(record: records.ClaudeRecord, chain: ClaudeChainMemory, field: str) -> Sequence[Sign]:
    """Return that a standing field says another thing than on the lines before; remember what it says."""
    value: Raw = getattr(record, field)
    if items.is_absent(value):
        return ()
    known: Raw = getattr(chain, field)
    setattr(chain, field, value.copy())
    if known == items.NULL or value == known:
        return ()
    return (Sign(_STANDING[field], before=records.shown(known), after=records.shown(value)),)


_STANDING = {"version": "client-version", "effort": "effort", "permission_mode": "permission-mode"}


def signs_of_result(content: Raw) -> Sequence[Sign]:
    """Return the signs of a result that is a list."""
    head = _head(content)
    found: list[Sign] = []
    if b'"tool_reference"' in head:  # the tools that a search found
        blocks = [raw_members(block) or {} for block in array(bytes(content))]
        odd = any(block.get("type", b"")[:1] != b'"' for block in blocks)
        tools = [block for block in blocks if block.get("type") == b'"tool_reference"' and not odd]
        found.append(Sign("tool-reference", bounded(name for tool in tools for name in names_in(tool, "tool_name"))))
    return [*found, _IMAGE] if b'"type":"image"' in head else found


def signs_of_prompt(
    record: records.ClaudeRecord, chain: ClaudeChainMemory, parts: Sequence[records.Part]
) -> Sequence[Sign]:
    """Return the signs of a user's message."""
    found = [*signs_of_change(record, chain, "permission_mode"), *_signs_of_thinking(record, chain, parts)]
    for part in parts:
        if type(part) is records.ClaudeImage:
            found.append(_IMAGE)
        elif type(part) is records.Plain or type(part) is items.TextBlock:
            found += _signs_of_text(part.text)
    return found


def note_thinking(chain: ClaudeChainMemory, parts: Sequence[records.Part]) -> None:
    """Remember whether what the model said holds thinking."""
    chain.spoke = True
    for part in parts:
        if type(part) is records.ClaudeThinking or (
            type(part) is records.Other and b'"redacted_thinking"' in bytes(part.json)[:_LOOKED_AT]
        ):
            chain.thought = chain.thinks = True


def _signs_of_thinking(
    record: records.ClaudeRecord, chain: ClaudeChainMemory, parts: Sequence[records.Part]
) -> Sequence[Sign]:
    """Return that nothing was thought since the last prompt, at the next one; a command's lines are none.

    Whether thinking is on the line says; where it does not, the chain's answers before do.
    """
    first = parts[0]
    text = _head(first.text) if type(first) is records.Plain or type(first) is items.TextBlock else b""
    if record.is_meta or text.startswith(_CLIENTS):
        return ()
    said = raw_members(bytes(record.thinking_metadata)) or {}
    off = said.get("disabled") == b"true" or said.get("level") == b'"none"' or said.get("maxThinkingTokens") == b"0"
    missing = chain.spoke and not chain.thought and not off and (bool(said) or chain.thinks)
    chain.spoke = chain.thought = False
    return (Sign("no-thinking"),) if missing else ()


# How a text begins that is the client's word about itself, and no prompt.
_CLIENTS = (b'"<command-', b'"<local-command-', b'"[Request interrupted')


def _signs_of_text(raw: Raw) -> Sequence[Sign]:
    if bytes(memoryview(raw)[1:2]) not in (b"<", b"["):
        return ()
    text = _head(raw)
    if text.startswith(b'"<command-'):
        command = _COMMAND.search(text)
        names = bounded((command[1].decode(),)) if command else ()
        found = Sign("slash-command", names)
        return (found, Sign("restart", names)) if names and names[0] in _LEAVING else (found,)
    return (Sign("interrupt"),) if text.startswith(b'"[Request interrupted') else ()


_LEAVING = ("/exit", "/quit")  # commands that end the process
_COMMAND = re.compile(rb"<command-name>(/?[\w:.-]+)")


# The sign of a system line that is no compaction and cleared nothing, by its subtype.
SYSTEM_SIGNS = {"api_error": (Sign("api-error"),), "microcompact_boundary": (Sign("micro-compaction"),)}


def signs_of_attachment(line: bytes) -> Sequence[Sign]:
    """Return the sign of a line that is an attachment."""
    attached = raw_members((raw_members(line) or {}).get("attachment", b"")) or {}
    name = _ATTACHED.get(attached.get("type", b"").strip(b'"').decode("utf-8", "replace"))
    hook = names_in(attached, "hookName")
    if name is None:
        started = (Sign("restart", ("SessionStart:startup",)),) if "SessionStart:startup" in hook else ()
        return (Sign("resume"),) if "SessionStart:resume" in hook else started
    if name == "hook-context":
        return (Sign(name, bounded(hook or names_in(attached, "hookEvent"))),)
    added = names_in(attached, "addedNames", "readdedNames")
    announced = Sign(name, bounded(added), bounded(names_in(attached, "removedNames")))
    pending = names_in(attached, "pendingMcpServers")  # servers that a process which just began still connects to
    return (Sign("restart", ("pendingMcpServers",)), announced) if pending else (announced,)


def names_in(members: Mapping[str, bytes | Raw], *keys: str) -> list[str]:
    """Return the name or names that these members hold; none where they hold something else."""
    found: list[str] = []
    for raw in (members[key] for key in keys if key in members):
        try:
            names = _NAMES.decode(raw)
        except (ValueError, RecursionError):
            continue
        found += [names] if isinstance(names, str) else names
    return found


def _head(raw: Raw) -> bytes:
    return bytes(memoryview(raw)[:_LOOKED_AT])
