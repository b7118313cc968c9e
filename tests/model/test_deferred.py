"""A registry imports only the value that is asked for; a deferred pattern is compiled at its first use."""

import copy
import pickle
import re
import sys

import pytest

from lore.model.deferred import Registry, pattern


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Write a package of two modules, each with a class."""
    (tmp_path / "placed").mkdir()
    (tmp_path / "placed" / "one.py").write_text("class One:\n    pass\n")
    (tmp_path / "placed" / "two.py").write_text("class Two:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield {"one": "placed.one:One", "two": "placed.two:Two"}
    for name in [name for name in sys.modules if name.split(".")[0] == "placed"]:
        del sys.modules[name]


def test_registry_imports_only_what_is_asked_for(package):
    registry = Registry(package)
    assert (list(registry), "one" in registry, registry.get("three")) == (["one", "two"], True, None)
    assert "placed" not in sys.modules
    assert registry["one"] is registry["one"] is sys.modules["placed.one"].One
    assert "placed.two" not in sys.modules


def test_registry_makes_a_value_once(package):
    registry = Registry(package, make=lambda found: found())
    assert registry["one"] is registry["one"]
    assert type(registry["one"]) is sys.modules["placed.one"].One
    registry["one"] = 1
    assert registry["one"] == 1


def test_faulty_pattern_raises_at_its_first_use():
    lazy = pattern("(")
    with pytest.raises(re.error, match="unterminated"):
        lazy.search("x")


@pytest.mark.parametrize("copied", [lambda lazy: pickle.loads(pickle.dumps(lazy)), copy.copy, copy.deepcopy])
def test_deferred_pattern_can_be_copied(copied):
    lazy = pattern("(?P<b>B)", re.IGNORECASE)
    assert copied(lazy).search("xb").groupdict() == {"b": "b"}
