"""The outside world: names, pieces, heads, folders, literal prefixes."""

import os

import pytest

from helpers.each import each
from lore.errors import LoreError
from lore.recording import corpus
from lore.recording.corpus import Name, common_length, files_below, open_head, parse_name, pieces, show


@each("text, name", [
    ("a.jsonl", Name("a.jsonl")),
    ("-", Name("-")),
    ("-#3", Name("-", None, 3)),
    ("a.jsonl#3", Name("a.jsonl", None, 3)),
    ("a.jsonl#agent-1:3", Name("a.jsonl", "agent-1", 3)),
    ("a#b.jsonl#main:0", Name("a#b.jsonl", "main", 0)),
    ("a.jsonl#x", Name("a.jsonl#x")),
    ("a.jsonl#", Name("a.jsonl#")),
    ("#3", Name("#3")),
    ("a.jsonl#9999999999999", Name("a.jsonl#9999999999999")),
    ("a\0#1", Name("a\0", None, 1)),
])  # fmt: skip
def test_name_is_parsed_into_path_and_turn(text, name):
    assert parse_name(text) == name


def test_existing_file_wins_over_turn_selector(tmp_path):
    path = tmp_path / "a.jsonl#3"
    path.write_bytes(b"x")
    assert parse_name(str(path)) == Name(str(path))


@pytest.mark.parametrize("text", ["a", "a#3", "a#side:3", "<stdin>"])
def test_name_of_recording_is_shown_as_given(text):
    assert str(parse_name(text)) == text


def test_names_that_are_no_text_can_be_shown():
    assert show(os.fsdecode(b"a\xffb")) == "a\\xffb"
    assert show("-") == "<stdin>"


def test_device_is_refused_as_recording():
    with pytest.raises(LoreError, match="not a file"):
        list(pieces(os.devnull))


@pytest.mark.parametrize(
    "data", [b"", b"{}\n" * 5, b"{" + b"x" * 600_000, b"{" + b"x" * 600_000 + b"\n{}\n", b"\x00" * 600_000]
)
def test_open_head_keeps_all_bytes(tmp_path, data):
    path = tmp_path / "f"
    path.write_bytes(data)
    opened = open_head(str(path))
    assert data.startswith(opened.head)
    assert b"".join(opened.data) == data


def test_files_below_are_sorted_without_hidden_ones(tmp_path):
    for name in ("b/2", "b/1", "a", ".hidden", ".git/x", "c"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
    paths = [os.path.relpath(file, tmp_path) for file in files_below(str(tmp_path), lambda *_: None)]
    assert paths == ["a", "c", os.path.join("b", "1"), os.path.join("b", "2")]


BIG = b"x" * corpus.HEAD


@pytest.mark.parametrize(("first", "right", "common"), [
    (b"", b"", 0),
    (b"abc", b"abd", 2),
    (b"abc", b"abcd", 3),
    (BIG, BIG, len(BIG)),
    (BIG + b"a", BIG + b"b", len(BIG)),
    (BIG * 3 + b"a", BIG * 3, 3 * len(BIG)),
    (b"a" + BIG, b"b" + BIG * 2, 0),
])  # fmt: skip
def test_the_literal_prefix_of_two_files_is_counted(tmp_path, first, right, common):
    paths = [tmp_path / "l", tmp_path / "r"]
    for path, data in zip(paths, (first, right), strict=True):
        path.write_bytes(data)
    assert common_length(*map(str, paths)) == (len(first), len(right), common)
    assert common_length(*map(str, reversed(paths))) == (len(right), len(first), common)


def test_turn_of_a_missing_name_gives_a_hint(tmp_path):
    """`lore fold log.jsonl#2` and `lore compact log.jsonl#2 --dry-run` said "no such file" of a file that is there."""
    log = tmp_path / "log.jsonl"
    log.write_text('{"kind":"session_started"}\n')
    with pytest.raises(LoreError) as failed:
        next(pieces(f"{log}#2"))
    assert "leave #TURN out" in failed.value.hint
    with pytest.raises(LoreError) as failed:
        next(pieces(str(tmp_path / "none.jsonl")))
    assert failed.value.hint == ""


@pytest.mark.parametrize("name", ["ftp://x", "FTP://host/log.jsonl#2", "file:///etc/hosts", "gopher://x"])
def test_unknown_scheme_names_known_ones(name):
    """`lore check ftp://x` said "no such file or directory"."""
    with pytest.raises(LoreError, match="lore reads nothing from (?i:ftp|file|gopher)://") as failed:
        next(pieces(name))
    assert "s3://" in failed.value.hint
