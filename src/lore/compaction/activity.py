"""Track a session's exchanges, the times at which people spoke, and how many requests were made.

`SessionActivity` follows events at O(1) each. An exchange is counted when its message comes; a compaction removes none,
and a message that was taken back, or that is logged again under its uuid, is counted at most once. Times are seconds
since 1970: the event's own, otherwise those of the turn that first sent it; None is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable

from lore.cache.counts import reason_to_doubt, total
from lore.compaction.entries import is_injected
from lore.model import events as e
from lore.model.items import AssistantMessage, ToolCall, UserMessage
from lore.model.times import parse_timestamp
from lore.prompt.layout import is_real

UNTIMED = "gap triggers cannot be judged: the session holds no times"
TURN_ENDS = (e.TurnCompleted, e.TurnFailed, e.TurnCanceled)
SILENT = ("overflow", "auto")  # triggers whose compactions make room, and ask no sources


class ChainActivity:
    """The activity of one chain; it changes with the events that follow."""

    def __init__(self) -> None:
        self.exchanges = 0  # real user messages
        self.has_times = False  # the time of a message is known
        self.least_billed: int | None = None  # tokens of the shortest prompt whose usage is known
        self.compacted = -1  # exchanges that were finished at the last compaction; -1 before the first
        self.asked_at: float | None = None  # when sources of outside context were last asked
        self.rested_at: float | None = None  # when it was compacted or sources were asked, until the next turn begins
        self.ended_at: dict[str | None, float] = {}  # by agent: when its last turn or answer ended
        self._turn_at: float | None = None
        self._real_uuids: set[str] = set()
        self._latest_uuid = ""
        self._latest_agent: str | None = None  # that a person spoke to
        self._waiting: dict[str | None, float | None] = {}  # by agent: when a message was sent that waits for an answer
        self._answered: dict[str | None, float | None] = {}  # by agent: when the last answered message was sent
        self._untimed: set[str | None] = set()  # agents whose last message has no time, and was not sent by a turn yet

    @property
    def finished(self) -> int:
        """The number of exchanges without the one that waits for an answer."""
        return self.exchanges - bool(self._waiting)

    @property
    def is_timed(self) -> bool:
        """Whether gaps can be judged: the time of a message is known, or there are no messages."""
        return self.has_times or not self.exchanges

    def last_spoken(self, agent: str | None) -> tuple[bool, float | None]:
        """Return whether a person spoke to this agent before the waiting message, and when last."""
        agent = self.resolve_agent(agent)
        return agent in self._answered, self._answered.get(agent)

    def resolve_agent(self, agent: str | None) -> str | None:
        """Return the agent that None stands for: the unnamed one if it was addressed, else the latest addressed."""
        return agent if (agent is not None or None in self._waiting or None in self._answered) else self._latest_agent

    def add(self, event: e.Event) -> None:
        """Add the chain's next event."""
        match event:
            case e.Append():
                self._add_item(event)
            case e.TurnStarted():
                self.rested_at = None
                at = parse_timestamp(event.at)
                if at is not None:
                    self._turn_at = at
                    self.has_times = self.has_times or bool(self._untimed)
                    for agent in self._untimed:
                        times = self._waiting if agent in self._waiting else self._answered
                        if times.get(agent, at) is None:
                            times[agent] = at
                self._untimed.clear()
            case e.TurnCompleted() | e.TurnFailed() | e.TurnCanceled():
                self._note_end(event.agent_id, event.at)
                tokens = None if event.usage is None or reason_to_doubt(event.usage) else total(event.usage)
                if tokens is not None:
                    self.least_billed = tokens if self.least_billed is None else min(tokens, self.least_billed)
            case e.CompactApplied():
                self.compacted = self.finished
                at = parse_timestamp(event.at)
                self.rested_at = self._turn_at if at is None else at
                if event.trigger not in SILENT:
                    self.asked_at = self.rested_at
            case e.ContextPersisted(outside=True) if event.at is not None:
                at = parse_timestamp(event.at)
                self.rested_at = self.asked_at = self._turn_at if at is None else at
            case e.Remove():
                for uuid in self._real_uuids.intersection(event.uuids):
                    if uuid == self._latest_uuid:
                        self._waiting.clear()
                    self._real_uuids.remove(uuid)
                    self.exchanges -= 1
            case _:  # no message, turn or compaction
                pass

    def _add_item(self, event: e.Append) -> None:
        item = event.item
        if isinstance(item, AssistantMessage | ToolCall):
            self._answered |= self._waiting
            self._waiting.clear()
            self._note_end(event.agent_id, event.at)  # some logs write the end of a turn when the next one begins
        elif is_real(item) and item.uuid not in self._real_uuids:
            self._real_uuids.add(item.uuid)
            self._latest_uuid = item.uuid
            self.exchanges += 1
            agent = self._latest_agent = event.agent_id
            at = self._waiting[agent] = parse_timestamp(event.at)
            if at is None:
                self._untimed.add(agent)
            else:
                self.has_times = True

    def _note_end(self, agent: str | None, at: str | None) -> None:
        """Note when an agent answered; some logs give a turn's end the time of its first words."""
        ended = parse_timestamp(at)
        if ended is not None:
            self.ended_at[agent] = max(ended, self.ended_at.get(agent, ended))


class SessionActivity:
    """The activity of all chains of one session. Not safe between threads."""

    def __init__(self, events: Iterable[e.Event] = ()) -> None:
        self.user: str | None = None  # of the session's header
        self.agent: str | None = None  # of the session's header
        self.requests = 0
        self.moves = 0  # items that a person's exchange added to the main chain
        self.moved_at: float | None = None  # when the last of them was added
        self._chains: dict[str, ChainActivity] = {}
        self._is_personal = False  # whether the latest user message was a person's
        for event in events:
            self.add(event)

    def restart(self) -> None:
        """Forget all events."""
        self.__init__()

    def chain(self, name: str = e.MAIN) -> ChainActivity:
        """Return the activity of a chain; it changes with the events that follow."""
        return self._chains.get(name) or self._chains.setdefault(name, ChainActivity())

    def add(self, event: e.Event) -> None:
        """Add the session's next event."""
        if isinstance(event, e.SessionStarted) and self.user is None:
            self.user, self.agent = event.user_id, event.agent_id
        self.chain(event.chain).add(event)
        is_message, is_turn = isinstance(event, e.Append), isinstance(event, (e.TurnStarted, *TURN_ENDS))
        if not (is_message or is_turn):
            return
        at = parse_timestamp(event.at)
        if isinstance(event, e.TurnStarted):
            self.requests += 1
        if event.chain != e.MAIN or isinstance(event, e.TurnFailed | e.TurnCanceled):
            return
        if isinstance(event, e.Append):
            if is_injected(event.item):
                return
            if isinstance(event.item, UserMessage):
                self._is_personal = is_real(event.item)
            self.moves += self._is_personal
        if self._is_personal and at is not None:
            self.moved_at = at
