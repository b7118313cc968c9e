"""Open a recording: a name, perhaps a format, to one whose turns can be read."""

from __future__ import annotations

from collections.abc import Sequence

from lore.errors import LoreError
from lore.formats.base import Reader
from lore.formats.registry import BUILT_IN, READERS, recognise
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
    kind = kind_of(opened.head, format)
    if kind is None:
        what = "is empty" if not opened.head.strip() else "is no recording that lore knows"
        raise UnrecognisedError(f"{corpus.show(path)} {what}", hint=HINT_FORMATS)
    chosen = _dialect_named(dialect) if dialect else None
    problems = problems or Problems()
    if kind.yields == "events":
        completes = None if completion is None else completion.chain(kind, opened.head)
        return EventRecording(
            path, kind(), opened.data, problems, dialect=chosen, rules=rules or Rules(), template=template,
            companions=companions, completion=completion, completes=completes,
        )  # fmt: skip
    if kind.yields == "turns":
        return PromptRecording(path, kind(), opened.data, problems)
    return RequestRecording(
        path, kind(), opened.data, problems, dialect=chosen, memos={} if memos is None else memos, growing=growing,
        forced=format is not None,
    )  # fmt: skip


def kind_of(head: bytes, format: str | None) -> type[Reader] | None:
    """Return the reader of this name, else the one that recognises the beginning of a file; None where none does."""
    return reader_named(format) if format else recognise(head) or _plugged(head)


def _plugged(head: bytes) -> type[Reader] | None:
    plugins.load()
    added = (reader for name, reader in READERS.items() if name not in BUILT_IN)
    return next((reader for reader in added if reader.recognises(head)), None)


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
