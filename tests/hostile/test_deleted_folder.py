"""A current folder that was deleted: files with an absolute path are read all the same."""

import os
import sys
from pathlib import Path

import pytest

from hostile.making import TWO, assert_refused

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a current folder cannot be deleted there")
COMMANDS = (
    "check", "check -j 2", "fold", "simulate", "diff-prefix", "assemble", "report", "convert --to lore",
    "compact --dry-run",
)  # fmt: skip


@pytest.fixture
def log(desk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log, named by its absolute path; the current folder was deleted."""
    monkeypatch.setenv("HOME", str(desk))
    path = desk / "log"
    path.write_bytes(TWO)
    gone = desk / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    yield path
    os.chdir(desk)


@pytest.mark.parametrize("command", COMMANDS)
def test_absolute_path_is_read_in_deleted_folder(lore, log, command):
    name, *options = command.split()
    ended = lore(name, str(log), *options)
    assert (ended.code, "error" in ended.err) == (0, False)


def test_absolute_settings_are_read_in_a_deleted_folder(lore, log):
    settings = log.with_name("lore.toml")
    settings.write_text('[[check.exempt]]\npath = "old/*.jsonl"\ncode = "LORE101"\nreason = "known"\n', "utf-8")
    assert lore("check", str(log), "--config", str(settings)).code in (0, 1)


def test_sessions_are_listed_in_deleted_folder(lore, log):
    assert lore("sessions").code == 0


@pytest.mark.parametrize("name", ["log", "."])
def test_relative_path_is_refused_in_deleted_folder(lore, log, name):
    assert_refused(lore("check", name))
