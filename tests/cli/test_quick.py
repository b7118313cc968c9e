"""Two files that cannot be recordings: the short way answers what the command answers."""

from __future__ import annotations

import pytest

from cli.running import lore
from lore.commands.main import bytes_only


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a\x1b.bin").write_bytes(b"\x00same" + b"x" * 300_000 + b"1")
    (tmp_path / "b.txt").write_bytes(b"\x00same" + b"x" * 300_000 + b"2 and more")
    (tmp_path / "c.json").write_bytes(b' {"model":"m"}')
    return tmp_path


@pytest.mark.parametrize("names", [("a\x1b.bin", "b.txt"), ("b.txt", "a\x1b.bin")])
def test_both_ways_say_the_same(files, names):
    assert bytes_only(["diff-prefix", *names]) == lore("diff-prefix", "--no-color", *names).out


@pytest.mark.parametrize(
    "args",
    [
        ("diff-prefix", "a\x1b.bin", "c.json"),
        ("diff-prefix", "a\x1b.bin", "a\x1b.bin"),
        ("diff-prefix", "a\x1b.bin", "nowhere"),
        ("diff-prefix", "a\x1b.bin", "."),
        ("diff-prefix", "a\x1b.bin", "-"),
        ("diff-prefix", "a\x1b.bin", "b.txt", "--json"),
        ("check", "a\x1b.bin", "b.txt"),
    ],
)
def test_what_may_be_more_than_bytes_is_left_to_the_command(files, args):
    assert bytes_only(list(args)) is None


def test_a_plug_in_for_other_formats_is_asked(files, monkeypatch):
    monkeypatch.setattr("lore.plugins.published_by_others", lambda _: ["a reader"])
    assert bytes_only(["diff-prefix", "a\x1b.bin", "b.txt"]) is None
