"""The pre-commit hook, run by pre-commit itself on a repository made for it; nothing is installed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
MANIFEST = ROOT / ".pre-commit-hooks.yaml"
(HOOK,) = yaml.safe_load(MANIFEST.read_text("utf-8"))
RECORDINGS = ROOT / "fixtures" / "recordings"
BAD, GOOD = RECORDINGS / "clock_in_system.jsonl", RECORDINGS / "stable.jsonl"

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="pre-commit works on git repositories")


class Repository:
    """A git repository with the hook in its settings, as those who use it write them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "repository"
        self.folder.mkdir()
        own = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "TMPDIR") if name in os.environ}
        quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "NO_COLOR": "1"}
        self.env = {**own, **quiet, "HOME": str(folder), "PRE_COMMIT_HOME": str(folder / "home")}
        self._do("git", "init", "-q")

    def put(self, name: str, text: str | bytes) -> None:
        """Write a file and add it to the index."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        self._do("git", "add", "--", name)

    def _do(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, env=self.env, capture_output=True, text=True, encoding="utf-8", check=False
        )

    def run(self, **settings: object) -> subprocess.CompletedProcess[str]:
        """Run the hook over all files, with settings that replace its own."""
        entry = HOOK["entry"].replace("lore", f'"{sys.executable}" -m lore', 1)
        hook = {**HOOK, "entry": entry, "language": "system", **settings}
        self.put(".pre-commit-config.yaml", yaml.safe_dump({"repos": [{"repo": "local", "hooks": [hook]}]}))
        return self._do(sys.executable, "-m", "pre_commit", "run", "--all-files", "--verbose")


@pytest.fixture
def repository(tmp_path) -> Repository:
    """Return an empty one."""
    return Repository(tmp_path)


def test_pre_commit_accepts_the_manifest() -> None:
    command = [sys.executable, "-m", "pre_commit", "validate-manifest", str(MANIFEST)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_wasteful_recording_fails_the_commit(repository) -> None:
    repository.put("logs/run.jsonl", BAD.read_bytes())
    done = repository.run()
    assert done.returncode == 1
    assert "LORE101 date-in-prefix in turns 2, 3, 4" in done.stdout
    assert "logs/run.jsonl:2" in done.stdout
    assert "exit code: 1" in done.stdout


def test_files_that_are_no_recordings_are_passed_over(repository) -> None:
    repository.put("data/rows.jsonl", '{"a": 1}\n{"a": 2}\n')
    repository.put("data/empty.jsonl", "")
    repository.put("tests/cassettes/weather.yaml", "interactions: []\nversion: 1\n")
    repository.put("tests/cassettes/binary.eval", bytes(range(256)))
    done = repository.run()
    assert done.returncode == 0, done.stdout
    assert "files skipped" in done.stdout


TAKEN = (
    "run.jsonl", "a/b/run.ndjson", "captures/login.har", "x.har", "logs/task.eval", "cassettes/a.yaml",
    "tests/cassettes/deep/er/a.yml", "tests/recordings/turn.json", "my/transcript/t.json", "capture/x.json",
    "spec/vcr_cassettes/chat.yml", "tests/_vcr/a.yaml", "__recordings__/a/recording.json",
)  # fmt: skip
LEFT = (
    "package.json", "recordings.json", "src/cassettes.yaml", "old-recordings/x.json", ".github/workflows/ci.yml",
    "run.jsonl.gz", "cassettes/readme.md", "har.py", "evaluation.py",
)  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_files_that_may_be_recordings_are_taken(name) -> None:
    assert re.search(HOOK["files"], name)


@pytest.mark.parametrize("name", LEFT)
def test_other_files_are_left(name) -> None:
    assert not re.search(HOOK["files"], name)


def test_folder_of_recordings_is_configurable(repository) -> None:
    for name in ("mine/run.json", "logs/run.jsonl"):
        repository.put(name, BAD.read_bytes())
    done = repository.run(files="^mine/")
    assert "mine/run.json:2" in done.stdout
    assert "logs/run.jsonl" not in done.stdout


def test_options_can_be_added(repository) -> None:
    repository.put("run.jsonl", GOOD.read_bytes())
    assert repository.run(args=["--min-reuse=0.5", "--ignore", "LORE2"]).returncode == 0
    assert "no-such" in repository.run(args=["--no-such"]).stdout


def test_all_files_are_judged_in_one_run(repository) -> None:
    for number in range(40):
        own = GOOD.read_bytes().replace(b"2026-11-20", b"20%02d-11-20" % number)  # copies would count once
        repository.put(f"logs/run {number}.jsonl", own)
    done = repository.run()
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("pairs compared") == 1
    assert "40 files" in done.stdout
