"""What the README shows is what the commands print, and every command and option has its words."""

import json
import re
import shutil
import textwrap
from pathlib import Path
from typing import Any

import pytest

from lore import Session
from lore.cli.main import main
from lore.model.events import PromptDelta

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")

SHOWN = re.findall(r"^    lore ([^\n]+)\n\nprints\n\n((?:    [^\n]*\n|\n)+?)(?=\n?[^ \n])", README, re.MULTILINE)


def test_the_readme_shows_outputs() -> None:
    assert [command.split()[0] for command, _ in SHOWN] == ["diff-prefix", "check", "simulate", "fold", "diff-prefix"]


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command for command, _ in SHOWN])
def test_a_command_of_the_readme_prints_what_the_readme_says(
    command: str, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    main(command.split())
    printed = capsys.readouterr().out
    assert [line.rstrip() for line in printed.rstrip().split("\n")] == [
        line[4:].rstrip() for line in shown.rstrip().split("\n")
    ]


@pytest.mark.parametrize(
    "command", ["assemble", "diff-prefix", "check", "fold", "convert", "knowledge", "explain", "schema", "simulate"]
)
def test_every_command_stands_in_the_readme(command: str) -> None:
    assert f"lore {command}" in README


def test_the_commands_of_the_readme_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    commands = re.findall(
        r"^    lore ((?:assemble|fold|check|diff-prefix|knowledge list)[^\n|]*)$", README, re.MULTILINE
    )
    commands = [one for one in commands if "tests/recordings" not in one and "sqlite:" not in one]
    assert [main(command.split()) for command in commands] == [1 if "check" in one else 0 for one in commands]
    assert "error" not in capsys.readouterr().err


def test_the_commands_of_stores_in_the_readme_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^    lore ([^\n#]*sqlite:\S+)", README, re.MULTILINE)
    assert len(commands) == 6
    recordings = str(ROOT / "fixtures" / "claude-code")
    for command in commands:
        said = command.replace("~/.claude/projects", recordings).replace(
            "SESSION_ID", "0f9f6c1e-5b1a-4c53-9d4e-6a2f5b0c7d11"
        )
        assert main(said.split()) in ((0, 1) if said.startswith("check") else (0,)), said
    assert "error" not in capsys.readouterr().err


def test_the_settings_and_the_baseline_of_the_readme_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "fixtures" / "recordings", tmp_path / "tests" / "recordings")
    settings = re.search(r"^(    \[check\]\n.*?reason = [^\n]*\n)", README, re.MULTILINE | re.DOTALL)
    assert settings is not None
    monkeypatch.chdir(tmp_path)
    Path("lore.toml").write_text(textwrap.dedent(settings[1]), "utf-8")
    assert main(["check", "tests/recordings"]) == 1
    Path("lore.toml").unlink()
    commands = re.findall(r"^    lore (check tests/recordings [^\n]*)$", README, re.MULTILINE)
    assert [main(command.split()) for command in commands] == [0, 0]
    assert "error" not in capsys.readouterr().err
    assert json.loads(Path("lore-baseline.json").read_text("utf-8"))


def test_the_example_of_the_library_runs_and_keeps_its_prefix() -> None:
    example = re.search(r"^(    from lore import Session.*?)(?=^Tool calls)", README, re.MULTILINE | re.DOTALL)
    assert example is not None
    names: dict[str, Any] = {}
    exec(textwrap.dedent(example[1]), names)  # noqa: S102 - the README is ours
    first, second = (json.loads(names[name])["messages"] for name in ("first", "second"))
    said = [[block["text"] for one in body for block in one["content"]] for body in (first, second)]
    assert said[0][:1] == said[1][:1] == ["What is new?"]
    assert "1.0 is out." in said[1][2]
    assert [said[1][1], *said[1][3:]] == ["Nothing.", "And now?", "[current-time]\n09:05"]
    for kept in (names["log"], [one for one in names["log"] if not isinstance(one, PromptDelta)]):
        again = Session.restore(kept)
        assert again.write(again.assembled().prompt) == names["second"]
