"""What a timeline holds, and what its events told: whose messages, how many calls and tokens, when who spoke last.

A message is a user's, the model's, or a tool call with its result; dividers and opaque items are none. Tokens are
estimates: UTF-8 bytes of content through four, an image or a document at a fixed count.

`Tracker` follows the events, O(1) each. An exchange is counted when its message comes; a compaction takes none away,
and a message that was taken back (or comes again under its uuid) is counted once at most. Times are seconds since 1970,
of the event itself, else of the turn that it was first sent with; None is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from msgspec import Raw

from lore.cache.bills import total, unbelievable
from lore.compaction.base import BYTES_PER_TOKEN
from lore.model.events import (
    MAIN,
    Append,
    CompactApplied,
    ContextPersisted,
    Event,
    Remove,
    SessionStarted,
    TurnCanceled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from lore.model.items import (
    AssistantMessage,
    Block,
    CompactDivider,
    ImageBlock,
    Item,
    OpaqueItem,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    UserMessage,
    blocks_of,
    is_absent,
)
from lore.model.state import Chain, Entry
from lore.model.turn import seconds
from lore.model.vector import Vector
from lore.prompt.layout import is_real

Entries: TypeAlias = Vector[Entry] | Sequence[Entry]

IMAGE_TOKENS = 1_600  # about what the largest image costs that providers take unscaled
EXTRACT_SHARE = 0.3
EXTRACT_CALLS = 10

_QUOTE, _BRACKET = b'"['
_IMAGE = IMAGE_TOKENS * BYTES_PER_TOKEN


def is_message(item: Item) -> bool:
    """Tell whether an item is a message, not a divider or an opaque item."""
    return not isinstance(item, CompactDivider | OpaqueItem)


def is_injected(item: Item) -> bool:
    """Tell whether an item is text that a harness put in as a user's."""
    return isinstance(item, UserMessage) and item.source == "context_injection"


def has_real_activity(entries: Entries) -> bool:
    """Tell whether a person said anything in these entries."""
    return any(is_real(entry.item) for entry in entries)


def messages(entries: Entries) -> int:
    """Count the messages."""
    return sum(1 for entry in entries if is_message(entry.item))


def tool_calls(entries: Entries) -> int:
    """Count the tool calls."""
    return sum(1 for entry in entries if isinstance(entry.item, ToolCall))


def calls_tools(entries: Entries, last: int) -> bool:
    """Tell whether the response that ends at a place asked for tools."""
    at, group = last, entries[last].group
    while at >= 0 and entries[at].group == group:
        if isinstance(entries[at].item, ToolCall):
            return True
        at -= 1
    return False


def needs_extraction(entries: Entries, window: int) -> bool:
    """Tell whether enough was said to remember some of it: 0.3 of the window (0: unknown), or 10 tool calls."""
    return tool_calls(entries) >= EXTRACT_CALLS or (window > 0 and tokens_of(entries) > EXTRACT_SHARE * window)


def tokens_of(entries: Entries) -> int:
    """Estimate how many tokens these entries are in a prompt. Costs O(entries)."""
    return in_tokens(sum(bytes_of(entry) for entry in entries))


