"""Chats of Qwen Code, made for the tests."""

from __future__ import annotations

from typing import Any

from formats.recorded import Recorded
from lore.formats.agents.qwen import QwenCode

MODEL = "qwen3-coder-plus"


class Chat(Recorded):
    """A chat that grows: records a second apart, one after another."""

    reader = QwenCode

    def __init__(self, **base: Any) -> None:
        self.base = {"sessionId": "s-1", "cwd": "/w", "version": "0.20.0", **base}
        self.lines: list[dict[str, Any]] = []
        self.last: str | None = None

    def record(self, kind: str, name: str, **fields: Any) -> Chat:
        """Any record; `parent` names another one than the last."""
        minute, second = divmod(len(self.lines) + 1, 60)
        at = f"2026-10-14T08:{minute:02}:{second:02}.000Z"
        parent = fields.pop("parent", self.last)
        tree = {"uuid": name, "parentUuid": parent, "timestamp": at, "type": kind}
        self.lines.append({**tree, **self.base, **fields})
        self.last = name
        return self

    def user(self, name: str, text: str, **fields: Any) -> Chat:
        """A prompt of the user's."""
        return self.record("user", name, message=content("user", {"text": text}), **fields)

    def model(self, name: str, *parts: dict[str, Any], usage: Any = None, **fields: Any) -> Chat:
        """An answer."""
        bill = {} if usage is None else {"usageMetadata": usage}
        message = content("model", *parts)
        return self.record("assistant", name, **{"model": MODEL, "message": message, **bill, **fields})

    def result(self, name: str, call: str = "c-1", output: str = "done", *beside: dict[str, Any]) -> Chat:
        """The result of a call."""
        response = {"functionResponse": {"id": call, "name": "read_file", "response": {"output": output}}}
        message = content("user", response, *beside)
        return self.record("tool_result", name, message=message, toolCallResult={"callId": call, "status": "success"})

    def system(self, name: str, subtype: str, payload: Any = None, **fields: Any) -> Chat:
        """A note of the client."""
        return self.record("system", name, subtype=subtype, systemPayload=payload, **fields)


def content(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    """A `Content`."""
    return {"role": role, "parts": list(parts)}


def call(name: str = "c-1") -> dict[str, Any]:
    """A part that calls."""
    return {"functionCall": {"id": name, "name": "read_file", "args": {"path": "a.py"}}}


def usage(whole: int, cached: int, output: int = 10, thoughts: int = 4) -> dict[str, int]:
    """Counts as an API of OpenAI's kind gives them: thoughts are among the output."""
    counts = {"promptTokenCount": whole, "candidatesTokenCount": output, "cachedContentTokenCount": cached}
    return {**counts, "thoughtsTokenCount": thoughts, "totalTokenCount": whole + output}


def plain() -> Chat:
    """A session of two requests: a call, and an answer."""
    chat = Chat().system("t-0", "session_model", {"modelId": MODEL, "authType": "openai"}).user("u-1", "what is here?")
    thought = {"text": "Let me look.", "thought": True}
    chat.model("m-1", thought, {"text": "I look."}, call(), usage=usage(10_000, 0)).result("r-1")
    return chat.model("m-2", {"text": "a file"}, usage=usage(10_200, 9_984))
