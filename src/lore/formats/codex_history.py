"""The history of a Codex thread as numbers: which items stand in it, and what a rollback takes back.

In: items as they come, compactions, rollbacks. Out: the uuids that go or stay. A rollback drops the last prompts of the
user and all behind them, with what the client wrote directly before each: contexts and permissions; nothing before the
first prompt goes. Source: `drop_last_n_user_turns`, `codex-rs/core/src/context_manager/history.rs` of October 2026.
"""

from __future__ import annotations

from msgspec import Struct


class Boundary(Struct, gc=False):
    """A prompt of the user: the number of its item, and of the first that goes with it when it is taken back."""

    item: int
    cut: int


class History(Struct):
    """Items by number: `items` were made; those from `since` on stand, and those in the ranges of `before`.

    `boundaries` are the prompts among them, `contextual` counts what the client wrote since the last of other items.
    """

    items: int = 0
    since: int = 1
    before: list[tuple[int, int]] = []
    boundaries: list[Boundary] = []
    contextual: int = 0

    def user_message(self, *, contextual: bool, prompt: bool) -> None:
        """Note that the last item is a message that the model did not make: the client's, or a prompt."""
        if contextual:
            self.contextual += 1
            return
        if prompt:
            behind = self.contextual if self.boundaries else 0
            self.boundaries.append(Boundary(self.items, self.items - behind))
        self.contextual = 0

    def roll_back(self, count: int) -> tuple[str, ...]:
        """Drop so many prompts; return the uuids of the items that go."""
        gone = self.boundaries[-count:] if count > 0 else []
        if not gone:
            return ()
        del self.boundaries[-len(gone) :]
        cut, ranges = gone[0].cut, [*self.before, (self.since, self.items)]
        self.before = [(first, min(last, cut - 1)) for first, last in ranges if first < cut and first <= last]
        self.since, self.contextual = self.items + 1, 0
        return tuple([uuid_of(number) for first, last in ranges for number in range(max(first, cut), last + 1)])

    def replace(self) -> None:
        """Drop all: another history comes."""
        self.before, self.boundaries, self.contextual = [], [], 0
        self.since = self.items + 1

    def keep_prompts(self) -> tuple[str, ...]:
        """Drop all but the prompts, as compactions did that noted a summary alone; return the uuids that stay."""
        numbers = [boundary.item for boundary in self.boundaries]
        boundaries = self.boundaries
        self.replace()
        self.before, self.boundaries = [(number, number) for number in numbers], boundaries
        for boundary in boundaries:
            boundary.cut = boundary.item
        return tuple(map(uuid_of, numbers))


def uuid_of(number: int) -> str:
    """Return the uuid of an item."""
    return f"item-{number}"
