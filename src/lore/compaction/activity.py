"""What a session's events told: how many exchanges there were, who spoke when, how often requests went out.

`Tracker` follows the events, O(1) each. An exchange is counted when its message comes; a compaction takes none away,
and a message that was taken back (or comes again under its uuid) is counted once at most. Times are seconds since 1970,
of the event itself, else of the turn that it was first sent with; None is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable

from lore.cache.bills import total, unbelievable
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
from lore.model.items import AssistantMessage, ToolCall, UserMessage
from lore.model.times import parse_timestamp
from lore.prompt.entries import is_injected
from lore.prompt.layout import is_real

UNTIMED = "gap triggers cannot be judged: the session holds no times"
ENDS = (TurnCompleted, TurnFailed, TurnCanceled)


class _Clock:
    """When the user spoke to one agent: the times of the last message that was answered, and of what `waits`."""

    def __init__(self) -> None:
        self.times: list[float | None] = []
        self.waits = False

    def speak(self, at: float | None) -> None:
        """Note a message; a second one before an answer does not start another exchange."""
        self.times = [*(self.times[:-1] if self.waits else self.times[-1:]), at]
        self.waits = True

    def take_back(self) -> None:
        """Forget what waits, as if it had not been said: it is said again, or nothing is."""
        self.times.pop()
        self.waits = False


class Tracked:
    """What was seen of one chain. `exchanges` counts real user messages, `compacted` what was finished by the last
    compaction (-1: there was none), `compacted_at` is its time, or when outside context came, `rested_at` too until
    the next turn begins; `ended_at` when each agent's last turn ended, or what it answered last came. `least_billed`
    are the tokens of the shortest prompt that was billed.
    """

    def __init__(self, user: str | None = None) -> None:
        self.user = user
        self.exchanges = self.timed = 0
        self.least_billed: int | None = None
        self.compacted = -1
        self.compacted_at: float | None = None
        self.rested_at: float | None = None
        self.ended_at: dict[str | None, float] = {}
        self._at: float | None = None
        self._real: set[str] = set()
        self._latest = ""
        self._clocks: dict[str | None, _Clock] = {}  # by agent, the latest addressed last
        self._unsent: list[_Clock] = []

    @property
    def _waiting(self) -> list[_Clock]:
        return [clock for clock in self._clocks.values() if clock.waits]

    @property
    def finished(self) -> int:
        """How many exchanges were answered, the one that is being answered among them."""
        return self.exchanges - bool(self._waiting)

    @property
    def is_timed(self) -> bool:
        """Whether gaps can be judged: no message came, or the time of one is known."""
        return self.timed > 0 or not self.exchanges

    def heard(self, agent: str | None, user: str | None = None) -> tuple[bool, float | None]:
        """Tell whether this user spoke to this agent before the pending message, and when last (seconds, or None)."""
        if user not in (None, self.user):
            return False, None
        clock = self._clocks.get(self.meant(agent), _Clock())
        answered = clock.times[:-1] if clock.waits else clock.times
        return bool(answered), answered[-1] if answered else None

    def meant(self, agent: str | None) -> str | None:
        """Return the agent that None stands for: the unnamed one if it was addressed, else the latest addressed."""
        return agent if agent is not None or None in self._clocks else next(reversed(self._clocks), None)

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
                self.compacted = self.finished
                self._rest(event.at)
            case ContextPersisted(outside=True):
                self._rest(event.at)
            case Remove():
                for uuid in self._real.intersection(event.uuids):
                    for clock in self._waiting if uuid == self._latest else ():
                        clock.take_back()
                    self._real.remove(uuid)
                    self.exchanges -= 1
            case _:
                pass

    def _append(self, event: Append) -> None:
        item = event.item
        if isinstance(item, AssistantMessage | ToolCall):
            for clock in self._waiting:
                clock.waits = False
            self._end(event.agent_id, event.at)  # some logs say that a turn has ended once the next begins
        elif is_real(item) and item.uuid not in self._real:
            self._real.add(item.uuid)
            self._latest = item.uuid
            self.exchanges += 1
            clock, at = self._clocks.pop(event.agent_id, _Clock()), parse_timestamp(event.at)
            self._clocks[event.agent_id] = clock
            clock.speak(at)
            self.timed += at is not None
            if at is None:
                self._unsent.append(clock)

    def _begin(self, event: TurnStarted) -> None:
        self.rested_at = None
        at = parse_timestamp(event.at)
        self._at = self._at if at is None else at
        for clock in self._unsent if at is not None else ():
            if clock.times[-1:] == [None]:
                clock.times[-1] = at
                self.timed += 1
        self._unsent.clear()

    def _end(self, agent: str | None, at: str | None) -> None:
        """Note when an agent answered; a turn's end may be written with the time of its first words."""
        ended = parse_timestamp(at)
        if ended is not None:
            self.ended_at[agent] = max(ended, self.ended_at.get(agent, ended))

    def _rest(self, at: str | None) -> None:
        rested = parse_timestamp(at)
        self.compacted_at = self.rested_at = self._at if rested is None else rested


class Tracker:
    """Follows all chains of one session; `user` and `agent` are its header's. Not safe between threads.

    `requests` counts those that went out. `moves` is how often a person's exchange has moved on the main chain, and
    `moved_at` when last.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.user: str | None = None
        self.agent: str | None = None
        self.requests = self.moves = 0
        self.moved_at: float | None = None
        self._chains: dict[str, Tracked] = {}
        self._pauses: list[float] = []
        self._last: float | None = None
        self._is_real = False
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
        elif isinstance(event, (Append, TurnStarted, *ENDS, CompactApplied, ContextPersisted, Remove)):
            self.chain(event.chain).feed(event)
            if isinstance(event, (TurnStarted, *ENDS)):
                self._turn(event)
            if event.chain == MAIN and isinstance(event, Append | TurnStarted | TurnCompleted):
                self._move(event)

    def _turn(self, event: TurnStarted | TurnCompleted | TurnFailed | TurnCanceled) -> None:
        at = parse_timestamp(event.at)
        if isinstance(event, TurnStarted):
            self.requests += 1
            pause = None if at is None else self.pause(at)
            self._pauses += [] if pause is None else [pause]
        self._last = self._last if at is None else at

    def pause(self, now: float) -> float | None:
        """Return how long no request began or ended by now, in seconds; None where no time is known."""
        return None if self._last is None else now - self._last

    def until(self, lives: float) -> int:
        """Return how many requests come, on average, before a pause that is longer than entries live; at least 1."""
        return max(1, self.requests // (1 + sum(pause > lives for pause in self._pauses)))

    def _move(self, event: Append | TurnStarted | TurnCompleted) -> None:
        if isinstance(event, Append):
            if is_injected(event.item):
                return
            if isinstance(event.item, UserMessage):
                self._is_real = is_real(event.item)
            self.moves += self._is_real
        at = parse_timestamp(event.at) if self._is_real else None
        self.moved_at = self.moved_at if at is None else at
