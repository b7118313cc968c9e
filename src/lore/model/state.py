"""Session state: the result of folding events. Immutable; `fold.step.Folding` makes the next state.

Successive states share what does not change. A compaction removes items from the state, while the log keeps them. Each
chain has its own model, system prompt, tools and parameters, which it inherits from the header.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.model.events import MAIN, Call, Event, Layer, Mark, PromptHashes, TurnStarted, Usage, Verdict
from lore.model.inserts import Insert
from lore.model.items import NULL, AssistantMessage, Item, TextBlock, ToolCall, is_absent
from lore.model.mask import cut_masked
from lore.model.vector import Vector

DividerPlace: TypeAlias = Literal["before", "after"]
UTILITY = "utility-"  # prefix of chain names: calls that a client makes for itself
CHATS = "chat-"  # prefix of chain names: further conversations in one file
MOST_NAMES = 64  # names in one sign: bounds the state of a session
LONGEST = 80  # characters of a name or a value in a sign
QUOTED = 120  # characters of a hook's text in a sign
HOOKS = ("hook-context", "preview-context")  # signs with a hook's text

# Facts in a recording, other than the text of requests, that may move the prefix. A sign states an observation, never
# its effect. A reader reports it with an `observed` event, the fold keeps it for the chain's next turn.
SIGNS: dict[str, str] = {
    "client-version": "the client's version changed",
    "provider": "the provider changed",
    "effort": "the reasoning effort changed",
    "thinking": "extended thinking was switched",
    "streaming": "streaming of the answer was switched",
    "tool-reference": "a search for tools named definitions that the prompt now holds",
    "tools-delta": "the client announced other tools",
    "remote-control": "remote control was switched on",
    "instructions-delta": "the client announced other instructions of tool servers",
    "micro-compaction": "a micro-compaction that names no result",
    "resume": "the session was resumed",
    "restart": "the client was started again in the middle of the session",
    "hook-context": "a hook's text was put into the prompt",
    "preview-context": "a text of the app's preview was put into the prompt",
    "skill": "a skill was loaded",
    "no-thinking": "the answers to the prompt before hold no thinking though thinking is on",
    "slash-command": "a slash command ran",
    "interrupt": "the request was interrupted",
    "api-error": "a request failed: the provider answered with an error, or the connection broke",
    "permission-mode": "the permission mode changed",
    "date": "the date or time zone that the prompt says changed",
    "instructions": "the client's instructions changed",
    "memory": "the memory files that the prompt holds changed",
    "image": "an image came in",
}


class Entry(Struct, frozen=True, gc=False):
    """An item of the timeline. Adjacent entries of one group are one message: text and parallel calls of a response."""

    item: Item  # a message, a call with its result, or a divider
    turn: int  # the turn during which the item came; 0 before the first
    group: int  # the response that the item belongs to


class Change(Struct, frozen=True, gc=False):
    """A recorded reason for the next prompt to differ."""

    cause: str  # a finding code
    detail: str  # what changed, such as the names of two models


class Sign(Struct, frozen=True, gc=False):
    """A fact outside the timeline that may move the prefix."""

    name: str  # one of `SIGNS`
    names: tuple[str, ...] = ()  # tools, servers, skills, commands or hooks that were added or ran
    removed: tuple[str, ...] = ()  # those that were removed
    before: str = ""  # the old value of a setting or version
    after: str = ""  # its new value; of a hook the beginning of its text
    version: str = ""  # version of the client that showed it
    line: int | None = None  # of the log that shows it; None in a session's state


def bounded_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the first `MOST_NAMES` different names in order, without empty ones.

    A name of more than `LONGEST` characters is masked and cut, before names are compared.
    """
    return tuple(islice(dict.fromkeys(cut_masked(name, LONGEST) for name in names if name), MOST_NAMES))


class OpenTurn(Struct, frozen=True, gc=False):
    """The latest request of a chain, as `events.TurnStarted` describes it."""

    turn: int  # its number in the chain
    at: str | None = None  # when the request was sent, as recorded
    context: Raw = NULL  # the volatile context of the request, as JSON
    since: tuple[Change, ...] = ()  # changes after the previous request
    signs: tuple[Sign, ...] = ()  # signs seen after the previous request
    breakpoints: tuple[Mark, ...] | None = None  # that the log records for the request; None: none are recorded
    call: Call | None = None  # facts about the request, if it was recorded
    given_up: str = ""  # the chain from which this one restarted


class ClosedTurn(Struct, frozen=True, gc=False):
    """The end of a request."""

    turn: int  # its number in the chain
    state: str  # `completed`, `failed` or `canceled`
    at: str | None = None  # when the response came
    usage: Usage | None = None  # None: not recorded
    verdict: Verdict | None = None  # what the provider says about a cache miss
    response_id: str | None = None  # the provider's name for the response
    hashes: PromptHashes | None = None  # what the client recorded of the prompt by hash


class Fact(Struct, frozen=True):
    """One entry of a session's knowledge."""

    id: str  # unique among the entries of a session
    category: str = ""  # the heading that it is listed under
    title: str = ""  # in one line
    content: str = ""  # its text


