"""Patterns of settings: which paths and names they mean."""

from __future__ import annotations

import pytest

from lore.judge.policy import matches_name, matches_path


@pytest.mark.parametrize(
    ("pattern", "path", "meant"),
    [
        ("logs/a.jsonl", "logs/a.jsonl", True),
        ("./logs/a.jsonl", "logs/a.jsonl", True),
        ("logs", "logs/b/a.jsonl", True),
        ("logs/", "logs/a.jsonl", True),
        ("logs", "logs2/a.jsonl", False),
        ("logs/*", "logs/a.jsonl", True),
        ("logs/*.jsonl", "logs/b/a.jsonl", False),
        ("logs/**/*.jsonl", "logs/a.jsonl", True),
        ("logs/**/*.jsonl", "logs/b/c/a.jsonl", True),
        ("logs/**", "logs/b/a.jsonl", True),
        ("**/a.jsonl", "a.jsonl", True),
        ("**/a.jsonl", "x/ba.jsonl", False),
        ("?.jsonl", "a.jsonl", True),
        ("?.jsonl", "ab.jsonl", False),
        ("[ab].jsonl", "a.jsonl", True),
        ("[!ab].jsonl", "a.jsonl", False),
        ("[!ab].jsonl", "c.jsonl", True),
        ("[a-c].jsonl", "b.jsonl", True),
        ("[z-a].jsonl", "b.jsonl", False),
        ("a+(b).jsonl", "a+(b).jsonl", True),
        ("a\nb", "a\nb", True),
        (".", "logs/a.jsonl", True),
        ("./", "a.jsonl", True),
        (".", "../a.jsonl", False),
    ],
)
def test_a_pattern_means_these_paths(pattern, path, meant):
    assert matches_path(pattern, path) is meant


# `[messages]` was one of the letters in it, so a cassette could not be named by the path that reports show.
def test_a_path_with_brackets_is_named_by_itself():
    path = "cassettes/test_it[messages-1].yaml"
    assert matches_path(path, path)
    assert matches_path("cassettes/test_it[1]", "cassettes/test_it[1]/a.yaml")
    assert not matches_path("cassettes/test_it[1]", "cassettes/test_it[1]b.yaml")


@pytest.mark.parametrize(
    ("pattern", "name", "meant"),
    [
        ("system[1].text", "system[1].text", True),
        ("system[1].text", "system1.text", False),
        ("system[*].text", "system[12].text", True),
        ("agent-*", "agent-7", True),
        ("agent-*", "main", False),
    ],
)
def test_a_name_is_meant_as_it_is_and_a_star_stands_for_anything(pattern, name, meant):
    assert matches_name(pattern, name) is meant
