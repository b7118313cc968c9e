"""The library: a session that an agent keeps, and the prompt of each of its turns.

    session = Session.restore(events)              the events of its log, in order; none for a new one
    session.apply(event)                           what happened since: a message, a result, knowledge
    prompt, events = session.begin_turn(context)   the next request, and what to append to the log first
    body = session.write(prompt)

Rules: pure, no clock and no disk: times are arguments, persisting is the caller's. The events that
`begin_turn` returns (deltas, persisted context, resets, the turn itself) are applied already; a session
that is restored from a log which holds them, or which lost them, assembles the same bytes. Values that
come out are never changed later. Not safe between threads, and bound to no event loop: one session, one
user at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from lore.errors import LoreError
from lore.fold.step import Folding
from lore.formats.lore_log import LoreLog
from lore.model import checkpoint
from lore.model.canonical import encode
from lore.model.codes import Problem
from lore.model.events import MAIN, Event, OpaqueEvent, TurnStarted
from lore.model.items import NULL
from lore.model.state import Session as State
from lore.model.turn import Prompt
from lore.prompt.assemble import Assembled, Assembler
from lore.prompt.base import Dialect, Rules
from lore.prompt.dialects import DIALECTS, dialect_named, dialect_names
from lore.prompt.layout import tail_of
from lore.prompt.planning import Planner, SavedEvents

CONTEXT = "a context is text by name: memory_recall, current_time, …"
KINDS = "the kinds and their fields: lore.model.events"


class Begun(NamedTuple):
    """The prompt of a turn, and the events to append to the log before it is sent, in order."""

    prompt: Prompt
    events: tuple[Event, ...]


KEPT = 1_000  # problems: of a log that has more, the first ones say what is wrong


class Session:
    """A session in memory. `rules` say how prompts are assembled; `dialect` overrides the session's own.

    `problems` are those of all events and prompts so far, the first 1,000 of them.
    """

    def __init__(self, *, dialect: Dialect | str | None = None, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()
        fault = self.rules.fault()
        if fault:
            raise LoreError(fault)
        self._dialect = _named(dialect) if isinstance(dialect, str) else dialect
        self._folding = Folding(State(divider=self.rules.divider))
        self.problems: list[Problem] = []
        self._saved = SavedEvents()
        self._planners: dict[str, Planner] = {}
        self._assemblers: dict[str, Assembler] = {}

    @classmethod
    def restore(
        cls, events: Iterable[Event], *, dialect: Dialect | str | None = None, rules: Rules | None = None
    ) -> Session:
        """Return the session that these events make; what was saved late is known before. Costs O(events)."""
        session = cls(dialect=dialect, rules=rules)
        every = list(events)
        session._saved = SavedEvents(every)
        for event in every:
            session.apply(event)
        return session

    @classmethod
    def read(cls, data: bytes, *, dialect: Dialect | str | None = None, rules: Rules | None = None) -> Session:
        """Return the session of a log, given as bytes; unreadable lines are among its `problems`."""
        reader = LoreLog()
        values = [read.value for read in (*reader.feed(data), *reader.finish())]
        odd = tuple([value for value in values if isinstance(value, Problem)])
        events = [value for value in values if not isinstance(value, Problem)]
        session = cls.restore(events, dialect=dialect, rules=rules)  # pyright: ignore[reportArgumentType]
        session._noted(odd)
        return session

    @staticmethod
    def events_of(data: bytes) -> list[Event]:
        """Return the events of lines of a log; those that cannot be read are left out."""
        reader = LoreLog()
        reads = (*reader.feed(data), *reader.finish())
        return [read.value for read in reads if not isinstance(read.value, Problem)]  # pyright: ignore[reportReturnType]

    @classmethod
    def load(cls, data: bytes, *, dialect: Dialect | str | None = None, rules: Rules | None = None) -> Session:
        """Return the session that `dump` gave; raises LoreError for anything else, and for another `rules.divider`."""
        session = cls(dialect=dialect, rules=rules)
        session._folding = Folding(checkpoint.load(data, session.rules.divider))
        return session

    def dump(self) -> bytes:
        """Return the session as bytes: a cache of its log, which may be deleted at any time. Costs O(items)."""
        return checkpoint.dump(self.state)

    @property
    def state(self) -> State:
        """The folded state: timeline, knowledge, chains."""
        return self._folding.state()

    @property
    def dialect(self) -> Dialect:
        """The dialect in which prompts are made."""
        return self._dialect or dialect_named(self._folding.session.dialect or "") or DIALECTS["anthropic"]

    def apply(self, event: Event) -> tuple[Problem, ...]:
        """Apply one event of the log; returns what was wrong with it. An event that cannot be is a no-op."""
        planned = self._plan(event) if isinstance(event, TurnStarted) else []
        odd = [problem for derived in planned for problem in self._folding.derive(derived)]
        return self._noted((*odd, *self._folding.apply(event)))

    def _noted(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        self.problems += problems[: KEPT - len(self.problems)]
        return problems

    def begin_turn(
        self, context: Mapping[str, Any] | None = None, *, chain: str = MAIN, at: str | None = None
    ) -> Begun:
        """Begin the next turn of a chain: make its prompt, and the events that the log must hold for it.

        `context` is this turn's volatile context (`memory_recall`, `current_time`, …). Raises LoreError for
        a context that cannot be, and where a chat template refuses the prompt; then nothing changes. Costs
        O(what is new since the turn before).
        """
        opened = self._folding.chain(chain).turn
        number = 1 if opened is None else opened.turn + 1
        volatile = _context(context) if context else NULL
        problems = tail_of(self._folding.session, volatile, authority=False).problems
        if problems:
            raise LoreError(problems[0].message, hint=CONTEXT)
        event = TurnStarted(turn=number, context=volatile, chain=chain, at=at)
        before = self._folding.state()
        planned = self._plan(event)
        late = self._folding.save(chain)
        odd = [problem for applied in (*planned, event) for problem in self._folding.apply(applied)]
        try:
            made = self.assembled(chain)
        except LoreError:  # a chat template may refuse a conversation
            self._folding = Folding(before)
            raise
        self._noted(tuple(odd))
        self._noted(made.problems)
        return Begun(made.prompt, (*late, *planned, event))

    def assembled(self, chain: str = MAIN) -> Assembled:
        """Return a chain's prompt as it stands, what is wrong with it, and what the dialect could not express.

        Right after a turn began that is its prompt; later it holds what came since, too.
        """
        dialect = self.dialect
        assembler = self._assemblers.get(chain)
        if assembler is None or assembler.dialect is not dialect:
            assembler = self._assemblers[chain] = Assembler(dialect, rules=self.rules)
        return assembler.assemble(self._folding.session, self._folding.chain(chain))

    def write(self, prompt: Prompt) -> bytes:
        """Return a prompt's request body. Costs O(its bytes)."""
        return self.dialect.write(prompt)

    def _plan(self, event: TurnStarted) -> list[Event]:
        planner = self._planners.get(event.chain)
        if planner is None:
            planner = self._planners[event.chain] = Planner(self.rules, self._saved)
        return planner.plan(self._folding.session, self._folding.chain(event.chain), event)


