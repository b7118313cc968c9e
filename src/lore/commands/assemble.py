"""`lore assemble`: the request body of a turn, all turns, or the segments of a prompt."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Annotated, BinaryIO, NamedTuple

import typer
from msgspec import Struct
from msgspec.structs import replace

from lore.commands import common, flags
from lore.errors import LoreError, Where
from lore.model.events import Event
from lore.prompt.base import Rules
from lore.recording import corpus
from lore.recording.base import Problems, Template
from lore.recording.corpus import Name
from lore.recording.opening import Options
from lore.report.explained import write
from lore.run.appending import Append, appending
from lore.run.assembling import AssembledAll, Assembly, assemble, explained


class AssembleOptions(Struct, frozen=True):
    """The options of `lore assemble`."""

    session: Annotated[
        str, typer.Argument(help="A session log, a stored session (URL#ID), or `-`; PATH#N names a turn.")
    ]
    turn: Annotated[int | None, typer.Option("--turn", help="Which turn of the main chain; default: the last.")] = None
    every: Annotated[
        bool, typer.Option("--all", help="Every turn as a delta, one line each; a reset writes the whole prompt.")
    ] = False
    full: Annotated[bool, typer.Option("--full", help="With --all: whole bodies, one line a turn.")] = False
    explain: Annotated[bool, typer.Option("--explain", help="Show the segments of the prompt instead.")] = False
    persist: Annotated[
        bool, typer.Option("--persist", help="Append events that lore derived to the session, a lore log.")
    ] = False
    dialect: flags.Dialect = None
    template: flags.TemplateFile = None
    tail: flags.Tail = None
    breakpoints: Annotated[
        str | None, typer.Option("--breakpoints", help="Which cache breakpoints are set: lore, recorded, none.")
    ] = None
    system: flags.System = None
    tools: flags.Tools = None
    output: flags.Output = None
    force: flags.Force = False
    as_json: flags.AsJson = False
    format: flags.Format = None
    config: flags.Config = None
    color: flags.Colour = None
    verbose: flags.Verbose = False


@common.takes(AssembleOptions)
def run(options: AssembleOptions) -> int:
    """Write the request body of a turn (default: the last).

    Content is written as it was recorded, credentials are not masked; --explain shows no content.
    """
    name, turn = corpus.parse_name(options.session), options.turn
    common.refuse(
        (options.every and turn is not None, "--turn names one turn, --all means every turn", "choose one"),
        (options.full and not options.every, "--full asks for whole bodies of every turn", "use it with --all"),
        (options.every and options.explain, "--explain shows one turn, --all means every turn", "choose one"),
        (options.as_json and not options.explain, "--json answers with --explain; a body is JSON already",
         "add --explain, or leave --json out"),
        (options.force and options.output is None, "--force overwrites the file that --output names", "name it"),
        (None not in (turn, name.turn) and turn != name.turn,
         f"the name says turn {name.turn}, --turn says {turn}", "say it once"),
        (options.persist and options.format not in (None, "lore"),
         f"--persist appends to lore logs, not to {options.format!r}",
         "lore convert writes a session as lore's own log"),
    )  # fmt: skip
    answer = _Answer(options, name if turn is None else name._replace(turn=turn), _read_options(options))
    with _locked(name.path, wanted=options.persist) as append:
        answer.write_all(append) if options.every else answer.write_one(append)
    return 0


def _read_options(options: AssembleOptions) -> Options:
    """Return how the session is read: the settings, and the options that override them."""
    rules = _with_breakpoints(common.found_settings(options.config).settings.assemble, options.breakpoints)
    return Options(
        format=options.format, dialect=options.dialect if options.template is None else None,
        policy=common.tail_policy(options.tail, rules.tail), rules=rules,
        completion=common.completion(options.system, options.tools),
        template=_read_template(options.template, options.dialect), log=common.log(options.verbose),
    )  # fmt: skip


def _with_breakpoints(rules: Rules, given: str | None) -> Rules:
    """Return the rules with the requested breakpoints; raises LoreError for an unknown word."""
    if given is None:
        return rules
    made = replace(rules, breakpoints=given)
    fault = made.fault()
    if fault is not None:
        raise LoreError(f"--breakpoints: {fault}", hint="lore (its own places), recorded (as they were), none")
    return made


def _read_template(path: str | None, dialect: str | None) -> Template | None:
    """Return the chat template in a file; None without one."""
    if path is None:
        return None
    if dialect not in (None, "template"):
        raise LoreError(f"--template renders text, --dialect {dialect} writes JSON", hint="leave one of them out")
    shown, data = corpus.show(path), b"".join(corpus.pieces(path))
    try:
        return Template(data.decode("utf-8").removeprefix("\ufeff"), shown)
    except UnicodeDecodeError as error:
        place = Where(shown, data.count(b"\n", 0, error.start) + 1, error.start)
        raise LoreError(f"{shown} holds bytes that are not UTF-8", where=place) from None


@contextmanager
def _locked(path: str, *, wanted: bool) -> Generator[Append | None]:
    """Lock the log while it is read if events will be appended to it."""
    if not wanted:
        yield None
        return
    with appending(path) as append:
        yield append


class _Answer(NamedTuple):
    """The answer of the command. Derived events are appended after it is written."""

    options: AssembleOptions
    name: Name
    read: Options

    def write_one(self, append: Append | None) -> None:
        """Write the body of one turn, or with --explain its segments; with a file for the body both."""
        options, made = self.options, assemble(self.name, self.read)
        with common.destination(options.output, force=options.force, inputs=(self.name.path,)) as file:
            if not options.explain or options.output is not None:
                file.write(made.body + b"\n")
            else:
                self._explain(made)
            self._persist(append, file, made.unsaved)
        if options.explain and options.output is not None:
            self._explain(made)
        size = f"{len(made.prompt)} segments, {len(made.body):,} bytes, dialect {made.prompt.dialect}"
        self._report(made.problems, made.notes, size)

    def _explain(self, made: Assembly) -> None:
        shown = explained(made, self.read.ruled)
        common.answer(shown, write, as_json=self.options.as_json, color=self.options.color)

    def write_all(self, append: Append | None) -> None:
        """Write a line a turn: whole bodies or deltas."""
        options, made = self.options, AssembledAll(self.name, self.read, full=self.options.full)
        with common.destination(options.output, force=options.force, inputs=made.inputs) as file:
            file.writelines(made.lines())
            self._persist(append, file, made.unsaved)
        self._report(made.problems, made.notes(), f"{made.turns:,} turns")

    def _persist(self, append: Append | None, file: BinaryIO, events: tuple[Event, ...]) -> None:
        """Append derived events after the answer: if that cannot be written, the log is unchanged."""
        if append is None:
            return
        sys.stdout.flush()
        file.flush()
        append(events)
        self.read.log(f"{len(events)} events appended to the log")

    def _report(self, problems: Problems, notes: Iterable[str], size: str) -> None:
        common.say_problems(problems)
        for note in notes:
            common.tell(f"note: {note}")
        self.read.log(f"{size}, tail {self.read.policy}")
