"""The cost of the next request in long sessions, through the library."""

from bench import clock
from lore.session import Session


def requests(many: int, few: int, rounds: int) -> clock.Ratio:
    """Compare `user`, `request` and `assistant` in a session of `many` turns with one of `few`, in CPU time."""
    long, short = (_session(turns) for turns in (many, few))
    return clock.alternate(lambda: _ask(long), lambda: _ask(short), rounds, clock.CPU)


def _session(turns: int) -> Session:
    session = Session("claude-opus-5", system="You help. " * 200)
    _ask(session, turns)
    return session


def _ask(session: Session, times: int = 20) -> None:
    for _ in range(times):
        session.user("What is in this file? " * 10)
        session.request(current_time="09:00")
        session.assistant("A key and a value. " * 20)
