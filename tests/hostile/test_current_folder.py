"""A folder that holds modules named like Python's own: no process that lore starts in it imports them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from formats.opencode import plain

# A script of another folder, as the installed `lore` is: the current folder is not on the path of this process.
_CHECK = """
import sys
import lore.run.checking.check, lore.run.checking.pool
from lore.commands.main import main
if __name__ == "__main__":
    lore.run.checking.verdicts.SMALL = 0
    lore.run.checking.pool._method = lambda: {method!r}
    sys.exit(main(["check", "--json", "-j", "2", "logs"]))
"""
TRAPS = ("multiprocessing", "concurrent", "signal", "msgspec", "random", "distributed")


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    """A folder with recordings and modules that leave a mark when they are imported."""
    folder = tmp_path / "cloned"
    (folder / "logs").mkdir(parents=True)
    for name in TRAPS:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / name)!r}, 'w').close()\nraise SystemExit(9)\n")
    for name in "ab":
        (folder / "logs" / f"{name}.json").write_bytes(plain().data())
    (folder / "capture.jsonl").write_bytes(b"")
    return folder


def run(script: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    path = folder.parent / "program.py"
    path.write_text(script)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    command = [sys.executable, str(path)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False, timeout=120)


def marks(folder: Path) -> list[str]:
    return [name for name in TRAPS if (folder.parent / name).exists()]


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_workers_import_nothing_of_the_current_folder(trapped, method):
    if method == "fork" and sys.platform != "linux":
        pytest.skip("processes start by fork on Linux alone")
    done = run(_CHECK.format(method=method), trapped)
    assert (done.returncode, marks(trapped)) == (0, []), done.stderr
