"""Assemble turns of a session: request bodies, deltas between them, or the segments of a prompt.

Assembling changes nothing on disk. Events that it derived and that the log does not hold are returned, to be appended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw

from lore.cache.breakpoint_rules import accepted_breakpoints
from lore.errors import LoreError
from lore.fold import inserts
from lore.model.canonical import encode
from lore.model.events import Event, TurnStarted
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
from lore.recording.base import Problems
from lore.recording.corpus import Name
from lore.recording.events import EventRecording
from lore.recording.opening import Options, pick
from lore.recording.request_session import session_of
from lore.report.plain import prompt_notes, unrecorded

NO_TURN = "the session has no turn yet"


class Assembly(NamedTuple):
    """One assembled turn."""

    body: bytes
    prompt: Prompt  # from which the body was written
    problems: Problems
    notes: tuple[str, ...]  # about what the prompt leaves out
    shown: str  # the name of the recording
    chain: str
    turn: int | None  # None: the session has no turn
    omitted: Counter[str]  # blocks that the dialect cannot express, by kind
    dialect: Dialect
    unsaved: tuple[Event, ...]  # derived events that the log does not hold


def unsaved(state: FoldedSession) -> tuple[Event, ...]:
    """Return the events that were derived from a lore log and that it does not hold yet."""
    return tuple(event for chain in state.chains.values() for event in inserts.unsaved(chain))


def assemble(name: Name, options: Options) -> Assembly:
    """Assemble the named turn, or the last; a session without turns as of its end.

    Raises LoreError for recordings without a session, and for turns that do not exist.
    """
    problems = Problems()
    recording = _open_session(name, options, problems, subagents=name.chain is not None)
    turn, _ = pick(recording, name)
    dialect = recording.dialect_for(recording.state)
    if turn is not None:
        dialect = DIALECTS.get(turn.dialect) or dialect
        chain = recording.state.chain(turn.chain)
        prompt, omitted, opaque, notes = turn.prompt, turn.omitted, turn.unexpressed, list[str]()
    else:
        begun = recording.state.main().id
        recording.begin(TurnStarted(turn=1, chain=begun))  # knowledge is pinned as in a first turn
        chain = recording.state.chain(begun)
        made = Assembler(dialect, options.ruled, accepted_breakpoints).assemble(recording.state, chain)
        omitted, opaque = made.omitted, OpaqueTypes().types_in(chain.entries)
        prompt = raise_to_structural(made.prompt, whole=recording.is_whole(chain), left_out=len(omitted) + len(opaque))
        notes = [f"{NO_TURN}: its prompt so far is assembled"]
    notes += _describe_omissions(recording, chain.id, prompt, omitted, opaque)
    return Assembly(
        dialect.write(prompt), prompt, problems, tuple(notes), recording.shown, chain.id,
        None if turn is None else turn.number, Counter(omitted), dialect,
        () if turn is None else unsaved(recording.state),
    )  # fmt: skip


class Deltas:
    """Writes turns in the order recorded, each as a delta against the previous turn of its chain.

    Costs O(segments that are new), so output and work grow with the session and not with its prompts.
    """

    def __init__(self) -> None:
        self._chains: dict[str, tuple[Prompt, ChainSums]] = {}

    def line(self, turn: Turn) -> bytes:
        """Return the line of the next turn of a chain."""
        prompt = turn.prompt
        before, measure = self._chains.get(turn.chain, (None, ChainSums(byte_size)))
        kept = 0 if before is None else _count_kept(before, prompt)
        measured = measure.advance(prompt, kept)
        self._chains[turn.chain] = prompt, measure
        breakpoints = dict(zip(prompt.breakpoints, map(Raw, prompt.breakpoint_values), strict=True))
        added = [
            results.AssembledSegment(
                segment.section, segment.path, segment.kind, segment.data.decode("utf-8"),
                breakpoints.get(place, UNSET), segment.origin,
            )
            for place, segment in enumerate(iterate_from(prompt, kept, tail=True), kept)
        ]  # fmt: skip
        line = results.AssembledTurn(
            turn=turn.number, chain=turn.chain, dialect=prompt.dialect, keep_segments=kept,
            keep_bytes=measured.common, tail_segments=len(prompt.tail), tail_bytes=measure.tail,
            append=tuple(added), reset=results.reset_name(turn.changes), model=prompt.model, fidelity=prompt.fidelity,
            breakpoints=tuple(breakpoints.items()),
            params=_changed_params(before, prompt),  # pyright: ignore[reportArgumentType] - an object, written already
            auto_breakpoint=True if prompt.auto_breakpoint else UNSET,
        )  # fmt: skip
        return msgspec.json.encode(line) + b"\n"


def _count_kept(before: Prompt, prompt: Prompt) -> int:
    """Count the leading segments that stay; segments in the tail never do.

    Segments with the same bytes and another origin do not stay either, such as a summary in the place of a message.
    """
    if before.dialect != prompt.dialect:
        return 0
    kept = place = min(compare_prompts(before, prompt).common, prompt.stable)
    while place > 0:
        place -= 1
        left, right = before.segment_at(place), prompt.segment_at(place)
        if left is right or left is None or right is None:  # segments before a shared one are shared, too
            break
        if left.origin != right.origin or left.path != right.path:
            kept = place
    return kept


def _changed_params(before: Prompt | None, prompt: Prompt) -> Raw | msgspec.UnsetType:
    """Return the request's other fields if they changed: values as spelled, names that may be any text."""
    known = {} if before is None else before.params
    if known is prompt.params or known == prompt.params:
        return UNSET
    return Raw(b"{" + b",".join([encode(key) + b":" + value for key, value in prompt.params.items()]) + b"}")