def event(kind: str, **fields: Any) -> Event:
    """Return an event of a log, checked as a log's line is; raises LoreError where no reader would take it.

    `tools` may be given without an order, as a mapping by name: they are then ordered by name.
    """
    if isinstance(fields.get("tools"), Mapping):
        fields["tools"] = _by_name(fields["tools"])
    line = _encoded({"kind": kind, **fields}, f"a field of {kind} is no JSON", KINDS)
    read = [result.value for result in LoreLog().feed(line + b"\n")]
    made = read[-1] if read else None
    if isinstance(made, Problem) or (isinstance(made, OpaqueEvent) and kind != "opaque"):
        message = next(
            (value.message for value in read if isinstance(value, Problem) and value.code != "LORE212"), kind
        )
        raise LoreError(message.removesuffix("; kept as opaque"), hint=KINDS)
    assert isinstance(made, msgspec.Struct)
    return made  # pyright: ignore[reportReturnType]


def _by_name(tools: Mapping[str, Any]) -> list[Any]:
    return [tools[name] for name in sorted(tools)]


def _context(context: Mapping[str, Any]) -> Raw:
    return Raw(_encoded(context, "context is no JSON object", CONTEXT))


def _encoded(fields: Mapping[str, Any], otherwise: str, hint: str) -> bytes:
    """Encode what a caller gave; LoreError where JSON has no place for it."""
    try:
        return encode(dict(fields))
    except (TypeError, ValueError, RecursionError) as error:
        raise LoreError(f"{otherwise}: {error}", hint=hint) from None


def _named(name: str) -> Dialect:
    dialect = dialect_named(name)
    if dialect is None:
        raise LoreError(f"unknown dialect {name!r}", hint="dialects: " + ", ".join(dialect_names()))
    return dialect
