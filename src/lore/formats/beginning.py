"""How a file begins: whether it could be a recording, or is a document that lists calls.

Cheap looks, before anything is read. A folder is full of JSON and YAML that is no recording: YAML counts only where it
opens as a cassette does.
"""

from __future__ import annotations

import re
from itertools import islice

from lore.model.limits import BEGINNING_BYTES, BEGINNING_TOKENS

BOM = b"\xef\xbb\xbf"
SPACE = b" \t\r\n"
SQLITE = b"SQLite format 3\x00"
_STRUCTURE = re.compile(
    rb'"(?P<key>(?:[^"\\]++|\\.)*+)"[ \t\r\n]*+:|"(?:[^"\\]++|\\.)*+"?|(?P<opened>[\[{]++)|(?P<closed>[\]}]++)',
    re.DOTALL,
)
_ARCHIVE = b"PK"  # a zip file: Inspect's logs are some
_LISTS = (".log.entries", ".entries", ".packets", ".interactions", ".http_interactions", ".samples")
_CASSETTE = re.compile(
    rb"(?:[ \t]*(?:#[^\n]*)?\r?\n|---[^\n]*\r?\n|%YAML[^\n]*\n|(?:version|recorded_with|recorded_at)[ \t]*:[^\n]*\n)*+"
    rb"(?:(?:http_)?interactions:[ \t]*(?:#[^\n]*)?(?:\r?\n|$)"
    rb"|when:[ \t]*\r?\n[ \t]+(?:path|method|scheme|host|header|query_param)[a-z_]*:)"  # httpmock
)


def may_be_recording(head: bytes) -> bool:
    """Tell whether a file that begins like this could be a recording."""
    start = head.removeprefix(BOM).lstrip(SPACE)[:2]
    return start[:1] in (b"{", b"") or start == _ARCHIVE or _is_list(head) or is_yaml_cassette(head)


def is_yaml_cassette(head: bytes) -> bool:
    """Tell whether a file opens as a VCR cassette in YAML does."""
    return _CASSETTE.match(head.removeprefix(BOM)) is not None


def is_document(head: bytes) -> bool:
    """Tell whether the first bytes are enough to recognise a document by, however long its lines are."""
    line, _, rest = head.partition(b"\n")
    if line.rstrip().endswith(b"}") and rest[:1] == b"{":  # a document does not go on like this: lines do
        head = line
    return _is_list(head) or is_yaml_cassette(head) or array_at(head, _LISTS) >= 0


def _is_list(head: bytes) -> bool:
    """Tell whether a file begins as a JSON array of objects does."""
    text = head.removeprefix(BOM).lstrip(SPACE)
    return text[:1] == b"[" and text[1:].lstrip(SPACE)[:1] in (b"{", b"")


def array_at(data: bytes, paths: tuple[str, ...]) -> int:
    """Return where the content of the first array at one of these paths begins; -1 where there is none.

    A path has at most two steps, each the key of an object. Cost is O(bytes before the array): one match for each
    string and each run of brackets, of which there may be `BEGINNING_TOKENS`.
    """
    keys = {path.rpartition(".")[2].encode() for path in paths if path}
    if not any(data.find(b'"' + key + b'"', 0, BEGINNING_BYTES) >= 0 for key in keys):
        return -1
    wanted = {tuple(path.encode().split(b".")[1:]) for path in paths if path}
    depth, outer, key = 0, b"", b""
    for match in islice(_STRUCTURE.finditer(data, 0, BEGINNING_BYTES), BEGINNING_TOKENS):
        opened, closed = match["opened"], match["closed"]
        if opened is not None:
            path = (key,) if depth == 1 else (outer, key) if depth == 2 else ()
            if key and opened[:1] == b"[" and path in wanted:
                return match.start() + 1
            outer = b"" if depth == 0 else outer
            depth += len(opened)
        elif closed is not None:
            depth = max(depth - len(closed), 0)
        key = match["key"] or b""  # none of a text that is no key: no colon follows
        outer = key if key and depth == 1 else outer
    return -1
