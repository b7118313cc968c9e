"""The golden cases: commands with their expected output.

`cases.txt` holds one command a line, its expected exit code first; blank lines and lines that begin with
`#` are passed over. A command runs in the process, from the root of the project, without colour and
without settings from outside; its standard output is compared byte for byte with
`expected/NAME.txt`. Standard error is not kept.
"""

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import NamedTuple

from golden.commands import entry_point, work_in
from helpers.plugins import has_plugin

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CASES = HERE / "cases.txt"
EXPECTED = HERE / "expected"
FIXTURES = ROOT / "fixtures"


class Case(NamedTuple):
    """A command, its expected exit code, and the name of its expected output."""

    command: str
    exit: int
    name: str

    @property
    def expected(self) -> Path:
        """Where the expected output lies."""
        return EXPECTED / f"{self.name}.txt"


class Ran(NamedTuple):
    """What a command printed, and its exit code."""

    stdout: bytes
    exit: int
    stderr: str


# Options and recordings that a plug-in handles, by a part of the command.
OF_PLUGINS = {
    "--report parquet": "scale",
    **dict.fromkeys(("codex-exec", "flue", "openfang", "mini-swe-agent", "sidecode", "causes/LORE229"), "formats"),
    "causes/LORE307": "engines",
}


def missing_plugin(text: str) -> str:
    """Return the plug-in that a command or recording needs, if it is not installed; else nothing."""
    from lore.commands.table import BROUGHT

    needed = [plugin for part, plugin in OF_PLUGINS.items() if part in text]
    needed += BROUGHT.values() if text == "schema" else [BROUGHT.get(text.partition(" ")[0], "")]
    return next((plugin for plugin in needed if plugin and not has_plugin(plugin)), "")


def cases() -> list[Case]:
    """Read the table; raises ValueError where a line is no case or two cases share a name."""
    found: dict[str, Case] = {}
    for number, line in enumerate(CASES.read_text("utf-8").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = re.fullmatch(r"(\d+)\s+(\S.*)", text)
        if match is None:
            raise ValueError(f"{CASES.name}:{number}: expected `EXIT COMMAND`, got {text!r}")
        case = Case(match[2], int(match[1]), _name(match[2]))
        if case.name in found:
            raise ValueError(f"{CASES.name}:{number}: {case.command!r} and {found[case.name].command!r} share a name")
        found[case.name] = case
    return list(found.values())


def _name(command: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "-", command.replace("fixtures/", "")).strip("-")


def run(command: str) -> Ran:
    """Run a command in the root of the project; return its exit code and output."""
    with work_in(ROOT):
        return run_here(shlex.split(command))


def run_here(arguments: list[str]) -> Ran:
    """Run a command in the current folder; return its exit code and output."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = entry_point()(arguments)
    out.flush()
    err.flush()
    return Ran(_bytes(out), code, _bytes(err).decode("utf-8", "replace"))


def _bytes(stream: io.TextIOWrapper) -> bytes:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue()


def fixtures() -> list[str]:
    """List the recordings among the fixtures, as commands name them.

    Those of one code each are tested apart.
    """
    found = sorted(path for path in FIXTURES.rglob("*") if path.is_file() and path.suffix != ".md")
    found = [path for path in found if path.relative_to(FIXTURES).parts[0] != "causes"]
    return [path.relative_to(ROOT).as_posix() for path in found]


def causes() -> list[str]:
    """List the recordings that show one code each."""
    files = sorted(path for path in (FIXTURES / "causes").rglob("*") if path.is_file())
    return [path.relative_to(ROOT).as_posix() for path in files]


def folders() -> list[str]:
    """List the folders that hold recordings, except those of one code each."""
    return sorted({path.rpartition("/")[0] for path in fixtures()})


def uncovered(known: list[Case]) -> list[str]:
    """List the recordings that no case names, nor the folder in which they are one recording.

    `fixtures/causes` is left out: the catalogue's own test judges each file there.
    """
    named = {word.partition("#")[0] for case in known for word in shlex.split(case.command)}
    alone = [path for path in fixtures() if path not in named and not path.startswith("fixtures/causes/")]
    return [path for path in alone if path.count("/") < 4 or path.rpartition("/")[0] not in named]
