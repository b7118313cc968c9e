"""What the README shows is what the commands print, and every command and option has its words."""

import re
from pathlib import Path

import pytest

from lore.cli.main import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")

SHOWN = re.findall(r"^    lore ([^\n]+)\n\nprints\n\n((?:    [^\n]*\n|\n)+?)(?=\n?[^ \n])", README, re.MULTILINE)


def test_the_readme_shows_outputs() -> None:
    assert [command.split()[0] for command, _ in SHOWN] == ["diff-prefix", "check", "fold"]


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


@pytest.mark.parametrize("command", ["assemble", "diff-prefix", "check", "fold", "convert", "explain", "schema"])
def test_every_command_stands_in_the_readme(command: str) -> None:
    assert f"lore {command}" in README


def test_the_commands_of_the_readme_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    commands = re.findall(r"^    lore ((?:assemble|fold|check|diff-prefix)[^\n]*)$", README, re.MULTILINE)
    assert [main(command.split()) for command in commands] == [1 if "check" in one else 0 for one in commands]
    assert "error" not in capsys.readouterr().err
