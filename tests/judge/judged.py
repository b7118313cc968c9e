"""Conversations judged turn by turn, for tests of the cause of a fallen read."""

from cache.talk import BEGIN, Talk, bill
from lore.judge.base import TurnVerdict
from lore.run.rules import Dated

SIGN_CODES = {  # a signal of the log -> the code that it explains a fallen read by
    "client-version": "LORE157", "effort": "LORE120", "restart": "LORE167", "tool-reference": "LORE124",
    "tools-delta": "LORE103", "no-thinking": "LORE168", "resume": "LORE123", "api-error": "LORE164",
    "slash-command": "LORE162", "micro-compaction": "LORE117", "permission-mode": "LORE165", "date": "LORE101",
    "instructions": "LORE145", "memory": "LORE126", "interrupt": "LORE163", "instructions-delta": "LORE166",
    "skill": "LORE161", "thinking": "LORE120", "provider": "LORE131",
    "streaming": "LORE120", "remote-control": "LORE103",
}  # fmt: skip


class Judged(Talk):
    """A conversation judged turn by turn; `verdict` is that of the last turn."""

    def __init__(self, begin: float = BEGIN) -> None:
        super().__init__(begin)
        self.judge = Dated().judge()
        self.verdict: TurnVerdict | None = None

    def turn(self, *args, **fields):
        prediction = super().turn(*args, **fields)
        self.verdict = self.judge.turn(self.last)
        return prediction

    @property
    def lead(self):
        """The only cause of the last turn; other evidence is in its `also`."""
        (cause,) = self.verdict.causes
        return cause


def opened(begin=BEGIN, **fields):
    """Return a conversation of two turns: breakpoints at 12,000 and 12,300, a head of 10,000 tokens."""
    talk = Judged(begin)
    talk.open(**fields)
    return talk


def dropped(talk, read=10_000, **fields):
    """Add a turn that reads less, and return its cause."""
    talk.turn(bill(read, 2_500), **fields)
    return talk.lead


def leading_kind(pair):
    """Return the kind of the cause that leads; `expected` without a break."""
    return "expected" if pair.leading is None else pair.leading.kind


def rank(cause):
    """Return the code, strength and kind of a cause."""
    return cause.code, cause.strength, cause.kind


def other_codes(cause):
    """Return the codes of the other evidence shown with a cause."""
    return [other.code for other in cause.also]
