"""The requests that a replay sends: the turns of a recording in one layout, as bodies for a server.

A layout is the bodies as recorded, or the session assembled by lore in any dialect. Requests keep the recorded order,
with chains interleaved. Requests that failed, that only counted tokens, or whose beginning is not recorded are counted
and not sent. A recording is read again for each pass, so that memory holds one request of a capture, or the turns of a
session. Cost: O(bytes) a pass.

Lines of text that change in a session's system prompt are moved to its turns, so that layouts can place them in the
tail; only in a chain in which at least every other request changes the system prompt. All other bytes are kept.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from lore.commands import convert_recording
from lore.errors import LoreError
from lore.formats import FIELDS, LoreLog
from lore.model import MAIN, Exchange, Prompt, Segment, Turn, Vector, array, encode, raw_members, text_of
from lore.prompt import DIALECTS, POLICIES, Body, Policy
from lore.recording import Opened, Options, Problems, Recording, RequestRecording, session_of, show
from lore_plugins.replay.captured import digest_of
from lore_plugins.replay.results import ReplayedLayout
from lore_plugins.replay.sending import SENDABLE, Sending, SentBody, json_object, prepare_body

RECORDED, LORE = "recorded", "lore"
NAMED = 10  # turns that are named for a reason
_BEGINNING = b'{"kind":"session_started","v":1,"session_id":""}\n'


class PromptLayout(NamedTuple):
    """A way to build a session's prompts."""

    name: str  # as the user wrote it
    recorded: bool  # bodies as recorded, not assembled by lore
    tail: Policy | None = None  # None: the policy of the settings
    dialect: str | None = None  # None: that of the recording


class PlannedRequest(NamedTuple):
    """A request to send."""

    turn: int  # the replayed turn
    chain: str
    at: float | None  # when it was sent originally
    dialect: str
    payload: SentBody
    betas: tuple[str, ...] = ()
    salt: str = ""


def parse_layouts(names: str | None, dialect: str | None, recording: Recording) -> tuple[PromptLayout, ...]:
    """Return the layouts named, each a word or `WORD:DIALECT`. Raise LoreError for an invalid or impossible one.

    Default: the recorded bodies, or lore's prompts for a session log.
    """
    requests = isinstance(recording, RequestRecording)
    if names is None:
        return (PromptLayout(RECORDED if requests else LORE, requests, None, dialect),)
    words = (LORE, RECORDED, *POLICIES)
    layouts: list[PromptLayout] = []
    for name in [name.strip() for name in names.split(",") if name.strip()]:
        word, _, dialect_name = name.partition(":")
        if word not in words or (dialect_name and dialect_name not in SENDABLE):
            hint = f"layouts: {', '.join(words)}; each also as LAYOUT:DIALECT ({', '.join(SENDABLE)})"
            raise LoreError(f"unknown layout {name!r}", hint=hint)
        if word == RECORDED and not requests:
            hint = "choose among " + ", ".join((LORE, *POLICIES))
            raise LoreError(f"{recording.shown} is a session log without recorded requests", hint=hint)
        tail: Policy | None = next((policy for policy in POLICIES if policy == word), None)
        layouts.append(PromptLayout(name, word == RECORDED, tail, dialect_name or dialect))
    if not layouts or len({layout.name for layout in layouts}) < len(layouts):
        raise LoreError(f"--layouts {names}: name each layout once", hint="as in --layouts lore,recorded")
    return tuple(layouts)


