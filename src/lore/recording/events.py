"""Session logs: events folded into a session, and its turns with their prompts.

A log is read once. A turn is complete when its chain's next turn starts, because its usage may be recorded any time
before, or when the log ends. In lore's own logs it may end later, after the next ones have started.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain as chained
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from lore.cache.breakpoint_rules import accepted_breakpoints
from lore.errors import LoreError
from lore.fold.step import Folding
from lore.formats.base import HOLDS, Read, Reader
from lore.formats.builder import STAND_IN
from lore.formats.lines import read_lines
from lore.formats.lore_log import LoreLog
from lore.formats.registry import READERS, reader_of
from lore.model import events as e
from lore.model.codes import Code, Problem
from lore.model.items import is_absent
from lore.model.results.measured import Measurement
from lore.model.state import Chain, ClosedTurn, FoldedSession
from lore.model.times import parse_timestamp
from lore.model.turn import Call, Exchange, Fidelity, Prompt, PromptBasis, Turn
from lore.model.vector import Vector
from lore.prefix.likeness import drop_unrendered
from lore.prompt.assemble import Assembler, OpaqueTypes, raise_to_structural
from lore.prompt.base import Dialect
from lore.prompt.dialects import DIALECTS, dialect_named, dialect_names
from lore.prompt.planning import SAVED_KINDS, Planner, SavedEvents
from lore.recording import corpus
from lore.recording.base import Problems, Recording, load_plugins
from lore.recording.overrides import complete_reads

if TYPE_CHECKING:
    from lore.recording.opening import Options

_MOST_AT_ONCE = 4  # open turns of a chain of lore's own log that wait for their ends


class EventRecording(Recording):
    """One session log, with the logs of its subagents (companions)."""

    def __init__(
        self, path: str, reader: Reader, data: Iterable[bytes], problems: Problems, options: Options, *,
        companions: Sequence[str] = (), completes: str | None = None,
    ) -> None:  # fmt: skip
        """Read `data`; `completes` is the chain to whose prompts `options.completion` adds, None: no chain."""
        super().__init__(path, reader, data, problems, options)
        self._rules = options.rules
        self.reading = self.shown  # the file that is being read
        self.companions = tuple(companions)
        self._lines_of_signs: dict[tuple[str, str], int | None] = {}  # by chain and sign
        self.watchful = False  # turns list the items of their timeline that no prompt holds
        self._completes = completes
        self._dialect = options.requested_dialect
        self._saved: SavedEvents | None = None  # of lore's own logs: what later lines say of earlier turns
        self._planners: dict[str, Planner] = {}  # by chain
        self._folding = Folding(FoldedSession(format=self.reader.name, divider=self._rules.divider))
        self._opaque_types: dict[str, OpaqueTypes] = {}  # by chain
        self._assemblers: dict[str, Assembler] = {}  # by chain
        self._forgotten: list[str] = []

    def reads(self) -> Iterator[Read]:
        """Yield events, those of companions last; problems are collected and left out."""
        reads, completion = super().reads(), self.options.completion
        if completion is not None and self._completes is not None:
            reads = complete_reads(reads, completion, self._completes, self.shown)
        return self._with_companions(reads) if self.companions else reads

    def _with_companions(self, reads: Iterator[Read]) -> Iterator[Read]:
        """Yield a log's reads, then those of its companions without their headers: the session has one already."""
        used_names, is_started = {e.MAIN}, False
        for read in reads:
            main_event: e.Event = read.value  # pyright: ignore[reportAssignmentType]
            is_started = is_started or isinstance(main_event, e.SessionStarted)
            used_names.add(main_event.chain)
            yield read
        for path in self.companions:
            self.reading, names = corpus.show(path), dict[str, str]()
            try:
                opened = corpus.open_head(path)
                reader = reader_of(opened.head)
                if reader is None or reader.yields != "events":
                    message = f"{self.reading} is not a session log"
                    self.problems.add(Problem(Code.UNREADABLE_FILE, message), self.reading)
                    continue
                for read in reader.read(self.until_torn(opened.data, self.reading)):
                    event = read.value
                    if isinstance(event, Problem):
                        self.problems.add(event, self.reading)
                    elif isinstance(event, e.OpaqueEvent):
                        yield read
                    elif isinstance(event, e.SessionStarted) and is_started:
                        continue
                    elif not isinstance(event, Exchange | Measurement | Turn):
                        is_started = is_started or isinstance(event, e.SessionStarted)
                        if event.chain not in names:
                            names[event.chain] = _free_name(event.chain, path, used_names)
                        if names[event.chain] != event.chain:
                            event = msgspec.structs.replace(event, chain=names[event.chain])
                        yield Read(event, read.line, read.byte)
            except LoreError as error:
                self.problems.add(Problem(Code.UNREADABLE_FILE, error.message), self.reading)
        self.reading = self.shown

    @property
    def state(self) -> FoldedSession:
        return self._folding.state()

    def apply(self, read: Read, event: e.Event) -> None:
        """Fold an event; report its problems, and keep what turns and callers need of it."""
        problems = self.begin(event) if type(event) is e.TurnStarted else self._folding.apply(event)
        for problem in problems:
            self.problems.add(problem, self.reading, read.line, read.byte)
        if type(event) is e.CompactApplied:
            self.boundaries.append((event.uuid, event.at))
        elif type(event) is e.Observed:
            self._lines_of_signs[event.chain, event.name] = read.line
        elif type(event) is e.SessionStarted and event.dialect not in (None, *dialect_names()):
            message = f"dialect {event.dialect!r} is not written yet; anthropic is used instead"
            self.problems.add(Problem(Code.DIALECT_NOT_WRITTEN, message), self.reading, read.line, read.byte)

    def turns(self) -> Iterator[Turn]:
        waiting: dict[str, list[tuple[int, Turn]]] = {}  # by chain, with numbers in order of their start
        numbers = count()
        successive = getattr(self.reader, "successive", False)  # a chain ends when the next one begins
        is_plain = not self.companions and self._completes is None
        for read in self.every_read() if is_plain else self.reads():  # problems are looked for here anyway
            event: e.Event = read.value  # pyright: ignore[reportAssignmentType]
            if type(event) is e.TurnStarted:
                if successive and not self.watchful and event.chain not in self._assemblers:
                    yield from self._complete_all(waiting)
                    self._forgotten += self._assemblers  # a file may hold any number of conversations
                    for name in self._assemblers:
                        self._folding.forget(name)
                    self._assemblers.clear()
                    self._opaque_types.clear()
                # the end of a recorded request follows directly after its start
                for name in list(waiting) if self._origin.yields == "exchanges" else [event.chain]:
                    yield from self._complete_turns(waiting.get(name, []))
                    if not waiting.get(name):
                        waiting.pop(name, None)
                self.apply(read, event)
                waiting.setdefault(event.chain, []).append((next(numbers), self._start_turn(event.chain, read)))
            elif type(read.value) is Problem:
                file = os.path.join(self.shown, read.file) if read.file else self.shown  # of a folder that is read
                self.problems.add(read.value, file)
            else:
                self.apply(read, event)
                if isinstance(event, e.TurnCompleted | e.TurnFailed | e.TurnCanceled):
                    late = self._folding.peek(event.chain).late
                    for _, turn in waiting.get(event.chain, [])[:-1]:
                        self._set_end(turn, late)
        yield from self._complete_all(waiting)

    @property
    def _origin(self) -> type[Reader]:
        """The reader of the format in which the session was recorded first."""
        origin = self._folding.session.format
        if origin == self.reader.name:
            return type(self.reader)
        if origin not in READERS:
            load_plugins()
        return READERS.get(origin, type(self.reader))

    def forgotten(self) -> list[str]:
        forgotten, self._forgotten = self._forgotten, []
        return forgotten

    def begin(self, event: e.TurnStarted) -> Sequence[Problem]:
        """Fold a turn's start; in lore's own logs first the events that lore derives at that point."""
        session = self._folding.session
        if not session.is_own:
            return self._folding.apply(event)
        planner = self._planners.get(event.chain)
        if planner is None:
            if self._saved is None:
                self._saved = _look_ahead(self.path) if self.reader.name == LoreLog.name else SavedEvents()
            planner = self._planners[event.chain] = Planner(self._rules, self._saved)
        planned = planner.plan(session, self._folding.chain(event.chain), event, self.dialect_for(session))
        problems = [problem for derived in planned for problem in self._folding.derive(derived)]
        return (*problems, *self._folding.apply(event))

    def _complete_turns(self, turns: list[tuple[int, Turn]]) -> Iterator[Turn]:
        """Yield a chain's turns and remove them from `turns`; in lore's own logs they wait for their ends."""
        if turns:
            self._set_end(turns[-1][1], self._folding.peek(turns[-1][1].chain).last)
        while turns:
            turn = turns[0][1]
            chain = self._folding.peek(turn.chain)
            has_ended = chain.last is not None if len(turns) == 1 else turn.number not in chain.unended
            waits_for_ends = self._folding.session.is_own or getattr(self._origin, "ends_late", False)
            if waits_for_ends and not has_ended and len(turns) < _MOST_AT_ONCE:
                break
            del turns[0]
            yield turn

    def _complete_all(self, waiting: dict[str, list[tuple[int, Turn]]]) -> Iterator[Turn]:
        for name, turns in waiting.items():
            self._set_end(turns[-1][1], self._folding.peek(name).last)
        yield from (turn for _, turn in merge(*waiting.values()))
        waiting.clear()

    def _set_end(self, turn: Turn, last: ClosedTurn | None) -> None:
        """Set what the end of a turn's request says."""
        session = self._folding.session
        if last is not None and last.turn == turn.number:
            usage, name = last.usage, last.response_id
            usage = None if usage is None else usage.without_unfinished_counts()
            if usage is not None and name is not None:  # only copies share both: a mock may give an id twice
                name = f"{name} {usage.uncached_tokens} {usage.read_tokens} {usage.write_tokens}"
            turn.usage, turn.verdict, turn.response_id, turn.hashes = usage, last.verdict, name, last.hashes
            if self._origin.clock == "first_line":
                turn.answered = last.at
            if session.is_own:
                turn.ended = parse_timestamp(last.at)
        is_unnamed = turn.response_id is None or turn.response_id.startswith(STAND_IN)
        if is_unnamed and turn.sent is not None and session.id and not session.is_own:  # as in other versions
            turn.response_id = f"{session.id} {turn.chain} {turn.number} {turn.sent}"

    def dialect_for(self, state: FoldedSession, chain: Chain | None = None) -> Dialect:
        """Return the dialect that the user named, else the chain's, else the session's, else Anthropic's."""
        template = self.options.template
        if template is not None and self._dialect is None:
            from lore.prompt.dialects.template import JinjaTemplate  # noqa: PLC0415 - jinja2 is slow to import

            self._dialect = JinjaTemplate(
                template.source, now=state.at, file=template.file,
                bos_token=self._rules.bos_token, eos_token=self._rules.eos_token,
            )  # fmt: skip
        recorded_name = state.dialect if chain is None or chain.dialect is None else chain.dialect
        return self._dialect or dialect_named(recorded_name or "") or DIALECTS["anthropic"]

    def _start_turn(self, name: str, read: Read) -> Turn:
        """Return the turn that a chain has begun; its prompt is assembled now, or for another tool's log on demand."""
        session, chain = self._folding.session, self._folding.chain(name)
        dialect = self.dialect_for(session, chain)
        assembler = self._assemblers.get(name)
        if assembler is None or assembler.dialect is not dialect:
            assembler = self._assemblers[name] = Assembler(dialect, self._rules, accepted_breakpoints)
        opened = chain.turn
        assert opened is not None
        has_system = not is_absent(chain.system) and dialect.name == session.dialect
        whole = has_system and not self._records_tools

        def make_prompt() -> tuple[Prompt, Vector[str]]:
            assembly = assembler.assemble(session, chain)
            return raise_to_structural(assembly.prompt, whole=whole, omitted_count=0), assembly.omitted

        turn = Turn(name, opened.turn, make_prompt, opened.since, opened.at)
        turn.line, turn.byte = read.line, read.byte
        lines = self._lines_of_signs
        turn.signs = tuple([msgspec.structs.replace(sign, line=lines.get((name, sign.name))) for sign in opened.signs])
        turn.file = os.path.join(self.shown, read.file) if read.file else ""
        turn.given_up, turn.continues = opened.given_up, opened.continues
        if opened.call is not None:
            turn.call = opened.call
        elif session.provider and not session.is_own:
            turn.call = Call(answered_by=session.provider)
        if not session.is_own and not self.watchful and not self.is_whole(chain):
            fidelity: Fidelity = "structural" if whole else "reconstructed"
            turn.basis = PromptBasis(chain.entries, dialect.name, chain.model, (chain.system, chain.tools), fidelity)
        else:
            self._assemble_now(turn, assembler, chain, read)
        return turn

    def _assemble_now(self, turn: Turn, assembler: Assembler, chain: Chain, read: Read) -> None:
        """Assemble a turn's prompt now, so that its problems are reported in order; templates render on demand."""
        prompt, problems, omitted = assembler.assemble(self._folding.session, chain, finished=False)
        turn.omitted = omitted
        for problem in problems:
            self.problems.add(problem, self.reading, read.line, read.byte)
        if self.watchful or self.is_whole(chain):
            turn.unexpressed = self._opaque_types.setdefault(turn.chain, OpaqueTypes()).types_in(chain.entries)
            left_out = len(turn.unexpressed) + len(omitted)
            prompt = raise_to_structural(prompt, whole=self.is_whole(chain), omitted_count=left_out)
        if self._origin.yields == "exchanges" and not self.watchful:
            prompt = drop_unrendered(prompt, turn.call.endpoint)
        turn.source = lambda: (assembler.finish(prompt), omitted)

    def is_whole(self, chain: Chain) -> bool:
        """Return whether another tool's session holds all parts of a chain's prompt."""
        if self._folding.session.is_own or chain.tools is None or is_absent(chain.system):
            return False
        completion = self.options.completion
        return (completion is not None and completion.tools is not None) or self._records_tools

    @property
    def _records_tools(self) -> bool:
        """Whether logs of the session's format that hold tools hold the client's own ones, too."""
        return getattr(self._origin, "records_builtin_tools", True)


