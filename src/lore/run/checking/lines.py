"""The line of a finding in a JSON document whose records have several lines."""

from __future__ import annotations

import re
from array import array
from functools import lru_cache

from msgspec.structs import replace

from lore.errors import LoreError
from lore.formats.documents import end_of_value
from lore.model.deferred import pattern
from lore.model.jsonslice import value_at
from lore.model.limits import RECORD_BYTES
from lore.model.results import Finding
from lore.recording import corpus, filesystem

_LINE = pattern(rb"^[ \t]*", re.MULTILINE)


def with_line(finding: Finding) -> Finding:
    """Return an error or warning at the line of its place in the request, if its JSON record has several lines."""
    path, line = finding.path, finding.line
    if line is None or not finding.json_path or finding.severity == "note" or not path.endswith((".json", ".har")):
        return finding
    try:
        document, starts = _document(path, filesystem.status(path).written)
    except (LoreError, OSError, ValueError):  # not a file that can be read again
        return finding
    if line >= len(starts):  # the record is in one line, and may be the whole document: looking costs its length
        return finding
    from lore.formats.captures.layouts import BODIES, COMMON  # noqa: PLC0415 - few recordings are such documents

    start = starts[line - 1]
    record = document[start : end_of_value(memoryview(document), start) or start]
    for body in ("", *(f"{path}." for path in (*COMMON.request, *BODIES.request))):
        if (span := value_at(record, f"{body}{finding.json_path}")) is not None:
            return replace(finding, line=line + record.count(b"\n", 0, span[0]))
    return finding


@lru_cache(maxsize=1)  # it may have many findings
def _document(path: str, written: float | None) -> tuple[bytes, array[int]]:  # noqa: ARG001 - it changes with the file
    """Return the bytes of a file, none if it is too long, and where the text of each line begins. Raises LoreError."""
    data = b""
    for piece in corpus.pieces(path):
        data = data + piece if len(data) + len(piece) <= RECORD_BYTES else b""
        if not data:
            break
    return data, array("I", (match.end() for match in _LINE.finditer(data)))
