"""Cheap tests of the beginning of a file: could it be a recording, is it a document with an array of records.

Folders are full of other JSON and YAML: a YAML file counts only if it begins like a cassette.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain as chained
from itertools import islice

from lore.model.deferred import pattern
from lore.model.limits import BEGINNING_BYTES, BEGINNING_TOKENS

BOM = b"\xef\xbb\xbf"
SPACE = b" \t\r\n"
SQLITE = b"SQLite format 3\x00"
_STRUCTURE = pattern(
    rb'"(?P<key>(?:[^"\\]++|\\.)*+)"[ \t\r\n]*+:|"(?:[^"\\]++|\\.)*+"?|(?P<opened>[\[{]++)|(?P<closed>[\]}]++)',
    re.DOTALL,
)
_ARRAY = pattern(rb"[ \t\r\n]*\[")
_OBJECT = pattern(rb"[ \t\r\n]*(\[)?[ \t\r\n]*(?=\{)")
_DAMAGED = pattern(  # comments, and the rest of a torn record, before a record
    rb"(?:[ \t\r]*(?:(?:#|//)[^\n]*)?\n)*+(?:(?:[^\n]*[\]}],?[ \t\r]*\n)?|(?:[ \t\]}][^\n]*\n)*?\}[ \t\r]*\n)"
    rb'\{[ \t\r\n]*"'
)
_ARCHIVE = b"PK"  # a zip file, as logs of Inspect are
_LISTS = (".log.entries", ".entries", ".Entries", ".packets", ".interactions", ".http_interactions", ".samples")
_CASSETTE = pattern(
    rb"(?:[ \t]*(?:#[^\n]*)?\r?\n|---[^\n]*\r?\n|%YAML[^\n]*\n|!\w+[ \t]*\r?\n"
    rb"|(?:version|recorded_with|recorded_at|name)[ \t]*:[^\n]*\n)*+"
    rb"(?:-[ \t]*(?:\r?\n[ \t]+)?request:[ \t]*\r?\n"  # PHP-VCR
    rb"|(?:http_)?interactions:[ \t]*(?:#[^\n]*)?(?:\r?\n|$)"
    rb"|when:[ \t]*\r?\n[ \t]+(?:path|method|scheme|host|header|query_param)[a-z_]*:"  # httpmock
    rb"|-[ \t]*Request:[ \t]*\r?\n"  # surf-vcr
    rb"|requests:[ \t]*\r?\n-[ \t]+(?:body|headers|method|uri):"  # LangChain
    rb"|(?:id:[^\n]*\n)?(?:name:[^\n]*\n)?request:[ \t]*\r?\n[ \t]+(?:url|method)[A-Za-z]*:)"  # WireMock
)


def peek(data: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the first byte of a file that is not white space (empty if the file has none), and all of its bytes."""
    pieces, begin, start = filter(None, data), b"", b""
    while (not start or begin == BOM[: len(begin)]) and (piece := next(pieces, b"")):
        begin += piece
        start = begin.removeprefix(BOM).lstrip(SPACE)[:1]
    return start, chained((begin,), pieces)


def may_be_recording(head: bytes) -> bool:
    """Return whether a file that begins like this could be a recording."""
    text = head.removeprefix(BOM).lstrip(SPACE + b"\0")
    is_json = text[:1] in (b"{", b"") or _is_list(head)
    return is_json or text[:2] == _ARCHIVE or is_yaml_cassette(head) or is_damaged(head)


def is_damaged(head: bytes) -> bool:
    """Return whether a file begins with comments, or inside a record, and continues with a record."""
    return _DAMAGED.match(head) is not None and head[:1] not in (b"{", b"[")


def is_yaml_cassette(head: bytes) -> bool:
    """Return whether a file begins like a VCR cassette in YAML."""
    head = head.removeprefix(BOM)
    return head.lstrip(SPACE)[:1] not in (b"{", b"[") and _CASSETTE.match(head) is not None


def is_document(head: bytes) -> bool:
    """Return whether the first bytes show that a file is a document, however long its lines are."""
    line, _, following = head.partition(b"\n")
    if line.rstrip().endswith(b"}") and following[:1] == b"{":  # lines continue like this, a document does not
        head = line
    return _is_list(head) or is_yaml_cassette(head) or array_at(head, _LISTS) >= 0


def _is_list(head: bytes) -> bool:
    text = head.removeprefix(BOM).lstrip(SPACE)
    return text[:1] == b"[" and text[1:].lstrip(SPACE)[:1] in (b"{", b"")


def array_at(data: bytes, paths: tuple[str, ...]) -> int:
    """Return the offset of the content of the first array at one of these paths; -1 without such an array.

    A path has at most two keys. Costs one match for each string and each run of brackets before the array, at most
    `BEGINNING_TOKENS`.
    """
    keys = {path.rpartition(".")[2].encode() for path in paths if path}
    if not any(data.find(b'"' + key + b'"', 0, BEGINNING_BYTES) >= 0 for key in keys):
        return -1
    wanted_paths = {tuple(path.encode().split(b".")[1:]) for path in paths if path}
    starts = (_ARRAY.match(data, end) for path, end in _keys_in(data) if path in wanted_paths)
    return next((start.end() for start in starts if start is not None), -1)


def members_of(head: bytes) -> dict[str, None]:
    """Return the member names of the JSON object that a file begins with, as far as its beginning has them."""
    if head.removeprefix(BOM).lstrip(SPACE)[:1] != b"{":
        return {}
    return {path[0].decode("utf-8", "replace"): None for path, _ in _keys_in(head) if len(path) == 1}


def parts_in(data: bytes) -> Iterator[tuple[str, int]]:
    """Yield path and place of the objects, and the lists of objects, at the two upper levels of the first value.

    The path of an object, and of a list in a list, is empty.
    """
    first = len(data) - len(data.removeprefix(BOM))
    for path, end in chained((((b"",), first),), _keys_in(data)):
        match = _OBJECT.match(data, end)
        if match is not None and match.start(1) > first:
            yield ("." + b".".join(path).decode("utf-8", "replace") if path[0] else ""), match.start(1)
        if match is not None and match.end() > first:
            yield "", match.end()


def _keys_in(data: bytes) -> Iterator[tuple[tuple[bytes, ...], int]]:
    """Yield the path of each key at the two upper levels of the first value, and where the key ends."""
    depth, outer = 0, b""
    for match in islice(_STRUCTURE.finditer(data, 0, BEGINNING_BYTES), BEGINNING_TOKENS):
        if match["opened"] is not None:
            depth += len(match["opened"])
        elif match["closed"] is not None:
            depth -= len(match["closed"])
            if depth <= 0:
                return
        elif match["key"] is not None and depth == 1:
            outer = match["key"]
            yield (outer,), match.end()
        elif match["key"] is not None and depth == 2:
            yield (outer, match["key"]), match.end()
