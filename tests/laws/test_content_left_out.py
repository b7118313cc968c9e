"""Law: reading without content gives the same events at the same places, with texts of the same size."""

from __future__ import annotations

from pathlib import Path

import msgspec

from conftest import CORPUS, ROOT
from lore.cache.growth import growth
from lore.fold.step import Folding
from lore.formats.builder import DocumentReader, LogReader
from lore.formats.registry import reader_of
from lore.model import events as e
from lore.model.codes import Problem
from lore.model.state import FoldedSession

HEAD = 262_144
RAW = msgspec.Raw


def session_logs():
    """List the logs of agents among fixtures and corpus."""
    folders = (ROOT / "fixtures", CORPUS)
    paths = [path for folder in folders for path in sorted(folder.rglob("*.json*")) if path.is_file()]
    return [path for path in paths if isinstance(reader_of(path.read_bytes()[:HEAD]), LogReader | DocumentReader)]


def reads_of(path: Path, *, content: bool):
    """Return what a log holds."""
    data = path.read_bytes()
    reader = reader_of(data[:HEAD])
    assert isinstance(reader, LogReader | DocumentReader)
    return list(reader.read([data], content=content))


def measured(value):
    """Return a value with the length of each text that is recorded JSON in its place."""
    if isinstance(value, RAW):
        return "absent" if value == msgspec.Raw(b"null") else len(value)
    if isinstance(value, msgspec.Struct):
        fields = {name: measured(getattr(value, name)) for name in value.__struct_fields__ if name != "raw"}
        if "signature" in fields:
            fields["signature"] = len(fields["signature"] or "")
        return type(value).__name__, fields
    return [measured(one) for one in value] if isinstance(value, tuple) else value


def texts_of(value):
    """Yield the recorded JSON that an event holds."""
    if isinstance(value, RAW):
        yield bytes(value)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from texts_of(getattr(value, name))
    elif isinstance(value, tuple):
        for one in value:
            yield from texts_of(one)


def grown(reads):
    """Return by how much each chain grew."""
    folding = Folding(FoldedSession())
    for read in reads:
        if not isinstance(read.value, Problem):
            folding.apply(read.value)
    return {name: growth(chain.entries, 0, None) for name, chain in folding.state().chains.items()}


def test_logs_without_content_have_same_events_and_sizes():
    for path in session_logs():
        full, sized = reads_of(path, content=True), reads_of(path, content=False)
        assert [(read.line, read.byte, measured(read.value)) for read in sized] == [
            (read.line, read.byte, measured(read.value)) for read in full
        ], path
        assert grown(sized) == grown(full), path


def test_logs_without_content_hold_no_text():
    kinds = (e.Append, e.PatchToolCall, e.CompactApplied, e.OpaqueEvent)
    types = b"", b"null", b'"type":"image"', b'"type":"reasoning"', b'"type":"redacted_thinking"'
    for path in session_logs():
        values = [read.value for read in reads_of(path, content=False) if isinstance(read.value, kinds)]
        assert {text.strip() for value in values for text in texts_of(value)} <= {*types}, path
