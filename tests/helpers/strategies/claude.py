"""Claude Code logs as the program writes them."""

from typing import Any

from hypothesis import strategies as st

from helpers.strategies.logs import _oddly
from helpers.strategies.spelling import styles, texts, values, write

# Claude Code


class _Claude:
    """Write a Claude Code log as the program does."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.lines: list[Any] = []
        self.number = 0
        self.last: dict[str, str | None] = {}
        self.prompts: list[tuple[str, str | None]] = []

    def line(self, kind: str, chain: str = "main", **more: Any) -> str:
        self.number += 1
        uuid = f"id-{self.number}"
        record = {
            "parentUuid": self.last.get(chain), "isSidechain": chain != "main", "sessionId": "s-1", "type": kind,
            "uuid": uuid, "timestamp": f"2026-01-01T00:{self.number % 60:02}:00.000Z", **more,
        }  # fmt: skip
        if chain.startswith("agent"):
            record["agentId"] = chain
        self.lines.append(record)
        self.last[chain] = uuid
        return uuid

    def prompt(self, chain: str) -> None:
        parent = self.last.get(chain)
        content = self.draw(texts) if self.draw(st.booleans()) else [{"type": "text", "text": self.draw(texts)}]
        uuid = self.line("user", chain, message={"role": "user", "content": content})
        if chain == "main":
            self.prompts.append((uuid, parent))

    def rewind(self, chain: str) -> None:
        if chain == "main" and self.prompts:
            self.last[chain] = self.prompts[-1][1]
            self.prompt(chain)

    def answer(self, chain: str) -> None:
        response = {
            "id": f"msg-{self.number}",
            "role": "assistant",
            "model": self.draw(st.sampled_from(["m-1", "m-2"])),
        }
        usage = {
            "input_tokens": 3,
            "cache_read_input_tokens": 900,
            "cache_creation_input_tokens": 20,
            "output_tokens": 5,
        }
        content: list[dict[str, Any]] = []
        if self.draw(st.booleans()):
            content.append({"type": "thinking", "thinking": self.draw(texts), "signature": "c2ln"})
        content.append({"type": "text", "text": self.draw(texts)})
        calls = [f"toolu-{self.number}-{n}" for n in range(self.draw(st.integers(0, 2)))]
        content += [
            {"type": "tool_use", "id": call_id, "name": "Read", "input": {"v": self.draw(values)}} for call_id in calls
        ]
        for block in content:
            self.line("assistant", chain, message={**response, "content": [block], "usage": usage})
        for call_id in calls:
            result = {"tool_use_id": call_id, "type": "tool_result", "content": self.draw(texts)}
            self.line("user", chain, message={"role": "user", "content": [result]}, toolUseResult="x")

    def compact(self, chain: str) -> None:
        meta: dict[str, Any] = {"trigger": "auto", "preTokens": 1000}
        if self.draw(st.booleans()):
            meta["preservedMessages"] = {"anchorUuid": "a", "uuids": [f"id-{self.number}", "id-none"]}
        self.last[chain] = None
        self.line("system", chain, subtype="compact_boundary", compactMetadata=meta, logicalParentUuid="id-1")
        if self.draw(st.booleans()):
            summary = {"role": "user", "content": self.draw(texts)}
            self.line("user", chain, isCompactSummary=True, isVisibleInTranscriptOnly=True, message=summary)

    def micro(self, chain: str) -> None:
        meta = {"trigger": "auto", "compactedToolIds": [f"toolu-{self.number}-0", "toolu-none"]}
        self.line("system", chain, subtype="microcompact_boundary", microcompactMetadata=meta)

    def attachment(self, chain: str) -> None:
        self.line("attachment", chain, attachment={"type": "file", "content": self.draw(values)})

    def metadata(self, _: str) -> None:
        self.lines.append({"type": "file-history-snapshot", "messageId": "m", "snapshot": {}})

    def odd(self, chain: str) -> None:
        self.line("brand-new", chain, anything=self.draw(values))

    def synthetic(self, chain: str) -> None:
        message = {"id": "x", "model": "<synthetic>", "role": "assistant", "content": [{"type": "text", "text": "err"}]}
        self.line("assistant", chain, message=message)


@st.composite
def claude_logs(draw: Any) -> bytes:
    """A Claude Code log, with sidechains, compactions, rewinds, and lines left by a crash."""
    author = _Claude(draw)
    author.prompt("main")
    names = ("prompt", "answer", "answer", "rewind", "compact", "micro", "attachment", "metadata", "odd", "synthetic")
    for name in draw(st.lists(st.sampled_from(names), max_size=10)):
        getattr(author, name)(draw(st.sampled_from(["main", "main", "agent-7", "side"])))
    style = draw(styles)
    lines = draw(_oddly([write(line, style) for line in author.lines]))
    return b"\n".join(lines) + draw(st.sampled_from([b"\n", b""]))
