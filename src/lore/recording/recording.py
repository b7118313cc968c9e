"""Read a recording: input to events or exchanges, folded and assembled into turns.

In: a name, perhaps a format. Out: turns, as soon as they are whole, each with its prompt; the state at
the end; problems. Rules: one pass, memory bounded by the session's state; a turn of an event log is
whole when its chain's next turn starts (its bill may come any time before) or the log ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain as chained
from typing import NamedTuple

from lore.errors import LoreError
from lore.fold.step import Folding
from lore.formats.base import Clock, Read, Reader
from lore.formats.lines import Lines
from lore.formats.lore_log import LoreLog
from lore.formats.registry import BUILT_IN, READERS, recognise
from lore.model.events import (
    Append,
    CompactApplied,
    Event,
    PatchToolCall,
    SessionStarted,
    TurnCompleted,
    TurnStarted,
)  # fmt: skip
from lore.model.exchange import Exchange
from lore.model.items import is_absent
from lore.model.problems import Problem
from lore.model.state import Chain, Session
from lore.model.turn import Basis, Made, Turn
from lore.prompt.ahead import KINDS, Ahead
from lore.prompt.assemble import Assembler
from lore.prompt.base import Dialect, Memo
from lore.prompt.dialects import DIALECTS, dialect_named, dialect_names
from lore.prompt.planning import Planner
from lore.prompt.settings import Rules
from lore.recording import corpus, plugins
from lore.recording.exchanges import Exchanges
from lore.recording.ordering import BY_TIME, in_time
from lore.recording.overrides import Completion, Unsaid, completed, rated
from lore.recording.problems import Problems
from lore.recording.subagents import Family

# A file with one of these and no request is a damaged recording; with none of them it was no recording at all.
UNREADABLE = (
    "LORE201",
    "LORE202",
    "LORE217",
    "LORE220",
    "LORE221",
    "LORE222",
    "LORE223",
    "LORE225",
    "LORE227",
    "LORE228",
)
HINT_FORMATS = "lore reads: " + ", ".join(READERS) + "; say which with --format"


class Template(NamedTuple):
    """A chat template: its text, and the name of its file."""

    source: str
    file: str


class UnrecognisedError(LoreError):
    """The input can be read, and is no recording that lore knows."""


_PLAIN = (Append, PatchToolCall, TurnCompleted)


class Recording:
    """One opened recording. Iterate `turns()` once; then `state`, `boundaries`, `problems` are final.

    `boundaries` are the uuids and times of its compactions. `companions` are files with more chains of the
    session, read after it; `completion` is what the caller adds to its prompts. `reading` names the file
    that is being read; `memos` are shared by recordings that are compared. With `watchful`, turns say what stands in
    their timeline and in no prompt.
    """

    def __init__(
        self, path: str, *, format: str | None = None, dialect: str | None = None, rules: Rules | None = None,
        problems: Problems | None = None, opened: corpus.Opened | None = None,
        companions: Sequence[str] = (), completion: Completion | None = None,
        template: Template | None = None, memos: dict[str, Memo] | None = None,
    ) -> None:  # fmt: skip
        self.path = path
        self.shown = self.reading = corpus.show(path)
        growing = opened is not None  # what is being written is judged as it comes
        opened = opened or corpus.open_head(path)
        kind = kind_of(opened.head, format)
        if kind is None:
            what = "is empty" if not opened.head.strip() else "is no recording that lore knows"
            raise UnrecognisedError(f"{self.shown} {what}", hint=HINT_FORMATS)
        self.reader: Reader = kind()
        self._sorted = not growing and self.reader.name in BY_TIME
        self._forced = format is not None
        self._data = opened.data
        self._dialect = _dialect_named(dialect) if dialect else None
        self._template = template
        self.rules = rules or Rules()
        self._ahead: Ahead | None = None
        self._planners: dict[str, Planner] = {}
        self.problems = problems or Problems()
        self._folding = Folding(Session(format=self.reader.name))
        self.boundaries: list[tuple[str, str | None]] = []
        self._exchanges = Exchanges(self.shown, self.problems, {} if memos is None else memos)
        self.companions = tuple(companions) if self.events else ()
        self.completion = completion
        self.completes = completion.chain(kind, opened.head) if completion is not None and self.events else None
        self.watchful = False
        self._unsaid: dict[str, Unsaid] = {}
        self._assemblers: dict[str, Assembler] = {}

    @property
    def events(self) -> bool:
        """Whether this is a session log, not a list of requests."""
        return self.reader.yields == "events"

    def reads(self) -> Iterator[Read]:
        """Yield what the readers find, companions' last; problems are collected and left out."""
        reads = self._own_reads()
        if self.completion is not None and self.completes is not None:
            reads = completed(reads, self.completion, self.completes, self.shown)
        return self._with_companions(reads) if self.companions else reads

    def _every_read(self) -> Iterator[Read]:
        """Yield what `reads` does; problems may be left in, for a caller who looks at each read anyway."""
        if self.companions or self.completes is not None:
            return self.reads()
        return chained.from_iterable(self._lists())

    def _lists(self) -> Iterator[Iterable[Read]]:
        for data in self._data:
            yield self.reader.feed(data)
        yield self.reader.finish()

    def _own_reads(self) -> Iterator[Read]:
        for data in self._data:
            yield from self.take(data)
        yield from self.finish()

    def take(self, data: bytes) -> Iterator[Read]:
        """Yield what the next bytes complete, where a caller reads them itself; then `finish`."""
        return self._without_problems(self.reader.feed(data))

    def finish(self) -> Iterator[Read]:
        """Yield what is left when no bytes come any more; the reader has closed what was open."""
        return self._without_problems(self.reader.finish())

    def _with_companions(self, reads: Iterator[Read]) -> Iterator[Read]:
        family = Family(self.companions, self.problems)
        yield from family.noted(reads)
        yield from self._reads_of(family)

    def companions_reads(self) -> Iterator[Read]:
        """Yield what the companions hold, where a caller has taken and folded the session itself."""
        return (
            self._reads_of(Family(self.companions, self.problems, self.state.chains)) if self.companions else iter(())
        )

    def _reads_of(self, family: Family) -> Iterator[Read]:
        for shown, read in family.reads():
            self.reading = shown
            yield read
        self.reading = self.shown

    def _without_problems(self, found: Iterable[Read]) -> Iterator[Read]:
        for read in found:
            if type(read.value) is Problem:
                self.problems.add(read.value, self.shown)
            else:
                yield read

    def resume(self, reader: Reader, state: Session) -> None:
        """Go on where another run stopped."""
        self.reader, self._folding = reader, Folding(state)
        self._ahead = Ahead()  # what was derived stands in the state; to look through all of the log costs too much

    @property
    def state(self) -> Session:
        """The session after what was read so far."""
        return self._folding.state()

    def apply(self, read: Read, event: Event) -> None:
        """Fold one event into the state, before a turn's start also what lore derives."""
        start = isinstance(event, TurnStarted)
        self._odd(self.begin(event) if start else self._folding.apply(event), read)
        if isinstance(event, CompactApplied):
            self.boundaries.append((event.uuid, event.at))
        elif isinstance(event, SessionStarted) and event.dialect not in (None, *dialect_names()):
            shown = f"dialect {event.dialect!r} is not written yet; anthropic stands in for it"
            self.problems.add(Problem("LORE211", shown), self.reading, read.line, read.byte)

    def _odd(self, problems: Iterable[Problem], read: Read) -> None:
        for problem in problems:
            self.problems.add(problem, self.reading, read.line, read.byte)

    def forgotten(self) -> list[str]:
        """Name the chains that no turn will continue any more, each once."""
        return self._exchanges.forgotten()

    def turns(self) -> Iterator[Turn]:
        """Yield the turns of all chains."""
        yield from (
            self._ready() if self.reader.yields == "turns" else self._folded() if self.events else self._exchanged()
        )

    # event logs

    def _folded(self) -> Iterator[Turn]:
        waiting: dict[str, Turn] = {}
        fold, odd = self._folding.apply, self._odd
        for read in self._every_read():
            event: Event = read.value  # pyright: ignore[reportAssignmentType]
            kind = type(event)
            if kind is TurnStarted:
                before = waiting.pop(event.chain, None)
                if before is not None:
                    yield self._billed(before)
                problems = self.begin(event)  # pyright: ignore[reportArgumentType]
                if problems:
                    odd(problems, read)
                waiting[event.chain] = self._asked(event.chain, read)
            elif kind in _PLAIN:  # the most by far
                problems = fold(event)
                if problems:
                    odd(problems, read)
            elif isinstance(event, Problem):
                self.problems.add(event, self.shown)
            else:
                self.apply(read, event)
        for turn in waiting.values():
            yield self._billed(turn)

    def begin(self, event: TurnStarted) -> Sequence[Problem]:
        """Fold a turn's start, and before it what lore derives and the log does not hold."""
        session = self._folding.session
        if not session.is_own:
            return self._folding.apply(event)
        planner = self._planners.get(event.chain)
        if planner is None:
            if self._ahead is None:
                self._ahead = look_ahead(self.path) if self.reader.name == LoreLog.name else Ahead()
            planner = self._planners[event.chain] = Planner(self.rules, self._ahead)
        planned = planner.plan(session, self._folding.chain(event.chain), event)
        problems = [problem for one in planned for problem in self._folding.derive(one)]
        return (*problems, *self._folding.apply(event))

    def _billed(self, turn: Turn) -> Turn:
        """Return a turn that is whole, with its bill."""
        last = self._folding.chain(turn.chain).last
        if last is not None and last.turn == turn.number:
            turn.usage, turn.verdict, turn.response_id = last.usage, last.verdict, last.response_id
            if self._clock == "first_line":
                turn.answered = last.at
        return turn

    @property
    def _clock(self) -> Clock:
        """What the time of a response is: as the format says in which the session was recorded first."""
        origin = self._folding.session.format
        if origin not in READERS:
            plugins.load()
        return READERS.get(origin, type(self.reader)).clock

    def dialect_for(self, state: Session) -> Dialect:
        """Return the dialect asked for, else the session's own, else Anthropic's."""
        if self._template is not None and self._dialect is None:
            from lore.prompt.dialects.template import JinjaTemplate  # noqa: PLC0415 - jinja2 is slow to import

            self._dialect = JinjaTemplate(
                self._template.source, now=state.at, file=self._template.file,
                bos_token=self.rules.bos_token, eos_token=self.rules.eos_token,
            )  # fmt: skip
        return self._dialect or dialect_named(state.dialect or "") or DIALECTS["anthropic"]

    def _asked(self, name: str, read: Read) -> Turn:
        """Return the turn that a chain has begun: its prompt where that is lore's own, else what makes it."""
        session, chain = self._folding.session, self._folding.chain(name)
        dialect = self.dialect_for(session)
        assembler = self._assemblers.get(name)
        if assembler is None or assembler.dialect is not dialect:
            assembler = self._assemblers[name] = Assembler(dialect, rules=self.rules)
        opened = chain.turn
        assert opened is not None
        turn = Turn(name, opened.turn, partial(_made, assembler, session, chain), opened.since, opened.at)
        turn.line, turn.byte, turn.signs = read.line, read.byte, opened.signs
        if not session.is_own and not self.watchful and not self.is_whole(chain):
            turn.basis = Basis(chain.entries, dialect.name, (chain.model, chain.system, chain.tools))
        else:
            self._make(turn, assembler, chain, read)
        return turn

    def _make(self, turn: Turn, assembler: Assembler, chain: Chain, read: Read) -> None:
        """Make a prompt at once: what is wrong with it is said where it is met."""
        prompt, problems, turn.omitted = assembler.assemble(self._folding.session, chain)
        for problem in problems:
            self.problems.add(problem, self.reading, read.line, read.byte)
        if self.watchful or self.is_whole(chain):
            turn.unsaid = self._unsaid.setdefault(turn.chain, Unsaid()).of(chain.entries)
            prompt = rated(prompt, whole=self.is_whole(chain), left_out=len(turn.unsaid) + len(turn.omitted))
        turn.source = prompt

    def is_whole(self, chain: Chain) -> bool:
        """Tell whether another tool's session says all of its prompt that lore itself does not write."""
        return not self._folding.session.is_own and chain.tools is not None and not is_absent(chain.system)

    # turns whose prompts stand ready

    def _ready(self) -> Iterator[Turn]:
        """Yield the turns that the recording itself holds whole."""
        return (read.value for read in self.reads() if isinstance(read.value, Turn))

    # recorded requests

    def _exchanged(self) -> Iterator[Turn]:
        """Yield recorded requests; a file that is whole JSON and holds none was no recording after all."""
        requests = 0
        for read in in_time(self.reads()) if self._sorted else self.reads():
            if isinstance(read.value, Exchange):
                requests += 1
                turn = self._exchanges.turn(read, read.value, self._dialect)
                if turn is not None:
                    yield turn
        unreadable = any(self.problems.counts[code, self.shown] for code in UNREADABLE)
        if not requests and not unreadable and not self._forced:
            raise UnrecognisedError(f"{self.shown} holds no request body that lore knows", hint=HINT_FORMATS)


