"""Judging wire captures against parsing them, and explaining one pair of big bodies.

In: a folder and a size. Out: figures as (measure, bar, measured, met). The captures are made here, the same bytes
on every machine: conversations of Anthropic bodies that grow to about 400 KB, each request with the whole history,
some of them with cache breaks, kept as people keep them: text inside JSON Lines, a recording proxy's log, HAR.
"""

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from bench import clock
from bench.generate import pool
from lore.commands.convert import convert_recording
from lore.recording.base import Problems
from lore.recording.opening import Options
from lore.run.checking.check import check

Fields = tuple[str, str, str, bool | None]
TURNS, BLOCK = 40, 5_000  # requests of a conversation; characters that a turn adds, twice
BREAKING = 5  # one conversation in this number has a clock in its system prompt
START = 1_780_000_000
URL = "https://api.anthropic.com/v1/messages"
PAIR_BYTES = 1_000_000
PAIR_LIMIT = 0.030


def conversation(number: int, turns: int = TURNS) -> Iterator[dict[str, Any]]:
    """Yield records of a conversation: body, usage, seconds since the epoch."""
    text = _Text(number)
    tools = [_tool(name, text) for name in ("read_file", "run_tests", "search")]
    messages: list[dict[str, Any]] = []
    sent = new = 0
    for turn in range(turns):
        is_breaking = number % BREAKING == 0
        clock_text = f"It is 2026-03-01 10:{turn:02}." if is_breaking else "It is 2026-03-01."
        messages = [*messages, {"role": "user", "content": [{"type": "text", "text": f"{turn}: {text(BLOCK)}"}]}]
        body = {
            "model": "claude-opus-4-8",
            "max_tokens": 8192,
            "tools": tools,
            "system": [{"type": "text", "text": f"{text.same(6000)} {clock_text}"}],
            "messages": messages,
            "metadata": {"user_id": json.dumps({"session_id": f"bench-{number}"})},
        }
        new += 2 * BLOCK // 4
        usage = {
            "input_tokens": 12,
            "cache_read_input_tokens": 0 if is_breaking else sent,
            "cache_creation_input_tokens": sent + new if is_breaking else new,
            "output_tokens": BLOCK // 4,
        }
        yield {"body": body, "usage": usage, "at": START + number * 10_000 + turn * 60, "id": f"msg_{number}_{turn}"}
        messages = [*messages, {"role": "assistant", "content": [{"type": "text", "text": text(BLOCK)}]}]
        sent, new = sent + new, 0


class _Text:
    """Cut texts from a pool of noise, always the same ones."""

    def __init__(self, seed: int) -> None:
        self._pool = pool(seed)
        self._at = 0

    def __call__(self, size: int) -> str:
        self._at = (self._at + 7919) % (len(self._pool) - size)
        return self._pool[self._at : self._at + size]

    def same(self, size: int) -> str:
        return self._pool[:size]


def _tool(name: str, text: _Text) -> dict[str, Any]:
    fields = {"path": {"type": "string"}, "limit": {"type": "integer"}}
    return {"name": name, "description": text(600), "input_schema": {"type": "object", "properties": fields}}


def _response(record: dict[str, Any]) -> dict[str, Any]:
    said = [{"type": "text", "text": "done"}]
    return {"id": record["id"], "type": "message", "role": "assistant", "content": said, "usage": record["usage"]}


def as_lines(number: int, turns: int) -> bytes:
    """Write a conversation as JSON Lines that keep each body as text."""
    return b"".join(
        orjson.dumps({"timestamp": one["at"], "request": _text(one["body"]), "response": _response(one)}) + b"\n"
        for one in conversation(number, turns)
    )


def as_proxy(number: int, turns: int) -> bytes:
    """Write a conversation as a recording proxy does: bodies parsed and written again."""
    return b"".join(orjson.dumps(_proxied(one)) + b"\n" for one in conversation(number, turns))


def _proxied(one: dict[str, Any]) -> dict[str, Any]:
    request = {"timestamp": one["at"], "method": "POST", "url": URL, "headers": {}, "body": one["body"]}
    response = {"timestamp": one["at"] + 2, "status_code": 200, "headers": {}, "body": _response(one)}
    return {"request": request, "response": response, "logged_at": "2026-03-01T10:00:00Z"}


def as_har(number: int, turns: int) -> bytes:
    """Write a conversation as a browser's or proxy's archive: bodies as text in one document."""
    return orjson.dumps({"log": {"version": "1.2", "entries": list(map(_entry, conversation(number, turns)))}})


def _entry(one: dict[str, Any]) -> dict[str, Any]:
    minutes = one["at"] // 60
    body = {"mimeType": "application/json", "text": _text(one["body"])}
    return {
        "startedDateTime": f"2026-03-{1 + minutes // 1440 % 28:02}T{minutes // 60 % 24:02}:{minutes % 60:02}:00Z",
        "time": 2000,
        "request": {"method": "POST", "url": URL, "headers": [], "postData": body},
        "response": {"status": 200, "headers": [], "content": {"text": _text(_response(one))}},
        "timings": {"send": 1, "wait": 1500, "receive": 499},
    }


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


KINDS = (("lines.jsonl", as_lines), ("proxy.jsonl", as_proxy), ("har", as_har))


