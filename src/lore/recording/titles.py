"""The title of a session: the name that its agent gave it, else its first prompts, masked and shortened.

The reader of a log reports both. It is given the beginning of the log and its last 64 KiB, because agents write names
again when a session ends. The table of agents (`agents/logs.py`) says which names are in other files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

from lore.errors import LoreError
from lore.formats.beginning import is_document
from lore.formats.folders import OPENING
from lore.model.canonical import printable, text_of
from lore.model.events import MAIN, Append, SessionChanged, SessionStarted
from lore.model.items import TextBlock, UserMessage
from lore.model.mask import cut_masked, mask
from lore.recording import corpus, filesystem
from lore.recording.agents.logs import title_beside
from lore.recording.base import Problems, Recording
from lore.recording.opening import Options, choose_reader

MOST = 70  # characters of a title
_TAIL = 64 * 1024  # bytes at the end of a log
_SEARCHED = 1024 * 1024  # bytes of a log that are searched for the first prompt
_MASKED = 10_000  # characters of a prompt that are masked before it is shortened
_BLOCK = re.compile(r"\s*<([A-Za-z_][\w-]*)[^>]*>(.*?)</\1>\s*", re.DOTALL)
_REMINDER = re.compile(r"<system[_-]reminder>.*?(?:</system[_-]reminder>|$)", re.DOTALL)
# blocks that hold what the user wrote
_SPOKEN = frozenset(("task", "user_message", "user_query", "feedback"))
_WORDS = 3  # from there on the arguments of a command are a prompt
_TELLING = 10  # bytes of UTF-8: to a shorter prompt ("y", "continue") the next one is added
_PLAN = re.compile(r"Implement the following plan:[\s#]*")  # Claude Code's words before a plan that was accepted
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_COMMAND = re.compile(r"<command-name>\s*(/?[\w:.-]+)\s*</command-name>|^\s*(/[\w:.-]+)\s*$")
# what agents send for /init, as a message of the user
_INIT = (
    "Please analyze this codebase and create", "Generate a file named AGENTS.md", "Create or update `AGENTS.md`",
    "You are an AI agent that brings the power of Gemini", "You are Qwen Code, an interactive CLI agent",
)  # fmt: skip
_NOT_SPOKEN = (
    *_INIT, "<system", "# AGENTS.md instructions", "Caveat: ", "[Request interrupted",
    "This session is being continued",
)  # fmt: skip


def title_of(path: str) -> str | None:
    """Return the title of a recording; None if it has none or cannot be read."""
    if corpus.is_stream(path):
        return None
    try:
        return shortened(title_beside(path) or _title_in(path)) or None
    except (LoreError, OSError, ValueError, RecursionError):
        return None


def shortened(text: str) -> str:
    """Return a text as one line of at most `MOST` characters, credentials masked."""
    line = " ".join(mask(printable(cut_masked(text, _MASKED))).split())
    return line if len(line) <= MOST else line[: MOST - 1].rstrip() + "…"


def _title_in(path: str) -> str:
    """Return the name that a log gives its session, else the first prompts of the main chain, else of any chain."""
    opened = corpus.open_head(path)
    is_whole = is_document(opened.head) or opened.head.startswith(OPENING)  # no part of it can be read
    name = command = ""  # the first command that was typed, rather another one than /clear
    prompts = {True: "", False: ""}  # the first prompts, by whether they are of the main chain
    data = opened.data if is_whole else _beginning_and_end(path, opened.data, lambda: _is_telling(prompts[True]))
    reader, opened = choose_reader(path, opened._replace(data=data))
    recording = Recording(path, reader, opened.data, Problems(), Options())
    # Requests have no name; that of a document comes first, unless its reader says otherwise.
    is_short = not recording.events or (is_whole and not getattr(reader, "title_follows", False))
    if not recording.events:
        from lore.recording.request_session import session_of  # noqa: PLC0415 - slow to import, and few need it

        recording = session_of(Options().open(path, opened=opened), "", hint="")
    for read in recording.reads():
        event = read.value
        if isinstance(event, SessionStarted | SessionChanged):
            name = event.title or name
        elif isinstance(event, Append) and isinstance(event.item, UserMessage) and event.item.source == "user":
            texts = [block.text for block in event.item.blocks or () if isinstance(block, TextBlock)]
            text = "\n".join(text_of(bytes(part)) for part in texts or [event.item.text])
            match = _COMMAND.search(text)
            if command in ("", "/clear"):
                arguments = _ARGUMENTS.search(text)
                typed = match[1] or match[2] if match else "/init" if text.startswith(_INIT) else ""
                command = " ".join(filter(None, (typed, arguments and arguments[1].strip()))) or command
            prompt, is_main = strip_client_blocks(text), event.chain == MAIN
            if prompt and not _is_telling(prompts[is_main]):
                prompts[is_main] = " · ".join(filter(None, (prompts[is_main], prompt)))
        if is_short and (name or _is_telling(prompts[True])):
            break
    return name or prompts[True] or command or prompts[False]


def _is_telling(prompt: str) -> bool:
    return len(prompt.encode("utf-8", "replace")) >= _TELLING


def _beginning_and_end(path: str, pieces: Iterator[bytes], is_enough: Callable[[], bool]) -> Iterator[bytes]:
    """Yield the beginning of a log up to the piece with the first prompt, then its last lines."""
    size = 0
    for piece in pieces:
        size += len(piece)
        yield piece
        if is_enough() or size >= _SEARCHED:
            break
    if not path.endswith(".jsonl") or not os.path.isfile(path):
        return
    length = os.path.getsize(path)
    tail = filesystem.end_of(path, min(_TAIL, max(0, length - size)))
    yield tail if length - _TAIL <= size else b"\n" + tail.partition(b"\n")[2]


def strip_client_blocks(text: str) -> str:
    """Return a user's text without the blocks that clients put before it."""
    while (block := _BLOCK.match(text)) is not None:
        if block[1] == "task-notification":  # and what follows it is of the client, too
            return ""
        if block[1] in _SPOKEN or (block[1] == "command-args" and len(block[2].split()) >= _WORDS):
            return block[2].strip()
        text = text[block.end() :]
    text = _PLAN.sub("", _REMINDER.sub("", text).strip(), count=1)
    return "" if text.startswith(_NOT_SPOKEN) or _COMMAND.fullmatch(text) else text
