"""Exports of claude-tap, a recording proxy for coding agents: `packets[]`, bodies parsed, streams reassembled.

A packet of method WEBSOCKET is one frame that asks for a response, with the response that it made: an exchange
of its own, whose body names the response that it continues.
"""

from __future__ import annotations

from typing import ClassVar

from lore.formats.documents import Documents


class ClaudeTap(Documents):
    """Reader of such exports."""

    name: ClassVar[str] = "claude-tap"
    paths: ClassVar[tuple[str, ...]] = (".packets",)
    words: ClassVar[tuple[bytes, ...]] = (b'"packets"', b'"method"', b'"request"')
