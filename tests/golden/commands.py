"""Run many `lore` commands in one process, and keep the exit code and a digest of the output of each.

    python -P tests/golden/commands.py TASKS RESULTS SRC

TASKS is a JSON list of [ID, FOLDER, ARGUMENTS, COPY]: a command runs in FOLDER, and its output is written to the file
COPY if that is not null. RESULTS gets one JSON line per command, as soon as it has ended: [ID, EXIT, DIGEST, BYTES].
SRC is the folder that `lore` has to be imported from.

Only the entry point of the `lore` command is used, so that any version of lore can be run. Standard library alone.
"""

import contextlib
import hashlib
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("LORE_CORPUS") or ROOT.parent / "shared" / "corpus")

# The commands that are run for every recording, by the names that golden files use.
COMMANDS: dict[str, tuple[str, ...]] = {
    "check": ("check", "{}", "-v", "--json"),
    "simulate": ("simulate", "{}", "--all", "--json"),
    "diff-prefix": ("diff-prefix", "{}", "--json"),
    "fold": ("fold", "{}", "--json"),
    "assemble": ("assemble", "{}", "--all", "--full"),
    "lint": ("lint", "{}", "--json"),
    "convert": ("convert", "{}", "--to", "lore"),
    "convert-bodies": ("convert", "{}", "--to", "bodies"),
}
# Environment variables that change the output of commands.
OUTSIDE = (
    "NO_COLOR", "FORCE_COLOR", "LORE_DEBUG", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "CI",
)  # fmt: skip
SECONDS = 60  # time limit of one command
STOPPED = -1  # exit code of a command that reached the limit


class Result(NamedTuple):
    """The exit code of a command, the digest of its standard output, and the length of it in bytes."""

    exit: int
    digest: str
    bytes: int


class TimeLimit(BaseException):
    """The command took too long. Not an Exception: `lore` catches those and reports a bug."""


class Digesting(io.BufferedIOBase):
    """A binary stream that digests its bytes, and writes them to `copy` as well."""

    def __init__(self, copy: BinaryIO | None = None) -> None:
        self.hash = hashlib.sha256()
        self.size = 0
        self._copy = copy

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        written = memoryview(data).nbytes
        self.hash.update(data)
        self.size += written
        if self._copy is not None:
            self._copy.write(data)
        return written


def arguments_of(command: str, name: str) -> list[str]:
    """Return the arguments of a command of `COMMANDS` for the recording `name`."""
    return [word.replace("{}", name) for word in COMMANDS[command]]


def recordings(corpus: Path) -> list[Path]:
    """List the recordings of a corpus: the files in its folders."""
    return sorted(path for path in corpus.rglob("*") if path.is_file() and path.parent != corpus)


def results(name: str, folder: Path) -> dict[str, str]:
    """Run all of `COMMANDS` for the recording `name` in `folder`; return exit code and digest by command."""
    with work_in(folder):
        ran = {command: run_digested(arguments_of(command, name)) for command in COMMANDS}
    return {command: f"{result.exit} {result.digest}" for command, result in ran.items()}


@cache
def entry_point() -> Callable[[list[str]], int]:
    """Return the function that the installed command `lore` calls."""
    (point,) = entry_points(group="console_scripts", name="lore")
    return point.load()


def run_digested(arguments: list[str], copy: BinaryIO | None = None, seconds: float = SECONDS) -> Result:
    """Run a command in the current folder and return the digest of its standard output; drop standard error."""
    output = Digesting(copy)
    out = io.TextIOWrapper(output, encoding="utf-8", newline="\n")
    err = io.TextIOWrapper(Digesting(), encoding="utf-8")
    try:
        with _time_limit(seconds), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = entry_point()(arguments)
    except TimeLimit:
        code = STOPPED
    out.flush()
    return Result(code, output.hash.hexdigest()[:16], output.size)


@contextlib.contextmanager
def work_in(folder: Path) -> Iterator[None]:
    """Work in `folder`, without the environment variables that change the output."""
    previous, removed = Path.cwd(), {name: os.environ.pop(name) for name in OUTSIDE if name in os.environ}
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(previous)
        os.environ.update(removed)


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeLimit after `seconds`, if the system has alarms."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise TimeLimit

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def main(arguments: Sequence[str]) -> int:
    """Run the tasks of a file."""
    tasks, results, source = arguments
    package = Path(sys.modules[entry_point().__module__.partition(".")[0]].__file__ or "")
    if not package.resolve().is_relative_to(Path(source).resolve()):
        print(f"lore is imported from {package}, not from {source}", file=sys.stderr)
        return 2
    with open(results, "a", encoding="utf-8") as file:
        for name, folder, args, copy in json.loads(Path(tasks).read_text("utf-8")):
            with work_in(Path(folder)), contextlib.ExitStack() as stack:
                result = run_digested(args, stack.enter_context(open(copy, "wb")) if copy else None)
            file.write(json.dumps([name, *result]) + "\n")
            file.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
