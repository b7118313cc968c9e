"""Carry a firing out: ask what happened meanwhile, have a summary made, make the events.

In: a session as it is, a firing, the means. Out: events to apply and to store, and what went. Rules: nothing is changed
here; a summary that cannot be had raises, and the caller prunes nothing, but for an overflow, which has to make room:
its marker stands in for the summary, and `tell` hears why. Sources are asked before the summary is, about the window
that the firing fixed; what they say is wrapped as untrusted. Takes as long as the slowest source (30 s at most) and the
summary; may run in another thread than the session's, since states are never changed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from lore.compaction.activity import in_tokens, is_message
from lore.compaction.base import Firing, Request, Summarizer, SummaryError, Window
from lore.compaction.chunking import summarized
from lore.compaction.compacting import compacted
from lore.compaction.cutting import kept, opening, pruned
from lore.compaction.settings import Compaction
from lore.compaction.wrapping import wrapped
from lore.model.canonical import text_of
from lore.model.events import Event
from lore.model.items import CompactDivider, is_absent
from lore.model.state import Chain, Entry, Session, settled

Tell = Callable[[str], None]


class Means(NamedTuple):
    """What a compaction works with: who sums up, who asks the sources about a window, the key of boundary lines."""

    summarizer: Summarizer
    ask: Callable[[Window], str] | None = None
    key: bytes = b""
    tell: Tell = lambda _: None


class Done(NamedTuple):
    """The events of a compaction, and how many messages go and stay; `context_tokens` of what sources said."""

    events: tuple[Event, ...]
    pruned: int
    kept: int
    context_tokens: int


def carry_out(
    session: Session, chain: str, firing: Firing, settings: Compaction, means: Means, *, at: float | None
) -> Done:  # fmt: skip
    """Return the events of a firing that was judged on a chain as it is here; raises SummaryError, LoreError."""
    held = settled(session.chain(chain))
    context = _context(session, firing, means)
    gone = pruned(held.entries, firing.cut) if firing.cut.place else ()
    summary = _summary(request_of(held, firing, settings), firing, settings, means) if gone else ""
    events = compacted(session, chain, firing, summary, context, at=None if at is None else moment(at))
    stay = kept(held.entries, firing.cut) if firing.cut.place else tuple(held.entries)
    return Done(events, _messages(gone), _messages(stay), in_tokens(len(context.encode("utf-8", "replace"))))


def moment(at: float) -> str:
    """Write a time, in seconds since 1970, as a log does."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def request_of(chain: Chain, firing: Firing, settings: Compaction) -> Request:
    """Return what a summariser is asked for a firing."""
    gone = pruned(chain.entries, firing.cut)
    return Request(gone, opening(chain.entries, firing.cut), _previous(gone), settings.summary_tokens)


def _summary(request: Request, firing: Firing, settings: Compaction, means: Means) -> str:
    try:
        return summarized(means.summarizer, request, settings, tell=means.tell)
    except SummaryError as error:
        if not firing.marker:
            raise
        means.tell(f"an overflow without a summary: {error.message}")
        return ""


def _context(session: Session, firing: Firing, means: Means) -> str:
    if firing.window is None or means.ask is None:
        return ""
    text = means.ask(firing.window)
    return wrapped(text, session_id=session.id, key=means.key, at=firing.window.end) if text else ""


def _previous(gone: tuple[Entry, ...]) -> str:
    """Return the summary that goes with what is pruned; empty where there is none."""
    dividers = [one.item for one in gone if isinstance(one.item, CompactDivider) and not is_absent(one.item.summary)]
    return text_of(bytes(dividers[-1].summary)) if dividers else ""


def _messages(entries: tuple[Entry, ...]) -> int:
    return sum(is_message(one.item) for one in entries)
