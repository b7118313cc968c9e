"""Ask a configured model, or a command in its place, until its answer can be used.

Compaction requests summaries of entries, memory requests JSON about a conversation; both use one `Summarizer`. After an
unreadable answer the request is repeated once, with the fault in the prompt; after one that was cut off, with twice as
many tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from lore.errors import LoreError, kind_of
from lore.model.mask import mask
from lore.model.state import Entry
from lore.untrusted import one_line

__all__ = ["Ask", "SummaryError", "UnusableAnswerError", "retry_prompt", "make_ask", "retry"]

T = TypeVar("T")
MOST_TOKENS = 16_384  # largest limit of an answer that was cut off


class SummaryRequest(NamedTuple):
    """A request for a summary, or for another answer about entries or texts."""

    entries: tuple[Entry, ...] = ()  # the messages to sum up, oldest first
    opening: tuple[Entry, ...] = ()  # those among them that begin an exchange whose end is not removed
    previous: str = ""  # the summary that is replaced
    tokens: int = 1_024  # largest length of the answer
    prompt: str = ""  # the task; empty: sum up
    fault: str = ""  # why the last answer to this request could not be used; empty for the first
    texts: tuple[str, ...] | None = None  # the input; None: the entries as a transcript


class SummaryAnswer(NamedTuple):
    """An answer."""

    text: str
    cut_off: bool = False  # the summariser stopped for its length


class SummaryError(LoreError):
    """No answer: nothing is pruned or remembered, and the next trigger tries again."""


class GivenUpError(SummaryError):
    """No answer, and an immediate retry would not help: a wrong key, no server, a time-out."""


class UnusableAnswerError(SummaryError):
    """An answer that cannot be read: the request is repeated once, with the fault in the prompt."""


class AuthorSummarizer(Protocol):
    """A summariser of an agent's author: it may return a text, and whatever it raises is a missing summary."""

    def summarize(self, request: SummaryRequest) -> SummaryAnswer | str:
        """Return a summary."""
        ...


class Summarizer(Protocol):
    """Sums up what a compaction removes, or answers another prompt about it."""

    name: str

    def summarize(self, request: SummaryRequest) -> SummaryAnswer:
        """Return a summary; raises SummaryError. Deterministic only if its class says so."""
        ...


def answer_of(summarizer: AuthorSummarizer, request: SummaryRequest) -> SummaryAnswer:
    """Return what any summariser answers; raises SummaryError for all else that it raises or returns."""
    try:
        answer = summarizer.summarize(request)
    except SummaryError:
        raise
    except Exception as error:  # any error of an SDK: no request may fail for lack of a summary
        raise SummaryError(one_line(mask(f"{type(error).__name__}: {error}"))) from error
    if isinstance(answer, str):
        return SummaryAnswer(answer)
    if not isinstance(answer, SummaryAnswer):  # pyright: ignore[reportUnnecessaryIsInstance] - of a stranger's code
        raise SummaryError(f"the summariser returned {kind_of(answer)}, where a text is due")
    return answer


Ask: TypeAlias = Callable[[str, str, int], SummaryAnswer]
"""Answer a prompt about data in at most this many tokens; raises SummaryError."""


def make_ask(summarizer: Summarizer) -> Ask | None:
    """Return a function that asks a configured summariser; None for the extractive one, which has no model."""
    if summarizer.name == "extractive":
        return None

    def ask(prompt: str, data: str, tokens: int) -> SummaryAnswer:
        return summarizer.summarize(SummaryRequest(texts=(data,), tokens=tokens, prompt=prompt))

    return ask


def retry_prompt(fault: str) -> str:
    """Return the addition to a prompt whose last answer had a fault; empty without one."""
    return f"\n\nYour last answer could not be used: {one_line(fault)}. Answer again." if fault else ""


def retry(
    attempt: Callable[[int, str], T | None], tokens: int, most: int = MOST_TOKENS, *, tries: int = 1,
    tell: Callable[[str], None], unusable: Callable[[str], None],
) -> T:  # fmt: skip
    """Ask until an answer can be used; raises SummaryError, GivenUpError.

    `attempt` asks once, with the tokens that the answer may have and the fault of the last one (empty for the first);
    it returns None if the answer was cut off. Other failures are retried up to `tries` times in all. `tell` receives
    the reason for each repetition, `unusable` the fault of each answer that could not be read.
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