class Index:
    """The places of items by uuid and by call id, in one version of a timeline. A cache: it is never saved.

    It belongs to the newest version; folding an older one again builds another. Items are numbered as they come, and
    keep their number when an earlier item is removed: a place is the number less the removed numbers before it.
    """

    __slots__ = ("call_numbers", "has_repeated_calls", "numbers", "owner", "removed")

    def __init__(self, entries: Vector[Entry]) -> None:
        self.owner = entries  # the version that this index belongs to
        items = [entry.item for entry in entries]
        calls = [(item.call_id, number) for number, item in enumerate(items) if isinstance(item, ToolCall)]
        self.numbers = {item.uuid: number for number, item in enumerate(items)}
        self.call_numbers = dict(calls)  # of a repeated call id the last one
        self.has_repeated_calls = len(self.call_numbers) < len(calls)
        self.removed: list[int] = []  # numbers of removed items, ascending

    def place(self, uuid: str) -> int | None:
        """Return the place (number of items before it) of the item of this uuid; None if the timeline has none."""
        return self._place(self.numbers.get(uuid))

    def call(self, call_id: str) -> int | None:
        """Return the place (number of items before it) of the last call of this id; None if the timeline has none."""
        return self._place(self.call_numbers.get(call_id))

    def _place(self, number: int | None) -> int | None:
        return number if number is None or not self.removed else number - bisect_left(self.removed, number)

    def add(self, item: Item, after: Vector[Entry]) -> None:
        """Add an item that was appended; `after` is the timeline with it, which the index then belongs to."""
        self._set_number(item, len(after) - 1 + len(self.removed))
        self.owner = after

    def _set_number(self, item: Item, number: int) -> None:
        self.numbers[item.uuid] = number
        if type(item) is ToolCall:
            last_number = self.call_numbers.get(item.call_id, number)
            self.has_repeated_calls = self.has_repeated_calls or last_number != number
            self.call_numbers[item.call_id] = max(last_number, number)

    def replace(self, item: Item, new: Item, after: Vector[Entry]) -> None:
        """Replace `item` by `new`, of its uuid and place; `after` is the timeline with `new`. Usually O(1)."""
        if isinstance(item, ToolCall) and not (isinstance(new, ToolCall) and new.call_id == item.call_id):
            if self.has_repeated_calls:  # an earlier call of this id may be the last one now
                self.__init__(after)
                return
            self.call_numbers.pop(item.call_id, None)
        self._set_number(new, self.numbers[item.uuid])
        self.owner = after

    def insert(self, after: Vector[Entry], place: int) -> None:
        """Add the item that `after`, the timeline with it, has at `place`; later items move by one.

        Costs O(items from there on), or O(all) if an item was removed before or a call id occurs twice.
        """
        item = after[place].item
        is_repeated = isinstance(item, ToolCall) and item.call_id in self.call_numbers
        if self.has_repeated_calls or self.removed or is_repeated:
            self.__init__(after)
            return
        for number, entry in enumerate(after.since(place), place):
            if isinstance(entry.item, ToolCall):
                self.call_numbers.pop(entry.item.call_id, None)
            self._set_number(entry.item, number)
        self.owner = after

    def remove(self, items: Iterable[Item], after: Vector[Entry]) -> None:
        """Remove these items (KeyError for an unknown one); `after` is the timeline without them.

        Costs O(log n) each; O(all) if a call id occurs twice, or once over 1,024 more were removed than remain.
        """
        if self.has_repeated_calls or len(self.removed) > len(after) + 1024:
            self.__init__(after)
            return
        for item in items:
            insort(self.removed, self.numbers.pop(item.uuid))
            if isinstance(item, ToolCall):
                self.call_numbers.pop(item.call_id, None)
        self.owner = after


class Stream(Struct, frozen=True):
    """Text of a message that is still arriving."""

    place: int  # of the message
    deltas: Vector[Raw]  # JSON strings that are not joined to it yet


