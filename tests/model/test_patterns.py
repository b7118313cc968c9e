"""Patterns of settings: which paths and names they match, and in how many steps."""

from time import process_time

import pytest

from helpers.each import each
from lore.model.patterns import PathIndex, PathPattern, matches_name, matches_shell


@each("pattern, path, meant", [
    ("logs/a.jsonl", "logs/a.jsonl", True),
    ("logs", "logs/b/a.jsonl", True),
    ("logs", "logs2/a.jsonl", False),
    ("logs/*.jsonl", "logs/b/a.jsonl", False),
    ("logs/**/*.jsonl", "logs/a.jsonl", True),
    ("logs/**/*.jsonl", "logs/b/c/a.jsonl", True),
    ("**/a.jsonl", "a.jsonl", True),
    ("**/a.jsonl", "x/ba.jsonl", False),
    ("?.jsonl", "a.jsonl", True),
    ("?.jsonl", "ab.jsonl", False),
    ("[ab].jsonl", "a.jsonl", True),
    ("[!ab].jsonl", "c.jsonl", True),
    ("a[!b]c.jsonl", "a/c.jsonl", False),
    ("[z-a].jsonl", "b.jsonl", False),
    ("a+(b).jsonl", "a+(b).jsonl", True),
    ("a\nb", "a\nb", True),
    (".", "logs/a.jsonl", True),
    (".", "../a.jsonl", False),
    ("a/**/b", "a/b", True),
    ("a/**/b*c", "a/bx/byc", True),
    ("[]a].jsonl", "].jsonl", True),
    ("[].jsonl", "[].jsonl", True),
    ("[^~|&&].jsonl", "&.jsonl", True),
])  # fmt: skip
def test_pattern_names_these_paths(pattern, path, meant):
    assert PathPattern(pattern).matches(path) is meant
    assert PathIndex(["other", pattern]).numbers(path) == [1] * meant


# `[messages]` was one of the letters in it, so a cassette could not be named by the path that reports show.
def test_path_with_brackets_is_named_by_itself():
    path = "cassettes/test_it[messages-1].yaml"
    assert PathPattern(path).matches(path)
    assert PathPattern("cassettes/test_it[1]").matches("cassettes/test_it[1]/a.yaml")
    assert not PathPattern("cassettes/test_it[1]").matches("cassettes/test_it[1]b.yaml")


@each("pattern, name, meant", [
    ("system[1].text", "system[1].text", True),
    ("system[*].text", "system[12].text", True),
    ("agent-*", "agent-7", True),
    ("a*a", "a", False),
    ("a*b*c", "a-c-b-c", True),
    ("a*b*c", "a-c-b", False),
    ("**", "", True),
])  # fmt: skip
def test_star_in_name_pattern_matches_any_text(pattern, name, meant):
    assert matches_name(pattern, name) is meant


@pytest.mark.parametrize(("pattern", "name", "meant"), [
    ("gpt-5.[6-9]*", "gpt-5.7-mini", True),
    ("gpt-5.[6-9]*", "gpt-5.1", False),
    ("o?-mini", "o4-mini", True),
    ("claude-*", "claude-opus-5", True),
    ("claude-*", "my-claude-opus-5", False),
])  # fmt: skip
def test_shell_pattern_matches_model_name(pattern, name, meant):
    assert matches_shell(pattern, name) is meant


STARS, LETTERS = "*a" * 15 + "*zzz", "a" * 83


@pytest.mark.parametrize(("pattern", "path"), [
    (STARS, LETTERS),
    ("**/" + "**" + STARS, "a/" * 41),
    ("[ab]*" * 15 + "z", LETTERS),
    ("**a" * 15 + "z", LETTERS),
    ("**/*a" * 15 + "z", "a/" * 41),
])  # fmt: skip
def test_many_stars_in_path_end_in_time(pattern, path):
    """`*a*a…*zzz`, as one backtracking expression, took over 40 s on a name of 83 times `a`."""
    compiled = PathPattern(pattern)
    begin = process_time()
    assert not compiled.matches(path)
    assert process_time() - begin < 1


def test_many_stars_in_name_search_each_text_once():
    class Name(str):
        __slots__ = ("searches",)

        def find(self, *where):
            self.searches += 1
            return super().find(*where)

    name = Name(LETTERS)
    name.searches = 0
    assert not matches_name(STARS, name)
    assert not matches_name("*a" * 15 + "*z*a", name)
    assert name.searches <= 32


def test_index_compares_path_with_patterns_of_its_folders(monkeypatch):
    index = PathIndex([*(f"logs/{number}/*.jsonl" for number in range(1_000)), *(f"a{n}.jsonl" for n in range(1_000))])
    compared = []
    matches = PathPattern.matches
    monkeypatch.setattr(PathPattern, "matches", lambda self, path: compared.append(path) or matches(self, path))
    assert index.numbers("logs/7/a.jsonl") == [7]
    assert index.numbers("a5.jsonl") == [1_005]
    assert len(compared) == 1
