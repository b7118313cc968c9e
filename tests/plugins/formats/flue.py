"""Builds sessions of flue: entries, documents, and lines with deltas."""

from typing import Any

from model.making import dumps

Entry = dict[str, Any]


def at(minute: int) -> str:
    return f"2026-05-01T10:{minute % 60:02d}:00.000Z"


def entry(name: str, parent: str | None, message: dict[str, Any], minute: int = 0) -> Entry:
    """An entry of the kind `message`."""
    return {
        "type": "message", "id": name, "parentId": parent, "timestamp": at(minute), "message": message,
        "source": "prompt",
    }  # fmt: skip


def user(name: str, parent: str | None, text: str, minute: int = 0) -> Entry:
    content = [{"type": "text", "text": text}]
    return entry(name, parent, {"role": "user", "content": content, "timestamp": 1}, minute)


def answer(name: str, parent: str | None, text: str = "", minute: int = 0, **more: Any) -> Entry:
    """An answer; `calls` are pairs of a call's id and its arguments, `usage` four counts."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    for call_id, given in more.pop("calls", ()):
        blocks.append({"type": "toolCall", "id": call_id, "name": "read", "arguments": given})
    counts = dict(zip(("input", "cacheRead", "cacheWrite", "output"), more.pop("usage", (1, 2, 3, 4)), strict=True))
    message = {
        "role": "assistant", "content": blocks, "api": "anthropic-messages", "provider": "anthropic",
        "model": "claude-opus-5", "usage": {**counts, "totalTokens": sum(counts.values()), "cost": {"total": 0.1}},
        "stopReason": "stop", "timestamp": 2, **more,
    }  # fmt: skip
    return entry(name, parent, message, minute)


def result(name: str, parent: str, call: str, text: str, minute: int = 0, **more: Any) -> Entry:
    content = [{"type": "text", "text": text}]
    message = {"role": "toolResult", "toolCallId": call, "toolName": "read", "content": content, "isError": False}
    return entry(name, parent, {**message, **more}, minute)


def compaction(name: str, parent: str, summary: str, first_kept: str, minute: int = 0) -> Entry:
    return {
        "type": "compaction", "id": name, "parentId": parent, "timestamp": at(minute), "summary": summary,
        "firstKeptEntryId": first_kept, "tokensBefore": 900, "details": {"readFiles": ["a.py"], "modifiedFiles": []},
    }  # fmt: skip


def header(leaf: str | None) -> dict[str, Any]:
    """The fields of a session without its entries."""
    return {"version": 2, "leafId": leaf, "metadata": {}, "createdAt": at(0), "updatedAt": at(9)}


def document(entries: list[Entry], leaf: str | None) -> dict[str, Any]:
    rest = header(leaf)
    return {"version": rest.pop("version"), "entries": entries, **rest}


def delta(entries: list[Entry], leaf: str | None, removed: tuple[str, ...] = ()) -> dict[str, Any]:
    return {**header(leaf), "newEntries": entries, "removedEntryIds": list(removed)}


def lines(*records: Any) -> bytes:
    return b"".join(dumps(record) + b"\n" for record in records)


BEFORE = [
    user("00000001", None, "What does a.py print?", 0),
    answer("00000002", "00000001", "I read it.", 1, calls=[("c1", {"path": "a.py"})], usage=(3, 0, 1100, 9),
           stopReason="toolUse"),
    result("00000003", "00000002", "c1", "print(1)", 2),
    answer("00000004", "00000003", "It prints 1.", 3, usage=(5, 1103, 20, 4)),
    user("00000005", "00000004", "And b.py?", 4),
]  # fmt: skip
FAILED = answer("00000006", "00000005", "", 5, usage=(0, 0, 0, 0), stopReason="error", errorMessage="overflow")
AFTER = [
    compaction("00000007", "00000005", "a.py prints 1.", "00000005", 6),
    answer("00000008", "00000007", "b.py prints 2.", 7, usage=(2, 0, 1060, 3)),
]
DOCUMENT = dumps(document([*BEFORE, *AFTER], "00000008"))
LINES = lines(header(None), *BEFORE, FAILED, delta(AFTER, "00000008", ("00000006",)))
