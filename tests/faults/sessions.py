"""A session of Claude Code, line by line as the program writes it: prompts, answers and usage.

Rules: a response has one line a block, under one id and with one usage; system prompt and tools are never in it. Only
`wait` and answers advance the clock.
"""

import json
from datetime import UTC, datetime
from typing import Any

START = 1_779_000_000.0  # May 2026
HOUR, SHORT = "1h", "5m"


class Session:
    """Write a log."""

    def __init__(
        self, *, version: str = "2.1.150", model: str = "claude-opus-4-8", ttl: str = HOUR, begin: float = START
    ) -> None:
        self.version, self.model, self.ttl = version, model, ttl
        self.at = begin
        self.lines: list[dict[str, Any]] = []
        self.parents: dict[str, str | None] = {}
        self.calls: list[tuple[str, str]] = []
        self.responses = 0

    def line(self, kind: str, chain: str = "", **fields: Any) -> str:
        """Write a line after the last one of its chain; return its id."""
        uuid = f"u-{len(self.lines) + 1}"
        record: dict[str, Any] = {
            "parentUuid": self.parents.get(chain), "isSidechain": bool(chain), "userType": "external", "cwd": "/w",
            "sessionId": "s-1", "version": self.version, "gitBranch": "main", "type": kind, **fields, "uuid": uuid,
            "timestamp": datetime.fromtimestamp(self.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }  # fmt: skip
        if chain:
            record["agentId"] = chain
        self.lines.append(record)
        self.parents[chain] = uuid
        self.at += 0.01
        return uuid

    def wait(self, seconds: float) -> None:
        """Advance the clock."""
        self.at += seconds

    def ask(self, content: Any = "Go on.", chain: str = "", **fields: Any) -> None:
        """Write a message of a person."""
        self.line("user", chain, message={"role": "user", "content": content}, **fields)

    def answer(
        self, read: int, write: int, uncached: int = 3, *, output: int = 120, calls: tuple[str, ...] = (),
        thinking: bool = True, verdict: str = "", missed: int | None = None, chain: str = "", model: str = "",
        response: str = "", took: float = 2.0, words: str = "Done.", **usage: Any,
    ) -> str:  # fmt: skip
        """Write an answer with thinking, a text and calls; return the response's id."""
        self.at += took
        self.responses += 1
        response = response or f"msg_{self.responses:04}"
        blocks: list[dict[str, Any]] = []
        if thinking:
            blocks.append({"type": "thinking", "thinking": "", "signature": "c2lnbmVk"})
        blocks.append({"type": "text", "text": words})
        self.calls = [(f"toolu_{self.responses:04}_{number}", name) for number, name in enumerate(calls)]
        blocks += [{"type": "tool_use", "id": call, "name": name, "input": {"path": f"{call}.py"}}
                   for call, name in self.calls]  # fmt: skip
        lives = {
            "ephemeral_5m_input_tokens": write if self.ttl == SHORT else 0,
            "ephemeral_1h_input_tokens": write if self.ttl == HOUR else 0,
        }
        bill = {
            "input_tokens": uncached, "cache_creation_input_tokens": write, "cache_read_input_tokens": read,
            "output_tokens": output, "service_tier": "standard", "cache_creation": lives, **usage,
        }  # fmt: skip
        reason = {"type": verdict, "cache_missed_input_tokens": missed} if verdict else None
        for block in blocks:
            message = {
                "model": model or self.model, "id": response, "type": "message", "role": "assistant",
                "content": [block], "stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None,
                "usage": bill, "diagnostics": {"cache_miss_reason": reason},
            }  # fmt: skip
            self.line("assistant", chain, message=message, requestId=f"req_{response}")
        return response

    def results(self, content: Any = "one line of output", chain: str = "") -> None:
        """Write a result for each call."""
        for call, _ in self.calls:
            result = {"tool_use_id": call, "type": "tool_result", "content": content}
            self.line("user", chain, message={"role": "user", "content": [result]}, toolUseResult="x")
        self.calls = []

    def attach(self, kind: str, **fields: Any) -> None:
        """Write an attachment."""
        self.line("attachment", attachment={"type": kind, **fields})

    def compact(self, tokens: int) -> None:
        """Write a compaction with its summary."""
        before = self.parents.get("")
        self.parents[""] = None
        meta = {"trigger": "manual", "preTokens": tokens}
        self.line("system", subtype="compact_boundary", content="Conversation compacted", isMeta=False, level="info",
                  compactMetadata=meta, logicalParentUuid=before)  # fmt: skip
        summary = "This session is being continued from a previous conversation that ran out of context. Summary: all."
        self.ask(summary, isCompactSummary=True, isVisibleInTranscriptOnly=True)

    def clear(self, calls: tuple[str, ...], tokens: int = 0, saved: int = 0) -> None:
        """Write a boundary after which old results are sent as blanks."""
        meta = {"trigger": "auto", "preTokens": tokens, "tokensSaved": saved, "compactedToolIds": list(calls),
                "clearedAttachmentUUIDs": []}  # fmt: skip
        self.line("system", subtype="microcompact_boundary", content="Context microcompacted", isMeta=False,
                  level="info", microcompactMetadata=meta)  # fmt: skip

    def written(self) -> bytes:
        """Return the file."""
        return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in self.lines)
