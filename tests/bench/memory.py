"""Peak memory of `lore check` on a big file of request bodies, measured on a process of its own.

Two files, written and deleted one after the other: conversations of 20 turns that grow to the size of a
body, and bodies that have nothing in common.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

BODY = 500_000  # bytes
TURNS = 20
# The kernel reports the peak of a process separately from its children's, so another process starts lore.
PEAK = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def conversations(size: int) -> Iterator[bytes]:
    """Write bodies of about `BODY` bytes, each with a little more than the one before it."""
    chance, written, number = random.Random(3), 0, 0
    while written < size:
        number += 1
        messages = [_message("user", f"{number} {_text(chance, BODY * 9 // 10)}")]
        for _ in range(TURNS):
            line = _line(messages)
            written += len(line)
            yield line
            messages.append(_message("assistant", _text(chance, BODY // 400)))
            messages.append(_message("user", _text(chance, BODY // 400)))
            if written >= size:
                return


def strangers(size: int) -> Iterator[bytes]:
    """Write bodies of about `BODY` bytes that share nothing."""
    chance, written = random.Random(4), 0
    while written < size:
        roles = ("user", "assistant") * 10
        line = _line([_message(role, _text(chance, BODY // 21)) for role in (*roles, "user")])
        written += len(line)
        yield line


def _message(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


def _text(chance: random.Random, size: int) -> str:
    return chance.randbytes(size // 2).hex()


def _line(messages: list[dict[str, str]]) -> bytes:
    body = {"model": "claude-x", "max_tokens": 1000, "system": "Be brief.", "messages": messages}
    return json.dumps(body).encode() + b"\n"


def peak(lines: Iterator[bytes], path: Path, command: tuple[str, ...]) -> int:
    """Return the peak resident memory of `lore check` over these lines, in bytes."""
    with path.open("wb") as file:
        file.writelines(lines)
    try:
        return of_command((*command, "check", str(path)))
    finally:
        path.unlink()


def of_command(
    command: tuple[str, ...], environment: dict[str, str] | None = None, codes: tuple[str, ...] = ("0",)
) -> int:
    """Return the peak resident memory of a command, in bytes: that of the largest of its processes."""
    run = [sys.executable, "-c", PEAK, *command]
    code, most = subprocess.run(run, env=environment, capture_output=True, check=True, text=True).stdout.split()
    if code not in codes:
        raise RuntimeError(f"{command[0]} ended with {code}")
    return int(most) * (1 if sys.platform == "darwin" else 1024)


def both(folder: Path, size: int, command: tuple[str, ...]) -> tuple[int, int]:
    """Return the peak of both files of `size` bytes."""
    path = folder / "memory.jsonl"
    return peak(conversations(size), path, command), peak(strangers(size), path, command)


def measurable() -> bool:
    """Return whether this system reports the peak memory of a process."""
    return os.name == "posix"
