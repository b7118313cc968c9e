"""Pairs of requests: bodies, and the causes that lore finds between two of them."""

from typing import Any

from lore.model.cause import Cause
from lore.model.state import Change
from lore.model.turn import Call
from lore.prefix.causes import find_causes
from lore.prefix.likeness import drop_unrendered
from lore.prefix.overlap import compare_prompts
from model.making import parsed

TOOL = {"name": "read", "description": "Reads a file.", "input_schema": {"type": "object"}}
OTHER_TOOL = {"name": "write", "description": "Writes a file.", "input_schema": {"type": "object"}}


def explain(
    previous: Any, current: Any, *changes: str, dialect: str = "anthropic", endpoint: str = "", **options: Any
) -> tuple[Cause, ...]:
    """Return the causes between two bodies; `changes` are codes that the session recorded between them."""
    prompts = [drop_unrendered(parsed(body, dialect), endpoint) for body in (previous, current)]
    calls = {"previous_call": Call(endpoint=endpoint), "current_call": Call(endpoint=endpoint), **options}
    return find_causes(*prompts, compare_prompts(*prompts), [Change(code, code) for code in changes], **calls)


def codes(previous: Any, current: Any, *changes: str, **options: Any) -> list[str]:
    """Return the codes of the causes between two bodies."""
    return [cause.code for cause in explain(previous, current, *changes, **options)]


def text(words: str, **fields: Any) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": words, **fields}


def user(*blocks: Any) -> dict[str, Any]:
    """A user's message of blocks."""
    return {"role": "user", "content": [text(block) if isinstance(block, str) else block for block in blocks]}


def model(*blocks: Any) -> dict[str, Any]:
    """An answer of the model."""
    return {**user(*blocks), "role": "assistant"}


def tool_use(value: Any = None, call_id: str = "toolu_1", name: str = "read") -> dict[str, Any]:
    """A call of a tool."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"path": "a.py"} if value is None else value}


def tool_result(content: Any = "def parse(text): ...", call_id: str = "toolu_1", **fields: Any) -> dict[str, Any]:
    """A tool's result."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}
