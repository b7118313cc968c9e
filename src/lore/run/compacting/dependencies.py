"""What a compaction works with, from this process' environment: summariser, sources, the key of boundary lines."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from lore.compaction.base import Window
from lore.compaction.executor import Dependencies, Tell
from lore.compaction.locks import private, state_folder
from lore.compaction.settings import Compaction
from lore.compaction.sources import NESTED, ContextRequest, check_sources, is_nested, outside_context
from lore.compaction.summarizers import summarizer_of
from lore.errors import LoreError
from lore.files import replaced

KEY_BYTES = 32
_KEY = "boundary.key"


def dependencies_of(settings: Compaction, tell: Tell, session_id: str, agent: str = "", user: str = "") -> Dependencies:
    """Return what a compaction works with; raises LoreError where any of it is missing. Runs and asks nothing."""
    refuse_nested()
    check_sources(settings, os.environ)
    summarizer = summarizer_of(settings, os.environ, tell=tell)
    if not settings.context_sources:
        return Dependencies(summarizer, None, b"", tell)

    def ask(window: Window) -> str:
        request = ContextRequest(session_id, window, agent, user)
        return outside_context(settings, request, environ=os.environ, tell=tell)

    return Dependencies(summarizer, ask, boundary_key(state_folder()), tell)


def refuse_nested() -> None:
    """Raise LoreError inside a source or a summariser: what a compaction runs compacts nothing itself."""
    if is_nested(os.environ):
        raise LoreError(f"a source or summariser of a compaction compacts nothing itself ({NESTED} is set)")


def boundary_key(folder: Path) -> bytes:
    """Return this user's secret for boundary lines: random, made when it is first asked for, and never shown."""
    path = private(folder) / _KEY
    try:
        if not path.exists():  # written whole: of two processes that make one, neither reads half of it
            with replaced(str(path), private=True) as file:
                file.write(secrets.token_bytes(KEY_BYTES))
        key = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise LoreError(f"cannot keep a key in {path}: {reason}", hint="set $LORE_STATE") from None
    if len(key) != KEY_BYTES:
        raise LoreError(f"{path} holds no key of {KEY_BYTES} bytes", hint="delete it: another one is made")
    return key
