"""Assemble turns of a session: what `lore assemble` answers.

In: a session log and a turn (the last, unless one is named), or all of its turns. Out: request bodies,
exact bytes, or one line a turn. A log without turns is assembled as it stands at its end. Assembling
changes nothing on disk; what it derived and the log does not hold is handed out, to be appended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw

from lore.errors import LoreError
from lore.fold import inserts
from lore.model.assembled import AssembledSegment, AssembledTurn, WholeTurn, reset_of
from lore.model.canonical import encode
from lore.model.events import Event, TurnStarted
from lore.model.items import is_absent
from lore.model.jsonslice import table
from lore.model.prompt import Prompt, Segment
from lore.model.results import CapabilityResult, Explained, OmittedResult, SegmentResult
from lore.model.state import Chain, Session
from lore.model.turn import Turn
from lore.prefix.overlap import Measure, overlap, since, size
from lore.prompt.assemble import Assembler
from lore.prompt.base import Capability, Dialect
from lore.prompt.dialects import DIALECTS
from lore.recording.base import Problems
from lore.recording.corpus import Name
from lore.recording.events import EventRecording, session_log
from lore.recording.opening import Options, pick
from lore.recording.overrides import Unsaid, rated

NO_TURN = "the session has no turn yet"


class Assembly(NamedTuple):
    """The body, the prompt it was written from, what was wrong, and notes about what it leaves out.

    `turn` is None where the session has none; `omitted` is what the dialect could not express, `unsaved`
    the events that were derived and that the log does not hold.
    """

    body: bytes
    prompt: Prompt
    problems: Problems
    notes: tuple[str, ...]
    shown: str
    chain: str
    turn: int | None
    omitted: Counter[str]
    capabilities: Mapping[str, Capability]
    unsaved: tuple[Event, ...]


def unsaved(state: Session) -> tuple[Event, ...]:
    """Return the events that were derived from a lore log and that it does not hold yet."""
    return tuple(event for chain in state.chains.values() for event in inserts.unsaved(chain))


def assemble(name: Name, options: Options) -> Assembly:
    """Assemble one turn; raises LoreError for recordings of requests and turns that do not exist."""
    problems = Problems()
    recording = _opened(name, options, problems, subagents=name.chain is not None)
    turn = pick(recording, name).turn
    dialect = recording.dialect_for(recording.state)
    state = recording.state
    if turn is not None:
        chain = state.chain(turn.chain)
        prompt, omitted, unsaid = turn.prompt, turn.omitted, turn.unsaid
    else:
        begun = state.main().id
        recording.begin(TurnStarted(turn=1, chain=begun))  # as it stands: what is known is pinned as in a first turn
        state = recording.state
        chain = state.chain(begun)
        made = Assembler(dialect, rules=options.ruled).assemble(state, chain)
        omitted, unsaid = made.omitted, Unsaid().of(chain.entries)
        prompt = rated(made.prompt, whole=recording.is_whole(chain), left_out=len(omitted) + len(unsaid))
    notes = [] if turn is not None else [f"{NO_TURN}: the log is assembled as it stands"]
    notes += _notes(recording, prompt, omitted)
    if not state.is_own:
        notes += _missing(chain, unsaid, completes=chain.id == state.main().id)
    return Assembly(
        dialect.write(prompt), prompt, problems, tuple(notes), recording.shown, chain.id,
        None if turn is None else turn.number, Counter(omitted), dialect.capabilities,
        () if turn is None else unsaved(state),
    )  # fmt: skip


class Deltas:
    """Write turns, in the order recorded, each as a delta against the turn before of its chain.

    Costs O(segments that are new), so output and work grow with the session and not with its prompts.
    """

    def __init__(self) -> None:
        self._chains: dict[str, tuple[Prompt, Measure]] = {}

    def line(self, turn: Turn) -> bytes:
        """Write the next turn of a chain."""
        prompt = turn.prompt
        before, measure = self._chains.get(turn.chain, (None, Measure(size)))
        kept = 0 if before is None else _kept(before, prompt)
        measured = measure.advance(prompt, kept)
        self._chains[turn.chain] = prompt, measure
        values = dict(zip(prompt.breakpoints, map(Raw, prompt.breakpoint_values), strict=True))
        line = AssembledTurn(
            turn=turn.number, chain=turn.chain, dialect=prompt.dialect, keep_segments=kept,
            keep_bytes=measured.common, tail_segments=len(prompt.tail), tail_bytes=measure.tail,
            append=tuple([_shown(new, values.get(at)) for at, new in enumerate(since(prompt, kept, tail=True), kept)]),
            reset=reset_of(turn.changes), model=prompt.model, fidelity=prompt.fidelity,
            breakpoints=tuple(values.items()),
            params=_params(before, prompt),  # pyright: ignore[reportArgumentType] - an object, written already
            auto_breakpoint=True if prompt.auto_breakpoint else UNSET,
        )  # fmt: skip
        return msgspec.json.encode(line) + b"\n"


def _kept(before: Prompt, prompt: Prompt) -> int:
    """Count the leading segments that stay; what a turn has in its tail is never kept.

    Nor what has the same bytes but came from elsewhere: a summary where a user's message stood. Looks back to the first
    segment that both prompts share: what stands before it was never made anew.
    """
    if before.dialect != prompt.dialect:
        return 0
    kept = place = min(overlap(before, prompt).common, prompt.stable)
    while place > 0:
        place -= 1
        left, right = before.at(place), prompt.at(place)
        if left is right or left is None or right is None:
            break
        if left.origin != right.origin or left.path != right.path:
            kept = place
    return kept


def _params(before: Prompt | None, prompt: Prompt) -> Raw | msgspec.UnsetType:
    """Return the request's other fields where they are new: values as spelled, names that may be any text."""
    known = {} if before is None else before.params
    if known is prompt.params or known == prompt.params:
        return UNSET
    return Raw(b"{" + b",".join([encode(key) + b":" + value for key, value in prompt.params.items()]) + b"}")


