"""What `make attack` runs: each class has inputs that lore holds against, and what fails is counted and said."""

from __future__ import annotations

from random import Random

import pytest

from helpers.credentials import SAMPLES
from soak import attack, attacks


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """What a class sets is taken back."""
    for name in ("HOME", "LORE_STATE", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "")


@pytest.mark.parametrize("name", attacks.CLASSES)
def test_lore_holds_against_some_inputs_of_every_class(name):
    make, many = attacks.CLASSES[name]
    tried, failed = attack.attacked(make, Random(1), 2 if many > 100 else 1)  # few are asked for where each is dear
    assert failed == []
    assert tried >= 1


def test_what_fails_is_counted_and_ends_with_exit_code_1(capsys):
    def fails():
        raise KeyError("no such thing")

    def make(_, count):
        yield from [attacks.Attack("one that fails", fails), attacks.Attack("another", lambda: None)][:count]

    assert attack.main(["--share", "1"], {"made up": (make, 2)}) == 1
    said = capsys.readouterr().out
    assert "made up: 2 inputs, 1 failures\n  one that fails: KeyError at test_attack.py:" in said
    assert said.endswith("2 inputs, 1 failures (seed 24)\n")
    assert attack.main(["--only", "made up"], {"made up": (lambda *_: iter(()), 2)}) == 0


def test_the_same_seed_makes_the_same_inputs(desk):
    for make in (attacks.files, attacks.escapes, attacks.controls, attacks.nesting):
        first, again = ([one.name for one in make(Random("24:x"), 9)] for _ in range(2))
        assert first == again
        assert len(first) == 9


def test_a_report_that_showed_a_control_would_fail(desk, monkeypatch):
    monkeypatch.setattr(attacks, "_reported", lambda report: "red \x1b[31m")
    (one,) = attacks.controls(Random(1), 1)
    with pytest.raises(AssertionError, match="holds"):
        one.run()


def test_what_must_not_be_shown_of_a_credential_is_not_empty():
    """A class that looks for nothing finds nothing, or finds it everywhere."""
    assert min(len(attacks.unshown(sample)) for sample in SAMPLES.values()) >= 8


def test_a_credential_that_is_shown_would_fail(desk, monkeypatch):
    monkeypatch.setattr(attacks, "_reported", lambda report: "".join(sample.text for sample in SAMPLES.values()))
    for one in attacks.credentials(Random(1), 5):
        with pytest.raises(AssertionError, match="shows it"):
            one.run()
