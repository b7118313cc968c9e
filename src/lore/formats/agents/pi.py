"""The reader of sessions of pi, oh-my-pi and OpenClaw (`~/.pi/agent/sessions`, `~/.omp/agent/sessions`), versions 1-3.

A line is an entry of a tree. A prompt is the path from the root to the last entry, from the path's last compaction or
reset on. A message of the assistant is one request: its own time is when it was asked for, that of its line when it was
answered. Each answer names its API, so that a session may have several dialects. A request that failed or was aborted
has no usage if all its counts are 0, and its content is in no later prompt.

If an entry does not follow the last one, the items after its parent are removed, and those of the parent's branch are
appended again. A compaction keeps the entries from one on (version 1 gives its index in the file), or lists what it
keeps (`retainedTail`). Only the latest lines, up to `REPLAYED_BYTES`, are held in memory to be appended again.

The system prompt is in the file of oh-my-pi's subagents only; tools are in none. A summary with usage was a request, on
a chain of its own. The title in the first line of oh-my-pi's files is the latest one.

Sources: pi's session-format.md and session-manager.ts, oh-my-pi's session.md (autumn 2026); counts over 44 public
sessions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from lore.formats.bills import name_of, recorded_dollars, usage_without_cached_input
from lore.formats.builder import LogReader
from lore.formats.contents import unescape
from lore.formats.lines import nonblank_lines
from lore.formats.values import Other, Parts, result_of, spoken, stamp_at, text_in
from lore.model import events as e
from lore.model import lenient
from lore.model.canonical import decode, encode, text_of
from lore.model.codes import Code
from lore.model.events import PatchToolCall, Usage
from lore.model.items import (
    NULL,
    Block,
    ImageBlock,
    Item,
    OpaqueItem,
    RawBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    UserMessage,
    is_absent,
)
from lore.model.jsonslice import is_json, member_ranges, raw_members
from lore.model.limits import REPLAYED_BYTES, REPLAYED_ENTRIES
from lore.model.mask import cut_masked, mask
from lore.model.state import Sign

# records


class PiUsage(Struct, frozen=True, gc=False, rename="camel"):
    """Token counts of a response."""

    input: int | None = None  # neither read from a cache nor written to one
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = msgspec.field(default=None, name="cacheWrite1h")
    total_tokens: int | None = None
    cost: Raw = NULL  # in US dollars, by the client's own prices


class PiMessage(Struct, frozen=True, gc=False, rename="camel"):
    """A message; its role decides which fields it has."""

    role: str = ""
    content: Raw = NULL
    api: str = ""  # over which a response came
    model: str | None = None
    response_id: str | None = None
    stop_reason: str = ""
    error_message: Raw = NULL
    timestamp: int | float | str | None = None  # when a response was asked for, in ms
    usage: PiUsage | None = None
    tool_call_id: str = ""
    is_error: Raw = NULL
    details: Raw = NULL
    summary: Raw = NULL
    command: Raw = NULL
    code: Raw = NULL
    output: Raw = NULL
    exit_code: Raw = NULL
    cancelled: Raw = NULL
    truncated: Raw = NULL
    full_output_path: Raw = NULL
    exclude_from_context: Raw = NULL


class PiEntry(Struct, frozen=True, gc=False, rename="camel"):
    """A line; its type decides which fields it has."""

    type: str
    id: str | None = None  # version 1 of the format has none
    parent_id: str | None | UnsetType = UNSET  # unset: the previous entry
    timestamp: str | None = None
    message: PiMessage | None = None
    thinking_level: str | None = None
    summary: Raw = NULL
    first_kept_entry_id: str | None = None
    first_kept_entry_index: int | None = None  # of all lines of the file: the header's is 0
    tokens_before: Raw = NULL
    retained_tail: list[Raw] | None = None
    content: Raw = NULL
    system_prompt: Raw = NULL
    usage: PiUsage | None = None  # of the request for a summary
    title: Raw = NULL
    name: Raw = NULL  # pi's name for a title
    parent_session: str | None = None
    branched_from: str | None = None


class PiText(Struct, frozen=True, gc=False, tag="text"):
    """Text."""

    text: Raw


class PiThinking(Struct, frozen=True, gc=False, tag="thinking", rename="camel"):
    """Reasoning."""

    thinking: Raw
    thinking_signature: Raw = NULL  # the provider's signature, or its own reasoning item as JSON text
    redacted: bool = False


class PiCall(Struct, frozen=True, gc=False, tag="toolCall"):
    """A tool call."""

    id: str
    name: str = ""
    arguments: Raw = Raw(b"{}")


class PiImage(Struct, frozen=True, gc=False, tag="image", rename="camel"):
    """An image."""

    data: Raw
    mime_type: str


PiPart: TypeAlias = PiText | PiThinking | PiCall | PiImage
_PARTS = Parts[PiPart](
    PiPart, {PiText: attrgetter("text"), PiThinking: attrgetter("thinking"), PiImage: attrgetter("data")}
)
decode_entry = lenient.decoding(PiEntry)
decode_message = lenient.decoding(PiMessage)

# Entries that no prompt holds.
SILENT = frozenset((
    "custom", "label", "session_info", "title_change", "credential_pin", "mode_change", "ttsr_injection",
    "service_tier_change", "model_change",
))  # fmt: skip
UNFINISHED = ("error", "aborted")  # stop reasons of responses that no later prompt holds
STOP_REASONS = {"toolUse": "tool_use", "stop": "end_turn", "length": "max_tokens"}
# By the beginning of an API's name: the dialect of its requests.
_DIALECTS = {
    "anthropic": "anthropic", "openai-completions": "openai-chat", "mistral": "openai-chat", "google": "gemini",
    "openai-responses": "openai-responses", "openai-codex-responses": "openai-responses",
    "azure-openai-responses": "openai-responses", "bedrock": "bedrock",
}  # fmt: skip
_INJECTED = "context_injection"
_COMPACTED = (
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n",
    "\n</summary>",
)
BRANCH = ("The following is a summary of a branch that this conversation came back from:\n\n<summary>\n", "</summary>")
_REASONING = re.compile(rb'"type"\s*:\s*"reasoning"')
_QUOTE, _BRACKET = b'"['
_NEAR = 200  # bytes in which a reasoning item should name its type

# messages as items

Made: TypeAlias = tuple[Item, ...] | PatchToolCall


def made_of(message: PiMessage, id: str, at: str | None) -> Made | None:
    """Return the items or the result that a message is in a prompt, () if no prompt holds it; None: unknown role."""
    match message.role:
        case "user":
            return (user_message(id, message.content, "user"),)
        case "assistant":
            if message.stop_reason in UNFINISHED:
                return ()
            stop = STOP_REASONS.get(message.stop_reason, message.stop_reason) or None
            said = (
                ToolCall("", part.id, part.name, part.arguments) if type(part) is PiCall else block_of(part)
                for part in parts_of(message.content)
            )
            return tuple(spoken(said, id, message.response_id or id, stop))
        case "toolResult":
            parts: Sequence[PiPart | Other] = () if is_absent(message.content) else parts_of(message.content)
            status = "failed" if _is_true(message.is_error) else "completed"
            output, call = result_of(tuple(map(block_of, parts))), message.tool_call_id
            return PatchToolCall(call_id=call, status=status, output=output, detail=message.details, at=at)
        case "custom" | "hookMessage" | "developer":
            return (user_message(id, message.content),)
        case "bashExecution" | "pythonExecution":
            is_hidden = _is_true(message.exclude_from_context)
            return () if is_hidden else (injected(id, Raw(encode(_execution(message)))),)
        case "branchSummary":
            return (injected(id, wrap_summary(message.summary, BRANCH)),)
        case "compactionSummary":
            return (injected(id, wrap_summary(message.summary)),)
        case _:
            return None


def injected(id: str, text: Raw) -> UserMessage:
    """Return a text of the client's own."""
    return UserMessage(id, text=text, source=_INJECTED)


