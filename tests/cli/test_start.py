"""What commands import before they answer: a number that rises needs a reason."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = Path(__file__).resolve().parents[2] / "fixtures" / "recordings" / "stable.jsonl"
LOOK = (
    "import sys; from lore.commands.main import main; code = main(sys.argv[1:]); "
    "print(code, *sorted(sys.modules), file=sys.stderr)"
)
# Slow to import, and of no use to a command that reads one file.
NEVER = {
    "pydantic",
    "importlib.metadata",
    "multiprocessing",
    "concurrent.futures",
    "urllib.request",
    "jinja2",
    "tiktoken",
    "rich.console",
}


def imported(*args, home):
    """Return the modules that a command imports."""
    environment = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "PATH": ""}
    process = subprocess.run(
        [sys.executable, "-c", LOOK, *args], capture_output=True, text=True, env=environment, cwd=home
    )
    code, *modules = process.stderr.split()
    assert code == "0", process.stderr
    return set(modules), process.stdout


def lore_modules(modules):
    """Return lore's own modules, without their packages."""
    rooms = {name.rpartition(".")[0] for name in modules}
    return {name for name in modules if name.partition(".")[0] == "lore"} - rooms


@pytest.mark.parametrize(("as_json", "most", "never"), [
    ((), 123, NEVER | {"typer", "difflib", "shlex", "pkgutil"}),
    (("--json",), 126, NEVER | {"lore.recording.agents.logs"}),
], ids=["text", "json"])  # fmt: skip
def test_checking_one_small_file_imports_few_modules(tmp_path, as_json, most, never):
    modules, _ = imported("check", str(SMALL), *as_json, home=tmp_path)
    assert len(lore_modules(modules)) <= most
    assert not modules & never


def test_required_argument_needs_no_pydantic(tmp_path):
    modules, _ = imported("diff-prefix", str(SMALL), home=tmp_path)
    assert not modules & {"pydantic", "rich.console"}


def test_empty_overview_imports_no_judging_modules(tmp_path):
    modules, out = imported("--json", home=tmp_path)
    assert json.loads(out)["total"]["sessions"] == 0
    assert not modules & (NEVER | {"lore.judge.judge", "lore.commands.compact", "lore.run.checking.check"})
    assert len(lore_modules(modules)) <= 107
