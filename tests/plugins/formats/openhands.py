"""Builds conversations of OpenHands: a state, and events one second apart."""

from __future__ import annotations

import json
from typing import Any

from lore.formats.folders import EVENTS, STATE
from model.making import dumps

MODEL = "anthropic/claude-sonnet-4-5-20250929"


class Talk:
    """A conversation to which tests add events, and usage in the state."""

    def __init__(self, model: str = MODEL, kind: str = "Agent") -> None:
        self.model, self.kind = model, kind
        self.events: list[dict[str, Any]] = []
        self.uses: dict[str, dict[str, Any]] = {}

    def event(self, kind: str, source: str = "agent", **fields: Any) -> Talk:
        number = len(self.events)
        minute, second = divmod(number, 60)
        stamp = f"2026-02-05T11:{minute:02}:{second:02}.500000"
        self.events.append({"id": f"e{number}", "timestamp": stamp, "source": source, **fields, "kind": kind})
        return self

    def system(self, words: str = "You are OpenHands.", kind: str = "SystemPromptEvent", **fields: Any) -> Talk:
        own = {"description": "Run a command.", "kind": "TerminalTool", "title": "terminal"}
        schema = {"type": "object", "properties": {"q": {"type": "string"}}}
        found = {"description": "Search.", "kind": "MCPToolDefinition", "title": "x",
                 "mcp_tool": {"name": "search", "inputSchema": schema}}  # fmt: skip
        return self.event(kind, system_prompt=text(words), tools=[own, found], **fields)

    def user(self, words: str, source: str = "user", *more: str) -> Talk:
        message = {"role": "user", "content": [text(words)], "thinking_blocks": []}
        extended = [text(word) for word in more]
        return self.event("MessageEvent", source, llm_message=message, extended_content=extended)

    def answer(self, words: str, response: str, **fields: Any) -> Talk:
        message = {"role": "assistant", "content": [text(words)], **fields}
        return self.event("MessageEvent", llm_message=message, llm_response_id=response)

    def action(self, call: str, response: str, *thought: str, origin: str = "completion", **fields: Any) -> Talk:
        made = {"id": call, "name": "terminal", "arguments": json.dumps({"command": call}), "origin": origin}
        fields = {"thought": [text(word) for word in thought], "tool_name": "terminal", **fields}
        return self.event("ActionEvent", tool_call_id=call, tool_call=made, llm_response_id=response, **fields)

    def result(self, call: str, words: str = "done", **fields: Any) -> Talk:
        seen = {"content": [text(words)], "is_error": False, "kind": "FinishObservation", **fields}
        return self.event("ObservationEvent", "environment", tool_call_id=call, observation=seen)

    def bill(self, response: str, whole: int, read: int, write: int = 0, use: str = "agent") -> Talk:
        """Add a row of usage to the state."""
        metrics = self.uses.setdefault(use, {"model_name": self.model, "token_usages": [], "response_latencies": []})
        counts = {"prompt_tokens": whole, "completion_tokens": 10, "cache_read_tokens": read}
        row = {"model": self.model, **counts, "cache_write_tokens": write, "response_id": response}
        metrics["token_usages"].append(row)
        metrics["response_latencies"].append({"model": self.model, "latency": 0.25, "response_id": response})
        return self

    def state(self) -> bytes:
        """Return `base_state.json`."""
        agent = {"llm": {"model": self.model, "api_key": "**********"}, "kind": self.kind}
        return dumps({"id": "c-1", "agent": agent, "stats": {"usage_to_metrics": self.uses}})

    def files(self) -> dict[str, bytes]:
        names = (f"{EVENTS}/event-{number:05}-{number:08x}-0000.json" for number in range(len(self.events)))
        return {STATE: self.state(), **dict(zip(names, map(dumps, self.events), strict=True))}

    def pack(self, **instead: bytes) -> bytes:
        """Return the folder as a reader gets it; `instead` replaces files: events as `e3`, the state as `state`."""
        found = b""
        for number, (name, data) in enumerate(self.files().items()):
            data = instead.get("state" if name == STATE else f"e{number - 1}", data)
            header = {"lore_pack": "openhands", "name": name, "size": len(data), "place": True}
            found += dumps(header) + b"\n" + data + b"\n"
        return found


def text(words: str) -> dict[str, Any]:
    return {"cache_prompt": False, "type": "text", "text": words}


def plain() -> Talk:
    """Return a conversation of two requests: two calls at once, and an answer."""
    made = Talk().system().user("what is here?")
    made.action("c-1", "r-1", "I look.").action("c-2", "r-1").bill("r-1", 10_000, 0, 9_000).result("c-1").result("c-2")
    return made.answer("a file", "r-2").bill("r-2", 10_500, 9_000, 1_400)
