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


def may_be_recording(head: bytes) -> bool:
    """Tell whether a file that begins like this could be a recording."""
    start = head.removeprefix(_BOM).lstrip(_SPACE)[:2]
    return start[:1] in (b"{", b"") or is_list(head) or is_yaml_cassette(head)


def is_yaml_cassette(head: bytes) -> bool:
    """Tell whether a file opens as a VCR cassette in YAML does."""
    return _CASSETTE.match(head.removeprefix(_BOM)) is not None


def is_list(head: bytes) -> bool:
    """Tell whether a file begins as a JSON array of objects does."""
    text = head.removeprefix(_BOM).lstrip(_SPACE)
    return text[:1] == b"[" and text[1:].lstrip(_SPACE)[:1] in (b"{", b"")
