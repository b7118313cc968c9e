"""Ask the allowed sources of outside context what happened in a window of time.

In: the sources of the configuration and the window, which was fixed before the compaction began. Out: one text, the
answers in the order of the configuration, cut to the cap. Rules: only what is configured is run, without a shell; all
at once, each with 30 seconds of its own; a source sees a clean environment (`PATH`, `HOME`, the language, the window,
and the mark under which nothing compacts), no credentials; a source that fails, says nothing or writes what is no
UTF-8 is told and skipped: compaction goes on. What comes out is harmless, so that escapes count against the cap, too;
it is as untrusted as it came, and `wrapping` says so.

A source reads one JSON object from standard input: `{"prompt", "from", "to", "session_id", "agent", "user"}`; times
are RFC 3339 in UTC, as in `LORE_FROM` and `LORE_TO`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import NamedTuple

from lore.compaction.base import Window
from lore.compaction.processes import NESTED, CommandError, Ran, is_nested, program_of, run
from lore.compaction.settings import Compaction, ContextSource
from lore.compaction.wrapping import inert, one_line, truncated
from lore.errors import LoreError
from lore.model.canonical import encode
from lore.store.base import Tell

__all__ = ["NESTED", "ContextRequest", "check_sources", "is_nested", "outside_context", "stamp"]

SECONDS = 30.0  # for each source
MOST_AT_ONCE = 16
_KEPT = ("PATH", "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_TIME", "TZ", "TMPDIR")


class ContextRequest(NamedTuple):
    """For whom outside context is asked, and about what time."""

    session_id: str
    window: Window
    agent: str = ""
    user: str = ""


def check_sources(settings: Compaction, environ: Mapping[str, str]) -> None:
    """Raise LoreError, one line, for the first source that is missing or not executable. Runs nothing."""
    for source in settings.context_sources:
        try:
            program_of(source.command, environ)
        except LoreError as error:
            raise LoreError(f"context source {source.name!r}: {error.message}", hint=error.hint) from None


def outside_context(
    settings: Compaction, request: ContextRequest, *, environ: Mapping[str, str], tell: Tell, seconds: float = SECONDS
) -> str:
    """Return what the sources say, cut to `context_token_cap`; empty where none says anything. Never fails.

    Runs nothing where the cap is 0, or inside a source (`is_nested`). `tell` is called here, not in threads, in the
    order of the configuration. Takes as long as the slowest source, at most `seconds` each 16 sources.
    """
    sources = settings.context_sources
    if not sources or not settings.context_token_cap:
        return ""
    if is_nested(environ):
        tell(f"context sources are not asked: this runs inside one ({NESTED} is set)")
        return ""
    answers = _answers(sources, request, environ, seconds)
    texts = [_text(source, answer, tell) for source, answer in zip(sources, answers, strict=True)]
    return truncated(inert("\n\n".join(filter(None, texts))), settings.context_token_cap)


def stamp(seconds: float) -> str:
    """Write a time as RFC 3339 in UTC, in whole seconds."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}Z"


def _answers(
    sources: tuple[ContextSource, ...], request: ContextRequest, environ: Mapping[str, str], seconds: float
) -> list[Ran | LoreError]:
    stop = threading.Event()
    begin, end = map(stamp, request.window)
    kept = {name: environ[name] for name in _KEPT if name in environ}
    clean = {**kept, "LORE_FROM": begin, "LORE_TO": end, NESTED: "source"}
    named = {"session_id": request.session_id, "agent": request.agent, "user": request.user}

    def ask(source: ContextSource) -> Ran | LoreError:
        question = encode({"prompt": source.prompt, "from": begin, "to": end, **named}) + b"\n"
        try:
            return run(source.command, given=question, environ=clean, seconds=seconds, stop=stop)
        except LoreError as error:
            return error

    with ThreadPoolExecutor(min(len(sources), MOST_AT_ONCE), "lore-source") as pool:
        try:
            return list(pool.map(ask, sources))
        finally:
            stop.set()  # an interrupt does not wait for sources that hang


def _text(source: ContextSource, answer: Ran | LoreError, tell: Tell) -> str:
    name = f"context source {source.name!r}"
    if isinstance(answer, LoreError):
        reason = answer.message if isinstance(answer, CommandError) else one_line(answer.message)
        tell(f"{name} is skipped: {reason}")
        return ""
    try:
        text = answer.output.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        tell(f"{name} is skipped: what it wrote is no UTF-8, byte {error.start}")
        return ""
    if not text:
        tell(
            f"{name} is skipped: it said nothing"
            + (f"; on standard error: {answer.complaint}" if answer.complaint else "")
        )
    return text
