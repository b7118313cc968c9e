"""Write sessions into a store: the work of `lore store import` and `lore store append`.

Import: lore's own logs are stored byte for byte, without the `saved` records of a store. Other sessions are converted,
with their subagents' files. Recorded requests are stored as the session that they make, one a file, after all session
logs: a session's own log keeps its id, and requests of the same session get their file's name. A failure or conflict is
reported and the other inputs continue; of a single named input it is the error.

Append: an event is durable when its number is returned. A line may carry the number that it expects, which is not
stored: the event is stored under this number, or acknowledged again if it is there. A line without a number is
appended, whoever else writes. Nothing of a refused line is stored; the lines before it are.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from difflib import get_close_matches
from itertools import chain, count
from typing import NamedTuple, get_args

import msgspec

from lore.commands.common import Progress
from lore.commands.convert import convert_recording
from lore.errors import LoreError, Where, did_you_mean
from lore.formats.base import HOLDS
from lore.formats.lines import Line
from lore.formats.lore_log import LoreLog, event_of, kind_of
from lore.model import lenient
from lore.model.canonical import decode, text_of
from lore.model.canonical import encode as encode_json
from lore.model.codes import Code, Problem
from lore.model.events import KINDS, MAIN, Append, Remove, SessionStarted, encode
from lore.model.items import AssistantMessage, Item, ToolCall
from lore.model.jsonslice import member_ranges, raw_members, without_member
from lore.model.results.store import ImportedSession, StoreAppended, StoreImported
from lore.recording import corpus, opening
from lore.recording.agents.companions import companions, is_companion
from lore.recording.base import Problems, UnrecognisedError, collected_seldom
from lore.recording.events import EventRecording
from lore.recording.inputs import Input, inputs
from lore.recording.opening import Options
from lore.recording.requests import RequestRecording
from lore.store.base import (
    EMPTY,
    ConflictError,
    DamagedError,
    Head,
    SessionData,
    SessionDelta,
    SessionSummary,
    Store,
    StoreError,
    now,
)
from lore.store.deltas import is_same_event
from lore.store.lines import NOTHING, is_id, read_header, refusal
from lore.store.registry import address_of, load_notes, open_existing
from lore.store.reserved import refuse_header, refuse_reserved


class _RequestsError(LoreError):
    """The input holds requests that are not imported as a session."""


def import_sessions(
    store: Store, paths: list[str], options: Options, *, session_id: str | None = None, project_id: str | None = None,
    progress: Progress | None = None,
) -> StoreImported:  # fmt: skip
    """Import the inputs that these paths name; raises LoreError if none is a session, or the store accepts no more.

    `session_id` is another id for the only session, `project_id` the project of all.
    """
    files = inputs(paths)
    subagents = {os.path.realpath(path) for file in files if file.error is None for path in companions(file.path)}
    files = [file for file in files if os.path.realpath(file.path) not in subagents]  # read with their sessions
    if session_id is not None and len(files) != 1:
        raise LoreError(f"--id names one session, and there are {len(files)} inputs", hint="name one session")
    importer, rows = _Importer(store, options, session_id, project_id), dict[int, ImportedSession | None]()
    done_bytes, total_bytes = 0, sum(file.size for file in files)
    order = list(range(len(files)))
    if len(files) > 1:
        order.sort(key=lambda place: _holds_requests(files[place], options))
    with collected_seldom():
        for place in order:
            rows[place] = importer.add(files[place])
            done_bytes += files[place].size
            if progress is not None:
                progress(done_bytes, total_bytes)
    sessions = [row for _, row in sorted(rows.items()) if row is not None]
    if not sessions:
        raise LoreError(f"no sessions in {corpus.show(paths[0])}", hint="`lore store import` reads session logs")
    return StoreImported(
        store=store.url, sessions=sessions, requests=importer.requests, skipped=importer.skipped,
        joined=len(subagents), problems=importer.problems,
    )  # fmt: skip


def _holds_requests(file: Input, options: Options) -> bool:
    """Return whether a file holds requests; False for an unreadable one, which fails when it is imported."""
    if file.error is not None or file.stream or corpus.is_stored(file.path):
        return False
    try:
        kind = opening.reader_class_for(corpus.open_head(file.path).head, options.format)
    except LoreError:
        return False
    return kind is not None and kind.yields == "exchanges"


class _Importer:
    """Imports one input after another."""

    def __init__(self, store: Store, options: Options, session_id: str | None, project_id: str | None) -> None:
        self._store, self._options, self._session_id, self._project_id = store, options, session_id, project_id
        self._used_ids: set[str] = set()  # ids of sessions of earlier inputs
        self._refusal = ""  # why the store took nothing of the last session
        self.requests = self.skipped = 0
        self.problems: list[Problem] = []

    def add(self, file: Input) -> ImportedSession | None:
        """Import one input and return its outcome; None if a file in a folder is not a session."""
        path, problems, source = corpus.show(file.path), Problems(), None
        try:
            source = self._open(file, problems)
            imported = sync(self._store, source, path)
            project = self._project_id or (source.notes.project_id if source.notes else None)
            stored = None if project is None else load_notes(self._store, source.header.session_id)
            if project is not None and stored is not None and stored.project_id != project:
                self._store.move(source.header.session_id, project)
            return imported
        except LoreError as error:
            if source is None and not file.is_named and isinstance(error, UnrecognisedError | _RequestsError):
                self.requests += isinstance(error, _RequestsError)
                self.skipped += isinstance(error, UnrecognisedError)
                return None
            if file.is_only or (source is not None and self._refuses_all(error)):
                raise
            is_placed = isinstance(error, DamagedError) and error.where is not None
            message = f"{error.where}: {error.message}" if is_placed else error.message
            is_conflict = isinstance(error, ConflictError)
            return ImportedSession(
                path=path, session_id=None if source is None else source.header.session_id,
                state="conflict" if is_conflict else "failed", new_events=None, events=None,
                message=f"{message} ({error.hint})" if is_conflict and error.hint else message,
            )  # fmt: skip
        finally:
            self.problems += problems.kept

    def _refuses_all(self, error: LoreError) -> bool:
        """Return whether the store refused this session for the same reason as the previous one."""
        if not isinstance(error, StoreError) or isinstance(error, ConflictError | DamagedError):
            return False
        last_refusal, self._refusal = self._refusal, error.message
        return error.message == last_refusal

    def _open(self, file: Input, problems: Problems) -> SyncSource:
        """Return the session of an input, read up to its header; raises LoreError."""
        if file.error is not None:
            raise file.error
        path = file.path
        recording = self._options.open(path, problems, subagents=True)
        is_of_requests = isinstance(recording, RequestRecording)
        is_completed = is_of_requests and recording.options.completion is not None and not file.is_named
        if is_completed or not isinstance(recording, EventRecording | RequestRecording):
            message = f"{recording.shown} is read as {HOLDS[recording.reader.yields]}, not as a session"
            raise _RequestsError(message, hint="import the session that they were assembled from")
        is_own = type(recording.reader) is LoreLog
        lines = (line[:-1] for line in convert_recording(recording))
        header = next(lines)
        event = event_of(header)
        if not isinstance(event, SessionStarted):  # lore's own log may have none, or a late one
            event = SessionStarted(session_id="")
            header, lines = encode(event), chain((header,), lines)
        session_id = self._name_session(path, event, is_of_requests=is_of_requests)
        self._used_ids.add(session_id)
        new_header = header  # with this id; its other bytes stay
        if event.session_id != session_id:
            ids = [member for member in member_ranges(header) if lenient.snake(member.key) == "session_id"]
            for member in reversed(ids):
                new_header = new_header[: member.value] + encode_json(session_id) + new_header[member.end :]
        notes, address = None, address_of(path)
        if address is not None:
            with closing(open_existing(address.url)) as store:
                notes = load_notes(store, address.session_id)
        return SyncSource(read_header(new_header), chain((new_header,), lines), not is_own, is_of_requests, notes)

    def _name_session(self, path: str, header: SessionStarted, *, is_of_requests: bool) -> str:
        """Return the id to store a session under: as asked, its own, or its file's name; other requests may have it."""
        # The file of a subagent names the session that started it, and would be stored under that session's id.
        is_subagent = is_companion(os.path.basename(path)) and not corpus.is_stored(path)
        session_id = self._session_id or ("" if is_subagent else header.session_id)
        if not session_id and path == corpus.STDIN:
            raise LoreError("the session on standard input names no id", hint="give one with --id")
        stem = os.path.splitext(os.path.basename(corpus.show(path)))[0]
        folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
        names = chain(
            (session_id or stem, stem, f"{folder}-{stem}"), (f"{folder}-{stem}-{number}" for number in count(2))
        )
        return next(name for name in names if not is_of_requests or name not in self._used_ids)


