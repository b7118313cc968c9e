"""The reader of sessions of pi, oh-my-pi and OpenClaw (`~/.pi/agent/sessions`, `~/.omp/agent/sessions`), versions 1-3.

A line is an entry of a tree. A prompt is the path from the root to the last entry, from the path's last compaction or
reset on. A message of the assistant is one request: its own time is when it was asked for, that of its line when it was
answered. Each answer names its API, so that a session may have several dialects. A request that failed or was aborted
has no usage if all its counts are 0, and its content is in no later prompt.

If an entry does not follow the last one, the items after its parent are removed, and those of the parent's branch are
appended again. A compaction keeps the entries from one on (version 1 gives its index in the file), or lists the
entries that it keeps (`retainedTail`).

The system prompt is in the file of oh-my-pi's subagents only; tools are in none. A summary with usage was a request, on
a chain of its own. The title in the first line of oh-my-pi's files is the latest one. What `pi --mode json` prints has
the header, and a `message_end` for each message, without ids.

Sources: pi's session-format.md and session-manager.ts, oh-my-pi's session.md (autumn 2026); counts over 58 public
sessions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Literal

from msgspec import UNSET, Raw
from msgspec.structs import replace

from lore.formats.agents import pi_records as records
from lore.formats.agents.pi_records import PiEntry
from lore.formats.bills import synthetic_response_id
from lore.formats.builder import LogReader
from lore.formats.http import visible_value
from lore.formats.lines import nonblank_lines
from lore.formats.values import count_in, stamp_at, text_in
from lore.model import events as e
from lore.model import lenient
from lore.model.codes import Code
from lore.model.items import OpaqueItem, UserMessage, is_absent
from lore.model.jsonslice import members_at
from lore.model.limits import REPLAYED_ENTRIES
from lore.model.mask import cut_masked, mask
from lore.model.state import Sign

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?=\.jsonl$|$)")
_ENTRY_MEMBERS = frozenset(("type", "id", "parentId", "timestamp"))
_ENTRY_TYPES = records.SILENT | {
    "thinking_level_change", "mode_change", "compaction", "branch_summary", "custom_message",
}  # fmt: skip
# Members of messages that show pi's format where entries have no ids (version 1).
_ANSWER, _RESULT = (
    frozenset(("role", "api", "provider", "usage")),
    frozenset(("role", "toolCallId", "toolName", "isError")),
)
# Messages that OpenClaw writes and no model made: a copy of what it sent to a chat, its own text.
_COPIES = (("openclaw", "delivery-mirror"), ("openclaw", "gateway-injected"))
_LOOKED_AT = 16  # lines of a file's beginning; entries of extensions have types of their own
_OWN_ID = re.compile(r"(?!0{8})[0-9a-f]{8}")  # as pi makes them: the search for placeholders is slow


@dataclass(slots=True, eq=False)
class _Node:  # an entry of the tree
    id: str
    parent: _Node | None
    depth: int  # 0: a root
    line: bytes
    kind: Literal["items", "result", "compaction", "reset"] = "items"
    items: tuple[str, ...] = ()  # uuids of the items that it made

    @property
    def is_boundary(self) -> bool:  # prompts begin here
        return self.kind in ("compaction", "reset")


def _is_id(name: str) -> bool:
    return _OWN_ID.match(name) is not None or visible_value(name) != ""


class Pi(LogReader):
    """Reader of pi's session files."""

    name: ClassVar[str] = "pi"

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[str, _Node] = {}  # all entries by id
        self.path: list[_Node] = []  # from the root to the latest entry
        self.shown_nodes: list[_Node] = []  # those whose items the timeline has
        self.title = ""
        self.has_header = False
        self.forked = ("", "")  # the session that this one was forked from, and when
        self.dialect: str | None = None
        self.level: str | None = None  # of thinking
        # The level at the latest prompt: pi reads it once for all requests that answer a prompt. After changes in tool
        # loops of public sessions reads did not fall (badlogic/pi-mono, 2025-11).
        self.prompt_level: str | None = None
        self.mode = "none"  # of the client: its tools and instructions differ by mode
        self.skipped_calls: set[str] = set()  # of unfinished responses
        self.replayed = 0  # entries that were appended again
        self.summaries = 0  # requests for summaries

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for line in islice(nonblank_lines(head), _LOOKED_AT):
            members = members_at(line)
            kind = members.get("type", b"")
            if kind == b'"session"':
                return members.get("id", b"")[:1] == b'"' and not {"timestamp", "cwd"}.isdisjoint(members)
            # flue's, Droid's, or a record of another format
            if "source" in members or (members and not kind) or kind == b'"session_start"':
                return False
            message = members_at(members, "message") if kind == b'"message"' else {}
            is_known = text_in(kind) in _ENTRY_TYPES or "role" in message
            if is_known and members.keys() >= _ENTRY_MEMBERS:
                return True
            if members.get("timestamp", b"")[:1] == b'"' and (message.keys() >= _ANSWER or message.keys() >= _RESULT):
                return True  # of version 1, without ids
        return False

    def handle(self, data: bytes) -> None:
        entry = self.session.decode(PiEntry, data)
        self.session.at = entry.timestamp
        if entry.type == "title":
            self.title = text_in(entry.title)
        elif entry.type == "session":
            self._read_header(entry)
        elif entry.type not in records.PRINTED:
            self.session.start_session(at=entry.timestamp, title=self.title or None)
            self._add_entry(entry, data)

    def _read_header(self, entry: PiEntry) -> None:
        if self.has_header:
            self.session.problem(Code.BAD_HEADER, "a second session in the same file; read as part of the first")
        self.has_header = True
        self.title, self.level = self.title or text_in(entry.title), entry.thinking_level
        parent = entry.parent_session or entry.branched_from
        uuid = _UUID.search(parent or "")
        parent = parent if uuid is None else uuid[0]
        self.forked = (parent or "", entry.timestamp or "")
        title = self.title or None
        self.session.start_session(entry.id or "", at=entry.timestamp, parent_session_id=parent, title=title)

    # the tree

    def _add_entry(self, entry: PiEntry, data: bytes) -> None:
        message = entry.message
        # a redactor's placeholder identifies nothing
        if entry.id is not None and (entry.id == entry.parent_id or not _is_id(entry.id)):
            entry = replace(entry, id=None, parent_id=UNSET if entry.id == entry.parent_id else entry.parent_id)
        if isinstance(entry.parent_id, str) and not _is_id(entry.parent_id):
            entry = replace(entry, parent_id=UNSET)
        uuid = entry.id or f"entry-{len(self.nodes) + 1}"
        if uuid in self.nodes:
            self.session.problem(Code.DUPLICATE_UUID, f"entry {mask(uuid)[:60]!r} came before; passed over")
            return
        leaf = self.path[-1] if self.path else None
        parent = self._parent_of(entry, leaf)
        if parent is not leaf:
            self._move_to(parent)
        node = self.nodes[uuid] = _Node(uuid, parent, len(self.path), data)
        self.path.append(node)
        if entry.usage is not None and entry.type in ("compaction", "branch_summary"):
            self._add_summary_request(uuid, entry.usage)
        if entry.type == "compaction":
            self._compact(node, entry)
        elif entry.type == "reset_boundary":
            node.kind = "reset"
            self._hide_all()  # no prompt holds what precedes a reset
        elif entry.type in ("title_change", "session_info"):
            title = text_in(entry.title if entry.type == "title_change" else entry.name)
            if title and title != self.title:
                self.title = title
                self.session.emit(e.SessionChanged(title=title, at=self.session.at))
        elif message is not None and message.role == "assistant" and (message.provider, message.model) not in _COPIES:
            self._add_answer(node, entry, message)
        else:
            self._show(node, entry)

    def _parent_of(self, entry: PiEntry, leaf: _Node | None) -> _Node | None:
        if entry.parent_id is UNSET or (leaf is not None and entry.parent_id == leaf.id):
            return leaf
        if entry.parent_id is None:
            return None
        parent = self.nodes.get(entry.parent_id)
        if parent is None:
            missing = f"parent {mask(entry.parent_id)[:60]!r} is missing"
            self.session.problem(Code.DANGLING_PARENT, f"{missing}; read as if the previous entry were the parent")
        return parent or leaf

    def _is_on_path(self, node: _Node) -> bool:
        return node.depth < len(self.path) and self.path[node.depth] is node

    def _move_to(self, leaf: _Node | None) -> None:
        """Continue after another entry: remove the entries after it, and append those of its branch again."""
        branch = list[_Node]()
        while leaf is not None and not self._is_on_path(leaf):
            branch.append(leaf)
            leaf = leaf.parent
        keep = 0 if leaf is None else leaf.depth + 1
        while 0 < keep < len(self.path) and self.path[keep].kind == "result":
            keep -= 1  # a result can only be removed together with its call
            branch.append(self.path[keep])
        branch.reverse()
        removed_nodes, self.path[keep:] = self.path[keep:], branch
        if not any(node.is_boundary for node in (*removed_nodes, *branch)):
            self.session.remove(_items_of(removed_nodes))
            for node in reversed(removed_nodes):
                if self.shown_nodes and self.shown_nodes[-1] is node:
                    self.shown_nodes.pop()
            self._show_again(branch)
            return
        self._hide_all()  # append again all since the last remaining compaction or reset
        at = max((node.depth for node in self.path if node.is_boundary), default=-1)
        if at >= 0 and self.path[at].kind == "compaction":
            entry = lenient.decode(PiEntry, self.path[at].line, set())
            now, self.session.at = self.session.at, entry.timestamp
            self._compact(self.path[at], entry)
            self.session.at = now
        self._show_again(self.path[at + 1 :])

    def _hide_all(self) -> None:
        self.session.remove(_items_of(self.shown_nodes))
        self.shown_nodes = []

    def _show_again(self, nodes: Iterable[_Node]) -> None:
        session, lost = self.session, 0
        for node in nodes:
            self.replayed += 1
            if self.replayed <= REPLAYED_ENTRIES:
                entry = lenient.decode(PiEntry, node.line, set())
                now, session.at = session.at, entry.timestamp
                self._show(node, entry)
                session.at = now
            else:
                lost += node.kind == "items" and bool(node.items)
        if lost:
            detail = f"{lost} entries of another branch are too many to be read again; the timeline lacks them"
            session.problem(Code.CAPTURE_TOO_LARGE, detail)

    def _compact(self, node: _Node, entry: PiEntry) -> None:
        """Compact the history; append again the kept entries that are not on the timeline."""
        node.kind = "compaction"
        nodes = [past for past in self.path[self._first_kept(entry, node.depth) : node.depth] if not past.is_boundary]
        shown_ids = set(map(id, self.shown_nodes))
        if any(id(other) not in shown_ids for other in nodes):
            self._hide_all()
            self._show_again(nodes)
        tokens, summary = count_in(entry.tokens_before), records.wrap_summary(entry.summary)
        self.session.prune(node.id, _items_of(nodes), pre_tokens=tokens, summary=summary)
        tail: list[str] = []
        for number, raw in enumerate(entry.retained_tail or ()):
            message = self.session.decode(records.PiMessage, raw)
            content = records.convert(message, f"{node.id}:{number}", self.session.at) or ()
            if isinstance(content, e.PatchToolCall):
                self._add_result(content)
            else:
                for item in content:
                    self.session.append(item)
                    tail.append(item.uuid)
        node.items, self.shown_nodes = (node.id, *tail), [node, *nodes]

    def _first_kept(self, entry: PiEntry, at: int) -> int:
        """Return the index in the path of the first entry that the compaction at `at` keeps; `at` if it keeps none."""
        index, node = entry.first_kept_entry_index, self.nodes.get(entry.first_kept_entry_id or "")
        if entry.first_kept_entry_id is None and index is not None and 0 < index <= len(self.nodes):
            node = list(self.nodes.values())[index - 1]
        if node is None or entry.retained_tail is not None or not self._is_on_path(node):
            return at
        return min(at, node.depth)

    # entries

    def _show(self, node: _Node, entry: PiEntry) -> None:
        """Append what an entry adds to prompts; keep one that is malformed or unknown as opaque."""
        session, content, reason = self.session, None, ""
        self.shown_nodes.append(node)
        try:
            content = self._convert(entry, node.id)
        except (ValueError, RecursionError) as error:
            reason = cut_masked(str(error).partition("\n")[0], 120)
        if content is None:
            reason = session.take_misfits() or reason
            what = ("message role", entry.message.role) if entry.message is not None else ("entry type", entry.type)
            code = Code.MALFORMED_RECORD if reason else Code.UNKNOWN_RECORD
            session.problem(code, f"{reason or f'unknown {what[0]} {mask(what[1])[:60]!r}'}; kept as opaque")
            content = (OpaqueItem(node.id, Raw(node.line or session.line.data)),)
        if isinstance(content, e.PatchToolCall):
            node.kind = "result"
            self._add_result(content)
            return
        node.items = tuple([item.uuid for item in content])
        for item in content:
            session.append(item)
        if records.has_image(content):
            session.signal(Sign("image"))

    def _convert(self, entry: PiEntry, id: str) -> records.PromptContent | None:
        """Note the settings in an entry; return its part of prompts: () for nothing, None if it is unknown."""
        match entry.type:
            case "message" | "message_end":
                if entry.message is not None and entry.message.role == "user":
                    self.prompt_level = self.level
                return None if entry.message is None else records.convert(entry.message, id, entry.timestamp)
            case "custom_message":
                return (records.user_message(id, entry.content),)
            case "branch_summary":
                text = records.wrap_summary(entry.summary, records.BRANCH)
                return () if is_absent(text) else (UserMessage(id, text=text, source="context_injection"),)
            case "thinking_level_change":
                self.level = entry.thinking_level
            case "mode_change":
                self.mode = entry.mode
            case "session_init":
                if bytes(entry.system_prompt)[:1] == b'"':
                    self.session.emit(e.SessionChanged(system=entry.system_prompt, at=self.session.at))
            case kind if kind not in records.SILENT:
                return None
            case _:
                pass
        return ()

    def _add_result(self, result: e.PatchToolCall) -> None:
        if result.call_id not in self.skipped_calls:
            self.session.emit(result)
            if records.has_image(result):
                self.session.signal(Sign("image"))

    def _add_answer(self, node: _Node, entry: PiEntry, message: records.PiMessage) -> None:
        session, counter, dialect = self.session, self.session.counter, records.dialect_of(message.api)
        if (message.model, dialect) != (counter.model, self.dialect):
            counter.model, self.dialect = message.model or counter.model, dialect or self.dialect
            session.emit(e.SessionChanged(model=message.model, dialect=dialect))
        usage = records.usage_of(message.usage, self.dialect)
        session.setting("effort", self.prompt_level or self.level)
        session.setting("instructions", f"mode {self.mode}")
        session.setting("provider", None if usage is None else message.provider)
        counter.asked_at = stamp_at(message.timestamp)
        turn = session.start_turn(None, call=self._inherited_call())
        self._show(node, entry)
        if message.stop_reason not in records.UNFINISHED:
            session.end_turn(usage, message.response_id or synthetic_response_id(message.timestamp, usage))
            return
        self.skipped_calls.update(records.call_ids(message))
        has_failed = message.stop_reason == "error"
        ended, error = e.TurnFailed if has_failed else e.TurnCanceled, text_in(message.error_message) or None
        session.emit(ended(turn=turn, at=session.at, usage=usage, error=error))
        if has_failed:
            session.fail(error or "")
        else:
            session.signal(Sign("interrupt"))

    def _inherited_call(self) -> e.Call | None:
        """Return the facts about a request that a fork copied, which is older than the fork; None if it is its own."""
        (parent, forked_at), at = self.forked, self.session.at or ""
        return e.Call(inherited_from=parent) if parent and len(at) == len(forked_at) and at < forked_at else None

    def _add_summary_request(self, id: str, counts: records.PiUsage) -> None:
        """Add the request for a summary, by the session's model. A fork's copy has the same response id."""
        session, model = self.session, self.session.counter.model
        if (usage := records.usage_of(counts, self.dialect)) is not None:
            self.summaries += 1
            session.chain = f"utility-{self.summaries}"
            session.emit(e.SessionChanged(model=model, dialect=self.dialect, chain=session.chain))
            session.start_turn(None, call=self._inherited_call())
            session.end_turn(usage, f"{id}:summary")
            session.chain = e.MAIN


def _items_of(nodes: Iterable[_Node]) -> tuple[str, ...]:
    return tuple([uuid for node in nodes for uuid in node.items])