class ReplayPlan:
    """The requests of one recording in one layout, at most `most`; can be iterated any number of times.

    `summarise` sets `result`, the `digest` of all bodies, and the requested `models`.
    """

    result: ReplayedLayout  # what is known before anything is sent
    digest: str
    models: tuple[str, ...]
    capture = ""  # the file that was written
    resumed = 0  # requests in it that earlier runs had sent

    def __init__(
        self, path: str, options: Options, layout: PromptLayout, sending: Sending, most: int | None = None
    ) -> None:
        """Raise LoreError for a dialect that cannot be sent over HTTP."""
        if layout.dialect is not None and layout.dialect not in SENDABLE:
            message = f"--dialect {layout.dialect} cannot be sent to a server"
            raise LoreError(message, hint="one of " + ", ".join(SENDABLE))
        self._path, self.layout, self.sending, self._most = path, layout, sending, most
        self._options = replace(options, dialect=None)
        self._assembling = replace(
            options, dialect=layout.dialect, rules=replace(options.rules, tail=layout.tail or options.rules.tail)
        )
        self.skipped: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.problems = Problems()
        self._unsent: dict[str, list[str]] = {}  # the first `NAMED` turns that are not sent, by reason
        self._varying: VaryingSystem | None = None
        self._partial: frozenset[tuple[str, int]] | None = None

    def summarise(self) -> None:
        """Read all requests once. Raise LoreError if there is nothing to send."""
        digest, count = hashlib.sha256(), 0
        models, dialects = dict[str, None](), dict[str, None]()
        for request in self.requests():
            digest.update(digest_of(request.payload.body).encode())
            count += 1
            models.setdefault(request.payload.model)
            dialects.setdefault(request.dialect)
        if not count:
            reasons = "".join(f"; {number:,} {reason}" for reason, number in self.skipped.items())
            raise LoreError(f"{show(self._path)} has no request to send{reasons}", hint="lore fold shows it")
        varying = self._varying
        self.digest, self.models = digest.hexdigest(), tuple(models)
        self.result = ReplayedLayout(
            name=self.layout.name, dialect=", ".join(dialects), capture="", planned=count, requests=0, resumed=0,
            tail=None if self.layout.recorded else self.layout.tail or self._options.rules.tail,
            skipped=dict(self.skipped), left_out=dict(self.left_out), unsent=dict(self._unsent),
            assembled=not self.layout.recorded, moved_turns=0 if varying is None else varying.moved_turns,
            moved_bytes=0 if varying is None else varying.moved_bytes,
        )  # fmt: skip

    def requests(self) -> Iterator[PlannedRequest]:
        """Yield the requests in order."""
        self.skipped.clear()
        self.left_out.clear()
        self._unsent = {}
        self.problems = Problems()
        requests = self._recorded_requests() if self.layout.recorded else self._session_requests(self._open_session)
        for number, request in enumerate(requests):
            if number == self._most:
                return
            self.left_out.update(request.payload.left_out)
            yield request

    def _recorded_requests(self) -> Iterator[PlannedRequest]:
        """Yield the recorded bodies; for another dialect, those of the session that they form."""
        recording = self._options.open(self._path, self.problems)
        assert isinstance(recording, RequestRecording)
        target, turns = self.layout.dialect, self._options.open(self._path, Problems()).turns()
        if target is not None:  # captures rarely mix dialects: the first request decides
            first_dialect = next((turn.prompt.dialect for turn in turns if turn.prompt.dialect in SENDABLE), target)
            if first_dialect != target:
                yield from self._session_requests(lambda: self._assembling.open(self._path, self.problems))
                return
        for exchange, turn in recording.exchanges():
            if turn is None or self._is_left_out(turn, partial=turn.prompt.partial):
                continue
            dialect = DIALECTS.get(turn.prompt.dialect)
            if not isinstance(dialect, Body) or dialect.name not in SENDABLE:
                self.skipped[f"of the dialect {turn.prompt.dialect}"] += 1
                continue
            yield self._plan_request(turn, complete_body(exchange, turn, dialect), dialect.name)

    def _open_session(self) -> Recording:
        """Open the session as a lore log, converting other formats and moving changing lines of system prompts.

        lore then builds its prompts as if it had assembled the session from the first turn on.
        """
        recording = self._assembling.open(self._path, self.problems, subagents=True)
        if isinstance(recording.reader, LoreLog):
            return recording
        if self._varying is None:
            again = self._assembling.open(self._path, Problems(), subagents=True)
            self._varying = VaryingSystem(convert_recording(again))
        lines = self._varying.lines(convert_recording(recording))
        return self._assembling.open(self._path, self.problems, opened=Opened(_BEGINNING, lines))

    def _session_requests(self, open_session: Callable[[], Recording]) -> Iterator[PlannedRequest]:
        partial_requests = self._partial_requests()
        session = session_of(open_session(), "events: there is nothing to replay", hint="name a session, or a capture")
        # A log yields a turn when it ends, after later ones of other chains. Prompts share what they have in common.
        turns = [(turn, session.state.chain(turn.chain).dialect or session.state.dialect) for turn in session.turns()]
        for turn, recorded_dialect in sorted(turns, key=lambda pair: pair[0].line or 0):
            if self._is_left_out(turn, partial=(turn.chain, turn.number) in partial_requests):
                continue
            name = self.layout.dialect or turn.prompt.dialect
            dialect = DIALECTS.get(name)
            if dialect is None or name not in SENDABLE:
                self.skipped[f"of the dialect {name}"] += 1
                continue
            prompt = turn.prompt
            if (recorded_dialect or name) != name:
                prompt = self._remove_params(prompt)
            yield self._plan_request(turn, dialect.write(prompt), name)

    def _remove_params(self, prompt: Prompt) -> Prompt:
        """Remove the parameters of another API, which the server would refuse; they are not part of the prefix."""
        names = {name if name in FIELDS else "other members" for name in prompt.params}
        self.left_out.update(sorted(names - {"stream", "stream_options", "max_tokens", "max_output_tokens"}))
        return msgspec.structs.replace(prompt, params={})

    def _partial_requests(self) -> frozenset[tuple[str, int]]:
        """Return the recorded requests whose beginning is missing, which the converted session does not show."""
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
            if len(names := self._unsent.setdefault(reason, [])) < NAMED:
                names.append(f"#{turn.number}" if turn.chain == MAIN else f"#{turn.chain}:{turn.number}")
        return bool(reason)

    def _plan_request(self, turn: Turn, body: bytes, dialect: str) -> PlannedRequest:
        payload = prepare_body(body, self.sending._replace(dialect=dialect), model=turn.prompt.model)
        betas = turn.call.betas or () if dialect == "anthropic" and turn.prompt.dialect == dialect else ()
        return PlannedRequest(turn.number, turn.chain, turn.at, dialect, payload, betas, self.sending.salt)


