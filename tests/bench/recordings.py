"""Judging and reading the real recordings of the corpus, compared with parsing their JSON and nothing else.

Figures are (measure, bar, measured, met), the fields of a row. Without a corpus (LORE_CORPUS) the rows say so.
"""

import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import orjson

from bench import clock
from fuzz.samples import CORPUS
from lore.formats.registry import reader_of
from lore.recording.base import load_plugins
from lore.recording.corpus import open_head
from lore.run.checking.check import check

Fields = tuple[str, str, str, bool | None]
ABSENT = "not measured: no real recordings (LORE_CORPUS)"
RATIO = 1.8  # of checking to parsing
_IMPORTS = """import pathlib, sys
from bench.recordings import _parse_lines, check
paths = [pathlib.Path(path) for path in sys.argv[2:]]"""
LOGS = ("codex", "copilot", "pi", "opencode", "mini-swe-agent", "cline-roo", "gemini")  # folders of the corpus


def sessions(most: int | None = None) -> list[Path]:
    """Return the sessions of Claude Code from the smallest; stop before they have more than `most` bytes together."""
    paths, size = [], 0
    for path in sorted((CORPUS / "claude-code").glob("*.jsonl"), key=lambda path: (path.stat().st_size, path.name)):
        size += path.stat().st_size
        if paths and most is not None and size > most:
            break
        paths.append(path)
    return paths


def parse(pairs: int, most: int | None) -> Fields:
    """Measure the check pipeline in process, on one core, in CPU time."""
    measure = "the check pipeline on all Claude Code sessions of the corpus against `orjson.loads` over their lines"
    bar = f"at most {RATIO} times"
    paths = sessions(most)
    if not paths:
        return measure, bar, ABSENT, None
    names = [str(path) for path in paths]
    _parse_lines(paths)
    ratio = clock.alternate(lambda: check(names), lambda: _parse_lines(paths), pairs, clock.CPU)
    return measure, bar, _seconds(ratio, paths), ratio.median <= RATIO


def instructions(most: int | None) -> Fields:
    """Count instructions of the same with valgrind, in the second of two passes, when everything is imported."""
    measure = "the check pipeline on all Claude Code sessions of the corpus against `orjson.loads`, in instructions"
    valgrind, bar, paths = shutil.which("valgrind"), f"at most {RATIO} times", sessions(most)
    if valgrind is None or not paths:
        return measure, bar, "not measured: no valgrind" if paths else ABSENT, None
    passes: dict[str, int] = {}
    for work in ("check([str(path) for path in paths])", "_parse_lines(paths)"):
        code = f"{_IMPORTS}\nfor _ in range(int(sys.argv[1])): {work}"
        command = [valgrind, "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", sys.executable]
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
        counted = [
            subprocess.run(
                [*command, "-c", code, times, *map(str, paths)], env=environment, capture_output=True, check=True
            ).stderr
            for times in ("1", "2")
        ]
        once, twice = (int(found.rpartition(b"refs:")[2].split()[0].replace(b",", b"")) for found in counted)
        passes[work] = twice - once
    check_count, parse_count = passes.values()
    said = f"{check_count / parse_count:.2f}; {check_count / 1e6:,.0f} against {parse_count / 1e6:,.0f} million"
    return measure, bar, said, check_count <= RATIO * parse_count


def logs(pairs: int) -> Iterator[Fields]:
    """Measure the readers of other agents' logs in process, on one core, in CPU time."""
    for folder in LOGS:
        measure, bar = f"reading `{folder}` of the corpus against `orjson.loads` of it", "at most 2.5 times"
        paths = [path for path in sorted((CORPUS / folder).glob("*.json*")) if "task_metadata" not in path.name]
        if not paths:
            yield measure, bar, ABSENT, None
            continue
        parse = _parse_lines if paths[0].suffix == ".jsonl" else _parse_documents
        ratio = clock.alternate(lambda: _read(paths), lambda: parse(paths), pairs, clock.CPU)  # noqa: B023 - called here
        yield measure, bar, _seconds(ratio, paths), ratio.median <= 2.5


def _seconds(ratio: clock.Ratio, paths: list[Path]) -> str:
    size = sum(path.stat().st_size for path in paths)
    return f"{ratio}; {ratio.left_seconds:.3f} s against {ratio.right_seconds:.3f} s for {size / 1e6:,.1f} MB"


def _read(paths: list[Path]) -> None:
    load_plugins()  # that some of the formats are in
    for path in paths:
        opened = open_head(str(path))
        reader = reader_of(opened.head)
        if reader is None:
            raise RuntimeError(f"{path.name} is not recognised")
        deque(reader.read(opened.data), maxlen=0)


def _parse_lines(paths: list[Path]) -> None:
    for path in paths:
        with path.open("rb") as file:
            for line in file:
                try:  # noqa: SIM105 - a context manager costs as much as a line
                    orjson.loads(line)
                except ValueError:  # two objects on one line
                    pass


def _parse_documents(paths: list[Path]) -> None:
    for path in paths:
        orjson.loads(path.read_bytes())
