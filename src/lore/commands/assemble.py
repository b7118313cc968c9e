"""`lore assemble`: the request body of a turn, deltas between all turns, or the segments of a prompt.

Assembling changes nothing on disk. Events that it derived and that the log does not hold are appended with `--persist`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Annotated, BinaryIO, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Raw

from lore.cache.breakpoint_rules import accepted_breakpoints
from lore.commands import common, flags
from lore.errors import LoreError, Where
from lore.fold import inserts
from lore.model.canonical import encode
from lore.model.events import Event, TurnStarted
from lore.model.fact import count_of
from lore.model.items import is_absent
from lore.model.jsonslice import raw_members
from lore.model.results import assemble as results
from lore.model.results import copy_fields
from lore.model.state import FoldedSession
from lore.model.turn import Prompt, Turn
from lore.prefix.overlap import ChainSums, byte_size, compare_prompts, iterate_from
from lore.prompt.assemble import Assembler, OpaqueTypes, raise_to_structural
from lore.prompt.base import IN_LOOPS, Dialect, Rules, expresses
from lore.prompt.dialects import DIALECTS
from lore.prompt.system_messages import placement, templates_for
from lore.recording import corpus
from lore.recording.base import Problems, Template
from lore.recording.corpus import Name
from lore.recording.events import EventRecording
from lore.recording.opening import Options, pick
from lore.recording.request_session import session_of
from lore.report.console import Cell, Console, TableColumn, line, write_table
from lore.report.plain import list_unrecorded, prompt_notes, turn_of
from lore.run.arguments import read_completion
from lore.run.outputs import Append, appending


class AssembleOptions(common.CommonOptions, frozen=True):
    """The options of `lore assemble`."""

    session: Annotated[str, "SESSION", "A session log, a stored session (URL#ID), or `-`; PATH#N names a turn."]
    turn: Annotated[int | None, "Which turn of the main chain; default: the last."] = None
    every: Annotated[bool, "--all", "Every turn as a delta, one line each; a reset writes the whole prompt."] = False
    full: Annotated[bool, "With --all: whole bodies, one line a turn."] = False
    explain: Annotated[bool, "Show the segments of the prompt instead."] = False
    persist: Annotated[bool, "Append events that lore derived to the session, a lore log."] = False
    dialect: flags.Dialect = None
    template: flags.TemplateFile = None
    tail: flags.Tail = None
    system: flags.System = None
    tools: flags.Tools = None
    output: flags.Output = None
    force: flags.Force = False
    as_json: flags.AsJson = False
    format: flags.Format = None


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
    name = name if turn is None else name._replace(turn=turn)
    opening = _read_options(options)
    write_answer = _write_all if options.every else _write_one
    with appending(name.path) if options.persist else nullcontext() as append:  # locked while it is read
        problems, notes, size = write_answer(options, name, opening, append)
    common.say_problems(problems)
    for note in notes:
        common.tell(f"note: {note}")
    opening.log(f"{size}, tail {opening.rules.tail}")
    return 0


def _read_options(options: AssembleOptions) -> Options:
    """Return how the session is read: the settings, and the options that override them."""
    rules, template = common.find_settings(options.config).settings.assemble, None
    if options.template is not None:
        if options.dialect not in (None, "template"):
            message = f"--template renders text, --dialect {options.dialect} writes JSON"
            raise LoreError(message, hint="leave one of them out")
        label, data = corpus.show(options.template), b"".join(corpus.pieces(options.template))
        try:
            template = Template(data.decode("utf-8").removeprefix("\ufeff"), label)
        except UnicodeDecodeError as error:
            place = Where(label, data.count(b"\n", 0, error.start) + 1, error.start)
            raise LoreError(f"{label} holds bytes that are not UTF-8", where=place) from None
    return Options(
        format=options.format, dialect=options.dialect if template is None else None,
        rules=common.with_tail(rules, options.tail), template=template,
        completion=read_completion(options.system, options.tools), log=common.log(options.verbose),
    )  # fmt: skip


_Report: TypeAlias = tuple[Problems, Iterable[str], str]  # what to print after an answer: problems, notes, its size


def _write_one(options: AssembleOptions, name: Name, opening: Options, append: Append | None) -> _Report:
    """Write the body of one turn, or with --explain its segments; with --explain and --output both."""
    output, writes_body = assemble(name, opening), not options.explain or options.output is not None

    def explain() -> None:
        explanation = describe(output, opening.rules)
        common.answer(explanation, write_explanation, as_json=options.as_json, color=options.color)

    with common.destination(options.output, force=options.force, inputs=(name.path,)) as file:
        if writes_body:
            file.write(output.body + b"\n")
        else:
            explain()
        _persist(append, file, output.unsaved, opening)
    if options.explain and writes_body:
        explain()
    size = f"{len(output.prompt)} segments, {len(output.body):,} bytes, dialect {output.prompt.dialect}"
    return output.problems, output.notes, size


def _write_all(options: AssembleOptions, name: Name, opening: Options, append: Append | None) -> _Report:
    """Write a line a turn: whole bodies or deltas."""
    if name.turn is not None:
        raise LoreError(f"{name} is one turn, --all means every turn", hint="leave #TURN or --all out")
    recording = open_session(name, opening, subagents=True)
    deltas, latest, count = Deltas(), dict[str, Turn](), 0
    inputs = (recording.path, *recording.companions)
    with common.destination(options.output, force=options.force, inputs=inputs) as file:
        for turn in recording.turns():
            count += 1
            latest[turn.chain] = turn
            file.write(whole_line(turn, recording) if options.full else deltas.line(turn))
        _persist(append, file, unsaved(recording.state), opening)
    notes = [
        note
        for turn in latest.values()
        for note in _describe_omissions(recording, turn.chain, turn.prompt, turn.omitted, turn.unexpressed)
    ]
    notes += [] if count else [f"{NO_TURN}: nothing to assemble"]
    return recording.problems, dict.fromkeys(notes), f"{count:,} turns"


def _persist(append: Append | None, file: BinaryIO, events: tuple[Event, ...], opening: Options) -> None:
    """Append derived events after the answer: if that cannot be written, the log is unchanged."""
    if append is not None:
        sys.stdout.flush()
        file.flush()
        append(events)
        opening.log(f"{len(events)} events appended to the log")


NO_TURN = "the session has no turn yet"


class Assembly(NamedTuple):
    """One assembled turn."""

    body: bytes
    prompt: Prompt  # from which the body was written
    problems: Problems
    notes: tuple[str, ...]  # about what the prompt leaves out
    label: str  # the name of the recording, to print
    chain: str
    turn: int | None  # None: the session has no turn
    omitted: Counter[str]  # blocks that the dialect cannot express, by kind
    dialect: Dialect
    unsaved: tuple[Event, ...]  # derived events that the log does not hold


def unsaved(state: FoldedSession) -> tuple[Event, ...]:
    """Return the events that were derived from a lore log and that it does not hold yet."""
    return tuple(event for chain in state.chains.values() for event in inserts.unsaved_events(chain))


def assemble(name: Name, options: Options) -> Assembly:
    """Assemble the named turn, else the last, else the session as of its end. Raises LoreError if there is none."""
    recording = open_session(name, options, subagents=name.chain is not None)
    turn, _ = pick(recording, name)
    dialect = recording.dialect_for(recording.state)
    if turn is not None:
        dialect = DIALECTS.get(turn.dialect) or dialect
        chain = recording.state.chain(turn.chain)
        prompt, omitted, opaque, notes = turn.prompt, turn.omitted, turn.unexpressed, list[str]()
    else:
        main_id = recording.state.main().id
        recording.begin(TurnStarted(turn=1, chain=main_id))  # knowledge is pinned as in a first turn
        chain = recording.state.chain(main_id)
        draft = Assembler(dialect, options.rules, accepted_breakpoints).assemble(recording.state, chain)
        omitted, opaque = draft.omitted, OpaqueTypes().types_in(chain.entries)
        prompt = raise_to_structural(
            draft.prompt, whole=recording.is_whole(chain), omitted_count=len(omitted) + len(opaque)
        )
        notes = [f"{NO_TURN}: its prompt so far is assembled"]
    notes += _describe_omissions(recording, chain.id, prompt, omitted, opaque)
    return Assembly(
        dialect.write(prompt), prompt, recording.problems, tuple(notes), recording.shown, chain.id,
        None if turn is None else turn.number, Counter(omitted), dialect,
        () if turn is None else unsaved(recording.state),
    )  # fmt: skip


class Deltas:
    """Writes turns in the order recorded, each as a delta against the previous turn of its chain.

    A turn costs O(new segments), so output and work grow with the session and not with its prompts.
    """

    def __init__(self) -> None:
        self._chains: dict[str, tuple[Prompt, ChainSums]] = {}

    def line(self, turn: Turn) -> bytes:
        """Return the line of the next turn of a chain."""
        prompt = turn.prompt
        previous, sums = self._chains.get(turn.chain, (None, ChainSums(byte_size)))
        kept_segments = 0 if previous is None else _count_kept(previous, prompt)
        measured = sums.advance(prompt, kept_segments)
        self._chains[turn.chain] = prompt, sums
        breakpoints = dict(zip(prompt.breakpoints, map(Raw, prompt.breakpoint_values), strict=True))
        added = [
            results.AssembledSegment(
                segment.section, segment.path, segment.kind, segment.data.decode("utf-8"),
                breakpoints.get(place, UNSET), segment.origin,
            )
            for place, segment in enumerate(iterate_from(prompt, kept_segments, tail=True), kept_segments)
        ]  # fmt: skip
        params, previous_params = UNSET, {} if previous is None else previous.params
        if previous_params is not prompt.params and previous_params != prompt.params:  # values byte for byte
            params = Raw(b"{" + b",".join([encode(key) + b":" + value for key, value in prompt.params.items()]) + b"}")
        line = results.AssembledTurn(
            turn=turn.number, chain=turn.chain, dialect=prompt.dialect, keep_segments=kept_segments,
            keep_bytes=measured.common, tail_segments=len(prompt.tail), tail_bytes=sums.tail,
            append=tuple(added), reset=results.reset_name(turn.changes), model=prompt.model, fidelity=prompt.fidelity,
            breakpoints=tuple(breakpoints.items()),
            params=params,  # pyright: ignore[reportArgumentType] - an object, written already
            auto_breakpoint=True if prompt.auto_breakpoint else UNSET,
        )  # fmt: skip
        return msgspec.json.encode(line) + b"\n"


def _count_kept(previous: Prompt, prompt: Prompt) -> int:
    """Count the leading segments that two prompts share, except those in the tail and those with another origin."""
    if previous.dialect != prompt.dialect:
        return 0
    count = place = min(compare_prompts(previous, prompt).common, prompt.stable)
    while place > 0:
        place -= 1
        old_segment, new_segment = previous.segment_at(place), prompt.segment_at(place)
        if old_segment is new_segment or old_segment is None or new_segment is None:  # all before it are shared
            break
        if old_segment.origin != new_segment.origin or old_segment.path != new_segment.path:
            count = place
    return count


def whole_line(turn: Turn, recording: EventRecording) -> bytes:
    """Return a turn's whole body as a line, with its end."""
    dialect = DIALECTS.get(turn.dialect) or recording.dialect_for(recording.state)
    body = dialect.write(turn.prompt)
    is_text = turn.prompt.fidelity == "rendered" or raw_members(body) is None  # written as a JSON string
    body_json = Raw(encode(body.decode("utf-8")) if is_text else body)
    return msgspec.json.encode(results.WholeTurn(turn.number, turn.chain, turn.prompt.dialect, body_json)) + b"\n"


