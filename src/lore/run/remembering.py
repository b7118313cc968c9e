"""Extract and dream by hand: what `lore memory extract` and `lore memory dream` do.

Only for agents that are opted in, and never from a subagent's session: the settings hold for hands, too.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from lore.compaction.memory.asking import Ask, asking
from lore.compaction.memory.identities import bucket, is_reserved, refusal
from lore.compaction.memory.remembering import LEARNT, WINDOW, Remembering
from lore.compaction.settings import MemorySettings
from lore.compaction.sources import NESTED, is_nested
from lore.compaction.summarizers import summarizer_of
from lore.config import Settings
from lore.errors import LoreError
from lore.fold.step import Folding
from lore.formats.lore_log import LoreLog
from lore.model.codes import Problem
from lore.model.events import SessionStarted
from lore.model.remembered import MemoryDreamt, MemoryExtracted
from lore.model.state import Session
from lore.store.base import Store, Tell
from lore.store.sync import Clock, now

HINT_OPT_IN = '[memory] system = "structured" in lore.toml switches it on, agents = ["NAME"] names others than main'


NO_MODEL = (
    "without a model only plain English sentences are noticed; [compaction] in lore.toml names one that reads any "
    'language: summarizer = "openai" with endpoint and model, or "command"; then `lore memory extract --again`'
)


class Named(NamedTuple):
    """Whose memory is meant; None where it is not said."""

    user: str | None = None
    agent: str | None = None


def extracted(
    store: Store, session_id: str, whose: Named, settings: Settings, tell: Tell, *, again: bool = False,
    clock: Clock = now,
) -> MemoryExtracted:  # fmt: skip
    """Learn from what is new in a stored session, with `again` from all of it.

    Raises LoreError where its user or agent is another, or not opted in.

    Costs O(its events); their bytes are let go of as they are folded.
    """
    if is_reserved(session_id):
        raise LoreError(f"{session_id!r} keeps memory itself", hint="name a session of a user")
    header, state = _folded(store, session_id)
    if whose.user is not None and header.user_id not in (None, whose.user):
        raise LoreError(f"session {session_id!r} is of user {header.user_id!r}", hint="leave --user out")
    owner = bucket(whose.user or header.user_id, whose.agent or header.agent_id)
    _check(settings.memory, owner.agent, is_forked=header.parent_session_id is not None)
    ask = _ask(settings, tell)
    memory = Remembering(store, owner, clock=clock, session_id=session_id, ask=ask, window=_window(settings), tell=tell)
    done = memory.learn(state.main().entries, again=again)
    if ask is None and not (done.added or done.removed or done.skipped or done.failure):
        tell(NO_MODEL)
    if done.skipped == LEARNT:
        tell("--again learns from all of the session, also what was closed or deleted since")
    return MemoryExtracted(
        store=store.url, user=owner.user, agent=owner.agent, session_id=session_id, removed=dict(done.removed),
        added=dict(done.added), skipped=done.skipped or None, failure=done.failure or None,
    )  # fmt: skip


def consolidated(store: Store, whose: Named, settings: Settings, tell: Tell, *, clock: Clock = now) -> MemoryDreamt:
    """Make topics of what is known; raises LoreError where the agent is not opted in."""
    owner = bucket(whose.user, whose.agent)
    _check(settings.memory, owner.agent)
    memory = Remembering(store, owner, clock=clock, ask=_ask(settings, tell), window=_window(settings), tell=tell)
    done = memory.consolidate()
    return MemoryDreamt(
        store=store.url, user=owner.user, agent=owner.agent, topics=list(done.topics), superseded=list(done.superseded),
        skipped=done.skipped or None, failure=done.failure or None,
    )  # fmt: skip


def _check(memory: MemorySettings, agent: str, *, is_forked: bool = False) -> None:
    reason = refusal(memory, agent, is_forked=is_forked)
    if reason:
        raise LoreError(f"nothing is remembered: {reason}", hint="" if is_forked else HINT_OPT_IN)


def _folded(store: Store, session_id: str) -> tuple[SessionStarted, Session]:
    lines = list(store.load(session_id).events)
    lines.reverse()
    reader, folding, header = LoreLog(), Folding(Session()), None
    while lines:
        for read in reader.feed(lines.pop() + b"\n"):
            if isinstance(read.value, SessionStarted):
                header = header or read.value
            if not isinstance(read.value, Problem):
                folding.apply(read.value)  # pyright: ignore[reportArgumentType] - a reader of logs gives events
    assert header is not None  # no store takes a session without
    return header, folding.state()


def _window(settings: Settings) -> int:
    return WINDOW if settings.compaction is None else settings.compaction.summarizer_window


def _ask(settings: Settings, tell: Tell) -> Ask | None:
    """Return the model that the settings name for summaries; None where there is none.

    Raises LoreError inside a source or a summariser, which would ask itself without end.
    """
    if is_nested(os.environ):
        raise LoreError(f"a source or summariser of a compaction remembers nothing itself ({NESTED} is set)")
    if settings.compaction is None:
        return None
    return asking(summarizer_of(settings.compaction, os.environ, tell=tell))