def user_message(id: str, content: Raw, source: str = _INJECTED) -> UserMessage:
    """Return content of the user's role."""
    parts = parts_of(content)
    if len(parts) == 1 and isinstance(parts[0], PiText):
        return UserMessage(id, text=parts[0].text, source=source)
    return UserMessage(id, blocks=tuple(map(block_of, parts)), source=source)


def wrap_summary(summary: Raw, words: tuple[str, str] = _COMPACTED) -> Raw:
    """Return a summary between the words that the prompt has around it; NULL if there is none."""
    raw, (begin, end) = bytes(summary), words
    return Raw(encode(begin)[:-1] + raw[1:-1] + encode(end)[1:]) if raw[:1] == b'"' else NULL


def call_ids(message: PiMessage) -> list[str]:
    """Return the ids of the calls in a response."""
    try:
        return [part.id for part in parts_of(message.content) if type(part) is PiCall]
    except ValueError:
        return []


def has_image(made: Made) -> bool:
    """Return whether a message brought an image into the prompt."""
    if isinstance(made, PatchToolCall):
        return memoryview(made.output)[0] == _BRACKET and b'"type":"image"' in bytes(made.output)
    blocks = made[0].blocks if made and isinstance(made[0], UserMessage) else None
    return blocks is not None and any(isinstance(block, ImageBlock) for block in blocks)