BATCH_BYTES, BATCH_EVENTS = 4 * 1024 * 1024, 10_000  # of one delta
_STARTED = b'{"kind":"turn_started"'
# A transcript that stops within a turn is stored with the turn closed. When it continues, the turn is closed again.
_CLOSINGS = tuple(b'{"kind":"turn_%s"' % ending for ending in (b"completed", b"failed", b"canceled"))


def find_leaf(lines: Iterable[bytes]) -> str | None:
    """Return the uuid of the main chain's last item that these lines append and do not remove, if a store can keep it.

    Read from the end: costs the lines after it.
    """
    removed = set[str]()
    for line in reversed(tuple(lines)):
        event = event_of(line) if kind_of(line) in ("append", "remove") else None
        if isinstance(event, Remove):
            removed.update(event.uuids)
        elif isinstance(event, Append) and event.chain == MAIN and event.item.uuid not in removed:
            return event.item.uuid if is_id(event.item.uuid) else None
    return None


class SyncSource(NamedTuple):
    """A session that is to be stored."""

    header: SessionSummary  # the session without events
    lines: Iterator[bytes]  # from the header on, to be read once
    # It was converted: each chain is compared by itself, since a transcript's subagents follow one another, and what
    # continues a turn that the transcript left open is appended after the closing.
    is_chained: bool
    # It was made of recorded requests. The last responses are known from their recording alone; later requests spell
    # them in their own way: the old form stays in the log, is removed, and the new form is appended.
    is_of_requests: bool
    notes: SessionData | None  # leaf and metadata in the store that it comes from


