"""Sessions of pi for tests."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from formats.recorded import Recorded
from lore.formats.agents.pi import Pi
from model.making import dumps

START = 1_775_635_200_000  # 2026-04-08T08:00:00Z, in ms


class Pages(Recorded):
    """A session: entries a second apart, each the parent of the next."""

    reader = Pi

    def __init__(self, version: int = 3, **fields: Any) -> None:
        self.version = version
        self.lines: list[dict[str, Any]] = []
        self.leaf: str | None = None
        self.number = 0
        more = {"version": version} if version > 1 else {}
        self.raw({"type": "session", **more, "id": "s-1", "timestamp": self.at, "cwd": "/w", **fields})

    @property
    def at(self) -> str:
        """The time of the next line."""
        return f"{datetime.fromtimestamp(START / 1000 + self.number, UTC):%Y-%m-%dT%H:%M:%S}.000Z"

    def raw(self, line: dict[str, Any]) -> Pages:
        self.lines.append(line)
        self.number += 1
        return self

    def entry(self, kind: str, **fields: Any) -> Pages:
        """Add an entry after the leaf."""
        line: dict[str, Any] = {"type": kind}
        if self.version > 1:
            name = f"{self.number:08x}"
            line |= {"id": name, "parentId": self.leaf}
            self.leaf = name
        return self.raw({**line, "timestamp": self.at, **fields})

    def message(self, role: str, content: Any, **fields: Any) -> Pages:
        message = {"role": role, "content": content, "timestamp": START + self.number * 1000, **fields}
        return self.entry("message", message=message)

    def user(self, text: str) -> Pages:
        return self.message("user", [{"type": "text", "text": text}])

    def answer(self, *blocks: Any, bill: tuple[int, int, int, int] = (10, 0, 100, 5), **fields: Any) -> Pages:
        """Add a response; `bill` counts tokens: uncached, read, written, output."""
        uncached, read, write, output = bill
        usage = {"input": uncached, "output": output, "cacheRead": read, "cacheWrite": write}
        usage |= {"totalTokens": sum(bill), "cost": {"total": 0.1}}
        content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
        base = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-opus-4-5", "usage": usage}
        more = {"stopReason": "stop", "responseId": f"msg_{self.number}"}
        return self.message("assistant", content, **{**base, **more, **fields})

    def result(self, call_id: str, text: str = "done", **fields: Any) -> Pages:
        content = [{"type": "text", "text": text}]
        return self.message("toolResult", content, toolCallId=call_id, toolName="bash", **{"isError": False, **fields})

    def go(self, name: str | None) -> Pages:
        """Continue after another entry."""
        self.leaf = name
        return self

    def data(self) -> bytes:
        return b"".join(written(line) + b"\n" for line in self.lines)


def written(value: Any) -> bytes:
    """Return compact JSON, with lone surrogates as escapes."""
    try:
        return dumps(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def call(call_id: str, command: str = "ls") -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": "bash", "arguments": {"command": command}}


def thought(text: str = "hm", signature: str = "sig") -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "thinkingSignature": signature}


def plain(version: int = 3) -> Pages:
    """Return a session of two requests."""
    log = Pages(version).entry("model_change", provider="anthropic", modelId="claude-opus-4-5")
    log.entry("thinking_level_change", thinkingLevel="medium").user("what is here?")
    log.answer(thought(), "I look.", call("c1"), bill=(10, 0, 5_000, 20), stopReason="toolUse").result("c1")
    return log.answer("a file", bill=(12, 5_000, 100, 5))


def typed_texts(log: Pages) -> list[tuple[str, str]]:
    """Return type and text of each item of the timeline."""
    return [_type_and_text(entry.item) for entry in log.folded().state.main().entries]


def _type_and_text(item: Any) -> tuple[str, str]:
    kind = type(item).__name__
    if kind == "ToolCall":
        return kind, bytes(item.output).decode()
    if kind == "CompactDivider":
        return kind, bytes(item.summary).decode().split("<summary>\\n")[1].split("\\n")[0]
    if kind == "OpaqueItem":
        return kind, ""
    if item.blocks is None:
        return kind, bytes(item.text).decode()
    return kind, " ".join(bytes(block.text).decode() for block in item.blocks if hasattr(block, "text"))
