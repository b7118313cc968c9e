"""Makes lines of Claude Code logs."""

from typing import Any

from formats import recorded
from lore.formats.claude.reader import ClaudeCode
from lore.testing import everything
from model.making import Fold, dumps


def line(kind: str, uuid: str | None, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a line with its envelope."""
    base = {"type": kind, "sessionId": "s", "timestamp": "2026-01-01T00:00:00Z", "isSidechain": False}
    return {**base, "uuid": uuid, "parentUuid": parent, **fields}


def asked(uuid: str, content: Any, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a user's line."""
    return line("user", uuid, parent, message={"role": "user", "content": content}, **fields)


def answered(uuid: str, response: str | None, block: Any, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return an assistant's line with one block or a text; `usage` is a member of its message."""
    usage, model = fields.pop("usage", None), fields.pop("model", "claude-x")
    content = block if isinstance(block, str) else [block]
    message = {"role": "assistant", "model": model, "id": response, "content": content, "usage": usage}
    message.update(fields.pop("message", {}))
    return line("assistant", uuid, parent, message=message, **fields)


def text(value: str) -> dict[str, Any]:
    """Return a text block."""
    return {"type": "text", "text": value}


def use(call_id: str, name: str = "Bash") -> dict[str, Any]:
    """Return a tool_use block."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"command": "ls"}}


def result(call_id: str, content: Any = "done", **fields: Any) -> dict[str, Any]:
    """Return a tool_result block."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


def counts(uncached: int, read: int, write: int, output: int) -> dict[str, int]:
    """Return a usage object."""
    cached = {"cache_read_input_tokens": read, "cache_creation_input_tokens": write}
    return {"input_tokens": uncached, **cached, "output_tokens": output}


def log_bytes(*lines: dict[str, Any]) -> bytes:
    """Return the file."""
    return b"".join(dumps(line) + b"\n" for line in lines)


def _joined(lines: tuple[dict[str, Any] | bytes, ...]) -> bytes:
    return b"".join(item if isinstance(item, bytes) else dumps(item) + b"\n" for item in lines)


def read(*lines: dict[str, Any] | bytes) -> list[Any]:
    """Return what the reader reads."""
    return [item.value for item in everything(ClaudeCode(), _joined(lines))]


def folded(*lines: dict[str, Any] | bytes) -> Fold:
    """Return the session that the lines fold to, with the problems of reader and fold."""
    return recorded.folded(ClaudeCode, _joined(lines))
