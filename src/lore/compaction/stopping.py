"""End a watch that was asked to: at once where it waits for a model or a command, elsewhere once a save is done.

In: a signal. Out: `StoppedError` in what waits. Rules: it is raised in the main thread, and only while somebody else is
waited for, when nothing is half written; it is no error of a model's, so nothing takes it for one and goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager

from lore.compaction.base import Summarizer, SummaryAnswer, SummaryRequest, Window
from lore.compaction.executor import Dependencies
from lore.compaction.extractive import Extractive

Waiting = Callable[[], AbstractContextManager[None]]


class StoppedError(BaseException):
    """What was waited for is not wanted any more."""


class Stopping:
    """Hears a signal; `asked` tells from then on that it came."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._waits = False

    def hear(self, *_: object) -> None:
        """Take a signal: for `signal.signal`."""
        self.asked.set()
        if self._waits:
            self._waits = False  # a second one does not disturb what cleans up
            raise StoppedError

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Wait interruptibly: a signal ends the wait, also one that came before."""
        self._waits = True
        try:
            if self.asked.is_set():
                raise StoppedError
            yield
        finally:
            self._waits = False


class _InterruptibleSummarizer:
    """A summariser that is waited for."""

    def __init__(self, inner: Summarizer, waiting: Waiting) -> None:
        self.name = inner.name
        self._inner, self._waiting = inner, waiting

    def summarize(self, request: SummaryRequest) -> SummaryAnswer:
        with self._waiting():
            return self._inner.summarize(request)


def interruptible(summarizer: Summarizer, waiting: Waiting) -> Summarizer:
    """Return a summariser that a signal interrupts; the extractive one never waits."""
    return summarizer if isinstance(summarizer, Extractive) else _InterruptibleSummarizer(summarizer, waiting)


def interruptible_dependencies(dependencies: Dependencies, waiting: Waiting) -> Dependencies:
    """Return means whose summariser and sources a signal interrupts."""
    ask = dependencies.ask

    def asked(window: Window) -> str:
        assert ask is not None
        with waiting():
            return ask(window)

    summarizer = interruptible(dependencies.summarizer, waiting)
    return dependencies._replace(summarizer=summarizer, ask=None if ask is None else asked)
