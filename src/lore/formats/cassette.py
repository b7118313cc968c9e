"""Cassettes in JSON with `entries[]`, each body an object that says its `kind`: json, text, binary, sse.

A binary body may be kept in a file beside the cassette, which a reader cannot open: such requests are counted.
"""

from __future__ import annotations

from typing import ClassVar

from lore.formats.documents import Documents


class Cassette(Documents):
    """Reader of such cassettes."""

    name: ClassVar[str] = "cassette"
    paths: ClassVar[tuple[str, ...]] = (".entries",)
    words: ClassVar[tuple[bytes, ...]] = (b'"entries"', b'"request"')
