"""A pattern that is compiled at its first use is the same as one that is compiled at once."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from lore.model.patterns import pattern


@pytest.mark.parametrize(("text", "subject"), [(r"(a)(?P<b>B)", "xxAbx"), (rb"(a)(?P<b>B)", b"xxAbx")])
def test_a_pattern_finds_what_a_compiled_one_finds(text, subject):
    lazy, compiled = pattern(text, re.IGNORECASE), re.compile(text, re.IGNORECASE)
    for _ in range(2):  # compiled now, and kept
        assert lazy.search(subject).groupdict() == compiled.search(subject).groupdict()
        assert lazy.sub(text[:0], subject) == compiled.sub(text[:0], subject)
    assert (lazy.pattern, lazy.flags, lazy.groups) == (compiled.pattern, compiled.flags, compiled.groups)


def test_a_pattern_is_compiled_once_and_not_before_it_is_used(monkeypatch):
    compiled, compiler = [], re.compile
    monkeypatch.setattr(re, "compile", lambda *given: compiled.append(given) or compiler(*given))
    lazy = pattern("a+")
    assert compiled == []
    assert [bool(lazy.search(text)) for text in ("a", "b", "caa")] == [True, False, True]
    assert compiled == [("a+", 0)]


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
