"""The test that runs now: what it may do, and what it did.

One object holds it, since an assertion is called without it. The hooks set and restore it; without pytest
no test runs, and nothing is excused. One test runs at a time in a process.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MOVED = "lore_moved"  # the property of a test's report that says what it moved


class LoreWarning(UserWarning):
    """Something that was allowed did not happen, or lore could not do its part; no test fails by it."""


@dataclass(slots=True)
class Test:
    """A test; `reason` says why it may move the prefix (None: it may not), `moved` what it moved so far.

    `passed`: its body ran to its end without a failure; `cassettes`: it used some, which are judged later.
    """

    __test__ = False  # not one of pytest's

    name: str
    reason: str | None = None
    moved: list[str] = field(default_factory=list[str])
    passed: bool = False
    cassettes: bool = False


class RunningTest:
    """Holds the test that runs; None between tests and without pytest."""

    test: Test | None = None


class Recordings:
    """What recorders did in this process: how many began, how many prompts they heard, who stood before which library.

    `prompts` counts requests that may be prompts. Counts only grow: a run compares them with those at its begin.
    """

    def __init__(self) -> None:
        self.begun = self.prompts = 0
        self.replaced: dict[str, str] = {}  # library -> the module of what took the place of lore's wrapper


RUNNING = RunningTest()
RECORDINGS = Recordings()
