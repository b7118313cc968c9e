"""Inputs: files, folders and patterns, each file once."""

import os

import pytest

from cli.running import put
from golden.cases import FIXTURES
from lore.errors import LoreError
from lore.recording.inputs import drop_copies, inputs
from lore.recording.opening import Options

FILES = (
    "logs/a.jsonl",
    "logs/b.txt",
    "logs/deep/er/c.jsonl",
    "logs/deep/d.jsonl",
    "logs/.hidden.jsonl",
    "logs/.git/e.jsonl",
)
SENT = b'{"model":"claude-haiku-4-5","max_tokens":64,"messages":[{"role":"user","content":"weigh the pears"}]}'


@pytest.fixture
def tree(desk):
    for name in FILES:
        put(name, b"x")
    return desk


def paths(*names):
    return [file.path for file in inputs(list(names))]


@pytest.mark.parametrize(("pattern", "expected"), [
    ("logs/*.jsonl", ["logs/a.jsonl"]),
    ("logs/**/*.jsonl", ["logs/a.jsonl", "logs/deep/d.jsonl", "logs/deep/er/c.jsonl"]),
    ("**/*.jsonl", ["logs/a.jsonl", "logs/deep/d.jsonl", "logs/deep/er/c.jsonl"]),
    ("./logs/[ab].*", ["./logs/a.jsonl", "./logs/b.txt"]),
    ("logs/*/?.jsonl", ["logs/deep/d.jsonl"]),
    ("l*s/deep/d.jsonl", ["logs/deep/d.jsonl"]),
    ("logs/d*", ["logs/deep/d.jsonl", "logs/deep/er/c.jsonl"]),
    ("logs/*/", ["logs/deep/d.jsonl", "logs/deep/er/c.jsonl"]),
    ("logs/**", ["logs/a.jsonl", "logs/b.txt", "logs/deep/d.jsonl", "logs/deep/er/c.jsonl"]),
    ("logs/.h*", ["logs/.hidden.jsonl"]),
    ("logs/**/**/c*", ["logs/deep/er/c.jsonl"]),
])  # fmt: skip
def test_pattern_lists_matches_sorted(tree, pattern, expected):
    assert paths(pattern) == expected


def test_file_with_exact_name_wins_over_pattern(tree):
    put("logs/[ab].jsonl", b"x")
    assert [(file.path, file.is_named) for file in inputs(["logs/[ab].jsonl"])] == [("logs/[ab].jsonl", True)]


def test_pattern_without_matches_is_an_error(tree):
    with pytest.raises(LoreError, match=r"nothing matches logs/\*\.json") as caught:
        inputs(["logs/*.json"])
    assert "hidden" in caught.value.hint
    failed = [file for file in inputs(["logs", "logs/*.json"]) if file.error is not None]
    assert [(file.path, file.is_only) for file in failed] == [("logs/*.json", False)]


def test_empty_folder_beside_others_is_an_error(tree):
    os.makedirs("empty")
    assert [str(file.error) for file in inputs(["logs", "empty"]) if file.error] == ["a folder without recordings"]
    assert inputs(["empty"]) == []


@pytest.mark.parametrize("pattern", ["none/**", "none/*.jsonl", "none/**/*.jsonl"])
def test_pattern_below_missing_folder_is_an_error(tree, pattern):
    with pytest.raises(LoreError, match="nothing matches none/") as caught:
        inputs([pattern])
    assert caught.value.hint == "there is no folder none/"


def test_files_of_pattern_or_folder_are_not_named(tree):
    assert {file.is_named for file in inputs(["logs/*", "logs"])} == {False}


@pytest.mark.parametrize("names", [
    ("logs", "logs/a.jsonl", "logs/**/*"),
    ("logs/", "logs"),
    ("logs", "./logs/../logs"),
    ("-", "-", "logs", "logs"),
])  # fmt: skip
def test_file_reached_twice_is_judged_once(tree, names):
    files = [os.path.realpath(file) for file in paths(*names)]
    assert len(files) == len(set(files)) == 4 + ("-" in names)


def test_link_to_a_file_is_read(tree):
    os.symlink("a.jsonl", "logs/z.jsonl")
    assert paths("logs") == ["logs/a.jsonl", "logs/b.txt", "logs/deep/d.jsonl", "logs/deep/er/c.jsonl"]


def test_file_keeps_first_place_and_is_named(tree):
    files = inputs(["logs/deep", "logs", "logs/deep/er/c.jsonl"])
    assert [(file.path, file.is_named) for file in files][:2] == [
        ("logs/deep/d.jsonl", False),
        ("logs/deep/er/c.jsonl", True),
    ]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names there")
def test_pipe_is_read_only_if_named(tree):
    os.mkfifo("logs/pipe")
    assert "logs/pipe" not in paths("logs", "logs/*")
    assert [(file.path, file.stream) for file in inputs(["logs/pipe"])] == [("logs/pipe", True)]


def test_sizes_are_known_before_anything_is_read(tree):
    assert [file.size for file in inputs(["logs/a.jsonl", "none", "-"])] == [1, 0, 0]


def test_equal_logs_without_ids_are_one_input(desk):
    """Requests of these formats have no ids, by which copies are found."""
    for name in ("flue/session.json", "sidecode/session.jsonl", "openfang/session.jsonl", "codex-exec/run.jsonl"):
        data = (FIXTURES / name).read_bytes()
        files = [put(f"{place}/{name}", data) for place in ("b", "a")]
        assert [file.path for file in drop_copies(inputs(files), Options())] == [f"a/{name}"]
    bodies = [put(f"{place}.json", SENT) for place in "ab"]  # the same request may have been sent twice
    assert [file.path for file in drop_copies(inputs(bodies), Options())] == bodies
