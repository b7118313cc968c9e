"""Run lore as a user would, in this process or in one of its own."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, TextIO

from lore.commands.main import main
from model.making import dumps, header, log, record, said, user


class Ran(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The answer."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The answers, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


def lore(*args: str, stdin: bytes | None = None) -> Ran:
    """Run in this process; `stdin`, if given, comes through a pipe."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdout, sys.stderr = streams
    try:
        with nullcontext(sys.stdin) if stdin is None else _piped(stdin) as sys.stdin:
            code = main(list(args))
    finally:
        for stream in streams:
            stream.flush()
        sys.stdin, sys.stdout, sys.stderr = before
    out, err = (stream.buffer.getvalue().decode("utf-8") for stream in streams)  # pyright: ignore[reportAttributeAccessIssue]
    return Ran(code, out, err)


@contextmanager
def _piped(data: bytes) -> Iterator[TextIO]:
    """Yield a standard input that gives these bytes as they are written, and then ends."""
    reading, writing = os.pipe()

    def write() -> None:
        with suppress(BrokenPipeError), open(writing, "wb") as pipe:
            pipe.write(data)

    writer = Thread(target=write)
    with open(reading, encoding="utf-8") as pipe:
        writer.start()
        yield pipe
    writer.join()


def process(*args: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> Ran:
    """Run in a process of its own."""
    process = subprocess.run(
        [sys.executable, "-m", "lore", *args], input=stdin, capture_output=True, env=env, check=False, timeout=180
    )
    return Ran(process.returncode, process.stdout.decode("utf-8"), process.stderr.decode("utf-8"))


def put(name: str, *values: Any) -> str:
    """Write a file of JSON lines (or bytes as they are); return its name."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(value if isinstance(value, bytes) else dumps(value) + b"\n" for value in values))
    return name


def session(*extra: dict[str, Any], **fields: Any) -> bytes:
    """A log with two turns."""
    return log(
        header(**{"model": "gpt-4o", "params": {"max_tokens": 9}, **fields}),
        record("append", item=user("u1", "first")),
        record("turn_started", turn=1, at="2026-01-01T00:00:00Z", context={"current_time": "noon"}),
        record("append", item=said("a1", "answer")),
        record(
            "turn_completed",
            turn=1,
            usage={"uncached_tokens": 3, "read_tokens": 0, "write_tokens": 50, "output_tokens": 2},
        ),
        record("append", item=user("u2", "second")),
        record("turn_started", turn=2, at="2026-01-01T00:00:10Z", context={"current_time": "one"}),
        *extra,
    )


def compacted() -> bytes:
    """A log whose compaction keeps one item, with a third turn."""
    return session(
        record("append", item=said("a2", "more")),
        record("compact_applied", uuid="d", trigger="manual", preserved_uuids=["u2"], summary="S"),
        record("turn_started", turn=3),
    )
