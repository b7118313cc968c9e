"""How files begin that could be recordings: cheap looks, before any reader is asked.

In: the first bytes of a file. Out: whether it is worth reading on. A folder is full of JSON and YAML that is
no recording: YAML counts only where it opens as a cassette does.
"""

from __future__ import annotations

import re

_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
_CASSETTE = re.compile(
    rb"(?:[ \t]*(?:#[^\n]*)?\r?\n|---[^\n]*\r?\n|%YAML[^\n]*\n|(?:version|recorded_with|recorded_at)[ \t]*:[^\n]*\n)*+"
    rb"(?:http_)?interactions:[ \t]*(?:#[^\n]*)?(?:\r?\n|$)"
)
_DOCUMENT = re.compile(rb"\{\s*+\"log\"\s*+:\s*+\{|\[\s*+\{|(?s:.){0,65536}?\"(?:entries|packets|(?:http_)?interactions)\"\s*+:\s*+\[")


def may_be_recording(head: bytes) -> bool:
    """Tell whether a file that begins like this could be a recording."""
    start = head.removeprefix(_BOM).lstrip(_SPACE)[:2]
    return start[:1] in (b"{", b"") or _is_list(head) or is_yaml_cassette(head)


def is_yaml_cassette(head: bytes) -> bool:
    """Tell whether a file opens as a VCR cassette in YAML does."""
    return _CASSETTE.match(head.removeprefix(_BOM)) is not None


def is_document(head: bytes) -> bool:
    """Tell whether the first bytes are enough to recognise a document by, however long its lines are."""
    return _DOCUMENT.match(head.removeprefix(_BOM).lstrip(_SPACE)) is not None or is_yaml_cassette(head)


def _is_list(head: bytes) -> bool:
    text = head.removeprefix(_BOM).lstrip(_SPACE)
    return text[:1] == b"[" and text[1:].lstrip(_SPACE)[:1] in (b"{", b"")
