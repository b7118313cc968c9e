"""Writes `fixtures/recordings/`: an agent's requests with the usage that Anthropic's published rules give them.

    python tests/helpers/plausible.py

Tokens are counted with o200k_base. The breakpoints are on system[0] and on the last block of each request. A request
reads up to the last breakpoint that a request within five minutes left, and writes up to its own last one.
"""

import json
from pathlib import Path
from typing import Any

from lore.cache.tree import estimated_positions
from lore.cache.views import VIEWS, Views
from lore.model.turn import Memo
from lore.prompt import DIALECTS
from lore.tokens import Counter

FOLDER = Path(__file__).parents[2] / "fixtures" / "recordings"
MODEL = "claude-opus-5"
MARK = {"cache_control": {"type": "ephemeral"}}
STEP = 60  # seconds between two requests
AFTER_BREAKPOINT = 4  # tokens of each prompt after its last breakpoint


def tool(name: str, description: str, **properties: str) -> dict[str, Any]:
    """Return the definition of a tool whose first property is required; each property has a type."""
    schema: dict[str, Any] = {
        "type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(properties)[:1],
    }  # fmt: skip
    return {"name": name, "description": description, "input_schema": schema}


TOOLS = [
    tool("list_files", "List the files of a folder, the folders below it included. Hidden files are left out.",
         path="string", depth="number"),
    tool("read_file", "Read a text file. Without a limit the first 2,000 lines are returned, with line numbers.",
         path="string", limit="integer"),
    tool("search", "Search the repository for a regular expression and return the matching lines with their files.",
         pattern="string", glob="string"),
    tool("edit_file", "Replace a text in a file by another one. The old text must occur exactly once in the file.",
         path="string", old="string", new="string"),
    tool("run_tests", "Run the test suite, or the tests whose names match the filter, and return its summary.",
         filter="string"),
    tool("git_log", "Return the last commits of the current branch: hash, author, date and the first line.",
         count="integer"),
]  # fmt: skip
TOOLS.sort(key=lambda one: one["name"])

GUIDE = """\
You are the maintenance agent of a small Python library. Work in small steps, read before you write, and say what you \
changed.

# The library

confparse reads settings from INI, TOML and JSON files and from the environment, merges them in a fixed order, and \
reports every mistake with its file and line. It has no dependencies besides the standard library and supports Python \
3.10 to 3.14. Its public names are those of `confparse/__init__.py`; everything else may change.

- `src/confparse/ini.py`, `toml.py`, `json_file.py`: one reader for each format. A reader returns a tree of `Node` \
objects and never raises for a bad value: it records a problem and continues with the next key.
- `src/confparse/merge.py`: combines trees. A later source wins; lists are replaced, tables are merged key by key.
- `src/confparse/errors.py`: `ConfigError` and its two subclasses. Messages name the file, the line and the key.
- `src/confparse/schema.py`: checks a merged tree against dataclasses and converts values.
- `tests/`: one file for each module, and `tests/cases/` with pairs of input and expected problems.

# How to work

1. Read the files that a task touches before you change them. Search for callers before you change a signature.
2. Make the smallest change that solves the task. Do not reformat code that you do not change, and do not rename \
public names. If a public name has to change, keep the old one as an alias and say so in your answer.
3. Every fixed bug gets a test that fails without the fix. Put cases for readers into `tests/cases/`, where the input \
and the expected problems lie side by side; write a test function only if a case cannot express it.
4. Run the tests of the module after each change, and the whole suite before you finish. If a test fails that your \
change did not touch, say so instead of changing it.
5. Error messages are part of the interface: they begin with a small letter, name the key in quotes, and end without a \
full stop. Line numbers count from 1.
6. Never catch `Exception`. Catch what a call is documented to raise, and let the rest reach the caller.
7. Type annotations are complete, and `Any` needs a comment that says why. Docstrings have one line of summary in the \
imperative mood.
8. Do not add dependencies, do not change `pyproject.toml` without being asked, and do not touch `CHANGELOG.md`: the \
release script writes it from the commit messages.
9. Commit messages have a subject of at most 60 characters in the imperative mood and a body that says why.

# How to answer

Answer in at most ten sentences. Name the files that you changed with their paths, and quote the lines that matter. If \
you are not sure what a task means, ask one question and wait. If a task needs a decision that the guide does not \
make, describe the two best options with one advantage each.

# Review

Before you say that a task is done, read your own diff once from top to bottom. Check that no debugging output is \
left, that new names are clear, that a reader of the code needs no comment to follow the change, and that every \
new branch has a test. Then say what you did not do, and why.
"""

