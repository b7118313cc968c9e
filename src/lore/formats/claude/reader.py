"""Claude Code's session logs (`~/.claude/projects/*/SESSION.jsonl`), versions 1.0 to 2.1, and logs of the same shape.

A response is several records of one content block each, grouped by `message.id`; other records may come between. Input
counts are equal on all of them and the last one has the output count, so usage is taken from the last. The order is the
file's: clocks run backwards. Records of subagents (`isSidechain`) are chains of their own, by `agentId` or by the root
of their parents, in `claude -p --output-format stream-json` by the call that began them (`parent_tool_use_id`). A
boundary (`compact_boundary`) and the summary after it are one compaction. A second prompt under one parent is a rewind,
and so is an answer with the same parent as a prompt. `/clear`, the prompt that carries out an accepted plan, and a
root of another session begin a new conversation: all earlier items leave the timeline. The file has neither the system
prompt nor the tools. Attachments reach the model in a form that the file does not show, and are opaque items.

Source: counts over 769 public sessions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import ClassVar

import msgspec
from msgspec import Raw

from lore.formats.base import Clock
from lore.formats.bills import decode_usage, recorded_dollars, with_cost
from lore.formats.builder import LogReader
from lore.formats.claude import records
from lore.formats.claude.chain import ClaudeChain, RecordGraph
from lore.formats.claude.records import ClaudeMessage, ClaudeRecord, Part, PromptFacts
from lore.formats.claude.thinking import stated_thinking
from lore.formats.lines import nonblank_lines
from lore.formats.values import item_name, opens, text_at, text_in
from lore.model import events as e
from lore.model.codes import Code
from lore.model.items import NULL, OpaqueItem, TextBlock, is_absent
from lore.model.jsonslice import members_at
from lore.model.ledger import UnloggedWork
from lore.model.state import Sign, bounded_names
from lore.model.turn import parse_verdict

_SYNTHETIC = "<synthetic>"  # the model of errors and interrupts that the client shows to the user
_BRANCHES = 2  # responses that may wait for their counts while others are written
_OWN_ID = re.compile(r"(?!0{8})[0-9a-f]{8}-")  # as the client makes them: the search for placeholders is slow


class ClaudeCode(LogReader):
    """Reader of Claude Code's session logs."""

    name: ClassVar[str] = "claude-code"
    clock: ClassVar[Clock] = "first_line"
    ends_late: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self._graph, self._run = RecordGraph(), records.RunSums()
        self._version = NULL  # of the latest record
        self._session_id: str | None = None  # of the latest record of the main chain
        self._chains: dict[str, ClaudeChain] = {}
        self._items: dict[str, tuple[str, ...]] = {}  # of records that made other than one item of their own uuid
        self._removed: set[str] = set()  # records that rewinds took back
        self._sidechains: dict[str, str] = {}  # of records without an agent
        self._sidechain = 0  # how many there are
        self._title = ""
        self._has_own_title = False  # the user gave it
        self._hides_ids = False  # a redactor replaced all ids by one placeholder
        self._waiting_calls: list[str] = []  # calls without an id of their own that have no result so far
        self._summaries: dict[str, str] = {}  # titles in old logs, by the last record of the session that they name
        # The log shows hooks that run when a process of the client begins: at all, and since the latest response.
        self._records_starts = self._has_started = False
        self._written = Counter[str]()  # records of settings since the latest response or prompt that was written
        self.unlogged: dict[str, UnloggedWork] = {}  # requests that are not in this file, by name
        self._exit = ""  # type of the latest record since the last one of a process: that, or a prompt in a queue

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return any(map(records.is_record, nonblank_lines(head)))

    def handle(self, data: bytes) -> None:
        record, session = self._without_placeholders(records.decode_record(data, self.session.misfits)), self.session
        uuid, is_repeated = record.uuid, record.uuid in self._graph.parents
        if uuid is not None and not is_repeated:
            # Claude Code leaves out parents of records of hooks (38 of 42), which makes no difference to the prompt;
            # a subagent that writes a summary (`acompact-…`) continues records of the session's own file
            has_parent_here = record.message is not None and not (record.agent_id or "").startswith("acompact")
            self._graph.add(uuid, record.parent_uuid, session.line if has_parent_here else None)
        session.chain = self._chain_of(record)
        session.at, session.agent = record.timestamp, record.agent_id
        if uuid is not None and record.is_sidechain is False:
            is_root = record.parent_uuid is None and record.subtype != "compact_boundary"
            if is_root and record.session_id != self._session_id:
                self._begin_conversation(self._chains.get(e.MAIN, ClaudeChain()))
            self._session_id = record.session_id
        if record.version != self._version:
            self._version, session.version = record.version.copy(), records.format_setting(bytes(record.version))
        if record.type not in records.MODELLED:
            self._read_metadata(record)
            return
        if not session.is_started:
            if record.team_name and record.agent_name:
                self._title = self._title or f"{record.agent_name} (teammate in {record.team_name})"
            session.start_session(
                record.session_id or "", at=session.at, dialect="anthropic", chain=session.chain,
                parent_session_id=records.fork_source(record) or None, title=self._title or None,
            )  # fmt: skip
        chain = self._chains.get(session.chain) or self._chains.setdefault(session.chain, ClaudeChain())
        if is_repeated and uuid not in chain.order:
            session.problem(Code.DUPLICATE_UUID, f"uuid {uuid!r} came before and is out of the timeline; passed over")
            return
        if self._removed and record.parent_uuid in self._removed and record.message is not None:
            detail = f"parent {record.parent_uuid!r} was taken back by a rewind; file order carries on"
            session.problem(Code.DANGLING_PARENT, detail)
        match record.type:
            case "assistant":
                self._read_assistant(record, chain)
            case "user":
                self._read_user(record, chain)
            case "system":
                self._read_system(record, chain)
            case _:
                self._read_attachment(record, chain)
        self._exit = ""

    def finish(self) -> None:
        titles = [title for leaf, title in self._summaries.items() if leaf in self._graph.parents]
        if titles and not self._title:
            self._set_title(titles[-1])
        for name, chain in self._chains.items():
            self.session.chain = name
            self._end_compaction(chain)
            self._end_response(chain)
            self._end_held(chain, 0)
            for self.session.line, _, result in chain.early.values():
                self._add_result(result)
        for parent, lines in self._graph.missing.items():
            for line in lines:
                self.session.line = line
                detail = f"parent {parent!r} is not in the file; file order carries on"
                self.session.problem(Code.DANGLING_PARENT, detail)

    def _without_placeholders(self, record: ClaudeRecord) -> ClaudeRecord:
        """Return the record without the ids that a redactor replaced by a placeholder."""
        uuid, parent, known = record.uuid, record.parent_uuid, self._graph.parents
        if uuid is not None and uuid == parent and uuid in known:
            self._hides_ids = True  # one placeholder replaces all ids, those of responses and calls included
            uuid = parent = None
        elif (uuid is not None and not _OWN_ID.match(uuid)) or (parent is not None and parent not in known):
            uuid, parent = (None if name is None or records.is_placeholder(name) else name for name in (uuid, parent))
        else:
            return record
        return msgspec.structs.replace(record, uuid=uuid, parent_uuid=parent)

    def _chain_of(self, record: ClaudeRecord) -> str:
        """Return the name of a record's chain: the main one, or a subagent's."""
        if not record.is_sidechain:
            return record.parent_tool_use_id or e.MAIN
        if record.agent_id:
            return record.agent_id if record.agent_id != e.MAIN else f"agent-{e.MAIN}"
        uuid = record.uuid or ""
        name = self._sidechains.get(uuid) or self._sidechains.get(record.parent_uuid or "")
        if name is None:
            self._sidechain += 1
            name = f"sidechain-{self._sidechain}"
        if uuid:
            self._sidechains[uuid] = name
        return name

    # records without content

    def _read_metadata(self, record: ClaudeRecord) -> None:
        """Read a record without content. Settings that are written again show a new process of the client."""
        session, kind = self.session, record.type
        if kind == records.QUEUE and self._exit and bytes(record.operation) == records.QUEUED:
            self._exit = kind
        elif kind == records.LAST_PROMPT:
            self._exit = kind
            self._written.clear()
        elif kind in records.WRITTEN_AT_START:
            self._written[kind] += 1
            again = sum(times > 1 for times in self._written.values())
            if self._written[kind] == 2 and again == 2 and session.chain in self._chains:
                session.signal(Sign("restart", (records.WRITTEN_AGAIN,)))
        elif kind == "progress" and records.STARTED in session.line.data:
            self._records_starts = self._has_started = True
            if session.chain in self._chains and records.RESUMED in session.line.data:
                session.signal(Sign("resume"))
        if kind in records.TITLES:
            self._read_title(kind)
        elif kind == "result":
            self._read_result()
        elif kind not in records.METADATA and kind not in records.PRINTED:
            session.keep_unknown("unknown record type", kind)

    def _read_title(self, kind: str) -> None:
        """Read a title. The user's wins over the model's; a summary may be that of another session."""
        members = members_at(self.session.line.data)
        title = text_in(members.get(records.TITLES[kind], b""))
        if kind == "summary":
            self._summaries[text_at(members, "leafUuid")] = title
        elif title and (kind == "custom-title" or not self._has_own_title):
            self._has_own_title = kind == "custom-title"
            self._set_title(title)

    def _set_title(self, title: str) -> None:
        if title not in ("", self._title) and self.session.is_started:
            self.session.emit(e.SessionChanged(title=title, at=self.session.at))
        self._title = title or self._title

    def _read_result(self) -> None:
        """End a run of `claude -p`: its last response gets the stated cost, and output that no record has.

        The records of stream-json count the output before it is complete.
        """
        session, result = self.session, members_at(self.session.line.data)
        for name, chain in sorted(self._chains.items(), key=lambda pair: pair[0] == e.MAIN):
            session.chain = name
            self._end_response(chain, result if name == e.MAIN else None)
        self._run = records.RunSums()

    # messages

    def _read_user(self, record: ClaudeRecord, chain: ClaudeChain) -> None:
        parts = records.parts_of(records.message_of(record).content)
        self._note_subagent(record, parts)
        if record.is_compact_summary and (chain.boundary is not None or len(chain.turns) > chain.turns_before):
            if chain.boundary is None:  # Claude Code 1.0 logs the summary alone
                self._end_response(chain)
                chain.boundary = self._compact(record, chain, records.Compact(trigger="auto"))
            chain.boundary = msgspec.structs.replace(chain.boundary, summary=records.summary_of(parts))
            self._remember(record, chain, items=(chain.boundary.uuid,))  # keeping this record keeps the divider
            self._end_compaction(chain)
            return
        self._end_compaction(chain)
        facts = records.facts_of_prompt(parts, is_meta=bool(record.is_meta))
        after_plan = chain.has_plan or not is_absent(record.plan_content)
        if facts.clears or (facts.carries_out_plan and after_plan):
            self._begin_conversation(chain)
        if facts.from_coordinator and chain.order.get(record.parent_uuid or ""):  # it follows an answer, not a result
            self.session.signal(Sign("resume"))
        if record.is_visible_in_transcript_only and not record.is_compact_summary:
            self._remember(record, chain, items=())
            return
        if chain.is_bridged:  # signalled now: a request under way at the switch was already sent
            chain.is_bridged = False
            self.session.signal(Sign("remote-control"))
        self.session.counter.asked_at = record.timestamp or self.session.counter.asked_at
        answered: list[str] = []
        others: list[Part] = []
        for part in parts:
            if type(part) is records.ToolResult:
                if self._waiting_calls and (self._hides_ids or records.is_placeholder(part.tool_use_id)):
                    part = msgspec.structs.replace(part, tool_use_id=self._waiting_calls.pop(0))  # noqa: PLW2901
                is_early = bool(chain.order) and (record.parent_uuid or "") in self._graph.missing
                if is_early and part.tool_use_id not in chain.calls:
                    chain.early[part.tool_use_id] = self.session.line, record.uuid or "", part
                    continue
                self._add_result(part)
                answered.append(chain.calls.get(part.tool_use_id, ""))
            else:
                others.append(part)
        items = [*answered, record.uuid if others else None]
        self._remember(record, chain, items=tuple(filter(None, items)) if answered else None)
        if others:
            self._add_prompt(record, chain, others, facts, has_result=bool(answered))

    def _begin_conversation(self, chain: ClaudeChain) -> None:
        """Remove all items of a chain that has turns: its next request sends none of them."""
        if chain.turns:
            self._end_compaction(chain)
            self._remove(chain, chain.order, restart=True)
            chain.order, chain.calls, chain.prompts = {}, {}, {}
            chain.has_answer = chain.has_thought = chain.has_plan = False

    def _note_subagent(self, record: ClaudeRecord, parts: Sequence[Part]) -> None:
        """Note a subagent whose call the record answers, unless this file holds its records; and its tokens."""
        name, tokens = records.subagent_of_result(record.tool_use_result)
        is_here = (part.tool_use_id in self._chains for part in parts if type(part) is records.ToolResult)
        if name and not any(is_here):
            self.unlogged.setdefault(name, UnloggedWork("subagent", name, tokens))
        name, tokens = records.subagent_of_notice(self.session.line.data) if self.unlogged else ("", 0)
        if name in self.unlogged and tokens > self.unlogged[name].tokens:
            self.unlogged[name] = UnloggedWork("subagent", name, tokens)

    def _add_result(self, result: records.ToolResult) -> None:
        self.session.add_result(result.tool_use_id, records.output_of(result.content), failed=bool(result.is_error))
        if opens(result.content) == "[":
            self.session.signal(*records.signals_of_result(result.content))

    def _remove(self, chain: ClaudeChain, uuids: Iterable[str], *, restart: bool = False) -> None:
        items = dict.fromkeys(item for uuid in uuids for item in self._items_of(chain, uuid))
        if items:
            self._end_response(chain)
            self.session.emit(e.Remove(uuids=tuple(items), restart=restart, chain=self.session.chain))

    def _items_of(self, chain: ClaudeChain, uuid: str) -> tuple[str, ...]:
        return self._items.get(uuid, (uuid,) if uuid in chain.order else ())

    def _remember(
        self, record: ClaudeRecord, chain: ClaudeChain, response: str | None = None,
        items: tuple[str, ...] | None = None,
    ) -> None:  # fmt: skip
        """Remember a record in its order, and its `items` if these are others than one of the record's own uuid."""
        if record.uuid is not None:
            chain.order[record.uuid] = response
            if response is not None:
                self._graph.responses[record.uuid] = response
            if items is not None:
                self._items[record.uuid] = items

    def _add_prompt(
        self, record: ClaudeRecord, chain: ClaudeChain, parts: Sequence[Part], facts: PromptFacts, *, has_result: bool
    ) -> None:  # fmt: skip
        """Append a user's message. If its parent has another prompt, the user rewound: that one is removed."""
        session, parent, uuid = self.session, record.parent_uuid, record.uuid or self.session.line_id
        if parent is not None and not record.is_meta and not has_result:
            before = chain.prompts.get(parent)
            if before is not None and before != uuid:
                self._rewind(chain, before, uuid)
            chain.prompts[parent] = uuid
        session.append(records.prompt_item(uuid, record, parts))
        session.setting("permission-mode", records.format_setting(bytes(record.permission_mode)))
        text = parts[0].text if isinstance(parts[0], TextBlock) else NULL
        if not record.is_meta and not records.head_of(text).startswith(records.CLIENT_TEXTS):
            if self._exit == records.QUEUE and not has_result and bytes(record.entrypoint) == records.DESKTOP:
                session.signal(Sign("restart", (records.LAST_PROMPT,)))
            if not has_result:
                chain.running_skill = records.PLAN if facts.carries_out_plan else ""
                chain.thinking.read_prompt(parts, session.version, record.thinking_metadata)
            self._note_thinking(record, chain)
            chain.has_plan = False
        session.signal(*facts.signals)
        if record.agent_name and not chain.turns:
            session.signal(Sign("teammate"))
        if facts.effort and not chain.states_effort:
            if (session.chain, "effort") not in session.settings:
                session.signal(Sign("effort", (f"/effort {facts.effort}",)))
            session.setting("effort", facts.effort)
        if record.is_meta and chain.expands:
            chain.running_skill = chain.expands
            chain.thinking.read_prompt(parts, session.version)
        elif not record.is_meta and not has_result:
            commands = (name for sign in facts.signals if sign.name == "slash-command" for name in sign.names)
            chain.expands = next(commands, "")

    def _note_thinking(self, record: ClaudeRecord, chain: ClaudeChain) -> None:
        """Signal thinking that is on (by the prompt's metadata or earlier answers) if the latest answers had none."""
        stated = stated_thinking(record.thinking_metadata)
        is_on = chain.ever_thought if stated is None else stated
        if chain.has_answer and not chain.has_thought and is_on:
            self.session.signal(Sign("no-thinking"))
        chain.has_answer = chain.has_thought = False
        chain.is_thinking_on = chain.is_thinking_on if chain.running_skill else is_on

    def _replace_prompt(self, record: ClaudeRecord, chain: ClaudeChain) -> None:
        """Remove a prompt with the same parent as an answer: the answer does not belong to it."""
        before = chain.prompts.pop(record.parent_uuid or "", None)
        if before is not None:
            self._rewind(chain, before, record.uuid or "")

    def _rewind(self, chain: ClaudeChain, prompt: str, new: str) -> None:
        """Remove a prompt and what descends from it; `new` is the record that replaces it."""
        if prompt not in chain.order:
            return
        since = list(takewhile(lambda uuid: uuid != prompt, reversed(chain.order)))
        branch = self._graph.branch(prompt, new, since[::-1])
        self._remove(chain, branch)
        for uuid in branch:
            del chain.order[uuid]
        self._removed.update(branch)

    # responses

    def _read_assistant(self, record: ClaudeRecord, chain: ClaudeChain) -> None:
        session, message = self.session, records.message_of(record)
        parts, uuid = records.parts_of(message.content), record.uuid or session.line_id
        self._end_compaction(chain)
        if message.model == _SYNTHETIC:
            self._replace_prompt(record, chain)
            session.append(OpaqueItem(uuid, Raw(session.line.data)))
            self._remember(record, chain)
            session.signal(*records.signals_of_synthetic(parts))
            if b'"isApiErrorMessage":true' in session.line.data:
                session.fail(next((text_in(part.text) for part in parts if isinstance(part, TextBlock)), ""))
            return
        response = message.id or uuid
        # the input counts are equal on all records of a response, and differ between responses
        if self._hides_ids or (response != chain.response and records.is_placeholder(message.id or "")):
            billed = decode_usage(message.usage)
            counts = () if billed is None else (billed.uncached_tokens, billed.read_tokens, billed.write_tokens)
            response = ":".join(map(str, (response, *counts)))
        self._continue_response(record, chain, response, message, parts)
        chain.has_answer = True
        names = None if len(parts) == 1 else tuple(item_name(uuid, number) for number in range(len(parts)))
        self._remember(record, chain, response, names)
        for number, part in enumerate(parts):
            item = item_name(uuid, number)
            if type(part) is records.ClaudeToolUse:
                if self._hides_ids or records.is_placeholder(part.id):
                    part = msgspec.structs.replace(part, id=f"{item}:call")  # noqa: PLW2901
                    self._waiting_calls.append(part.id)
                chain.calls[part.id] = item
                chain.has_plan = chain.has_plan or part.name == "ExitPlanMode"
                if part.name == "Skill":
                    arguments = members_at(part.input)  # its name has one of two spellings
                    names = records.names_in(arguments, "skill") or records.names_in(arguments, "command")
                    session.signal(Sign("skill", bounded_names(names)))
                    chain.expands = next(iter(bounded_names(names)), "")
            elif records.is_thinking(part):
                chain.has_thought = chain.ever_thought = True
            session.append(records.response_item(item, part, message, response))
            early = chain.early.pop(part.id, None) if chain.early and type(part) is records.ClaudeToolUse else None
            if early is not None:  # 8 of 980 results of 2.1.161 to 2.1.177 came before their calls
                self._items[early[1]] = (item,)
                self._add_result(early[2])

    def _continue_response(
        self, record: ClaudeRecord, chain: ClaudeChain, response: str, message: ClaudeMessage, parts: Sequence[Part]
    ) -> None:  # fmt: skip
        """Start the turn of a response at its first record, and keep the usage of its latest."""
        session = self.session
        if response not in chain.turns:
            self._replace_prompt(record, chain)
            self._leave_response(chain)
            chain.response, chain.answered_at = response, record.timestamp
            self._has_started = False
            self._written.clear()
            if message.model is not None and message.model != session.counter.model:
                session.counter.model = message.model
                session.emit(e.SessionChanged(model=message.model, chain=session.chain))
            session.setting("client-version", session.version)
            chain.states_effort = chain.states_effort or not is_absent(record.effort)
            session.setting("effort", records.format_setting(bytes(record.effort)))
            chain.billed, chain.cost = (message.usage, self._billed(message.usage)), record.cost
            switched = chain.thinking.change(
                chain.billed[1] and chain.billed[1].uncached_tokens, thinks=any(map(records.is_thinking, parts)),
                running_skill=chain.running_skill, is_thinking_on=chain.is_thinking_on, version=session.version,
            )  # fmt: skip
            session.signal(*filter(None, (switched,)))
            chain.expands, is_whole = "", len(parts) > 1
            if is_whole is not chain.is_whole and chain.turns and session.version:
                before, after = ("off", "on") if chain.is_whole else ("on", "off")
                session.signal(Sign("streaming", before=before, after=after))
            chain.is_whole, source = is_whole, records.fork_source(record)
            call = e.Call(inherited_from=source) if source else None
            continues = self._graph.continued_turn(record.parent_uuid, chain.turns, chain.order)
            chain.turns[response] = session.start_turn(None, call, continues)
        if chain.response == response:
            chain.usage = chain.usage if is_absent(message.usage) else message.usage
            if not is_absent(message.diagnostics):
                chain.verdict = parse_verdict(bytes(message.diagnostics)) or chain.verdict
        elif response in chain.unended:
            usage, at = self._billed(message.usage), chain.unended[response][1]
            if usage is not None and not usage.is_empty:
                del chain.unended[response]
                session.end_turn(usage, response, number=chain.turns[response], at=at, agent_id=None)
        elif not is_absent(message.usage) and chain.turns[response] == session.counter.number - 1:
            usage = self._billed(message.usage)  # its last record came after the next response began
            session.end_turn(usage, response, number=chain.turns[response], at=None, agent_id=None)

    def _billed(self, usage: Raw) -> e.Usage | None:
        """Return usage as the chain's version of Claude Code noted it."""
        version = self.session.settings.get((self.session.chain, "client-version"), "")
        return decode_usage(usage, client=version and f"claude-code {version}")

    def _leave_response(self, chain: ClaudeChain) -> None:
        """End the latest response, unless it has no count so far: two branches of a session may run at once."""
        raw, usage = chain.billed
        if chain.response is not None and usage is not None and usage.is_empty and chain.usage == raw:
            chain.unended[chain.response] = usage, chain.answered_at
            chain.response = None
            self._end_held(chain, _BRANCHES)
        else:
            self._end_response(chain)

    def _end_held(self, chain: ClaudeChain, most: int) -> None:
        """End the responses without a count that came first, until at most this many wait for one."""
        while len(chain.unended) > most:
            response, (usage, at) = next(iter(chain.unended.items()))
            del chain.unended[response]
            self.session.end_turn(usage, response, number=chain.turns[response], at=at, agent_id=None)

    def _end_response(self, chain: ClaudeChain, result: Mapping[str, bytes] | None = None) -> None:
        """End the turn of the latest response; `result` are the members of the record that ends its run."""
        response = chain.response
        if response is None:
            return
        raw, usage = chain.billed
        usage = with_cost(usage if chain.usage == raw else self._billed(chain.usage), bytes(chain.cost))
        if usage is not None:
            self._run.requests += 1
            self._run.output_tokens += usage.output_tokens or 0
            self._run.has_cost = self._run.has_cost or usage.recorded is not None
            usage = usage if result is None else self._complete_run(usage, result)
        self.session.end_turn(usage, response, verdict=chain.verdict, at=chain.answered_at, agent_id=None)
        chain.response, chain.usage, chain.verdict = None, NULL, None

    def _complete_run(self, usage: e.Usage, result: Mapping[str, bytes]) -> e.Usage:
        """Return the usage of a run's last response with the cost of the run, and the output that no record counts."""
        run, stated = self._run, decode_usage(result.get("usage", b""))
        output = None if stated is None else stated.output_tokens
        if output is not None and output > run.output_tokens and len(self._chains) == 1:
            text = f"the records of this run count {run.output_tokens:,} output tokens, its result {output:,}; the "
            self.session.problem(Code.FIELDS_FILLED_IN, f"{text}difference is added to its last response")
            output += (usage.output_tokens or 0) - run.output_tokens
            usage = msgspec.structs.replace(usage, output_tokens=output)
        cost = recorded_dollars(result.get("total_cost_usd", b""))
        if cost is None or run.has_cost:
            return usage
        return msgspec.structs.replace(usage, recorded=e.RecordedCost(cost.dollars, requests=run.requests))

    # compactions

    def _read_system(self, record: ClaudeRecord, chain: ClaudeChain) -> None:
        session = self.session
        match record.subtype:
            case "compact_boundary":
                meta = records.compaction_of(record.compact_metadata, session)
                self._end_compaction(chain)
                self._end_response(chain)
                chain.boundary = self._compact(record, chain, meta)
                if meta.pre_tokens and (name := chain.boundary.uuid):
                    self.unlogged[name] = UnloggedWork("compaction", name, meta.pre_tokens)
            case "microcompact_boundary":
                cleared = records.compaction_of(record.microcompact_metadata, session).compacted_tool_ids
                self._end_compaction(chain)
                if cleared:
                    self._end_response(chain)
                    session.emit(e.ToolResultCleared(call_ids=cleared, chain=session.chain, at=session.at))
                else:
                    session.signal(Sign("micro-compaction"))
            case "api_error":
                session.signal(Sign("api-error"))
            case "bridge_status":
                chain.is_bridged = True
            case _:
                session.signal(*records.refusals(record.subtype, session.line.data))
        self._remember(record, chain, items=())

    def _compact(self, record: ClaudeRecord, chain: ClaudeChain, meta: records.Compact) -> e.CompactApplied:
        """Return a compaction event, and drop the records that it removes."""
        session, uuids, items = self.session, self._kept_records(chain, meta), None
        if uuids is not None:  # an unknown record is passed on as an item: the fold reports it
            groups = (self._items_of(chain, uuid) if uuid in self._graph.parents else (uuid,) for uuid in uuids)
            items = tuple(dict.fromkeys(item for group in groups for item in group))
        if not uuids or any(uuid in chain.order for uuid in uuids):  # all unknown: remove none
            live, live_items = set(uuids or ()), set(items or ())
            chain.order = {uuid: response for uuid, response in chain.order.items() if uuid in live}
            chain.calls = {call: item for call, item in chain.calls.items() if item in live_items}
        chain.prompts, chain.turns_before = {}, len(chain.turns)
        return e.CompactApplied(
            uuid=record.uuid or session.line_id, trigger=meta.trigger or "manual", pre_tokens=meta.pre_tokens,
            post_tokens=meta.post_tokens, duration_ms=meta.duration_ms, preserved_uuids=items, chain=session.chain,
            at=session.at,
        )  # fmt: skip

    def _kept_records(self, chain: ClaudeChain, meta: records.Compact) -> list[str] | None:
        """Return the records that a compaction kept; None if not recorded. A list overrides a segment."""
        messages, segment = meta.preserved_messages, meta.preserved_segment
        if messages is not None and messages.uuids is not None:
            return list(dict.fromkeys(messages.uuids))
        if segment is None:
            return None
        path = self._graph.path(segment.head_uuid, segment.tail_uuid)
        if path is None:  # no record has this name, so that the fold prunes nothing and reports it
            return [f"{segment.head_uuid} to {segment.tail_uuid}"]
        responses = {chain.order.get(uuid) for uuid in path} - {None}  # parallel calls are not on the path
        uuids = [uuid for uuid, response in chain.order.items() if uuid in path or response in responses]
        self._graph.walked += len(uuids)
        return uuids

    def _end_compaction(self, chain: ClaudeChain) -> None:
        """Emit the compaction that waits for its summary, and the attachments read while it waited."""
        session, boundary = self.session, chain.boundary
        if boundary is None:
            return
        session.emit(e.CompactStarted(trigger=boundary.trigger, chain=session.chain))
        session.emit(boundary)
        chain.boundary, appends, chain.waiting_appends = None, chain.waiting_appends, []
        line = session.line
        for session.line, event in appends:
            session.emit(event)
        session.line = line

    def _read_attachment(self, record: ClaudeRecord, chain: ClaudeChain) -> None:
        session = self.session
        self._note_subagent(record, ())
        item = OpaqueItem(record.uuid or session.line_id, Raw(session.line.data))
        self._remember(record, chain)
        if chain.boundary is None:
            session.append(item)
        else:
            event = e.Append(item=item, chain=session.chain, at=session.at, agent_id=session.agent)
            chain.waiting_appends.append((session.line, event))
        if records.STARTED in session.line.data:
            self._records_starts = self._has_started = True
        signs = records.signals_of_attachment(bytes(record.attachment), bytes(record.entrypoint))
        if self._records_starts and not self._has_started:  # no new process: a server that dropped out connects again
            signs = (sign for sign in signs if sign.names != (records.PENDING,))
        session.signal(*signs)
