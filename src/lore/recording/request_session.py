"""Recorded requests as a session: what each added, what changed between them, what they were billed.

In: a recording of requests, each with its chain. Out: the events of a session log, whose prompts are the requests: the
messages of the next request are items, a history that was replaced is a compaction where a summary takes its place,
else items that went; tools, system prompt, model and parameters that differ are changes; bills are turns. Rules: nobody
announced any of it (`observed`), so that verdicts are those of the requests themselves. What a response said is spelled
as the next request holds it; where none does, as the response was recorded.

A request is given back to the byte: its bytes are assembled anew when it is read, and where they differ the turn says
in what (`unkept`). Cost: O(bytes); memory: what the session holds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count, islice

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict

from lore.errors import LoreError
from lore.fold.step import Folding
from lore.formats.base import Read
from lore.formats.outputs import output_items
from lore.model import events as e
from lore.model.canonical import canonical
from lore.model.jsonslice import array, is_json, parts, table
from lore.model.mask import cut_masked
from lore.model.state import FoldedSession
from lore.model.turn import Call, Exchange, Memo, Prompt, Segment, Turn
from lore.model.vector import Vector
from lore.prefix.purpose import is_summary
from lore.prompt.assemble import Assembler
from lore.prompt.base import Rules
from lore.prompt.dialects import DIALECTS
from lore.prompt.dialects.content import TEXT, Style
from lore.prompt.dialects.messages import Body
from lore.recording.base import Recording
from lore.recording.events import EventRecording, session_log
from lore.recording.overrides import HINT_COMPLETE
from lore.recording.request_items import ItemReader, Sent
from lore.recording.requests import RequestRecording

_SPACE = re.compile(rb'("(?:[^"\\]++|\\.)*+")|[ \t\r\n]++', re.DOTALL)
LOOKED_AT = 64  # segments after a divergence, searched for a summary
FAILED = 400  # the first status that says that a request was not answered
WRITTEN_OUT = "previous_response_id: what it continues is written out"
SPACE = "white space between values"
MARKS = "where a cache breakpoint stands inside its block"
SPELLING = "order or spelling of members"


class RequestSession(EventRecording):
    """Requests, read as a session log; they are read in their own dialects, whatever prompts are assembled in."""

    def __init__(self, requests: RequestRecording) -> None:
        asked, requests.dialect = requests.dialect, None
        super().__init__(
            requests.path, requests.reader, (), requests.problems, rules=requests.rules, dialect=asked,
            template=requests.template,
        )  # fmt: skip
        self.unkept = Counter[tuple[str, ...]]()
        self._requests = requests
        self._made = RequestEvents(self.reader.name, self.unkept)

    @property
    def events(self) -> bool:
        return True

    def lists(self) -> Iterator[Iterable[Read]]:
        for exchange, turn in self._requests.exchanges():
            yield self._events(exchange, turn)
        yield self.finish()

    def take(self, data: bytes) -> Iterator[Read]:
        """Yield what the next bytes complete: a request stands with its messages, its response with the next one."""
        for read in self._requests.take(data):
            if isinstance(read.value, Exchange):
                yield from self._events(read.value, self._requests.turn(read, read.value))

    def finish(self) -> Iterator[Read]:
        """Yield the last responses."""
        return (Read(event, 1, 0) for event in self._made.finish())

    def _events(self, exchange: Exchange, turn: Turn | None) -> Iterator[Read]:
        if turn is not None:
            for event in self._made.take(exchange, turn):
                yield Read(event, turn.line or 1, turn.byte or 0)
        for chain in self._requests.forgotten():
            yield from (Read(event, 1, 0) for event in self._made.end(chain))


def session_of(recording: Recording, instead: str, *, hint: str) -> EventRecording:
    """Return a recording as a session, requests as the one that they make.

    Raises LoreError for what makes none, as `session_log` does, and where whole prompts are to be completed.
    """
    if not isinstance(recording, RequestRecording):
        return session_log(recording, instead, hint=hint)
    if recording.completed:
        raise LoreError(f"{recording.shown} holds whole prompts: there is none to complete", hint=HINT_COMPLETE)
    return RequestSession(recording)


class _RequestHead(Struct, frozen=True):
    """What a request says besides its messages, as a session keeps it."""

    dialect: str
    model: str | None
    system: Raw
    tools: tuple[Raw, ...]
    params: Raw
    form: Raw


@dataclass(slots=True)
class _RequestChain:
    """A chain: its latest request's messages and head, and the exchange whose response no request held yet."""

    name: str
    reader: ItemReader
    assembler: Assembler
    sent: list[Sent] = field(default_factory=list[Sent])
    head: _RequestHead | None = None
    prompt: Prompt | None = None
    open: Exchange | None = None
    number: int = 0


