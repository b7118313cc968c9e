"""A registry imports what is asked of it and nothing else; a pattern that is compiled at its first use is the same."""

from __future__ import annotations

import copy
import pickle
import re
import sys

import pytest

from lore.model.deferred import Places, pattern


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


def test_a_value_can_be_added_replaced_and_taken_out(package):
    places = Places(package, {"one": "one:One"})
    places["one"], places["three"] = 1, 3
    assert dict(places) == {"one": 1, "three": 3}
    del places["one"]
    assert (places.get("one"), list(places), "placed" in sys.modules) == (None, ["three"], False)


def test_what_is_no_pattern_says_so_at_its_first_use():
    lazy = pattern("(")
    with pytest.raises(re.error, match="unterminated"):
        lazy.search("x")


# What came out of a pickle asked itself for what it was made of, for ever: RecursionError.
@pytest.mark.parametrize("copied", [lambda lazy: pickle.loads(pickle.dumps(lazy)), copy.copy, copy.deepcopy])
@pytest.mark.parametrize("used", [False, True])
def test_a_pattern_can_be_sent_to_another_process(copied, used):
    lazy = pattern("(?P<b>B)", re.IGNORECASE)
    assert not used or lazy.search("b")
    assert copied(lazy).search("xb").groupdict() == {"b": "b"}
