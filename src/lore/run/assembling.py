"""Assemble turns of a session: what `lore assemble` answers.

In: a session log and a turn (the last, unless one is named), or all of its turns. Out: request bodies,
exact bytes, or one line a turn. A log without turns is assembled as it stands at its end. Assembling
changes nothing on disk; what it derived and the log does not hold is handed out, to be appended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Raw

from lore.errors import LoreError
from lore.fold import inserts
from lore.model.events import Event, TurnStarted
from lore.model.items import is_absent
from lore.model.prompt import Prompt
from lore.model.results import CapabilityResult, Explained, OmittedResult, SegmentResult
from lore.model.state import Chain, Session
from lore.model.turn import Turn
from lore.prefix.overlap import size
from lore.prompt.assemble import Assembler
from lore.prompt.base import Capability
from lore.prompt.dialects import DIALECTS
from lore.recording.base import Problems
from lore.recording.corpus import Name
from lore.recording.events import EventRecording, session_log
from lore.recording.opening import Options, pick
from lore.recording.overrides import Unsaid, rated
from lore.run.deltas import Deltas, whole

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