class RequestEvents:
    """Turn requests into events, one after another; `finish` once, when no more come.

    `unkept` counts those whose bytes the session does not give back, by what of them it lacks.
    """

    def __init__(self, format: str, unkept: Counter[tuple[str, ...]]) -> None:
        self._lacking = unkept
        self._chains: dict[str, _RequestChain] = {}
        self._folding = Folding(FoldedSession(format=format))
        self._started = False
        self._memo: dict[str, Memo] = {}

    def take(self, exchange: Exchange, turn: Turn) -> list[e.Event]:
        """Return the events of the next request: what came since the one before of its chain, and its start."""
        dialect = DIALECTS.get(turn.prompt.dialect)
        if not isinstance(dialect, Body):
            return []
        chain = self._chains.get(turn.chain)
        if chain is None or chain.reader.dialect is not dialect:
            before, numbers = chain, count(1) if chain is None else chain.reader.numbers
            chain = _RequestChain(
                turn.chain, ItemReader(dialect, turn.chain, numbers), Assembler(dialect, rules=Rules())
            )
            if before is not None:
                chain.sent, chain.head, chain.open, chain.number = before.sent, before.head, before.open, before.number
            self._chains[turn.chain] = chain
        body, prompt = self._whole(exchange, turn, dialect)
        members = parts(body)
        head = _head_of(prompt, members, chain.reader, Style.of(body))
        at = None if exchange.at is None else datetime.fromtimestamp(exchange.at, UTC).isoformat()
        events = [*self._begin(chain, head, exchange.call, at), *self._messages(chain, turn, dialect, members)]
        events += _changes(chain, head)
        chain.head, chain.prompt, chain.open, chain.number = head, turn.prompt, exchange, turn.number
        marks = [
            e.Mark(at, Raw(value), _member(prompt, at))
            for at, value in zip(prompt.breakpoints, prompt.breakpoint_values, strict=True)
        ]
        started = e.TurnStarted(
            turn=turn.number, chain=turn.chain, at=at, breakpoints=tuple(marks),
            call=None if exchange.call == Call() else exchange.call, given_up=turn.given_up,
        )  # fmt: skip
        for event in (*events, started):
            self._folding.apply(event)
        unkept = self._unkept(chain, exchange, body, dialect)
        if unkept:
            self._lacking[unkept] += 1
            started = msgspec.structs.replace(started, unkept=unkept)
        return [*events, started, *_end(chain, exchange)]

    def end(self, name: str) -> list[e.Event]:
        """Return what ends a chain: its last response."""
        chain = self._chains.pop(name, None)
        return [] if chain is None else [event for sent in self._response(chain) for event in sent.events]

    def finish(self) -> list[e.Event]:
        """Return what ends all chains."""
        return [event for name in list(self._chains) for event in self.end(name)]

    def _begin(self, chain: _RequestChain, head: _RequestHead, call: Call, at: str | None) -> list[e.Event]:
        if self._started:
            return []
        self._started, chain.head = True, head
        return [e.SessionStarted(session_id=call.session, at=at, chain=chain.name, **asdict(head))]

    def _whole(self, exchange: Exchange, turn: Turn, dialect: Body) -> tuple[bytes, Prompt]:
        """Return a request's body with all that it continues, on one line, and its prompt with nothing left out."""
        body, prompt = written_out(exchange, turn, dialect), turn.prompt
        body = _on_one_line(body)
        if body is exchange.body and not prompt.dropped and not prompt.deferred:
            return body, prompt
        return body, dialect.parse(body, exchange.fidelity, self._memo.setdefault(dialect.name, Memo()))

    def _messages(self, chain: _RequestChain, turn: Turn, dialect: Body, members: dict[str, bytes]) -> list[e.Event]:
        """Return what became of the messages since the request before of the chain."""
        root = members.get(dialect.root, b"[]")
        given = array(root) if root[:1] == b"[" else [root]
        leading = sum(segment.kind != "block" for segment in turn.prompt.head if _is_message(segment.path, dialect))
        raws, before, reader = given[leading:], chain.sent, chain.reader
        same = 0
        for sent, raw in zip(before, raws, strict=False):
            if sent.raw != raw and sent.raw != reader.stripped(raw):  # most stand as they were sent before
                break
            same += 1
        if same < len(before):
            same -= before[same].begins
        new, gone, events = [reader.stripped(raw) for raw in raws[same:]], before[same:], list[e.Event]()
        answered = bool(chain.open) and not gone and bool(new) and reader.is_models(new[0])
        response = chain.open.response_id if chain.open is not None and answered else ""
        read = reader.read(new, response)
        if chain.open is not None and not answered:
            gone = [*gone, *self._response(chain)]
            events += [event for sent in gone[len(before) - same :] for event in sent.events]
        uuids = tuple([uuid for sent in gone for uuid in sent.uuids])
        if uuids and same < len(before) and self._is_compacted(chain, turn):
            kept = tuple([uuid for sent in before[:same] for uuid in sent.uuids])
            events += [
                e.CompactStarted(chain=chain.name),
                e.CompactApplied(uuid=reader.name(), trigger="auto", preserved_uuids=kept or None, chain=chain.name),
            ]
        elif uuids:
            events.append(e.Remove(uuids=uuids, chain=chain.name, observed=True))
        events += [event for sent in read for event in sent.events]
        chain.sent = [*before[:same], *read]
        return events

    @staticmethod
    def _is_compacted(chain: _RequestChain, turn: Turn) -> bool:
        """Tell whether what is new behind the divergence begins with a summary."""
        before, messages = chain.prompt, turn.prompt.messages
        shared = 0 if before is None else before.messages.common(messages)
        return any(is_summary(segment) for segment in islice(messages.since(shared), LOOKED_AT))

    @staticmethod
    def _response(chain: _RequestChain) -> list[Sent]:
        """Return what the latest response said, as it was recorded."""
        if chain.open is None or not chain.open.output:
            return []
        said = output_items(chain.open.output).translate(None, b"\r\n")
        raws = [chain.reader.stripped(raw) for raw in array(said) if table(raw)]
        return chain.reader.read(raws, chain.open.response_id, ended=False)

    def _unkept(self, chain: _RequestChain, exchange: Exchange, body: bytes, dialect: Body) -> tuple[str, ...]:
        """Name what of a request's bytes the session does not give back."""
        state = self._folding.session
        made = dialect.write(chain.assembler.assemble(state, self._folding.chain(chain.name)).prompt)
        if made == exchange.body:
            return ()
        bare = _bare(body)
        found = [] if bare == _bare(exchange.body) else [WRITTEN_OUT]
        if found and made == body:
            return tuple(found)
        if _bare(made) == bare:
            return (*found, SPACE)
        if is_json(body) and canonical(made) == canonical(body):
            return (*found, SPELLING)
        sides = [dialect.parse(raw, exchange.fidelity, Memo()) for raw in (body, made)]
        if [*sides[0]] == [*sides[1]] and sides[0].params == sides[1].params:
            return (*found, MARKS)
        sides = ({key: canonical(value) for key, value in (table(raw) or {}).items()} for raw in (body, made))
        before, now = sides
        odd = [key for key in dict.fromkeys((*before, *now)) if before.get(key) != now.get(key)]
        return (*found, *(cut_masked(key, 40) for key in odd[:8]))