def look_ahead(path: str) -> Ahead:
    """Read what a log says further on about its turns; nothing of an input that can be read once only.

    Costs one more pass over the bytes, which are searched and not decoded where they say nothing of the kind.
    """
    try:
        if not corpus.holds_any(path, KINDS):
            return Ahead()
        lines, reader = Lines(), LoreLog()
        every = chained((line for piece in corpus.pieces(path) for line in lines.feed(piece)), lines.finish())
        said = [line.data for line in every if any(kind in line.data for kind in KINDS)]
    except (LoreError, OSError):  # it is gone, or changes while it is read: what was opened is read all the same
        return Ahead()
    reads = reader.feed(b"".join(line + b"\n" for line in said))
    return Ahead(read.value for read in reads if not isinstance(read.value, Problem))  # pyright: ignore[reportArgumentType]


def kind_of(head: bytes, format: str | None) -> type[Reader] | None:
    """Return the reader of this name, else the one that recognises the beginning of a file; None where none does."""
    return reader_named(format) if format else recognise(head) or _plugged(head)


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
    if dialect_named(name) is None:
        plugins.load()
    dialect = dialect_named(name)
    if dialect is None:
        raise LoreError(f"unknown dialect {name!r}", hint="dialects: " + ", ".join(dialect_names()))
    return dialect


def _made(assembler: Assembler, session: Session, chain: Chain) -> Made:
    made = assembler.assemble(session, chain)
    return Made(made.prompt, made.omitted)
