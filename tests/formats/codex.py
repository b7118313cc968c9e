"""Makes lines of Codex rollouts."""

from __future__ import annotations

from typing import Any

from formats.recorded import Recorded
from lore.formats.codex.reader import Codex
from model.making import dumps

BASE = "You are a coding agent."


class Rollout(Recorded):
    """A rollout that grows; lines are a second apart."""

    reader = Codex

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.second = 0
        self.sums = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0, "total_tokens": 0}

    def line(self, kind: str, payload: Any, **fields: Any) -> Rollout:
        """Add a line."""
        self.second += 1
        minute, second = divmod(self.second, 60)
        at = f"2026-04-08T08:{minute:02}:{second:02}.000Z"
        self.lines.append({"timestamp": at, "type": kind, "payload": payload, **fields})
        return self

    def meta(self, thread: str = "t-1", **fields: Any) -> Rollout:
        """Add the header of a thread; a second one resumes it."""
        base = {"id": thread, "timestamp": "2026-04-08T08:00:00.000Z", "cwd": "/w", "originator": "codex-tui"}
        more = {"cli_version": "0.140.0", "source": "cli", "model_provider": "openai"}
        return self.line("session_meta", {**base, **more, "base_instructions": {"text": BASE}, **fields})

    def context(self, model: str = "gpt-5.4", **fields: Any) -> Rollout:
        """Add the context of a user's turn."""
        base = {"turn_id": "x", "cwd": "/w", "current_date": "2026-04-08", "timezone": "UTC", "model": model}
        more = {"approval_policy": "never", "sandbox_policy": {"type": "read-only"}, "effort": "high"}
        return self.line("turn_context", {**base, **more, **fields})

    def item(self, kind: str, **fields: Any) -> Rollout:
        """Add an item of the history."""
        return self.line("response_item", {"type": kind, **fields})

    def event(self, kind: str, **fields: Any) -> Rollout:
        """Add an event for the screen."""
        return self.line("event_msg", {"type": kind, **fields})

    def message(self, role: str, *texts: str) -> Rollout:
        """Add a message."""
        kind = "output_text" if role == "assistant" else "input_text"
        return self.item("message", role=role, content=[{"type": kind, "text": text} for text in texts])

    def user(self, text: str) -> Rollout:
        """Add a prompt of the user, and the event that repeats it."""
        return self.message("user", text).event("user_message", message=text, images=[])

    def thought(self) -> Rollout:
        """Add reasoning."""
        return self.item("reasoning", summary=[], content=None, encrypted_content="c2VjcmV0", id="rs_1")

    def call(self, call_id: str, command: str = "ls") -> Rollout:
        """Add a call of the shell."""
        arguments = dumps({"command": command}).decode()
        return self.item("function_call", name="shell", arguments=arguments, call_id=call_id)

    def result(self, call_id: str, output: Any = "done") -> Rollout:
        """Add the result of a call."""
        return self.item("function_call_output", call_id=call_id, output=output)

    def count(self, whole: int, read: int, output: int = 10, **more: int) -> Rollout:
        """Add usage, and an event with the sums."""
        last = {"input_tokens": whole, "cached_input_tokens": read, "output_tokens": output, **more}
        last["total_tokens"] = whole + output
        self.sums = {name: self.sums.get(name, 0) + count for name, count in last.items()}
        return self.repeat_counts(last)

    def repeat_counts(self, last: dict[str, int]) -> Rollout:
        """Add an event with the sums as they are."""
        info = {"total_token_usage": dict(self.sums), "last_token_usage": last, "model_context_window": 258_400}
        return self.event("token_count", info=info, rate_limits={"primary": None})

    def recorded(self, response: str, whole: int, read: int, output: int = 10, **fields: Any) -> Rollout:
        """Add a usage record, as newer logs have it."""
        usage = {"input_tokens": whole, "cached_input_tokens": read, "output_tokens": output}
        usage |= {"cache_write_input_tokens": 0, "reasoning_output_tokens": 0, "total_tokens": whole + output}
        base = {"session_id": "t-1", "thread_id": "t-1", "turn_id": "x", "response_id": response, "usage": usage}
        return self.line("token_usage_record", {**base, **fields})


def plain() -> Rollout:
    """Return a session of two requests: a call, and an answer."""
    log = Rollout().meta().event("task_started", turn_id="x", model_context_window=258_400)
    log.message("developer", "<permissions instructions>\nread only\n</permissions instructions>")
    log.message("user", "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>").context()
    log.user("what is here?").event("token_count", info=None, rate_limits={})
    log.thought().message("assistant", "I look.").call("c1").result("c1").count(10_000, 2_432)
    return log.thought().message("assistant", "a file").count(10_200, 9_984)
