"""A session of openfang with messages of a user, a tick, a tool call, and injected context."""

from typing import Any

from model.making import dumps


def line(role: str, content: Any, minute: int | None = None, **more: Any) -> dict[str, Any]:
    at = {} if minute is None else {"timestamp": f"2026-08-01T09:{minute:02d}:00+00:00"}
    return {**at, "role": role, "content": content, **more}


def call(name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "calendar", "input": given}


def result(name: str, output: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": output, "is_error": False, **more}


REFRESH = "[Context refresh \u2014 2026-08-01 09:50 UTC]\nmail: two new"
TALK = [
    line("user", "What is on today?", 0),
    line("assistant", "I look.", 1, tool_use=[call("t1", day="today")]),
    line("user", "", 2, tool_use=[result("t1", "10:00 dentist")]),
    line("assistant", "The dentist at ten.", 3),
    line("user", "[AUTONOMOUS TICK] look at the mail", 20),
    line("assistant", "Nothing new.", 21),
    line("user", REFRESH, 50, source="context_injection"),
    line("user", [{"type": "text", "text": "And tomorrow?"}], 51),
    line("assistant", [{"type": "text", "text": "Free."}], 52),
]
LINES = b"".join(dumps(one) + b"\n" for one in TALK)