def parts_of(content: Raw) -> Sequence[PiPart | Other]:
    """Decode content, a text or blocks; ValueError if it is neither."""
    first = memoryview(content)[0]
    if first == _QUOTE:
        return [PiText(content)]
    if first != _BRACKET:
        raise ValueError("content is neither text nor blocks")
    return _PARTS.decode(content)


def block_of(part: PiPart | Other) -> Block:
    """Convert a block of content."""
    match part:
        case PiText():
            return TextBlock(part.text)
        case PiThinking():
            return _thinking(part)
        case PiImage():
            return ImageBlock(part.mime_type, part.data)
        case Other():
            return RawBlock(part.json)
        case PiCall():  # not in a response
            return RawBlock(Raw(msgspec.json.encode(part)))


def _thinking(part: PiThinking) -> Block:
    signature = bytes(part.thinking_signature)
    if signature[:2] == b'"{' and is_json(item := unescape(signature)):  # a provider's own reasoning item
        if _REASONING.search(item, 0, _NEAR) is None:
            others = [b"," + item[member.start : member.end] for member in member_ranges(item) if member.key != "type"]
            item = b'{"type":"reasoning"' + b"".join(others) + b"}"
        return RawBlock(Raw(item))
    if part.redacted and signature[:1] == b'"':
        return RawBlock(Raw(b'{"type":"redacted_thinking","data":' + signature + b"}"))
    return ThinkingBlock(part.thinking, text_of(signature) if signature[:1] == b'"' else None)


def _execution(message: PiMessage) -> str:
    """Return what a command of the user did, in the client's words to the model."""
    command, output = text_in(message.command) or text_in(message.code), text_in(message.output)
    text = f"Ran `{command}`\n" + (f"```\n{output}\n```" if output else "(no output)")
    code: object = decode(bytes(message.exit_code))
    if _is_true(message.cancelled):
        text += "\n\n(command cancelled)"
    elif code is not None and code != 0:
        text += f"\n\nCommand exited with code {code}"
    path = text_in(message.full_output_path)
    return text + (f"\n\n[Output truncated. Full output: {path}]" if _is_true(message.truncated) and path else "")


def _is_true(raw: Raw) -> bool:
    return bytes(raw) == b"true"


# usage


