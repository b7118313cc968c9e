"""Session logs of Copilot CLI for tests."""

from __future__ import annotations

from typing import Any

from formats.recorded import Recorded
from lore.formats.copilot.reader import Copilot

SYSTEM = "You are the GitHub Copilot CLI."


class Log(Recorded):
    """A log: lines a second apart, each the parent of the next."""

    reader = Copilot

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def line(self, kind: str, data: Any, agent: str = "") -> Log:
        number = len(self.lines) + 1
        minute, second = divmod(number, 60)
        parent = f"e{number - 1}" if number > 1 else None
        members = {"type": kind, "data": data, "id": f"e{number}", "parentId": parent}
        stamp = {"timestamp": f"2026-09-20T10:{minute:02}:{second:02}Z"}
        self.lines.append({**members, **stamp, **({"agentId": agent} if agent else {})})
        return self

    def start(self, model: str | None = "claude-sonnet-5", session: str = "s-1", **fields: Any) -> Log:
        base = {"sessionId": session, "version": 1, "producer": "copilot-agent", "copilotVersion": "1.0.74"}
        chosen = {} if model is None else {"selectedModel": model}
        return self.line("session.start", {**base, "startTime": "2026-09-20T10:00:00Z", **chosen, **fields})

    def system(self, text: str = SYSTEM, agent: str = "") -> Log:
        return self.line("system.message", {"role": "system", "content": text}, agent)

    def user(self, text: str, agent: str = "", **fields: Any) -> Log:
        """Add a message of the user, and its text as the client sends it."""
        whole = f"<current_datetime>now</current_datetime>\n\n{text}"
        data = {"content": text, "transformedContent": whole, "attachments": []}
        return self.line("user.message", {**data, **fields}, agent)

    def answer(
        self, text: str = "", *calls: str, output: int | None = 10, api: str = "", agent: str = "", **fields: Any
    ) -> Log:
        number = len(self.lines) + 1
        requests = [{"toolCallId": call, "name": "bash", "arguments": {"command": "ls"}} for call in calls]
        data = {"messageId": f"m{number}", "apiCallId": api or f"msg_{number}", "content": text}
        data |= {"toolRequests": requests, "model": "claude-sonnet-5"}
        data |= {} if output is None else {"outputTokens": output}
        return self.line("assistant.message", {**data, **fields}, agent)

    def result(self, call: str, text: str = "done", agent: str = "", **fields: Any) -> Log:
        self.line("tool.execution_start", {"toolCallId": call, "toolName": "bash", "arguments": {}}, agent)
        data = {"toolCallId": call, "success": True, "result": {"content": text, "detailedContent": text * 2}}
        return self.line("tool.execution_complete", {**data, **fields}, agent)

    def compact(self, summary: str = "All of it.", **fields: Any) -> Log:
        """Add the end of a compaction, with the usage of its request."""
        used = {"inputTokens": 900, "outputTokens": 90, "cacheReadTokens": 100, "cacheWriteTokens": 700, "duration": 5}
        used["model"] = "claude-sonnet-5"
        data = {"success": True, "preCompactionTokens": 800, "summaryContent": summary, "compactionTokensUsed": used}
        return self.line("session.compaction_complete", {**data, **fields})

    def shutdown(self, **models: Any) -> Log:
        """Add the sums at the end, by model: requests, input, read, written, output."""
        metrics = {}
        for model, (count, whole, read, written, output) in models.items():
            usage = {"inputTokens": whole, "outputTokens": output, "cacheReadTokens": read, "cacheWriteTokens": written}
            metrics[model.replace("_", "-")] = {"requests": {"count": count, "cost": 1}, "usage": usage}
        return self.line("session.shutdown", {"shutdownType": "routine", "modelMetrics": metrics})


def plain() -> Log:
    """Return a session of two requests."""
    log = Log().start().system().user("what is here?").line("assistant.turn_start", {"turnId": "0"})
    log.answer("I look.", "c1", reasoningText="Hm.", reasoningOpaque="c2ln").result("c1")
    return log.line("assistant.turn_end", {"turnId": "0"}).answer("a file", output=7)
