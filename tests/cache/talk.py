"""A hand-made conversation, turn by turn, for tests of transcripts."""

from typing import Any

from msgspec import Raw

from lore.cache.base import Prediction
from lore.cache.transcripts import TranscriptChain, TurnState
from lore.model.events import Usage, Verdict
from lore.model.items import AssistantMessage, CompactDivider, Item, TextBlock, ToolCall, UserMessage
from lore.model.state import Change, Entry, Sign
from lore.model.turn import Prompt, PromptBasis, Turn
from lore.model.vector import Vector
from lore.run.rules import packaged

BEGIN = 1_780_000_000.0  # May 2026: runs of calls count once
ONE_BY_ONE = 1_784_000_000.0  # July 2026: each block counts


def bill(read: int, write: int, uncached: int = 2, output: int = 50, *, hour: bool = False) -> Usage:
    """A usage with its lifetimes."""
    return Usage(uncached, read, write, output, 0 if hour else write, write if hour else 0)


class Chains:
    """The chains of a recording in one cache; `options` are those of `TranscriptChain`."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.chains: dict[str, TranscriptChain] = {}

    def predict(self, turn: Turn) -> Prediction:
        """Predict a turn by its chain."""
        self.latest = self.chains.setdefault(turn.chain, TranscriptChain(packaged(), **self.options))
        return self.latest.predict(turn)

    def learn(self, turn: Turn) -> str:
        """Learn the usage of the turn that was predicted last."""
        return self.latest.learn(turn)


class Talk:
    """A session of a transcript. `turn` predicts and learns; its results are in the attributes."""

    def __init__(self, begin: float = BEGIN) -> None:
        self.cache = Chains()
        self.entries: Vector[Entry] = Vector()
        self.time = begin
        self.number = 0
        self.model = "claude-x"
        self.last: Turn | None = None
        self.state: TurnState | None = None
        self.odd = ""

    def add(self, *items: Item) -> None:
        """Append items, each a response or message of its own."""
        for item in items:
            self.entries = self.entries.append(Entry(item, self.number, len(self.entries)))

    def ask(self, size: int = 400) -> None:
        """Add a message of the user, after an answer."""
        self.say()
        self.add(UserMessage(self._id(), text=_text(size)))

    def say(self, size: int = 200) -> None:
        """Add an answer of the model."""
        if self.number:
            self.add(AssistantMessage(self._id(), blocks=(TextBlock(_text(size)),)))

    def use(self, size: int = 400) -> None:
        """Add a tool call with its result."""
        self.add(ToolCall(self._id(), self._id(), "read", Raw(b"{}"), "completed", Raw(_text(size))))

    def compact(self) -> Change:
        """Prune everything except a summary."""
        pruned = len(self.entries)
        self.entries = Vector([Entry(CompactDivider(self._id(), "manual", summary=Raw(_text(4000))), self.number, 0)])
        return Change("LORE125", f"manual compaction pruned {pruned} items and kept 0")

    def rewind(self, length: int) -> Change:
        """Remove the entries after the first `kept` ones."""
        self.entries = self.entries.cut(length)
        return Change("LORE143", "items taken back")

    def turn(
        self, usage: Usage | None, *, after: float | None = 20.0, changes: tuple[Change, ...] = (),
        signs: tuple[str | Sign, ...] = (), verdict: str = "", chain: str = "main", response: str | None = None,
    ) -> Prediction:  # fmt: skip
        """Predict a turn that is sent `after` seconds later and answered at once, then learn its usage."""
        self.number += 1
        self.time += after or 0.0
        at = None if after is None else self.time
        turn = Turn(
            chain, self.number, Prompt("anthropic", "reconstructed"), changes, at, at, usage,
            Verdict(verdict) if verdict else None, basis=PromptBasis(self.entries, "anthropic", self.model),
            response_id=response, signs=tuple(Sign(sign) if isinstance(sign, str) else sign for sign in signs),
        )  # fmt: skip
        prediction = self.cache.predict(turn)
        self.state, self.last = self.cache.latest.state, turn
        self.odd = self.cache.learn(turn)
        return prediction

    def open(self, *, hour: bool = False, read: int = 10_000, write: int = 2_000) -> None:
        """Run two turns that continue one another; the first reads a cached head."""
        self.ask()
        self.turn(bill(read, write, hour=hour))
        self.use()
        self.turn(bill(read + write, 300, hour=hour))
        self.use()

    def _id(self) -> str:
        return f"u{self.number}-{len(self.entries)}"


def _text(size: int) -> Any:
    return Raw(b'"' + b"x" * size + b'"')
