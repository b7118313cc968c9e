"""What a replay sends: the turns of a recording in one layout, as bodies for a server.

In: a recording, a layout (its bodies as recorded, or its session assembled by lore, in any dialect). Out: requests in
the order in which they were asked, chains interleaved as recorded. Rules: a request that was refused, that only counted
tokens, or of which the recording lacks the beginning is not sent, and counted; a session is read again for each look at
it, so that memory holds one request, however many there are. Cost O(bytes) a look, as `lore assemble --all`.

What varies in a session's system prompt is moved to its turns, so that a replay tries where it may stand: lines of text
move whole, in their order, and only in a chain of which at least every other request has another system prompt than the
one before it: a prompt that changes seldom is no volatile text. What is not moved keeps its bytes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from lore.errors import LoreError
from lore.formats import FIELDS, LoreLog
from lore.model import MAIN, Exchange, Prompt, Segment, Turn, Vector, array, encode, table, text_of, without_member
from lore.prompt import DIALECTS, POLICIES, Body, Policy
from lore.recording import Opened, Options, Problems, Recording, RequestRecording, converted, session_of, show
from lore_plugins.replay.captured import digest_of
from lore_plugins.replay.sending import SENDABLE, Sending, SentBody, sent_body

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
    """What a plan comes to."""

    requests: int
    digest: str  # of all bodies
    skipped: dict[str, int]  # reason -> requests of the recording that are not sent
    left_out: dict[str, int]  # member of the recorded bodies -> requests that are sent without it
    first: str  # dialect of the first request
    models: tuple[str, ...]  # that are asked for
    unsent: dict[str, list[str]]  # reason -> turns that are not sent (`#3`, `#CHAIN:3`), the first `NAMED`
    moved: Moved  # what is in tails instead of system prompts


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
        digest, count, first = hashlib.sha256(), 0, ""
        models: dict[str, None] = {}
        for planned in self.requests():
            digest.update(digest_of(planned.sent.body).encode())
            count, first = count + 1, first or planned.dialect
            models.setdefault(planned.sent.model)
        if not count:
            reasons = "".join(f"; {number:,} {reason}" for reason, number in self.skipped.items())
            raise LoreError(f"{show(self._path)} holds no request to send{reasons}", hint="lore fold shows it")
        unsent = {reason: list(names) for reason, names in self._unsent.items()}
        moved = Moved() if self._varying is None else self._varying.moved
        return Looked(
            count, digest.hexdigest(), dict(self.skipped), dict(self.left_out), first, tuple(models), unsent, moved
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
        return self._assembling.open(self._path, self.problems, opened=Opened(_BEGINNING, lines))

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


def written_out(exchange: Exchange, turn: Turn, dialect: Body) -> bytes:
    """Return a request's body with everything that it continues; as it was recorded if it continues nothing."""
    prompt = turn.prompt
    names = ("previous_response_id", "conversation")
    continues = exchange.call.previous or any(prompt.params.get(name, b"null") != b"null" for name in names)
    if not continues or prompt.partial:
        return exchange.body
    params = {key: value for key, value in prompt.params.items() if key != "previous_response_id"}
    listed = Vector(_as_items(prompt.messages, dialect))
    bare = msgspec.structs.replace(prompt, params=params, breakpoints=(), breakpoint_values=(), messages=listed)
    return dialect.write(bare)


def _as_items(segments: Iterable[Segment], dialect: Body) -> Iterator[Segment]:
    """Yield segments as in a list of items: a text that was all of a request's input becomes a user's message."""
    before = ""
    for segment in segments:
        path = f"{dialect.root}[0].content" if segment.path == dialect.root else segment.path
        message = path.removesuffix(".content")
        if message != path and before != message:
            yield Segment("messages", message, b'"role":"user"', "envelope")
            segment = Segment("messages", path, segment.data, segment.kind)  # noqa: PLW2901
        yield segment
        before = segment.path


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
            line = without_member(line.rstrip(b"\n"), "origin") + b"\n"  # noqa: PLW2901
        yield line


