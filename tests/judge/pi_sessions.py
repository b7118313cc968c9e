"""Sessions of pi, written by hand."""

from pathlib import Path
from typing import Any

from model.making import dumps

BEGIN = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-07-14T00:00:00.000Z", "cwd": "/srv/app"}


def entry(number: int, kind: str, minute: int, **fields: Any) -> dict[str, Any]:
    """Return a record."""
    parent = f"{number - 1:08x}" if number > 1 else None
    at = f"2026-07-14T{minute // 60:02d}:{minute % 60:02d}:00.000Z"
    return {"type": kind, "id": f"{number:08x}", "parentId": parent, "timestamp": at, **fields}


def session(
    path: Path, *usages: tuple[int, int], compacted: int | None = None, pause: int = 0, models: str = "",
    system: str = "",
) -> str:  # fmt: skip
    """Write a session and return its path: a prompt and an answer a minute, with these (uncached, read) tokens.

    An answer of (0, 0) was aborted. A compaction follows the first `compacted` answers, and `pause` minutes precede
    it. `models` has the letter of each answer's model. `system` is the recorded system prompt; empty: none.
    """
    records: list[dict[str, Any]] = [BEGIN]
    number = 0
    if system:
        number += 1
        records.append(entry(number, "session_init", 0, systemPrompt=system))
    for step, (uncached, read) in enumerate(usages):
        minute = step + (pause if compacted is not None and step >= compacted else 0)
        if step == compacted:
            number += 1
            fields = {"summary": "The parser was fixed.", "firstKeptEntryId": f"{number - 1:08x}"}
            records.append(entry(number, "compaction", minute, tokensBefore=90_000, **fields))
        usage = {"input": uncached, "cacheRead": read, "cacheWrite": 0, "totalTokens": uncached + read + 40}
        usage["output"] = 40 if uncached + read else 0
        answer = {"role": "assistant", "content": [{"type": "text", "text": "Done."}], "api": "anthropic-messages",
                  "provider": "zai", "model": f"glm-5.2{models[step:][:1]}", "usage": usage,
                  "stopReason": "stop" if uncached + read else "aborted"}  # fmt: skip
        for message in ({"role": "user", "content": [{"type": "text", "text": f"Step {step}."}]}, answer):
            number += 1
            records.append(entry(number, "message", minute, message=message))
    path.write_bytes(b"".join(dumps(record) + b"\n" for record in records))
    return str(path)
