"""Compare the output of `lore` in this tree with its output at another commit.

    python tests/golden/compare.py BASE [--part fixtures|corpus] [--only TEXT]

BASE is checked out and installed below build/compare. Both versions run the commands of `commands.py` for every
fixture of this tree and every recording of the corpus, and the fixtures' commands of `cases.txt`. Each result (exit
code, standard output) that differs is listed with its first difference. The results of BASE are kept: a second run
runs only new commands. Exit code 1 if a result differs.
"""

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
import venv
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
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
DOCUMENT = 20_000_000  # bytes of an output that may be one JSON document
SHOWN = 160  # characters of a value


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


class Difference(NamedTuple):
    """The first difference of two outputs: its place, and both values."""

    place: str
    base: str
    now: str


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
    before = base_results(base, tasks, home)
    after = run(CURRENT, tasks, home / "runs" / "now")
    changed = [task for task in tasks if before[task.name] != after[task.name]]
    for task in changed:
        difference = difference_of(base, task, home)
        exits = [EXITS.get(results[task.name][0], str(results[task.name][0])) for results in (before, after)]
        print(task.name)
        if exits[0] != exits[1]:
            print(f"    exit code {exits[0]}, now {exits[1]}")
        if difference is not None:
            print(f"    {difference.place}\n      - {difference.base}\n      + {difference.now}")
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


def base_results(tree: Tree, tasks: list[Task], home: Path) -> dict[str, Result]:
    """Return the results of the base; run only the commands that no earlier run has saved results of."""
    file = home / "results.json"
    inputs = {part: _inputs_digest(part) for part in {task.part for task in tasks}}
    saved: dict[str, Result] = json.loads(_read(file)) if file.exists() else {}
    keys = {task.name: f"{task.name} {inputs[task.part]}" for task in tasks}
    missing = [task for task in tasks if keys[task.name] not in saved]
    for name, result in run(tree, missing, home / "runs" / "base").items():
        saved[keys[name]] = result
    file.write_text(json.dumps(saved, indent=0), "utf-8")
    return {name: saved[key] for name, key in keys.items()}


def _inputs_digest(part: str) -> str:
    """Digest all files that commands of a part read, and the program that runs them."""
    digest = hashlib.sha256(RUNNER.read_bytes())
    for path in sorted((CORPUS if part == "corpus" else ROOT / "fixtures").rglob("*")):
        if path.is_file():
            digest.update(path.as_posix().encode() + b"\n" + path.read_bytes())
    return digest.hexdigest()[:16]


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


def difference_of(base: Tree, task: Task, home: Path) -> Difference | None:
    """Run a command again in both trees, with its outputs written to files; return the first difference."""
    outputs = [home / "runs" / f"{side}.output" for side in ("base", "now")]
    for tree, output in zip((base, CURRENT), outputs, strict=True):
        run(tree, [task], output.with_suffix(""), output)
    return first_difference(*outputs)


def first_difference(before: Path, after: Path) -> Difference | None:
    """Return the first difference of two outputs; None if their bytes are equal."""
    if before.stat().st_size < DOCUMENT and (difference := _json_difference(_read(before), _read(after))):
        return difference
    with open(before, "rb") as left, open(after, "rb") as right:
        for number, (old, new) in enumerate(zip_longest(left, right), 1):
            if old == new:
                continue
            difference = _json_difference(_text(old), _text(new))
            if difference is not None:
                return difference._replace(place=f"line {number} {difference.place}")
            old, new = old or b"", new or b""
            at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
            start = max(0, at - 40)
            return Difference(f"line {number}, byte {at}", _text(old[start:])[:SHOWN], _text(new[start:])[:SHOWN])
    return None


def _json_difference(before: str, after: str) -> Difference | None:
    try:
        old, new = json.loads(before), json.loads(after)
    except ValueError:
        return None
    return _value_difference(old, new, "$")


ABSENT = object()


def _value_difference(old: Any, new: Any, path: str) -> Difference | None:
    """Return the first difference of two JSON values, in the order of the older one."""
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = [(f".{key}", old.get(key, ABSENT), new.get(key, ABSENT)) for key in {**old, **new}]
    elif isinstance(old, list) and isinstance(new, list):
        pairs = [(f"[{at}]", a, b) for at, (a, b) in enumerate(zip_longest(old, new, fillvalue=ABSENT))]
    elif type(old) is type(new) and old == new:
        return None
    else:
        return Difference(path, _value(old), _value(new))
    nested = (_value_difference(a, b, path + name) for name, a, b in pairs)
    return next((difference for difference in nested if difference is not None), None)


def _value(value: Any) -> str:
    if value is ABSENT:
        return "(absent)"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text):,} characters)"


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "backslashreplace").rstrip("\n")


def _read(path: Path) -> str:
    return path.read_text("utf-8", "backslashreplace") if path.exists() else ""


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