class AssembledAll:
    """All turns of all chains of a session. Iterate `lines()` once; then the other values are final."""

    def __init__(self, name: Name, options: Options, *, full: bool = False) -> None:
        if name.turn is not None:
            raise LoreError(f"{name} is one turn, --all means every turn", hint="leave #TURN or --all out")
        self.problems = Problems()
        self._recording = _open_session(name, options, self.problems, subagents=True)
        self._full = full
        self._last: dict[str, Turn] = {}
        self.turns = 0

    def lines(self) -> Iterator[bytes]:
        """Yield one line a turn, each with its end: the whole body or a delta."""
        deltas = Deltas()
        for turn in self._recording.turns():
            self.turns += 1
            self._last[turn.chain] = turn
            if not self._full:
                yield deltas.line(turn)
                continue
            dialect = DIALECTS.get(turn.dialect) or self._recording.dialect_for(self._recording.state)
            body = dialect.write(turn.prompt)
            is_text = turn.prompt.fidelity == "rendered" or raw_members(body) is None  # written as a JSON string
            shown = Raw(encode(body.decode("utf-8")) if is_text else body)
            yield msgspec.json.encode(results.WholeTurn(turn.number, turn.chain, turn.prompt.dialect, shown)) + b"\n"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The files that are read."""
        return (self._recording.path, *self._recording.companions)

    @property
    def unsaved(self) -> tuple[Event, ...]:
        """The events that were derived and that the log does not hold."""
        return unsaved(self._recording.state)

    def notes(self) -> list[str]:
        """Return what the latest turns of the chains leave out, without duplicates."""
        notes: dict[str, None] = {}
        for turn in self._last.values():
            found = _describe_omissions(self._recording, turn.chain, turn.prompt, turn.omitted, turn.unexpressed)
            notes.update(dict.fromkeys(found))
        if not self.turns:
            notes[f"{NO_TURN}: nothing to assemble"] = None
        return list(notes)


def _open_session(name: Name, options: Options, problems: Problems, *, subagents: bool) -> EventRecording:
    recording = session_of(
        options.open(name.path, problems, subagents=subagents),
        "events: there is nothing to assemble",
        hint="name a session log, or recorded requests",
    )
    recording.watchful = True
    return recording


def _describe_omissions(
    recording: EventRecording, name: str, prompt: Prompt, omitted: Iterable[str], opaque: Iterable[str]
) -> list[str]:  # fmt: skip
    """Return what a prompt leaves out, and what the recording does not hold of it."""
    state = recording.state
    dialect_notes: Iterable[str] = getattr(recording.dialect_for(state), "notes", ())  # a chat template's
    notes = prompt_notes(prompt, omitted, dialect_notes)
    if state.is_own:
        return notes
    chain = state.chain(name)
    has_system, has_tools = not is_absent(chain.system), chain.tools is not None
    return notes + unrecorded(opaque, system=has_system, tools=has_tools, completes=chain.id == state.main().id)


def explained(made: Assembly, rules: Rules) -> results.AssembleExplanation:
    """Return a description of a prompt without its content: its segments, and the capabilities of its dialect."""
    prompt = made.prompt
    breakpoints = dict(zip(prompt.breakpoints, map(Raw, prompt.breakpoint_values), strict=True))
    segments = [
        copy_fields(
            results.SegmentResult, segment, number=place, bytes=byte_size(segment), stable=place < prompt.stable,
            breakpoint=breakpoints.get(place), origin=segment.origin or None,
        )
        for place, segment in enumerate(prompt)
    ]  # fmt: skip
    tail_bytes = sum(map(byte_size, prompt.tail))
    placed = placement(prompt.model, made.dialect, rules)
    return results.AssembleExplanation(
        session=made.shown, chain=made.chain, turn=made.turn, dialect=prompt.dialect, model=prompt.model,
        fidelity=prompt.fidelity, tail=rules.tail, stable_bytes=sum(segment.bytes for segment in segments) - tail_bytes,
        tail_bytes=tail_bytes, segments=segments,
        omitted=[results.OmittedResult(what, count) for what, count in sorted(made.omitted.items())],
        capabilities=[results.CapabilityResult(name, *known) for name, known in made.dialect.capabilities.items()],
        system_messages=results.PlacementResult(*placed),
        chat_templates=[results.TemplateResult(*row) for row in templates_for(prompt.model, made.dialect, placed)],
        max_loop_turns=rules.max_loop_turns if expresses(made.dialect, IN_LOOPS) else 0,
        problems=made.problems.kept,
    )  # fmt: skip
