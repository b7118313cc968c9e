"""Builds sessions of Kimi CLI as the client writes them: `wire.jsonl`, and the context files of the model."""

from __future__ import annotations

import json
from typing import Any

from formats.kimi import text
from lore.formats.folders import CONTEXT, WIRE
from model.making import dumps

START = 1_782_295_300.25
SUMMARY = "<system>Previous context has been compacted. Here is the compaction output:</system>"


class KimiSession:
    """A session to which tests add events, one second apart, and messages."""

    def __init__(self, system: str | None = "You are Kimi.", version: str | None = "1.10") -> None:
        self.wire: list[Any] = [] if version is None else [{"type": "metadata", "protocol_version": version}]
        self.context: list[Any] = []
        self.aside: list[list[Any]] = []
        self.events = self.steps = self.checkpoints = 0
        self.system = system
        self._open()

    def _open(self) -> None:
        self.checkpoints = 0
        self.context = [] if self.system is None else [{"role": "_system_prompt", "content": self.system}]

    def event(self, kind: str, **payload: Any) -> KimiSession:
        self.events += 1
        message = {"type": kind, "payload": payload}
        self.wire.append({"timestamp": START + self.events, "message": message})
        return self

    def checkpoint(self) -> None:
        self.context.append({"role": "_checkpoint", "id": self.checkpoints})
        self.checkpoints += 1

    def user(self, words: str) -> KimiSession:
        self.event("TurnBegin", user_input=words)
        self.checkpoint()
        self.context.append({"role": "user", "content": words})
        return self

    def step(
        self, *parts: dict[str, Any], usage: dict[str, int] | None, calls: tuple[str, ...] = (), lost: bool = False,
        output: str = "",
    ) -> KimiSession:  # fmt: skip
        """Add a step: parts, calls with results, usage; `lost` if it was interrupted before the results."""
        self.steps += 1
        self.event("StepBegin", n=self.steps)
        self.checkpoint()
        for part in parts:
            self.event("ContentPart", **part)
        made = [self._call(call) for call in calls]
        for call in made:
            self.event("ToolCall", **call, extras=None)
        whole = sum(count for name, count in usage.items() if name != "output") if usage else 0
        if usage:
            self.context.append({"role": "_usage", "token_count": whole})
        self.event("StatusUpdate", token_usage=usage, message_id=f"chatcmpl-{self.steps}", plan_mode=False)
        if lost:
            return self.event("StepInterrupted")
        for call in calls:
            value = {
                "is_error": False,
                "output": output or f"of {call}",
                "message": "Done.",
                "display": [],
                "extras": None,
            }
            self.event("ToolResult", tool_call_id=call, return_value=value)
        content = parts[0]["text"] if len(parts) == 1 and "text" in parts[0] else list(parts)
        self.context.append({"role": "assistant", "content": content, **({"tool_calls": made} if made else {})})
        if usage:
            self.context.append({"role": "_usage", "token_count": whole + usage["output"]})
        for call in calls:
            content = [text("<system>Done.</system>"), text(output or f"of {call}")]
            self.context.append({"role": "tool", "content": content, "tool_call_id": call})
        return self

    def _call(self, call: str) -> dict[str, Any]:
        function = {"name": "ReadFile", "arguments": json.dumps({"path": call})}
        return {"type": "function", "id": call, "function": function}

    def _rotate(self) -> list[Any]:
        before = self.context
        self.aside.append(before)
        self._open()
        return before

    def compact(self, summary: str, kept: int = 2, *, manual: bool = False) -> KimiSession:
        """Add a compaction that keeps the last messages of user and model."""
        if manual:
            self.event("TurnBegin", user_input="/compact")
        self.event("CompactionBegin")
        before = self._rotate()
        messages = [line for line in before if not line["role"].startswith("_")]
        places = [at for at, line in enumerate(messages) if line["role"] in ("user", "assistant")]
        self.checkpoint()
        self.context += [{"role": "user", "content": [text(SUMMARY), text(summary)]}, *messages[places[-kept] :]]
        self.context.append({"role": "_usage", "token_count": len(summary)})
        return self.event("CompactionEnd")

    def revert(self, checkpoint: int, words: str) -> KimiSession:
        """Go back to a checkpoint and add a message."""
        before = self._rotate()
        at = before.index({"role": "_checkpoint", "id": checkpoint})
        self.context, self.checkpoints = before[:at], checkpoint
        self.checkpoint()
        self.context.append({"role": "user", "content": f"<system>{words}</system>"})
        return self

    def clear(self) -> KimiSession:
        self.event("TurnBegin", user_input="/clear")
        self._rotate()
        return self

    def files(self) -> dict[str, bytes]:
        aside = {f"context_{number}.jsonl": lines(file) for number, file in enumerate(self.aside, 1)}
        return {WIRE: lines(self.wire), **aside, CONTEXT: lines(self.context)}

    def pack(self, **instead: bytes) -> bytes:
        """Return the folder as a reader gets it."""
        found = b""
        for name, data in {**self.files(), **instead}.items():
            header = {"lore_pack": "kimi-cli-session", "name": name, "size": len(data), "place": True}
            found += dumps(header) + b"\n" + data + b"\n"
        return found


def lines(records: list[Any]) -> bytes:
    return b"".join(dumps(record) + b"\n" for record in records)


def counts(other: int, read: int, output: int = 10, write: int = 0) -> dict[str, int]:
    """Return usage as Kimi CLI counts it: `other` is input without cache reads and writes."""
    return {"input_other": other, "output": output, "input_cache_read": read, "input_cache_creation": write}


def plain() -> KimiSession:
    """Return a session of two requests: a call, and an answer."""
    think = {"type": "think", "think": "Let me look.", "encrypted": None}
    made = KimiSession().user("what is here?").step(think, text("I look."), usage=counts(10_000, 0), calls=("c-1",))
    return made.step(text("a file"), usage=counts(216, 9_984))
