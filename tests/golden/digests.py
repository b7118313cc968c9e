"""Golden files of recordings: what their readers return, and digests of what commands print.

`events/` has a file of rows (`reading.py`) for every fixture, `tests/formats/cases` one beside every case of a reader;
`fixtures.json` has the exit code and a digest of the output of each command (`commands.py`); `corpus.json` has, for
every recording of the corpus, a digest of its rows with counts, and the results of the commands. Names are relative to
the folder of the recordings.
"""

import json
from pathlib import Path
from typing import Any

from golden import reading
from golden.cases import FIXTURES, HERE, ROOT, causes, fixtures, folders
from golden.commands import CORPUS, recordings, results

EVENTS = HERE / "events"
READER_CASES = HERE.parent / "formats" / "cases"
FIXTURE_RESULTS = HERE / "fixtures.json"
CORPUS_RESULTS = HERE / "corpus.json"


def inputs() -> list[str]:
    """List the fixtures, and the folders that hold some: a folder can be one recording."""
    return sorted((*fixtures(), *folders(), *causes()))


def rows_file(fixture: str) -> Path:
    """Return the file of rows of a fixture."""
    return EVENTS / f"{(ROOT / fixture).relative_to(FIXTURES).as_posix()}.events.jsonl"


def rows(fixture: str) -> bytes:
    """Return the rows of a fixture."""
    return reading.lines(reading.rows_of(fixture, ROOT))


def reader_cases() -> list[Path]:
    """List the logs of single cases; their folders are named after the formats."""
    return sorted(READER_CASES.glob("*/*.log"))


def rows_file_of_case(case: Path) -> Path:
    """Return the file of rows of a case."""
    return case.with_suffix(".events.jsonl")


def rows_of_case(case: Path) -> bytes:
    """Return the rows of a case."""
    from lore.formats.registry import READERS

    return reading.lines([reading.row_of(read) for read in READERS[case.parent.name]().read([case.read_bytes()])])


def corpus_names() -> list[str]:
    """List the recordings of the corpus, from the smallest; empty without a corpus."""
    paths = sorted(recordings(CORPUS), key=lambda path: (path.stat().st_size, path)) if CORPUS.is_dir() else []
    return [path.relative_to(CORPUS).as_posix() for path in paths]


def corpus_entry(name: str) -> dict[str, Any]:
    """Return the entry of a recording of the corpus."""
    return {"events": reading.summary(reading.rows_of(name, CORPUS)), "results": results(name, CORPUS)}


def load(file: Path) -> dict[str, Any]:
    """Read a golden file; empty if it does not exist."""
    return json.loads(file.read_text("utf-8")) if file.exists() else {}


def text(entries: dict[str, Any]) -> str:
    """Write the entries of a golden file, one field per line."""
    return json.dumps(dict(sorted(entries.items())), ensure_ascii=False, indent=1) + "\n"