def open_session(name: Name, options: Options, *, subagents: bool) -> EventRecording:
    """Open a session whose turns are assembled; raises LoreError for recordings without one."""
    opened = options.open(name.path, Problems(), subagents=subagents)
    hint = "name a session log, or recorded requests"
    recording = session_of(opened, "events: there is nothing to assemble", hint=hint)
    recording.watchful = True
    return recording


def _describe_omissions(
    recording: EventRecording, name: str, prompt: Prompt, omitted: Iterable[str], opaque: Iterable[str]
) -> list[str]:  # fmt: skip
    """Return what a prompt leaves out, and what the recording does not hold of it."""
    state = recording.state
    dialect = recording.dialect_for(state)
    notes = prompt_notes(prompt, omitted, getattr(dialect, "notes", ()))  # those of a chat template
    if state.is_own:
        return notes
    chain = state.chain(name)
    has_system, has_tools = not is_absent(chain.system), chain.tools is not None
    takes_breakpoints = dialect.breakpoint(prompt.model, "5m") is not None
    if takes_breakpoints and not prompt.breakpoints and recording.reader.yields == "events":
        notes.append("no cache breakpoint is set: a session log does not record those of the agent")
    return notes + list_unrecorded(opaque, system=has_system, tools=has_tools, completes=chain.id == state.main().id)


