"""Laws for any bytes. Each check raises if its law is broken.

In: bytes that pretend to be a recording, and a second file to compare them with. The laws:

- every reader turns any bytes into events or exchanges and problems, with places, and never raises;
- cut anywhere, saved and restored, it reads the same; so does the fold, saved and loaded at the cut;
- folding is total and leaves the state before as it was;
- an assembled body is JSON, in every dialect and policy, and the same from a fresh assembler;
- a parsed body can be written, and the written body parses to the same segments;
- diff, check, fold, assemble and their reports raise nothing but LoreError.
"""

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, get_args

import msgspec
from msgspec import Struct

from helpers.fed import fed_in_two
from helpers.recognising import recognise
from helpers.states import dump_state, step
from lore.commands.assemble import assemble
from lore.commands.diff_prefix import TurnComparison, diff_files, diff_session
from lore.commands.fold import fold
from lore.errors import LoreError
from lore.formats.base import Read, Reader
from lore.formats.beginning import BOM, SPACE
from lore.formats.builder import DocumentReader
from lore.formats.lines import TextReader, nonblank_lines
from lore.formats.registry import READERS
from lore.judge.policy import Policy
from lore.model.codes import Problem
from lore.model.events import Event, TurnStarted
from lore.model.jsonslice import raw_members
from lore.model.results.measured import Measurement
from lore.model.state import FoldedSession
from lore.model.turn import Exchange, Memo, Turn
from lore.prompt.assemble import Assembler
from lore.prompt.base import POLICIES, Rules
from lore.prompt.dialects import DIALECTS
from lore.recording.corpus import parse_name
from lore.recording.opening import Options
from lore.report.console import Console
from lore.report.diff import DiffWriter
from lore.report.forms.base import REPORTS, render
from lore.report.timeline import write as write_timeline
from lore.run.checking.check import check
from lore.run.checking.verdicts import CheckContext

EVENTS: tuple[type, ...] = get_args(Event)
CUTS = 4


def examine(data: bytes, other: bytes, folder: Path, counter: Any = None) -> None:
    """Check every law for one input; `folder` is a place for two files."""
    recognise(data)
    for reader in READERS.values():
        examine_reader(reader, data)
    for dialect in DIALECTS.values():
        dialect.parse(data, "wire", Memo())
    _commands(data, other, folder, counter)


def examine_reader(reader: type[Reader], data: bytes) -> None:
    """Check the laws of one reader, and of the fold of its events, for one input."""
    assert reader.recognises(data) in (True, False)
    reads = _read(reader, data)
    _places(reads)
    _cuts(reader, data, reads)
    _folds(reader, reads)
    for one in reads:
        if isinstance(one.value, Exchange):
            _parses(one.value.body)


def _read(reader: type[Reader], data: bytes) -> list[Read]:
    made = reader()
    return list(made.read([data]))


def _places(reads: list[Read]) -> None:
    for read in reads:
        assert isinstance(read.value, (*EVENTS, Exchange, Measurement, Turn, Problem)), (
            f"a reader gave {type(read.value).__name__}"
        )
        assert read.line >= 1
        assert read.byte >= 0


def _cuts(reader: type[Reader], data: bytes, whole: list[Read]) -> None:
    """Read and fold in two parts."""
    chance = random.Random(len(data))
    shown = _shown(whole)
    for _ in range(CUTS):
        cut = chance.randint(0, len(data))
        assert _shown(list(reader().read([data[:cut], data[cut:]]))) == shown, (
            f"{reader.name} reads something else when cut at {cut}"
        )
        if not issubclass(reader, TextReader) or _is_printed(data) or _is_array(reader, data):
            continue  # such a file does not grow line by line
        before, after = fed_in_two(reader(), data, cut)
        cold, live = _folded(_folded(FoldedSession(), before), after), _folded(FoldedSession(), whole)
        assert dump_state(cold) == dump_state(live), f"{reader.name} folds to something else, cut at {cut}"


def _is_printed(data: bytes) -> bool:
    line = next(nonblank_lines(data), b"").strip(SPACE)
    return line[:1] in (b"{", b"[") and (len(line) == 1 or line[-1:] not in (b"}", b"]"))


def _is_array(reader: type[Reader], data: bytes) -> bool:
    reads_arrays = getattr(reader, "reads_arrays", False)
    return issubclass(reader, DocumentReader) or (reads_arrays and data.removeprefix(BOM).lstrip(SPACE)[:1] == b"[")


def _folded(state: FoldedSession, reads: list[Read]) -> FoldedSession:
    for read in reads:
        if isinstance(read.value, EVENTS):
            state = step(state, cast("Event", read.value)).state
    return state


