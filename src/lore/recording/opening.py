"""Open a recording: a name, perhaps a format, to one whose turns can be read."""

from __future__ import annotations

from collections.abc import Sequence

from lore.errors import LoreError
from lore.formats.base import Reader
from lore.formats.registry import BUILT_IN, READERS, reader_of
from lore.prompt.base import Dialect, Memo
from lore.prompt.dialects import dialect_named, dialect_names
from lore.prompt.settings import Rules
from lore.recording import corpus, plugins
from lore.recording.base import HINT_FORMATS, Recording, UnrecognisedError
from lore.recording.events import EventRecording, Template
from lore.recording.overrides import Completion
from lore.recording.problems import Problems
from lore.recording.requests import PromptRecording, RequestRecording


def open_recording(
    path: str, *, format: str | None = None, dialect: str | None = None, rules: Rules | None = None,
    problems: Problems | None = None, opened: corpus.Opened | None = None,
    companions: Sequence[str] = (), completion: Completion | None = None,
    template: Template | None = None, memos: dict[str, Memo] | None = None,
) -> Recording:  # fmt: skip
    """Open an input, or take one that is open; raises LoreError where it cannot be read or recognised.

    `companions` are files with more chains of a session, `completion` is what the caller adds to its prompts;
    `memos` are shared by recordings of requests that are compared.
    """
    growing = opened is not None  # what is being written is judged as it comes
    opened = opened or corpus.open_head(path)
    reader = _reader(opened.head, format)
    if reader is None:
        what = "is empty" if not opened.head.strip() else "is no recording that lore knows"
        raise UnrecognisedError(f"{corpus.show(path)} {what}", hint=HINT_FORMATS)
    chosen = _dialect_named(dialect) if dialect else None
    problems = problems or Problems()
    if reader.yields == "events":
        completes = None if completion is None else completion.chain(type(reader), opened.head)
        return EventRecording(
            path, reader, opened.data, problems, dialect=chosen, rules=rules or Rules(), template=template,
            companions=companions, completion=completion, completes=completes,
        )  # fmt: skip
    if reader.yields == "turns":
        return PromptRecording(path, reader, opened.data, problems)
    return RequestRecording(
        path, reader, opened.data, problems, dialect=chosen, memos={} if memos is None else memos, growing=growing,
        forced=format is not None,
    )  # fmt: skip


def kind_of(head: bytes, format: str | None) -> type[Reader] | None:
    """Return the reader of this name, else the one that recognises the beginning of a file; None where none does."""
    reader = _reader(head, format)
    return None if reader is None else type(reader)


def _reader(head: bytes, format: str | None) -> Reader | None:
    return reader_named(format)() if format else reader_of(head) or _plugged(head)


def _plugged(head: bytes) -> Reader | None:
    plugins.load()
    added = (kind for name, kind in READERS.items() if name not in BUILT_IN)
    return next((kind() for kind in added if kind.recognises(head)), None)


def reader_named(name: str) -> type[Reader]:
    """Return the reader of this name; raises LoreError where there is none."""
    if name not in READERS:
        plugins.load()
    kind = READERS.get(name)
    if kind is None:
        raise LoreError(f"unknown format {name!r}", hint="formats: " + ", ".join(READERS))
    return kind


def _dialect_named(name: str) -> Dialect:
    if dialect_named(name) is None:
        plugins.load()
    dialect = dialect_named(name)
    if dialect is None:
        raise LoreError(f"unknown dialect {name!r}", hint="dialects: " + ", ".join(dialect_names()))
    return dialect