def describe(assembly: Assembly, rules: Rules) -> results.AssembleExplanation:
    """Return a description of a prompt without its content: its segments, and the capabilities of its dialect."""
    prompt = assembly.prompt
    breakpoints = dict(zip(prompt.breakpoints, map(Raw, prompt.breakpoint_values), strict=True))
    segments = [
        copy_fields(
            results.SegmentResult, segment, number=place, bytes=byte_size(segment), stable=place < prompt.stable,
            breakpoint=breakpoints.get(place), origin=segment.origin or None,
        )
        for place, segment in enumerate(prompt)
    ]  # fmt: skip
    tail_bytes = sum(map(byte_size, prompt.tail))
    placed = placement(prompt.model, assembly.dialect, rules)
    return results.AssembleExplanation(
        session=assembly.label, chain=assembly.chain, turn=assembly.turn, dialect=prompt.dialect, model=prompt.model,
        fidelity=prompt.fidelity, tail=rules.tail, stable_bytes=sum(segment.bytes for segment in segments) - tail_bytes,
        tail_bytes=tail_bytes, segments=segments,
        omitted=[results.OmittedResult(what, count) for what, count in sorted(assembly.omitted.items())],
        capabilities=[
            results.CapabilityResult(name, facts.expressed, facts.answer)
            for name, facts in assembly.dialect.capabilities.items()
        ],
        system_messages=placed,
        chat_templates=[*templates_for(prompt.model, assembly.dialect, placed)],
        max_loop_turns=rules.max_loop_turns if expresses(assembly.dialect, IN_LOOPS) else 0,
        problems=assembly.problems.kept,
    )  # fmt: skip


