"""A test of each module is found by the module's name."""

from __future__ import annotations

from pathlib import Path

from helpers.each import each
from helpers.finding import files_for, modules


@each(modules())
def test_every_module_has_a_test(module):
    assert files_for(module)


def test_the_nearest_comes_first():
    assert files_for(Path("judge/policy.py"))[0] == "judge/test_policy.py"
    assert files_for(Path("formats/codex/items.py"))[0] == "formats/test_codex.py"
    assert files_for(Path("no/such.py")) == []