def write(folder: Path, size: int, turns: int = TURNS) -> list[Path]:
    """Write captures of all kinds, in turn, up to a size in all."""
    folder.mkdir(exist_ok=True)
    found: list[Path] = []
    written = 0
    while written < size or len(found) < len(KINDS):
        ending, made = KINDS[len(found) % len(KINDS)]
        data = made(len(found), turns)
        found.append(folder / f"{len(found):04}.{ending}")
        found[-1].write_bytes(data)
        written += len(data)
    return found


def parse(path: Path) -> None:
    """Parse a capture, and the bodies that it keeps as text, and do nothing else."""
    with path.open("rb") as file:
        if path.suffix != ".har":
            for line in file:
                request = orjson.loads(line)["request"]
                if isinstance(request, str):
                    orjson.loads(request)
            return
        for entry in orjson.loads(file.read())["log"]["entries"]:
            orjson.loads(entry["request"]["postData"]["text"])
            orjson.loads(entry["response"]["content"]["text"])


def against_parsing(folder: Path, wanted: int, pairs: int) -> list[Fields]:
    """In process, on one core, in CPU time."""
    found = write(folder / "captures", wanted, TURNS if wanted > 10**7 else 3)
    names = [str(path) for path in found]
    megabytes = f"{sum(path.stat().st_size for path in found) / 1e6:,.0f} MB of wire captures"
    try:
        _agrees(names)
        ratios = [
            clock.alternate(run, lambda: [parse(path) for path in found], pairs, clock.CPU)
            for run in (lambda: check(names), lambda: [_convert(name) for name in names])
        ]
    finally:
        for path in found:
            path.unlink()
    fields: list[Fields] = []
    kinds = (("`lore check` over", 1.8), ("`lore convert --to lore` of", 2.5))
    for (what, most), ratio in zip(kinds, ratios, strict=True):
        said = f"{ratio}; {ratio.left_seconds:.2f} s against {ratio.right_seconds:.2f} s"
        measure = f"{what} {megabytes} against `orjson.loads` over them"
        fields.append((measure, f"at most {most} times", said, ratio.median <= most))
    return fields


def _convert(name: str) -> None:
    """Make a session of a capture."""
    for _ in convert_recording(Options().open(name, Problems(), subagents=True)):
        pass


def _agrees(names: list[str]) -> None:
    """Check that the measured work is done: every capture is judged, and those that break are found."""
    summary = check(names).result.summary
    breaking = sum(number % BREAKING == 0 for number in range(len(names)))
    turns = summary.turns // len(names)
    if summary.files != len(names) or summary.waste != breaking * (turns - 1):
        raise RuntimeError(f"the captures are not judged as they were made: {summary}")


def explained(folder: Path, lore: tuple[str, ...], size: int, runs: int) -> Fields:
    """Explain a pair of big bodies with several causes; what that costs beyond a pair of tiny ones."""
    big, tiny = pair(folder, "big", size), pair(folder, "tiny", 2_000)
    clock.process(*lore, "diff-prefix", *big, "--no-tokens")
    times: list[float] = []
    for _ in range(runs):
        one = clock.seconds(lambda: clock.process(*lore, "diff-prefix", *big, "--no-tokens"), clock.WALL)
        other = clock.seconds(lambda: clock.process(*lore, "diff-prefix", *tiny, "--no-tokens"), clock.WALL)
        times.append(one - other)
    middle = statistics.median(times)
    measure = f"`lore diff-prefix --no-tokens` on a pair of {size / 1e6:,.1f} MB bodies beyond a pair of 2 KB"
    said = f"{middle * 1000:.0f} ms ({min(times) * 1000:.0f} to {max(times) * 1000:.0f})"
    return measure, "at most 30 ms", said, middle <= PAIR_LIMIT


def pair(folder: Path, name: str, size: int) -> tuple[str, str]:
    """Write two successive bodies: the clock ticked, a tool moved, an old result was cut, a turn was added."""
    text = _Text(1)
    tools = [_tool(one, text) for one in ("read_file", "run_tests", "search")]
    messages: list[dict[str, Any]] = []
    turn = 0
    while sum(len(str(one)) for one in messages[-2:]) * turn < size:
        call = f"toolu_{turn:04}"
        given = {"type": "tool_use", "id": call, "name": "search", "input": {"path": text(40)}}
        result = {"type": "tool_result", "tool_use_id": call, "content": text(min(3000, size // 4))}
        messages += [{"role": "assistant", "content": [given]}, {"role": "user", "content": [result]}]
        turn += 1
    messages.insert(0, {"role": "user", "content": [{"type": "text", "text": text(500)}]})

    def body(minute: int, tools: list[dict[str, Any]], messages: list[dict[str, Any]]) -> bytes:
        system = [{"type": "text", "text": f"{text.same(600)} It is 10:{minute:02}."}]
        return orjson.dumps({"model": "claude-opus-4-8", "max_tokens": 9, "tools": tools, "system": system,
                             "messages": messages})  # fmt: skip

    cut = json.loads(json.dumps(messages))
    cut[len(cut) // 2 // 2 * 2]["content"][0]["content"] = "[Old tool result content cleared]"
    cut.append({"role": "assistant", "content": [{"type": "text", "text": "done"}]})
    cut.append({"role": "user", "content": [{"type": "text", "text": "go on"}]})
    one, other = folder / f"{name}1.json", folder / f"{name}2.json"
    one.write_bytes(body(1, tools, messages))
    other.write_bytes(body(2, [tools[1], tools[0], tools[2]], cut))
    return str(one), str(other)
