"""Reading logs of agents against parsing their bytes and nothing else.

Those of Codex CLI, Copilot CLI, Cline's family and mini-swe-agent are measured in `recordings.py`, folders in
`session_folders.py`.

Figures come as (measure, bar, measured, met), the fields of a row. Logs are those of the real recordings beside the
project (LORE_CORPUS); of agents that have none there, logs made in the agent's form, of about two kilobytes a record.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import orjson

from bench import clock
from formats import kimi, qwen
from formats.test_swe_agent import SYSTEM, TASK, run, said, seen, step
from fuzz.samples import CORPUS
from lore.formats.agents.gemini import GeminiCliDocument
from lore.formats.agents.qwen import QwenCode
from lore.formats.agents.swe_agent import SweAgent
from lore.formats.base import Reader
from lore.formats.kimi.code import KimiCode
from lore.formats.opencode.reader import OpenCode
from lore.formats.pi.reader import Pi

PIECE = 256 * 1024  # bytes at a time
LEAST = 4_000_000  # bytes that are read for one figure: small logs are read again and again
STEPS = 500  # of a log that is made
LINE = 'def read_file(path: str) -> bytes:\n\t"""Return what a file holds: bytes."""\n'
Fields = tuple[str, str, str, bool | None]
ABSENT = "not measured: no real recordings beside the project (LORE_CORPUS)"


class Log(NamedTuple):
    """An agent's logs: the reader, which files of the corpus are its, or what makes one (and how its name ends)."""

    name: str
    reader: type[Reader]
    files: str
    made: Callable[[], bytes] | None = None


def text(number: int, size: int = 2_000) -> str:
    """What a tool put out: code, never twice the same."""
    return f"{number} {random.Random(number).random()}\n" + LINE * (size // len(LINE))


def qwen_chat() -> bytes:
    """A chat of Qwen Code."""
    made = qwen.Chat().system("t-0", "session_model", {"modelId": qwen.MODEL, "authType": "openai"})
    made.user("u-0", "what is here?")
    for number in range(STEPS):
        call, bill = qwen.call(f"c-{number}"), qwen.usage(10_000 + number, 9_984)
        made.model(f"m-{number}", {"text": text(number, 200)}, call, usage=bill)
        made.result(f"r-{number}", f"c-{number}", text(number))
    return made.data()


def kimi_wire() -> bytes:
    """A log of Kimi Code."""
    made = kimi.Wire().message("what is here?")
    for number in range(STEPS):
        made.step(kimi.text(text(number, 200)), usage=kimi.usage(100, 9_984), calls=(f"c-{number}",))
        made.result(f"c-{number}", text(number))
    return made.data()


def trajectory() -> bytes:
    """A trajectory of SWE-agent: each step holds the whole prompt."""
    steps, query = [], [SYSTEM, TASK]
    for number in range(STEPS // 10):
        steps.append(step(number, *query))
        query += [said(number), seen(number, text(number))]
    return run(*steps)


LOGS = (
    Log("pi", Pi, "pi/*.jsonl"),
    Log("OpenCode", OpenCode, "opencode/*.json"),
    Log("Gemini CLI", GeminiCliDocument, "gemini/*.json"),
    Log("Qwen Code", QwenCode, ".jsonl", qwen_chat),
    Log("Kimi Code", KimiCode, ".jsonl", kimi_wire),
    Log("SWE-agent", SweAgent, ".traj", trajectory),
)


def ratios(folder: Path, pairs: int) -> list[Fields]:
    """Reading logs, in process, on one core, in CPU time."""
    return [ratio(log, folder, pairs) for log in LOGS]


def ratio(log: Log, folder: Path, pairs: int) -> Fields:
    """Reading one agent's logs."""
    measure, bar = f"reading logs of {log.name} against `orjson.loads` of them", "at most 2.5 times"
    paths = sorted(CORPUS.glob(log.files))
    if log.made is not None:
        paths = [folder / f"{log.reader.name}{log.files}"]
        paths[0].write_bytes(log.made())
    if not paths:
        return measure, bar, ABSENT, None
    size = sum(path.stat().st_size for path in paths)
    several = paths * max(1, LEAST // size)
    parse = parse_lines if log.files.endswith(".jsonl") else parse_documents
    found = clock.alternate(lambda: read(log.reader, several), lambda: parse(several), pairs, clock.CPU)
    source = f"{len(paths)} files" if log.made is None else "a log made for it"
    seconds = f"{found.left_seconds:.3f} s against {found.right_seconds:.3f} s"
    times = f" {len(several) // len(paths)} times" if len(several) > len(paths) else ""
    return measure, bar, f"{found}; {seconds} for {source} of {size / 1e6:,.1f} MB{times}", found.median <= 2.5


def read(kind: type[Reader], paths: list[Path]) -> None:
    """Read logs as they come."""
    for path in paths:
        reader = kind()
        with path.open("rb", buffering=0) as file:
            while data := file.read(PIECE):
                reader.feed(data)
        reader.finish()


def parse_lines(paths: list[Path]) -> None:
    """Parse logs line by line, and nothing else."""
    for path in paths:
        with path.open("rb") as file:
            for line in file:
                try:  # noqa: SIM105 - a context manager costs as much as a line
                    orjson.loads(line)
                except ValueError:  # two objects on one line
                    pass


def parse_documents(paths: list[Path]) -> None:
    """Parse documents, and nothing else."""
    for path in paths:
        orjson.loads(path.read_bytes())
