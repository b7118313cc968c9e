"""Compare the output of `lore` in this tree with its output at another commit.

    python tests/golden/compare.py BASE [--part fixtures|corpus] [--only TEXT]

BASE is checked out and installed below build/compare. Both versions run the commands of `commands.py` for every
fixture of this tree and every recording of the corpus, and the fixtures' commands of `cases.txt`. Each result (exit
code, standard output) that differs is listed with its first different lines. Exit code 1 if a result differs.
"""

import argparse
import difflib
import json
import os
import shlex
import subprocess
import sys
import time
import venv
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "compare"
sys.path.insert(0, str(ROOT / "tests"))

from golden.commands import COMMANDS, CORPUS, STOPPED, arguments_of, recordings  # noqa: E402 - found by the path above

RUNNER = Path(__file__).with_name("commands.py")
PROCESSES = 2
CRASHED = -2  # exit code of a command that ended its process
EXITS = {STOPPED: "stopped at the time limit", CRASHED: "ended its process"}
SHOWN, WIDTH = 6, 160  # lines of a difference, and characters of a line


class Task(NamedTuple):
    """One command: the folder that it runs in, its arguments, and the size of its recording in bytes."""

    part: str
    folder: Path
    arguments: tuple[str, ...]
    size: int

    @property
    def name(self) -> str:
        return f"{self.part}: lore {shlex.join(self.arguments)}"


class Tree(NamedTuple):
    """A version of lore: the Python that has it installed, and the folder of its source."""

    python: Path
    source: Path


CURRENT = Tree(Path(sys.executable), ROOT / "src")
Result = list[Any]  # exit code, digest, bytes


def main() -> int:
    """Run both versions and print the results that differ."""
    parser = argparse.ArgumentParser(description="Compare the output of lore with its output at another commit.")
    parser.add_argument("base", help="a commit")
    parser.add_argument("--part", choices=("fixtures", "corpus"), help="only these recordings")
    parser.add_argument("--only", default="", help="only commands that contain this text")
    options = parser.parse_args()
    commit = _git("rev-parse", "--verify", f"{options.base}^{{commit}}").strip()
    home = BUILD / commit[:12]
    base = build(commit, home)
    tasks = [task for task in tasks_of(options.part) if options.only in task.name]
    if not tasks:
        print("no command to run")
        return 2
    started = time.monotonic()
    before, after = (run(tree, tasks, home / side) for side, tree in (("base", base), ("now", CURRENT)))
    changed = [task for task in tasks if before[task.name] != after[task.name]]
    for task in changed:
        exits = [EXITS.get(results[task.name][0], str(results[task.name][0])) for results in (before, after)]
        print(task.name)
        if exits[0] != exits[1]:
            print(f"    exit code {exits[0]}, now {exits[1]}")
        for line in differences(base, task, home):
            print(f"    {line}")
    print(f"{len(changed):,} of {len(tasks):,} results differ from {commit[:12]} ({time.monotonic() - started:.0f} s)")
    return 1 if changed else 0


def build(commit: str, home: Path) -> Tree:
    """Check out and install a commit, unless an earlier run did."""
    tree, env, complete = home / "tree", home / "env", home / "complete"
    python = env / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not complete.exists():
        print(f"installing {commit[:12]} in {home.relative_to(ROOT)}", flush=True)
        home.mkdir(parents=True, exist_ok=True)
        _git("worktree", "prune")
        if not tree.exists():
            _git("worktree", "add", "--quiet", "--detach", str(tree), commit)
        venv.create(env, with_pip=True, clear=True)
        project = _read(tree / "pyproject.toml")
        extras = [name for name in ("all", "zstd") if f"\n{name} = [" in project]
        pins = tree / ".github" / "constraints.txt"
        options = ["-c", str(pins)] if pins.exists() else []
        target = f"{tree}[{','.join(extras)}]" if extras else str(tree)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
        subprocess.run([*pip, *options, "-e", target], check=True)
        complete.touch()
    return Tree(python, tree / "src")


