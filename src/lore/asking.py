"""Ask a configured model, or a command that stands for one, until its answer can be used.

Compaction asks for summaries of entries, memory for JSON about a conversation; both ask one `Summarizer`. An unreadable
answer is asked for once more, with its fault in the prompt; one that was cut off with twice the room.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from lore.errors import LoreError
from lore.model.state import Entry
from lore.untrusted import one_line

__all__ = ["Ask", "SummaryError", "UnusableAnswerError", "again", "asking", "usable"]

T = TypeVar("T")
MOST_TOKENS = 16_384  # tokens that an answer which is cut off may grow to


class SummaryRequest(NamedTuple):
    """What a summariser is asked."""

    entries: tuple[Entry, ...] = ()  # the messages to sum up, oldest first
    opening: tuple[Entry, ...] = ()  # those among them that begin the exchange whose end stays
    previous: str = ""  # the summary that is replaced
    tokens: int = 1_024  # how long the answer may be
    prompt: str = ""  # what a model is asked to do; empty: to sum up
    fault: str = ""  # why the last answer to this request could not be used; empty for the first
    texts: tuple[str, ...] | None = None  # what a model reads; None: the entries as a transcript


class SummaryAnswer(NamedTuple):
    """An answer."""

    text: str
    cut_off: bool = False  # the summariser stopped for its length


class SummaryError(LoreError):
    """No answer: nothing is pruned or learnt, and the next trigger tries again."""


class GivenUpError(SummaryError):
    """No answer, and an immediate retry would not help: a wrong key, no server, a time-out."""


class UnusableAnswerError(SummaryError):
    """An answer that cannot be read: asked for again once, with its fault in the prompt."""


class Summarizer(Protocol):
    """Sums up what a compaction removes, or answers another prompt about it."""

    name: str

    def summarize(self, request: SummaryRequest) -> SummaryAnswer:
        """Return a summary; raises SummaryError. Deterministic only if its class says so."""
        ...


Ask: TypeAlias = Callable[[str, str, int], SummaryAnswer]
"""Answer a prompt about data in at most this many tokens; raises SummaryError."""


def asking(summarizer: Summarizer) -> Ask | None:
    """Return a function that asks a configured summariser; None for the extractive one, which has no model."""
    if summarizer.name == "extractive":
        return None

    def ask(prompt: str, data: str, tokens: int) -> SummaryAnswer:
        return summarizer.summarize(SummaryRequest(texts=(data,), tokens=tokens, prompt=prompt))

    return ask


def again(fault: str) -> str:
    """Return the addition to a prompt whose last answer had a fault; empty without one."""
    return f"\n\nYour last answer could not be used: {one_line(fault)}. Answer again." if fault else ""


def usable(
    attempt: Callable[[int, str], T | None], tokens: int, most: int = MOST_TOKENS, *, tries: int = 1,
    tell: Callable[[str], None], unusable: Callable[[str], None],
) -> T:  # fmt: skip
    """Ask until an answer can be used; raises SummaryError, GivenUpError.

    `attempt` asks once, with the tokens that the answer may have and the fault of the last one (empty for the first);
    it returns None if the answer was cut off. Other failures are retried up to `tries` times in all. `tell` receives
    why something is asked again, `unusable` the fault of each answer that could not be read.
    """
    room, fault, failures = tokens, "", 0
    while True:
        try:
            answer = attempt(room, fault)
        except GivenUpError:
            raise
        except UnusableAnswerError as error:
            unusable(error.message)
            if fault:
                raise SummaryError(f"{error.message}, also when asked again", hint=error.hint) from None
            tell(f"{one_line(error.message)}; asked again, with that in the prompt")
            fault = error.message
        except SummaryError as error:
            failures, room = failures + 1, tokens
            if failures == tries:
                times = f", {tries} times" if tries > 1 else ""
                raise SummaryError(f"{error.message}{times}", hint=error.hint) from None
            tell(f"{one_line(error.message)}; asked again")
        else:
            if answer is not None:
                return answer
            if room >= most:
                raise GivenUpError(f"the answer was cut off, even with {room:,} tokens")
            room = min(max(1, 2 * room), most)
