"""Removed commands and options are answered with what to use instead."""

from __future__ import annotations

from lore.commands.check import CheckOptions
from lore.commands.main import main
from lore.commands.removed import REMOVED


def test_removed_command_names_its_replacement(monkeypatch, capsys):
    monkeypatch.setitem(REMOVED, "tarot", "Use `lore simulate`.")
    assert main(["tarot"]) == 2
    assert capsys.readouterr().err == "error: lore tarot was removed\nhint: Use `lore simulate`.\n"


def test_removed_option_names_its_replacement(monkeypatch, capsys, desk):
    monkeypatch.setitem(REMOVED, "check --tarot", "Use --budget.")
    assert main(["check", "--tarot", "x"]) == 2
    assert capsys.readouterr().err == "error: lore check --tarot was removed\nhint: Use --budget.\n"


def test_check_has_at_most_16_options():
    assert len(CheckOptions.__struct_fields__) - 1 <= 16  # the paths are no option


def test_every_removed_name_is_gone():
    from lore.commands.table import COMMANDS

    assert not COMMANDS.keys() & REMOVED.keys()
    assert all(sentence.endswith(".") for sentence in REMOVED.values())
