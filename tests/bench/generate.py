"""Write a session log of N turns, for benchmarks and soak tests.

In: a number of turns. Out: a lore log, the same bytes for the same number on every machine, about 10 KB
a turn: a user message, text and one or two tool calls of the model, their results, a turn with a little
context and a plausible bill. Nothing is cleared or taken back, and nothing compacted unless it is asked for:
every turn extends the one before, so that the last prompt of 10,000 turns holds about 100 MB.

Run it to keep a log: `python tests/bench/generate.py 1000 session.jsonl`.
"""

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

POOL_BYTES = 1 << 20  # texts are cut from this much noise; a turn's number makes each one distinct
BYTES_PER_TOKEN = 4
UNCACHED, ANSWER = 12, 620  # tokens of a turn that are neither read nor written, and that the model writes
_NOISE = """
the a of to and in is it for on with as was at by be this that from are not or an if else return def class
import module function value state event prompt cache prefix bytes segment turn session error warning test
assert passes fails expected actual path file line offset index count total 0 1 read write open close begin
end left right equal differ "quoted" \\escaped naïve Straße 日本語
"""
_WORDS = (*_NOISE.split(), "\n", "\n\n", "\t")
_TOOLS = (
    ("read_file", {"path": {"type": "string"}, "offset": {"type": "integer"}}),
    ("run_tests", {"target": {"type": "string"}, "verbose": {"type": "boolean"}}),
    ("search", {"pattern": {"type": "string"}, "glob": {"type": "string"}}),
)


def lines(turns: int, seed: int = 1, *, name: str = "bench", compact_every: int = 0) -> Iterator[bytes]:
    """Yield the lines of a log, each with its line feed; compact the session after every `compact_every` turns."""
    made = _Session(seed)
    yield made.header(name)
    for turn in range(1, turns + 1):
        yield from made.turn(turn)
        if compact_every and turn % compact_every == 0:
            yield made.compaction(turn)


def write(path: Path, turns: int, seed: int = 1) -> int:
    """Write a log; return its size in bytes."""
    with path.open("wb") as file:
        file.writelines(lines(turns, seed))
    return path.stat().st_size


class _Session:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._pool = _noise(self._random)
        self._sent = self._new = self._header = 0  # bytes: cached, not yet, of the first line

    def header(self, name: str) -> bytes:
        tools = [
            {"name": name, "description": self._text(600), "input_schema": {"type": "object", "properties": fields}}
            for name, fields in _TOOLS
        ]
        line = self._line(
            kind="session_started", v=1, session_id=name, at=_time(0), model="claude-opus-4-8",
            dialect="anthropic", system=self._text(6000), tools=tools, params={"max_tokens": 8192},
        )  # fmt: skip
        self._header = len(line)
        return line

    def compaction(self, number: int) -> bytes:
        """All messages are left out from here on: the system prompt and the tools stay."""
        line = self._line(kind="compact_applied", uuid=f"c{number}", trigger="auto")
        self._sent, self._new = self._header, 0
        return line

    def turn(self, number: int) -> Iterator[bytes]:
        """One request: what the user said, the answer, its calls, their results."""
        at = number * 60
        yield self._append({"type": "user_message", "uuid": f"u{number}", "text": f"{number}: {self._text(700)}"})
        context = {"current_time": _time(at), "working_context": {"project_dir": "/srv/app", "recent_files": ["a.py"]}}
        asked = self._sent + self._new
        usage = {
            "uncached_tokens": UNCACHED,
            "read_tokens": self._sent // BYTES_PER_TOKEN,
            "write_tokens": self._new // BYTES_PER_TOKEN,
            "output_tokens": ANSWER,
        }
        yield self._line(kind="turn_started", turn=number, at=_time(at), context=context)
        self._sent, self._new = asked, 0
        response = f"r{number}"
        answer = f"{number}. {self._text(1300)}"
        yield self._append({"type": "assistant_message", "uuid": f"a{number}", "text": answer, "response_id": response})
        for place in range(1 + number % 2):
            yield from self._call(f"{number}-{place}", response, 6600 // (1 + number % 2))
        yield self._line(kind="turn_completed", turn=number, at=_time(at + 20), usage=usage)

    def _call(self, name: str, response: str, size: int) -> Iterator[bytes]:
        tool, fields = _TOOLS[self._random.randrange(len(_TOOLS))]
        given = {field: self._text(60) for field in fields}
        yield self._append(
            {"type": "tool_call", "uuid": f"t{name}", "call_id": f"c{name}", "name": tool, "input": given,
             "status": "running", "response_id": response}
        )  # fmt: skip
        output = f"{name}: {self._text(size)}"
        yield self._line(kind="patch_tool_call", call_id=f"c{name}", status="completed", output=output)

    def _append(self, item: dict[str, object]) -> bytes:
        return self._line(kind="append", item=item)

    def _line(self, **record: object) -> bytes:
        data = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self._new += len(data)
        return data

    def _text(self, size: int) -> str:
        start = self._random.randrange(len(self._pool) - size)
        return self._pool[start : start + size]


def pool(seed: int) -> str:
    """Return about a megabyte of words, always the same for a seed."""
    return _noise(random.Random(seed))


def _noise(chance: random.Random) -> str:
    words = chance.choices(_WORDS, k=POOL_BYTES // 5)
    return " ".join(words)


def _time(seconds: int) -> str:
    days, rest = divmod(seconds, 86400)
    months, day = divmod(days, 28)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{2025 + months // 12}-{months % 12 + 1:02}-{day + 1:02}T{clock}Z"


if __name__ == "__main__":
    if len(sys.argv) != 3 or not sys.argv[1].isdigit():
        sys.exit("usage: generate.py TURNS FILE")
    size = write(Path(sys.argv[2]), int(sys.argv[1]))
    print(f"{sys.argv[2]}: {sys.argv[1]} turns, {size:,} bytes")