def usage_of(usage: PiUsage | None, dialect: str | None) -> Usage | None:
    """Return the usage of a response; None if all counts are 0, as they are of one that was not finished."""
    counts = () if usage is None else (usage.input, usage.cache_read, usage.cache_write, usage.output)
    if usage is None or not any(counts):
        return None
    recorded = recorded_dollars((raw_members(bytes(usage.cost)) or {}).get("total", b""))
    return usage_without_cached_input(
        *counts, client="pi", dialect=dialect, total=usage.total_tokens, hour=usage.cache_write_1h, recorded=recorded
    )


def dialect_of(api: str) -> str | None:
    """Return the dialect of an API's requests; None if it is unknown."""
    return next((dialect for begin, dialect in _DIALECTS.items() if api.startswith(begin)), None)


_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?=\.jsonl$|$)")
_ENTRY_MEMBERS = frozenset(("type", "id", "parentId", "timestamp"))
_ENTRY_TYPES = SILENT | {"thinking_level_change", "compaction", "branch_summary", "custom_message"}
_Kind = Literal["items", "result", "compaction", "reset"]


@dataclass(slots=True, eq=False)
class Node:
    """An entry of the tree."""

    id: str
    parent: Node | None
    depth: int  # 0: a root
    line: bytes  # empty once it is no longer held
    kind: _Kind = "items"
    items: tuple[str, ...] = ()  # uuids of the items that it made

    @property
    def is_boundary(self) -> bool:
        """Whether prompts begin here."""
        return self.kind in ("compaction", "reset")