def sync(store: Store, source: SyncSource, path: str) -> ImportedSession:
    """Store the session of a path, or its new events.

    Raises StoreError; ConflictError if the stored events differ, or another writer comes between.
    """
    refuse_header(source.header)
    header, notes, lines = source.header, source.notes, source.lines
    stored_notes = load_notes(store, header.session_id)
    if stored_notes is None:  # most sessions are one batch, and stored by one write
        stored_count, batches = 0, _batches(lines)
        head = create_session(store, header, next(batches))
    else:
        stored_count, head = stored_notes.head.number, stored_notes.head
        comparison = _Comparison(store.load(header.session_id).events, source)
        batches = _batches(comparison.find_new(lines))
    for batch in batches:
        delta = SessionDelta(base=head, new_events=batch, leaf_id=find_leaf(batch), updated_at=now())
        head = store.save_delta(header.session_id, delta)
    new_count = head.number - stored_count
    if new_count and notes is not None and (notes.leaf_id is not None or notes.metadata != EMPTY):
        delta = SessionDelta(base=head, updated_at=now(), leaf_id=notes.leaf_id, metadata=notes.metadata)
        head = store.save_delta(header.session_id, delta)
    state = "created" if stored_notes is None else "extended" if new_count else "unchanged"
    return ImportedSession(
        path=path, session_id=header.session_id, state=state, new_events=new_count, events=head.number
    )  # fmt: skip


def create_session(store: Store, header: SessionSummary, events: tuple[bytes, ...]) -> Head:
    """Store a new session, which begins with these events."""
    at = now()
    data = SessionData(
        session_id=header.session_id, head=NOTHING, events=events, project_id=header.project_id,
        parent_session_id=header.parent_session_id, leaf_id=find_leaf(events) or header.session_id,
        created_at=header.created_at or at, updated_at=at,
    )  # fmt: skip
    return store.save(data)


def _batches(lines: Iterable[bytes]) -> Iterator[tuple[bytes, ...]]:
    batch, size = list[bytes](), 0
    for line in lines:
        batch.append(line)
        size += len(line)
        if size >= BATCH_BYTES or len(batch) >= BATCH_EVENTS:
            yield tuple(batch)
            batch, size = [], 0
    if batch:
        yield tuple(batch)


class _Chained(msgspec.Struct):
    chain: str = MAIN


_CHAINED = msgspec.json.Decoder(_Chained)


