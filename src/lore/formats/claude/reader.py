"""Claude Code's session logs (`~/.claude/projects/*/SESSION.jsonl`), versions 1.0 to 2.1 and what has their shape.

One response is several lines, one content block each, not always neighbours, grouped by `message.id`;
input counts are the same on all of them and the last line has the output count, so usage is taken once,
from the last. Order is the file's, never the clock's. Sidechain lines are chains of their own: by
`agentId`, else by the root that their parents lead to. A boundary (`compact_boundary`, parent null) and
the summary line after it are one compaction. A second prompt under one parent is a rewind, and so is an
answer beside a prompt. System prompt and tools are not in the file: what is built from it is `reconstructed`.

Source: counts over 769 public sessions; attachments reach the model in a form the file does not show
and stand in the timeline as opaque items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import msgspec
from msgspec import Raw

from lore.formats.base import Clock, Read
from lore.formats.claude import records, timeline
from lore.formats.claude.records import ClaudeMessage, ClaudeRecord, Part
from lore.formats.claude.timeline import ClaudeChainMemory, ClaudeMemory
from lore.formats.lines import Line, each, problem
from lore.formats.transcripts import TranscriptLines
from lore.formats.values import text_in
from lore.model import events as e
from lore.model.codes import Code
from lore.model.items import NULL, OpaqueItem, is_absent
from lore.model.jsonslice import raw_members
from lore.model.mask import cut_masked
from lore.model.state import Sign, bounded
from lore.model.turn import parse_verdict

_SYNTHETIC = "<synthetic>"


class ClaudeCode(TranscriptLines[ClaudeMemory]):
    """Reader of Claude Code's session logs."""

    name: ClassVar[str] = "claude-code"
    clock: ClassVar[Clock] = "first_line"
    memory = ClaudeMemory

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        known = records.METADATA | records.MODELLED
        marked = (line for line in each(head) if any(marker in line for marker in records.MARKERS))
        return any(record.type in known for record in map(records.decode_record, marked) if record is not None)

    def _last(self) -> None:
        own = [title for leaf, title in self._memory.summaries.items() if leaf in self._memory.parents]
        if own and not self._memory.title:
            self._change_title(own[-1])
        for name, chain in self._memory.chains.items():
            self._chain = name
            self._flush_boundary(chain)
            self._close(chain)
        for parent, places in self._memory.missing.items():
            for number, byte in places:
                detail = f"parent {parent!r} is not in the file; file order carries on"
                self._found.append(problem(Code.DANGLING_PARENT, detail, Line(number, byte, b"")))

    def _modelled(self, line: Line) -> bool:
        self._line = line
        record = records.decode_record(line.data)
        if record is not None:
            self._model(record)
        return record is not None

    def _odd(self, line: Line) -> list[Read]:
        self._line = line
        self._opaque(Code.MALFORMED_RECORD, "record has no type, or a field of the wrong type; kept as opaque")
        return self._taken()

    def _model(self, record: ClaudeRecord) -> None:
        state, uuid = self._memory, record.uuid
        again = uuid in state.parents
        if uuid is not None and not again:
            state.parents[uuid] = parent = record.parent_uuid
            if parent is not None and parent not in state.parents:
                state.missing.setdefault(parent, []).append((self._line.number, self._line.byte))
            if state.missing:
                state.missing.pop(uuid, None)
        self._chain = name = self._side_of(record) if record.is_sidechain else e.MAIN
        self._at, self._agent = record.timestamp, record.agent_id
        handle = _HANDLERS.get(record.type)
        if handle is None:
            if record.type in records.TITLES:
                self._title(record.type)
            if record.type == "progress" and name in state.chains and timeline.RESUMED in self._line.data:
                self._seen((Sign("resume"),), record)
            if record.type not in records.METADATA:
                self._unknown("unknown record type", record.type)
            return
        if state.session is None:
            state.session, parent = record.session_id or "", records.fork_source(record) or None
            self._emit(
                e.SessionStarted(
                    session_id=state.session, at=self._at, dialect="anthropic", chain=name, parent_session_id=parent,
                    title=state.title or None,
                )
            )  # fmt: skip
        chain = state.chains.get(name)
        if chain is None:
            chain = state.chains[name] = ClaudeChainMemory()
        if again and uuid not in chain.order:
            self._problem(Code.DUPLICATE_UUID, f"uuid {uuid!r} came before and is out of the timeline; passed over")
            return
        if state.taken and record.parent_uuid in state.taken and not is_absent(record.message):
            detail = f"parent {record.parent_uuid!r} was taken back by a rewind; file order carries on"
            self._problem(Code.DANGLING_PARENT, detail)
        try:
            handle(self, record, chain)
        except (ValueError, RecursionError) as error:
            reason = cut_masked(str(error).partition("\n")[0], 120)
            self._opaque(Code.MALFORMED_RECORD, f"{record.type} record: {reason}; kept as opaque")

    def _seen(self, signs: Sequence[Sign], record: ClaudeRecord) -> None:
        if signs:
            version = "" if is_absent(record.version) else records.shown(record.version)
            self._observe(*signs, version=version)

    def _side_of(self, record: ClaudeRecord) -> str:
        """Name the chain of a sidechain's line."""
        if record.agent_id:
            return record.agent_id if record.agent_id != e.MAIN else f"agent-{e.MAIN}"
        state, uuid = self._memory, record.uuid or ""
        known = state.side.get(uuid) or state.side.get(record.parent_uuid or "")
        if known is None:
            state.sides += 1
            known = f"sidechain-{state.sides}"
        if uuid:
            state.side[uuid] = known
        return known

    def _title(self, kind: str) -> None:
        """Read a title. One that the user gave holds against the model's; a summary may be another session's."""
        state, own = self._memory, raw_members(self._line.data) or {}
        if kind == "summary":
            state.summaries[text_in(own.get("leafUuid", b""))] = text_in(own.get("summary", b""))
            return
        title = text_in(own.get("customTitle" if kind == "custom-title" else "aiTitle", b""))
        if title and (kind == "custom-title" or not state.is_named):
            state.is_named = kind == "custom-title"
            self._change_title(title)

    def _change_title(self, title: str) -> None:
        state = self._memory
        if title and title != state.title:
            state.title = title
            if state.session is not None:
                self._emit(e.SessionChanged(title=title, at=self._at))

    # lines, by type

    def _user(self, record: ClaudeRecord, chain: ClaudeChainMemory) -> None:
        parts = records.parts_in(records.message_of(record))
        if chain.boundary is not None:
            if record.is_compact_summary:
                chain.boundary = msgspec.structs.replace(chain.boundary, summary=timeline.summary_of(parts))
                self._silent(record, chain, (chain.boundary.uuid,))  # who keeps this line keeps the divider
                self._flush_boundary(chain)
                return
            self._flush_boundary(chain)
        if record.is_visible_in_transcript_only and not record.is_compact_summary:
            self._silent(record, chain)
            return
        chain.asked_at = record.timestamp or chain.asked_at
        answered: list[str] = []
        others: list[Part] = []
        for part in parts:
            if type(part) is records.ToolResult:
                self._result(record, part)
                answered.append(chain.calls.get(part.tool_use_id, ""))
            else:
                others.append(part)
        if record.uuid is not None:
            chain.order[record.uuid] = None
            if answered:
                own = [*answered, record.uuid] if others else answered
                self._memory.items[record.uuid] = tuple(filter(None, own))
        if others:
            self._prompt(record, chain, others, beside=bool(answered))
            self._seen(timeline.signs_of_prompt(record, chain, others), record)

    def _silent(self, record: ClaudeRecord, chain: ClaudeChainMemory, items: tuple[str, ...] = ()) -> None:
        """Remember a line that makes no item of its own, and may lead to lines that do."""
        if record.uuid is not None:
            chain.order[record.uuid] = None
            self._memory.items[record.uuid] = items

    def _result(self, record: ClaudeRecord, part: records.ToolResult) -> None:
        output = timeline.output_of(part.content)
        self._patch(part.tool_use_id, output, failed=bool(part.is_error))
        if output is not part.content:  # a list
            self._seen(timeline.signs_of_result(part.content), record)

    def _prompt(self, record: ClaudeRecord, chain: ClaudeChainMemory, parts: Sequence[Part], *, beside: bool) -> None:
        """Append a user's message; a second prompt (nothing `beside` a result) takes back the first of its parent."""
        parent, uuid = record.parent_uuid, _line_name(record, self._line)
        if parent is not None and not record.is_meta and not beside:
            before = chain.prompts.get(parent)
            if before is not None and before != uuid:
                self._rewind(chain, before, uuid)
            chain.prompts[parent] = uuid
        self._append(timeline.prompt_of(uuid, parts, records.source_of(record)))

    def _pass_by(self, record: ClaudeRecord, chain: ClaudeChainMemory) -> None:
        """Take a prompt back that something else was said in place of: both have one parent."""
        before = chain.prompts.pop(record.parent_uuid or "", None)
        if before is not None:
            self._rewind(chain, before, record.uuid or "")

    def _rewind(self, chain: ClaudeChainMemory, prompt: str, new: str) -> None:
        gone = timeline.branch(self._memory, chain, prompt, new)
        taken = tuple(item for uuid in gone for item in self._memory.made(chain, uuid))
        for uuid in gone:
            del chain.order[uuid]
            self._memory.taken[uuid] = None
        if taken:
            self._close(chain)
            self._emit(e.Remove(uuids=tuple(dict.fromkeys(taken)), chain=self._chain))

    def _assistant(self, record: ClaudeRecord, chain: ClaudeChainMemory) -> None:
        message, line = records.message_of(record), self._line
        parts = records.parts_in(message)
        uuid = record.uuid or _line_name(record, line)
        self._flush_boundary(chain)
        if message.model == _SYNTHETIC:  # an error or interrupt shown to the user; never a request
            self._pass_by(record, chain)
            self._append(OpaqueItem(uuid, Raw(line.data)))
            if record.uuid is not None:
                chain.order[uuid] = None
            self._seen((Sign("api-error"),) if b'"isApiErrorMessage":true' in line.data else (), record)
            return
        response = message.id or uuid
        self._respond(record, chain, response, message)
        timeline.note_thinking(chain, parts)
        if record.uuid is not None:
            chain.order[uuid] = response
            if len(parts) != 1:
                self._memory.items[uuid] = tuple(_block_name(uuid, number) for number in range(len(parts)))
        for number, part in enumerate(parts):
            own = _block_name(uuid, number) if number else uuid
            if type(part) is records.ClaudeToolUse:
                chain.calls[part.id] = own
                if part.name == "Skill":  # its input has either spelling
                    call = raw_members(bytes(part.input)) or {}
                    names = timeline.names_in(call, "skill") or timeline.names_in(call, "command")
                    self._seen((Sign("skill", bounded(names)),), record)
            self._append(timeline.spoken(own, part, message.stop_reason, response))

    def _respond(self, record: ClaudeRecord, chain: ClaudeChainMemory, response: str, message: ClaudeMessage) -> None:
        """Open a turn at the first line of a response; keep the usage of its latest line."""
        name = self._chain
        if chain.response != response and response not in chain.seen:
            self._pass_by(record, chain)
            self._close(chain)
            chain.turn += 1
            chain.seen[response] = chain.turn
            chain.response, chain.answered_at = response, record.timestamp
            if message.model is not None and message.model != chain.model:
                chain.model = message.model
                self._emit(e.SessionChanged(model=message.model, chain=name))
            if record.version != chain.version:
                self._seen(timeline.signs_of_change(record, chain, "version"), record)
            if record.effort != chain.effort:
                self._seen(timeline.signs_of_change(record, chain, "effort"), record)
            at = chain.asked_at or record.timestamp
            source = records.fork_source(record)
            call = e.Call(inherited_from=source) if source else None
            self._emit(e.TurnStarted(turn=chain.turn, at=at, chain=name, agent_id=record.agent_id, call=call))
        late = chain.turn - 1
        if chain.response != response and not is_absent(message.usage) and chain.seen[response] == late:
            usage = records.billed(message.usage, chain.version)  # its last line came after the next one began
            self._emit(e.TurnCompleted(turn=late, chain=name, usage=usage, response_id=response))
        if chain.response == response:
            chain.usage = chain.usage if is_absent(message.usage) else message.usage
            if message.diagnostics != NULL:
                chain.verdict = parse_verdict(bytes(message.diagnostics)) or chain.verdict

    def _close(self, chain: ClaudeChainMemory) -> None:
        if chain.response is None:
            return
        usage, verdict, name = records.billed(chain.usage, chain.version), chain.verdict, chain.response
        turn, at, own = chain.turn, chain.answered_at, self._chain
        self._emit(e.TurnCompleted(turn=turn, at=at, chain=own, usage=usage, verdict=verdict, response_id=name))
        chain.response, chain.usage, chain.verdict = None, NULL, None

    def _system(self, record: ClaudeRecord, chain: ClaudeChainMemory) -> None:
        if record.subtype == "compact_boundary":
            meta = records.compact_of(bytes(record.compact_metadata))
            self._flush_boundary(chain)
            self._close(chain)
            chain.boundary = self._boundary(record, chain, meta)
            self._silent(record, chain)
            return
        cleared: tuple[str, ...] | None = None
        if record.subtype == "microcompact_boundary":
            cleared = records.compact_of(bytes(record.microcompact_metadata)).compacted_tool_ids
            self._flush_boundary(chain)
        if cleared:
            self._close(chain)
            self._emit(e.ToolResultCleared(call_ids=cleared, chain=self._chain, at=self._at))
        else:
            self._seen(timeline.SYSTEM_SIGNS.get(record.subtype or "", ()), record)
        self._silent(record, chain)

    def _boundary(self, record: ClaudeRecord, chain: ClaudeChainMemory, meta: records.Compact) -> e.CompactApplied:
        """Make the compaction, and forget what it prunes."""
        state = self._memory
        kept = timeline.preserved(state, chain, meta)
        items = None if kept is None else timeline.kept_items(state, chain, kept)
        broken = kept is not None and kept != [] and not any(uuid in chain.order for uuid in kept)
        if not broken:  # a compaction of which nothing is found prunes nothing
            live = set(kept or ())
            chain.order = {uuid: response for uuid, response in chain.order.items() if uuid in live}
            chain.calls = {call: item for call, item in chain.calls.items() if item in (items or ())}
        chain.prompts = {}
        return e.CompactApplied(
            uuid=_line_name(record, self._line), trigger=meta.trigger or "manual", chain=self._chain, at=self._at,
            pre_tokens=meta.pre_tokens, post_tokens=meta.post_tokens, duration_ms=meta.duration_ms,
            preserved_uuids=items,
        )  # fmt: skip

    def _flush_boundary(self, chain: ClaudeChainMemory) -> None:
        """Emit a compaction once its summary has come, or cannot come any more."""
        if chain.boundary is not None:
            self._emit(e.CompactStarted(trigger=chain.boundary.trigger, chain=self._chain))
            self._emit(chain.boundary)
            chain.boundary = None
            self._found.extend(Read(event, line, byte) for line, byte, event in chain.held)
            chain.held = []

    def _attachment(self, record: ClaudeRecord, chain: ClaudeChainMemory) -> None:
        """Keep an attachment as it is; one between a boundary and its summary comes after both."""
        self._append(OpaqueItem(_line_name(record, self._line), Raw(self._line.data)))
        if record.uuid is not None:
            chain.order[record.uuid] = None
        if chain.boundary is not None:
            read = self._found.pop()
            chain.held.append((read.line, read.byte, read.value))  # pyright: ignore[reportArgumentType]
        self._seen(timeline.signs_of_attachment(self._line.data), record)


_HANDLERS: dict[str, Callable[[ClaudeCode, ClaudeRecord, ClaudeChainMemory], None]] = {
    "user": ClaudeCode._user,  # pyright: ignore[reportPrivateUsage]
    "assistant": ClaudeCode._assistant,  # pyright: ignore[reportPrivateUsage]
    "system": ClaudeCode._system,  # pyright: ignore[reportPrivateUsage]
    "attachment": ClaudeCode._attachment,  # pyright: ignore[reportPrivateUsage]
}


def _line_name(record: ClaudeRecord, line: Line) -> str:
    """Name the item of a line."""
    return record.uuid or f"line-{line.number}"


def _block_name(uuid: str, number: int) -> str:
    """Name the item of a line's content block."""
    return f"{uuid}:{number}" if number else uuid
