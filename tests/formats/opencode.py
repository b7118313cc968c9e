"""Sessions of OpenCode for tests."""

from __future__ import annotations

import json
from typing import Any

from formats.recorded import Recorded
from lore.formats.agents.opencode import OpenCode

START = 1_775_635_200_000  # 2026-04-08T08:00:00Z, in ms


class Export(Recorded):
    """An export: messages ten seconds apart."""

    reader = OpenCode

    def __init__(self, session: str = "ses_1", **fields: Any) -> None:
        members = {"id": session, "slug": "calm-lagoon", "projectID": "p", "directory": "/w", "title": "t"}
        self.info = {**members, "version": "1.14.30", "time": {"created": START, "updated": START}, **fields}
        self.messages: list[dict[str, Any]] = []
        self.parts = 0

    @property
    def now(self) -> int:
        """The time of the next message, in ms."""
        return START + len(self.messages) * 10_000

    def part(self, kind: str, **fields: Any) -> dict[str, Any]:
        self.parts += 1
        return {"type": kind, "id": f"prt_{self.parts:03}", **fields}

    def message(self, role: str, parts: list[dict[str, Any]], **fields: Any) -> Export:
        name = f"msg_{len(self.messages) + 1:03}"
        info = {"role": role, "id": name, "sessionID": self.info["id"], "time": {"created": self.now}, **fields}
        self.messages.append({"info": info, "parts": parts})
        return self

    def user(self, text: str, *more: dict[str, Any], **fields: Any) -> Export:
        model = {"providerID": "openai", "modelID": "gpt-5.4", "variant": "high"}
        return self.message(
            "user", [self.part("text", text=text), *more], **{"agent": "build", "model": model, **fields}
        )

    def tool(self, call_id: str, output: Any = "done", **fields: Any) -> dict[str, Any]:
        """Return a part with a tool call and its result."""
        time = {"start": self.now + 2_000, "end": self.now + 3_000, **fields.pop("time", {})}
        state = {"status": "completed", "input": {"command": "ls"}, "output": output, "time": time, **fields}
        return self.part("tool", tool="bash", callID=call_id, state=state)

    def answer(self, *parts: Any, bill: tuple[int, int, int] = (100, 0, 5), **fields: Any) -> Export:
        """Add a response of one step; `bill` counts tokens: uncached, read, output."""
        uncached, read, output = bill
        tokens = {"input": uncached, "output": output, "reasoning": 0, "cache": {"read": read, "write": 0}}
        tokens["total"] = sum(bill)
        content = [self.part("text", text=part) if isinstance(part, str) else part for part in parts]
        steps = [self.part("step-start"), *content, self.part("step-finish", reason="stop", tokens=tokens)]
        base = {"agent": "build", "mode": "build", "providerID": "openai", "modelID": "gpt-5.4", "finish": "stop"}
        time = {"created": self.now, "completed": self.now + 4_000}
        return self.message("assistant", steps, **{**base, "time": time, "tokens": tokens, "cost": 0, **fields})

    def data(self) -> bytes:
        return json.dumps({"info": self.info, "messages": self.messages}, indent=2).encode()


def plain() -> Export:
    """Return a session of two requests."""
    export = Export().user("what is here?")
    export.answer(
        export.part("reasoning", text="hm", metadata={"openai": {"itemId": "rs_1"}}), "I look.", export.tool("c1")
    )
    return export.answer("a file", bill=(20, 96, 5))


def compacted(**marker: Any) -> Export:
    """Return a session with a compaction after two requests."""
    export = plain().user("two").answer("b", bill=(30, 120, 5))
    export.message("user", [export.part("compaction", auto=True, overflow=False, **marker)], agent="build")
    export.answer("## Goal\nall", bill=(140, 0, 30), agent="compaction", mode="compaction", summary=True)
    return export.user("go on").answer("c", bill=(50, 64, 5))