class _Comparison:
    """Compares a session with its stored events."""

    def __init__(self, stored: Iterable[bytes], source: SyncSource) -> None:
        self._source = source
        self._waiting = defaultdict[str, deque[tuple[int, bytes]]](deque)  # stored events by chain, with their numbers
        for number, event in enumerate(stored, 1):
            self._waiting[self._chain_of(event)].append((number, event))
        self._respelled: dict[str, int] = {}  # chains whose last responses were removed: the first event of these

    def find_new(self, lines: Iterable[bytes]) -> list[bytes]:
        """Return the events to append; raises ConflictError if a stored one differs and no later request spells it."""
        new_events = [event for line in lines for event in self._compare(line)]
        if self._respelled:
            raise self._conflict(min(self._respelled.values()))
        return new_events

    def _compare(self, line: bytes) -> Iterator[bytes]:
        chain = self._chain_of(line)
        events = self._waiting[chain]
        while events and not is_same_event(events[0][1], line):
            number, event = events[0]
            if not self._source.is_of_requests and self._source.is_chained and event.startswith(_CLOSINGS):
                events.popleft()
                continue
            uuids = _take_responses(events) if self._source.is_of_requests else ()
            if not uuids:
                raise self._conflict(number)
            if not events:
                self._respelled[chain] = number
                yield encode(Remove(uuids=uuids, chain=chain, observed=True))
        if events:
            events.popleft()
            return
        if line.startswith(_STARTED):
            self._respelled.pop(chain, None)
        yield line

    def _conflict(self, number: int) -> ConflictError:
        message = f"event {number} of the session is stored with other content"
        if self._source.is_of_requests:
            message = f"the recording was rewritten: event {number} of the session that its requests make differs"
        hint = "`lore store export` shows the stored session; --id stores this under another id"
        return ConflictError(message, hint=hint)

    def _chain_of(self, line: bytes) -> str:
        """Return the chain of an event, if chains are compared by themselves."""
        try:
            return _CHAINED.decode(line).chain if self._source.is_chained else MAIN
        except (ValueError, RecursionError):
            return MAIN


def _take_responses(events: deque[tuple[int, bytes]]) -> tuple[str, ...]:
    """Drop the items of the last responses, and the event that removed them, from stored events; return their uuids.

    Drops nothing if another event follows.
    """
    uuids: list[str] = []
    for place, (_, event) in enumerate(events):
        response = event_of(event)
        if isinstance(response, Remove) and response.uuids == tuple(uuids):
            for _ in range(place + 1):
                events.popleft()
            return response.uuids
        if not isinstance(response, Append) or not isinstance(response.item, AssistantMessage | ToolCall):
            return ()
        uuids.append(response.item.uuid)
    events.clear()
    return tuple(uuids)


_ITEM_TYPES = [str(kind.__struct_config__.tag) for kind in get_args(Item)]
ATTEMPTS = 1_000  # times that a line is appended again after another writer's
HINT_REPAIR = "nothing of this line was stored, the lines before are: repair it, and send it again with what follows"


class AppendedEvent(NamedTuple):
    """One event of `lore store append`."""

    data: bytes  # as it is stored
    kind: str
    number: int | None  # the number that the line expects