def complete_body(exchange: Exchange, turn: Turn, dialect: Body) -> bytes:
    """Return a request's body with the messages of the response that it continues; unchanged if it continues none."""
    prompt = turn.prompt
    names = ("previous_response_id", "conversation")
    continues = exchange.call.previous or any(prompt.params.get(name, b"null") != b"null" for name in names)
    if not continues or prompt.partial:
        return exchange.body
    params = {key: value for key, value in prompt.params.items() if key != "previous_response_id"}
    items = Vector(_to_items(prompt.messages, dialect))
    bare = msgspec.structs.replace(prompt, params=params, breakpoints=(), breakpoint_values=(), messages=items)
    return dialect.write(bare)


def _to_items(segments: Iterable[Segment], dialect: Body) -> Iterator[Segment]:
    """Yield segments as in a list of items: an input that is a plain text becomes a user's message."""
    before = ""
    for segment in segments:
        path = f"{dialect.root}[0].content" if segment.path == dialect.root else segment.path
        message = path.removesuffix(".content")
        if message != path and before != message:
            yield Segment("messages", message, b'"role":"user"', "envelope")
            segment = Segment("messages", path, segment.data, segment.kind)  # noqa: PLW2901
        yield segment
        before = segment.path


_SYSTEMS = (b'{"kind":"session_started"', b'{"kind":"session_changed"')
_TURN = b'{"kind":"turn_started"'


class _Chain:
    def __init__(self) -> None:
        self.stable: set[str] | None = None  # lines that all of its system prompts have
        self.turns = self.changes = 0

    @property
    def varies(self) -> bool:
        """Whether at least every other request changes the system prompt."""
        return self.changes > 0 and 2 * self.changes >= self.turns - 1


class VaryingSystem:
    """Moves changing lines of system prompts to turns; constructed by a first pass over the session's lines."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._chains: dict[str, _Chain] = {}
        self.moved_turns = self.moved_bytes = 0  # requests and bytes of the text that `lines` moved
        for line in lines:
            if not line.startswith((*_SYSTEMS, _TURN)):
                continue
            members = raw_members(line) or {}
            chain = self._chains.setdefault(_chain_of(members), _Chain())
            if line.startswith(_TURN):
                chain.turns += 1
            elif members.get("system", b"null") != b"null":
                system_lines = {text for _, lines in _system_parts(members["system"]) for text in lines}
                chain.changes += chain.stable is not None
                chain.stable = system_lines if chain.stable is None else chain.stable & system_lines

    def lines(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the session's lines with the changing text moved, and count it."""
        self.moved_turns = self.moved_bytes = 0
        contexts: dict[str, str] = {}
        previous_systems: dict[str, bytes] = {}
        for line in lines:
            members = raw_members(line) or {} if line.startswith((*_SYSTEMS, _TURN)) else {}
            name = _chain_of(members)
            chain = self._chains.get(name) if members else None
            if chain is None or not chain.varies:
                yield line
            elif line.startswith(_TURN):
                if contexts.get(name):
                    members["context"] = encode({"every_turn": [contexts[name]]})
                    self.moved_turns += 1
                    self.moved_bytes += len(contexts[name].encode())
                yield json_object(members) + b"\n"
            elif members.get("system", b"null") != b"null":
                system, removed_lines = _split_system(members["system"], chain.stable or set())
                is_same, previous_systems[name] = previous_systems.get(name) == system, system
                contexts[name] = "\n".join(removed_lines)
                if is_same:
                    del members["system"]
                else:
                    members["system"] = system
                yield json_object(members) + b"\n"
            else:
                yield line


def _chain_of(members: dict[str, bytes]) -> str:
    return text_of(members["chain"]) if "chain" in members else MAIN


def _system_parts(system: bytes) -> Iterator[tuple[bytes, list[str]]]:
    """Yield the parts of a system prompt, a text or a list of texts and blocks, each with the lines of its text."""
    for part in array(system) if system[:1] == b"[" else [system]:
        raw = (raw_members(part) or {}).get("text", b"") if part[:1] == b"{" else part
        yield part, text_of(raw).split("\n") if raw[:1] == b'"' else []


def _split_system(system: bytes, stable: set[str]) -> tuple[bytes, list[str]]:
    """Return a system prompt without the lines that are not stable, and these lines; drop parts that become empty."""
    parts, removed_lines = list[bytes](), list[str]()
    for part, lines in _system_parts(system):
        varying = [line for line in lines if line not in stable]
        removed_lines += varying
        if not varying:
            parts.append(part)
        elif stable_text := "\n".join([line for line in lines if line in stable]).strip("\n"):
            text = encode(stable_text)
            parts.append(json_object({**(raw_members(part) or {}), "text": text}) if part[:1] == b"{" else text)
    return (b"[" + b",".join(parts) + b"]" if system[:1] == b"[" else parts[0] if parts else b'""'), removed_lines
