"""The library: a session that an agent keeps in memory, and the prompt of each of its turns.

    session = lore.Session("claude-opus-5", system=SYSTEM, tools=TOOLS)
    session.user("Any news?")
    answer = client.messages.create(**session.request(current_time=now()))
    for call in session.assistant(answer).calls:
        session.result(call.call_id, run(call.name, call.input))
    Path("agent.jsonl").write_bytes(session.log())         for `lore check`, and to continue: `Session.read`

Each method creates events and applies them, so that the log shows its effect. Knowledge, layers and rewinds have no
method of their own: `session.apply(lore.events.knowledge("add", "release-1", title="Release", content="1.0 is out."))`.

`request` gives the arguments of the SDK of the session's dialect (`lore.sdk.objects` lists them). Up to the tail each
segment is the same Python value in every turn, and each of the five SDKs writes the same value as the same bytes;
between the segments (order of members, white space, spelling of numbers) the bytes are the SDK's own, and the same in
every turn. `write` gives a body's bytes to send them as they are.

Pure, without clock and disk: times are arguments, or a `clock`'s; `lore.open` keeps a session in a store. A session
that is restored from a log assembles the same bytes, also if the log lacks the events that `begin_turn` derived
(deltas, persisted context, resets). Returned values are never changed later. Threads may share a session: each call
has it to itself. It is bound to no event loop.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any, Literal, Unpack, cast

from lore.cache.breakpoint_rules import accepted_breakpoints
from lore.conversation import AutomaticCompaction as AutomaticCompaction
from lore.conversation import Begun as Begun
from lore.conversation import Context as Context
from lore.conversation import ConversationMessage as ConversationMessage
from lore.conversation import (
    Follower,
    choose_kept,
    describe_omissions,
    dialect_of_model,
    fresh_uuid,
    is_empty_message,
    is_users_step,
    message_of,
    name_items,
    open_turn,
    read_log,
    refuse_open_calls,
    refuse_other_format,
    resolve_dialect,
    result_body,
    sorted_tools,
    with_lock,
)
from lore.errors import LoreError, MisuseError, did_you_mean, kind_of
from lore.events.items import blocks_from, user_message
from lore.events.kinds import (
    append,
    compact_applied,
    compact_started,
    patch_tool_call,
    session_changed,
    session_started,
)
from lore.events.strict import JsonObject, Tools, check_event, check_time, context_json, expect, reject_unknown_names
from lore.fold.step import Folding
from lore.fold.timeline import index_of
from lore.model.canonical import canonical, decode
from lore.model.codes import Code, Problem
from lore.model.events import MAIN, Append, Event, OpaqueEvent, TurnCompleted, TurnFailed, TurnStarted, Usage, encode
from lore.model.items import AssistantMessage, ToolCall, UserMessage, is_absent
from lore.model.mask import cut_masked
from lore.model.providers import dialects_for
from lore.model.state import FoldedSession as State
from lore.model.state import with_streamed_text
from lore.model.turn import Prompt
from lore.prompt.assemble import Assembled, Assembler
from lore.prompt.base import Dialect, Rules
from lore.prompt.dialects import DIALECTS, dialect_named
from lore.prompt.layout import tail_of
from lore.prompt.planning import Planner, SavedEvents
from lore.sdk.arguments import RequestArguments, params_of
from lore.sdk.objects import receive_response
from lore.sdk.replies import Reply, ToolUse, reply_of

__all__ = ["Session"]

_CONTEXT = "the parts of a context and their types: `lore guide library`"  # these are hints of errors
_PROBLEMS = 1_000  # that a session keeps
_NO_CALL = "no call is without a result: a compaction or a removal may have dropped it; give its result as a message"


class Session:
    """A session in memory, and its log.

    With a `model` the session begins; `Session()` is an empty one, to which a log's events are applied. `params` are
    the parameters of the API (`max_tokens`, `temperature`, `thinking`, …; Anthropic's `max_tokens` is 8192 by default,
    Gemini's are those of google-genai's `config`). The `dialect` follows from the model's name if its provider has only
    one (`lore.model.providers`), otherwise it is required: anthropic, openai-chat, openai-responses, gemini, bedrock.
    `rules` determine how prompts are assembled. `compaction` (`lore.CompactionPolicy(window=200_000)`) replaces
    old messages by a summary before a request, when that is due. The default `session_id` is a digest of the header.
    `clock` returns the time as RFC 3339 for each event: without times the expiry of a cache cannot be judged.

    `problems` are the first 1,000 problems of all events and prompts so far. `user_messages` is the number of messages
    by users in the main chain, also of those that were compacted or removed. Raises LoreError for a model without a
    known dialect, MisuseError for an object of the wrong type.

    >>> session = Session("claude-opus-5", system="Be brief.")
    >>> session.dialect.name
    'anthropic'
    """

    @reject_unknown_names
    def __init__(
        self, model: str | None = None, *, system: str | Sequence[str] | None = None,
        tools: Tools | None = None, params: JsonObject | None = None,
        dialect: Dialect | str | None = None, rules: Rules | None = None, session_id: str | None = None,
        attachments: Sequence[str] = (), user_id: str | None = None, project_id: str | None = None,
        clock: Callable[[], str] | None = None, compaction: AutomaticCompaction | None = None,
    ) -> None:  # fmt: skip
        self.lock = RLock()  # held during each call
        self.rules = Rules() if rules is None else rules
        expect(self.rules, Rules, "rules", "lore.Rules(tail=…)")
        self._dialect = resolve_dialect(dialect)
        if clock is not None:
            expect(clock, Callable, "clock", "a function that returns RFC 3339")  # pyright: ignore[reportArgumentType]
        self._clock = clock
        self.followers: list[Follower] = []  # get every event that is applied from now on
        if compaction is not None and (isinstance(compaction, type) or not hasattr(compaction, "begin")):
            message = f"compaction is {kind_of(compaction)}, expected a policy"
            raise MisuseError(message, hint="lore.CompactionPolicy(window=200_000)")
        if clock is None and getattr(compaction, "needs_clock", False):
            message = "the policy's gap_secs needs the session's clock: without times no pause is known"
            raise MisuseError(message, hint="Session(…, clock=lambda: datetime.now(UTC).isoformat())")
        self._due_events = None if compaction is None else compaction.begin(self.followers)
        self._begin()
        if model is not None:
            name = dialect_of_model(model) if self._dialect is None else self._dialect.name
            header: dict[str, Any] = {
                "model": model, "dialect": name, "system": system, "tools": tools,
                "params": params_of(params or {}, name) or None, "attachments": attachments, "user_id": user_id,
                "project_id": project_id, "at": self._time(),
            }  # fmt: skip
            if session_id is None:
                digest = hashlib.sha256(encode(session_started("", **header))).hexdigest()
                session_id = f"session-{digest[:12]}"
            self.apply(session_started(session_id, **header))
        elif (system, tools, params, session_id, user_id, project_id) != (None,) * 6 or attachments:
            raise MisuseError("a session that begins has a model", hint='Session("claude-opus-5", system=…)')

    def _begin(self, events: Sequence[Event] = (), problems: Sequence[Problem] = ()) -> None:
        """Start again with these events of a log, which may have deltas of a turn after that turn (`SavedEvents`)."""
        self._log: list[Event] = []
        self._folding = Folding(State(divider=self.rules.divider))
        self.problems: list[Problem] = []
        self._omitted: set[str] = set()  # kinds of parts that the dialect cannot express, as `problems` say
        self.user_messages = 0  # by users in the main chain, also those that were compacted or removed since
        for follower in self.followers:
            follower.restart()
        self._saved = SavedEvents(events)
        self._planners: dict[str, Planner] = {}
        self._assemblers: dict[str, Assembler] = {}
        self._request_arguments: dict[str, RequestArguments] = {}
        Session.apply(self, *events)
        self._add_problems(tuple(problems))

    @classmethod
    def read(
        cls, data: bytes, *, dialect: Dialect | str | None = None, rules: Rules | None = None,
        clock: Callable[[], str] | None = None, compaction: AutomaticCompaction | None = None,
    ) -> Session:  # fmt: skip
        """Return the session of a log in bytes; unreadable lines are `problems`. Raise LoreError for another format.

        >>> session = Session("claude-opus-5", system="Be brief.")
        >>> Session.read(session.log()).state == session.state
        True
        """
        if not isinstance(data, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise MisuseError("a log is bytes", hint="Path(…).read_bytes()")
        session = Session(dialect=dialect, rules=rules, clock=clock, compaction=compaction)
        session._read(data)
        return session

    def _read(self, data: bytes) -> None:
        events, problems = read_log(data)
        if problems and all(isinstance(event, OpaqueEvent) for event in events):
            refuse_other_format(data, problems[0])
        self._begin(events, problems)

    @staticmethod
    def events_of(data: bytes) -> list[Event]:
        """Return the events in the lines of a log, without unreadable lines."""
        return read_log(data)[0]

    @property
    def state(self) -> State:
        """The folded state: timeline, knowledge, chains."""
        return self._folding.state()

    @property
    def dialect(self) -> Dialect:
        """The dialect in which prompts are made."""
        return self._dialect or dialect_named(self._folding.session.dialect or "") or DIALECTS["anthropic"]

    def log(self, after: int = 0) -> bytes:
        """Return the session's log, a JSON line an event; `after` is the number of lines to leave out at its beginning.

        Append `session.log(written)` to a file after each step, and count its lines: written lines never change.
        Costs O(the lines returned).

        >>> Session("claude-opus-5", session_id="s1").log()
        b'{"kind":"session_started","session_id":"s1","model":"claude-opus-5","dialect":"anthropic","params":{"max_tokens":8192}}\\n'
        """
        return b"".join([encode(event) + b"\n" for event in self._log[after:]])

    @with_lock
    def apply(self, *events: Event) -> tuple[Problem, ...]:
        """Apply events of the log, and return their problems. An impossible event is a no-op.

        Raises MisuseError for an object that is not an event.

        >>> session = Session("claude-opus-5")
        >>> session.apply(lore.events.knowledge("add", "release-1", title="Release", content="1.0 is out."))
        ()
        """
        self._refuse_if_closed()
        problems: list[Problem] = []
        for new_event in events:
            check_event(new_event)
            for derived in self._plan(new_event) if isinstance(new_event, TurnStarted) else ():
                problems += self._folding.derive(derived)
            problems += self._folding.apply(new_event)
            self._record(new_event)
        return self._add_problems(tuple(problems))

    def _refuse_if_closed(self) -> None:
        """Raise LoreError if the session was closed; one in memory never is."""

    def _record(self, *events: Event) -> None:
        """Add events that were applied to the log."""
        self._log += events
        for new_event in events:
            for follower in self.followers:
                follower.add(new_event)
            if isinstance(new_event, Append) and isinstance(new_event.item, UserMessage) and new_event.chain == MAIN:
                self.user_messages += new_event.item.source == "user"

    def _add_problems(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        self.problems += problems[: _PROBLEMS - len(self.problems)]
        return problems

    @property
    def turn_count(self) -> int:
        """The number of turns of the main chain that have begun."""
        return self.state.main().turns

    @with_lock
    @reject_unknown_names
    def user(
        self, content: str | Sequence[object], *, uuid: str | None = None, source: str = "user", chain: str = MAIN
    ) -> str:
        """Append a message of the user, text or blocks, and return its uuid.

        Blocks are lore's own (`lore.events.text`, `image`, `raw`), or mappings in the shape of the dialect's API.
        `source` is `context_injection` for text that a program injects as the user, `tick` for a scheduler's message.
        Raises LoreError for an empty message. Costs O(the message).

        >>> session = Session("claude-opus-5")
        >>> session.user("Any news?")
        'u1'
        """
        blocks = content if isinstance(content, str) else blocks_from(content, self.dialect.name, "content")
        item = user_message(uuid or fresh_uuid(self.state.chain(chain), "u", chain), blocks, source=source)
        if is_empty_message(item):
            raise LoreError("the message is empty", hint="providers refuse an empty message: leave it out")
        state = self.state.chain(chain)
        place = index_of(state).place(item.uuid)
        if place is not None and state.entries[place].item != item:  # a sent message would change
            raise LoreError(f"the uuid {item.uuid!r} is another message's already", hint="leave `uuid` out")
        self.apply(append(item, at=self._time(), chain=chain))
        return item.uuid

    def request(self, *, chain: str = MAIN, at: str | None = None, **context: Unpack[Context]) -> dict[str, Any]:
        """Begin the next turn, and return the keyword arguments for the call of the dialect's SDK.

        `context` is shown in this turn alone, at the prompt's end: `current_time`, `memory_recall`, …; another name
        raises MisuseError. Parameters (`max_tokens`, `temperature`, `thinking`, …) belong to the session:
        `Session(params={…})`, `change(params={…})`; options of the SDK alone (`stream`, `timeout`) belong to its call.
        If a turn has begun and was not answered (the call failed, the program was killed) and no message followed, that
        turn is asked again with the bytes of the first time, its context included. Raises LoreError for an invalid
        context, and while calls of the last answer have no result. Compacts first if a policy says so. A session in a
        store saves the turn before this returns, and raises what `save` raises: then the turn waits, and the next
        request is the same. Costs O(new messages and the system prompt), with a policy O(the chain). Do not change the
        messages: later requests hold the same objects.

        >>> session = Session("claude-opus-5", system="Be brief.", params={"max_tokens": 999})
        >>> uuid = session.user("Any news?")
        >>> list(session.request(current_time="09:00"))
        ['model', 'max_tokens', 'system', 'messages']
        """
        prompt = self._begin_request(chain, at, cast("Mapping[str, Any]", context))
        self._save_new()
        return self._arguments(prompt, chain)

    def _save_new(self) -> None:
        """Save the new events, if the session is in a store."""

    @with_lock
    def _begin_request(self, chain: str, at: str | None, context: Mapping[str, Any]) -> Prompt:
        self._refuse_if_closed()
        context_json(context)  # checked in any case
        state = self.state.chain(chain)
        if not state.entries:
            message = "there is no message yet: providers refuse a request without messages"
            raise LoreError(message, hint="`session.user(…)` first")
        has_news = bool(state.since) or len(state.entries) != state.sent_entries
        if not has_news and (prompt := self.unanswered(chain)) is not None:
            self._record(*self._folding.save(chain))  # those that `reload` derived for it again
            return prompt
        refuse_open_calls("calls of the last answer have", self.pending_calls(chain))
        at = self._time() if at is None else at
        for result in () if self._due_events is None else self._due_events(self.state, chain, at):
            if isinstance(result, Problem):
                self._add_problems((result,))
            else:
                self.apply(result)
        return self.begin_turn(context, chain=chain, at=at).prompt

    @with_lock
    def _arguments(self, prompt: Prompt, chain: str) -> dict[str, Any]:
        arguments = self._request_arguments.get(chain)
        if arguments is None or arguments.dialect is not self.dialect:
            arguments = self._request_arguments[chain] = RequestArguments(self.dialect)
        return arguments.make(prompt)

    @with_lock
    def assistant(self, response: object, *, chain: str = MAIN) -> Reply:
        """Append the model's answer as the SDK gave it (text, thinking, calls, usage), and return it as a reply.

        `response` is the SDK's response object, a mapping of the same shape, a stream (an iterator or a list of its
        chunks, read to the end), the message alone, or a text. Blocks unknown to lore are kept as they are, and sent
        back so. A stream that ended before the answer did is among the `problems`. The open turn ends, with its usage.
        Raises LoreError if the response is of another dialect, or an error. Without an open turn only a message or text
        without usage is taken, after a message that has no answer yet. Costs O(the response).

        >>> session = Session("claude-opus-5")
        >>> uuid = session.user("Any news?")
        >>> arguments = session.request()
        >>> session.assistant("Nothing.").text
        'Nothing.'
        """
        events, reply = self._answer_events(response, chain)
        self.apply(*events)
        self._save_new()
        return reply

    async def assistant_async(self, response: object, *, chain: str = MAIN) -> Reply:
        """Do the same as `assistant` with a response of an asynchronous client, a coroutine of one, or a stream."""
        return self.assistant(await receive_response(response), chain=chain)

    def _answer_events(self, response: object, chain: str) -> tuple[list[Event], Reply]:
        state, at = self.state.chain(chain), self._time()
        name, turn = fresh_uuid(state, "a", chain), open_turn(state)
        reply = reply_of(response, self.dialect.name, prefix=f"call-{name}")
        if reply.is_cut:
            message = "the stream ended before the answer did: the text until then was taken as the answer"
            self._add_problems((Problem(Code.BODY_CUT, message),))
        last = state.entries.last()
        if turn is None and (reply.usage is not None or (last is not None and isinstance(last.item, AssistantMessage))):
            hint = "`session.request()` begins a turn, one for each answer"
            raise LoreError("there is no open request that this could answer", hint=hint)
        events: list[Event] = [append(item, at=at, chain=chain) for item in name_items(reply, name)]
        if turn is not None:  # only the fields that a log has
            usage = reply.usage and Usage(*[getattr(reply.usage, name) for name in Usage.__struct_fields__])
            events.append(TurnCompleted(
                turn=turn, usage=usage, verdict=reply.verdict, response_id=reply.response_id or None, at=at, chain=chain
            ))  # fmt: skip
        return events, reply

    @with_lock
    @reject_unknown_names
    def result(
        self, call_id: str, output: object = None, *, error: str | BaseException | bool | None = None, chain: str = MAIN
    ) -> None:
        """Append a tool's result: a text, a list of blocks, or any JSON value, which is shown as JSON text.

        `error` marks the call as failed: a text or an exception, which follows the output if there is any, or True if
        `output` has the reason. The same result again changes nothing. Raises LoreError for an unknown call, with the
        nearest name; and for another result of a call that has one, or whose request was sent without: sent messages do
        not change. Costs O(the result).

        >>> session = Session("claude-opus-5")
        >>> message = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]}
        >>> session.assistant(message).calls[0].call_id
        't1'
        >>> session.result("t1", "60 lines")
        """
        expect(call_id, str, "call_id", "the call's `call_id`, a text")
        state = self.state.chain(chain)
        place = index_of(state).call(call_id)
        call = None if place is None else state.entries[place].item
        if not isinstance(call, ToolCall):
            names = [use.call_id for use in self.pending_calls(chain)]
            hint = did_you_mean(call_id, names, "calls without a result") if names else _NO_CALL
            raise LoreError(f"there is no call {cut_masked(call_id, 80)!r}", hint=hint)
        expect(error, (str, BaseException, bool, type(None)), "error", "a text, an exception or True")
        output_json, reason = result_body(output, error, self.dialect.name)
        status = "completed" if error in (None, False) else "failed"
        result_event = patch_tool_call(call_id, status, output=output_json, error=reason, at=self._time(), chain=chain)
        if call.status == "running" and place is not None and place < state.sent_entries:
            message = f"the call {call_id!r} was sent without a result"
            raise LoreError(message, hint="sent messages do not change: add it as a message")
        if call.status == "running":
            self.apply(result_event)
        elif (call.status, bytes(call.output), bytes(call.error)) != (
            result_event.status, bytes(result_event.output), bytes(result_event.error)
        ):  # fmt: skip
            raise LoreError(f"the call {call_id!r} has another result already", hint="sent messages do not change")

    def pending_calls(self, chain: str = MAIN) -> tuple[ToolUse, ...]:
        """Return the calls without results: of the last answer, or of one before the program was killed."""
        calls: list[ToolUse] = []
        for entry in reversed(self.state.chain(chain).entries):
            if not isinstance(entry.item, ToolCall | AssistantMessage):
                break
            if isinstance(entry.item, ToolCall) and entry.item.status == "running":
                calls.append(ToolUse(entry.item.call_id, entry.item.name, decode(bytes(entry.item.input))))
        return tuple(reversed(calls))

    def messages(self, chain: str = MAIN) -> tuple[ConversationMessage, ...]:
        """Return the conversation as it is now, oldest first: after a compaction its summary and the kept messages.

        >>> session = Session("claude-opus-5")
        >>> uuid, reply = session.user("Any news?"), session.assistant("Nothing.")
        >>> [(message.role, message.text) for message in session.messages()]
        [('user', 'Any news?'), ('assistant', 'Nothing.')]
        """
        messages = (message_of(entry.item) for entry in with_streamed_text(self.state.chain(chain)).entries)
        return tuple(message for message in messages if message is not None)

    def waits_for(self, chain: str = MAIN) -> Literal["user", "tools", "model"]:
        """Return whose step is next: a message of the user, the results of `pending_calls`, or the model's answer.

        An answer without content is an answer, too (a refusal, a limit): the user is next.

        >>> session = Session("claude-opus-5")
        >>> session.waits_for(), session.user("Any news?"), session.waits_for()
        ('user', 'u1', 'model')
        """
        if self.pending_calls(chain):
            return "tools"
        return "user" if is_users_step(self.state.chain(chain)) else "model"

    @with_lock
    def failed(self, error: str | BaseException, *, chain: str = MAIN) -> None:
        """End the open turn, if there is one, without an answer; the next request begins another."""
        turn = open_turn(self.state.chain(chain))
        if turn is not None:
            words = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
            self.apply(TurnFailed(turn=turn, error=words, at=self._time(), chain=chain))

    @with_lock
    @reject_unknown_names
    def change(
        self, *, model: str | None = None, system: str | Sequence[str] | None = None,
        tools: Tools | None = None, params: JsonObject | None = None, chain: str = MAIN,
    ) -> None:  # fmt: skip
        """Change the model, the system prompt, the tools or the parameters from the next turn on.

        A given value replaces the previous one as a whole: `params` are all parameters from then on, `tools` all tools.
        The cache after the changed place is lost. Tools that were sent keep their places, new ones follow them. A model
        of another dialect needs a session of its own. A value that is the same already changes nothing.
        """
        change = session_changed(
            model=model, system=system, tools=tools, at=self._time(), chain=chain,
            params=None if params is None else params_of(params, self.dialect.name),
        )  # fmt: skip
        state, dialect = self.state.chain(chain), self.dialect.name
        native = dialect in dialects_for(state.model or "")  # and not a gateway that takes every model in one dialect
        if model is not None and native and dialects_for(model) and dialect not in dialects_for(model):
            message = f"{model} is not served in the dialect {dialect}"
            raise LoreError(message, hint="begin another session")
        is_same = (
            model in (None, state.model)
            and (change.tools is None or sorted_tools(change.tools) == sorted_tools(state.tools or ()))
            and (is_absent(change.system) or canonical(bytes(change.system)) == canonical(bytes(state.system)))
            and (is_absent(change.params) or canonical(bytes(change.params)) == canonical(bytes(state.params)))
        )  # fmt: skip
        if not is_same:
            self.apply(change)

    @with_lock
    @reject_unknown_names
    def compact(self, summary: str, *, keep: int = 6, chain: str = MAIN) -> int:
        """Replace all messages except the last `keep` by a summary, and return how many were removed.

        More stay if a response would be divided, if no model has read them yet, and inside a tool loop the user's
        current question. The log keeps everything. Raises LoreError if nothing can be removed or a call has no result,
        MisuseError for an empty summary or a `keep` below 1. `lore.compaction` compacts by a policy.

        >>> session = Session("claude-opus-5")
        >>> for number in range(4):
        ...     uuid, reply = session.user(f"Question {number}"), session.assistant("Answer")
        >>> session.compact("The user asked three questions.", keep=2)
        6
        """
        expect(summary, str, "summary", "its text")
        expect(keep, int, "keep", "a number of messages")
        if not summary.strip():
            raise MisuseError("a compaction needs a summary: this one is empty", hint='compact("…", keep=6)')
        if keep < 1:
            raise MisuseError(f"a compaction keeps at least one message, not {keep}", hint='compact("…", keep=6)')
        entries = with_streamed_text(self.state.chain(chain)).entries
        calls = [entry.item for entry in entries if isinstance(entry.item, ToolCall) and entry.item.status == "running"]
        refuse_open_calls("nothing was compacted: calls have", calls)
        kept_uuids, removed_count = choose_kept(entries, keep)
        if not removed_count:
            message = f"nothing was compacted: no message can be removed (keep={keep})"
            raise LoreError(message, hint="compact later, or with a smaller `keep`; unanswered messages always stay")
        at, uuid = self._time(), fresh_uuid(self.state.chain(chain), "c", chain)
        self.apply(
            compact_started("manual", at=at, chain=chain),
            compact_applied(uuid, "manual", summary=summary, preserved_uuids=kept_uuids, at=at, chain=chain),
        )
        return removed_count

    @with_lock
    def begin_turn(
        self, context: Mapping[str, Any] | None = None, *, chain: str = MAIN, at: str | None = None
    ) -> Begun:
        """Begin the next turn of a chain; return its prompt and the events that this adds to the log.

        `context` is this turn's volatile context (`memory_recall`, `current_time`, …). Raises LoreError for an invalid
        context, and if a chat template refuses the prompt; then nothing changes. Costs O(new since the previous turn).

        >>> session = Session("claude-opus-5")
        >>> uuid = session.user("Any news?")
        >>> prompt, events = session.begin_turn({"current_time": "09:00"})
        >>> [type(event).__name__ for event in events]
        ['TurnStarted']
        """
        self._refuse_if_closed()
        at = None if at is None else check_time(at, "at is")
        latest_turn = self._folding.chain(chain).turn
        number = 1 if latest_turn is None else latest_turn.turn + 1
        volatile = context_json(context)
        problems = tail_of(self._folding.session, volatile, separate=False).problems
        if problems:
            raise LoreError(problems[0].message, hint=_CONTEXT)
        turn_event = TurnStarted(turn=number, context=volatile, chain=chain, at=at)
        before = self._folding.state()
        derived_events = self._plan(turn_event)
        unsaved_events = self._folding.save(chain)  # derived for turns of a log that lacks them
        events = (*derived_events, turn_event)
        event_problems = [problem for new_event in events for problem in self._folding.apply(new_event)]
        try:
            assembly = self.assembled(chain)
        except LoreError:  # a chat template may refuse a conversation
            self._folding = Folding(before)
            raise
        omissions = describe_omissions(assembly.omitted, self._omitted, self.dialect.name)
        self._add_problems((*event_problems, *assembly.problems, *omissions))
        self._record(*unsaved_events, *events)
        return Begun(assembly.prompt, (*unsaved_events, *events))

    def unanswered(self, chain: str = MAIN) -> Prompt | None:
        """Return the prompt of a turn without an end, with the bytes of the first time unless events followed it."""
        return None if open_turn(self._folding.chain(chain)) is None else self.assembled(chain).prompt

    def _time(self) -> str | None:
        return None if self._clock is None else check_time(self._clock(), "the clock returned")

    def assembled(self, chain: str = MAIN) -> Assembled:
        """Return a chain's prompt as it is now, its problems, and the parts that the dialect could not express.

        Right after a turn began that is the turn's prompt; later it also has the events since then.
        """
        assembler = self._assemblers.get(chain)
        if assembler is None or assembler.dialect is not self.dialect:
            assembler = self._assemblers[chain] = Assembler(self.dialect, self.rules, accepted_breakpoints)
        return assembler.assemble(self._folding.session, self._folding.chain(chain))

    def _plan(self, turn_event: TurnStarted) -> list[Event]:
        planner = self._planners.setdefault(turn_event.chain, Planner(self.rules, self._saved))
        chain = self._folding.chain(turn_event.chain)
        return planner.plan(self._folding.session, chain, turn_event, self.dialect)

    def write(self, prompt: Prompt) -> bytes:
        """Return a prompt's request body. Costs O(its bytes)."""
        return self.dialect.write(prompt)
