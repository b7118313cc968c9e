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
from lore.model.items import AssistantMessage, Item, ToolCall, UserMessage
from lore.model.times import parse_timestamp
from lore.prompt.layout import is_real

UNTIMED = "gap triggers cannot be judged: the session holds no times"
TURN_ENDS = (e.TurnCompleted, e.TurnFailed, e.TurnCanceled)
SILENT = ("overflow", "auto")  # triggers whose compactions make room, and ask no sources


class ChainActivity:
    """The activity of one chain; it changes with the events that follow."""

    def __init__(self) -> None:
        self.exchanges = 0  # real user messages
        self.least_billed: int | None = None  # tokens of the shortest prompt whose usage is known
        self.compacted = -1  # exchanges that were finished at the last compaction; -1 before the first
        self.is_compacted = False  # since the latest turn began: its usage says nothing about the next prompt
        self.spoken_at: float | None = None  # when the last answered message was sent
        self.ended_at: float | None = None  # when the last turn or answer ended
        self.asked_at: float | None = None  # when sources of outside context were last asked
        self.rested_at: float | None = None  # when it was compacted or sources were asked, until the next turn begins
        self._has_times = False  # the time of a message is known
        self._is_waiting = False  # a message waits for an answer
        self._waiting_at: float | None = None  # when it was sent
        self._is_untimed = False  # the last message has no time, and was not sent by a turn yet
        self._turn_at: float | None = None
        self._real_uuids: set[str] = set()
        self._latest_uuid = ""

    @property
    def finished(self) -> int:
        """The number of exchanges without the one that waits for an answer."""
        return self.exchanges - self._is_waiting

    @property
    def is_timed(self) -> bool:
        """Whether gaps can be judged: the time of a message is known, or there are no messages."""
        return self._has_times or not self.exchanges

    def pause_before_message(self, now: float | None) -> float | None:
        """Return the seconds since a person last spoke before the waiting message; None if that is unknown.

        An answer counts, since a person who waits for it is not away. So does a compaction without a turn after it:
        the pause that it was made in is over.
        """
        if self.spoken_at is None or now is None:
            return None
        return now - max(at for at in (self.spoken_at, self.ended_at, self.rested_at) if at is not None)

    def add(self, event: e.Event) -> None:
        """Add the chain's next event."""
        at = parse_timestamp(event.at)
        match event:
            case e.Append():
                self._add_item(event.item, at)
            case e.TurnStarted():
                self.rested_at, self.is_compacted = None, False
                if at is not None:
                    self._turn_at = at
                    self._time_message(at)
                self._is_untimed = False
            case e.TurnCompleted() | e.TurnFailed() | e.TurnCanceled():
                self._note_end(at)
                tokens = None if event.usage is None or reason_to_doubt(event.usage) else total(event.usage)
                if tokens is not None:
                    self.least_billed = tokens if self.least_billed is None else min(tokens, self.least_billed)
            case e.CompactApplied():
                self.compacted, self.is_compacted = self.finished, True
                self.rested_at = self._turn_at if at is None else at
                if event.trigger not in SILENT:
                    self.asked_at = self.rested_at
            case e.ContextPersisted(outside=True) if event.at is not None:
                self.rested_at = self.asked_at = self._turn_at if at is None else at
            case e.Remove():
                for uuid in self._real_uuids.intersection(event.uuids):
                    if uuid == self._latest_uuid:
                        self._is_waiting = False
                    self._real_uuids.remove(uuid)
                    self.exchanges -= 1
            case _:  # no message, turn or compaction
                pass

    def _time_message(self, at: float) -> None:
        """Note that a turn which began at this time sent the last message."""
        self._has_times = self._has_times or self._is_untimed
        if self._is_untimed and self._is_waiting:
            self._waiting_at = at
        elif self._is_untimed and self.spoken_at is None:
            self.spoken_at = at

    def _add_item(self, item: Item, at: float | None) -> None:
        if isinstance(item, AssistantMessage | ToolCall):
            if self._is_waiting:
                self.spoken_at, self._is_waiting = self._waiting_at, False
            self._note_end(at)  # some logs write the end of a turn when the next one begins
        elif is_real(item) and item.uuid not in self._real_uuids:
            self._real_uuids.add(item.uuid)
            self._latest_uuid, self._waiting_at, self._is_waiting = item.uuid, at, True
            self.exchanges += 1
            self._is_untimed = at is None
            self._has_times = self._has_times or at is not None

    def _note_end(self, at: float | None) -> None:
        """Note when an answer ended; some logs give a turn's end the time of its first words."""
        if at is not None:
            self.ended_at = at if self.ended_at is None else max(at, self.ended_at)


class SessionActivity:
    """The activity of all chains of one session. Not safe between threads."""

    def __init__(self, events: Iterable[e.Event] = ()) -> None:
        self.header: e.SessionStarted | None = None
        self.requests = 0
        self.moves = 0  # items that a person's exchange added to the main chain
        self.moved_at: float | None = None  # when the last of them was added
        self._chains: dict[str, ChainActivity] = {}
        self._is_personal = False  # whether the latest user message was a person's
        for event in events:
            self.add(event)

    @property
    def owner(self) -> tuple[str, str]:
        """The agent and the user that the session's header names; empty without one."""
        return ("", "") if self.header is None else (self.header.agent_id or "", self.header.user_id or "")

    def restart(self) -> None:
        """Forget all events."""
        self.__init__()

    def chain(self, name: str = e.MAIN) -> ChainActivity:
        """Return the activity of a chain; it changes with the events that follow."""
        return self._chains.get(name) or self._chains.setdefault(name, ChainActivity())

    def add(self, event: e.Event) -> None:
        """Add the session's next event."""
        if isinstance(event, e.SessionStarted) and self.header is None:
            self.header = event
        self.chain(event.chain).add(event)
        self.requests += isinstance(event, e.TurnStarted)
        if event.chain == e.MAIN:
            self._note_move(event)

    def _note_move(self, event: e.Event) -> None:
        """Note an item or a turn of a person's exchange."""
        match event:
            case e.Append(item=item) if not is_injected(item):
                if isinstance(item, UserMessage):
                    self._is_personal = is_real(item)
                self.moves += self._is_personal
            case e.TurnStarted() | e.TurnCompleted():
                pass
            case _:
                return
        at = parse_timestamp(event.at)
        if self._is_personal and at is not None:
            self.moved_at = at