class Chain(Struct):
    """The state of one conversation: the main one, a subagent's, or a client's own call.

    Never changed once a session holds it: the fold works on copies.
    """

    id: str = MAIN  # its name
    kind: str = "main"  # `main`, `subagent` or `utility`
    model: str | None = None  # that its requests name now; None: unknown
    system: Raw = NULL  # of its requests now: a string or a list of strings, as JSON
    tools: tuple[Raw, ...] | None = None  # of its requests now; None: not recorded
    params: Raw = NULL  # the other fields of its requests, as JSON
    dialect: str | None = None  # if its requests have another dialect than the session's
    entries: Vector[Entry] = msgspec.field(default_factory=Vector[Entry])  # the timeline
    groups: int = 0  # number of the latest group of entries
    turns: int = 0  # requests so far
    turn: OpenTurn | None = None  # the latest request
    last: ClosedTurn | None = None  # the end of the latest request, once it has come
    previous: int | None = None  # number of the previous request, if it has ended; its last line may come late
    since: tuple[Change, ...] = ()  # changes after the latest request
    signs: tuple[Sign, ...] = ()  # signs seen after the latest request
    sent_entries: int = 0  # entries in the latest request
    sent_before: int = 0  # entries in the request before it
    pinned: tuple[Fact, ...] | None = None  # knowledge in the system prompt since the first request or the last reset
    pinned_layers: tuple[Layer, ...] = ()  # late layers there
    announced: bool = False  # the system prompt announces the token of deltas: the first turn had knowledge
    short_ids: Mapping[str, str] = {}  # short form of each id that a prompt has shown
    reset: int | None = None  # the turn of the last reset that named its turn
    deltas: dict[int, Insert] = {}  # durable deltas by number
    seqs: int = 0  # number of the next delta
    persisted: Vector[Insert] = msgspec.field(default_factory=Vector[Insert])  # context of turns, in their order
    outside: Vector[Insert] = msgspec.field(default_factory=Vector[Insert])  # context that compactions asked for
    waiting: TurnStarted | None = None  # the turn whose context was not sent yet; the next request sends it
    unsaved: tuple[Event, ...] = ()  # events that lore derived and the log does not hold yet
    stream: Stream | None = None  # text that is still arriving
    divider: DividerPlace = "before"  # where a compaction puts its divider: before or after the kept items
    index: Index | None = None  # finds entries by the ids of their items; None: not made yet


def with_streamed_text(chain: Chain) -> Chain:
    """Return the chain with its streamed text joined to its message. Read items only from such a chain."""
    stream = chain.stream
    if stream is None:
        return chain
    entry = chain.entries[stream.place]
    item, deltas = entry.item, list(stream.deltas)
    assert isinstance(item, AssistantMessage)
    if item.blocks is None:
        item = replace(item, text=_join_texts(item.text, deltas))
    elif item.blocks and isinstance(last := item.blocks[-1], TextBlock):
        item = replace(item, blocks=(*item.blocks[:-1], TextBlock(_join_texts(last.text, deltas))))
    else:
        item = replace(item, blocks=(*item.blocks, TextBlock(_join_texts(NULL, deltas))))
    return replace(chain, entries=chain.entries.set(stream.place, replace(entry, item=item)), stream=None)


def _join_texts(text: Raw, deltas: list[Raw]) -> Raw:
    """Concatenate JSON strings without decoding them: a pair of surrogates may be split between two."""
    pieces = [text, *deltas] if not is_absent(text) else deltas
    return Raw(b'"' + b"".join([bytes(piece)[1:-1] for piece in pieces]) + b'"')


class FoldedSession(Struct, frozen=True):
    """The state of a whole session."""

    id: str = ""  # as its header names it
    at: str | None = None  # when the session began, as it was recorded
    format: str = "lore"  # the format that it was recorded in
    adopted: bool = False  # another tool recorded it, and it continues with events of lore's own
    model: str | None = None  # as its header names it
    dialect: str | None = None  # in which requests are written; None: by the model
    provider: str | None = None  # who serves it, as its client says
    title: str | None = None  # the name that its agent or its user gave it
    system: Raw = NULL  # the persisted system prompt: a string or a list of strings, as JSON
    tools: tuple[Raw, ...] | None = None  # definitions, in their order; None: not recorded
    params: Raw = NULL  # the other fields of requests, as JSON
    attachments: tuple[str, ...] = ()  # names of attached files
    started: bool = False  # a header was read
    start_layers: tuple[Layer, ...] = ()  # `once_at_start` layers before the first turn
    late_layers: tuple[Layer, ...] = ()  # and those after it
    turn_layers: tuple[Layer, ...] = ()  # `every_turn` layers
    knowledge: dict[str, Fact] = {}  # entries by id
    removed: dict[str, None] = {}  # ids of entries that were removed
    chains: dict[str, Chain] = {}  # by name, in the order in which they began
    divider: DividerPlace = "before"  # setting: where a compaction of its chains puts the divider

    @property
    def is_own(self) -> bool:
        """Whether lore assembles the prompts: it recorded the session, or continues another tool's (`adopted`).

        Prompts of other sessions get no text from lore.
        """
        return self.adopted or self.format == "lore"

    def chain(self, name: str) -> Chain:
        """Return a chain's state; a chain that has not begun is a new one (`new_chain`), which is not kept."""
        return self.chains.get(name) or self.new_chain(name)

    def new_chain(self, name: str) -> Chain:
        """Return a chain before its first event, with what the header says; its kind follows from its name."""
        kind = (
            "main" if name == MAIN or name.startswith(CHATS) else "utility" if name.startswith(UTILITY) else "subagent"
        )
        return Chain(name, kind, self.model, self.system, self.tools, self.params, divider=self.divider)

    def main(self) -> Chain:
        """Return the main chain with streamed text joined to its message.

        If a log has no main one (a subagent's own file) it is the first chain; before any has begun, an empty one.
        """
        return with_streamed_text(self.chains.get(MAIN) or next(iter(self.chains.values()), Chain()))
