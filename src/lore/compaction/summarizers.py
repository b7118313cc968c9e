"""The summariser that a configuration names."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from lore.compaction.base import Summarizer
from lore.compaction.command import Command
from lore.compaction.extractive import Extractive
from lore.compaction.openai import OpenAISummarizer
from lore.compaction.settings import Compaction
from lore.errors import LoreError

Tell = Callable[[str], None]


def _silent(_: str) -> None: ...


def _extractive(_: Compaction, __: Mapping[str, str], ___: Tell) -> Summarizer:
    return Extractive()


def _command(settings: Compaction, environ: Mapping[str, str], tell: Tell) -> Summarizer:
    return Command(settings.command, environ=environ, seconds=settings.timeout_secs, tell=tell)


def _openai(settings: Compaction, environ: Mapping[str, str], tell: Tell) -> Summarizer:
    return OpenAISummarizer(
        settings.endpoint,
        settings.model,
        key_env=settings.key_env,
        environ=environ,
        seconds=settings.timeout_secs,
        pause=time.sleep,
        tell=tell,
    )


_MAKERS: dict[str, Callable[[Compaction, Mapping[str, str], Tell], Summarizer]] = {
    "extractive": _extractive,
    "command": _command,
    "openai": _openai,
}


def summarizer_of(settings: Compaction, environ: Mapping[str, str], *, tell: Tell = _silent) -> Summarizer:
    """Return the summariser of `settings`; raises LoreError where it cannot be had. Sends no request yet.

    `environ` is the environment that holds the key and the path; `tell` hears what a command complains about.
    """
    fault = settings.fault()
    if fault:
        raise LoreError(fault)
    return _MAKERS[settings.summarizer](settings, environ, tell)
