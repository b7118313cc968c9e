"""A question to a configured model, or to a command that stands for one -> an answer that can be used.

Compaction asks for summaries of entries, memory for JSON about what was said; both ask one `Summarizer`. An answer that
cannot be read is asked for once more, with what is wrong with it in the prompt; one that was cut off with twice the
room.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from msgspec import Raw

from lore.errors import LoreError
from lore.model.canonical import encode
from lore.model.items import UserMessage
from lore.model.state import Entry
from lore.untrusted import one_line

__all__ = ["Ask", "SummaryError", "UnusableAnswerError", "Waiting", "again", "asking", "usable"]

T = TypeVar("T")
MOST_TOKENS = 16_384  # tokens that an answer which is cut off may grow to


class SummaryRequest(NamedTuple):
    """What a summariser is asked: the entries that go, oldest first, and `opening`: those among them that begin the
    exchange whose end stays. `previous` is the summary that is replaced; `tokens` how long the answer may be. `prompt`
    is what a model is told to do with the entries where it is no summary that is wanted (`asking`); `fault` says why
    the last answer to this request could not be used, empty for the first.
    """

    entries: tuple[Entry, ...]
    opening: tuple[Entry, ...] = ()
    previous: str = ""
    tokens: int = 1_024
    prompt: str = ""
    fault: str = ""


class SummaryAnswer(NamedTuple):
    """An answer; `cut_off` where the summariser stopped for its length."""

    text: str
    cut_off: bool = False


class SummaryError(LoreError):
    """No answer: nothing is pruned or learnt, and the next trigger tries again."""


class GivenUpError(SummaryError):
    """No answer, and an immediate retry would not help: a wrong key, no server, a time-out."""


class UnusableAnswerError(SummaryError):
    """An answer that cannot be read: asked for again once, with what is wrong with it in the prompt."""


class Summarizer(Protocol):
    """Sums up what a compaction takes away, or answers another prompt about it."""

    name: str

    def summarize(self, request: SummaryRequest) -> SummaryAnswer:
        """Return a summary; raises SummaryError. Deterministic only where its class says so."""
        ...


Ask: TypeAlias = Callable[[str, str, int], SummaryAnswer]
"""Answer a prompt about data in at most so many tokens; raises SummaryError."""


Waiting: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Surrounds each wait for a model or a command, and may raise there: what asks can be interrupted."""


def asking(summarizer: Summarizer, waiting: Waiting = nullcontext) -> Ask | None:
    """Return a function that asks a configured summariser; None for the extractive one, which has no model."""
    if summarizer.name == "extractive":
        return None

    def ask(prompt: str, data: str, tokens: int) -> SummaryAnswer:
        entry = Entry(UserMessage(uuid="memory", text=Raw(encode(data))), 0, 0)
        with waiting():
            return summarizer.summarize(SummaryRequest((entry,), tokens=tokens, prompt=prompt))

    return ask


def again(fault: str) -> str:
    """Return what is added to a prompt whose last answer could not be used; empty where nothing was wrong."""
    return f"\n\nYour last answer could not be used: {one_line(fault)}. Answer anew." if fault else ""


def usable(
    attempt: Callable[[int, str], T | None], tokens: int, most: int = MOST_TOKENS, *, tries: int = 1,
    tell: Callable[[str], None], unusable: Callable[[str], None],
) -> T:  # fmt: skip
    """Ask until an answer can be used; raises SummaryError, GivenUpError.

    `attempt` asks once, with how many tokens the answer may have and what was wrong with the last one (empty: nothing);
    it returns None where the answer was cut off. What fails otherwise is asked for `tries` times in all. `tell` hears
    why something is asked again, `unusable` of each answer that could not be read.
    """
    room, fault, failures = tokens, "", 0
    while True:
        try:
            found = attempt(room, fault)
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
                raise SummaryError(
                    f"{error.message}, {tries} times" if tries > 1 else error.message, hint=error.hint
                ) from None
            tell(f"{one_line(error.message)}; asked again")
        else:
            if found is not None:
                return found
            if room >= most:
                raise GivenUpError(f"the answer was cut off, even with {room:,} tokens")
            room = min(max(1, 2 * room), most)
