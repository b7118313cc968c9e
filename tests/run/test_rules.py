"""The rules in force: the packaged tables, a user's file over them, and a note on later recordings."""

import os
from datetime import date
from decimal import Decimal

import pytest

from lore.cache.base import Simulate
from lore.cache.breakpoint_rules import seconds
from lore.cache.rules import DatedRules
from lore.config import Loaded, Settings
from lore.errors import LoreError
from lore.model.limits import RULES_BYTES
from lore.run.rules import Dated, load, packaged

OWN = "[[rules]]\nrule='price_read'\nprovider='anthropic'\nmodel='claude-opus-5'\nvalue={}\n"


def read_price(rules):
    return rules.price("anthropic", "claude-opus-5").read


def test_user_rules_override_packaged_rules(tmp_path):
    file = tmp_path / "own.toml"
    file.write_bytes(b"\xef\xbb\xbfas_of = 2027-02-01\n" + OWN.format(0.25).encode())
    rules = load(str(file))
    assert read_price(rules) == Decimal("0.25")
    assert rules.as_of == date(2027, 2, 1)
    older = tmp_path / "older.toml"
    older.write_text("as_of = 2020-01-01\n" + OWN.format(1), "utf-8")
    assert load(str(older)).as_of == packaged().as_of


def test_rules_option_overrides_rules_of_settings(tmp_path):
    (tmp_path / "own.toml").write_text(OWN.format(1), "utf-8")
    (tmp_path / "given.toml").write_text(OWN.format(2), "utf-8")
    loaded = Loaded(Settings(simulate=Simulate(rules="own.toml")), tmp_path / "lore.toml")
    assert read_price(Dated.of(loaded).rules()) == 1
    assert read_price(Dated.of(loaded, str(tmp_path / "given.toml")).rules()) == 2
    assert Dated.of(Loaded(Settings())).rules() is packaged()
    settings = Loaded(Settings(simulate=Simulate(rules=str(tmp_path / "own.toml"))))
    assert read_price(Dated.of(settings).rules()) == 1


@pytest.mark.skipif(os.name == "nt", reason="no such pipes")
def test_rules_in_a_pipe_are_refused(tmp_path):
    os.mkfifo(tmp_path / "own.toml")
    with pytest.raises(LoreError, match="not a regular file"):
        load(str(tmp_path / "own.toml"))
    with pytest.raises(LoreError, match="not a regular file"):
        load(os.devnull)


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"\xff\xfe", "is not UTF-8 text"), (b"#" * (RULES_BYTES + 1), "holds more than 4 MiB"),
     (b"[[rules]]\nrulee='x'\n", "rules 1: unknown key 'rulee'")],
)  # fmt: skip
def test_invalid_rules_file_is_one_error(tmp_path, data, message):
    file = tmp_path / "own.toml"
    file.write_bytes(data)
    with pytest.raises(LoreError, match=message) as caught:
        load(str(file))
    assert str(file) in caught.value.message


@pytest.mark.parametrize("name", ["none.toml", ".", "a\0b"])
def test_unreadable_rules_file_is_one_error(tmp_path, name):
    with pytest.raises(LoreError, match="cannot read"):
        load(f"{tmp_path}/{name}")


def test_recording_after_the_rules_is_newer_than_them():
    rules = DatedRules((), date(2026, 10, 24))
    assert not rules.is_older_than(seconds(date(2026, 10, 24)))
    assert rules.is_older_than(seconds(date(2026, 10, 25)))
    assert not rules.is_older_than(None)
