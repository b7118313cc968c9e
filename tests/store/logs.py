"""Helpers for tests of `jsonl:` stores: a store that keeps its messages, and events to store."""

import json
from pathlib import Path

from lore.store.base import Head, SessionDelta
from lore.store.jsonl import Jsonl


def header(session_id: str = "s", **more: object) -> bytes:
    """Return the first line of a session."""
    return json.dumps({"kind": "session_started", "session_id": session_id, **more}).encode()


def message_line(text: str) -> bytes:
    """Return a message of the user; its text is its uuid."""
    return b'{"kind":"append","item":{"kind":"user_message","uuid":"%b","text":"%b"}}' % (text.encode(), text.encode())


class Logs(Jsonl):
    """A store in a folder; `messages` are those for the user."""

    def __init__(self, folder: Path, patience: float = 10.0) -> None:
        self.messages: list[str] = []
        super().__init__(str(folder), f"jsonl:{folder}", self.messages.append, patience=patience)

    def say(self, *texts: str, session_id: str = "s", base: Head | None = None, **more: object) -> Head:
        """Add messages of the user after a base, or after the stored head."""
        base = base or self.load(session_id).head
        return self.save_delta(session_id, SessionDelta(base=base, new_events=tuple(map(message_line, texts)), **more))

    def events(self, session_id: str = "s") -> tuple[bytes, ...]:
        """Return a session's events."""
        return self.load(session_id).events


def begin_store(folder: Path, *texts: str) -> Logs:
    """Return a store with session `s`, each text in a delta of its own."""
    store = Logs(folder)
    store.create(header())
    for text in texts:
        store.say(text)
    return store


def visible(folder: Path) -> list[str]:
    """Return the names of a folder's files, without locks and files that are being written."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
