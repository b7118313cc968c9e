"""Session state: what folding events gives. Immutable; `fold.step` makes the next one.

Rules: unchanged parts are shared between states; what a compaction prunes is gone from the state (the
log keeps it); a chain carries its own model, system, tools and parameters, inherited from the header.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from lore.model.events import MAIN, Call, Event, Layer, Mark, PromptHashes, Usage, Verdict
from lore.model.inserts import Insert
from lore.model.items import NULL, AssistantMessage, Item, TextBlock, ToolCall, is_absent
from lore.model.mask import cut_masked
from lore.model.vector import Vector

DividerPlace: TypeAlias = Literal["before", "after"]
UTILITY = "utility-"  # how the names of chains begin that are a client's own calls
CHATS = "chat-"  # and of those that are conversations beside the first of a file
MOST_NAMES = 64  # names in one sign: bounds the state of a session
LONGEST = 80  # characters of a name or a value

# What a recording shows of a request besides its text, and what may move its prefix. The names are fixed and say what
# was seen, never what follows from it. A reader says so with `observed`; the fold keeps it for the chain's next turn;
# cache models weigh it.
SIGNS: dict[str, str] = {
    "client-version": "the client's version changed",
    "effort": "the reasoning effort changed",
    "tool-reference": "a search for tools named definitions that the prompt now holds",
    "tools-delta": "the client announced other tools",
    "instructions-delta": "the client announced other instructions of tool servers",
    "micro-compaction": "a micro-compaction that names no result",
    "resume": "the session was resumed",
    "restart": "the client was started again in the middle of the session",
    "hook-context": "a hook's text was put into the prompt",
    "skill": "a skill was loaded",
    "no-thinking": "the answers to the prompt before hold no thinking though thinking is on",
    "slash-command": "a slash command ran",
    "interrupt": "the request was interrupted",
    "api-error": "the provider answered with an error",
    "permission-mode": "the permission mode changed",
    "date": "the date or time zone that the prompt says changed",
    "instructions": "the client's instructions changed",
    "memory": "the memory files that the prompt holds changed",
    "image": "an image came in",
}


class Entry(Struct, frozen=True, gc=False):
    """An item in its place: the turn during which it came, and the response (`group`) it belongs to.

    Neighbours of one group are one message of the model: text and parallel calls.
    """

    item: Item
    turn: int
    group: int


class Change(Struct, frozen=True, gc=False):
    """An event that entitles the next prompt to differ: `cause` is a finding code."""

    cause: str
    detail: str


class Sign(Struct, frozen=True, gc=False):
    """What was seen besides the timeline, and may move the prefix; `name` is one of `SIGNS`.

    `names` are tools, servers, skills, commands or hooks that came or ran, `removed` those that went; `before` and
    `after` are the values of a setting or version; `version` is that of the client that showed it.
    """

    name: str
    names: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    version: str = ""


def bounded(names: Iterable[str]) -> tuple[str, ...]:
    """Return the first `MOST_NAMES` names in order, without repeats and empty ones, each cut to `LONGEST`."""
    return tuple(islice(dict.fromkeys(cut_masked(name, LONGEST) for name in names if name), MOST_NAMES))


class OpenTurn(Struct, frozen=True, gc=False):
    """The latest request of a chain; `since` lists the changes after the request before it, `signs` what was seen.

    `breakpoints`, `call` and `given_up` are of a request that was recorded (`events.TurnStarted`).
    """

    turn: int
    at: str | None = None
    context: Raw = NULL
    since: tuple[Change, ...] = ()
    signs: tuple[Sign, ...] = ()
    breakpoints: tuple[Mark, ...] | None = None
    call: Call | None = None
    given_up: str = ""


class ClosedTurn(Struct, frozen=True, gc=False):
    """The end of a request; `at` is when its response came, `state` how it ended."""

    turn: int
    state: str
    at: str | None = None
    usage: Usage | None = None
    verdict: Verdict | None = None
    response_id: str | None = None
    hashes: PromptHashes | None = None


class Fact(Struct, frozen=True):
    """One entry of what a session knows."""

    id: str
    category: str = ""
    title: str = ""
    content: str = ""


class Waiting(Struct, frozen=True, gc=False):
    """The context of a turn that could not be written into history yet."""

    turn: int
    context: Raw


class Totals(Struct, frozen=True, gc=False):
    """Usage summed over turns; None where no turn said anything. `clients` are the programs that noted it."""

    turns: int = 0
    uncached_tokens: int | None = None
    read_tokens: int | None = None
    write_tokens: int | None = None
    output_tokens: int | None = None
    clients: tuple[str, ...] = ()


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
        """Return the place of the item of this uuid."""
        return self._place(self.numbers.get(uuid))

    def call(self, call_id: str) -> int | None:
        """Return the place of the call of this id; of several the last one."""
        return self._place(self.call_numbers.get(call_id))

    def _place(self, number: int | None) -> int | None:
        return number if number is None or not self.removed else number - bisect_left(self.removed, number)

    def add(self, item: Item, after: Vector[Entry]) -> None:
        """Follow an item that was put at the end; `after` is the timeline with it."""
        self._set_number(item, len(after) - 1 + len(self.removed))
        self.owner = after

    def _set_number(self, item: Item, number: int) -> None:
        self.numbers[item.uuid] = number
        if isinstance(item, ToolCall):
            known = self.call_numbers.get(item.call_id, number)
            self.has_repeated_calls = self.has_repeated_calls or known != number
            self.call_numbers[item.call_id] = max(known, number)

    def replace(self, item: Item, new: Item, after: Vector[Entry]) -> None:
        """Follow an item that was replaced by another one of its uuid."""
        if isinstance(item, ToolCall) and not (isinstance(new, ToolCall) and new.call_id == item.call_id):
            if self.has_repeated_calls:  # an earlier call of this id may be the last one now
                self.__init__(after)
                return
            self.call_numbers.pop(item.call_id, None)
        self._set_number(new, self.numbers[item.uuid])
        self.owner = after

    def insert(self, after: Vector[Entry], place: int) -> None:
        """Follow an item that was inserted at `place`. Costs O(items from there on), after a removal O(all)."""
        if self.has_repeated_calls or self.removed:
            self.__init__(after)
            return
        for number, entry in enumerate(after.since(place), place):
            if isinstance(entry.item, ToolCall):
                self.call_numbers.pop(entry.item.call_id, None)
            self._set_number(entry.item, number)
        self.owner = after

    def remove(self, items: Iterable[Item], after: Vector[Entry]) -> None:
        """Follow items that were removed. Costs O(log n) for each; O(all) once as many were removed as are left."""
        if self.has_repeated_calls or len(self.removed) > len(after) + 1024:
            self.__init__(after)
            return
        for item in items:
            insort(self.removed, self.numbers.pop(item.uuid))
            if isinstance(item, ToolCall):
                self.call_numbers.pop(item.call_id, None)
        self.owner = after


class Stream(Struct, frozen=True):
    """Text that still arrives: the deltas of the message at `place` that are not joined to it yet."""

    place: int
    deltas: Vector[Raw]


class Chain(Struct):
    """The state of one conversation: the main one, a subagent's, or a utility call's.

    Never changed once a session holds it: the fold works on copies (`fold.step`).

    `dialect` is that of its requests where it is not the session's.
    `turn` is the latest request, `last` its end once that has come, `previous` the end of the one before, whose last
    line may come late; `totals` sums all turns, `before` those before the latest. `sent` counts the entries that the
    latest request was made of, `sent_before` those of the one before. `pinned` and `pinned_layers` stand in the system
    prompt since the first request, or since the last reset (`reset`: the turn of one that names its turn); `announced`
    says that something was known at the first one, so that the static context announces the token of deltas, `shown`
    holds the short form of each id that a prompt named; `deltas` (by seq, `seqs` is the next one), `persisted` and
    `outside` (in the order of turns) stand between the entries; `unsaved` are the events that lore derived and the log
    does not hold.
    """

    id: str = MAIN
    kind: str = "main"
    model: str | None = None
    system: Raw = NULL
    tools: tuple[Raw, ...] | None = None
    params: Raw = NULL
    dialect: str | None = None
    entries: Vector[Entry] = msgspec.field(default_factory=Vector[Entry])
    groups: int = 0
    turns: int = 0
    turn: OpenTurn | None = None
    last: ClosedTurn | None = None
    previous: ClosedTurn | None = None
    before: Totals = Totals()
    totals: Totals = Totals()
    since: tuple[Change, ...] = ()
    signs: tuple[Sign, ...] = ()
    sent: int = 0
    sent_before: int = 0
    pinned: tuple[Fact, ...] | None = None
    pinned_layers: tuple[Layer, ...] = ()
    announced: bool = False
    shown: Mapping[str, str] = {}
    reset: int | None = None
    deltas: dict[int, Insert] = {}
    seqs: int = 0
    persisted: Vector[Insert] = msgspec.field(default_factory=Vector[Insert])
    outside: Vector[Insert] = msgspec.field(default_factory=Vector[Insert])
    waiting: Waiting | None = None
    unsaved: tuple[Event, ...] = ()
    stream: Stream | None = None
    divider: DividerPlace = "before"
    index: Index | None = None


def settled(chain: Chain) -> Chain:
    """Return the chain with streamed text joined to its message: once, whatever the number of deltas.

    Everything that reads items reads a settled chain; the fold settles before it moves or replaces one.
    """
    stream = chain.stream
    if stream is None:
        return chain
    entry = chain.entries[stream.place]
    item, deltas = entry.item, list(stream.deltas)
    assert isinstance(item, AssistantMessage)
    if item.blocks is None:
        item = msgspec.structs.replace(item, text=_joined(item.text, deltas))
    elif item.blocks and isinstance(last := item.blocks[-1], TextBlock):
        item = msgspec.structs.replace(item, blocks=(*item.blocks[:-1], TextBlock(_joined(last.text, deltas))))
    else:
        item = msgspec.structs.replace(item, blocks=(*item.blocks, TextBlock(_joined(NULL, deltas))))
    changed = msgspec.structs.replace(entry, item=item)
    return msgspec.structs.replace(chain, entries=chain.entries.set(stream.place, changed), stream=None)


def _joined(text: Raw, deltas: list[Raw]) -> Raw:
    """Concatenate JSON strings without decoding them: a surrogate pair may be cut between two."""
    pieces = [text, *deltas] if not is_absent(text) else deltas
    return Raw(b'"' + b"".join([bytes(piece)[1:-1] for piece in pieces]) + b'"')


class FoldedSession(Struct, frozen=True):
    """The state of a whole session.

    `removed` holds the ids of knowledge that was removed; `adopted` says that a log which another
    tool recorded went on with events of lore's own, `at` is when the session began, as it was recorded.
    `divider` is the setting that the session and its chains are folded with: where a compaction's divider stands,
    before or after the items that are kept.
    """

    id: str = ""
    at: str | None = None
    format: str = "lore"
    adopted: bool = False
    model: str | None = None
    dialect: str | None = None
    provider: str | None = None
    system: Raw = NULL
    tools: tuple[Raw, ...] | None = None
    params: Raw = NULL
    attachments: tuple[str, ...] = ()
    started: bool = False
    start_layers: tuple[Layer, ...] = ()
    late_layers: tuple[Layer, ...] = ()
    turn_layers: tuple[Layer, ...] = ()
    knowledge: dict[str, Fact] = {}
    removed: dict[str, None] = {}
    chains: dict[str, Chain] = {}
    opaque: int = 0
    divider: DividerPlace = "before"

    @property
    def is_own(self) -> bool:
        """Whether lore assembles this session's prompts; those of other tools get no text of lore's."""
        return self.adopted or self.format == "lore"

    def chain(self, name: str) -> Chain:
        """Return a chain's state; one that has not begun inherits the header."""
        return self.chains.get(name) or self.new_chain(name)

    def new_chain(self, name: str) -> Chain:
        """Return a chain before its first event: it has what the header says."""
        kind = (
            "main" if name == MAIN or name.startswith(CHATS) else "utility" if name.startswith(UTILITY) else "subagent"
        )
        return Chain(name, kind, self.model, self.system, self.tools, self.params, divider=self.divider)

    def main(self) -> Chain:
        """Return the main chain; where a log has none (a subagent's own file), its first."""
        return settled(self.chains.get(MAIN) or next(iter(self.chains.values()), Chain()))
