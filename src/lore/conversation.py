"""What an agent says to a session, in the words of its SDK: the methods that every session of the library has.

    session.user("What is new?")
    answer = client.messages.create(**session.request(current_time=now()))
    for call in session.assistant(answer).calls:
        session.result(call.call_id, run(call.name, call.input))

Rules: each method makes events and applies them: what it does can be read in the log. `request` gives the arguments of
the SDK that the session's dialect is for (`lore.sdk.objects` lists them); what is sent up to the tail is, segment by
segment, the same Python value in each turn, and every SDK of the five writes the same value as the same bytes: all
between the segments (the order of members, white space, how a number or a letter is spelled) is the SDK's own and the
same in each turn. `write` gives a body's bytes where they are to be sent as they are.

Not safe between threads, and bound to no event loop: one session, one user at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict, Unpack, cast

from msgspec import Raw
from msgspec.structs import replace

from lore.errors import LoreError, MisuseError, did_you_mean
from lore.events.items import blocks_from, user_message
from lore.events.kinds import append, patch_tool_call, session_changed, turn_completed, turn_failed
from lore.events.strict import JSON, context_json, named
from lore.fold.timeline import index_of
from lore.model.canonical import canonical, decode, encode
from lore.model.codes import Problem
from lore.model.events import MAIN, Event, Usage
from lore.model.items import AssistantMessage, Block, TextBlock, ToolCall, UserMessage, is_absent, is_blank
from lore.model.mask import cut_masked
from lore.model.providers import dialects_for
from lore.model.state import FoldedSession as State
from lore.model.turn import Prompt
from lore.prompt.base import Dialect
from lore.sdk.arguments import RequestArguments
from lore.sdk.objects import awaited, params_of, plain
from lore.sdk.replies import Reply, ToolUse, reply_of


class Context(TypedDict, total=False):
    """A turn's volatile context, in the order of the tail."""

    memory_recall: str | Sequence[Mapping[str, JSON]]
    every_turn: str | Sequence[str]
    current_time: str
    working_context: str | Mapping[str, JSON]
    slash_command: str
    overlay: str
    restart_notice: str
    extra: str | Sequence[str]


class Begun(NamedTuple):
    """The prompt of a turn, and the events that the log holds for it: applied already."""

    prompt: Prompt
    events: tuple[Event, ...]