LISTING = "\n".join(f"src/confparse/{name}.py" for name in ("__init__", "errors", "ini", "merge", "schema", "toml"))
SOURCE = '''\
   1\t"""Errors of confparse."""
   2\t
   3\tfrom __future__ import annotations
   4\t
   5\tfrom dataclasses import dataclass
   6\t
   7\t
   8\t@dataclass(frozen=True)
   9\tclass Problem:
  10\t    """A mistake in a file of settings."""
  11\t
  12\t    message: str
  13\t    file: str
  14\t    line: int
  15\t    key: str = ""
  16\t
  17\t    def __str__(self) -> str:
  18\t        place = f"{self.file}:{self.line}"
  19\t        return f"{place}: {self.message}" if not self.key else f"{place}: {self.key!r}: {self.message}"
  20\t
  21\t
  22\tclass ConfigError(Exception):
  23\t    """Settings cannot be used."""
  24\t
  25\t    def __init__(self, problems: list[Problem]) -> None:
  26\t        super().__init__("\\n".join(map(str, problems)))
  27\t        self.problems = problems
  28\t
  29\t
  30\tclass MissingFileError(ConfigError):
  31\t    """A file of settings that was named does not exist."""
  32\t
  33\t
  34\tclass SchemaError(ConfigError):
  35\t    """A value has another type than the schema says."""
'''
TESTS = "collected 148 items\n\n148 passed in 2.31s"


def call(number: int, text: str, name: str, arguments: dict[str, Any], result: str) -> list[dict[str, Any]]:
    """Return an answer with a tool call, and the message with its result."""
    use = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments}
    answer: list[dict[str, Any]] = [{"type": "text", "text": text}, use]
    back = {"type": "tool_result", "tool_use_id": use["id"], "content": result}
    return [{"role": "assistant", "content": answer}, {"role": "user", "content": [back]}]


FAILURES = "".join(
    f"tests/test_{module}.py::test_{case} FAILED\n"
    f"    AssertionError: assert 'app.{module}:{line}: {case} is unknown' == 'app.{module}:{line}: unknown key'\n"
    for module, line in (("ini", 12), ("toml", 7), ("json_file", 31), ("schema", 4))
    for case in ("empty_section", "repeated_key", "bad_number", "nested_table")
)
TASK = (
    "These tests fail since the last merge:\n\n" + FAILURES + "\nWhich file holds the error types, and are they tested?"
)
QUESTION: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": TASK}]}]
STEPS = [
    QUESTION,
    call(1, "I look.", "list_files", {"path": "src", "depth": 2.0}, LISTING),
    call(2, "The name says errors.py.", "read_file", {"path": "src/confparse/errors.py"}, SOURCE),
    call(3, "I run their tests.", "run_tests", {"filter": "errors"}, TESTS),
]
OUTPUT = (96, 88, 71, 122)  # tokens of the answers


def requests(clock: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the requests of the session; `clock` has the time that each of them states."""
    result: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = []
    for step, time in zip(STEPS, clock, strict=True):
        messages = [*messages, *step]
        *earlier, last = messages
        *before, block = last["content"]
        date = f"Today's date is {time}. The project is confparse, a café-sized library."
        result.append({
            "model": MODEL, "max_tokens": 4096, "tools": TOOLS,
            "system": [{"type": "text", "text": GUIDE, **MARK}, {"type": "text", "text": date}],
            "messages": [*earlier, {**last, "content": [*before, {**block, **MARK}]}],
        })  # fmt: skip
    return result


def with_usage(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return lines of a recording: each request with the time when it was sent, and its usage."""
    lines: list[dict[str, Any]] = []
    written: dict[bytes, int] = {}  # the cached prefixes, with their tokens
    for number, body in enumerate(bodies):
        prompt = DIALECTS["anthropic"].parse(json.dumps(body, ensure_ascii=False).encode(), "wire", Memo())
        pieces = [*Views(VIEWS["anthropic"], Counter().count).iterate_pieces(prompt)]
        sizes = [*estimated_positions(pieces)]
        prefixes = [b"\0".join(piece.data for piece in pieces[: end + 1]) for end in range(len(pieces))]
        read = max((written[prefix] for prefix in prefixes if prefix in written), default=0)
        *earlier, last = prompt.breakpoints
        written |= {prefixes[end]: sizes[end] for end in earlier} | {prefixes[last]: sizes[last] - AFTER_BREAKPOINT}
        usage = {
            "input_tokens": AFTER_BREAKPOINT, "cache_read_input_tokens": read,
            "cache_creation_input_tokens": sizes[-1] - AFTER_BREAKPOINT - read, "output_tokens": OUTPUT[number],
        }  # fmt: skip
        minute = number * STEP // 60
        lines.append({"timestamp": f"2026-11-20T08:{minute:02}:00Z", "request": body, "usage": usage})
    return lines


def recordings() -> dict[str, bytes]:
    """Return the files by name."""
    stable = ("2026-11-20",) * 4
    clock = tuple(f"2026-11-20T08:0{number}:{second}Z" for number, second in enumerate(("11", "02", "14", "07")))
    request_lists = {"stable.jsonl": stable, "clock_in_system.jsonl": clock}
    return {
        name: b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in with_usage(requests(times)))
        for name, times in request_lists.items()
    }


if __name__ == "__main__":
    for file, data in recordings().items():
        FOLDER.joinpath(file).write_bytes(data)
