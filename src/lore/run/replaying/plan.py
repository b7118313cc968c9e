"""What a replay sends: the turns of a recording in one layout, as bodies for a server.

In: a recording, a layout (its bodies as recorded, or its session assembled by lore, in any dialect). Out: requests in
the order in which they were asked, chains interleaved as recorded. Rules: a request that was refused, that only counted
tokens, or of which the recording lacks the beginning is not sent, and counted; a session is read again for each look at
it, so that memory holds one request, however many there are. Cost O(bytes) a look, as `lore assemble --all`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from lore.errors import LoreError
from lore.formats.http import FIELDS
from lore.formats.lore_log import LoreLog
from lore.model.events import MAIN
from lore.model.jsonslice import without_member
from lore.model.turn import Prompt, Turn
from lore.prompt.base import POLICIES, Policy
from lore.prompt.dialects import DIALECTS
from lore.prompt.dialects.messages import Body
from lore.prompt.sending import SENDABLE, Sending, SentBody, sent_body
from lore.recording import corpus
from lore.recording.base import Problems, Recording
from lore.recording.converting import converted
from lore.recording.opening import Options
from lore.recording.request_session import session_of, written_out
from lore.recording.requests import RequestRecording
from lore.run.replaying.captured import digest_of
from lore.run.replaying.varying_system import Moved, VaryingSystem

RECORDED, LORE = "recorded", "lore"
NAMED = 10  # turns of a reason
_BEGINNING = b'{"kind":"session_started","v":1,"session_id":""}\n'
_HEADERS = (b'{"kind":"session_started"', b'{"kind":"session_changed"')


class Layout(NamedTuple):
    """A way to put a session's prompts together: bodies as `recorded`, or by lore with a tail policy.

    `name` is what the user calls it; `tail` is None where the settings say it, `dialect` where the recording does.
    """

    name: str
    recorded: bool
    tail: Policy | None = None
    dialect: str | None = None


class Planned(NamedTuple):
    """A request to send: what was replayed by it, when that was asked (None: unknown), and the body."""

    turn: int
    chain: str
    at: float | None
    dialect: str
    sent: SentBody
    betas: tuple[str, ...] = ()
    salt: str = ""


class Looked(NamedTuple):
    """What a plan comes to: requests and their bytes, what identifies them all, and what is not sent, by the reason.

    `left_out` are the members that bodies lack of what was recorded, by how many they lack; `first` is the dialect of
    the first request, `models` are those that are asked for. `unsent` names the turns that are not sent, as a command
    does (`#3`, `#CHAIN:3`), at most `NAMED` of a reason; `moved` is what stands in tails instead of system prompts.
    """

    requests: int
    bytes: int
    digest: str
    skipped: dict[str, int]
    left_out: dict[str, int]
    first: str
    models: tuple[str, ...]
    timed: bool
    unsent: dict[str, list[str]]
    moved: Moved


def layouts_of(names: str | None, dialect: str | None, recording: Recording) -> tuple[Layout, ...]:
    """Return the layouts that are asked for, each a word or `WORD:DIALECT`; raises LoreError for what cannot be.

    Without any: the bodies of recorded requests, lore's prompts of a session.
    """
    requests = isinstance(recording, RequestRecording)
    if names is None:
        return (Layout(RECORDED if requests else LORE, requests, None, dialect),)
    known = (LORE, RECORDED, *POLICIES)
    found: list[Layout] = []
    for name in [name.strip() for name in names.split(",") if name.strip()]:
        word, _, other = name.partition(":")
        if word not in known or (other and other not in SENDABLE):
            hint = f"layouts: {', '.join(known)}; each also as LAYOUT:DIALECT ({', '.join(SENDABLE)})"
            raise LoreError(f"unknown layout {name!r}", hint=hint)
        if word == RECORDED and not requests:
            hint = "choose among " + ", ".join((LORE, *POLICIES))
            raise LoreError(f"{recording.shown} is a session log: it holds no request as it was sent", hint=hint)
        tail: Policy | None = next((policy for policy in POLICIES if policy == word), None)
        found.append(Layout(name, word == RECORDED, tail, other or dialect))
    if not found or len({layout.name for layout in found}) < len(found):
        raise LoreError(f"--layouts {names}: name each layout once", hint="as in --layouts lore,recorded")
    return tuple(found)


class ReplayPlan:
    """The requests of one recording in one layout; may be looked at any number of times."""

    def __init__(self, path: str, options: Options, layout: Layout, sending: Sending, most: int | None = None) -> None:
        """Take at most so many requests. Raises LoreError for a dialect that is not sent over HTTP."""
        if layout.dialect is not None and layout.dialect not in SENDABLE:
            raise LoreError(f"--dialect {layout.dialect} is not sent to a server", hint="one of " + ", ".join(SENDABLE))
        self._path, self.layout, self.sending, self._most = path, layout, sending, most
        self._options = replace(options, dialect=None)
        self._assembling = replace(options, dialect=layout.dialect, policy=layout.tail)
        self.skipped: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.problems = Problems()
        self._unsent: dict[str, list[str]] = {}
        self._varying: VaryingSystem | None = None
        self._partial: frozenset[tuple[str, int]] | None = None
        self._lines: list[int] | None = None  # of a session's turns, ascending

    def look(self) -> Looked:
        """Count what would be sent. Raises LoreError where that is nothing."""
        digest, size, count, first, timed = hashlib.sha256(), 0, 0, "", False
        models: dict[str, None] = {}
        for planned in self.requests():
            digest.update(digest_of(planned.sent.body).encode())
            size, count = size + len(planned.sent.body), count + 1
            first, timed = first or planned.dialect, timed or planned.at is not None
            models.setdefault(planned.sent.model)
        if not count:
            reasons = "".join(f"; {number:,} {reason}" for reason, number in self.skipped.items())
            raise LoreError(f"{corpus.show(self._path)} holds no request to send{reasons}", hint="lore fold shows it")
        return Looked(
            count,
            size,
            digest.hexdigest(),
            dict(self.skipped),
            dict(self.left_out),
            first,
            tuple(models),
            timed,
            {reason: list(names) for reason, names in self._unsent.items()},
            Moved() if self._varying is None else self._varying.moved,
        )

    def requests(self) -> Iterator[Planned]:
        """Yield the requests in order."""
        self.skipped.clear()
        self.left_out.clear()
        self._unsent.clear()
        self.problems = Problems()
        requests = self._recorded() if self.layout.recorded else self._of_session(self._adopted)
        for number, planned in enumerate(requests):
            if number == self._most:
                return
            self.left_out.update(planned.sent.left_out)
            yield planned

    def _recorded(self) -> Iterator[Planned]:
        """Yield bodies as they were recorded; in another dialect, the session that they make."""
        recording = self._options.open(self._path, self.problems)
        assert isinstance(recording, RequestRecording)
        asked, turns = self.layout.dialect, self._options.open(self._path, Problems()).turns()
        if asked is not None:  # a capture seldom mixes request shapes: the first says what it holds
            found = next((turn.prompt.dialect for turn in turns if turn.prompt.dialect in SENDABLE), asked)
            if found != asked:
                yield from self._of_session(lambda: self._assembling.open(self._path, self.problems))
                return
        for exchange, turn in recording.exchanges():
            if turn is None or self._is_left_out(turn, partial=turn.prompt.partial):
                continue
            dialect = DIALECTS.get(turn.prompt.dialect)
            if not isinstance(dialect, Body) or dialect.name not in SENDABLE:
                self.skipped[f"of the dialect {turn.prompt.dialect}"] += 1
                continue
            yield self._planned(turn, written_out(exchange, turn, dialect), dialect.name)

    def _adopted(self) -> Recording:
        """Open the session as one of lore's own: any other is converted, what varies in its system prompts moved.

        So lore makes its prompts as if it had assembled it from the first turn on.
        """
        recording = self._assembling.open(self._path, self.problems, subagents=True)
        if isinstance(recording.reader, LoreLog):
            return recording
        if self._varying is None:
            again = self._assembling.open(self._path, Problems(), subagents=True)
            self._varying = VaryingSystem(converted(again).lines)
        lines = _without_origin(self._varying.lines(converted(recording).lines))
        return self._assembling.open(self._path, self.problems, opened=corpus.Opened(_BEGINNING, lines))

    def _of_session(self, opened: Callable[[], Recording]) -> Iterator[Planned]:
        partial, what = self._without_beginning(), "events: there is nothing to replay"
        hint = "name a session, or a capture"
        if self._lines is None:
            self._lines = sorted(turn.line or 0 for turn in session_of(opened(), what, hint=hint).turns())
        session = session_of(opened(), what, hint=hint)
        for turn in _in_order(session.turns(), self._lines):
            if self._is_left_out(turn, partial=(turn.chain, turn.number) in partial):
                continue
            asked = self.layout.dialect or turn.prompt.dialect
            dialect = DIALECTS.get(asked)
            if dialect is None or asked not in SENDABLE:
                self.skipped[f"of the dialect {asked}"] += 1
                continue
            prompt = turn.prompt
            chain = session.state.chain(turn.chain)
            if (chain.dialect or session.state.dialect or asked) != asked:
                prompt = self._without_params(prompt)
            yield self._planned(turn, dialect.write(prompt), asked)

    def _without_params(self, prompt: Prompt) -> Prompt:
        """Leave out parameters of another API: its server would refuse them, and they change no prefix."""
        names = {name if name in FIELDS else "other members" for name in prompt.params}
        self.left_out.update(sorted(names - {"stream", "stream_options", "max_tokens", "max_output_tokens"}))
        return msgspec.structs.replace(prompt, params={})

    def _without_beginning(self) -> frozenset[tuple[str, int]]:
        """Name the recorded requests that continue what is not recorded: a session made of them does not say it."""
        if self._partial is None:
            recording = self._options.open(self._path, Problems())
            turns = recording.turns() if isinstance(recording, RequestRecording) else ()
            self._partial = frozenset((turn.chain, turn.number) for turn in turns if turn.prompt.partial)
        return self._partial

    def _is_left_out(self, turn: Turn, *, partial: bool) -> bool:
        reason = ""
        if turn.failed:
            reason = "that had failed"
        elif turn.call.purpose == "count_tokens":
            reason = "that only counted tokens"
        elif partial:
            reason = "whose beginning is not recorded"
        if reason:
            self.skipped[reason] += 1
            if len(named := self._unsent.setdefault(reason, [])) < NAMED:
                named.append(f"#{turn.number}" if turn.chain == MAIN else f"#{turn.chain}:{turn.number}")
        return bool(reason)

    def _planned(self, turn: Turn, body: bytes, dialect: str) -> Planned:
        sent = sent_body(body, self.sending._replace(dialect=dialect), model=turn.prompt.model)
        betas = turn.call.betas or () if dialect == "anthropic" and turn.prompt.dialect == dialect else ()
        return Planned(turn.number, turn.chain, turn.at, dialect, sent, betas, self.sending.salt)


def _in_order(turns: Iterable[Turn], lines: Sequence[int]) -> Iterator[Turn]:
    """Yield turns in the order of their lines: a log gives one when it is over, behind those of other chains."""
    waiting: dict[int, list[Turn]] = {}
    at = 0
    for turn in turns:
        waiting.setdefault(turn.line or 0, []).append(turn)
        while at < len(lines) and lines[at] in waiting:
            found = waiting[lines[at]]
            yield found.pop(0)
            if not found:
                del waiting[lines[at]]
            at += 1


def _without_origin(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield a session as one of lore's own: it is assembled by lore, and not as its requests were."""
    for line in lines:
        if line.startswith(_HEADERS):
            line = without_member(without_member(line.rstrip(b"\n"), "origin"), "form") + b"\n"  # noqa: PLW2901
        yield line