_SYSTEMS = (b'{"kind":"session_started"', b'{"kind":"session_changed"')
_TURN = b'{"kind":"turn_started"'


class Moved(NamedTuple):
    """What stands in the tail of a turn instead of its system prompt: in how many turns, and bytes of them all."""

    turns: int = 0
    bytes: int = 0


class _Chain:
    """What a first look found of a chain: the lines that all of its system prompts have, turns, changes."""

    def __init__(self) -> None:
        self.stable: set[str] | None = None
        self.turns = self.changes = 0

    @property
    def varies(self) -> bool:
        """Whether at least every other request changes the system prompt."""
        return self.changes > 0 and 2 * self.changes >= self.turns - 1


class VaryingSystem:
    """The system prompts of one session; made by a first look at its lines."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._chains: dict[str, _Chain] = {}
        self.moved = Moved()
        for line in lines:
            if not line.startswith((*_SYSTEMS, _TURN)):
                continue
            members = table(line) or {}
            chain = self._chains.setdefault(_chain_of(members), _Chain())
            if line.startswith(_TURN):
                chain.turns += 1
            elif members.get("system", b"null") != b"null":
                found = {part for text in _texts(members["system"]) for part in text.split("\n")}
                chain.changes += chain.stable is not None
                chain.stable = found if chain.stable is None else chain.stable & found

    def lines(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the lines with what varies moved; `moved` counts it anew."""
        self.moved = Moved()
        contexts: dict[str, str] = {}
        kept_before: dict[str, bytes] = {}
        for line in lines:
            members = table(line) or {} if line.startswith((*_SYSTEMS, _TURN)) else {}
            name = _chain_of(members)
            chain = self._chains.get(name) if members else None
            if chain is None or not chain.varies:
                yield line
            elif line.startswith(_TURN):
                if contexts.get(name):
                    members["context"] = encode({"extra": [contexts[name]]})
                    self.moved = Moved(self.moved.turns + 1, self.moved.bytes + len(contexts[name].encode()))
                yield _line(members)
            elif members.get("system", b"null") != b"null":
                kept, gone = _parted(members["system"], chain.stable or set())
                same, kept_before[name] = kept_before.get(name) == kept, kept
                contexts[name] = "\n".join(gone)
                if same:
                    del members["system"]
                else:
                    members["system"] = kept
                yield _line(members)
            else:
                yield line


def _chain_of(members: dict[str, bytes]) -> str:
    return text_of(members["chain"]) if "chain" in members else MAIN


def _texts(system: bytes) -> Iterator[str]:
    """Yield the texts of a system prompt: a text, or a list of texts and of blocks that hold one."""
    for part in array(system) if system[:1] == b"[" else [system]:
        raw = (table(part) or {}).get("text", b"") if part[:1] == b"{" else part
        if raw[:1] == b'"':
            yield text_of(raw)


def _parted(system: bytes, stable: set[str]) -> tuple[bytes, list[str]]:
    """Return a system prompt without the lines that vary, and these; a part without any text is left out."""
    kept, gone = list[bytes](), list[str]()
    for part in array(system) if system[:1] == b"[" else [system]:
        members = table(part) or {} if part[:1] == b"{" else {"text": part}
        raw = members.get("text", b"")
        lines = text_of(raw).split("\n") if raw[:1] == b'"' else []
        varying = [line for line in lines if line not in stable]
        gone += varying
        if not varying:
            kept.append(part)
        elif rest := "\n".join([line for line in lines if line in stable]).strip("\n"):
            text = encode(rest)
            kept.append(_line(members | {"text": text}).rstrip() if part[:1] == b"{" else text)
    return (b"[" + b",".join(kept) + b"]" if system[:1] == b"[" else kept[0] if kept else b'""'), gone


def _line(members: dict[str, bytes]) -> bytes:
    return b"{" + b",".join([encode(key) + b":" + raw for key, raw in members.items()]) + b"}\n"
