"""A compaction in a log counts from the request whose usage shows a shorter prompt."""

from __future__ import annotations

import pytest

from cli.running import lore
from model.making import dumps

BEGIN = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-07-14T00:00:00.000Z", "cwd": "/srv/app"}


def entry(number, kind, minute, **fields):
    parent = f"{number - 1:08x}" if number > 1 else None
    at = f"2026-07-14T{minute // 60:02d}:{minute % 60:02d}:00.000Z"
    return {"type": kind, "id": f"{number:08x}", "parentId": parent, "timestamp": at, **fields}


def session(path, *usages, compacted):
    """Write a session of pi: a prompt and an answer a minute; a compaction after the first `compacted` answers."""
    records, number = [BEGIN], 0
    for minute, (uncached, read) in enumerate(usages):
        if minute == compacted:
            number += 1
            fields = {
                "summary": "The parser was mended.",
                "firstKeptEntryId": f"{number - 1:08x}",
                "tokensBefore": 90_000,
            }
            records.append(entry(number, "compaction", minute, **fields))
        usage = {
            "input": uncached,
            "cacheRead": read,
            "cacheWrite": 0,
            "output": 40,
            "totalTokens": uncached + read + 40,
        }
        answer = {"role": "assistant", "content": [{"type": "text", "text": "Done."}], "api": "anthropic-messages",
                  "provider": "zai", "model": "glm-5.2", "usage": usage, "stopReason": "stop"}  # fmt: skip
        for message in ({"role": "user", "content": [{"type": "text", "text": f"Step {minute}."}]}, answer):
            number += 1
            records.append(entry(number, "message", minute, message=message))
    path.write_bytes(b"".join(dumps(one) + b"\n" for one in records))
    return str(path)


@pytest.mark.parametrize(("usages", "found"), [
    ([(90_000, 0), (400, 90_000), (9_000, 2_000), (60, 11_000)], [(3, "LORE125")]),  # it shortens the next prompt
    ([(90_000, 0), (400, 90_000), (90_800, 0), (60, 90_800), (9_000, 2_000)], [(3, "LORE301"), (5, "LORE125")]),
    ([(90_000, 0), (400, 90_000), (400, 90_400), (60, 90_800), (9_000, 2_000)], [(5, "LORE125")]),
])  # fmt: skip
@pytest.mark.parametrize("command", ["check", "simulate"])
def test_compaction_counts_from_the_shortened_prompt(tmp_path, usages, found, command):
    said = lore(command, session(tmp_path / "a.jsonl", *usages, compacted=2), "--json").json
    if command == "check":
        assert [(one["turn"], one["code"]) for one in said["findings"]] == found
    else:
        assert [(turn["turn"], cause["code"]) for turn in said["turns"] for cause in turn["causes"]] == found
