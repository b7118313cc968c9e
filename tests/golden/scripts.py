"""Golden scripts: files, and commands with their output, kept in `scripts/`.

A script has a name, perhaps why it exists, and steps. A step writes `files` (lists of lines) into an empty folder, or
runs a command there: its exit code, standard output and standard error are compared, and `left`, the files that
commands wrote or changed. `make golden` writes them again.
"""

from __future__ import annotations

import json
import shlex
from hashlib import sha256
from pathlib import Path
from typing import Any

from golden.cases import Ran, run_here
from golden.commands import work_in

LONG = 4000  # characters of a line of output that is kept
FILES = sorted((Path(__file__).parent / "scripts").glob("*.json"))


def scripts(file: Path) -> list[dict[str, Any]]:
    """Read the scripts of a file."""
    return json.loads(file.read_text("utf-8"))


def played(script: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Play a script in an empty folder; return it with what its commands print now."""
    with work_in(folder):
        result = {**script, "steps": [_played(step) for step in script["steps"]]}
        given = {name: lines for step in script["steps"] for name, lines in step.get("files", {}).items()}
        files = {path.as_posix(): _lines(path) for path in sorted(Path().rglob("*")) if _is_text(path)}
    return {**result, "left": {name: lines for name, lines in files.items() if given.get(name) != lines}}


def _is_text(path: Path) -> bool:
    return path.is_file() and b"\0" not in path.read_bytes()


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8", "backslashreplace").split("\n")


def _played(step: dict[str, Any]) -> dict[str, Any]:
    if "run" not in step:
        for name, lines in step["files"].items():
            path = Path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
        return step
    return shown(step["run"], run_here(shlex.split(step["run"])))


def shown(command: str, ran: Ran) -> dict[str, Any]:
    """Return a step: a command with its output."""
    step: dict[str, Any] = {"run": command, "exit": ran.exit, "out": _short(ran.stdout.decode("utf-8").split("\n"))}
    return {**step, "err": ran.stderr.split("\n")} if ran.stderr else step


def _short(lines: list[str]) -> list[str]:
    """Replace long lines by their beginning and digest."""
    return [
        line if len(line) <= LONG else f"{line[:400]}… {len(line)} characters, {sha256(line.encode()).hexdigest()[:16]}"
        for line in lines
    ]


def text(scripts: list[dict[str, Any]]) -> str:
    """Write scripts as JSON."""
    return json.dumps(scripts, ensure_ascii=False, indent=1) + "\n"
