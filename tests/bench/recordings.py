"""The check pipeline over real Claude Code sessions against parsing the same lines and nothing else.

Figures come as (measure, bar, measured, met), the fields of a row. Where there are no real recordings beside the
project (LORE_CORPUS) they say so.
"""

from __future__ import annotations

import itertools
import random
import re
import string
import sys
from collections.abc import Callable
from pathlib import Path

import orjson

from bench import clock, files
from fuzz.samples import CORPUS
from lore.formats.agents.cline import Cline
from lore.formats.agents.swe_agent import MiniSweAgent
from lore.formats.base import Reader
from lore.formats.codex.reader import Codex
from lore.formats.copilot.reader import Copilot
from lore.formats.plain_chat.reader import Chat
from lore.judge.policy import Budgets
from lore.recording.opening import Options
from lore.run.checking.check import check

PIECE = 256 * 1024  # bytes at a time
Fields = tuple[str, str, str, bool | None]
DOCUMENTS = CORPUS
SESSIONS, ROLLOUTS = CORPUS / "claude-code", CORPUS / "codex"
ABSENT = "not measured: no real recordings beside the project (LORE_CORPUS)"
LOOP = """
import os, sys, orjson
for name in sorted(os.listdir(sys.argv[1])):
    with open(os.path.join(sys.argv[1], name), "rb") as file:
        for line in file:
            try:
                orjson.loads(line)
            except ValueError:  # two objects on one line
                pass
"""
# Whatever names a line, a request, a response or a call: copies under other ids are no forks of one another.
_IDS = re.compile(
    rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?<=msg_)\w{8,}|(?<=req_)\w{8,}|(?<=toolu_)\w{8,}"
)


def sessions(most: int | None = None) -> list[Path]:
    """Return the real sessions, the small ones first; of more than `most` bytes in all only the first."""
    found, size = [], 0
    for path in sorted(SESSIONS.glob("*.jsonl"), key=lambda path: (path.stat().st_size, path.name)):
        size += path.stat().st_size
        if found and most is not None and size > most:
            break
        found.append(path)
    return found


def parse(pairs: int, most: int | None) -> Fields:
    """In process, on one core, in CPU time."""
    measure = "the check pipeline on all Claude Code sessions of the corpus against `orjson.loads` over their lines"
    bar = "at most 1.6 times"
    paths = sessions(most)
    if not paths:
        return measure, bar, ABSENT, None
    names = [str(path) for path in paths]
    _loop(paths)
    found = clock.alternate(lambda: check(names, Budgets(), Options()), lambda: _loop(paths), pairs, clock.CPU)
    size = sum(path.stat().st_size for path in paths)
    said = f"{found}; {found.left_seconds:.2f} s against {found.right_seconds:.2f} s for {size / 1e6:,.1f} MB"
    return measure, bar, said, found.median <= 1.6


def rollouts(pairs: int) -> Fields:
    """Reading Codex rollouts, in process, on one core, in CPU time."""
    return _lines(pairs, "all Codex rollouts of the corpus", sorted(ROLLOUTS.glob("*.jsonl")), Codex)


def copilot(pairs: int) -> Fields:
    """Reading Copilot CLI's logs, in process, on one core, in CPU time."""
    return _lines(
        pairs, "all logs of Copilot CLI of the corpus", sorted((DOCUMENTS / "copilot").glob("*.jsonl")), Copilot
    )


