"""Request bodies for these tests: a conversation that grows, with a date in its system prompt."""

import json


def body(turns: int, *, day: int = 20, tools: tuple[str, ...] = (), model: str = "claude-opus-5", **more) -> dict:
    """Return the request of a turn of one conversation."""
    said = [
        {"role": "user", "content": f"Question {number // 2}."} if number % 2 == 0 else
        {"role": "assistant", "content": f"Answer {number // 2}."}
        for number in range(2 * turns - 1)
    ]  # fmt: skip
    made = {
        "model": model,
        "max_tokens": 1000,
        "cache_control": {"type": "ephemeral"},
        "system": f"You are a careful engineer. Today is 2026-11-{day}. The project is confparse.",
        "messages": said,
        **more,
    }
    if tools:
        made["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in tools]
    return made


def sent(turns: int, **more) -> bytes:
    """Return the bytes of such a request as a client writes them."""
    return json.dumps(body(turns, **more), separators=(",", ":")).encode()


def recording(*bodies: dict) -> str:
    """Return a recording of these requests as JSON Lines."""
    return "".join(json.dumps({"request": one}) + "\n" for one in bodies)