def written_out(exchange: Exchange, turn: Turn, dialect: Body) -> bytes:
    """Return a request's body with all that it continues; as it was recorded where it continues nothing."""
    prompt = turn.prompt
    names = ("previous_response_id", "conversation")
    continues = exchange.call.previous or any(prompt.params.get(name, b"null") != b"null" for name in names)
    if not continues or prompt.partial:
        return exchange.body
    params = {key: value for key, value in prompt.params.items() if key != "previous_response_id"}
    listed = Vector(_as_items(prompt.messages, dialect))
    bare = msgspec.structs.replace(prompt, params=params, breakpoints=(), breakpoint_values=(), messages=listed)
    return dialect.write(bare)


def _on_one_line(body: bytes) -> bytes:
    return body.translate(None, b"\r\n") if b"\n" in body or b"\r" in body else body


def _end(chain: _RequestChain, exchange: Exchange) -> list[e.Event]:
    """Return the end of a request, where something of its response is known.

    It stands directly behind the start: what the response said is spelled by the next request.
    """
    known = (exchange.usage, exchange.verdict, exchange.answered, exchange.call.status)
    if not any(value is not None for value in known) and not exchange.output and not exchange.response_id:
        return []
    at = None if exchange.answered is None else datetime.fromtimestamp(exchange.answered, UTC).isoformat()
    status = exchange.call.status
    if status is not None and status >= FAILED:
        failed = e.TurnFailed(
            turn=chain.number, chain=chain.name, at=at, usage=exchange.usage, verdict=exchange.verdict,
            error=f"HTTP status {status}",
        )  # fmt: skip
        return [failed]
    completed = e.TurnCompleted(
        turn=chain.number, chain=chain.name, at=at, usage=exchange.usage, verdict=exchange.verdict,
        response_id=exchange.response_id or None,
    )  # fmt: skip
    return [completed]