def _folds(reader: type[Reader], reads: list[Read]) -> None:
    state = FoldedSession(format=reader.name)
    assemblers = {
        (name, policy): Assembler(dialect, Rules(tail=policy))
        for name, dialect in DIALECTS.items()
        for policy in POLICIES
    }
    for number, read in enumerate(reads):
        if not isinstance(read.value, EVENTS):
            continue
        held = dump_state(state) if number % 7 == 3 else None
        after, problems = step(state, cast("Event", read.value))
        assert all(isinstance(one, Problem) for one in problems)
        assert held is None or dump_state(state) == held, f"{type(read.value).__name__} changed the state before"
        state = after
        if isinstance(read.value, TurnStarted) and number % 3 == 0:
            _assembles(state, assemblers)
    _assembles(state, assemblers)


def _assembles(state: FoldedSession, assemblers: dict[Any, Assembler]) -> None:
    """Assemble the main chain with an assembler that saw it before; any chain with a fresh one."""
    for (name, policy), old in assemblers.items():
        dialect = DIALECTS[name]
        for chain in state.chains.values():
            prompt = Assembler(dialect, Rules(tail=policy)).assemble(state, chain).prompt
            body = dialect.write(prompt)
            _is_json(body, f"{name} with the tail as {policy}")
            if chain.id == state.main().id:
                kept = dialect.write(old.assemble(state, chain).prompt)
                assert kept == body, f"{name}: an assembler that saw the turns before writes something else"
            _same(list(prompt), list(dialect.parse(body, "reconstructed", Memo())), f"{name}, assembled")


def _parses(body: bytes) -> None:
    for name, dialect in DIALECTS.items():
        memo = Memo()
        prompt = dialect.parse(body, "wire", memo)
        written = dialect.write(prompt)
        _is_json(written, f"{name}, parsed")
        _same(list(prompt), list(dialect.parse(written, "wire", memo)), f"{name}, parsed")
        assert dialect.recognises(raw_members(written) or {}) in (True, False)


def _same(mine: list[Any], theirs: list[Any], what: str) -> None:
    assert mine == theirs, f"{what}: the written body parses to other segments"


def _is_json(body: bytes, what: str) -> None:
    try:
        json.loads(body.decode("utf-8"), parse_constant=_refuse)
    except RecursionError:  # deeper than this check can look
        pass
    except ValueError as error:
        raise AssertionError(f"{what}: the body is no JSON: {error}") from None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _shown(reads: list[Read]) -> list[tuple[str, str, int, int]]:
    return [(type(one.value).__name__, _text(one.value), one.line, one.byte) for one in reads]


def _text(value: object) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=list).decode("utf-8", "backslashreplace")
    except (UnicodeEncodeError, msgspec.MsgspecError):
        return repr(value)


def _commands(data: bytes, other: bytes, folder: Path, counter: Any) -> None:
    """Run what the commands run, and say it in every way."""
    left, right = folder / "left.jsonl", folder / "right.jsonl"
    left.write_bytes(data)
    right.write_bytes(other)
    options = Options(counter=counter)
    screen = Console(io.StringIO(), colour=True, terminal=True)

    def differ(one: Path, two: Path) -> None:
        made = diff_files(str(one), str(two), TurnComparison(options))
        _renders(made)
        DiffWriter(screen).write(made)

    def differ_session() -> None:
        for made in diff_session(str(left), TurnComparison(options)):
            _renders(made)
            DiffWriter(screen).write(made)

    def judge() -> None:
        policy = Policy(min_reuse=0.9, max_breaks=0, max_lost_tokens=0)
        found = check([str(left)], CheckContext(policy=policy, options=options))
        for report in REPORTS.values():
            report.write(found.result, screen, verbose=True)
        _renders(found.result)

    def folding() -> None:
        for view in ({}, {"unpruned": True}, {"only_pruned": True}):
            made = fold(str(left), options, **view)
            _renders(made.result)
            write_timeline(made.result, made.items, screen, title="")

    def assembling() -> None:
        _is_json(assemble(parse_name(str(left)), options).body, "lore assemble")

    for command in (lambda: differ(left, right), lambda: differ(right, left), differ_session, judge, folding):
        _only_lore_errors(command)
    _only_lore_errors(assembling)


def _only_lore_errors(command: Callable[[], None]) -> None:
    try:
        command()
    except LoreError as error:
        if not error.message or "\n" in error.message:
            raise AssertionError(f"an error is not one line: {error.message!r}") from None


def _renders(result: Struct) -> None:
    _is_json(render(result).encode("utf-8"), f"the JSON of {type(result).__name__}")