class Conversation(ABC):
    """The methods that a session in memory and a stored one share."""

    _made: dict[str, RequestArguments] | None = None  # by chain

    @property
    @abstractmethod
    def state(self) -> State:
        """The folded state: timeline, knowledge, chains."""

    @property
    @abstractmethod
    def dialect(self) -> Dialect:
        """The dialect in which prompts are made."""

    @abstractmethod
    def apply(self, *events: Event) -> tuple[Problem, ...]:
        """Apply events; returns what was wrong with them."""

    @abstractmethod
    def begin_turn(
        self, context: Mapping[str, Any] | None = None, *, chain: str = MAIN, at: str | None = None
    ) -> Begun:
        """Begin the next turn of a chain: make its prompt, and the events that the log holds for it."""

    @abstractmethod
    def unanswered(self, chain: str = MAIN) -> Prompt | None:
        """Return the prompt of a turn that has begun and not ended: now, or before the program was killed."""

    @abstractmethod
    def _log_derived(self, chain: str) -> None:
        """Put the events that lore derived for turns that have begun into the log, if it lacks them."""

    @abstractmethod
    def _time(self) -> str | None:
        """Return what the clock says, where there is one."""

    def write(self, prompt: Prompt) -> bytes:
        """Return a prompt's request body. Costs O(its bytes)."""
        return self.dialect.write(prompt)

    @property
    def turns(self) -> int:
        """How many turns of the main chain have begun."""
        return self.state.main().turns

    @named
    def user(
        self, content: str | Sequence[object], *, uuid: str | None = None, source: str = "user", chain: str = MAIN
    ) -> str:
        """Append a message of the user's, text or blocks; returns its uuid.

        Blocks are lore's own (`lore.events.text`, `image`, `raw`), or mappings in the shape of the dialect's API.
        `source` is `context_injection` for what a program says in the user's place, `tick` for what a scheduler does.
        Raises LoreError for a message that says nothing. Costs O(the message).

        >>> session = Session("claude-opus-5")
        >>> session.user("What is new?")
        'u1'
        """
        name = uuid or self._fresh("u", chain)
        if isinstance(content, str):
            item = user_message(name, content, source=source)
        else:
            item = user_message(name, blocks_from(content, self.dialect.name, "content"), source=source)
        if _is_empty(item):
            raise LoreError("the message says nothing", hint="providers refuse an empty message: leave it out")
        state = self.state.chain(chain)
        place = index_of(state).place(name)
        if place is not None and state.entries[place].item != item:  # what was sent would change
            raise LoreError(f"the uuid {name!r} is another message's already", hint="leave `uuid` out")
        self.apply(append(item, at=self._time(), chain=chain))
        return name

    def request(self, *, chain: str = MAIN, at: str | None = None, **context: Unpack[Context]) -> dict[str, Any]:
        """Begin the next turn, and return the keyword arguments for the call of the dialect's SDK.

        `context` is what is told in this turn alone, at the prompt's end: `current_time`, `memory_recall`, …; a name
        that is none of these raises MisuseError. Parameters (`max_tokens`, `temperature`, `thinking`, …) belong to
        the session: `Session(params={…})`, `change(params={…})`; what the SDK alone wants (`stream`, `timeout`) is
        given to its call. Where a turn has begun and was not answered (the call failed, the program was killed) and
        nothing was said since, that turn is asked again with the bytes of the first time, its context included.
        Raises LoreError for a context that cannot be, and while calls of the last answer have no result. Costs O(what
        is new, and the system prompt). Do not change the messages: later requests hold the same objects.

        >>> session = Session("claude-opus-5", system="Be brief.", params={"max_tokens": 999})
        >>> uuid = session.user("What is new?")
        >>> list(session.request(current_time="09:00"))
        ['model', 'max_tokens', 'system', 'messages']
        """
        return self._arguments(self._requested(chain, at, cast("Mapping[str, Any]", context)), chain)

    def _requested(self, chain: str, at: str | None, context: Mapping[str, Any]) -> Prompt:
        context_json(context)  # checked in any case
        state = self.state.chain(chain)
        waits = not state.since and len(state.entries) == state.sent
        prompt = self.unanswered(chain) if waits else None
        if prompt is not None:
            self._log_derived(chain)  # it was begun before another writer's events came in: they may have added to it
        if not state.entries:
            raise LoreError("nothing was said yet: providers refuse a request without messages",
                            hint="`session.user(…)` first")  # fmt: skip
        waiting = self.pending(chain) if prompt is None else ()
        if waiting:
            named = ", ".join(f"{use.name} ({use.call_id})" for use in waiting[:3])
            more = f", and {len(waiting) - 3} more" if len(waiting) > 3 else ""
            raise LoreError(
                f"calls of the last answer have no result: {named}{more}",
                hint="`session.result(call_id, output)` for each, or `error=` for those that did not run",
            )
        return prompt or self.begin_turn(context, chain=chain, at=at or self._time()).prompt

    def _arguments(self, prompt: Prompt, chain: str) -> dict[str, Any]:
        self._made = self._made or {}
        made = self._made.get(chain)
        if made is None or made.dialect is not self.dialect:
            made = self._made[chain] = RequestArguments(self.dialect)
        return made.make(prompt)

    def assistant(self, response: object, *, chain: str = MAIN) -> Reply:
        """Take the model's answer: text, thinking, calls, usage, as the SDK gave them; returns what it says.

        `response` is the SDK's response object, a mapping of the same shape, a stream (an iterator or a list of its
        chunks, read to the end), the message alone, or a text. What lore has no words for is kept as it is, and sent
        back so. The turn under way ends, with what was billed. Raises LoreError where the response is of another
        dialect, an error, or the answer to no request. Costs O(the response).

        >>> session = Session("claude-opus-5")
        >>> uuid = session.user("What is new?")
        >>> arguments = session.request()
        >>> session.assistant("Nothing.").text
        'Nothing.'
        """
        events, reply = self._answered(response, chain)
        self.apply(*events)
        return reply

    async def assistant_async(self, response: object, *, chain: str = MAIN) -> Reply:
        """Do the same with what an asynchronous client gives: a response, a coroutine of one, a stream."""
        return self.assistant(await awaited(response), chain=chain)

    def _answered(self, response: object, chain: str) -> tuple[list[Event], Reply]:
        """Return the events of an answer."""
        state, at = self.state.chain(chain), self._time()
        name = self._fresh("a", chain)
        reply = reply_of(response, self.dialect.name, prefix=f"call-{name}")
        ended = 0 if state.last is None else state.last.turn
        turn = None if state.turn is None or state.turn.turn == ended else state.turn.turn
        if turn is None and reply.usage is not None:
            raise LoreError(
                "this answers no request: none is under way",
                hint="`session.request()` begins a turn, one for each answer",
            )
        events: list[Event] = [append(item, at=at, chain=chain) for item in _items_of(reply, name)]
        if turn is not None:  # a bill as a log holds it: what a reader says besides is gone
            usage = reply.usage and Usage(*[getattr(reply.usage, name) for name in Usage.__struct_fields__])
            events.append(
                turn_completed(
                    turn, usage=usage, verdict=reply.verdict, response_id=reply.response_id or None,
                    at=at, chain=chain,
                )
            )  # fmt: skip
        return events, reply

    @named
    def result(
        self, call_id: str, output: object = None, *, error: str | BaseException | bool = False, chain: str = MAIN
    ) -> None:
        """Take a tool's result: a text, a list of blocks, or any JSON value, which is told as JSON text.

        `error` says that the call failed: the words for it, an exception, or True where `output` says why. A result
        that is known already changes nothing. Raises LoreError for a call that is not known, and names the nearest;
        and for another result of a call that has one, or was sent without: what was sent does not change. Costs O(the
        result).

        >>> session = Session("claude-opus-5")
        >>> message = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]}
        >>> session.assistant(message).calls[0].call_id
        't1'
        >>> session.result("t1", "60 lines")
        """
        state = self.state.chain(chain)
        place = index_of(state).call(call_id)
        call = None if place is None else state.entries[place].item
        if not isinstance(call, ToolCall):
            names = [use.call_id for use in self.pending(chain)]
            hint = did_you_mean(str(call_id), names, "calls that wait")
            raise LoreError(f"there is no call {cut_masked(str(call_id), 80)!r}", hint=hint)
        said = self._output(output)
        fault = (
            error if isinstance(error, str) else "" if isinstance(error, bool) else f"{type(error).__name__}: {error}"
        )
        given = None if output is None and fault else said
        event = patch_tool_call(
            call_id, "failed" if error else "completed", output=given, error=fault or None, at=self._time(), chain=chain
        )
        if call.status == "running" and place is not None and place < state.sent:
            raise LoreError(
                f"the call {call_id!r} was sent without a result",
                hint="what was sent does not change: tell it as a message",
            )
        if call.status == "running":
            self.apply(event)
        elif (call.status, bytes(call.output), bytes(call.error)) != (
            event.status, bytes(event.output), bytes(event.error)
        ):  # fmt: skip
            raise LoreError(f"the call {call_id!r} has another result already", hint="what was sent does not change")

    def _output(self, output: object) -> str | tuple[Block, ...]:
        if output is None or isinstance(output, str):
            return output or ""
        listed = cast("Sequence[object]", output) if isinstance(output, list | tuple) else ()
        if listed and all(isinstance(part, Block) or (isinstance(part, Mapping) and "type" in part) for part in listed):
            return blocks_from(listed, self.dialect.name, "output")
        if isinstance(output, bytes | bytearray | memoryview):
            raise MisuseError("output is bytes: it is a text, blocks, or a JSON value", hint="output.decode()")
        return encode(plain(cast("object", output))).decode("utf-8")

    def pending(self, chain: str = MAIN) -> tuple[ToolUse, ...]:
        """Return the calls that wait for their results: of the last answer, or of one before the program was killed."""
        found: list[ToolUse] = []
        for entry in reversed(self.state.chain(chain).entries):
            if not isinstance(entry.item, ToolCall | AssistantMessage):
                break
            if isinstance(entry.item, ToolCall) and entry.item.status == "running":
                found.append(ToolUse(entry.item.call_id, entry.item.name, decode(bytes(entry.item.input))))
        return tuple(reversed(found))

    def failed(self, error: str | BaseException, *, chain: str = MAIN) -> None:
        """End the turn under way without an answer; the next request begins another. Changes nothing where none is."""
        state = self.state.chain(chain)
        if state.turn is not None and (state.last is None or state.last.turn != state.turn.turn):
            words = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
            self.apply(turn_failed(state.turn.turn, error=words, at=self._time(), chain=chain))

    @named
    def change(
        self, *, model: str | None = None, system: str | Sequence[str] | None = None,
        tools: Sequence[JSON] | Mapping[str, JSON] | None = None, params: Mapping[str, JSON] | None = None,
        chain: str = MAIN,
    ) -> None:  # fmt: skip
        """Change the model, the system prompt, the tools or the parameters from the next turn on.

        What is given holds instead of all that was: `params` are all parameters from then on, `tools` all tools. That
        gives up what is cached behind the change. Tools that were sent keep their places, new ones come behind
        them. A model of another dialect needs a session of its own. What is the same already changes nothing.
        """
        made = session_changed(
            model=model, system=system, tools=tools, at=self._time(), chain=chain,
            params=None if params is None else params_of(params, self.dialect.name),
        )  # fmt: skip
        state, dialect = self.state.chain(chain), self.dialect.name
        native = dialect in dialects_for(state.model or "")  # and not a gateway that takes every model in one dialect
        if model is not None and native and dialects_for(model) and dialect not in dialects_for(model):
            raise LoreError(
                f"requests for {model} are not taken in the dialect {dialect}", hint="begin another session"
            )
        same = (
            model in (None, state.model) and (made.tools is None or _sorted(made.tools) == _sorted(state.tools or ()))
            and (is_absent(made.system) or canonical(bytes(made.system)) == canonical(bytes(state.system)))
            and (is_absent(made.params) or canonical(bytes(made.params)) == canonical(bytes(state.params)))
        )  # fmt: skip
        if not same:
            self.apply(made)

    def _fresh(self, letter: str, chain: str) -> str:
        """Return a uuid that the chain does not have."""
        state = self.state.chain(chain)
        known, begin = index_of(state).numbers, "" if chain == MAIN else f"{chain}-"
        number = state.groups + 1
        while f"{begin}{letter}{number}" in known:
            number += 1
        return f"{begin}{letter}{number}"