def _changes(chain: _RequestChain, head: _RequestHead) -> list[e.Event]:
    """Return how a request's head differs from what the session says; a new chain says it all."""
    if chain.head == head:
        return []
    known = {} if chain.head is None else asdict(chain.head)
    changed = {name: said for name, said in asdict(head).items() if name not in known or known[name] != said}
    return [e.SessionChanged(chain=chain.name, observed=True, **changed)]


def _as_items(segments: Iterable[Segment], dialect: Body) -> Iterator[Segment]:
    """Yield segments as they stand in a list: a text that was all of a request's input is a message of the user's."""
    before = ""
    for segment in segments:
        path = f"{dialect.root}[0].content" if segment.path == dialect.root else segment.path
        message = path.removesuffix(".content")
        if message != path and before != message:
            yield Segment("messages", message, b'"role":"user"', "envelope")
            segment = Segment("messages", path, segment.data, segment.kind)  # noqa: PLW2901
        yield segment
        before = segment.path


def _member(prompt: Prompt, at: int) -> int:
    segment = prompt.at(at)
    return -1 if segment is None else segment.member


def _is_message(path: str, dialect: Body) -> bool:
    """Tell whether a segment of the head stands in the list of messages."""
    return path.startswith(f"{dialect.root}[")


def _head_of(prompt: Prompt, members: dict[str, bytes], reader: ItemReader, style: Style) -> _RequestHead:
    """Return what a body says besides its messages."""
    dialect = reader.dialect
    tools = [segment.data for segment in prompt.head if segment.section == "tools"]
    if dialect.name == "gemini":
        tools = array(members.get("tools", b""))
    system, alone = _system_of(prompt, members, reader)
    return _RequestHead(
        dialect.name, prompt.model, Raw(system), tuple(map(Raw, tools)), Raw(style.object(prompt.params.items())),
        Raw(_form_of(prompt, members, reader, style, alone)),
    )  # fmt: skip


def _system_of(prompt: Prompt, members: dict[str, bytes], reader: ItemReader) -> tuple[bytes, str]:
    """Return the system prompt as a session keeps it, and the member that holds its first text alone."""
    dialect = reader.dialect
    head = [segment for segment in prompt.head if segment.section == "system"]
    if dialect.name == "gemini":
        keys = [key for key in ("systemInstruction", "system_instruction") if members.get(key, b"null") != b"null"]
        return b"[" + b",".join([Style().object([(key, members[key])]) for key in keys]) + b"]", ""
    texts: list[bytes] = []
    alone = ""
    for segment in head:
        if segment.path in ("system", "instructions"):
            texts, alone = [segment.data], segment.path
        elif segment.path.startswith("system["):
            text = (table(segment.data) or {}).get("text", b"null")
            texts.append(text if text[:1] == b'"' and dialect.words.text(text) == segment.data else segment.data)
    leading = sum(segment.kind != "block" for segment in head if _is_message(segment.path, dialect))
    texts += [reader.stripped(raw) for raw in array(members.get(dialect.root, b""))[:leading]]
    if len(texts) == 1 and alone and texts[0][:1] == b'"':
        return texts[0], alone
    return b"[" + b",".join(texts) + b"]", alone


def _form_of(prompt: Prompt, members: dict[str, bytes], reader: ItemReader, style: Style, alone: str) -> bytes:
    """Return how a body was written: its members in order, without what the session says otherwise."""
    dialect = reader.dialect
    known = {segment.path.partition("[")[0].partition(".")[0] for segment in prompt.head}
    found: list[tuple[str, bytes]] = []
    for key, value in members.items():
        own = key in dialect.own and key not in (dialect.own[0], dialect.root) and key not in known
        inner = table(value) if key == "toolConfig" and "toolConfig" in known else None
        if inner is not None:
            found.append((key, style.object((name, b"null") for name in inner)))
            continue
        found.append((key, TEXT if key == alone else value if own and len(value) < LOOKED_AT else b"null"))
    return style.object(found)


def _bare(raw: bytes) -> bytes:
    """Return JSON text without white space between values, lone surrogates included."""
    return _SPACE.sub(rb"\1", raw)
