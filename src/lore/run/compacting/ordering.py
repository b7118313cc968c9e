"""The end of a turn before what a person says behind its answer.

In: the events of a log. Out: the same. Some logs (Claude Code's) say how a turn ended, and what it was billed, once the
next one begins: whoever speaks between the two would seem to speak while a request is out, and a policy would be asked
about the turn too late. What comes between answer and end is held; a call that was asked for is no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lore.formats.base import Read
from lore.model.events import Append, Event, TurnCanceled, TurnCompleted, TurnFailed, TurnStarted
from lore.model.items import AssistantMessage, ToolCall
from lore.prompt.speakers import is_real

ENDS = (TurnCompleted, TurnFailed, TurnCanceled)


class Placed(NamedTuple):
    """An event, and where it was read."""

    read: Read
    event: Event


def ended_first(reads: Iterable[Read]) -> Iterator[Placed]:
    """Yield events in the order in which they happened. Holds at most what one person says before an answer."""
    held: list[Placed] = []
    out: dict[str, bool] = {}  # chains with a request out: whether it was answered, and asked for no tools
    for read in reads:
        one = Placed(read, read.value)  # pyright: ignore[reportArgumentType]
        if held and one.event.chain == held[0].event.chain and _is_next(one.event):
            yield from (one, *held) if isinstance(one.event, ENDS) else (*held, one)
            held = []
        elif held or (out.get(one.event.chain) and isinstance(one.event, Append) and is_real(one.event.item)):
            held.append(one)
        else:
            yield one
        _follow(out, one.event)
    yield from held


def _is_next(event: Event) -> bool:
    """Tell whether the request that is out has ended, or cannot end any more."""
    if isinstance(event, Append):
        return isinstance(event.item, AssistantMessage | ToolCall)
    return isinstance(event, TurnStarted | TurnCompleted | TurnFailed | TurnCanceled)


def _follow(out: dict[str, bool], event: Event) -> None:
    match event:
        case TurnStarted():
            out[event.chain] = False
        case Append(item=AssistantMessage()) if event.chain in out:
            out[event.chain] = True
        case Append(item=ToolCall()) | TurnCompleted() | TurnFailed() | TurnCanceled():
            out.pop(event.chain, None)
        case _:
            pass