def _items_of(reply: Reply, name: str) -> list[AssistantMessage | ToolCall]:
    """Return an answer's items: what is said between two calls is one, each call is one; the first has the name."""
    found: list[AssistantMessage | ToolCall] = []
    blocks: list[Block] = []
    response = reply.response_id or None

    def close() -> None:
        if blocks:
            found.append(AssistantMessage(named(), blocks=tuple(blocks), response_id=response))
            blocks.clear()

    def named() -> str:
        return name if not found else f"{name}.{len(found) + 1}"

    for part in reply.parts:
        if isinstance(part, ToolCall):
            close()
            found.append(replace(part, uuid=named(), response_id=response))
        else:
            blocks.append(part)
    close()
    said = next((at for at in range(len(found) - 1, -1, -1) if isinstance(found[at], AssistantMessage)), None)
    if said is not None:
        found[said] = replace(found[said], stop_reason=reply.stop_reason)
    return found


def _sorted(tools: tuple[Raw, ...]) -> list[bytes]:
    """Return tools so that those of another order are the same: what was sent keeps its places."""
    return sorted(canonical(bytes(tool)) for tool in tools)


def _is_empty(item: UserMessage) -> bool:
    if item.blocks is None:
        return is_blank(item.text)
    return all(isinstance(block, TextBlock) and is_blank(block.text) for block in item.blocks)
