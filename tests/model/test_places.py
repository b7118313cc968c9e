"""A registry imports what is asked of it, and nothing else."""

from __future__ import annotations

import sys

import pytest

from lore.model.places import Places


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Make a package of two modules, each with a class, and count in `made` what is made of them."""
    (tmp_path / "placed").mkdir()
    (tmp_path / "placed" / "one.py").write_text("class One:\n    pass\n")
    (tmp_path / "placed" / "two.py").write_text("class Two:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "placed"
    for name in [name for name in sys.modules if name.split(".")[0] == "placed"]:
        del sys.modules[name]


def test_listing_names_imports_nothing(package):
    places = Places(package, {"one": "one:One", "two": "two:Two"})
    assert (list(places), len(places), "one" in places, "three" in places) == (["one", "two"], 2, True, False)
    assert "placed" not in sys.modules
    assert places["one"] is places["one"] is sys.modules["placed.one"].One
    assert "placed.two" not in sys.modules


def test_what_stands_at_a_place_is_made_once(package):
    places = Places(package, {"one": "one:One"}, made=lambda kind: kind())
    assert places["one"] is places["one"]
    assert type(places["one"]).__name__ == "One"


def test_a_value_can_be_added_replaced_and_taken_out(package):
    places = Places(package, {"one": "one:One"})
    places["one"], places["three"] = 1, 3
    assert dict(places) == {"one": 1, "three": 3}
    del places["one"]
    assert (places.get("one"), list(places), "placed" in sys.modules) == (None, ["three"], False)
