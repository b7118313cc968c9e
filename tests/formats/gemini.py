"""Chats of Gemini CLI, made for the tests."""

from __future__ import annotations

from typing import Any

from formats.recorded import Recorded, folded
from lore.formats.agents.gemini import GeminiCli, GeminiCliDocument
from model.making import Fold, dumps

MODEL = "gemini-3-flash-preview"


class Chat(Recorded):
    """A chat that grows: records a second apart, as a line each or as one document."""

    reader = GeminiCli

    def __init__(self, session: str = "s-1", **header: Any) -> None:
        base = {"sessionId": session, "projectHash": "ab" * 32, "startTime": "2026-04-14T08:00:00.000Z"}
        self.header = {**base, "lastUpdated": "2026-04-14T09:00:00.000Z", **header}
        self.lines: list[dict[str, Any]] = []
        self.second = 0

    def at(self) -> str:
        """The time of the next record."""
        self.second += 1
        minute, second = divmod(self.second, 60)
        return f"2026-04-14T08:{minute:02}:{second:02}.000Z"

    def message(self, kind: str, name: str, content: Any, **fields: Any) -> Chat:
        """Any message."""
        self.lines.append({"id": name, "timestamp": self.at(), "type": kind, "content": content, **fields})
        return self

    def user(self, name: str, text: str) -> Chat:
        """A prompt of the user's."""
        return self.message("user", name, [{"text": text}])

    def model(self, name: str, text: str = "", tokens: Any = None, **fields: Any) -> Chat:
        """A response, with one thought."""
        thoughts = [{"subject": "Looking", "description": f"{name} looks.", "timestamp": "2026-04-14T08:00:00.500Z"}]
        return self.message("gemini", name, text, **{"model": MODEL, "thoughts": thoughts, "tokens": tokens, **fields})

    def set(self, **fields: Any) -> Chat:
        """Notes of the chat, or another history."""
        self.lines.append({"$set": fields})
        return self

    def rewind(self, name: str) -> Chat:
        """Remove a message and all that follow."""
        self.lines.append({"$rewindTo": name})
        return self

    def data(self) -> bytes:
        """The file, a record a line."""
        return b"".join(dumps(line) + b"\n" for line in (self.header, *self.lines))

    def document(self) -> bytes:
        """The file, as one document."""
        return dumps({**self.header, "messages": self.lines})

    def folded(self, reader: Any = GeminiCli) -> Fold:
        """The session that the records fold to, the reader's problems among the fold's."""
        return folded(reader, self.document() if reader is GeminiCliDocument else self.data())


def tokens(whole: int, cached: int, output: int = 10, thoughts: int = 20, tool: int = 0) -> dict[str, int]:
    """The counts of a response."""
    total = whole + output + thoughts + tool
    return {"input": whole, "output": output, "cached": cached, "thoughts": thoughts, "tool": tool, "total": total}


def call(name: str = "c-1", output: Any = "done", status: str = "success") -> dict[str, Any]:
    """A call, with its result if there is one."""
    response = {"error": output} if status == "cancelled" else {"output": output}
    result = [{"functionResponse": {"id": name, "name": "read_file", "response": response}}]
    base = {"id": name, "name": "read_file", "args": {"file_path": "a.py"}, "status": status}
    return {**base, "result": None if output is None else result, "timestamp": "2026-04-14T08:00:30.000Z"}


def plain() -> Chat:
    """A session of two requests: a call, and an answer. Each response is written as its parts come."""
    chat = Chat().user("u-1", "what is here?").set(lastUpdated="2026-04-14T08:00:01.000Z")
    chat.model("m-1", "I look.").model("m-1", "I look.", tokens(10_000, 0))
    chat.model("m-1", "I look.", tokens(10_000, 0), toolCalls=[call()])
    return chat.model("m-2", "a file").model("m-2", "a file", tokens(10_200, 9_800))


def old() -> Chat:
    """The same session as the older document holds it: each message once."""
    chat = Chat().user("u-1", "what is here?").model("m-1", "I look.", tokens(10_000, 0), toolCalls=[call()])
    return chat.model("m-2", "a file", tokens(10_200, 9_800))
