"""Read a recording: input to events or exchanges, folded and assembled into turns.

In: a name, perhaps a format. Out: turns, as soon as they are whole, each with its prompt; the state at
the end; problems. Rules: one pass, memory bounded by the session's state; a turn of an event log is
whole when its chain's next turn starts (its bill may come any time before) or the log ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from lore import corpus
from lore.errors import LoreError
from lore.fold.step import step
from lore.formats.base import Read, Reader
from lore.formats.registry import BUILT_IN, READERS, recognise
from lore.model.events import CompactApplied, Event, SessionStarted, TurnStarted
from lore.model.exchange import Exchange
from lore.model.problems import Problem
from lore.model.state import Session
from lore.model.turn import Turn
from lore.prefix.chains import Chains
from lore.prompt.assemble import Assembler, Policy
from lore.prompt.base import Dialect, Memo
from lore.prompt.dialects import DIALECTS, dialect_of
from lore.run import plugins
from lore.run.problems import Problems

HINT_FORMATS = "lore reads: " + ", ".join(READERS) + "; say which with --format"


class UnrecognisedError(LoreError):
    """The input can be read, and is no recording that lore knows."""


class Recording:
    """One opened recording. Iterate `turns()` once; then `state`, `boundaries`, `problems` are final.

    `boundaries` are the uuids and times of its compactions.
    """

    def __init__(
        self, path: str, *, format: str | None = None, dialect: str | None = None, policy: Policy = "system",
        problems: Problems | None = None,
    ) -> None:  # fmt: skip
        self.path = path
        self.shown = corpus.show(path)
        opened = corpus.open_head(path)
        kind = reader_named(format) if format else recognise(opened.head) or _plugged(opened.head)
        if kind is None:
            what = "is empty" if not opened.head.strip() else "is no recording that lore knows"
            raise UnrecognisedError(f"{self.shown} {what}", hint=HINT_FORMATS)
        self.reader: Reader = kind()
        self._forced = format is not None
        self._data = opened.data
        self._dialect = _dialect_named(dialect) if dialect else None
        self._policy: Policy = policy
        self.problems = problems or Problems()
        self.state = Session(format=self.reader.name)
        self.boundaries: list[tuple[str, str | None]] = []
        self._chains = Chains()

    @property
    def events(self) -> bool:
        """Whether this is a session log, not a list of requests."""
        return self.reader.yields == "events"

    def reads(self) -> Iterator[Read]:
        """Yield what the reader finds; problems are collected and left out."""
        for data in self._data:
            yield from self._without_problems(self.reader.feed(data))
        yield from self._without_problems(self.reader.finish())

    def _without_problems(self, found: list[Read]) -> Iterator[Read]:
        for read in found:
            if isinstance(read.value, Problem):
                self.problems.add(read.value, self.shown)
            else:
                yield read

    def apply(self, read: Read, event: Event) -> Session:
        """Fold one event into the state."""
        self.state, problems = step(self.state, event)
        if isinstance(event, SessionStarted) and event.dialect not in (None, *DIALECTS):
            shown = f"dialect {event.dialect!r} is not written yet; anthropic stands in for it"
            self.problems.add(Problem("LORE211", shown), self.shown, read.line, read.byte)
        if isinstance(event, CompactApplied):
            self.boundaries.append((event.uuid, event.at))
        for problem in problems:
            self.problems.add(problem, self.shown, read.line, read.byte)
        return self.state

    def forgotten(self) -> list[str]:
        """Name the chains that no turn will continue any more, each once."""
        return self._chains.forgotten()

    def turns(self) -> Iterator[Turn]:
        """Yield the turns of all chains."""
        yield from self._folded() if self.events else self._exchanged()

    # event logs

    def _folded(self) -> Iterator[Turn]:
        waiting: dict[str, Turn] = {}
        assemblers: dict[str, Assembler] = {}
        for read in self.reads():
            event = read.value
            if not isinstance(event, TurnStarted):
                self.apply(read, event)  # pyright: ignore[reportArgumentType]
                continue
            before = waiting.pop(event.chain, None)
            if before is not None:
                yield self._billed(before)
            self.apply(read, event)
            waiting[event.chain] = self._assembled(event.chain, assemblers, read)
        for turn in waiting.values():
            yield self._billed(turn)
        self._say_what_is_left_out()

    def _say_what_is_left_out(self) -> None:
        """Durable deltas, persisted context and late layers are folded; prompts do not hold them yet."""
        main = self.state.main()
        left_out = {
            "durable deltas": len(main.deltas),
            "persisted context": len(main.persisted),
            "late layers": len(self.state.late_layers),
        }
        named = [f"{number} {name}" for name, number in left_out.items() if number]
        if named:
            said = f"{', '.join(named)} in this session: folded, not yet part of assembled prompts"
            self.problems.add(Problem("LORE216", said), self.shown)

    def _billed(self, turn: Turn) -> Turn:
        last = self.state.chain(turn.chain).last
        if last is None or last.turn != turn.number:
            return turn
        answered = seconds(last.at) if self.reader.clock == "first_line" else None
        return msgspec.structs.replace(
            turn, usage=last.usage, verdict=last.verdict, answered_at=answered, response_id=last.response_id
        )

    def dialect_for(self, state: Session) -> Dialect:
        """Return the dialect asked for, else the session's own, else Anthropic's."""
        return self._dialect or DIALECTS.get(state.dialect or "", DIALECTS["anthropic"])

    def _assembled(self, name: str, assemblers: dict[str, Assembler], read: Read) -> Turn:
        dialect = self.dialect_for(self.state)
        assembler = assemblers.get(name)
        if assembler is None or assembler.dialect is not dialect:
            assembler = assemblers[name] = Assembler(dialect, self._policy)
        chain = self.state.chain(name)
        prompt, problems, omitted = assembler.assemble(self.state, chain)
        for problem in problems:
            self.problems.add(problem, self.shown, read.line, read.byte)
        opened = chain.turn
        assert opened is not None
        return Turn(
            name,
            opened.turn,
            prompt,
            changes=opened.since,
            at=seconds(opened.at),
            line=read.line,
            byte=read.byte,
            omitted=omitted,
        )

    # recorded requests

    def _exchanged(self) -> Iterator[Turn]:
        """Yield recorded requests; a file that is whole JSON and holds none was no recording after all."""
        chains, memo = self._chains, Memo()
        requests = 0
        for read in self.reads():
            exchange = read.value
            if not isinstance(exchange, Exchange):
                continue
            requests += 1
            dialect = self._dialect or dialect_of(exchange.body)
            if dialect is None:
                self.problems.add(Problem("LORE210", "a body of no known dialect"), self.shown, read.line, read.byte)
                continue
            prompt = dialect.parse(exchange.body, exchange.fidelity, memo)
            link = chains.link(prompt)
            yield Turn(
                link.chain, link.turn, prompt, at=exchange.at, usage=exchange.usage,
                verdict=exchange.verdict, line=read.line, byte=read.byte,
            )  # fmt: skip
        unreadable = any(self.problems.counts[code, self.shown] for code in ("LORE201", "LORE202"))
        if not requests and not unreadable and not self._forced:
            raise UnrecognisedError(f"{self.shown} holds no request body that lore knows", hint=HINT_FORMATS)


def seconds(text: str | None) -> float | None:
    """Read an RFC 3339 time as seconds since the epoch; None where it is none."""
    if text is None:
        return None
    try:
        parsed = datetime.fromisoformat(text)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _plugged(head: bytes) -> type[Reader] | None:
    plugins.load()
    added = (reader for name, reader in READERS.items() if name not in BUILT_IN)
    return next((reader for reader in added if reader.recognises(head)), None)


def reader_named(name: str) -> type[Reader]:
    """Return the reader of this name; raises LoreError where there is none."""
    if name not in READERS:
        plugins.load()
    kind = READERS.get(name)
    if kind is None:
        raise LoreError(f"unknown format {name!r}", hint="formats: " + ", ".join(READERS))
    return kind


def _dialect_named(name: str) -> Dialect:
    if name not in DIALECTS:
        plugins.load()
    dialect = DIALECTS.get(name)
    if dialect is None:
        raise LoreError(f"unknown dialect {name!r}", hint="dialects: " + ", ".join(DIALECTS))
    return dialect