class Tree:
    """All entries, and the path to the latest one."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.by_id: dict[str, Node] = {}
        self.path: list[Node] = []
        self.boundary = -1  # index of the path's last compaction or reset; -1: none
        self.kept = -1  # index of the first entry that the boundary keeps
        self._oldest = 0  # index of the first node whose line is held
        self._held_bytes = 0

    @property
    def leaf(self) -> Node | None:
        return self.path[-1] if self.path else None

    def add(self, id: str, line: bytes) -> Node:
        """Add an entry after the leaf."""
        path = self.path
        node = self.by_id[id] = Node(id, path[-1] if path else None, len(path), line)
        self.nodes.append(node)
        path.append(node)
        self._held_bytes += len(line)
        if self._held_bytes > REPLAYED_BYTES:
            while self._held_bytes > REPLAYED_BYTES // 2:
                oldest = self.nodes[self._oldest]
                self._held_bytes -= len(oldest.line)
                self._oldest += 1
                oldest.line = b""
        return node

    def is_on_path(self, node: Node) -> bool:
        return node.depth < len(self.path) and self.path[node.depth] is node

    def between(self, first: int, end: int) -> list[Node]:
        """Return the entries of a part of the path without compactions and resets."""
        return [node for node in self.path[first:end] if not node.is_boundary]

    def shown(self) -> list[Node]:
        """Return the entries of the path that the timeline shows."""
        if self.boundary < 0:
            return self.path
        kept = self.between(self.kept, self.boundary)
        return [self.path[self.boundary], *kept, *self.path[self.boundary + 1 :]]

    def way_to(self, leaf: Node | None) -> tuple[int, list[Node]]:
        """Return how many entries of the path remain on the way to another leaf, and which follow them."""
        branch: list[Node] = []
        node = leaf
        while node is not None and not self.is_on_path(node):
            branch.append(node)
            node = node.parent
        keep = 0 if node is None else node.depth + 1
        while 0 < keep < len(self.path) and self.path[keep].kind == "result":
            keep -= 1  # a result is removed together with its call only
            branch.append(self.path[keep])
        branch.reverse()
        return keep, branch


class Pi(LogReader):
    """Reader of pi's session files."""

    name: ClassVar[str] = "pi"

    def __init__(self) -> None:
        super().__init__()
        self.tree = Tree()
        self.title = ""
        self.has_header = False
        self.dialect: str | None = None
        self.level: str | None = None  # of thinking
        self.asked_level: str | None = None  # of the latest request
        self.skipped_calls: set[str] = set()  # of unfinished responses
        self.replayed = 0  # entries that were appended again
        self.summaries = 0  # requests for summaries

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for line in nonblank_lines(head):
            members = raw_members(line) or {}
            kind = members.get("type", b"")
            if kind == b'"session"':
                return members.get("id", b"")[:1] == b'"' and not {"timestamp", "cwd"}.isdisjoint(members)
            if kind != b'"title"':  # oh-my-pi's first line
                is_entry = members.keys() >= _ENTRY_MEMBERS and _is_known(members)
                return is_entry and "source" not in members  # flue's entries have a source
        return False

    def handle(self, data: bytes) -> None:
        entry = decode_entry(data)
        self.session.at = entry.timestamp
        if entry.type == "title":
            self.title = text_in(entry.title)
        elif entry.type == "session":
            self._read_header(entry)
        else:
            self._start_session("")
            self._add_entry(entry, data)

    def _read_header(self, entry: PiEntry) -> None:
        if self.has_header:
            self.session.problem(Code.BAD_HEADER, "a second session in the same file; read as part of the first")
        self.has_header = True
        self.title = self.title or text_in(entry.title)
        parent = entry.parent_session or entry.branched_from
        uuid = _UUID.search(parent) if parent is not None else None
        self._start_session(entry.id or "", parent if uuid is None else uuid[0])

    def _start_session(self, id: str, parent: str | None = None) -> None:
        self.session.start_session(id, at=self.session.at, parent_session_id=parent, title=self.title or None)

    # the tree

    def _add_entry(self, entry: PiEntry, data: bytes) -> None:
        tree, message = self.tree, entry.message
        if entry.id is not None and entry.id == entry.parent_id:  # a redactor's placeholder identifies nothing
            entry = replace(entry, id=None, parent_id=UNSET)
        uuid = entry.id or f"entry-{len(tree.nodes) + 1}"
        if uuid in tree.by_id:
            self.session.problem(Code.DUPLICATE_UUID, f"entry {mask(uuid)[:60]!r} came before; passed over")
            return
        parent = self._parent_of(entry)
        if parent is not tree.leaf:
            self._move_to(parent)
        node = tree.add(uuid, data)
        if entry.usage is not None and entry.type in ("compaction", "branch_summary"):
            self._add_summary_request(uuid, entry.usage)
        if entry.type == "compaction":
            self._compact(node, entry)
        elif entry.type == "reset_boundary":
            self.session.remove(_items_of(tree.shown()))  # no prompt holds what precedes a reset
            node.kind, tree.boundary, tree.kept = "reset", node.depth, node.depth
        elif entry.type in ("title_change", "session_info"):
            title = text_in(entry.title if entry.type == "title_change" else entry.name)
            if title and title != self.title:
                self.title = title
                self.session.emit(e.SessionChanged(title=title, at=self.session.at))
        elif entry.type == "message" and message is not None and message.role == "assistant":
            self._add_answer(node, entry, message)
        else:
            self._show(node, entry)

    def _parent_of(self, entry: PiEntry) -> Node | None:
        leaf = self.tree.leaf
        if entry.parent_id is UNSET or (leaf is not None and entry.parent_id == leaf.id):
            return leaf
        if entry.parent_id is None:
            return None
        parent = self.tree.by_id.get(entry.parent_id)
        if parent is None:
            missing = f"parent {mask(entry.parent_id)[:60]!r} is missing"
            self.session.problem(Code.DANGLING_PARENT, f"{missing}; read as if the previous entry were the parent")
        return parent or leaf

    def _move_to(self, leaf: Node | None) -> None:
        """Continue after another entry: remove what follows it, and append again what its branch holds."""
        tree = self.tree
        keep, branch = tree.way_to(leaf)
        crosses_boundary = tree.boundary >= keep or any(node.is_boundary for node in branch)
        removed = _items_of(tree.shown() if crosses_boundary else tree.path[keep:])
        tree.path[keep:] = branch
        self.session.remove(removed)
        if not crosses_boundary:
            self._show_again(branch)
            return
        tree.boundary = tree.kept = max((at for at, node in enumerate(tree.path) if node.is_boundary), default=-1)
        if tree.boundary >= 0:
            if tree.path[tree.boundary].kind == "compaction":
                self._compact_again(tree.path[tree.boundary])
            self.skipped_calls = set()
        self._show_again(tree.path[tree.boundary + 1 :])
        self.skipped_calls = set()

    def _compact_again(self, node: Node) -> None:
        tree, session = self.tree, self.session
        if not node.line:
            self._report_lost(1)
            return
        entry = decode_entry(node.line)
        tree.kept = self._first_kept(entry, tree.boundary)
        kept = tree.between(tree.kept, tree.boundary)
        self._show_again(kept)
        now, session.at = session.at, entry.timestamp
        self._apply_compaction(node, entry, kept)
        session.at = now

    def _show_again(self, nodes: Iterable[Node]) -> None:
        session, lost = self.session, 0
        for node in nodes:
            self.replayed += 1
            if node.line and self.replayed <= REPLAYED_ENTRIES:
                entry = decode_entry(node.line)
                now, session.at = session.at, entry.timestamp
                self._show(node, entry)
                session.at = now
            else:
                lost += node.kind == "items" and bool(node.items)
        self._report_lost(lost)

    def _report_lost(self, entries: int) -> None:
        if entries:
            detail = f"{entries} entries of another branch are too far back to be read again; the timeline lacks them"
            self.session.problem(Code.CAPTURE_TOO_LARGE, detail)

    # entries

    def _show(self, node: Node, entry: PiEntry) -> None:
        """Append to the timeline what an entry holds."""
        session, made, reason = self.session, None, ""
        try:
            made = self._made_of(entry, node.id)
        except (ValueError, RecursionError) as error:
            reason = cut_masked(str(error).partition("\n")[0], 120)
        if made is None:
            what = ("message role", entry.message.role) if entry.message is not None else ("entry type", entry.type)
            code = Code.MALFORMED_RECORD if reason else Code.UNKNOWN_RECORD
            session.problem(code, f"{reason or f'unknown {what[0]} {mask(what[1])[:60]!r}'}; kept as opaque")
            made = (OpaqueItem(node.id, Raw(node.line or session.line.data)),)
        if isinstance(made, e.PatchToolCall):
            node.kind = "result"
            self._add_result(made)
            return
        node.items = tuple([item.uuid for item in made])
        for item in made:
            session.append(item)
        if has_image(made):
            session.signal(Sign("image"))

    def _made_of(self, entry: PiEntry, id: str) -> Made | None:
        """Return what an entry is in a prompt, () for one that changes something else; None: unknown."""
        match entry.type:
            case "message":
                return None if entry.message is None else made_of(entry.message, id, entry.timestamp)
            case "custom_message":
                return (user_message(id, entry.content),)
            case "branch_summary":
                text = wrap_summary(entry.summary, BRANCH)
                return () if is_absent(text) else (injected(id, text),)
            case "thinking_level_change":
                self.level = entry.thinking_level
                return ()
            case "session_init":
                if bytes(entry.system_prompt)[:1] == b'"':
                    self.session.emit(e.SessionChanged(system=entry.system_prompt, at=self.session.at))
                return ()
            case kind:
                return () if kind in SILENT else None

    def _add_result(self, made: e.PatchToolCall) -> None:
        if made.call_id not in self.skipped_calls:
            self.session.emit(made)
            if has_image(made):
                self.session.signal(Sign("image"))

    def _add_answer(self, node: Node, entry: PiEntry, message: PiMessage) -> None:
        """Read a response: a turn."""
        session, dialect = self.session, dialect_of(message.api)
        counter = session.counter
        if (message.model, dialect) != (counter.model, self.dialect):
            counter.model, self.dialect = message.model or counter.model, dialect or self.dialect
            session.emit(e.SessionChanged(model=message.model, dialect=dialect))
        if self.level != self.asked_level:
            if self.asked_level is not None and self.level is not None:
                session.signal(Sign("effort", before=self.asked_level, after=self.level))
            self.asked_level = self.level
        counter.asked_at = stamp_at(message.timestamp)
        turn = session.start_turn(None)
        self._show(node, entry)
        usage = usage_of(message.usage, self.dialect)
        if message.stop_reason not in UNFINISHED:
            session.end_turn(usage, message.response_id or name_of(message.timestamp, usage))
            return
        self.skipped_calls.update(call_ids(message))
        has_failed = message.stop_reason == "error"
        error = text_of(bytes(message.error_message)) if bytes(message.error_message)[:1] == b'"' else None
        ended = e.TurnFailed if has_failed else e.TurnCanceled
        session.emit(ended(turn=turn, at=session.at, usage=usage, error=error or None))
        session.signal(Sign("api-error" if has_failed else "interrupt"))

    # compactions

    def _add_summary_request(self, id: str, counts: PiUsage) -> None:
        """Add the request for a summary, by the session's model. A fork's copy has the same response id."""
        session, model = self.session, self.session.counter.model
        usage = usage_of(counts, self.dialect)
        if usage is not None:
            self.summaries += 1
            session.chain = f"utility-{self.summaries}"
            session.emit(e.SessionChanged(model=model, dialect=self.dialect, chain=session.chain))
            session.start_turn(None)
            session.end_turn(usage, f"{id}:summary")
            session.chain = e.MAIN

    def _compact(self, node: Node, entry: PiEntry) -> None:
        """Compact the history; what an earlier compaction pruned and this one keeps is appended again."""
        tree = self.tree
        at = len(tree.path) - 1
        first = self._first_kept(entry, at)
        kept = tree.between(first, at)
        if tree.boundary >= 0 and first < min(tree.kept, tree.boundary):
            self.session.remove(_items_of(tree.shown()[:-1]))
            self._show_again(kept)
        tree.boundary, tree.kept = at, first
        self._apply_compaction(node, entry, kept)

    def _first_kept(self, entry: PiEntry, at: int) -> int:
        """Return the index in the path of the first entry that the compaction at `at` keeps; `at` if it keeps none."""
        tree, index = self.tree, entry.first_kept_entry_index
        node = None
        if entry.retained_tail is not None:
            return at
        if entry.first_kept_entry_id is not None:
            node = tree.by_id.get(entry.first_kept_entry_id)
        elif index is not None and 0 < index <= len(tree.nodes):
            node = tree.nodes[index - 1]
        return min(at, node.depth) if node is not None and tree.is_on_path(node) else at

    def _apply_compaction(self, node: Node, entry: PiEntry, kept: list[Node]) -> None:
        node.kind = "compaction"
        before = bytes(entry.tokens_before)
        tokens = int(before) if before.isdigit() and len(before) < 16 else None
        summary = wrap_summary(entry.summary)
        self.session.prune(node.id, _items_of(kept), pre_tokens=tokens, summary=summary)
        tail: list[str] = []
        for number, raw in enumerate(entry.retained_tail or ()):
            made = made_of(decode_message(bytes(raw)), f"{node.id}:{number}", self.session.at) or ()
            if isinstance(made, e.PatchToolCall):
                self._add_result(made)
            else:
                for item in made:
                    self.session.append(item)
                    tail.append(item.uuid)
        node.items = (node.id, *tail)


def _is_known(members: dict[str, bytes]) -> bool:
    """Return whether a record is one of pi's entries."""
    kind = text_in(members["type"])
    return kind in _ENTRY_TYPES or (kind == "message" and "role" in (raw_members(members.get("message", b"")) or {}))


def _items_of(nodes: Iterable[Node]) -> tuple[str, ...]:
    return tuple([uuid for node in nodes for uuid in node.items])