def in_tokens(size: int) -> int:
    """Estimate how many tokens so many bytes are, rounded up."""
    return -(-size // BYTES_PER_TOKEN)


class TimelineSizes:
    """The estimates of one chain, carried from version to version: O(what changed). Not safe between threads."""

    __slots__ = ("_entries", "_sums")

    def __init__(self) -> None:
        self._entries: Vector[Entry] = Vector()
        self._sums = [0]

    def tokens_of(self, entries: Vector[Entry]) -> int:
        """Return the same as the function of this name."""
        same = self._entries.common(entries)
        del self._sums[same + 1 :]
        total = self._sums[-1]
        for entry in entries.since(same):
            total += bytes_of(entry)
            self._sums.append(total)
        self._entries = entries
        return in_tokens(total)


def overhead(chain: Chain) -> int:
    """Estimate the tokens before a chain's messages: tools, system prompt, pinned knowledge and layers."""
    known = "".join(fact.title + fact.content for fact in chain.pinned or ())
    raws = (chain.system, *(chain.tools or ()), *(layer.text for layer in chain.pinned_layers))
    return in_tokens(sum(map(_size, raws)) + len(known.encode("utf-8", "replace")))


def bytes_of(entry: Entry) -> int:
    """Return the size of an entry's content in a prompt, in UTF-8 bytes as JSON spells it."""
    item = entry.item
    match item:
        case UserMessage() | AssistantMessage():
            return _size(item.text) if item.blocks is None else sum(map(_block, item.blocks))
        case ToolCall():
            return len(item.name) + _size(item.input) + _result(item.output if is_absent(item.error) else item.error)
        case CompactDivider():
            return _size(item.summary)
        case OpaqueItem():
            return 0


def _size(raw: Raw) -> int:
    if is_absent(raw):
        return 0
    view = memoryview(raw)
    return view.nbytes - 2 if view[0] == _QUOTE else view.nbytes


def _result(raw: Raw) -> int:
    if is_absent(raw) or memoryview(raw)[0] != _BRACKET:
        return _size(raw)
    text = bytes(raw)
    if b'"image"' not in text and b'"base64"' not in text:
        return len(text)
    try:
        return sum(map(_block, blocks_of(text)))
    except (ValueError, RecursionError):
        return len(text)


def _block(block: Block) -> int:
    match block:
        case TextBlock() | ThinkingBlock():
            return _size(block.text)
        case ImageBlock():
            return _IMAGE
        case _:
            own = bytes(block.json)
            return min(len(own), _IMAGE) if b'"base64"' in own else len(own)


UNTIMED = "gap triggers cannot be judged: the session holds no times"


class Speaker:
    """When one (agent, user) spoke last, and before what is not answered yet."""

    __slots__ = ("before", "last", "spoke", "spoke_before", "waits")

    def __init__(self) -> None:
        self.last: float | None = None
        self.before: float | None = None
        self.spoke = self.spoke_before = self.waits = False

    def speak(self, at: float | None) -> None:
        """Note a message; a second one before an answer does not start another exchange."""
        if not self.waits:
            self.before, self.spoke_before, self.waits = self.last, self.spoke, True
        self.last, self.spoke = at, True

    def take_back(self) -> None:
        """Forget what waits, as if it had not been said: it is said again, or nothing is."""
        self.last, self.spoke, self.waits = self.before, self.spoke_before, False


class Tracked:
    """What was seen of one chain. `exchanges` counts real user messages, `compacted` what was finished by the last
    compaction (-1: there was none), `compacted_at` is its time, or when outside context came, `rested_at` too until
    the next turn begins; `ended_at` when each agent's last turn ended, or what it answered last came. `least_billed`
    are the tokens of the shortest prompt that was billed.
    """

    def __init__(self, user: str | None = None) -> None:
        self.user = user
        self.exchanges = self.turns = self.compactions = self.timed = 0
        self.least_billed: int | None = None
        self.compacted = -1
        self.compacted_at: float | None = None
        self.rested_at: float | None = None
        self.ended_at: dict[str | None, float] = {}
        self._agents: dict[str | None, None] = {}
        self._at: float | None = None
        self._real: set[str] = set()
        self._latest = ""
        self._waiting: dict[tuple[str | None, str | None], Speaker] = {}
        self._speakers: dict[tuple[str | None, str | None], Speaker] = {}
        self._unsent: list[Speaker] = []

    @property
    def finished(self) -> int:
        """How many exchanges were answered, the one that is being answered among them."""
        return self.exchanges - bool(self._waiting)

    @property
    def is_timed(self) -> bool:
        """Whether gaps can be judged: no message came, or the time of one is known."""
        return self.timed > 0 or not self.exchanges

    def heard(self, agent: str | None, user: str | None) -> tuple[bool, float | None]:
        """Tell whether this agent and user spoke before the pending message, and when last (seconds, or None)."""
        speaker = self._speakers.get((self.meant(agent), self.user if user is None else user))
        if speaker is None:
            return False, None
        return (speaker.spoke_before, speaker.before) if speaker.waits else (speaker.spoke, speaker.last)

    def meant(self, agent: str | None) -> str | None:
        """Return the agent that None stands for: the unnamed one if it was addressed, else the latest addressed."""
        return agent if agent is not None or None in self._agents else next(reversed(self._agents), None)

    def feed(self, event: Event) -> None:
        """Take the chain's next event."""
        match event:
            case Append():
                self._append(event)
            case TurnStarted():
                self._begin(event)
            case TurnCompleted() | TurnFailed() | TurnCanceled():
                self._end(event.agent_id, event.at)
                whole = None if event.usage is None or unbelievable(event.usage) else total(event.usage)
                if whole is not None:
                    self.least_billed = whole if self.least_billed is None else min(whole, self.least_billed)
            case CompactApplied():
                self.compactions += 1
                self.compacted = self.finished
                self._rest(event.at)
            case ContextPersisted(outside=True):
                self._rest(event.at)
            case Remove():
                for uuid in self._real.intersection(event.uuids):
                    if uuid == self._latest:
                        for speaker in self._waiting.values():
                            speaker.take_back()
                        self._waiting.clear()
                    self._real.remove(uuid)
                    self.exchanges -= 1
            case _:
                pass

    def _append(self, event: Append) -> None:
        item = event.item
        if isinstance(item, AssistantMessage | ToolCall):
            for waiting in self._waiting.values():
                waiting.waits = False
            self._waiting.clear()
            self._end(event.agent_id, event.at)  # some logs say that a turn has ended once the next begins
        elif is_real(item) and item.uuid not in self._real:
            self._real.add(item.uuid)
            self._latest = item.uuid
            self._agents.pop(event.agent_id, None)
            self._agents[event.agent_id] = None  # the latest is the last
            self.exchanges += 1
            key, at = (event.agent_id, self.user), seconds(event.at)
            speaker = self._waiting[key] = self._speakers.setdefault(key, Speaker())
            speaker.speak(at)
            self.timed += at is not None
            if at is None:
                self._unsent.append(speaker)

    def _begin(self, event: TurnStarted) -> None:
        self.turns += 1
        self.rested_at = None
        at = seconds(event.at)
        self._at = self._at if at is None else at
        for speaker in self._unsent if at is not None else ():
            if speaker.last is None:
                speaker.last, self.timed = at, self.timed + 1
        self._unsent.clear()

    def _end(self, agent: str | None, at: str | None) -> None:
        """Note when an agent answered; a turn's end may be written with the time of its first words."""
        ended = seconds(at)
        if ended is not None:
            self.ended_at[agent] = max(ended, self.ended_at.get(agent, ended))

    def _rest(self, at: str | None) -> None:
        rested = seconds(at)
        self.compacted_at = self.rested_at = self._at if rested is None else rested


class Tracker:
    """Follows all chains of one session; `user` and `agent` are its header's. Not safe between threads."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.user: str | None = None
        self.agent: str | None = None
        self.rhythm, self.silence = Rhythm(), Silence()
        self._chains: dict[str, Tracked] = {}
        for event in events:
            self.feed(event)

    def chain(self, name: str = MAIN) -> Tracked:
        """Return what was seen of a chain; it goes on to change."""
        return self._chains.get(name) or self._chains.setdefault(name, Tracked(self.user))

    def feed(self, event: Event) -> None:
        """Take the session's next event."""
        if isinstance(event, SessionStarted) and self.user is None:
            self.user, self.agent = event.user_id, event.agent_id
            for tracked in self._chains.values():
                tracked.user = self.user
        elif isinstance(event, _FOLLOWED):
            self.chain(event.chain).feed(event)
            self.rhythm.feed(event)
            self.silence.feed(event)


_FOLLOWED = (
    Append, TurnStarted, TurnCompleted, TurnFailed, TurnCanceled, CompactApplied, ContextPersisted, Remove,
)  # fmt: skip


class Rhythm:
    """When requests of a session went out: how many come before the cache goes cold."""

    def __init__(self) -> None:
        self._pauses: list[float] = []
        self._last: float | None = None
        self.requests = 0

    def feed(self, event: Event) -> None:
        """Take the session's next event."""
        if not isinstance(event, TurnStarted | TurnCompleted | TurnFailed | TurnCanceled):
            return
        at = seconds(event.at)
        if isinstance(event, TurnStarted):
            self.requests += 1
            pause = None if at is None else self.pause(at)
            if pause is not None:
                self._pauses.append(pause)
        self._last = self._last if at is None else at

    def pause(self, now: float) -> float | None:
        """Return how long the session has been silent by now, in seconds; None where no time is known."""
        return None if self._last is None else now - self._last

    def until(self, lives: float) -> int:
        """Return how many requests come, on average, before a pause that is longer than entries live; at least 1."""
        cold = sum(pause > lives for pause in self._pauses)
        return max(1, self.requests // (1 + cold))


class Silence:
    """Follows how often a person's exchange has moved, and when last: seconds since 1970, None if not known."""

    def __init__(self) -> None:
        self.moves = 0
        self.last: float | None = None
        self._is_real = False

    def feed(self, event: Event) -> None:
        """Take the session's next event. O(1)."""
        if not isinstance(event, Append | TurnStarted | TurnCompleted) or event.chain != MAIN:
            return
        if isinstance(event, Append):
            if is_injected(event.item):
                return
            if isinstance(event.item, UserMessage):
                self._is_real = is_real(event.item)
            self.moves += self._is_real
        at = seconds(event.at) if self._is_real else None
        self.last = self.last if at is None else at