def _free_name(chain: str, path: str, used_names: set[str]) -> str:
    """Return a chain's name if no other chain has it, else its file's, else that with a number; note it as taken."""
    label = corpus.show(path)
    stem = label.rpartition("#")[2] if corpus.is_in_database(path) else os.path.splitext(os.path.basename(label))[0]
    names = chained((chain, stem), (f"{stem}-{number}" for number in count(2)))
    name = next(name for name in names if name not in used_names)
    used_names.add(name)
    return name


def session_log(recording: Recording, instead: str, *, hint: str) -> EventRecording:
    """Return a recording that is a session log; raises LoreError for any other, which is not what `instead` names."""
    if isinstance(recording, EventRecording):
        return recording
    raise LoreError(f"{recording.shown} is read as {HOLDS[recording.reader.yields]}, not as {instead}", hint=hint)


def _look_ahead(path: str) -> SavedEvents:
    """Return facts about a log's turns by one more pass over its bytes; none if it can be read only once."""
    try:
        if corpus.is_stream(path):
            return SavedEvents()
        lines = read_lines(corpus.pieces(path))
        saved = [line for line in lines if any(kind in line.data for kind in SAVED_KINDS)]
    except (LoreError, OSError):  # the file is gone, or changes: its opened bytes are read all the same
        return SavedEvents()
    reader = LoreLog()
    reads = (read for line in saved for read in reader.read_line(line))
    return SavedEvents(read.value for read in reads if not isinstance(read.value, Problem))  # pyright: ignore[reportArgumentType]