_COLUMNS = (
    TableColumn("", right=True), TableColumn("section"), TableColumn("path"), TableColumn("bytes", right=True),
    TableColumn(""), TableColumn("breakpoint"), TableColumn("origin"),
)  # fmt: skip


def write_explanation(result: results.AssembleExplanation, out: Console) -> None:
    """Write a table of segments, then the capabilities of the dialect."""
    chain = "" if result.chain == "main" else f" of {result.chain}"
    turn = f"no turn yet{chain}" if result.turn is None else turn_of(result.turn, result.chain)
    model = result.model or "no model"
    out.print(line((f"{result.session}  {turn}", "bold"), f"  {result.dialect}, {model}, tail {result.tail}"))
    write_table(_COLUMNS, list(map(_row, result.segments)), out)
    sizes = f"{count_of(result.stable_bytes, 'byte')} stable, {count_of(result.tail_bytes, 'byte')} volatile"
    out.print(line(f"{count_of(len(result.segments), 'segment')}: {sizes}"))
    for omitted in result.omitted:
        note = f"left out: {omitted.count:,} {omitted.what}: {result.dialect} has no place for them"
        out.print(line((note, "yellow")))
    out.print(line((f"what {result.dialect} can express", "bold")))
    width = max((len(capability.feature) for capability in result.capabilities), default=0)
    for capability in result.capabilities:
        answer = ("yes", "green") if capability.expressed else ("no ", "yellow")
        out.print(line(f"  {capability.feature:<{width}}  ", answer, f"  {capability.answer}"))
    placed = result.system_messages
    source = f" ({placed.source}, {placed.since})" if placed.source else ""
    model = result.model or "a model without a name"
    out.print(line(_PLACED[placed.accepted, placed.by].format(model=model, dialect=result.dialect) + source))
    if result.chat_templates:
        out.print(line("chat templates, given a second system message:"))
    width = max((len(", ".join(row.models)) for row in result.chat_templates), default=0)
    for row in result.chat_templates:
        does = f"{_DONE[row.does]} (seen {row.since}: {row.source})"
        out.print(line(f"  {', '.join(row.models):<{width}}  {does}"))
    where, turns = "also in a tool loop", count_of(result.max_loop_turns, "turn")
    if result.max_loop_turns:
        where = f"in a tool loop after the last result, once {turns} had none (max_loop_turns)"
    out.print(line(f"changed knowledge: before the user's next message; {where}"))


_PLACED = {
    (True, "setting"): "a system message at the end: {model} takes one (system_in_conversation)",
    (True, "row"): "a system message at the end: {model} takes one",
    (False, "template"): "no system message at the end: the chat template of {model} does not write one there",
    (False, "dialect"): "no system message at the end: {dialect} has no place for one",
    (False, "unknown"): (
        "no system message at the end: not known if {model} takes one; if it does, name it in "
        "assemble.system_in_conversation"
    ),
}
_DONE = {
    "refuses": "refuse the request", "merges": "join it to the first: the prefix changes",
    "ignores": "leave it out in silence", "renders": "write it in its place",
}  # fmt: skip


def _row(segment: results.SegmentResult) -> tuple[Cell, ...]:
    breakpoint = "" if segment.breakpoint is None else bytes(segment.breakpoint).decode("utf-8", "replace")
    kind = "stable" if segment.stable else ("volatile", "yellow")
    number, size = str(segment.number), f"{segment.bytes:,}"
    return number, segment.section, segment.path, size, kind, breakpoint, segment.origin or ""