def tasks_of(part: str | None) -> list[Task]:
    """List the commands to run, those of large recordings first."""
    tasks: dict[str, Task] = {}
    if part != "corpus":
        tasks = {task.name: task for task in _fixture_tasks()}
    if part != "fixtures" and CORPUS.is_dir():
        for task in _tasks("corpus", CORPUS, recordings(CORPUS)):
            tasks[task.name] = task
    elif part != "fixtures":
        print("no corpus: set LORE_CORPUS to its folder")
    return sorted(tasks.values(), key=lambda task: (-task.size, task.name))


def _fixture_tasks() -> Iterator[Task]:
    from golden import cases

    for case in cases.cases():
        yield Task("fixtures", ROOT, tuple(shlex.split(case.command)), 0)
    paths = (*cases.fixtures(), *cases.folders(), *cases.causes())
    yield from _tasks("fixtures", ROOT, [ROOT / path for path in paths])


def _tasks(part: str, root: Path, paths: Iterable[Path]) -> Iterator[Task]:
    for path in sorted(paths):
        name, size = path.relative_to(root).as_posix(), path.stat().st_size
        yield from (Task(part, root, tuple(arguments_of(command, name)), size) for command in COMMANDS)


def run(tree: Tree, tasks: Sequence[Task], folder: Path, copy: Path | None = None) -> dict[str, Result]:
    """Run commands in a few processes; `copy` is a file for the output of a single command."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [(task.name, str(task.folder), task.arguments, copy and str(copy)) for task in tasks]
    shares = [rows[start::PROCESSES] for start in range(PROCESSES)]
    with ThreadPoolExecutor(PROCESSES) as pool:
        shared = pool.map(lambda number: _run_share(tree, shares[number], folder / str(number)), range(PROCESSES))
        return {name: result for results in shared for name, result in results.items()}


def _run_share(tree: Tree, rows: list[tuple[Any, ...]], place: Path) -> dict[str, Result]:
    """Run commands in one process; if one of them ends it, run the rest in another process."""
    tasks, output, home = (place.with_suffix(suffix) for suffix in (".tasks", ".results", ".home"))
    home.mkdir(exist_ok=True)
    passed = ("PATH", "SYSTEMROOT", "TMPDIR", "TEMP", "LD_LIBRARY_PATH")
    environment = {name: os.environ[name] for name in passed if name in os.environ}
    environment |= {"HOME": str(home), "USERPROFILE": str(home), "LORE_STATE": str(home / "state")}
    environment |= {"TZ": "UTC", "PYTHONUTF8": "1", "PYTHONSAFEPATH": "1"}
    results: dict[str, Result] = {}
    while rows:
        tasks.write_text(json.dumps(rows), "utf-8")
        output.write_text("", "utf-8")
        command = [str(tree.python), str(RUNNER), str(tasks), str(output), str(tree.source)]
        code = subprocess.run(command, env=environment, check=False).returncode
        if code == 2:
            raise SystemExit(2)
        results |= {name: result for name, *result in map(json.loads, _read(output).splitlines())}
        rows = [row for row in rows if row[0] not in results]
        if rows:
            results[rows.pop(0)[0]] = [CRASHED, "", 0]
    return results


def differences(base: Tree, task: Task, home: Path) -> list[str]:
    """Run a command again in both trees, with its outputs written to files; return their first different lines."""
    outputs = [home / f"{side}.output" for side in ("base", "now")]
    for tree, output in zip((base, CURRENT), outputs, strict=True):
        run(tree, [task], output.with_suffix(""), output)
    return different_lines(*map(_read, outputs))


def different_lines(before: str, after: str) -> list[str]:
    """Return the first different lines of two outputs; JSON is compared value by value, if its values differ."""
    compared = _laid_out(before), _laid_out(after)
    if compared[0] == compared[1]:
        compared = before.splitlines(), after.splitlines()
    lines = islice(difflib.unified_diff(*compared, lineterm="", n=1), 2, SHOWN + 2)
    return [line[:WIDTH] for line in lines]


def _laid_out(text: str) -> list[str]:
    """Return the lines of a text, with each JSON document in it on several lines."""
    found: list[str] = []
    for line in text.splitlines():
        try:
            found += json.dumps(json.loads(line), ensure_ascii=False, indent=1).splitlines()
        except ValueError:
            found.append(line)
    return found


def _read(path: Path) -> str:
    return path.read_text("utf-8", "backslashreplace") if path.exists() else ""


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
