"""Sessions of OpenCode 2, made for the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from formats.opencode import START
from lore.formats.opencode.reader import OpenCode
from lore.testing import everything
from recording.sqlite_files import filled

SCHEMA = """
create table session_v2 (id text primary key, parent_id text, project_id text, slug text, version text, directory text,
                         title text, revert text, fork_session_id text, time_created integer, time_updated integer);
create table session_message (id text primary key, session_id text, type text, seq integer, time_created integer,
                              time_updated integer, data text);
"""
GPT = {"providerID": "openai", "id": "gpt-5.4", "variant": "high"}


class Typed:
    """A session that grows: messages ten seconds apart."""

    def __init__(self, session: str = "ses_1", **fields: Any) -> None:
        self.info = {
            "id": session,
            "projectID": "p",
            "location": {"directory": "/w"},
            "time": {"created": START},
            **fields,
        }
        self.messages: list[dict[str, Any]] = []

    @property
    def now(self) -> int:
        """The time of the next message, in ms."""
        return START + len(self.messages) * 10_000

    def message(self, kind: str, **fields: Any) -> Typed:
        """A message."""
        time = {"created": self.now, **fields.pop("time", {})}
        self.messages.append({"id": f"msg_{len(self.messages) + 1:03}", "type": kind, "time": time, **fields})
        return self

    def user(self, text: str, **fields: Any) -> Typed:
        """A prompt of the user's."""
        return self.message("user", text=text, **fields)

    def tool(self, call: str, *texts: str, **state: Any) -> dict[str, Any]:
        """A call that was made, and what came of it."""
        content = [{"type": "text", "text": text} for text in texts]
        own = {"status": "completed", "input": {"command": "ls"}, "content": content, **state}
        time = {"created": self.now, "ran": self.now + 2_000, "completed": self.now + 3_000}
        return {"type": "tool", "id": call, "name": "bash", "state": own, "time": time | own.pop("time", {})}

    def answer(self, *content: Any, bill: tuple[int, int, int] | None = (100, 0, 5), **fields: Any) -> Typed:
        """A response; the bill is what was not read, what was read, and the output."""
        said = [{"type": "text", "text": piece} if isinstance(piece, str) else piece for piece in content]
        counted = {} if bill is None else {"tokens": tokens(*bill)}
        base = {"agent": "build", "model": GPT, "finish": "stop", "time": {"completed": self.now + 4_000}}
        return self.message("assistant", content=said, **{**base, **counted, **fields})

    def data(self) -> bytes:
        """The file, as the client exports it."""
        return json.dumps({"info": self.info, "messages": self.messages}, indent=2).encode()

    def read(self) -> list[Any]:
        """What the reader finds."""
        return [read.value for read in everything(OpenCode(), self.data())]


def tokens(uncached: int, read: int, output: int, reasoning: int = 0) -> dict[str, Any]:
    """Counts as version 2 writes them: no total, reasoning beside the output."""
    return {"input": uncached, "output": output, "reasoning": reasoning, "cache": {"read": read, "write": 0}}


def plain() -> Typed:
    """A session of two requests: a call, and an answer."""
    made = Typed().message("model-switched", model=GPT).user("what is here?")
    made.answer({"type": "reasoning", "text": "hm", "native": {"itemId": "rs_1"}}, "I look.", made.tool("c1", "a.txt"))
    return made.answer("a file", bill=(20, 96, 5)).message("idle", outcome="succeeded")


def compacted(**fields: Any) -> Typed:
    """A session that was compacted behind two requests, and went on."""
    base = {"status": "completed", "reason": "auto", "summary": "## Goal", "recent": "user: hi", "model": GPT}
    made = plain().message("compaction", **{**base, "tokens": tokens(140, 0, 20, 10), **fields})
    return made.user("go on").answer("c", bill=(50, 64, 5))


def database(path: Path, *sessions: Typed, more: str = "") -> Path:
    """A database that holds these sessions, as version 2 keeps them, the last messages first."""
    rows: list[tuple[str, tuple[Any, ...]]] = []
    for made in sessions:
        own, at = made.info, made.info["time"]["created"]
        revert = json.dumps(own["revert"]) if "revert" in own else None
        row = (own["id"], own.get("parentID"), "p", "calm", "2.0.25", "/w", "t", revert, None, at, at)
        rows.append(("insert into session_v2 values (?,?,?,?,?,?,?,?,?,?,?)", row))
        for seq, message in reversed(list(enumerate(made.messages, 1))):
            data = json.dumps({name: value for name, value in message.items() if name not in ("id", "type")})
            at = message["time"]["created"]
            row = (f"{own['id']}-{message['id']}", own["id"], message["type"], seq, at, at, data)
            rows.append(("insert into session_message values (?,?,?,?,?,?,?)", row))
    return filled(path, SCHEMA + more, rows)
