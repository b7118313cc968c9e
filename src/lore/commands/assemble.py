"""`lore assemble`: the request body of a turn, all turns, or the segments of a prompt."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, BinaryIO, NamedTuple

import typer

from lore.commands import common, flags

if TYPE_CHECKING:
    from lore.model.events import Event
    from lore.prompt.base import Rules
    from lore.recording.base import Problems, Template
    from lore.recording.corpus import Name
    from lore.recording.opening import Options
    from lore.run.appending import Append

MANY = 100_000_000  # bytes: larger answers are warned of
HINT_BODIES = "--full writes a whole body each turn; without it only a reset writes the whole prompt again"
HINT_RESETS = "each reset of the session writes its whole prompt again"


@common.quiet_pipe
def run(
    session: Annotated[
        str, typer.Argument(help="A session log, a stored session (URL#ID), or `-`; PATH#N names a turn.")
    ],
    turn: Annotated[int | None, typer.Option("--turn", help="Which turn of the main chain; default: the last.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every turn as a delta, one line each; a reset writes the whole prompt.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="With --all: whole bodies, one line a turn.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show the segments of the prompt instead.")] = False,
    persist: Annotated[
        bool, typer.Option("--persist", help="Append events that lore derived to the session, a lore log.")
    ] = False,
    dialect: flags.Dialect = None,
    template: flags.TemplateFile = None,
    tail: flags.Tail = None,
    breakpoints: Annotated[
        str | None, typer.Option("--breakpoints", help="Which cache breakpoints are set: lore, recorded, none.")
    ] = None,
    marks: Annotated[str | None, typer.Option("--marks", hidden=True)] = None,
    system: flags.System = None,
    tools: flags.Tools = None,
    output: flags.Output = None,
    force: flags.Force = False,
    as_json: flags.AsJson = False,
    format: flags.Format = None,
    config: flags.Config = None,
    color: flags.Colour = None,
    verbose: flags.Verbose = False,
) -> int:
    """Write the request body of a turn (default: the last).

    Content is written as it was recorded, credentials are not masked; --explain shows no content.
    """
    from lore.recording import corpus
    from lore.recording.opening import Options

    name = corpus.parse_name(session)
    common.refuse(
        (every and turn is not None, "--turn names one turn, --all means every turn", "choose one"),
        (full and not every, "--full asks for whole bodies of every turn", "use it with --all"),
        (every and explain, "--explain shows one turn, --all means every turn", "choose one"),
        (as_json and not explain, "--json answers with --explain; a body is JSON already",
         "add --explain, or leave --json out"),
        (force and output is None, "--force overwrites the file that --output names", "name it"),
        (None not in (turn, name.turn) and turn != name.turn,
         f"the name says turn {name.turn}, --turn says {turn}", "say it once"),
        (persist and format not in (None, "lore"), f"--persist appends to lore logs, not to {format!r}",
         "lore convert writes a session as lore's own log"),
    )  # fmt: skip
    rules = _with_breakpoints(common.settings(config).assemble, marks if breakpoints is None else breakpoints)
    options = Options(
        format=format, dialect=None if template is not None else dialect, policy=common.tail_policy(tail, rules.tail),
        rules=rules, completion=common.completion(system, tools), template=_read_template(template, dialect),
        log=common.log(verbose),
    )  # fmt: skip
    answer = _Answer(name if turn is None else name._replace(turn=turn), options, output, force)
    with _locked(name.path, wanted=persist) as append:
        if every:
            answer.write_all(append, full=full)
        else:
            answer.write_one(append, explain=explain, as_json=as_json, color=color)
    return 0


def _with_breakpoints(rules: Rules, given: str | None) -> Rules:
    """Return the rules with the requested breakpoints; raises LoreError for an unknown word."""
    from msgspec.structs import replace

    from lore.errors import LoreError

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
    from lore.errors import LoreError, Where
    from lore.recording import corpus
    from lore.recording.base import Template

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
    from lore.run.appending import appending

    with appending(path) as append:
        yield append


class _Answer(NamedTuple):
    """Where the answer goes, and what it is about. Derived events are appended after the answer is written."""

    name: Name
    options: Options
    output: str | None
    force: bool

    def write_one(self, append: Append | None, *, explain: bool, as_json: bool, color: bool | None) -> None:
        """Write the body of one turn, or with `explain` its segments; with a file for the body both."""
        from lore.report.explained import write
        from lore.run.assembling import assemble, explained

        made = assemble(self.name, self.options)
        shown = explained(made, self.options.ruled) if explain else None
        with common.destination(self.output, force=self.force, inputs=(self.name.path,)) as file:
            if shown is None or self.output is not None:
                file.write(made.body + b"\n")
            else:
                common.answer(shown, write, as_json=as_json, color=color)
            self._persist(append, file, made.unsaved)
        if shown is not None and self.output is not None:
            common.answer(shown, write, as_json=as_json, color=color)
        size = f"{len(made.prompt)} segments, {len(made.body):,} bytes, dialect {made.prompt.dialect}"
        self._report(made.problems, made.notes, size)

    def write_all(self, append: Append | None, *, full: bool) -> None:
        """Write a line a turn: whole bodies or deltas."""
        from lore.run.assembling import AssembledAll

        made = AssembledAll(self.name, self.options, full=full)
        lines = _warn_of_size(made.lines(), HINT_BODIES if full else HINT_RESETS)
        with common.destination(self.output, force=self.force, inputs=made.inputs) as file:
            file.writelines(lines)
            self._persist(append, file, made.unsaved)
        self._report(made.problems, made.notes(), f"{made.turns:,} turns")

    def _persist(self, append: Append | None, file: BinaryIO, events: tuple[Event, ...]) -> None:
        """Append derived events after the answer: if that cannot be written, the log is unchanged."""
        if append is None:
            return
        sys.stdout.flush()
        file.flush()
        if append(events):
            common.tell("note: the last line of the log is torn; it stays as it is, with a line end")
        self.options.log(f"{len(events)} events appended to the log")

    def _report(self, problems: Problems, notes: Iterable[str], size: str) -> None:
        common.say_problems(problems)
        for note in notes:
            common.tell(f"note: {note}")
        self.options.log(f"{size}, tail {self.options.policy}")


def _warn_of_size(lines: Iterator[bytes], hint: str) -> Iterator[bytes]:
    """Yield the lines; warn once when they exceed `MANY` bytes."""
    written, warned = 0, False
    for line in lines:
        written += len(line)
        if written > MANY and not warned:
            warned = True
            common.tell(f"warning: more than {MANY // 1_000_000} MB: {hint}")
        yield line
