"""Makes logs of Kimi Code."""

from __future__ import annotations

from typing import Any

from formats.recorded import Recorded
from lore.formats.agents.kimi import KimiCode

MODEL = "kimi-k3"
START = 1_782_295_300_000


class Wire(Recorded):
    """A log that grows; records are a second apart."""

    reader = KimiCode

    def __init__(self, version: str = "1.5") -> None:
        self.lines: list[dict[str, Any]] = [{"type": "metadata", "protocol_version": version, "created_at": START}]
        self.steps = 0

    def record(self, record: str, **fields: Any) -> Wire:
        """Add a record."""
        self.lines.append({"type": record, **fields, "time": START + 1000 * len(self.lines)})
        return self

    def event(self, kind: str, **fields: Any) -> Wire:
        """Add an event of a step."""
        return self.record("context.append_loop_event", event={"type": kind, "turnId": "0", **fields})

    def message(self, text: str, kind: str = "user", role: str = "user") -> Wire:
        """Add a message to the history."""
        message = {"role": role, "content": [{"type": "text", "text": text}], "toolCalls": [], "origin": {"kind": kind}}
        return self.record("context.append_message", message=message)

    def request(self, tools: str = "h1") -> Wire:
        """Add the record of a request."""
        fields = {"kind": "loop", "provider": "kimi", "model": MODEL, "thinkingEffort": "high", "toolSelect": False}
        return self.record("llm.request", **fields, systemPromptHash="s1", toolsHash=tools, messageCount=1)

    def step(self, *parts: dict[str, Any], usage: dict[str, int] | None = None, calls: tuple[str, ...] = ()) -> Wire:
        """Add a step with its parts and calls, its usage, and the record that repeats it."""
        self.steps += 1
        step = f"step-{self.steps}"
        self.event("step.begin", uuid=step, step=self.steps).request()
        for number, part in enumerate(parts):
            self.event("content.part", uuid=f"{step}-p{number}", stepUuid=step, step=self.steps, part=part)
        for call in calls:
            args = {"path": "a.py"}
            self.event("tool.call", uuid=f"{step}-{call}", stepUuid=step, toolCallId=call, name="Read", args=args)
        bill = {} if usage is None else {"usage": usage}
        self.event(
            "step.end", uuid=step, step=self.steps, finishReason="end_turn", messageId=f"chatcmpl-{step}", **bill
        )
        return self if usage is None else self.record("usage.record", model=MODEL, usage=usage, usageScope="turn")

    def result(self, call: str, output: Any = "done", **fields: Any) -> Wire:
        """Add the result of a call."""
        return self.event("tool.result", parentUuid="x", toolCallId=call, result={"output": output, **fields})


def usage(other: int, read: int, output: int = 10, write: int = 0) -> dict[str, int]:
    """Return usage; `other` is input without cache reads and writes."""
    return {"inputOther": other, "output": output, "inputCacheRead": read, "inputCacheCreation": write}


def text(value: str) -> dict[str, str]:
    """Return a part that is text."""
    return {"type": "text", "text": value}


def plain() -> Wire:
    """Return a session of two requests: a call, and an answer."""
    tools = [{"name": "Read", "description": "Reads.", "parameters": {"type": "object"}}]
    log = Wire().record("config.update", systemPrompt="You are Kimi.", modelAlias="kimi", thinkingEffort="high")
    log.record("llm.tools_snapshot", hash="h1", tools=tools).record("turn.prompt", input=[], origin={"kind": "user"})
    log.message("what is here?")
    log.step({"type": "think", "think": "Let me look."}, text("I look."), usage=usage(10_000, 0), calls=("c-1",))
    return log.result("c-1").step(text("a file"), usage=usage(216, 9_984))
