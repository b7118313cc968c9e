"""`make attack`: each class has inputs that lore answers, and failures are counted."""

from random import Random

import pytest

from soak import attack, attacks


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Restore the variables that a class sets."""
    for name in ("HOME", "LORE_STATE", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "")


# Writers that run at the same time are in every store's contract, too.
SELDOM = [pytest.mark.soak]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=SELDOM if name == "concurrent writers" else []) for name in attacks.CLASSES]
)
def test_lore_answers_some_inputs_of_each_class(name):
    make, many = attacks.CLASSES[name]
    tried, failed = attack.attacked(make, Random(1), 2 if many > 100 else 1)  # one of the slow classes
    assert failed == []
    assert tried >= 1


def test_failed_attack_is_counted_and_exits_1(capsys):
    def fails():
        raise KeyError("no such thing")

    def make(_, count):
        yield from [attacks.Attack("one that fails", fails), attacks.Attack("another", lambda: None)][:count]

    assert attack.main(["--share", "1"], {"made up": (make, 2)}) == 1
    said = capsys.readouterr().out
    assert "made up: 2 inputs, 1 failures\n  one that fails: KeyError at test_attack.py:" in said
    assert said.endswith("2 inputs, 1 failures (seed 24)\n")
    assert attack.main(["--only", "made up"], {"made up": (lambda *_: iter(()), 2)}) == 0


def test_same_seed_makes_same_inputs(desk):
    for make in (attacks.files, attacks.nesting):
        first, again = ([one.name for one in make(Random("24:x"), 9)] for _ in range(2))
        assert first == again
        assert len(first) == 9
