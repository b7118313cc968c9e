"""Reading sessions that are folders, of Kimi CLI and of OpenHands, against parsing their files and nothing else.

In: a folder and a number of requests. Out: figures as (measure, bar, measured, met). The sessions are made here, the
same bytes on every machine: a call a request, with 4 KB of output, and compactions. Many of their records have some
hundred bytes (a checkpoint, a count, a status), and each event of OpenHands is a file.
"""

from __future__ import annotations

import random
from pathlib import Path

import orjson

from bench import clock, files
from formats.kimi import text
from formats.kimi_session import KimiSession, counts
from formats.openhands import Talk
from lore.formats.agents.openhands import OpenHands
from lore.formats.base import Reader
from lore.formats.kimi.cli import KimiCliSession
from lore.recording import packed

Fields = tuple[str, str, str, bool | None]
_WORDS = ("the", "reader ", "takes\n    ", "each ", "line('", "as ", "it", "comes,\n\n", "whole ", "again ")
PROMPT, COMPACTION = 40, 120  # requests between prompts of the user, and between compactions


def folders(folder: Path, requests: int, pairs: int) -> Fields:
    """In process, on one core, in CPU time; the files are read from the disk's cache."""
    measure = (
        f"reading folders of {requests:,} requests of Kimi CLI and OpenHands against `orjson.loads` of their files"
    )
    kimi, talk = folder / "kimi", folder / "openhands"
    _write(kimi, _kimi(requests).files())
    _write(talk, _talk(requests).files())
    paths = [Path(made, name) for made in (kimi, talk) for name in packed.members(str(made))]
    files.warm(*paths)

    def read() -> None:
        _read(kimi, KimiCliSession())
        _read(talk, OpenHands())

    def parse() -> None:
        for path in paths:
            for record in path.read_bytes().splitlines():
                orjson.loads(record)

    found = clock.alternate(read, parse, pairs, clock.CPU)
    size = sum(path.stat().st_size for path in paths)
    said = f"{found}; {found.left_seconds:.3f} s against {found.right_seconds:.3f} s for {size / 1e6:,.1f} MB"
    return measure, "at most 2.5 times", said, found.median <= 2.5


def _read(folder: Path, reader: Reader) -> None:
    for data in packed.folder_stream(str(folder), packed.members(str(folder))):
        for _ in reader.feed(data):
            pass
    for _ in reader.finish():
        pass


def _write(folder: Path, made: dict[str, bytes]) -> None:
    for name, data in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _kimi(requests: int) -> KimiSession:
    rng, made = random.Random(7), KimiSession()
    for number in range(requests):
        if number % PROMPT == 0:
            made.user(_said(rng, 300))
        think = {"type": "think", "think": _said(rng, 600), "encrypted": None}
        output = _said(rng, 4_000)
        made.step(
            think, text(_said(rng, 300)), usage=counts(100, 9_000 + number), calls=(f"c-{number}",), output=output
        )
        if number % COMPACTION == COMPACTION - 1:
            made.compact(_said(rng, 3_000))
    return made


def _talk(requests: int) -> Talk:
    rng, made = random.Random(7), Talk().system(_said(random.Random(8), 20_000))
    own = {"exit_code": 0, "working_dir": "/w", "py_interpreter_path": "/p", "prefix": "", "suffix": ""}
    for number in range(requests):
        if number % PROMPT == 0:
            made.user(_said(rng, 300))
        call, response = f"c-{number}", f"r-{number}"
        made.action(call, response, _said(rng, 300)).bill(response, 10_000 + number, 9_000)
        made.result(call, _said(rng, 4_000), metadata=own)
    return made


def _said(rng: random.Random, size: int) -> str:
    return "".join(rng.choices(_WORDS, k=size // 5))
