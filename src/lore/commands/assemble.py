"""`lore assemble`: the request body of a turn, or all turns, or what a prompt is made of."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, BinaryIO, NamedTuple

import typer

from lore.commands import common, flags

if TYPE_CHECKING:
    from lore.model.events import Event
    from lore.recording.corpus import Name
    from lore.recording.opening import Options
    from lore.run.appending import Append
    from lore.run.assembling import Assembly

MANY = 100_000_000  # bytes of an answer from which on they are many
NO_JSON = "--json answers with --explain; a body is JSON already"
HINT_BODIES = "--full writes a whole body each turn; without it only a reset writes the prompt anew"
HINT_RESETS = "each reset of the session writes its prompt anew"


class _AssembleRequest(NamedTuple):
    """What the command line says about how to answer."""

    full: bool
    persist: bool
    explain: bool
    as_json: bool
    color: bool | None
    output: str | None
    force: bool


@common.quiet_pipe
def run(
    session: Annotated[
        str, typer.Argument(help="A session log, a stored session (URL#ID), or `-`; PATH#N names a turn.")
    ],
    turn: Annotated[int | None, typer.Option("--turn", help="Which turn of the main chain; default: the last.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every turn as a delta, one line each; a reset writes the prompt anew.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="With --all: whole bodies, one line a turn.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show the segments of the prompt instead.")] = False,
    persist: Annotated[
        bool, typer.Option("--persist", help="Append what lore derived for all turns to the session, a lore log.")
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

    name = _named(corpus.parse_name(session), turn)
    request = _AssembleRequest(full, persist, explain, as_json, color, output, force)
    common.refuse(
        (every and turn is not None, "--turn names one turn, --all means every turn", "choose one"),
        (full and not every, "--full asks for whole bodies of every turn", "use it with --all"),
        (every and explain, "--explain shows one turn, --all means every turn", "choose one"),
        (as_json and not explain, NO_JSON, "add --explain, or leave --json out"),
        (force and output is None, "--force overwrites the file that --output names", "name it"),
    )
    rules = common.with_breakpoints(common.settings(config).assemble, breakpoints if breakpoints is not None else marks)
    options = Options(
        format=format, dialect=None if template is not None else dialect, policy=common.tail_policy(tail, rules.tail),
        rules=rules, completion=common.completion(system, tools), template=common.template(template, dialect),
        log=common.log(verbose),
    )  # fmt: skip
    with _locked(name.path, options, request) as append:
        _all(name, options, request, append) if every else _one(name, options, request, append)
    return 0


def _named(name: Name, turn: int | None) -> Name:
    from lore.errors import LoreError

    if turn is None:
        return name
    if name.turn is not None and name.turn != turn:
        raise LoreError(f"the name says turn {name.turn}, --turn says {turn}", hint="say it once")
    return name._replace(turn=turn)


@contextmanager
def _locked(path: str, options: Options, request: _AssembleRequest) -> Generator[Append | None]:
    """Hold the log while it is read, where it will be appended to."""
    if not request.persist:
        yield None
        return
    from lore.errors import LoreError
    from lore.run.appending import HINT_CONVERT, appending

    if options.format not in (None, "lore"):
        raise LoreError(f"--persist appends to lore logs, not to {options.format!r}", hint=HINT_CONVERT)
    with appending(path) as append:
        yield append


def _one(name: Name, options: Options, request: _AssembleRequest, append: Append | None) -> None:
    """Answer for one turn; what was derived is appended only when the answer that it belongs to is written."""
    from lore.run.assembling import assemble

    made = assemble(name, options)
    alone = request.explain and request.output is None
    with common.destination(request.output, force=request.force, inputs=(name.path,)) as file:
        if alone:
            _explain(made, options, request)
        else:
            file.write(made.body + b"\n")
        _persist(append, file, made.unsaved, options.log)
    if request.explain and not alone:
        _explain(made, options, request)
    common.say_problems(made.problems)
    _note(made.notes)
    shown = f"{len(made.prompt)} segments, {len(made.body):,} bytes, dialect {made.prompt.dialect}"
    options.log(f"{shown}, tail {options.policy}")


def _explain(made: Assembly, options: Options, request: _AssembleRequest) -> None:
    from lore.report.explained import write
    from lore.run.assembling import explained

    common.answer(explained(made, options.ruled), write, as_json=request.as_json, color=request.color)


def _all(name: Name, options: Options, request: _AssembleRequest, append: Append | None) -> None:
    from lore.run.assembling import AssembledAll

    made = AssembledAll(name, options, full=request.full)
    lines = _warned(made.lines(), HINT_BODIES if request.full else HINT_RESETS)
    with common.destination(request.output, force=request.force, inputs=made.inputs) as file:
        file.writelines(lines)
        _persist(append, file, made.unsaved, options.log)
    common.say_problems(made.problems)
    _note(made.notes())
    options.log(f"{made.turns:,} turns, tail {options.policy}")


def _warned(lines: Iterator[bytes], hint: str) -> Iterator[bytes]:
    """Warn once when an answer has grown to more than anybody may have expected."""
    written, warned = 0, False
    for line in lines:
        written += len(line)
        if written > MANY and not warned:
            warned = True
            common.tell(f"warning: more than {MANY // 1_000_000} MB: {hint}")
        yield line


def _persist(append: Append | None, file: BinaryIO, events: tuple[Event, ...], say: Callable[[str], None]) -> None:
    """Append what was derived, behind the answer: where that cannot be written, the log stays as it is."""
    if append is None:
        return
    sys.stdout.flush()
    file.flush()
    if append(events):
        common.tell("note: the last line of the log is torn; it stays as it is, with a line end")
    say(f"{len(events)} events appended to the log")


def _note(notes: tuple[str, ...] | list[str]) -> None:
    for note in notes:
        common.tell(f"note: {note}")
