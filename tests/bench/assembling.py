"""What assembling costs: all turns of a session through the library.

The session is made of the events of `generate.py`, with knowledge that changes every seventh turn and a
user who speaks in every third only, so that deltas are made, wait, and are reset at their cap.
"""

from __future__ import annotations

from functools import cache

from bench import clock, generate
from helpers.fed import fed
from lore.formats.lore_log import LoreLog
from lore.model.canonical import decode
from lore.model.events import Append, CacheReset, Event, PromptDelta, TurnStarted
from lore.model.items import UserMessage
from lore.prompt.base import Policy, Rules
from lore.session import Session, event


@cache
def events(turns: int) -> tuple[Event, ...]:
    """Return the events of a session: messages, results and knowledge; its turns are to be begun."""
    reader, made = LoreLog(), list[Event]()
    for number, line in enumerate(generate.lines(turns)):
        for read in fed(reader, line):
            one: Event = read.value  # type: ignore[assignment]
            spoken = isinstance(one, Append) and isinstance(one.item, UserMessage)
            if not spoken or int(one.item.uuid[1:]) % 3 == 1:  # type: ignore[union-attr]
                made.append(one)
        if number % 49 == 0:
            made.append(event("knowledge", op="add", id=f"entry-{number % 20}", title="t", content=f"fact {number}"))
    return tuple(made)


def assemble(turns: int, policy: Policy) -> None:
    """Begin every turn of a session; raises RuntimeError where it is not the session that is meant."""
    session = Session(rules=Rules(tail=policy))
    begun = deltas = resets = 0
    for one in events(turns):
        if not isinstance(one, TurnStarted):
            session.apply(one)
            continue
        prompt, planned = session.begin_turn(decode(bytes(one.context)))
        begun += 1
        deltas += sum(isinstance(event, PromptDelta) for event in planned)
        resets += sum(isinstance(event, CacheReset) for event in planned)
    if begun != turns or not deltas or (turns > 400 and not resets) or len(prompt.messages) < turns:
        raise RuntimeError(f"not the session that is meant: {begun} turns, {deltas} deltas, {resets} resets")


def growth(few: int, rounds: int) -> clock.Ratio:
    """Ten times the turns, in process, in CPU time."""
    events(few)
    events(10 * few)
    return clock.alternate(
        lambda: [assemble(10 * few, policy) for policy in ("system", "persist")],
        lambda: [assemble(few, policy) for policy in ("system", "persist")],
        rounds,
        clock.CPU,
    )


def requests(many: int, few: int, rounds: int) -> clock.Ratio:
    """`request()` in a session of `many` turns against one of `few`, in CPU time."""
    sessions = {turns: _spoken(turns) for turns in (many, few)}
    return clock.alternate(lambda: _ask(sessions[many]), lambda: _ask(sessions[few]), rounds, clock.CPU)


def _spoken(turns: int) -> Session:
    session = Session("claude-opus-5", system="You help. " * 200)
    for _ in range(turns):
        _ask(session, 1)
    return session


def _ask(session: Session, times: int = 20) -> None:
    for _ in range(times):
        session.user("What is in this file? " * 10)
        session.request(current_time="09:00")
        session.assistant("A key and a value. " * 20)
