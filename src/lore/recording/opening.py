"""Open a recording: choose its reader, and return a `Recording`.

The reader is the one named, or the one that recognises the content: as it is, or without the log text before each
record or the wrapper that programs such as Docker put around each line; every record keeps its line and byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING

import msgspec

from lore.errors import LoreError, Where, lacks_plug_in
from lore.formats.base import Reader
from lore.formats.beginning import BOM, SPACE, SQLITE, may_be_recording
from lore.formats.contents import unescape
from lore.formats.documents import end_of_value
from lore.formats.folders import OPENING
from lore.formats.lines import nonblank_lines
from lore.formats.registry import FORMATS, GENERIC, READERS, plug_in_of, rank_alike, reader_as, reader_of
from lore.formats.unrecognised import LFS_POINTER, describe, find_foreign_file
from lore.model.deferred import pattern
from lore.model.events import MAIN
from lore.model.jsonslice import raw_members
from lore.model.limits import RECORD_BYTES
from lore.model.state import Change
from lore.model.turn import Memo, Turn
from lore.prompt.base import Dialect, Rules
from lore.recording import corpus
from lore.recording.agents.companions import companions
from lore.recording.base import HINT_FORMATS, Problems, Recording, Template, UnrecognisedError, load_plugins
from lore.store.registry import ignore

if TYPE_CHECKING:
    from lore.recording.overrides import Completion
    from lore.tokens.o200k import Counter


class Options(msgspec.Struct, frozen=True):
    """How recordings are read."""

    format: str | None = None  # read as this format; None: as the content shows
    dialect: str | None = None  # assemble prompts in this dialect; None: the recording's own
    rules: Rules = Rules()  # how prompts are assembled
    counter: Counter | None = None  # counts tokens; None: not needed
    completion: Completion | None = None  # what the caller adds to prompts that are not recorded whole
    template: Template | None = None  # the chat template to render prompts with
    log: Callable[[str], None] = ignore  # receives notes about reading and decisions

    @property
    def requested_dialect(self) -> Dialect | None:
        """The dialect that the user named; raises LoreError for an unknown one."""
        if not self.dialect:
            return None
        from lore.prompt.dialects import require_dialect  # noqa: PLC0415 - as below

        load_plugins()
        return require_dialect(self.dialect)

    def open(
        self, path: str, problems: Problems | None = None, *, subagents: bool = False,
        opened: corpus.Opened | None = None, memos: dict[str, Memo] | None = None, growing: bool | None = None,
    ) -> Recording:  # fmt: skip
        """Open a recording; raises LoreError if it cannot be read or recognised.

        `subagents`: read the files of the session's other chains with it. `opened`: read this instead of the file.
        `memos`: share slices of messages with other recordings. `growing` (default: whether it is `opened`): judge
        requests as they come, not sorted by time.
        """
        growing = opened is not None if growing is None else growing
        reader, opened = choose_reader(path, opened or corpus.open_head(path), self.format)
        problems = problems or Problems()
        if reader.yields == "events":
            from lore.recording.events import EventRecording  # noqa: PLC0415 - listing recordings does not need it

            completes = None if self.completion is None else self.completion.chain(type(reader), opened.head)
            below = companions(path) if subagents else ()
            recording = EventRecording(path, reader, opened.data, problems, self, companions=below, completes=completes)
        else:
            from lore.recording.requests import PromptRecording, RequestRecording  # noqa: PLC0415 - as above

            if reader.yields == "turns":
                recording = PromptRecording(path, reader, opened.data, problems, self)
            else:
                memos = {} if memos is None else memos
                recording = RequestRecording(path, reader, opened.data, problems, self, memos=memos, growing=growing)
        others = () if self.format else rank_alike(opened.head, reader.name)[1:]
        self.log(f"{recording.shown}: read as {reader.name}" + "".join(f", might be {other}" for other in others))
        for companion in recording.companions:
            self.log(f"{corpus.show(companion)}: a subagent's file of this session, read with it")
        return recording


def choose_reader(path: str, opened: corpus.Opened, format: str | None = None) -> tuple[Reader, corpus.Opened]:
    """Return a reader and what it reads: the file, or it without log text or wrapper; raises UnrecognisedError."""
    reader = _reader(opened.head, format)
    is_text = reader is not None and (format is None or getattr(FORMATS.get(reader.name), "text", False))
    if not is_text and (bare := _without_log_text(opened)) is not None:
        reader, opened = _reader(bare.head, format), bare
    if format is None and (reader is None or reader.name in GENERIC):
        inner = _without_wrapper(opened, is_unknown=reader is None)
        inside = None if inner is None else _reader(inner.head, None)
        if inner is not None and inside is not None and (reader is None or inside.name not in GENERIC):
            reader, opened = inside, inner
        is_open = reader is None or reader.name in GENERIC  # whose file it is
        foreign = find_foreign_file(opened.head, path) if is_open else None
        if foreign is not None:  # a file of an agent that lore does not read
            message = f"{corpus.show(path)} is {foreign.what}: {foreign.why}"
            raise UnrecognisedError(message, hint=foreign.hint, own=True)
    if reader is None:
        raise _unrecognised(path, opened)
    return reader, opened


_RECORDINGS = (".jsonl", ".ndjson", ".har")  # how names of recordings end
_DOCUMENTS = (".json", ".yaml", ".yml")  # they may be recordings, too
_AGAIN = "record it again, or leave it out"


def _unrecognised(path: str, opened: corpus.Opened) -> UnrecognisedError:
    """Return the error for a file that no reader recognises; reads the rest of one that may be cut off."""
    head, is_recording = opened.head, path.endswith(_RECORDINGS)
    if not head.removeprefix(BOM).strip(SPACE + b"\0"):  # NULs are what a crash leaves of a file that was being written
        what = "holds NUL bytes and no text" if head.strip() else "is empty"
        error = UnrecognisedError(f"{corpus.show(path)} {what}", hint=_AGAIN, own=True)
        error.is_damaged = is_recording
        return error
    text = head.removeprefix(BOM).strip()
    is_open = text[:1] == b"{" and end_of_value(memoryview(text), 0) == -1
    what, hint = describe(b"PK\x03\x04" if head.startswith(OPENING) else head)
    is_damaged = is_recording and not what
    if head.startswith(LFS_POINTER):
        is_damaged = path.endswith((*_RECORDINGS, *_DOCUMENTS))
    if is_open and all(size <= len(head) for size in accumulate(map(len, opened.data))):  # nothing follows
        what, hint = "cut off in its first record" if is_recording else "JSON that ends early", _AGAIN
        is_damaged = is_recording
    details = f" ({what})" if what else ""
    if head.startswith(SQLITE) and path != corpus.STDIN and not corpus.is_stream(path):
        fault = corpus.opencode().fault_of(path)
        details += f"; {fault}" if fault else ""
    own = f"{corpus.show(path)}: unrecognised format"  # the details name members
    error = UnrecognisedError(f"{own}{details}", hint=hint or HINT_FORMATS, own=own)
    error.is_damaged = is_damaged
    return error


_BANNER = pattern(rb'(?:(?!\{|\[[ \t\r]*[{\n])[^\n`"]{0,500}+\n){1,20}?(?=\{"|\{[ \t\r]*\n|\[[ \t\r]*[{\n])')
_NOT_FEED = pattern(rb"[^\n]")
_LOGGED = pattern(rb'^(?:[^\n{ \t][^\n{]{0,200}+(?=(\{")[^\n]*\}[ \t\r]*$)|[^\n"]++$)', re.MULTILINE)


def _without_log_text(opened: corpus.Opened) -> corpus.Opened | None:
    """Return a file with spaces for its leading lines, or for the log prefix of each record; None if it has neither."""
    head = opened.head
    if may_be_recording(head):
        return None
    if banner := _BANNER.match(head):
        blank = _NOT_FEED.sub(b" ", banner[0])
        pieces = chain((blank + next(opened.data, b"")[len(blank) :],), opened.data)
        return corpus.Opened(blank + head[len(blank) :], pieces)
    least = max(1, head.count(b"\n") - head.count(b"\n\n")) / 3  # lines with a record
    if head.count(b'{"') < least or sum(match[1] is not None for match in _LOGGED.finditer(head)) < least:
        return None

    def blank_log_text(lines: bytes) -> bytes:
        return _LOGGED.sub(lambda match: b" " * len(match[0]), lines)

    return corpus.Opened(blank_log_text(head), map(blank_log_text, _whole_lines(opened.data)))


def _whole_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    buffer = b""
    for piece in pieces:
        end = piece.rfind(b"\n") + 1 or (len(piece) if len(buffer) > RECORD_BYTES else 0)
        if end:
            yield buffer + piece[:end]
        buffer = piece[end:] if end else buffer + piece
    yield buffer


_WRAPPED = (b'"{\\"', b'"{ ')  # a text that begins as a JSON object
_LOOKED_AT = 64  # lines at a file's beginning: a program may write other text before its first record


def _without_wrapper(opened: corpus.Opened, *, is_unknown: bool) -> corpus.Opened | None:
    """Return the records in a member of each line, or in the text that a line is; None without any.

    They are texts, as Docker and CloudWatch keep output, or in an unknown file the only objects in their lines.
    """
    may_be_wrapped = is_unknown or any(map(opened.head.count, _WRAPPED))
    first = islice(nonblank_lines(opened.head) if may_be_wrapped else (), _LOOKED_AT)
    lines = [_wrapper_members(line) or {} for line in first]
    objects = [name for name, raw in lines[0].items() if raw[:1] == b"{"] if is_unknown and lines else []
    texts = (name for record in lines for name, raw in record.items() if raw.startswith(_WRAPPED))
    name = next(texts, objects[0] if len(objects) == 1 else None)
    if name is None:
        return None
    may_be_cut = any(record.get(name, b"").endswith(b'\\n"') for record in lines)
    inner = (_inner_lines(pieces, name, may_be_cut) for pieces in (iter([opened.head]), opened.data))
    return corpus.Opened(b"".join(next(inner)), next(inner))


def _wrapper_members(line: bytes) -> dict[str, bytes] | None:
    """Return the members of a line; a line that is a text has one without a name."""
    return {"": line} if line[:1] == b'"' else raw_members(line)


def _inner_lines(pieces: Iterator[bytes], name: str, may_be_cut: bool) -> Iterator[bytes]:
    """Yield the text or object in a member of each line, padded to its bytes and lines; blank if it is no object."""
    texts, size, ends = list[bytes](), 0, 0  # pieces of a text, with the bytes and line feeds of their lines
    for piece in _whole_lines(pieces):
        for line in piece.splitlines(keepends=True):
            record = _wrapper_members(line.strip())
            if record is None and not texts:
                yield line
                continue
            member = (record or {}).get(name, b'""')
            texts.append(member if member[:1] == b"{" else unescape(member))
            size, ends = size + len(line), ends + line.endswith(b"\n")
            is_object = texts[0][:1] == b"{"
            # Docker cuts a text after 16 KiB: all up to one that ends with a line feed are one
            if not (is_object and may_be_cut) or texts[-1][-1:] in (b"\n", b"") or size >= RECORD_BYTES:
                text = b"".join(texts).strip().replace(b"\n", b" ") if is_object else b""
                yield text.ljust(size - ends) + b"\n" * ends
                texts, size, ends = [], 0, 0
    yield b"".join(texts).ljust(size)


def reader_class_for(head: bytes, format: str | None) -> type[Reader] | None:
    """Return the reader of this name, else the one that recognises the beginning of a file; None if none does."""
    reader = _reader(head, format)
    return None if reader is None else type(reader)


def _reader(head: bytes, format: str | None) -> Reader | None:
    if format:
        reader_named(format)
        return reader_as(format, head)
    load_plugins()
    return reader_of(head)


def reader_named(name: str) -> type[Reader]:
    """Return the reader of this name; raises LoreError for an unknown one."""
    if name not in READERS:
        load_plugins()
    kind = READERS.get(name)
    if kind is None and (plug_in := plug_in_of(name)):
        raise lacks_plug_in(plug_in, f"the format {name}")
    if kind is None:
        raise LoreError(f"unknown format {name!r}", hint="formats: " + ", ".join(READERS))
    return kind


_CHAINS_NAMED = 8  # in an error


def pick(recording: Recording, name: corpus.Name) -> tuple[Turn | None, dict[int, tuple[Change, ...]]]:
    """Return the turn that a name means, and the recorded changes before each turn of its chain, by number.

    Without a number it is the last turn of the main chain, or of that of the first turn if there is no main one; None
    if the recording has no turns. Reads the whole recording. Raises LoreError if the chain or the turn does not exist.
    """
    chosen: dict[str, Turn] = {}  # of each chain the last turn that the name may mean
    numbers: dict[str, int] = {}  # of each chain the highest
    changes: dict[str, dict[int, tuple[Change, ...]]] = {}
    for turn in recording.turns():
        chain = turn.chain
        wanted_chain = name.chain or MAIN
        numbers[chain] = max(numbers.get(chain, 0), turn.number)
        if chain not in (wanted_chain, next(iter(numbers)) if name.chain is None else wanted_chain):
            continue
        if turn.changes:
            changes.setdefault(chain, {})[turn.number] = turn.changes
        if name.turn in (None, turn.number):
            chosen[chain] = turn
    chain = name.chain or (MAIN if MAIN in numbers else next(iter(numbers), MAIN))
    if chain not in chosen and (name.turn is not None or name.chain is not None):
        where = f" in chain {name.chain!r}" if name.chain else ""
        ranges = tuple(f"#{other}:1 to {number}" for other, number in list(numbers.items())[:_CHAINS_NAMED])
        others = len(numbers) - len(ranges)
        choices = (*ranges, f"and {others:,} more chains") if others else ranges  # names of chains may be content
        has = "it has these" if numbers else "it has no turn"
        if chain in numbers:
            choices, has = (), f"it has turns 1 to {numbers[chain]}"
        message = f"{recording.shown} has no turn {name.turn}{where}"
        raise LoreError(message, hint=has, where=Where(recording.shown), choices=choices, own=True)
    return chosen.get(chain), changes.get(chain, {})
