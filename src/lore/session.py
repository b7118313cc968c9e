"""The library: a session that an agent keeps in memory, and the prompt of each of its turns.

    session = lore.Session("claude-opus-5", system=SYSTEM, tools=TOOLS)
    session.user("What is new?")
    answer = client.messages.create(**session.request(current_time=now()))
    session.assistant(answer)
    Path("agent.jsonl").write_bytes(session.log())         for `lore check`, and to go on: `Session.read`

What an agent says is in `lore.conversation`; beneath it are events, for what has no method of its own (knowledge,
layers, compactions, rewinds):

    session.apply(lore.events.knowledge("add", "release-1", title="Release", content="1.0 is out."))
    prompt, events = session.begin_turn({"current_time": "10:00"})    what the log holds for the turn, applied already
    body = session.write(prompt)

Rules: pure, no clock and no disk: times are arguments, or a `clock`'s; persisting is the caller's (`lore.open` keeps
a session in a store). A session that is restored from a log assembles the same bytes, also from one which lost what
`begin_turn` derived (deltas, persisted context, resets). Values that come out are never changed later. Not safe
between threads, and bound to no event loop: one session, one user at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lore.cache.breakpoint_rules import accepted_breakpoints
from lore.conversation import Begun as Begun
from lore.conversation import Conversation
from lore.errors import LoreError, MisuseError
from lore.events.kinds import event as event
from lore.events.kinds import session_started
from lore.events.strict import JSON, check, context_json, due, kind_of, named, time_of
from lore.fold.step import Folding
from lore.formats.lore_log import LoreLog
from lore.model.codes import Problem
from lore.model.events import MAIN, Event, TurnStarted, encode
from lore.model.providers import MODEL_DIALECTS, dialects_for
from lore.model.state import FoldedSession as State
from lore.model.turn import Prompt
from lore.prompt.assemble import Assembled, Assembler
from lore.prompt.base import IN_LOOPS, Dialect, Rules, expresses
from lore.prompt.dialects import DIALECTS, dialect_named, dialect_names
from lore.prompt.layout import tail_of
from lore.prompt.planning import Planner, SavedEvents
from lore.sdk.objects import params_of

__all__ = ["Session"]

CONTEXT = "a context is text by name: memory_recall, current_time, …"
KEPT = 1_000  # problems: of a log that has more, the first ones say what is wrong


class Session(Conversation):
    """A session in memory, and its log.

    With a `model` the session begins; `Session()` is an empty one, to which a log's events are applied. `params` are
    the parameters of the API (`max_tokens`, `temperature`, `thinking`, …; Anthropic's `max_tokens` is 8192 where it is
    not given, Gemini's are those of google-genai's `config`). The `dialect` follows from the model's name where its
    provider takes one alone (`lore.model.providers`), else it must be given: anthropic, openai-chat, openai-responses,
    gemini, bedrock. `rules` say how prompts are assembled. `session_id` is, where it is not given, a digest of what the
    session begins with. `clock` gives the time as RFC 3339, which events then carry: without times nobody can say
    whether a cache had expired.

    `problems` are those of all events and prompts so far, the first 1,000 of them. Raises LoreError for a model whose
    dialect is not known, MisuseError for an object of the wrong type.

    >>> session = Session("claude-opus-5", system="Be brief.")
    >>> session.dialect.name
    'anthropic'
    """

    @named
    def __init__(
        self, model: str | None = None, *, system: str | Sequence[str] | None = None,
        tools: Sequence[JSON] | Mapping[str, JSON] | None = None, params: Mapping[str, JSON] | None = None,
        dialect: Dialect | str | None = None, rules: Rules | None = None, session_id: str | None = None,
        attachments: Sequence[str] = (), user_id: str | None = None, project_id: str | None = None,
        clock: Callable[[], str] | None = None,
    ) -> None:  # fmt: skip
        self.rules = Rules() if rules is None else rules
        due(self.rules, Rules, "rules", "lore.Rules(tail=…)")
        fault = self.rules.fault()
        if fault:
            raise LoreError(fault)
        self._dialect = dialect_from(dialect)
        if clock is not None:
            due(clock, Callable, "clock", "a function that returns RFC 3339")  # pyright: ignore[reportArgumentType]
        self._clock = clock
        self._begin()
        if model is not None:
            self.apply(
                header_of(
                    model, system=system, tools=tools, params=params, dialect=self._dialect, session_id=session_id,
                    attachments=attachments, user_id=user_id, project_id=project_id, at=self._time(),
                )
            )  # fmt: skip
        elif (system, tools, params, session_id, user_id, project_id) != (None,) * 6 or attachments:
            raise MisuseError("a session that begins has a model", hint='Session("claude-opus-5", system=…)')

    def _begin(self, events: Sequence[Event] = (), problems: Sequence[Problem] = ()) -> None:
        """Start with these events of a log; deltas that were saved late are known from the start."""
        self._log: list[Event] = []
        self._folding = Folding(State(divider=self.rules.divider))
        self.problems: list[Problem] = []
        self._saved = SavedEvents(events)
        self._planners: dict[str, Planner] = {}
        self._assemblers: dict[str, Assembler] = {}
        Session.apply(self, *events)
        self._noted(tuple(problems))

    @classmethod
    def restore(
        cls, events: Iterable[Event], *, dialect: Dialect | str | None = None, rules: Rules | None = None,
        clock: Callable[[], str] | None = None,
    ) -> Session:  # fmt: skip
        """Return the session that these events make. Costs O(events)."""
        session = Session(dialect=dialect, rules=rules, clock=clock)
        if isinstance(events, bytes | str | Mapping):
            raise MisuseError("events are a list of objects", hint="the bytes of a log are read by Session.read")
        every = list(events)
        for given in every:
            check(given)
        session._begin(every)
        return session

    @classmethod
    def read(
        cls, data: bytes, *, dialect: Dialect | str | None = None, rules: Rules | None = None,
        clock: Callable[[], str] | None = None,
    ) -> Session:  # fmt: skip
        """Return the session of a log, given as bytes; unreadable lines are among its `problems`.

        >>> session = Session("claude-opus-5", system="Be brief.")
        >>> Session.read(session.log()).state == session.state
        True
        """
        if not isinstance(data, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise MisuseError("a log is bytes", hint="Path(…).read_bytes()")
        session = Session(dialect=dialect, rules=rules, clock=clock)
        session._read(data)
        return session

    def _read(self, data: bytes) -> None:
        """Start with the events of a log."""
        self._begin(*_read(data))

    @staticmethod
    def events_of(data: bytes) -> list[Event]:
        """Return the events of lines of a log; those that cannot be read are left out."""
        return _read(data)[0]

    @property
    def state(self) -> State:
        """The folded state: timeline, knowledge, chains."""
        return self._folding.state()

    @property
    def dialect(self) -> Dialect:
        """The dialect in which prompts are made."""
        return self._dialect or dialect_named(self._folding.session.dialect or "") or DIALECTS["anthropic"]

    def log(self, after: int = 0) -> bytes:
        """Return the session's log, a JSON line an event; with `after` without as many lines at its beginning.

        Append `session.log(written)` to a file after each step, and count its lines: what was written never changes.
        Costs O(the lines returned).

        >>> Session("claude-opus-5", session_id="s1").log()
        b'{"kind":"session_started","session_id":"s1","model":"claude-opus-5","dialect":"anthropic","params":{"max_tokens":8192}}\\n'
        """
        return b"".join([encode(event) + b"\n" for event in self._log[after:]])

    def apply(self, *events: Event) -> tuple[Problem, ...]:
        """Apply events of the log; returns what was wrong with them. An event that cannot be is a no-op.

        Raises MisuseError for what is no event.

        >>> session = Session("claude-opus-5")
        >>> session.apply(event("knowledge", op="add", id="release-1", title="Release", content="1.0 is out."))
        ()
        """
        found: list[Problem] = []
        for given in events:
            check(given)
            planned = self._plan(given) if isinstance(given, TurnStarted) else ()
            for derived in planned:
                found += self._folding.derive(derived)
            found += self._folding.apply(given)
            self._log.append(given)
        return self._noted(tuple(found))

    def _noted(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        self.problems += problems[: KEPT - len(self.problems)]
        return problems

    def begin_turn(
        self, context: Mapping[str, Any] | None = None, *, chain: str = MAIN, at: str | None = None
    ) -> Begun:
        """Begin the next turn of a chain: make its prompt, and the events that the log holds for it.

        `context` is this turn's volatile context (`memory_recall`, `current_time`, …). Raises LoreError for
        a context that cannot be, and where a chat template refuses the prompt; then nothing changes. Costs
        O(what is new since the turn before).

        >>> session = Session("claude-opus-5")
        >>> uuid = session.user("What is new?")
        >>> prompt, events = session.begin_turn({"current_time": "09:00"})
        >>> [type(event).__name__ for event in events]
        ['TurnStarted']
        """
        opened = self._folding.chain(chain).turn
        number = 1 if opened is None else opened.turn + 1
        volatile = context_json(context)
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
        self._log += (*late, *planned, event)
        return Begun(made.prompt, (*late, *planned, event))

    def unanswered(self, chain: str = MAIN) -> Prompt | None:
        """Return the prompt of a turn that has begun and not ended: now, or before the program was killed.

        It has the bytes that were sent then, as long as nothing was applied since.
        """
        state = self._folding.chain(chain)
        ended = 0 if state.last is None else state.last.turn
        return None if state.turn is None or state.turn.turn == ended else self.assembled(chain).prompt

    def _log_derived(self, chain: str) -> None:
        self._log += self._folding.save(chain)

    def _time(self) -> str | None:
        return None if self._clock is None else time_of(self._clock)

    def assembled(self, chain: str = MAIN) -> Assembled:
        """Return a chain's prompt as it stands, what is wrong with it, and what the dialect could not express.

        Right after a turn began that is its prompt; later it holds what came since, too.
        """
        dialect = self.dialect
        assembler = self._assemblers.get(chain)
        if assembler is None or assembler.dialect is not dialect:
            assembler = self._assemblers[chain] = Assembler(dialect, self.rules, accepted_breakpoints)
        return assembler.assemble(self._folding.session, self._folding.chain(chain))

    def _plan(self, event: TurnStarted) -> list[Event]:
        planner = self._planners.get(event.chain)
        if planner is None:
            planner = self._planners[event.chain] = Planner(self.rules, self._saved)
        in_loops = expresses(self.dialect, IN_LOOPS)
        return planner.plan(self._folding.session, self._folding.chain(event.chain), event, in_loops=in_loops)


def _read(data: bytes) -> tuple[list[Event], list[Problem]]:
    reader, events, problems = LoreLog(), list[Event](), list[Problem]()
    for read in reader.read([data]):
        (problems if isinstance(read.value, Problem) else events).append(read.value)  # pyright: ignore[reportArgumentType]
    return events, problems


def header_of(
    model: str, *, system: str | Sequence[str] | None = None, tools: Sequence[JSON] | Mapping[str, JSON] | None = None,
    params: Mapping[str, JSON] | None = None, dialect: Dialect | None = None, session_id: str | None = None,
    attachments: Sequence[str] = (), user_id: str | None = None, project_id: str | None = None, at: str | None = None,
) -> Event:  # fmt: skip
    """Return the header of a session that begins; raises LoreError where nothing tells its dialect."""
    name = dialect_name(model) if dialect is None else dialect.name
    given = params_of({} if params is None else params, name) or None
    fields: dict[str, Any] = {
        "model": model, "dialect": name, "system": system, "tools": tools,
        "params": given, "attachments": attachments, "user_id": user_id,
        "project_id": project_id, "at": at,
    }  # fmt: skip
    if session_id is None:
        digest = hashlib.sha256(encode(session_started("", **fields))).hexdigest()
        session_id = f"session-{digest[:12]}"
    return session_started(session_id, **fields)


def dialect_name(model: str) -> str:
    """Return the dialect that a model's name stands for; raises LoreError where there are several, or none is known."""
    due(model, str, "model", "its name")
    names = dialects_for(model)
    if len(names) == 1:
        return names[0]
    if names:
        raise LoreError(
            f"requests for {model} are taken in several dialects: {', '.join(names)}",
            hint=f"say which SDK is called: Session({model!r}, dialect={names[0]!r})",
        )
    known = sorted({row.model for row in MODEL_DIALECTS})
    raise LoreError(
        f"the dialect of {model!r} is not known (models that are: {', '.join(known[:8])}, …)",
        hint="give one: " + ", ".join(DIALECTS),
    )


def dialect_from(given: Dialect | str | None) -> Dialect | None:
    """Return a dialect that was given, by its name or as an object."""
    if given is None or (not isinstance(given, str) and hasattr(given, "render")):
        return given
    if not isinstance(given, str):
        raise MisuseError(f"dialect is {kind_of(given)}: give a name", hint=", ".join(dialect_names()))
    dialect = dialect_named(given)
    if dialect is None:
        raise LoreError(f"unknown dialect {given!r}", hint="dialects: " + ", ".join(dialect_names()))
    return dialect