def chats(folder: Path, pairs: int, size: int) -> Fields:
    """Reading a plain chat whose messages are as long as those of agents, in process, on one core, in CPU time."""
    rng, path = random.Random(7), folder / "chat.jsonl"
    with path.open("wb") as file:
        for number in itertools.count():
            if file.tell() >= size:
                break
            text = "".join(rng.choices(string.ascii_lowercase + " ", k=rng.randrange(200, 4_200)))
            call = {"id": f"c{number}", "type": "function", "function": {"name": "run", "arguments": "{}"}}
            file.writelines(
                orjson.dumps(message) + b"\n"
                for message in (
                    {"role": "user", "content": text, "timestamp": f"2026-08-01T09:{number % 60:02}:00Z"},
                    {"role": "assistant", "content": text, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": f"c{number}", "content": text},
                )
            )
    return _lines(pairs, "a plain chat of messages of 2,300 bytes on average", [path], Chat)


def _lines(pairs: int, what: str, paths: list[Path], kind: type[Reader]) -> Fields:
    """Read files line by line, against parsing their lines."""
    measure, bar = f"reading {what} against `orjson.loads` over their lines", "at most 2.5 times"
    if not paths:
        return measure, bar, ABSENT, None
    found = clock.alternate(lambda: _read(paths, kind), lambda: _loop(paths), pairs, clock.CPU)
    size = sum(path.stat().st_size for path in paths)
    said = f"{found}; {found.left_seconds:.3f} s against {found.right_seconds:.3f} s for {size / 1e6:,.1f} MB"
    return measure, bar, said, found.median <= 2.5


def documents(pairs: int) -> Fields:
    """Reading documents of mini-swe-agent and Roo Code, in process, on one core, in CPU time."""
    measure = "reading all documents of mini-swe-agent and Roo Code of the corpus against `orjson.loads` of each"
    bar = "at most 2.5 times"
    trajectories = sorted((DOCUMENTS / "mini-swe-agent").glob("*.json"))
    tasks = [path for path in sorted((DOCUMENTS / "cline-roo").glob("*.json")) if "task_metadata" not in path.name]
    if not (trajectories and tasks):
        return measure, bar, ABSENT, None

    def read() -> None:
        _read(trajectories, MiniSweAgent)
        _read(tasks, Cline)

    paths = [*trajectories, *tasks]
    found = clock.alternate(read, lambda: [orjson.loads(path.read_bytes()) for path in paths], pairs, clock.CPU)
    size = sum(path.stat().st_size for path in paths)
    said = f"{found}; {found.left_seconds:.3f} s against {found.right_seconds:.3f} s for {size / 1e6:,.1f} MB"
    return measure, bar, said, found.median <= 2.5


def _read(paths: list[Path], kind: type[Reader]) -> None:
    for path in paths:
        reader = kind()
        with path.open("rb", buffering=0) as file:
            while data := file.read(PIECE):
                reader.feed(data)
        reader.finish()


def _loop(paths: list[Path]) -> None:
    for path in paths:
        with path.open("rb") as file:
            for line in file:
                try:  # noqa: SIM105 - a context manager costs as much as a line
                    orjson.loads(line)
                except ValueError:  # two objects on one line
                    pass


def process(folder: Path, lore: tuple[str, ...], wanted: int, pairs: int) -> Fields:
    """Whole processes, two jobs against one loop, in wall time."""
    measure = "`lore check --jobs 2` over the corpus repeated under other ids against that loop, whole processes"
    bar = "at most 1.1 times"
    if not sessions():
        return measure, bar, ABSENT, None
    size, note = files.affordable(folder, wanted)
    copies = folder / "copies"
    written = write_copies(copies, size)
    run = (*lore, "check", copies, "--jobs", "2")
    loop = (sys.executable, "-c", LOOP, copies)
    try:
        files.warm(*copies.iterdir())
        found = clock.alternate(
            lambda: clock.process(*run, codes=(0, 1, 3)), lambda: clock.process(*loop), pairs, clock.WALL
        )
    except RuntimeError as error:
        return measure, bar, f"not measured: {' '.join(str(error).split())}", False
    finally:
        for path in copies.iterdir():
            path.unlink()
    seconds = f"{found.left_seconds:.2f} s against {found.right_seconds:.2f} s"
    return measure, bar, f"{found}; {seconds} for {written / 1e6:,.0f} MB{note}", found.median <= 1.1


def write_copies(folder: Path, size: int) -> int:
    """Write the sessions again and again, each time under other ids, up to a size; return the bytes written."""
    folder.mkdir(exist_ok=True)
    written = 0
    for number, path in enumerate(itertools.cycle(sessions(size))):
        data = renamed(path.read_bytes(), number)
        (folder / f"{number:04}.jsonl").write_bytes(data)
        written += len(data)
        if written >= size:
            break
    return written


def renamed(data: bytes, copy: int) -> bytes:
    """Spell every id with other digits and letters, the same ones for the same id; lengths stay."""
    spell = _speller(copy)
    return _IDS.sub(lambda found: spell(found.group()), data)


def _speller(copy: int) -> Callable[[bytes], bytes]:
    """Return a permutation of digits among the hexadecimal ones, and of the other letters among themselves.

    One for one, so ids that differ still differ; an id of hexadecimal digits stays one.
    """
    chance = random.Random(f"copy {copy}")
    table = bytearray(range(256))
    for letters in (b"0123456789abcdef", b"ghijklmnopqrstuvwxyz", string.ascii_uppercase.encode()):
        others = list(letters)
        chance.shuffle(others)
        for old, new in zip(letters, others, strict=True):
            table[old] = new
    frozen = bytes(table)
    return lambda found: found.translate(frozen)
