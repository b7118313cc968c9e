"""Put the end of a turn before what a person says behind its answer.

In: the events of a log. Out: the same. Some logs (Claude Code's) write how a turn ended, and what it was billed, once
the next one begins: a message between the two would seem to come while a request is out, and a policy would be asked
about the turn too late. What comes between answer and end is held. A call of a tool is no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lore.formats.base import Read
from lore.model.events import Append, Event, TurnCanceled, TurnCompleted, TurnFailed, TurnStarted
from lore.model.items import AssistantMessage, ToolCall
from lore.prompt.speakers import is_real

ENDS = (TurnCompleted, TurnFailed, TurnCanceled)


class PlacedEvent(NamedTuple):
    """An event, and where it was read."""

    read: Read
    event: Event


def ended_first(reads: Iterable[Read]) -> Iterator[PlacedEvent]:
    """Yield events in the order in which they happened. Holds at most what one person says before an answer."""
    held: list[PlacedEvent] = []
    is_answered: dict[str, bool] = {}  # by chain, while a request is out: whether it was answered without tools
    for read in reads:
        placed = PlacedEvent(read, read.value)  # pyright: ignore[reportArgumentType]
        event = placed.event
        if held and event.chain == held[0].event.chain and _ends_request(event):
            yield from (placed, *held) if isinstance(event, ENDS) else (*held, placed)
            held = []
        elif held or (is_answered.get(event.chain) and isinstance(event, Append) and is_real(event.item)):
            held.append(placed)
        else:
            yield placed
        _follow(is_answered, event)
    yield from held


def _ends_request(event: Event) -> bool:
    """Tell whether the request that is out has ended, or cannot end any more."""
    if isinstance(event, Append):
        return isinstance(event.item, AssistantMessage | ToolCall)
    return isinstance(event, TurnStarted | TurnCompleted | TurnFailed | TurnCanceled)


def _follow(is_answered: dict[str, bool], event: Event) -> None:
    match event:
        case TurnStarted():
            is_answered[event.chain] = False
        case Append(item=AssistantMessage()) if event.chain in is_answered:
            is_answered[event.chain] = True
        case Append(item=ToolCall()) | TurnCompleted() | TurnFailed() | TurnCanceled():
            is_answered.pop(event.chain, None)
        case _:
            pass