class SessionAppender:
    """Appends lines to one session, one delta each."""

    def __init__(self, store: Store, session_id: str, tell: Callable[[str], None]) -> None:
        refuse_reserved(session_id)
        self._store, self._session_id = store, session_id
        self._tell = tell  # receives notes about events that readers keep as opaque
        self._head: Head | None = None
        self._loaded_events: tuple[int, tuple[bytes, ...]] = (0, ())  # a number, and the stored events from it on

    def append(self, line: Line) -> StoreAppended:
        """Store one event and return its number as soon as it is durable.

        Raises LoreError with the line's place if it is refused; ConflictError if it expects another number than it can
        have.
        """
        try:
            event = parse_line(line.data)
            refuse_misspelt(event)
            number = self._store_event(event)
        except LoreError as error:
            if not isinstance(error, DamagedError):  # whose place is in the store
                error.where = Where("<stdin>", line.number, line.byte)
            error.hint = error.hint or HINT_REPAIR
            raise
        for read in LoreLog().read_line(Line(1, 0, event.data)):
            # BAD_HEADER: an event that is read alone does not begin a log
            if isinstance(read.value, Problem) and read.value.code != Code.BAD_HEADER:
                self._tell(f"note: line {line.number}: {read.value.message}")
        return StoreAppended(self._session_id, number)

    def _store_event(self, event: AppendedEvent) -> int:
        """Store an event, or acknowledge it if it is stored; returns its number."""
        self._head = self._head or self._load_head()
        if event.kind == "session_started" and event.number in (None, 1):
            return self._begin(event)
        if self._head is None:
            hint = "begin with its session_started, or look at `lore store list`"
            raise LoreError(f"the store has no session {self._session_id!r}", hint=hint)
        for _ in range(ATTEMPTS):
            following = self._head.number + 1
            if event.number is not None and event.number < following:
                return self._acknowledge(event, event.number, self._head)
            if event.number is not None and event.number > following:
                held = f"the store holds {self._head}: the next is event {following}"
                message = f"the line expects to be event {event.number}, {held}"
                raise ConflictError(message, hint=f"send the events from number {following} on", stored=self._head)
            events = (event.data,)
            delta = SessionDelta(base=self._head, new_events=events, leaf_id=find_leaf(events), updated_at=now())
            try:
                self._head = self._store.save_delta(self._session_id, delta)
                return following
            except ConflictError:
                self._head = self._load_head() or self._head
        raise ConflictError("gave up after repeated write conflicts", hint="send the line again", stored=self._head)

    def _load_head(self) -> Head | None:
        notes = load_notes(self._store, self._session_id)
        return None if notes is None else notes.head

    def _begin(self, event: AppendedEvent) -> int:
        """Create the session, or acknowledge that it has this header."""
        header = read_header(event.data)
        refuse_header(header)
        if header.session_id != self._session_id:
            message = f"session_started names session {header.session_id!r}, not {self._session_id!r}"
            hint = f"nothing of it was stored: `lore store append {header.session_id}`, or repair the line"
            raise LoreError(message, hint=hint)
        if self._head is None:
            self._head = create_session(self._store, header, (event.data,))
        else:
            self._acknowledge(event, 1, self._head)
        return 1

    def _acknowledge(self, event: AppendedEvent, number: int, head: Head) -> int:
        """Return the number of an event that is stored; raises ConflictError if another one has it."""
        first, events = self._loaded_events
        if not first <= number < first + len(events):
            first, events = self._loaded_events = number, self._store.load(self._session_id, after=number - 1).events
        stored = events[number - first]
        with suppress(LoreError):  # the events of an imported log may have numbers
            stored = parse_line(stored).data
        if not is_same_event(stored, event.data):
            expected = f"the line expects to be event {number}, and another event is stored there"
            message = f"{expected}; the store holds {head}"
            hint = "another writer was here: `lore store export` shows the stored session"
            raise ConflictError(message, hint=hint, stored=head)
        return number


def parse_line(line: bytes) -> AppendedEvent:
    """Parse one line, and remove the number that it expects; its other bytes stay. Raises LoreError.

    The number is in `id`; in a `knowledge` event, whose `id` names its entry, in `number`.
    """
    reason = refusal(line)
    if reason:
        raise LoreError(f"the line is not an event: {reason}", hint=HINT_REPAIR)
    kind = kind_of(line)
    if kind == "saved":
        raise LoreError("a `saved` record is a store's own note, and not an event", hint="leave it out")
    key = "number" if kind == "knowledge" else "id"
    values = [decode(line[span.value : span.end]) for span in member_ranges(line) if span.key == key]
    # Records of other programs have ids of their own.
    if not values or (kind not in KINDS and isinstance(values[-1], str)):
        return AppendedEvent(line, kind, None)
    number = values[-1]
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
        hint = "an event's number is an integer from 1 on; without one the event is appended"
        raise LoreError(f"the line's `{key}` is not a number of an event", hint=hint)
    return AppendedEvent(without_member(line, key), kind, number)


def refuse_misspelt(event: AppendedEvent) -> None:
    """Raise LoreError for an event of lore that no reader would understand, or a kind that is nearly one of lore's.

    Records of other programs, whose kinds are not like lore's, are kept as opaque events.
    """
    if event.kind not in KINDS:
        hint = did_you_mean(event.kind, get_close_matches(event.kind[:80], KINDS, 1, 0.8))
        if hint.startswith("did you mean"):
            raise LoreError(f"there is no event {event.kind!r}", hint=hint)
    elif event_of(event.data) is None:
        item = raw_members((raw_members(event.data) or {}).get("item", b"")) or {}
        kind, hint = text_of(item.get("type", b'""')), ""
        if event.kind == "append" and kind not in _ITEM_TYPES:
            hint = f"the item's type: {did_you_mean(kind, _ITEM_TYPES)}"
        raise LoreError(f"the event {event.kind} has missing or wrong fields", hint=hint)