def _shown(segment: Segment, breakpoint: Raw | None) -> AssembledSegment:
    shown = UNSET if breakpoint is None else breakpoint
    return AssembledSegment(
        segment.section, segment.path, segment.kind, segment.data.decode("utf-8"), shown, segment.origin
    )


def whole(turn: Turn, dialect: Dialect) -> bytes:
    """Write a turn with its whole body, verbatim; text that is no JSON as a JSON string."""
    body = dialect.write(turn.prompt)
    is_text = turn.prompt.fidelity == "rendered" or table(body) is None
    shown = Raw(encode(body.decode("utf-8")) if is_text else body)
    return msgspec.json.encode(WholeTurn(turn.number, turn.chain, turn.prompt.dialect, shown)) + b"\n"


class AssembledAll:
    """All turns of all chains of a session. Iterate `lines()` once; then the rest is final."""

    def __init__(self, name: Name, options: Options, *, full: bool = False) -> None:
        if name.turn is not None:
            raise LoreError(f"{name} is one turn, --all means every turn", hint="leave #TURN or --all out")
        self.problems = Problems()
        self._recording = _opened(name, options, self.problems, subagents=True)
        self._full = full
        self._last: dict[str, Turn] = {}
        self.turns = 0

    def lines(self) -> Iterator[bytes]:
        """Yield one line a turn, each with its end."""
        deltas = Deltas()
        for turn in self._recording.turns():
            self.turns += 1
            self._last[turn.chain] = turn
            if self._full:
                yield whole(turn, DIALECTS.get(turn.dialect) or self._recording.dialect_for(self._recording.state))
            else:
                yield deltas.line(turn)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The files that are read."""
        return (self._recording.path, *self._recording.companions)

    @property
    def unsaved(self) -> tuple[Event, ...]:
        """The events that were derived and that the log does not hold."""
        return unsaved(self._recording.state)

    def notes(self) -> list[str]:
        """Say what the latest turns of the chains leave out, each thing once."""
        state = self._recording.state
        notes: dict[str, None] = {}
        for turn in self._last.values():
            notes.update(dict.fromkeys(_notes(self._recording, turn.prompt, turn.omitted)))
            if not state.is_own:
                chain = state.chain(turn.chain)
                missing = _missing(chain, turn.unsaid, completes=chain.id == state.main().id)
                notes.update(dict.fromkeys(missing))
        if not self.turns:
            notes[f"{NO_TURN}: there is none to assemble"] = None
        return list(notes)


def _opened(name: Name, options: Options, problems: Problems, *, subagents: bool) -> EventRecording:
    recording = session_log(
        options.open(name.path, problems, subagents=subagents),
        "events: there is nothing to assemble",
        hint="name a session log (lore's own, or Claude Code's)",
    )
    recording.watchful = True
    return recording


def _missing(chain: Chain, unsaid: Iterable[str], *, completes: bool) -> list[str]:
    """Say exactly what of a prompt the recording does not hold, or holds in a form that no prompt has."""
    parts = [("the system prompt", "is", "--system", is_absent(chain.system))]
    parts.append(("the tools", "are", "--tools", chain.tools is None))
    missing = [part for part in parts if part[3]]
    notes: list[str] = []
    if missing:
        verb = missing[0][1] if len(missing) == 1 else "are"
        how = f": give {' and '.join(option for _, _, option, _ in missing)}" if completes else ""
        notes.append(f"{' and '.join(name for name, *_ in missing)} {verb} not in this recording{how}")
    records = [f"{count} {kind}{'s' * (count > 1)}" for kind, count in sorted(Counter(unsaid).items())]
    if records:
        notes.append(f"{', '.join(records)} left out: the recording does not show how the model saw them")
    return notes


def _notes(recording: EventRecording, prompt: Prompt, omitted: Iterable[str]) -> list[str]:
    notes = [
        f"{count} {what} block{'s' * (count > 1)} left out: {prompt.dialect} has no place for them"
        for what, count in sorted(Counter(omitted).items())
    ]
    notes += getattr(recording.dialect_for(recording.state), "notes", ())  # a chat template's
    if prompt.dialect == "anthropic" and "max_tokens" not in prompt.params:
        notes.append("the session has no params.max_tokens, which Anthropic's API requires")
    if prompt.fidelity != "rendered" and not any(one.section == "messages" for one in prompt):
        notes.append("the prompt holds no message: providers refuse such a request")
    return notes


def explained(made: Assembly, policy: str) -> Explained:
    """Describe a prompt without its content: its segments, and what its dialect could and could not express."""
    prompt = made.prompt
    breakpoints = dict(zip(prompt.breakpoints, prompt.breakpoint_values, strict=True))
    segments = [
        SegmentResult(
            number=place, section=one.section, path=one.path, bytes=size(one), stable=place < prompt.stable,
            breakpoint=Raw(breakpoints[place]) if place in breakpoints else None, origin=one.origin or None,
        )
        for place, one in enumerate(prompt)
    ]  # fmt: skip
    tail_bytes = sum(map(size, prompt.tail))
    return Explained(
        session=made.shown,
        chain=made.chain,
        turn=made.turn,
        dialect=prompt.dialect,
        model=prompt.model,
        fidelity=prompt.fidelity,
        tail=policy,
        stable_bytes=sum(one.bytes for one in segments) - tail_bytes,
        tail_bytes=tail_bytes,
        segments=segments,
        omitted=[OmittedResult(what, count) for what, count in sorted(made.omitted.items())],
        capabilities=[CapabilityResult(name, *one) for name, one in made.capabilities.items()],
        problems=made.problems.kept,
    )
